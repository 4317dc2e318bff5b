#!/usr/bin/env python3
"""A small mixed day (mixture.py): every promise kept, and PBS's accounting that of the same jobs without Libra but for shares.

Run as root: `python3 tests/openpbs/small_day.py`, with LIBRA and LIBRA_LIBRARY as for `tests/openpbs/run`. Deadlines are far away, and jobs use little of
what they ask for. It takes six minutes on two busy processors, and is no part of `make test`.
"""

import copy
import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import mixture_plan  # noqa: E402
from mixture import Mixture  # noqa: E402
from mixture_audit import Audit  # noqa: E402


class Mixed(unittest.TestCase):
    """One day on two servers, one with Libra and one without."""

    @classmethod
    def setUpClass(cls):
        cls.evidence = Mixture(mixture_plan.Day(40, 17, hour=1.5, part=0.01, full=0.0, stretch=6.0)).run()

    def test_promises_and_accounting(self):
        """Nothing is lost, late or different but for what RULES names; and jobs of all kinds were taken."""
        found = Audit(self.evidence)
        self.assertEqual(found.broken, [], found.table())
        self.assertGreater(found.compared, 30)
        kept = {kind for kind, row in found.classes.items() if row["kept"]}
        self.assertLessEqual({"share", "whole", "array", "chain", "later", "held", "failing"}, kept, found.table())

    def changed(self, server, old, new, where=lambda line: ";E;" in line):
        """What the audit says where the first such line of a server's accounting has `new` in place of `old`."""
        evidence = copy.deepcopy(self.evidence)
        evidence["libra"]["done"] = {}  # PBS's own records alone
        lines = evidence[server]["accounting"].splitlines()
        number = next(number for number, line in enumerate(lines) if where(line) and old in line)
        lines[number] = lines[number].replace(old, new)
        evidence[server]["accounting"] = "\n".join(lines)
        return Audit(evidence).broken

    def test_the_audit_sees_what_is_wrong(self):
        """Each of these alone is found."""
        for server in ("libra", "alone"):
            for old, new in (("Exit_status=0", "Exit_status=1"), ("queue=workq", "queue=other"), ("nodect=1", "nodect=2"), ("run_count=1", "run_count=2"),
                             ("-1 group=", "-9 group="), (";E;", ";X;")):
                with self.subTest(server=server, old=old):
                    self.assertNotEqual(self.changed(server, old, new), [])
        due = lambda line: ";E;" in line and ":at=" in line and "[" not in line  # noqa: E731
        for old, new, said in ((" end=", " end=9", "late: "), (":deadline=", ":deadline=9000000", "promise: ")):
            with self.subTest(old=old):
                self.assertTrue(any(line.startswith(said) for line in self.changed("libra", old, new, due)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
