#!/usr/bin/env python3
"""Prologs and epilogs that cannot do their work: whatever fails in them, no node is drained for it.

Run as root: `tests/slurm/run test_prologs.py`. Takes about two minutes.
"""

import concurrent.futures
import contextlib
import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from libra_site import Site  # noqa: E402
from promises import terms  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# Begun longer ago than this, a job without a process is asked about by the prolog of the next one (JUST_BEGUN of crates/slurm/src/node.rs).
ASKED_ABOUT = 10
SHARE = 0.005


class FaultSite(Site):
    """`Site` with fault.c before Libra's plugin."""

    def __init__(self, **options):
        super().__init__(plugstack=[lambda site: f"optional fault.so {site.faults}"], **options)

    @property
    def faults(self):
        """Where it is said which call fails on which node."""
        return self.directory / "faults"

    def before_start(self):
        super().before_start()
        self.faults.mkdir(mode=0o755)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self.plugins / "fault.so"), str(HERE / "fault.c")], check=True)

    def states(self):
        """What sinfo says of the nodes, and why."""
        return self.must("sinfo", "-h", "-N", "-o", "%N %T %E", timeout=180)


class Prologs(SiteCase):
    """Two nodes of one processor each."""

    kind = FaultSite
    site = {"nodes": 2}
    seconds = 1800

    def not_drained(self, after):
        self.assertNotRegex(self.slurm.states(), r"drain|down|fail", after)

    def ended(self, job, after):
        """Wait until a job has ended, or its node was drained for it."""
        slurm = self.slurm

        def over():
            self.not_drained(after)
            return slurm.state(job) in ("COMPLETED", "FAILED", "CANCELLED")

        slurm.wait(f"the end of job {job}, {after}", over)
        slurm.wait(f"the epilog of job {job}, {after}", lambda: "COMPLETING" not in slurm.must("squeue", "-h", "-t", "all", "-j", job, "-o", "%T"))

    def test_a_job_without_a_process(self):
        """salloc without a step on a node, then other jobs there: their prologs ask slurmctld whether the first one is still there."""
        for attempt in range(3):
            if self.asked_about(attempt):
                return
            self.clear()
        self.fail("slurmctld did not answer a prolog in time, three times")

    def asked_about(self, attempt):
        """False if slurmctld was too busy to answer a prolog within its 3 s."""
        slurm = self.slurm
        node = slurm.nodes[0]
        done = slurm.home(slurm.users[0]) / f"done-{attempt}"
        before = {one: len(slurm.log(one)) for one in slurm.nodes}
        said = lambda one: slurm.log(one)[before[one]:]  # noqa: E731
        unanswered = lambda: any("did not say" in said(one) for one in slurm.nodes)  # noqa: E731
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            held = pool.submit(slurm.salloc, *terms(0.3, node), "sh", "-c", f"echo $SLURM_JOB_ID; until [ -e {done} ]; do sleep 0.2; done", timeout=800)
            try:
                slurm.wait("salloc has its node", lambda: unanswered() or [name for name in slurm.live() if name.startswith(f"{node} ")])
                if unanswered():
                    return False
                job = next(name.split()[1] for name in slurm.live() if name.startswith(f"{node} "))
                began = slurm.entry(node, job)["begun"]
                slurm.wait("it is asked about", lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > began + ASKED_ABOUT + 1)
                for arguments in (terms(0.2, node), ["-w", node], terms(0.2, slurm.nodes[1])):
                    self.ended(slurm.submit(*arguments, script="true\n"), f"after {arguments}")
                self.assertIn(f"{node} {job}", slurm.live(), "it is not given up")
            finally:
                done.touch()
            self.assertEqual(held.result().rc, 0, held.result().err)
        if unanswered():
            return False
        for one in slurm.nodes:
            self.assertNotRegex(said(one), r"fatal|was broken off|spank/prolog returned", one)
        self.not_drained("after salloc")
        return True

    def test_every_call_in_turn(self):
        """Each system call that Libra makes there fails once, from Libra's first instruction on: on one node in prologs, on the other in epilogs."""
        slurm = self.slurm
        calls = re.findall(r"CALL\((\w+), E", (HERE / "fault.c").read_text())
        self.assertGreater(len(calls), 20)
        for call in calls:
            jobs = []
            for node, hook in zip(slurm.nodes, ("prolog", "epilog")):
                (slurm.faults / node).write_text(f"{hook} {call}\n")
                jobs.append((slurm.submit(*terms(SHARE, node), script="true\n"), node, hook))
            for job, node, hook in jobs:
                self.ended(job, f"where {call} fails in the {hook}")
                slurm.wait("it failed", lambda node=node, hook=hook, call=call: f"{call} fails from now on in the {hook}" in slurm.log(node))
        for node in slurm.nodes:
            self.assertNotIn("cannot fail", slurm.log(node))
            (slurm.faults / node).unlink()
        # What was left over is found by the prologs of others, and these are held to their shares.
        job = self.accept(5, 1000, "-w", slurm.nodes[0], script="sleep 1000\n")
        self.started(job)
        slurm.scancel(job)

        def clean():
            with contextlib.suppress(TimeoutError):
                for node in slurm.nodes:
                    self.ended(slurm.submit(*terms(SHARE, node), script="true\n"), "after all faults")
                slurm.wait("its end", lambda: not slurm.live() and not slurm.job_groups(), 5)
            return not slurm.live()

        slurm.wait("nothing is left over", clean)
        self.not_drained("after all faults")


if __name__ == "__main__":
    unittest.main()
