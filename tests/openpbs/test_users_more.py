#!/usr/bin/env python3
"""Job arrays, and jobs without terms, on a PBS with Libra.

Run as root: `python3 tests/openpbs/test_users_more.py`.
"""

import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from libra_site import busy  # noqa: E402
from scripts import busy_until  # noqa: E402


class ArrayCase(SiteCase):
    """Three hosts of one processor each."""

    def subjobs(self, array, indices):
        return [array.replace("[]", f"[{index}]") for index in indices]

    def places(self, jobs):
        return [self.pbs.node_of(job) for job in jobs]


class ArrayShares(ArrayCase):
    """What subjobs use."""

    measures = 1

    def test_an_array_on_one_node(self):
        """Every subjob is priced, has its share, is held to it, and ends in time."""
        pbs = self.pbs
        enough = pbs.own / "enough"
        array = self.accept(120, 600, "-J", "1-3", budget=400, script=busy_until(enough))
        record = pbs.qstat(array)
        # 120 + 120 / 600 for each of the three.
        self.assertAlmostEqual(float(record["Resource_List.libra_price"]), 360.6)
        self.assertIn("3 jobs, each 21 % of a processor on ", record["Resource_List.libra_info"])
        jobs = self.subjobs(array, (1, 2, 3))
        for job in jobs:
            self.running(job)
        host = pbs.host_names[0]
        self.assertEqual(self.places(jobs), [[host]] * 3)
        self.assertAlmostEqual(pbs.committed()[host], 0.63)
        # What is committed three times over is not there for others.
        self.refused(self.ask(45, 100, "-l", f"select=1:host={host}"), "refused (share)")
        for job in jobs:
            pbs.wait(f"{job} works", lambda job=job: self.used(job) > 0.1)
        for attempt in (1, 2, 3):
            before, used = [self.quota(job, host) for job in jobs], [self.used(job) for job in jobs]
            rates, highest = self.capped_rates(jobs, host, 4)
            after, due = [self.quota(job, host) for job in jobs], [self.due(job, done) for job, done in zip(jobs, used)]
            if min(rates) > 0.9 * 0.21:
                break
        print(f"\n  committed 0.210 each, capped at {before} to {highest}, used {' '.join(f'{rate:.3f}' for rate in rates)}")
        # A job that started a little late is given a little more at the next round.
        for rate, first, last, quota, most in zip(rates, before, after, highest, due):
            self.assertGreaterEqual(min(first, last), 0.209)
            self.assertLess(max(first, last), max(0.25, most))
            self.assertGreater(rate, 0.9 * 0.21)
            self.assertLess(rate, 1.1 * quota)
        enough.touch()
        for text in self.met(*jobs):
            print(f"  {text}")


class Arrays(ArrayCase):
    """Whether arrays are accepted, and where their subjobs go."""

    def test_the_budget_is_for_the_whole_array(self):
        text = self.refused(self.ask(2, 10, "-J", "1-3", budget="6.5"), "refused (budget)", "6.6")
        self.assertIn("budget=6.6", text)

    def test_an_array_that_no_node_holds(self):
        """Three subjobs of 0.63: one to each node; four are refused together."""
        pbs = self.pbs
        text = self.refused(self.ask(60, 100, "-J", "1-4"), "refused", "all 4 jobs of the array together", "or: an array of 3 jobs (costs 181.8)")
        longer = re.search(r"deadline=([0-9.]+)", text)[1]
        taken = self.subjobs(self.accept(60, longer, "-J", "1-4"), (1, 2, 3, 4))
        for job in taken:
            self.running(job)
        self.assertLessEqual(max(self.pbs.committed().values()), 1)
        self.clear()
        array = self.accept(60, 100, "-J", "1-3")
        jobs = self.subjobs(array, (1, 2, 3))
        for job in jobs:
            self.running(job)
        self.assertEqual(sorted(self.places(jobs)), [[host] for host in pbs.host_names])
        self.refused(self.ask(60, 100), "refused (share)")
        # One subjob deleted: its share is committed again.
        self.assertEqual(pbs.qdel(jobs[1], user=pbs.users[0]).rc, 0)
        pbs.wait("the share of the deleted subjob", lambda: min(pbs.committed().values()) == 0)
        self.running(self.accept(60, 100))


class RuleCase(SiteCase):
    """The site's rules for jobs without deadline, budget and estimate."""

    def rule(self, name):
        self.pbs.write_config(f'[pbs]\nwithout-terms = "{name}"\n')


class BesideOthers(RuleCase):
    """Jobs with terms among jobs without."""

    measures = 2  # and more: the point is that others take what they get

    def test_best_effort(self):
        """Beside accepted jobs with what those leave: three of them spin, the accepted one has its share and ends in time."""
        pbs = self.pbs
        self.rule("best-effort")
        others = [pbs.submit("-l", f"select=1:ncpus=1:host={host}", user=pbs.users[1], script=busy(1000)) for host in pbs.host_names]
        for job in others:
            self.running(job)
        said = []
        for attempt in (1, 2, 3):
            job = self.accept(9, 15, "-l", f"select=1:ncpus=1:host={pbs.host_names[0]}", script=busy(8.6))
            self.running(job)
            text, in_time = self.ending(job)
            said.append(f"committed {self.share(job):.3f} beside three jobs without terms; {text}")
            if in_time:
                break
        print("".join(f"\n  {line}" for line in said))
        self.assertTrue(in_time, said)
        for job in others:
            self.assertEqual(pbs.qstat(job)["job_state"], "R")
        # As many of them as a node has processors, no more; jobs with terms are not in their way.
        waiting = pbs.submit("-l", f"select=1:ncpus=1:host={pbs.host_names[0]}")
        time.sleep(2)
        self.assertEqual(pbs.qstat(waiting)["job_state"], "Q")


class WithoutTerms(RuleCase):
    """What each rule does with them."""

    def test_refuse(self):
        self.rule("refuse")
        self.refused(self.pbs.qsub(), "need a deadline, a budget and an estimate", "qsub -W deadline=")
        self.running(self.accept(1, 100))

    def test_other_nodes(self):
        pbs = self.pbs
        libras, other = pbs.host_names[:2], pbs.host_names[2]
        before = pbs.node(other)
        try:
            for resource in ("libra_share", "libra_node"):
                pbs.qmgr(f"unset node {other} resources_available.{resource}")
            self.rule("other-nodes")
            first, second = (pbs.submit("-l", "select=1:ncpus=1") for _ in range(2))
            self.running(first)
            self.assertEqual(pbs.node_of(first), [other])
            self.refused(self.ask(1, 10, "-l", f"select=1:host={other}"), "refused (no-node)")
            self.assertIn(pbs.node_of(self.runs(self.accept(1, 100)))[0], libras)
            time.sleep(1)
            self.assertEqual(pbs.qstat(second)["job_state"], "Q", "Libra's nodes are free, and not for it")
        finally:
            self.clear()
            pbs.qmgr(*(f"set node {other} resources_available.{resource} = {before[f'resources_available.{resource}']}" for resource in ("libra_share", "libra_node")))

    def runs(self, job):
        self.running(job)
        return job

    def test_leave_alone(self):
        pbs = self.pbs
        self.rule("leave-alone")
        job = pbs.submit("-l", "select=1:ncpus=1")
        self.assertEqual(self.running(job)["Resource_List.select"], "1:ncpus=1")
        self.refused(pbs.qsub("-l", "select=1:ncpus=1:libra_share=0.5"), "libra_share is written by Libra")


if __name__ == "__main__":
    unittest.main()
