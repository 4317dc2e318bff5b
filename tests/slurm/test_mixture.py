#!/usr/bin/env python3
"""The plan of a mixed day (mixture.py) and its audit, without a Slurm."""

import dataclasses
import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import mixture_audit  # noqa: E402
import mixture_plan  # noqa: E402
from day import Job  # noqa: E402

TERMS = {"estimate": 10, "deadline": 100, "budget": 1000}


class Plan(unittest.TestCase):
    def test_a_seed_plans_one_day(self):
        """Every kind is in it, and those that depend come after what they depend on."""
        first, again = (mixture_plan.Day(2000, 3).jobs for _ in range(2))
        self.assertEqual(first, again)
        self.assertEqual({job.kind for job in mixture_plan.Day(len(mixture_plan.MIXTURE), 3).jobs}, set(mixture_plan.MIXTURE))
        at = {job.name: job.at for job in first}
        self.assertTrue(all(at[job.after[1]] < job.at for job in first if job.after))


class Audit(unittest.TestCase):
    """Two jobs on one node of two GPUs: one with terms, one beside it."""

    def broken(self, words=(), ends=50.0, verdict="met its deadline", beside=(), left=(), state="IDLE", whole=0, kind="share", comment="libra", asked=1000, restarts=0):
        """What the audit finds, each by its first word."""
        classes = {"class": "dedicated"} if whole else {}
        promised = Job("m1", kind, 0, 0, list(words), "", terms={**TERMS, **classes})
        plain = Job("m2", "plain", 0, 0, list(beside), "")
        said = lambda end: {"0": f"1010 n1 0-1 begins\n" + (f"{1000 + end} n1 0-1 ends\n" if end else "")}  # noqa: E731
        record = {"job_state": "COMPLETED", "restart_cnt": restarts, "array_job_id": 0, "array_task_id": None, "comment": ""}
        evidence = {"jobs": [dataclasses.asdict(job) for job in (promised, plain)], "ids": {"m1": "1", "m2": "2"}, "refused": {}, "submitted": {"m1": (asked - 1, asked + 1), "m2": (999, 1001)},
                    "said": {"m1": said(ends), "m2": said(50.0)}, "log": [f"job 1 {verdict}: ended after 50 s"], "left": {"book": list(left)}, "nodes": {"n1": state}, "gpus": 2, "processors": 2, "licences": 2,
                    "records": {"1": {**record, "admin_comment": f"{comment}:v=1:submitted=1000:deadline=100:processors=1:at=n1*{whole or 1}*1.0"}, "2": {**record, "admin_comment": ""}}}
        return [line.split(":")[0] for line in mixture_audit.Audit(evidence).broken]

    def test_nothing_is_found_where_all_is_well(self):
        self.assertEqual(self.broken(), [])
        self.assertEqual(self.broken(words=["--gres=gpu:1"], beside=["--gres=gpu:1"]), [])

    def test_a_late_end(self):
        self.assertEqual(self.broken(ends=110.0, verdict="missed its deadline"), ["late"])

    def test_a_verdict_that_is_not_so(self):
        self.assertEqual(self.broken(ends=90.0, verdict="missed its deadline"), ["verdict"])

    def test_more_gpus_than_there_are(self):
        self.assertEqual(set(self.broken(words=["--gres=gpu:2"], beside=["--gres=gpu:1"])), {"GPUs"})

    def test_a_node_for_itself_that_is_shared(self):
        self.assertEqual(set(self.broken(beside=["--exclusive"])), {"exclusive"})

    def test_more_whole_processors_than_there_are(self):
        self.assertEqual(self.broken(whole=2), [])
        self.assertEqual(set(self.broken(whole=3)), {"processors"})

    def test_more_licences_than_there_are(self):
        self.assertEqual(self.broken(words=["-L", "solver:2"]), [])
        self.assertEqual(self.broken(words=["-L", "solver:2"], beside=["-L", "solver:1"]), ["licences"] * 2)

    def test_a_job_without_an_end(self):
        self.assertEqual(self.broken(ends=0), ["lost"])

    def test_a_promise_that_is_gone(self):
        self.assertEqual(self.broken(comment="libra-nothing"), ["reason"])

    def test_a_deadline_that_nobody_has_named(self):
        self.assertEqual(self.broken(asked=990), ["promise"])

    def test_what_cannot_be_promised(self):
        self.assertEqual(self.broken(kind="impossible"), ["accepted"])

    def test_tasks_that_are_not_bound(self):
        self.assertEqual(self.broken(kind="mpi", words=["-N", "1"]), ["bound"])

    def test_a_job_that_was_started_twice(self):
        self.assertEqual(self.broken(restarts=1), ["restarted"] * 2)

    def test_what_is_left(self):
        self.assertEqual(self.broken(left=["1"]), ["left"])

    def test_a_node_that_was_drained(self):
        self.assertEqual(self.broken(state="IDLE+DRAIN"), ["node n1"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
