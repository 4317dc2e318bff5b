#!/usr/bin/env python3
"""The plan of a mixed day (mixture.py), without a server."""

import collections
import pathlib
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import day  # noqa: E402
import mixture_plan  # noqa: E402


class Plan(unittest.TestCase):
    def test_the_hours_of_a_log(self):
        """By the clock of its header's time zone: two at 1 o'clock and two at 13 in Stockholm, of a log that begins at 0 UTC."""
        with tempfile.NamedTemporaryFile("w", suffix=".swf") as log:
            log.write("; UnixStartTime: 0\n; TimeZoneString: Europe/Stockholm\n" + "".join(f"{number} {at} 1 1\n" for number, at in enumerate((0, 3599, 43200, 129600))))
            log.flush()
            self.assertEqual({hour: weight for hour, weight in enumerate(day.weights_of(log.name)) if weight}, {1: 500, 13: 500})
            log.write("1 x\n")
            log.flush()
            with self.assertRaisesRegex(ValueError, r"line 7: its second field is to be a time of submission in seconds: '1 x'"):
                day.weights_of(log.name)

    def test_a_seed_plans_one_day(self):
        """Every kind is in it, those that depend come after what they depend on, and hours with more arrivals have more."""
        first, again = (mixture_plan.Day(2000, 3).jobs for _ in range(2))
        self.assertEqual(first, again)
        self.assertEqual({job.kind for job in mixture_plan.Day(len(mixture_plan.MIXTURE), 3).jobs}, set(mixture_plan.MIXTURE))
        at = {job.name: job.at for job in first}
        self.assertTrue(all(at[job.after[1]] < job.at for job in first if job.after))
        by_hour = collections.Counter(int(job.at) for job in first)
        self.assertGreater(by_hour[15], 3 * by_hour[4])


if __name__ == "__main__":
    unittest.main(verbosity=2)
