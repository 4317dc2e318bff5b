#!/usr/bin/env python3
"""A stream of jobs by chance, with `libra agent` on every node: whoever is accepted and keeps the estimate ends in time, whatever the others do.

Run as root: `python3 tests/slurm/test_promises.py`. LIBRA_TEST_SEED makes another stream than that of every run.
"""

import os
import pathlib
import random
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from libra_site import busy  # noqa: E402


def stream(test, chance, seconds, pause, slow):
    """Submit jobs for so many seconds, of all sorts, some of which need more than they said: [(job, does it keep its estimate?)] of those that were accepted, and how many were refused.

    Most work needs clearly less than its estimate: programs start, and the machine is not theirs alone. All times are `slow` times as long.
    """
    accepted, refused, end = [], 0, time.monotonic() + slow * seconds
    while time.monotonic() < end:
        estimate = round(slow * chance.uniform(2, 5), 2)
        deadline = round(estimate * chance.uniform(2, 6) + slow, 2)
        honest = chance.random() < 0.7
        options = chance.choice([[], [], ["--array=1-2"], ["-N2"]])
        work = busy(round(estimate * (0.7 if honest else 2.0), 2))
        answer = test.ask(estimate, deadline, *options, script=work, budget=round(slow * chance.choice([8, 20, 1000]), 2))
        if answer.rc == 0:
            jobs = [f"{answer.out}_{task}" for task in (1, 2)] if "--array=1-2" in options else [answer.out]
            accepted += [(job, honest) for job in jobs]
        else:
            test.refused(answer, "libra: refused (")
            refused += 1
        time.sleep(slow * chance.uniform(0, 2 * pause))
    return accepted, refused


class Promises(SiteCase):
    """Two nodes of one processor each, which are this machine's."""

    site = {"nodes": 2, "agents": True}
    measures = 2

    def slow(self):
        """Slurm itself takes a second or two for a job that does nothing, of which a deadline of some seconds has to leave room: how many times as long
        on this machine."""
        began = time.monotonic()
        self.slurm.wait_ended(self.slurm.submit(script="true\n"))
        return max(1.0, (time.monotonic() - began) / 2)

    def test_whoever_keeps_the_estimate_ends_in_time(self):
        seed = int(os.environ.get("LIBRA_TEST_SEED", 20261122))
        accepted, refused = stream(self, random.Random(seed), seconds=25, pause=0.5, slow=self.slow())
        endings = [(job, honest, *self.ending(job)) for job, honest in accepted]
        late = [text for _, honest, text, in_time in endings if honest and not in_time]
        over = [text for _, honest, text, _ in endings if not honest]
        print(f"\n  seed {seed}: {len(accepted)} accepted ({len(over)} of them need twice their estimate), {refused} refused, {len(late)} of those that kept their estimate late")
        self.assertGreater(len(accepted), 5)
        self.assertGreater(refused, 0)
        self.assertEqual(late, [], f"seed {seed}")


if __name__ == "__main__":
    unittest.main()
