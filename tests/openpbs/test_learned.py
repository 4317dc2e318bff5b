#!/usr/bin/env python3
"""A margin on estimates that follows the site's own records: PBS's accounting is read, what is proposed is kept, and jobs are admitted by it.

Run as root: `python3 tests/openpbs/test_learned.py`. Nothing is measured here.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from records import exceeding  # noqa: E402

LEARNED = '[admission]\nestimate-margin = "learned"\nlearned-margin-bounds = ["5%", "30%"]\n'
WORKS = "python3 -c 'import time\nwhile time.process_time() < {}: pass'\n"


class Learned(SiteCase):
    site = {"hosts": 1, "server_config": LEARNED}

    def trace(self, *words, stdin=""):
        """What `libra trace` says, of the server's configuration; standard output and error."""
        said = self.pbs.run(self.pbs.libra, "--config", self.pbs.own / "server.toml", "trace", *words, stdin=stdin)
        self.assertEqual(said.rc, 0, said.err)
        return said.out, said.err

    def learn(self, percent):
        """Records propose so much."""
        self.trace("margin", "--keep", "-", stdin=exceeding(percent))

    def margin(self, job):
        """What is committed to a job of 100 s within 1000, and the margin that is in its line."""
        return round(self.share(job), 6), self.terms(job)["margin"]

    def test_jobs_are_admitted_by_what_was_learned(self):
        pbs = self.pbs
        first = self.accept(100, 1000)
        self.assertEqual(self.margin(first), (0.105, "0.05"), "nothing was learned")
        self.learn(20)
        self.assertEqual(self.margin(self.accept(100, 1000)), (0.12, "0.2"))
        self.learn(60)
        self.assertEqual(self.margin(self.accept(100, 1000)), (0.13, "0.3"), "as far as its bounds go")
        # What was promised stays as it was.
        self.assertEqual(self.margin(first), (0.105, "0.05"))
        # A file with a mistake changes nothing, and is said.
        kept = pbs.own / "learned-margin.toml"
        kept.write_text("margin = 20\n")
        self.assertEqual(self.margin(self.accept(100, 1000)), (0.13, "0.3"))
        pbs.wait("it is said", lambda: "learned-margin.toml" in pbs.log() and "20 is not a margin" in pbs.log())
        pbs.kill_server()
        pbs.start_server()
        pbs.wait_free()
        self.assertEqual(self.margin(self.accept(100, 1000)), (0.13, "0.3"), "a server that has just begun")
        kept.unlink()
        self.assertEqual(self.margin(self.accept(100, 1000)), (0.105, "0.05"), "what was learned is forgotten")

    def test_the_records_are_those_of_what_was_promised(self):
        """PBS's own accounting: a job that kept to its estimate, one that did not, one that was deleted, one without terms."""
        pbs = self.pbs
        deleted = self.accept(100, 1000)
        ended = [self.accept(5, 40, script=WORKS.format(2)), self.accept(1, 20, "-l", "walltime=100", script=WORKS.format(2)), pbs.submit(script="true\n")]
        self.running(deleted)
        for job in ended:
            pbs.wait_state(job, "F")
        pbs.qdel(deleted)
        pbs.wait_state(deleted, "F")
        files = sorted((pbs.home / "server_priv/accounting").iterdir())
        pbs.wait("all ends are in the accounting", lambda: all(f";E;{job};" in pbs.log("accounting") for job in [*ended, deleted]))
        log, said = self.trace("import", "--promised", *files)
        self.assertIn("jobs that Libra promised nothing", said)
        self.assertIn("cancelled, or not measured", said)
        jobs = {int(line.split()[0]): line.split() for line in log.splitlines() if not line.startswith(";")}
        number = lambda job: int(job.split(".")[0])  # noqa: E731
        for job, estimate in zip(ended[:2], (5, 1)):
            needed, asked = float(jobs[number(job)][3]), float(jobs[number(job)][8])
            self.assertEqual(asked, estimate)
            # It worked for two seconds, whatever its share was, and its shell for a little.
            self.assertGreaterEqual(needed, 2)
            self.assertLess(needed, 5)
        self.assertFalse({number(deleted), number(ended[2])} & set(jobs), log)


if __name__ == "__main__":
    unittest.main()
