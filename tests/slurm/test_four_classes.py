#!/usr/bin/env python3
"""The plan of a day of the four classes (tests/batch/four_classes.py) and what is said of it afterwards, without a batch system."""

import dataclasses
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "batch"))

import four_classes  # noqa: E402
from four_classes import Job, Outcome  # noqa: E402


class Plan(unittest.TestCase):
    def test_a_seed_plans_one_day(self):
        """Each class asks for its part of the machine, and a promise can be kept."""
        first, again = (four_classes.planned(900, 3, 2) for _ in range(2))
        self.assertEqual(first, again)
        for cls, part in four_classes.CLASSES.items():
            jobs = [job for job in first if job.cls == cls]
            asked, most = sum(job.tasks * job.work for job in jobs), max(job.tasks * job.work for job in jobs)
            self.assertTrue(0 <= asked / 1800 - part <= most / 1800, (cls, asked))
            self.assertTrue(all(job.work < job.estimate < (job.deadline or 1000) for job in jobs))
        self.assertEqual(first, sorted(first, key=lambda job: job.at))


class Said(unittest.TestCase):
    """A job of two tasks, submitted at 1000, due at 1050, on a day that ends at 1060."""

    def outcome(self, *lines, cls="deadline", refused=None, libra=True, suspend="never"):
        job = Job("d1", cls, 0.0, 0, 2, 20, None if cls == "best-effort" else 50, 15.0)
        return Outcome({"jobs": [dataclasses.asdict(job)], "submitted": {"d1": 1000.0}, "refused": {"d1": refused} if refused else {}, "libra": libra, "began": 1000.0, "seconds": 60, "suspend": suspend,
                        "said": {"d1": "".join(f"{line}\n" for line in lines)}})

    BEGUN = ("1002.0 n-1 begins 0.01", "1003.0 n-2 begins 0.01", "1020.0 n-1 ends 15.0")

    def test_a_promise_is_kept_by_the_last_task(self):
        kept = self.outcome(*self.BEGUN, "1049.0 n-2 ends 15.0")
        self.assertEqual((kept.broken, kept.rows["deadline"]["kept"], kept.waits["deadline"], kept.used["deadline"]), ([], 1, [2.0], 30.0))
        late = self.outcome(*self.BEGUN, "1051.0 n-2 ends 15.0")
        self.assertRegex(" ".join(late.broken), r"d1 \(deadline.*1\.0 s late")
        self.assertRegex(" ".join(self.outcome(*self.BEGUN, "1049.0 n-2 used 14.0").broken), "not ended")

    def test_what_is_used_after_the_day_is_not_the_days(self):
        self.assertEqual(self.outcome(*self.BEGUN, "1059.0 n-2 used 9.0", "1070.0 n-2 ends 15.0").used["deadline"], 24.0)

    def test_without_libra_nothing_is_promised(self):
        alone = self.outcome(*self.BEGUN, "1051.0 n-2 ends 15.0", libra=False)
        self.assertEqual((alone.broken, alone.rows["deadline"]["promised"], alone.rows["deadline"]["in time"]), ([], 0, 0))

    def test_who_never_began_has_waited(self):
        idle = self.outcome(cls="best-effort")
        self.assertEqual((idle.waits["best-effort"], idle.rows["best-effort"]["never began"], idle.broken), ([60.0], 1, []))

    def test_whole_processors_are_promised_at_full_speed(self):
        slow = ("1002.0 n-1 begins 0.01", "1002.0 n-2 begins 0.01", "1023.0 n-1 ends 15.0", "1023.0 n-2 ends 15.0")
        self.assertEqual(self.outcome(*slow).broken, [])
        self.assertRegex(" ".join(self.outcome(*slow, cls="dedicated").broken), "ran for 21.0 s")

    def test_who_stands_still_does_not_run(self):
        still = ("1002.0 n-1 begins 0.01", "1012.0 n-1 used 10.0", "1028.0 n-1 used 10.4", "1033.0 n-1 ends 15.0", "1002.0 n-2 begins 0.01", "1033.0 n-2 ends 15.0")
        found = self.outcome(*still, cls="dedicated", suspend="memory")
        self.assertEqual((found.broken, found.rows["dedicated"]["kept"], found.rows["dedicated"]["stood still"]), ([], 1, 1))
        # Where nobody is to.
        for cls, suspend in (("immediate", "memory"), ("dedicated", "never")):
            self.assertRegex(" ".join(self.outcome(*still, cls=cls, suspend=suspend).broken), "ran for 31.0 s")

    def test_refusals_have_a_reason_and_best_effort_has_none(self):
        self.assertEqual(self.outcome(refused="libra: refused (share): needs").broken, ["nothing was promised to the class deadline"])
        self.assertEqual(len(self.outcome(refused="libra: refused (no-node): none").broken), 2)
        self.assertEqual(len(self.outcome(refused="Access denied").broken), 2)
        self.assertEqual(len(self.outcome(cls="best-effort", refused="libra: refused (share): needs").broken), 1)


if __name__ == "__main__":
    unittest.main()
