#!/usr/bin/env python3
"""What the plugin in slurmctld counts and writes, compared with what was done.

Run as root: `tests/slurm/run test_metrics`.
"""

import contextlib
import os
import pathlib
import shutil
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import exposition  # noqa: E402
from case import SiteCase  # noqa: E402
from libra_site import Site  # noqa: E402
from scripts import idle_until  # noqa: E402


class Writing(Site):
    """Its plugin writes metrics, each second, into a directory of SlurmUser's."""

    @property
    def metrics(self):
        return self.directory / "metrics"

    def before_start(self):
        self.metrics.mkdir(mode=0o755)
        shutil.chown(self.metrics, self.plan["slurm_user"])
        self.rules += f"\n[metrics]\ndirectory = '{self.metrics}'\ninterval = '1s'\n"
        super().before_start()


class Metrics(SiteCase):
    """Two nodes of one processor each."""

    kind, site = Writing, {"nodes": 2}

    @classmethod
    def prepare(cls):
        cls.files = exposition.Files(cls.slurm.metrics, "slurm")

    def written(self):
        """Wait until the files have all that has happened by now."""
        now = time.time()
        self.slurm.wait("metrics written", lambda: self.files.written() > now + 1)

    def expect(self, before, **more):
        """What was counted since `before` is this, in the totals and in the history. That a test came to nothing is seen some polls later."""
        self.written()
        with contextlib.suppress(TimeoutError):
            self.slurm.wait("all is counted", lambda: self.grown(before) == more)
        self.assertEqual(self.grown(before), more)
        now = self.files.counts()
        self.assertEqual(self.files.history(), {key: count for key, count in now.items() if key != "verdicts"})

    def grown(self, before):
        now = self.files.counts()
        refused = {reason: count - before.get("refused", {}).get(reason, 0) for reason, count in now.get("refused", {}).items()}
        grown = {key: count - before.get(key, 0) for key, count in now.items() if key != "refused"}
        # A node that is slow to answer is lost for a while, and who was refused for it asks again (`judged`).
        grown["verdicts"] = grown.get("verdicts", 0) - refused.pop("no-node", 0)
        return {key: count for key, count in {**grown, "refused": {k: v for k, v in refused.items() if v}}.items() if count}

    def gauges(self):
        return {"jobs": self.files.gauges("libra_jobs"), "late": self.files.gauges("libra_jobs_late")[()], "committed": self.files.gauges("libra_node_committed_processors")}

    def test_counts(self):
        slurm, files = self.slurm, self.files
        n1, n2 = slurm.nodes
        self.written()
        before = files.counts()
        slurm.wait("both nodes answer", lambda: files.gauges("libra_nodes") == {"yes": 2, "no": 0})
        self.assertEqual(files.gauges("libra_node_processors"), {n1: 1, n2: 1})
        # Accepted: one that will be late, one that will be in time, one that will be cancelled, and three of an array.
        end = slurm.directory / "late.end"
        # The one in time is submitted before the late one, which needs more with each moment that it waits.
        kept = self.accept(1, 600, "-w", n1, script="true\n")
        late = self.accept(1, 4, "-w", n1, "--time=60", script=idle_until(end))
        cancelled = self.accept(10, 1000, "-w", n2)
        array = slurm.submit("--array=1-3", *self.terms_of(1, 600), "-w", n2, script="true\n")
        self.refused(self.ask(10, 20, budget=9), "refused (budget)")
        self.refused(self.ask(10, 20, budget=8), "refused (budget)")
        self.refused(self.ask(30, 20), "refused (deadline)")
        self.refused(self.ask(10, 11, "-n3"), "refused (nodes)")
        self.refused(self.ask(1, 9, "--tmp=1"), "cannot ask for --tmp")
        self.started(cancelled)
        self.ending(kept)
        slurm.wait("it is late", lambda: files.written() and self.gauges()["late"] == 1)
        self.written()
        slurm.wait("all have their numbers", lambda: self.gauges()["jobs"]["provisional"] == 0)
        self.assertGreaterEqual(self.gauges()["jobs"]["running"], 1)
        self.assertAlmostEqual(self.gauges()["committed"][n2], 0.0105, delta=0.01)
        slurm.scancel(cancelled)
        end.touch()
        for job in (late, cancelled, *(f"{array}_{task}" for task in (1, 2, 3))):
            self.ending(job)
        self.expect(before, accepted=6, met=4, late=1, cancelled=1, verdicts=9, refused={"budget": 2, "deadline": 1, "chunks": 1, "request": 1})
        self.assertEqual(self.gauges()["jobs"], {"provisional": 0, "waiting": 0, "running": 0, "suspended": 0})
        self.assertEqual(self.gauges()["committed"], {n1: 0, n2: 0})
        buckets = list(files.gauges("libra_decision_seconds_bucket").values())
        self.assertEqual((buckets, buckets[-1]), (sorted(buckets), files.gauges("libra_decision_seconds_count")[()]))
        for file in (files.prom, files.json):
            self.assertEqual(file.stat().st_mode & 0o777, 0o644)
            self.assertLess(file.stat().st_size, 16384)
        # Beside what is just being written.
        self.assertEqual(sorted(name for name in os.listdir(slurm.metrics) if not name.endswith(".new")), ["slurm.json", "slurm.prom"])

    def test_what_comes_to_nothing(self):
        """--test-only is accepted, and no job follows; one without terms is not counted, and is where the site refuses it."""
        slurm = self.slurm
        self.written()
        before = self.files.counts()
        self.assertEqual(slurm.sbatch(*self.terms_of(1, 100), "--test-only").rc, 0)
        slurm.submit("--time=1")
        slurm.rule(slurm.rules + "\n[slurm]\nwithout-terms = 'refuse'\n")
        self.refused(slurm.sbatch("--time=1"), "need a deadline")
        self.expect(before, accepted=1, withdrawn=1, verdicts=2, refused={"no-terms": 1})

    def test_restarts(self):
        """slurmctld ends, or is killed: what was written counts on."""
        slurm, files = self.slurm, self.files
        self.written()
        before = files.counts()
        self.refused(self.ask(10, 20, budget=9), "refused (budget)")
        # Also in its own time slurmctld tells plugins nothing of its end.
        self.written()
        slurm.stop_controller()
        slurm.start_controller()
        self.refused(self.ask(10, 20, budget=9), "refused (budget)")
        self.written()
        slurm.kill_controller()
        slurm.start_controller()
        self.refused(self.ask(10, 20, budget=9), "refused (budget)")
        self.expect(before, verdicts=3, refused={"budget": 3})

    def test_nowhere_to_write(self):
        """One line in the log, and nothing else is different; nothing is lost."""
        slurm, files = self.slurm, self.files
        self.written()
        before = files.counts()
        lines = lambda: [line for line in slurm.said() if "metrics" in line]  # noqa: E731
        said = len(lines())
        away = slurm.metrics.with_name("away")
        slurm.metrics.rename(away)
        self.addCleanup(lambda: away.exists() and away.rename(slurm.metrics))
        slurm.wait("it is said", lambda: len(lines()) > said)
        job = self.accept(1, 600, script="true\n")
        self.met(job)
        time.sleep(3)
        self.assertEqual(len(lines()), said + 1, lines())
        self.assertIn("No such file or directory", lines()[-1])
        away.rename(slurm.metrics)
        self.expect(before, accepted=1, met=1, verdicts=1)
        slurm.wait("that is said", lambda: lines()[-1] == "metrics are written again")


if __name__ == "__main__":
    unittest.main()
