#!/usr/bin/env python3
"""What the hooks in pbs_server count and write, compared with what was done.

Run as root: `tests/openpbs/run test_metrics`.
"""

import os
import pathlib
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import case  # noqa: E402
import exposition  # noqa: E402
from libra_site import Site  # noqa: E402
from scripts import idle_until  # noqa: E402


class Writing(Site):
    """Its hooks write metrics, each second at most."""

    @property
    def metrics(self):
        return self.directory / "metrics"

    def write_config(self, server_config=None):
        self.metrics.mkdir(mode=0o755, exist_ok=True)
        more = f"[metrics]\ndirectory = '{self.metrics}'\ninterval = '1s'\n"
        super().write_config((server_config or "") + more)


class Metrics(case.SiteCase):
    """Two hosts of one processor each."""

    cluster = Writing
    site = {"hosts": 2}

    @classmethod
    def prepare(cls):
        cls.files = exposition.Files(cls.pbs.metrics, "pbs")
        # Until a job with terms comes nobody has read PBS's records, and there is nothing to say.
        cls.pbs.qsub("-l", "estimate=10,deadline=20,budget=1")

    def written(self):
        """Wait until the files have all that has happened by now. An event writes them, where they are old enough; one that is not counted."""
        now = time.time()

        def after_an_event():
            self.pbs.qdel("-Wforce", self.pbs.submit())
            return self.files.written() > now

        self.pbs.wait("metrics written", after_an_event)

    def expect(self, before, **more):
        """What was counted since `before` is this, in the totals and in the history."""
        self.written()
        now = self.files.counts()
        refused = {reason: count - before.get("refused", {}).get(reason, 0) for reason, count in now.get("refused", {}).items()}
        grown = {key: count - before.get(key, 0) for key, count in now.items() if key != "refused"}
        grown = {key: count for key, count in {**grown, "refused": {k: v for k, v in refused.items() if v}}.items() if count}
        self.assertEqual(grown, more)
        self.assertEqual(self.files.history(), {key: count for key, count in now.items() if key != "verdicts"})

    def gauge(self, name):
        return self.files.gauges(name)

    def test_counts(self):
        pbs, files = self.pbs, self.files
        n1, n2 = pbs.host_names
        self.written()
        before = files.counts()
        self.assertEqual(self.gauge("libra_nodes"), {"yes": 2, "no": 0})
        self.assertEqual(self.gauge("libra_node_processors"), {n1: 1, n2: 1})
        # Accepted: one that will be late, one that will be in time, one that will be deleted, and three of an array.
        end = pbs.own / "late.end"
        # The one in time is submitted before the late one, which needs more with each moment that it waits.
        kept = self.accept(1, 600, "-l", f"select=1:host={n1}", script="true\n")
        late = self.accept(1, 5, "-l", "walltime=3600", "-l", f"select=1:host={n1}", script=idle_until(end))
        due = float(self.terms(late)["submitted"]) + 5
        deleted = self.accept(10, 1000, "-l", f"select=1:host={n2}")
        array = self.accept(1, 600, "-J", "1-3", "-l", f"select=1:host={n2}", script="true\n")
        self.refused(self.ask(10, 20, budget=9), "refused (budget)")
        self.refused(self.ask(10, 20, budget=8), "refused (budget)")
        self.refused(self.ask(30, 20), "refused (deadline)")
        self.refused(self.ask(10, 11, "-l", "select=3:ncpus=1"), "refused (chunks)")
        self.refused(self.ask(1, 9, "-l", "place=excl"), "place=excl")
        self.running(late)
        self.running(deleted)
        self.ending(kept)
        pbs.wait("the deadline of the first has passed", lambda: time.time() > due + 1)
        self.written()
        self.assertEqual(self.gauge("libra_jobs_late")[()], 1)
        self.assertGreaterEqual(self.gauge("libra_jobs")["running"], 2)
        self.assertAlmostEqual(self.gauge("libra_node_committed_processors")[n2], 0.0105, delta=0.01)
        end.touch()
        # Its shell ends by the signal itself, or says that a child of it did.
        pbs.qdel(deleted)
        for job in (late, deleted, *(array.replace("[]", f"[{task}]") for task in (1, 2, 3))):
            pbs.wait(f"the end of {job}", lambda job=job: any(f"job {job} " in line and "ended after" in line for line in pbs.log().splitlines()))
        self.expect(before, accepted=6, met=4, late=1, cancelled=1, verdicts=9, refused={"budget": 2, "deadline": 1, "chunks": 1, "request": 1})
        self.assertEqual(self.gauge("libra_jobs"), {"provisional": 0, "waiting": 0, "running": 0, "suspended": 0})
        self.assertEqual(self.gauge("libra_node_committed_processors"), {n1: 0, n2: 0})
        buckets = list(self.gauge("libra_decision_seconds_bucket").values())
        self.assertEqual((buckets, buckets[-1]), (sorted(buckets), self.gauge("libra_decision_seconds_count")[()]))
        for file in (files.prom, files.json):
            self.assertEqual(file.stat().st_mode & 0o777, 0o644)
            self.assertLess(file.stat().st_size, 16384)
        self.assertEqual(sorted(os.listdir(pbs.metrics)), ["pbs.json", "pbs.prom"])

    def test_deleted_before_it_ran(self):
        """PBS tells no hook of it; a refusal for the sake of the deleted job finds it out."""
        pbs = self.pbs
        self.written()
        before = self.files.counts()
        pbs.qmgr("set server scheduling = false")
        waiting = [self.accept(900, 1000, "-l", f"select=1:host={host}") for host in pbs.host_names]
        pbs.qdel(*waiting)
        job = self.accept(900, 1000)
        pbs.qmgr("set server scheduling = true")
        self.running(job)
        pbs.qdel(job)
        self.pbs.wait("its end", lambda: f"job {job} was " in pbs.log())
        self.expect(before, accepted=3, cancelled=3, verdicts=3)

    def test_restarts_and_rules(self):
        """pbs_server is killed, or the hooks begin anew: what was written counts on. Jobs without terms count where the site refuses them."""
        pbs, files = self.pbs, self.files
        self.written()
        before = files.counts()
        self.refused(self.ask(10, 20, budget=9), "refused (budget)")
        self.written()
        pbs.kill_server()
        pbs.start_server()
        self.refused(self.ask(10, 20, budget=9), "refused (budget)")
        self.expect(before, verdicts=2, refused={"budget": 2})
        before = files.counts()
        pbs.write_config("[pbs]\nwithout-terms = 'refuse'\n")
        self.refused(pbs.qsub(), "need a deadline")
        pbs.write_config()
        self.expect(before, verdicts=1, refused={"no-terms": 1})

    def test_nowhere_to_write(self):
        """One line in the log, and nothing else is different; nothing is lost."""
        pbs, files = self.pbs, self.files
        self.written()
        before = files.counts()
        lines = lambda: [line for line in pbs.log().splitlines() if "metrics" in line and "libra: " in line]  # noqa: E731
        said = len(lines())
        away = pbs.metrics.with_name("away")
        pbs.metrics.rename(away)
        self.addCleanup(lambda: away.exists() and away.rename(pbs.metrics))
        for _ in range(3):
            time.sleep(1.1)
            self.met(self.accept(1, 600, script="true\n"))
        self.assertEqual(len(lines()), said + 1, lines())
        self.assertIn("No such file or directory", lines()[-1])
        away.rename(pbs.metrics)
        self.expect(before, accepted=3, met=3, verdicts=3)
        self.assertIn("metrics are written again", lines()[-1])


if __name__ == "__main__":
    unittest.main()
