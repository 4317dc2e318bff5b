#!/usr/bin/env python3
"""Nodes that jobs with terms have in common with a site's other jobs: whatever those hold counts, whichever partition they came by, and none that waits is in
the way of a job that was accepted.

Run as root: `python3 tests/slurm/test_shared.py`.
"""

import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

from case import SiteCase  # noqa: E402

MEMORY = {"SelectTypeParameters": "CR_CPU_Memory"}  # nodes have 1000 MB


class Shared(SiteCase):
    """Two nodes of two processors in three partitions. Memory is counted."""

    site = {"nodes": 2, "cpus": 2, "settings": {**MEMORY, "DefMemPerCPU": 10}, "partitions": {"plain": {}, "asked": {"OverSubscribe": "YES:4"}, "own": {
        "OverSubscribe": "FORCE:20", "ExclusiveUser": "YES"}}}

    def plain(self, *options, **more):
        """A job without terms that runs, and that Libra knows of; its number."""
        job = self.slurm.submit(*options, **more)
        self.running(job)
        return job

    def knows(self, why, *options, **more):
        """Wait until Libra has seen what others have, which then is its reason to refuse a job like this one. A question holds nothing."""
        self.slurm.wait("Libra knows", lambda: why in self.ask(1, "2d", "--sla-quote=ask", *options, **more).err)

    def not_open(self, node, why):
        self.knows(why, "-w", node)
        self.refused(self.ask(1, "2d", "-w", node), "refused (no-node)", why)

    def test_a_job_that_shares_no_processors(self):
        """It has one of two processors, and Slurm gives the other one to no job of a partition with FORCE."""
        one, two = self.slurm.nodes
        plain = self.plain("-p", "plain", "-w", one)
        self.not_open(one, "is free of jobs that share no processors, such as those of partition plain")
        self.assertEqual(self.running(self.accept(1, "2d"))["NodeList"], two)
        self.slurm.scancel(plain)
        self.slurm.wait("the node is open", lambda: self.ask(1, "2d", "-w", one).rc == 0)

    def test_a_node_for_itself(self):
        one = self.slurm.nodes[0]
        self.plain("-p", "plain", "-w", one, "--exclusive")
        self.not_open(one, "partition plain")
        self.refused(self.ask(1, "2d", "--exclusive"), "(--exclusive)", "--sla-class=dedicated")
        self.refused(self.ask(1, "2d", "--exclusive=user"), "(--exclusive)")

    def test_jobs_that_share_when_they_are_asked_to(self):
        one, two = self.slurm.nodes
        self.plain("-p", "asked", "-w", one)
        self.plain("-p", "asked", "-w", two, "--oversubscribe")
        self.not_open(one, "partition asked")
        self.running(self.accept(1, "2d", "-w", two))

    def test_a_node_of_one_user(self):
        one = self.slurm.nodes[0]
        mine, other = self.slurm.users
        self.plain("-p", "own", "-w", one, user=mine)
        self.knows("is free of another user's jobs", "-w", one, user=other)
        self.refused(self.ask(1, "2d", "-w", one, user=other), "is free of another user's jobs that share with nobody else")
        self.running(self.accept(1, "2d", "-w", one, user=mine))

    def test_memory_of_others(self):
        one = self.slurm.nodes[0]
        plain = self.plain("-w", one, "--mem=900")
        self.knows("refused (memory)", "-w", one, "--mem=200")
        self.refused(self.ask(1, "2d", "-w", one, "--mem=200"), "refused (memory)")
        self.running(self.accept(1, "2d", "-w", one, "--mem=50"))
        self.slurm.scancel(plain)
        self.slurm.wait("there is memory", lambda: self.ask(1, "2d", "-w", one, "--mem=200").rc == 0)

    def test_all_memory_of_a_node(self):
        self.refused(self.ask(1, "2d", "--mem=0"), "all memory of a node", "--mem=0", "--mem=…")

    def test_who_waits_is_not_in_the_way(self):
        """A job that waits for memory keeps those behind it in its partition from starting, but no job that was accepted."""
        slurm = self.slurm
        for node in slurm.nodes:
            # They end within what backfilling looks ahead, a day: it keeps the nodes for the one that waits.
            self.plain("-w", node, "--mem=900", "--time=60")
        waits = slurm.submit("--mem=990", "-N", "2")
        behind = slurm.submit("--mem=20")
        slurm.wait("it stands behind the other", lambda: slurm.job(behind)["Reason"] == "Priority")
        self.running(self.accept(1, "2d", "--mem=20"))
        array = self.accept(1, "2d", "--mem=5", "-c", "2", "--array=1-8")
        for task in range(1, 9):
            self.running(f"{array}_{task}")
        later = self.accept(1, "2d", "--mem=20", "--begin=now+3")
        self.running(later)
        self.assertEqual(slurm.state(waits), "PENDING")

    def test_who_waits_elsewhere_is_not_in_the_way(self):
        """The same of one that waits for a whole node in another partition."""
        slurm = self.slurm
        for node in slurm.nodes:
            self.plain("-w", node, "--mem=20")
        waits = slurm.submit("-p", "plain", "--exclusive")
        slurm.wait("it waits", lambda: slurm.job(waits)["Reason"] in ("Resources", "Priority"))
        self.running(self.accept(1, "2d"))
        self.assertEqual(slurm.state(waits), "PENDING")


class ByDefault(SiteCase):
    """Memory is counted, and a job that names none has 300 MB for each processor: three go on a node."""

    site = {"nodes": 1, "settings": {**MEMORY, "DefMemPerCPU": 300}, "partitions": {"small": {"OverSubscribe": "FORCE:20", "DefMemPerNode": 100}}}

    def test_what_a_job_has_by_default(self):
        for _ in range(3):
            self.running(self.accept(1, "2d"))
        self.refused(self.ask(1, "2d"), "refused (memory)")
        self.running(self.accept(1, "2d", "-p", "small"))
        self.refused(self.ask(1, "2d", "-p", "small"), "refused (memory)")


class NoDefault(SiteCase):
    """Memory is counted, and a job that names none has all of its node."""

    site = {"nodes": 1, "settings": MEMORY}

    def test_it_has_to_be_said(self):
        self.refused(self.ask(1, "2d"), "where it names none and partition and cluster have no default", "--mem=…")
        self.running(self.accept(1, "2d", "--mem=10"))


if __name__ == "__main__":
    unittest.main()
