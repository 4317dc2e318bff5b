"""Questions about price in a cell with Libra, by `libra quote`, and held quotes."""

import json
import time
import unittest

from case import CellCase

SCRIPT = "#!/bin/sh\n#$ -l deadline=100,budget=99\n#$ -l estimate=60\n#$ -pe smp 1\nsleep 1000\n"


class Quotes(CellCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.script = cls.cell.home(cls.cell.users[0]) / "job.sh"
            cls.script.write_text(SCRIPT)
            cls.script.chmod(0o755)
        except BaseException:
            cls.tearDownClass()
            raise

    def libra_quote(self, *args, **options):
        """Asked of a verifier as a submission is (`Cell.qsub`), and again for the same reasons."""
        def answered():
            answer = self.cell.run(self.cell.program, "--config", self.cell.rules_file, "quote", "--json", *args, user=self.cell.users[0], **options)
            return None if self.cell.is_to_be_asked_again(answer) else answer
        return self.cell.wait("a verifier has answered", answered)

    def quote(self, *args, **options):
        """`libra quote --json` as a user; (exit status, the object)."""
        answer = self.libra_quote(*args, **options)
        self.assertIn(answer.rc, (0, 3), answer)
        return answer.rc, json.loads(answer.out)

    def is_used_once(self, with_it, found):
        """A job that comes with a held quote has its place and its price, and the next one nothing."""
        answer = self.cell.qsub(*with_it)
        self.assertEqual(answer.rc, 0, answer)
        job = answer.out.strip()
        self.assertEqual(list(self.places(job)), [found["node"]])
        self.assertAlmostEqual(float(self.commitment(job)["price"]), found["price"])
        self.refused(self.cell.qsub(*with_it), "was used or given back")

    def test_it_reads_the_script_and_asks_the_verifier(self):
        code, found = self.quote(self.script)
        self.assertEqual((code, found["verdict"], found["system"]), (0, "accepted", "gridengine"))
        self.assertIn(found["node"], ("g1", "g2"))
        self.assertEqual(found["deadline_seconds"], 100)
        self.assertGreaterEqual(len(found["curve"]), 24)
        # The command line wins.
        code, found = self.quote("--deadline", "40", self.script)
        self.assertEqual((code, found["category"]), (3, "deadline"))
        self.assertTrue(found["counter_offers"][0]["text"].startswith("-l deadline="), found)
        code, found = self.quote("--system", "gridengine", "-W", "deadline=100,budget=99,estimate=60")
        self.assertEqual(code, 0)
        self.assertEqual(self.cell.jobs(), [])
        # A submission at this moment gets the same.
        job = self.accept(60, 100, budget=99)
        self.assertAlmostEqual(float(self.commitment(job)["price"]), found["price"])

    def test_the_host_is_asked_with_the_same_lines(self):
        code, found = self.quote("--system", "local", self.script, environment={"XDG_RUNTIME_DIR": str(self.script.parent)})
        self.assertEqual((code, found["system"], found["deadline_seconds"]), (0, "local", 100))

    def test_what_is_wrong_is_said(self):
        def said(*args):
            answer = self.libra_quote(*args)
            self.assertEqual(answer.rc, 2, answer)
            return answer.err

        self.assertIn("libra: estimate is missing", said("--system", "gridengine", "-W", "deadline=100,budget=99"))
        self.assertIn("by a parallel environment", said("--system", "gridengine", "-p", "2", self.script))
        self.assertIn("leave out --memory", said("--system", "gridengine", "--memory", "1G", self.script))
        self.assertIn("at most 10m", said("--hold", "1h", self.script))
        self.assertIn("not the number of a quote", said("--drop", "1", "--system", "gridengine"))
        self.assertIn("there is no cell of Grid Engine in /nowhere", self.libra_quote("--system", "gridengine", self.script, environment={"SGE_ROOT": "/nowhere"}).err)

    def test_a_held_quote_is_used_once(self):
        asked = time.time()
        code, found = self.quote("--hold", "10m", self.script)
        self.assertEqual(code, 0)
        number = found["quote"]
        self.assertTrue(asked + 599 <= found["held_until"] <= time.time() + 600, (asked, found["held_until"], time.time()))
        with_it = ["-l", f"quote={number}", *self.terms(60, 100, 99), "-pe", "smp", "1"]
        self.refused(self.cell.qsub(*with_it, user=self.cell.users[1]), f"there is no quote {number} of yours")
        self.refused(self.cell.qsub("-l", f"quote={number}", *self.terms(60, 90, 99), "-pe", "smp", "1"), "its deadline from submission is 90 and the quote's 100")
        self.is_used_once(with_it, found)

    def test_a_held_quote_outlives_the_verifiers(self):
        found = self.quote("--hold", "10m", self.script)[1]
        self.cell.kill_verifiers()
        with_it = ["-l", f"quote={found['quote']}", *self.terms(60, 100, 99), "-pe", "smp", "1"]
        answer = self.cell.wait("somebody judges again", lambda: (lambda said: "reads the queue first" not in said.out + said.err and said)(self.cell.qsub(*with_it, user=self.cell.users[1])))
        self.refused(answer, f"there is no quote {found['quote']} of yours")
        self.is_used_once(with_it, found)

    def test_a_held_quote_is_given_back(self):
        number = self.quote("--hold", "5m", self.script)[1]["quote"]
        self.assertEqual(self.libra_quote("--system", "gridengine", "--drop", number).rc, 0)
        self.refused(self.cell.qsub("-l", f"quote={number}", *self.terms(60, 100, 99), "-pe", "smp", "1"), "was used or given back")


if __name__ == "__main__":
    unittest.main()
