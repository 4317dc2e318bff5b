#!/usr/bin/env python3
"""What PBS counts beside processors and memory, on a PBS with Libra: GPUs, sizes, parts, licences; by amount, and promised.

Run as root: `python3 tests/openpbs/test_consumables.py`.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from promises import free_nodes  # noqa: E402

class Consumables(SiteCase):
    """Two hosts of two processors; the second has four GPUs and what else is counted. The scheduler knows all of it."""

    site = {"hosts": 2, "processors": 2}

    @classmethod
    def prepare(cls):
        pbs = cls.pbs
        second = pbs.host_names[1]
        pbs.qmgr(*(f"create resource {name} type={kind}" for name, kind in (
            ("ngpus", "long,flag=nh"), ("lic", "long,flag=q"), ("scratch", "size,flag=nh"), ("part", "float,flag=nh"), ("fl", "long,flag=fh"),
            ("bigmem", "boolean,flag=h"), ("color", "string_array,flag=h"), ("level", "long,flag=h"))))
        pbs.qmgr("set server resources_available.lic = 3", *(f"set node {second} resources_available.{name} = {value}" for name, value in (
            ("ngpus", 4), ("scratch", "10gb"), ("part", 1.5), ("fl", 2), ("bigmem", True), ("color", '"blue,green"'), ("level", 2))))
        pbs.schedule_by("ngpus", "lic", "scratch", "part", "fl", "bigmem", "color", "level")

    def test_a_job_takes_what_it_asks_for(self):
        """One of four GPUs is taken: three are left, to Libra and to PBS."""
        pbs, second = self.pbs, self.pbs.host_names[1]
        first = self.accept(10, 600, "-l", "select=1:ncpus=1:ngpus=1")
        self.running(first)
        self.assertEqual(self.terms(first)["consumables"], "ngpus*1n")
        self.assertEqual(pbs.node(second)["resources_assigned.ngpus"], "1")
        self.refused(self.ask(10, 600, "-l", "select=1:ngpus=4"), f"refused (resource): needs 4 ngpus; the best node, {second}, has 3 free")
        for count, accepted in (("3", True), ("4", False)):
            asked = ["--estimate=10", "--deadline=600", f"--gpus={count}", "--system=pbs"]
            answer = pbs.run(pbs.libra, "quote", "--json", *asked, user=pbs.users[0])
            self.assertEqual(json.loads(answer.out)["verdict"] == "accepted", accepted, answer)
        answer = pbs.run(pbs.libra, "quote", "--estimate=10", "--deadline=600", "--gpus=tesla:1", "--system=pbs", user=pbs.users[0])
        self.assertIn("without their types", answer.err)
        rest = self.accept(10, 600, "-l", "select=3:ngpus=1")
        self.running(rest)
        self.assertEqual(pbs.node(second)["resources_assigned.ngpus"], "4")
        self.refused(self.ask(10, 600, "-l", "ngpus=1"), "has 0 free")
        pbs.qdel(first)
        pbs.wait_state(first, "F")
        # The old way to ask for the same.
        again = self.accept(10, 600, "-l", "ngpus=1")
        self.running(again)
        self.assertIn(":ngpus=1:", pbs.qstat(again)["Resource_List.select"])

    def test_sizes_parts_and_conditions(self):
        second = self.pbs.host_names[1]
        for asked, says in (
            ("select=1:scratch=11gb", f"needs 11 GiB scratch; the best node, {second}, has 10 GiB free"),
            ("select=1:part=1.6", "needs 1.6 part"),
            ("select=1:fl=3", "needs 3 fl"),
            ("select=1:level=3", "has level=3"),
            ("select=1:color=red", "has color=red"),
            ("select=1:color=BLUE", "has color=BLUE"),
            ("select=1:ngpus=two", "ngpus is 'two', expected a whole number, 0 or more"),
            ("select=1:bigmem=3", "bigmem is '3', expected True or False"),
            ("select=1:color=3", "color is '3', a number; it is text, compared for equality, and the nodes have blue, green"),
        ):
            self.refused(self.ask(1, 600, "-l", asked), says)
        jobs = [self.accept(1, 600, "-l", f"select=1:{asked}") for asked in ("scratch=6gb", "part=0.5", "part=1", "fl=2", "level=2:color=green:bigmem=t")]
        for job in jobs:
            self.running(job)
        self.refused(self.ask(1, 600, "-l", "select=1:scratch=5gb"), "has 4 GiB free")
        self.refused(self.ask(1, 600, "-l", "select=1:part=0.25"), "has 0 free")

    def test_licences_of_the_server(self):
        pbs = self.pbs
        self.running(self.accept(1, 600, "-l", "lic=2"))
        self.refused(self.ask(1, 600, "-l", "lic=2"), "refused (resource): needs 2 lic; the cluster has 1 free")
        self.refused(self.ask(1, 600, "-J", "1-2", "-l", "lic=1"), "needs 2 lic")
        last = self.accept(1, 600, "-l", "lic=1", "-l", "select=1:ncpus=1")
        self.running(last)
        answer = pbs.run("qalter", "-l", "lic=3", last, user=pbs.users[0])
        self.assertNotEqual(answer.rc, 0)
        self.assertIn("belongs to the commitment", answer.err)

    def test_jobs_without_terms_use_it_too(self):
        """What they use is not promised, and what is promised they do not take."""
        pbs, second = self.pbs, self.pbs.host_names[1]
        plain = pbs.submit("-l", "select=1:ncpus=1:ngpus=3", "-l", "lic=2")
        pbs.wait_state(plain, "R")
        self.refused(self.ask(1, 600, "-l", "select=1:ngpus=2"), f"{second}, has 1 free")
        self.refused(self.ask(1, 600, "-l", "lic=2"), "the cluster has 1 free")
        # One that waits, submitted before the promise, would take its GPU in the scheduler's next round.
        pbs.qmgr("set server scheduling = false")
        waiting = pbs.submit("-l", "select=1:ncpus=1:ngpus=1")
        promised = self.accept(1, 600, "-l", "select=1:ngpus=1")
        pbs.qmgr("set server scheduling = true")
        self.running(promised)
        self.assertEqual(pbs.qstat(waiting)["job_state"], "Q")
        self.assertIn("promised to a job with a deadline", pbs.wait("why it waits", lambda: pbs.qstat(waiting).get("comment")))
        pbs.qdel(promised)
        pbs.wait_state(waiting, "R")

    def test_a_server_that_starts_again_knows_it(self):
        pbs, second = self.pbs, self.pbs.host_names[1]
        job, plain = self.accept(1, 600, "-l", "select=1:ngpus=1"), pbs.submit("-l", "select=1:ncpus=1:ngpus=2")
        self.running(job)
        self.running(plain)
        pbs.kill_server()
        pbs.start_server()
        # Its hosts are unknown to it for a moment, and one may be known before the other.
        free_nodes(pbs)
        self.refused(self.ask(1, 600, "-l", "select=1:ngpus=2"), f"{second}, has 1 free")
        # A node that has more from now on.
        pbs.qmgr(f"set node {second} resources_available.ngpus = 6")
        self.running(self.accept(1, 600, "-l", "select=1:ngpus=3"))
        pbs.qmgr(f"set node {second} resources_available.ngpus = 4")


if __name__ == "__main__":
    unittest.main(verbosity=2)
