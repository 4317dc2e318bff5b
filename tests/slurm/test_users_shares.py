#!/usr/bin/env python3
"""What becomes of accepted jobs on a Slurm with Libra: their shares, their deadlines, their processes, measured in their cgroups.

Run as root: `python3 tests/slurm/test_users_shares.py`. All nodes are on this machine, so no test keeps more than two processors' worth of shares busy.
Where the machine is too busy for a measurement it is repeated, and all are printed.
"""

import contextlib
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402
from case import Gone, SiteCase  # noqa: E402
from libra_site import busy  # noqa: E402
from scripts import busy_until, idle_until  # noqa: E402

# A child that leaves the session and the process group, and does not heed SIGTERM.
SETSID = "setsid python3 -c 'import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nfor n in range(1000): time.sleep(1)' </dev/null >/dev/null 2>&1 &\n"


# Of ratios between jobs that were measured at the same time; alone on a machine it is 0.01.
TOLERANCE = 0.1


class OnNodes(SiteCase):
    """Two nodes of one processor each; `libra agent` runs, without which a late job keeps the share that it has."""

    site = {"nodes": 2, "agents": True}

    def working(self, *jobs):
        """Wait until each has used some processor time."""
        for job in jobs:
            self.started(job)
        for job in jobs:
            self.slurm.wait(f"job {job} works", lambda job=job: self.used(job) > 0.2)


class Sharing(OnNodes):
    """Jobs beside each other on one processor."""

    measures = 1

    def test_two_jobs_on_one_processor(self):
        """Shares of 0.5 and 0.25, both always busy, are used 2 : 1; both end in time."""
        node, said, endings = self.slurm.nodes[0], [], []
        for _ in (1, 2, 3):
            # 0.53 and 0.26 of the processor, with the margin; what is committed to them is in the ratio of 2 : 1. Some seconds for starting.
            jobs = [self.accept(12, deadline, "-w", node, script=busy(11.5)) for deadline in (24, 48)]
            commitment, error = [self.share(job) for job in jobs], None
            with contextlib.suppress(Gone):
                self.working(*jobs)
                rates = self.rates([(job, node) for job in jobs], 4)
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
        slurm, node = self.slurm, self.slurm.nodes[1]
        for attempt in (1, 2, 3):
            enough = slurm.directory / f"enough-{attempt}"
            # By itself it would be given a minute, which is soon over on a busy machine.
            late = self.accept(4.5, 18, "-w", node, "--time=60", script=busy_until(enough))
            neighbour = self.accept(9, 18, "-w", node, script=busy(8.3))
            self.working(late)
            (rate,), (quota,) = self.capped_rates([(late, node)], 4)
            beside, neighbour_in_time = self.ending(neighbour)
            self.assertEqual(slurm.state(late), "RUNNING", "it was not ended for its estimate")
            commitment = self.commitment(late)
            slurm.wait("its deadline has passed", lambda commitment=commitment: time.time() > float(commitment["submitted"]) + float(commitment["deadline"]) + 1)
            enough.touch()
            text, in_time = self.ending(late)
            print(f"\n  committed {self.share(late):.3f}, capped at {quota:.3f} and used {rate:.3f}\n  {text}\n  {beside}")
            if neighbour_in_time:
                break
        self.assertTrue(neighbour_in_time, beside)
        self.assertFalse(in_time, text)
        self.assertLess(rate, 1.2 * quota)
        self.assertEqual(slurm.job(late)["JobState"], "COMPLETED", text)


class Processes(OnNodes):
    """All that a job has started. Nothing here depends on how much of the machine others take."""

    def test_two_nodes(self):
        """A job of two nodes is capped on both, also what srun starts there."""
        slurm = self.slurm
        enough = slurm.directory / "enough-of-two"
        job = self.accept(400, 1000, "-N2", script=f"srun {busy_until(enough)}")
        self.running(job)
        nodes = slurm.nodes_of(job)
        self.assertEqual(nodes, slurm.nodes)
        for node in nodes:
            slurm.wait(f"its task on {node}", lambda node=node: self.processes(job, node) and self.used(job, node) > 0.2)
        used = [self.used(job, node) for node in nodes]
        rates, quotas = self.capped_rates([(job, node) for node in nodes], 10)
        print(f"\n  committed {self.share(job):.3f} on each of two nodes, capped at {quotas[0]:.3f} and {quotas[1]:.3f}, used {rates[0]:.3f} and {rates[1]:.3f}")
        for rate, quota in zip(rates, quotas):
            self.assertLess(quota, 0.6)
            self.assertLess(rate, max(quota, 0.42) * 1.2)
        for node, before in zip(nodes, used):
            slurm.wait(f"it works on {node}", lambda node=node, before=before: self.used(job, node) > before + 0.5)
        enough.touch()
        self.met(job)

    def test_children_that_leave_the_session(self):
        """They are of the job: they end with it, and no cgroup is left."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        end = slurm.directory / "children.end"
        job = self.accept(20, 1000, "-w", node, script=SETSID + idle_until(end))
        self.running(job)
        # The shell, sleep, python.
        pids = slurm.wait("three processes in the cgroup", lambda: len(found := self.processes(job, node)) >= 3 and found)
        end.touch()
        self.assertEqual(slurm.wait_ended(job)["JobState"], "COMPLETED")
        slurm.wait("they are gone", lambda: not [pid for pid in pids if machine.alive(pid)])
        slurm.wait("its cgroup is gone", lambda: not slurm.group(node, job).exists())


class BesideOthers(SiteCase):
    """Jobs with terms among jobs without."""

    site = {"nodes": 2}
    measures = 2  # and more: the point is that others take what they get

    def test_a_job_is_not_slowed_down_by_jobs_without_terms(self):
        """Three of them spin on all processors; the accepted one ends in time."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        others = [slurm.submit(user=slurm.users[1], script=busy(1000, 2)) for _ in range(3)]
        for job in others:
            self.running(job)
        slurm.wait("they spin", lambda: any(len(slurm.processes_at_best(one)) >= 4 for one in slurm.nodes))
        said = []
        for _ in (1, 2):
            job = self.accept(9, 15, "-w", node, script=busy(8.3))
            self.started(job)
            text, in_time = self.ending(job)
            said.append(f"committed {self.share(job):.3f} beside three jobs without terms; {text}")
            if in_time:
                break
        print("".join(f"\n  {line}" for line in said))
        self.assertTrue(in_time, said)
        self.assertEqual({slurm.state(job) for job in others}, {"RUNNING"})


if __name__ == "__main__":
    unittest.main()
