#!/usr/bin/env python3
"""Hundreds of submissions at once: nothing is committed twice, nothing is lost, and slurmctld does not grow.

Run as root: `tests/slurm/run test_faults_many`. Takes about three minutes.
"""

import concurrent.futures
import pathlib
import random
import statistics
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from promises import LONG, STILL, expect_free, holding, resident, commitment, committed_on, terms  # noqa: E402


class Many(SiteCase):
    """Nothing is started, so that all that was accepted stays to be counted."""

    site = {"nodes": 4, "users": 4, "settings": {"SchedulerParameters": STILL, "MinJobAge": 2}, "partition": {"OverSubscribe": "FORCE:1000"}}

    def submit(self, asked, at_a_time=8):
        """(share, nodes, user) each; the answers."""
        def one(what):
            share, nodes, user = what
            return self.slurm.sbatch(f"-N{nodes}", *terms(share), user=self.slurm.users[user], timeout=180)
        with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
            return list(pool.map(one, asked))

    def test_five_hundred(self):
        slurm = self.slurm
        dice = random.Random(7)
        asked = [(dice.uniform(0.002, 0.03), dice.choice([1, 1, 1, 2, 4]), dice.randrange(4)) for _ in range(500)]
        self.assertGreater(sum(share * nodes for share, nodes, _ in asked), 6, "far more than there is")
        answers = self.submit(asked)
        odd = [answer.err for answer in answers if answer.rc not in (0, 1) or (answer.rc == 1 and "libra: refused (" not in answer.err)]
        self.assertEqual(odd, [])
        accepted = {answer.out: what for answer, what in zip(answers, asked) if answer.rc == 0}
        self.assertGreater(len(accepted), 100)
        self.assertLess(len(accepted), 500)
        known = holding(slurm)
        self.assertEqual(set(known), set(accepted), "every accepted job is there, and no other")
        self.assertEqual(len({commitment(line)["token"] for line in known.values()}), len(accepted), "each was committed once")
        for job, (share, nodes, _) in accepted.items():
            has = commitment(known[job])
            places = [place.split("*") for place in has["at"].split("+")]
            self.assertEqual(len({node for node, _, _ in places}), nodes)
            for _, _, was_committed in places:
                self.assertAlmostEqual(float(was_committed), share, delta=1e-4)
        taken = committed_on(slurm)
        for node, total in taken.items():
            # A waiting job needs a little more with every second, which was true of those before it when the last one came.
            self.assertLessEqual(total, 1 + 1200 / LONG, taken)
        slurm.wait("the book knows all of them", lambda: set(slurm.booked()) == set(accepted))
        expect_free(self, slurm, {node: 1 - total for node, total in taken.items()})
        self.assertEqual([line for line in slurm.said() if "fault" in line or "not taken" in line or "taken back" in line], [])
        print(f"{len(accepted)} of 500 accepted; committed: {' '.join(f'{total:.4f}' for total in taken.values())}", file=sys.stderr)

    def test_memory_of_polls(self):
        """The plugin reads the queue each second, which leaves nothing behind, however many jobs have a commitment."""
        slurm = self.slurm
        accepted = [answer.out for answer in self.submit([(0.002, 1, 0)] * 300) if answer.rc == 0]
        self.assertGreater(len(accepted), 250)
        slurm.wait("the book knows all of them", lambda: set(accepted) <= set(slurm.booked()))
        controller = slurm.daemon_pid("slurmctld")
        # The texts of what is committed are 80 kB: Slurm's own function to free them forgot them, with each poll. Its own memory comes to rest, in 24.11 after half a minute.
        grown = []
        while not grown or (grown[-1] > 250 and len(grown) < 18):
            before = resident(controller)
            time.sleep(10)
            grown.append(resident(controller) - before)
        print(f"{grown} kB in 10 s each, with {len(accepted)} jobs", file=sys.stderr)
        self.assertLess(grown[-1], 250)

    def test_memory(self):
        """Refusals alone, so that slurmctld itself has nothing to keep: its own memory comes to rest."""
        slurm = self.slurm
        controller = slurm.daemon_pid("slurmctld")
        slurm.submit(*terms(0.5, slurm.nodes[0]))
        refusals = [["--estimate=10", "--sla-deadline=100", "--budget=1"], terms(0.9, slurm.nodes[0]), ["--array=1-500", *terms(0.5)], ["--comment=libra:estimate=1"], ["-C", "x" * 3000, *terms(0.1)]]
        points = []
        number, slope = 0, 1.0
        # Arenas of malloc's grow for some hundred refusals, now and then for a thousand; one job's text that was forgotten each time would
        # be more than a kB each, for ever.
        while number < 30 or (slope >= 0.5 and number < 120):
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda n: slurm.sbatch(*refusals[n % len(refusals)]), range(50)))
            self.assertEqual({answer.rc for answer in answers}, {1})
            points = [*points, (50 * number, resident(controller))][-10:]
            number += 1
            if len(points) == 10:
                slope = statistics.linear_regression(*zip(*points)).slope
        print(f"{slope * 1024:.0f} bytes a refusal; {points[0][1]} kB after {points[0][0]}, {points[-1][1]} kB after {points[-1][0]}", file=sys.stderr)
        self.assertLess(slope, 0.5, points)


if __name__ == "__main__":
    unittest.main()
