#!/usr/bin/env python3
"""A margin on estimates that follows the site's own records: slurmctld admits by it, nodes keep to the one that was promised.

Run as root: `python3 tests/slurm/test_learned.py`. Nothing is measured here. What was promised is read out of PBS's own accounting in tests/openpbs; sacct
asks a database, which there is none of here.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from libra_site import program  # noqa: E402
from records import exceeding  # noqa: E402


class Learned(SiteCase):
    site = {"nodes": 1, "rules": '[admission]\nestimate-margin = "learned"\nlearned-margin-bounds = ["5%", "30%"]\n'}

    def changed(self, change):
        """Something is done to what was learned; when slurmctld has taken it."""
        slurm = self.slurm
        before = slurm.log().count("was read anew")
        change()
        slurm.wait("slurmctld has the new margin", lambda: slurm.log().count("was read anew") > before)

    def learn(self, percent):
        self.changed(lambda: self.slurm.must(program(), "--config", self.slurm.rules_file, "trace", "margin", "--keep", "-", stdin=exceeding(percent)))

    def margins(self):
        """Of a job of 100 s within 1000: its share, the margin in its commitment, and that of its node, whose own configuration says 5 %."""
        job = self.accept(100, 1000)
        self.running(job)
        entry = self.slurm.wait(f"{job} has begun", lambda: self.slurm.entry(self.slurm.nodes[0], job))
        return round(self.share(job), 6), self.commitment(job)["margin"], entry["estimate-margin"]

    def test_jobs_are_admitted_by_what_was_learned(self):
        slurm = self.slurm
        kept = slurm.rules_file.with_name("learned-margin.toml")
        self.assertEqual(self.margins(), (0.105, "0.05", 0.05), "nothing was learned")
        self.learn(20)
        self.assertEqual(self.margins(), (0.12, "0.2", 0.2))
        self.learn(60)
        self.assertEqual(self.margins(), (0.13, "0.3", 0.3), "as far as its bounds go")
        # A file with a mistake changes nothing, and is said.
        kept.write_text("margin = 20\n")
        slurm.wait("it is said", lambda: "learned-margin.toml: " in slurm.log() and "20 is not a margin" in slurm.log())
        self.assertEqual(self.margins(), (0.13, "0.3", 0.3))
        slurm.stop_controller()
        slurm.start_controller()
        slurm.wait_judging(times=2)
        self.assertEqual(self.margins(), (0.13, "0.3", 0.3), "a slurmctld that has just begun")
        self.changed(kept.unlink)
        self.assertEqual(self.margins(), (0.105, "0.05", 0.05), "what was learned is forgotten")


if __name__ == "__main__":
    unittest.main()
