#!/usr/bin/env python3
"""What a site decides: partitions, and jobs without terms, on a Slurm with Libra.

Run as root: `python3 tests/slurm/test_users_sites.py`.
"""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from libra_site import Site  # noqa: E402


class FivePartitions(Site):
    """Nodes 1 and 2: main and short; 3: few; 4: plain, which shares no processors; all of them: mixed, which does not either."""

    def before_start(self):
        one, two, three, four = self.nodes
        self.plan["partition"] = {"Nodes": f"{one},{two}"}
        self.plan["partitions"] = {"short": {"Nodes": f"{one},{two}", "OverSubscribe": "FORCE:20", "MaxTime": "1"}, "few": {"Nodes": three, "OverSubscribe": "FORCE:2"},
                                   "plain": {"Nodes": four}, "mixed": {"Nodes": "ALL"}}
        super().before_start()


class Partitions(SiteCase):
    """Five partitions."""

    kind = FivePartitions
    site = {"nodes": 4}

    def test_a_partition_that_shares_no_processors(self):
        """Refused with the names of those that do; of several the first that does is taken."""
        self.refused(self.ask(1, 9, "-p", "plain"), "libra: partition plain takes no jobs with a deadline; submit to ", "main", "short", "few")
        record = self.running(self.accept(1, 9, "-p", "plain,few"))
        self.assertEqual((record["Partition"], record["NodeList"]), ("few", self.slurm.nodes[2]))
        self.assertEqual(self.running(self.accept(1, 9))["Partition"], "main")
        # Jobs without terms go where they like.
        self.assertEqual(self.running(self.slurm.submit("-p", "plain"))["NodeList"], self.slurm.nodes[3])

    def test_of_several_the_first_that_has_room(self):
        job = self.accept(10, 100, "-p", "short,main")
        self.assertEqual(self.running(job)["Partition"], "main", "short ends jobs after a minute")
        for node in self.slurm.nodes[:2]:
            self.accept(80, 100, "-w", node)
        self.assertEqual(self.running(self.accept(50, 100, "-p", "main,few"))["Partition"], "few")

    def test_a_partition_that_ends_jobs_early(self):
        """MaxTime below the deadline is refused; else it bounds the job's time in Slurm."""
        self.refused(self.ask(1, 90, "-p", "short"), "partition short ends jobs after 60 s and the deadline is 90 s; give a deadline of at most that")
        job = self.accept(30, 50, "-p", "short")
        self.assertEqual(self.running(job)["TimeLimit"], "00:01:00")

    def test_jobs_on_a_processor(self):
        """Slurm starts two at a time there, so a third is refused instead of accepted and late."""
        jobs = [self.accept(1, 100, "-p", "few") for _ in range(2)]
        for job in jobs:
            self.running(job)
        self.refused(self.ask(1, 100, "-p", "few"), "at most 2 may share a processor (OverSubscribe=FORCE:2)")
        self.slurm.scancel(jobs[0])
        self.slurm.wait("there is room", lambda: self.ask(1, 100, "-p", "few").rc == 0)

    # ---- jobs without terms

    def rule(self, name):
        text = f'[slurm]\nwithout-terms = "{name}"\n'
        self.slurm.rule(text)
        self.slurm.configure(text)

    def group_of(self, *options):
        """The cpu cgroup of a job without terms, as it prints it."""
        slurm = self.slurm
        job = slurm.submit(*options, script="cat /proc/self/cgroup\n")
        self.assertEqual(slurm.wait_ended(job)["JobState"], "COMPLETED")
        return next(line.split(":")[2] for line in slurm.output(job).splitlines() if ":cpu:" in line or ":cpu," in line)

    def test_best_effort(self):
        self.rule("best-effort")
        node = self.slurm.nodes[0]
        self.assertRegex(self.group_of("-w", node), rf"^/{self.slurm.cgroup_root(node)}-best-effort-job-\d+$")

    def test_leave_alone(self):
        self.rule("leave-alone")
        self.assertNotIn("libra-slurm", self.group_of())

    def test_refuse(self):
        """Also with an ordinary comment or Slurm's own deadline."""
        self.rule("refuse")
        for options in ([], ["--comment=for Monday"], ["--time=1", "--deadline=now+3600"], ["-p", "plain"]):
            self.refused(self.slurm.sbatch(*options), "libra: jobs on this cluster need a deadline, a budget and an estimate: sbatch --sla-deadline=1h --budget=5000 --estimate=30m")
        self.refused(self.slurm.srun("true"), "need a deadline")
        self.running(self.accept(1, 9))

    def test_other_nodes(self):
        """On Libra's nodes none, elsewhere as ever."""
        slurm = self.slurm
        self.rule("other-nodes")
        self.refused(slurm.sbatch(), "libra: the nodes of partition main are for jobs with a deadline", "or submit to plain or mixed")
        self.assertEqual(self.running(slurm.submit("-p", "plain"))["NodeList"], slurm.nodes[3])
        waiting = slurm.submit("-p", "mixed")
        time.sleep(3)
        self.assertEqual(slurm.state(waiting), "PENDING", "Libra's nodes are idle, and not for it")
        self.running(self.accept(1, 9))


class OtherDefault(SiteCase):
    """The default partition shares no processors."""

    site = {"nodes": 1, "partition": {"OverSubscribe": "NO"}, "partitions": {"batch": {"OverSubscribe": "FORCE:20"}}}

    def test_a_job_with_terms_goes_to_the_one_that_does(self):
        self.assertEqual(self.running(self.accept(1, 9))["Partition"], "batch")
        self.refused(self.ask(1, 9, "-p", "main"), "partition main takes no jobs with a deadline; submit to batch")


class NoneShared(SiteCase):
    """No partition shares processors."""

    site = {"nodes": 1, "partition": {"OverSubscribe": "YES:4"}}

    def test_it_is_said(self):
        self.refused(self.ask(1, 9), "no partition of this cluster lets jobs share processors (OverSubscribe=FORCE)", "tell the administrators")
        self.running(self.slurm.submit())


if __name__ == "__main__":
    unittest.main()
