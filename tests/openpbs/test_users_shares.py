#!/usr/bin/env python3
"""What becomes of accepted jobs on a PBS with Libra: their shares, their deadlines, their processes, measured in their cgroups.

Run as root: `python3 tests/openpbs/test_users_shares.py`. All hosts are on this machine, so no test keeps more than two processors' worth of shares busy.
Where the machine is too busy for a measurement it is repeated, and all are printed.
"""

import contextlib
import functools
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402
from case import Gone, SiteCase  # noqa: E402
import measuring  # noqa: E402
from libra_site import busy  # noqa: E402
from scripts import busy_until, idle_until  # noqa: E402

# A child that leaves the session and the process group, and does not heed SIGTERM.
SETSID = "setsid python3 -c 'import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nfor n in range(1000): time.sleep(1)' </dev/null >/dev/null 2>&1 &\n"


# Of ratios between jobs that were measured at the same time; alone on a machine it is 0.01.
TOLERANCE = 0.1


class OnItsHost(SiteCase):
    """Three hosts of one processor each."""

    def on(self, number, more=""):
        return ("-l", f"select=1:ncpus=1{more}:host={self.pbs.host_names[number - 1]}")


class Sharing(OnItsHost):
    """Two jobs on one processor."""

    measures = 1

    def test_two_jobs_on_one_processor(self):
        """Shares of 0.5 and 0.25, both always busy, are used 2 : 1; both end in time."""
        said, endings = [], []
        for attempt in (1, 2, 3):
            # 0.53 and 0.26 of the processor, with the margin; what is committed to them is in the ratio of 2 : 1. Some seconds for starting.
            jobs = [self.accept(12, deadline, *self.on(1), script=busy(11.5)) for deadline in (24, 48)]
            for job in jobs:
                self.running(job)
                self.pbs.wait(f"{job} works", lambda job=job: self.used(job) > 0.2)
            commitment, error = [self.share(job) for job in jobs], None
            with contextlib.suppress(Gone):
                rates = self.rates(jobs, 4)
                # Shares are taken anew as work gets done; what counts is what is committed.
                error = (rates[0] / rates[1]) / (commitment[0] / commitment[1]) - 1
                said.append(f"committed {commitment[0]:.3f} : {commitment[1]:.3f}, used {rates[0]:.3f} : {rates[1]:.3f}, off by {100 * error:+.1f} %")
            endings = [self.ending(job) for job in jobs]
            if error is not None and abs(error) <= TOLERANCE and all(in_time for _, in_time in endings):
                break
        print("\n  " + "; ".join(said) + "".join(f"\n  {text}" for text, _ in endings))
        self.assertIsNotNone(error, f"on this machine a job has ended before it can be measured: {endings}")
        self.assertLessEqual(abs(error), TOLERANCE, said)
        self.assertTrue(all(in_time for _, in_time in endings), endings)

    def test_a_job_that_needs_more_than_its_estimate(self):
        """Estimate 4.5 s, and it works on: at its share, then late with what is free; its neighbour has what was committed to it, and ends in time."""
        host = self.pbs.host_names[1]
        for attempt in (1, 2, 3):
            enough = self.pbs.own / f"enough-{attempt}"
            late = self.accept(4.5, 18, "-l", "walltime=600", *self.on(2), script=busy_until(enough))
            neighbour = self.accept(9, 18, *self.on(2), script=busy(8.6))
            self.running(late)
            self.pbs.wait("it works", lambda late=late: self.used(late) > 0.2)
            used = self.used(late)
            (rate,), (quota,) = self.capped_rates([late], host, 4)
            most = self.due(late, used)
            beside, neighbour_in_time = self.ending(neighbour)
            self.assertEqual(self.pbs.qstat(late)["job_state"], "R", "it was not ended for its estimate")
            terms = self.terms(late)
            self.pbs.wait("its deadline has passed", lambda terms=terms: time.time() > float(terms["submitted"]) + float(terms["deadline"]) + 1)
            enough.touch()
            text, in_time = self.ending(late)
            print(f"\n  committed {self.share(late):.3f}, capped at {quota:.3f} and used {rate:.3f}\n  {text}\n  {beside}")
            if neighbour_in_time:
                break
        self.assertTrue(neighbour_in_time, beside)
        self.assertFalse(in_time, text)
        self.assertLess(rate, 1.2 * quota)
        self.assertLess(quota, max(1.01 * self.share(late), most))
        self.assertEqual(self.pbs.qstat(late)["Exit_status"], "0", text)


class Ending(OnItsHost):
    """Late jobs, and all that a job has started. Nothing here depends on how much of the machine others take."""

    def test_a_job_past_its_deadline(self):
        """It goes on with all that is free, its node commits nothing over it, and the log says that it was late."""
        enough = self.pbs.own / "enough"
        job = self.accept(2, 4, "-l", "walltime=600", *self.on(3), script=busy_until(enough))
        self.running(job)
        submitted = float(self.terms(job)["submitted"])
        self.pbs.wait("its deadline has passed", lambda: time.time() > submitted + 5)
        # Late, it may need the whole processor.
        self.refused(self.ask(10, 100, *self.on(3)), "refused (share)")
        self.pbs.wait("the quota of a whole processor", lambda: self.quota(job, self.pbs.host_names[2]) > 0.99)
        # How much that is depends on who else is there; it is not the quota that keeps it from more.
        held = self.held_back(job, self.pbs.host_names[2])
        enough.touch()
        self.assertLess(held, 0.1)
        text, in_time = self.ending(job)
        print(f"\n  it was held back for {held:.3f} of the time at last; {text}")
        self.assertFalse(in_time, text)
        self.assertEqual(self.pbs.qstat(job)["Exit_status"], "0", text)

    def test_children_that_leave_the_session(self):
        """They are of the job: they end with it, and no cgroup is left."""
        end = self.pbs.own / "children.end"
        job = self.accept(20, 1000, *self.on(1), script=SETSID + idle_until(end))
        self.running(job)
        host = self.pbs.host_names[0]
        # The shell, sleep, python.
        self.pbs.wait("three processes in the cgroup", lambda: len(self.group_processes(job, host)) >= 3)
        pids = self.group_processes(job, host)
        end.touch()
        self.pbs.wait_state(job, "F")
        self.pbs.wait("its cgroup is gone", lambda: not self.pbs.cgroup(host, job).exists())
        self.assertEqual([pid for pid in pids if machine.alive(pid)], [])

    def test_two_hosts(self):
        """A job of two chunks is capped on both hosts, also what pbsdsh and pbs_tmrsh start there and pbs_attach brings in."""
        pbs = self.pbs
        first, second = pbs.host_names[:2]
        spinner = pbs.directory / "home" / pbs.users[0] / "spin.py"
        enough = pbs.own / "enough-of-two"
        spinner.write_text(f"import os\nwhile not os.path.exists({str(enough)!r}): pass\n")
        script = (f"{pbs.exec}/bin/pbsdsh -n 1 -- /usr/bin/env python3 {spinner} &\n"
                  + f"{pbs.exec}/bin/pbs_tmrsh {second} sleep 1017 &\n"
                  + f"setsid {pbs.exec}/bin/pbs_attach -j $PBS_JOBID sleep 1016 &\n"
                  + f"python3 {spinner}\n")
        job = self.accept(400, 1000, "-l", "select=2:ncpus=1", "-l", "place=scatter", script=script)
        self.running(job)
        nodes = pbs.node_of(job)
        self.assertEqual(nodes, [first, second])
        here = lambda host, word: [pid for pid in self.group_processes(job, host) if word in self.command(pid)]  # noqa: E731
        pbs.wait("pbsdsh's process in the cgroup there", lambda: here(second, "spin.py"))
        pbs.wait("pbs_tmrsh's process in the cgroup there", lambda: here(second, "sleep 1017"))
        pbs.wait("pbs_attach's process in the cgroup here", lambda: here(first, "sleep 1016"))
        time.sleep(0.5)
        used = min(self.used(job, host) for host in nodes)
        rates, quotas = measuring.capped_rates([functools.partial(self.used, job, host) for host in nodes],
                                               [functools.partial(self.quota, job, host) for host in nodes], 3)
        most = self.due(job, used)
        print(f"\n  committed {self.share(job):.3f} on each of two hosts, used {rates[0]:.3f} and {rates[1]:.3f}; quotas {quotas}")
        for rate, quota in zip(rates, quotas):
            self.assertLessEqual(rate, quota * 1.2)
            self.assertLessEqual(quota, max(1.01 * self.share(job), most))
        for host in nodes:
            pbs.wait(f"it works on {host}", lambda host=host: self.used(job, host) > used + 0.5)
        enough.touch()
        self.met(job)
        for host in nodes:
            pbs.wait(f"its cgroup on {host} is gone", lambda host=host: not pbs.cgroup(host, job).exists())

    @staticmethod
    def command(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            return ""


if __name__ == "__main__":
    unittest.main()
