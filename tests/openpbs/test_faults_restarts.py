#!/usr/bin/env python3
"""Three hundred submissions while PBS restarts the hooks' interpreter every second: every verdict right, nothing lost, no memory lost.

Run as root: `tests/openpbs/run test_faults_restarts`. Takes about three minutes.
"""

import concurrent.futures
import pathlib
import re
import statistics
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from promises import expect_free, libra_log, terms  # noqa: E402
from test_faults import OneSite  # noqa: E402

MOST_PER_RESTART = 60  # kB
IDLE = "import pbs\npbs.event().accept()\n"
SHARE = 0.02


class Restarts(OneSite):
    """One cluster; its nodes have room for 90 of the jobs."""

    options = {"hosts": 2, "processors": 1}

    def setUp(self):
        self.pbs.qmgr("set server scheduling = false", "set server python_restart_max_hooks = 1", "set server python_restart_min_interval = 1")
        self.addCleanup(self.pbs.qmgr, "unset server python_restart_max_hooks", "unset server python_restart_min_interval")

    def restarts(self):
        return self.pbs.log().count("Restarting Python interpreter to reduce mem usage")

    def resident(self):
        """kB of the server's own memory; pages of files do not count."""
        status = pathlib.Path(f"/proc/{self.pbs.server_pid()}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", status)[1])

    def growth(self, restarts, submit):
        """kB per restart of the interpreter, the slope over so many restarts beside submissions after some for warming up."""
        points = []
        while not points or points[-1][0] < points[0][0] + 5 + restarts:
            submit()
            points.append((self.restarts(), self.resident()))
            time.sleep(0.1)
        warm = [point for point in points if point[0] >= points[0][0] + 5]
        return statistics.linear_regression(*zip(*warm)).slope, warm[-1][0] - warm[0][0]

    def test_verdicts(self):
        pbs = self.pbs
        n1, n2 = pbs.host_names
        before, accepted, told = self.restarts(), [], []
        memory = []
        bad = ["-l", "deadline=soon,estimate=10,budget=100"]
        poor = ["-l", "deadline=100,estimate=10,budget=1"]
        for number in range(100):
            asked = pbs.qsub(*terms(SHARE, pbs.host_names[number % 2]))
            if number < 90:
                self.assertEqual(asked.rc, 0, f"{number}: {asked.err}")
                self.assertIn(f"at={pbs.host_names[number % 2]}*1*0.02", pbs.qstat(asked.out)["Resource_List.libra_terms"])
                accepted.append(asked.out)
            else:
                pbs.qdel(asked.out)
            for arguments, reason in ((bad, "deadline"), (poor, "refused (budget)")):
                refused = pbs.qsub(*arguments)
                self.assertEqual(refused.rc, 32)
                self.assertIn(reason, refused.err)
                told.append(refused.err.splitlines()[0])  # what would be accepted depends on what is left
            memory.append((self.restarts(), self.resident()))
            time.sleep(0.15)
        restarts = self.restarts() - before
        self.assertGreater(restarts, 15)
        self.assertEqual(len(set(told)), 2, "always the same answer to the same question")
        odd = [line for line in libra_log(pbs) if "fault" in line or "not known before" in line or ("gone without" in line and set(accepted) & set(line.split()))]
        self.assertEqual(odd, [], "nothing that was accepted is forgotten, or found again")
        expect_free(self, pbs, {n1: 0.1, n2: 0.1})
        warm = [point for point in memory if point[0] >= before + 5]
        grown = statistics.linear_regression(*zip(*warm)).slope
        print(f"{restarts} restarts during 300 submissions: {grown:.1f} kB per restart, what the jobs themselves take included", file=sys.stderr)

    def test_records_beside_submissions(self):
        """The periodic hook looks at the server as it was when its process was split off: who came since is not missing."""
        pbs = self.pbs
        pbs.qmgr("set hook libra_periodic enabled = false", "set hook libra_periodic freq = 1", "set hook libra_periodic enabled = true")
        self.addCleanup(pbs.qmgr, "set hook libra_periodic enabled = false", "set hook libra_periodic freq = 30", "set hook libra_periodic enabled = true")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = list(pool.map(lambda number: pbs.qsub(*terms(0.001, pbs.host_names[number % 2])), range(400)))
        # With many at a time PBS itself loses some on the way, whatever its hooks are; what it has is what counts.
        self.assertEqual([job.err for job in asked if "libra" in job.err], [])
        self.assertGreater(sum(job.rc == 0 for job in asked), 200)
        commitment = [has["Resource_List.libra_terms"] for has in pbs.jobs().values() if has["job_state"] == "Q"]
        free = {host: 1 - 0.001 * sum(f"at={host}*" in line for line in commitment) for host in pbs.host_names}
        self.assertGreater((pbs.home / "server_priv/libra/records.json").stat().st_size, 1000)
        time.sleep(3)
        self.assertEqual([line for line in libra_log(pbs) if "gone without an end" in line], [])
        expect_free(self, pbs, free)

    def test_memory(self):
        """Refusals only, so that the server has no more jobs in the end; beside a hook that does nothing."""
        pbs = self.pbs
        poor = ["-l", "deadline=100,estimate=10,budget=1"]
        libra, count = self.growth(25, lambda: pbs.qsub(*poor))
        hooks = re.findall(r"Hook (libra_\w+)", pbs.qmgr("list hook").out)
        pbs.qmgr(*[f"set hook {hook} enabled = false" for hook in hooks])
        try:
            pbs.hook("idle", "queuejob", IDLE)
            self.addCleanup(pbs.delete_hook, "idle")
            idle, idle_count = self.growth(15, lambda: pbs.qsub("-l", "nosuch=1"))
        finally:
            pbs.qmgr(*[f"set hook {hook} enabled = true" for hook in hooks])
        print(f"{count} restarts: {libra:.1f} kB each with Libra, {idle:.1f} kB with a hook that does nothing ({idle_count} restarts)", file=sys.stderr)
        self.assertLess(libra, MOST_PER_RESTART)


if __name__ == "__main__":
    unittest.main()
