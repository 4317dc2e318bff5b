#!/usr/bin/env python3
"""Questions about price on a Slurm with Libra: asked with sbatch itself and with `libra quote`, and held quotes.

Run as root: `python3 tests/slurm/test_quotes.py`.
"""

import json
import pathlib
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import BAD_OPTION, SiteCase  # noqa: E402
from libra_site import program  # noqa: E402

MARK = "libra-quote: "
SCRIPT = "#!/bin/sh\n#SBATCH -n 1 --sla-deadline=100 --budget=99 --estimate=60\nsleep 1000\n"


class Quotes(SiteCase):
    """Two nodes of one processor each."""

    site = {"nodes": 2, "rules": "[admission]\nmost-quotes = 2\n"}

    @classmethod
    def prepare(cls):
        """The program where users reach it, and a script."""
        front = cls.slurm.directory / "front"
        front.mkdir(mode=0o755)
        cls.libra, cls.script = front / "libra", front / "job.sh"
        shutil.copy(program(), cls.libra)
        cls.script.write_text(SCRIPT)
        cls.script.chmod(0o755)

    def raw(self, estimate, deadline, order, *more, **options):
        """What the controller says to a question that sbatch itself asks."""
        answer = self.ask(estimate, deadline, f"--sla-quote={order}", *more, **options)
        said = self.refused(answer, MARK)
        return json.loads(said[said.index(MARK) + len(MARK):].splitlines()[0])

    def quote(self, *args, user=None):
        """`libra quote --json` as a user; (exit status, the object)."""
        answer = self.slurm.run(self.libra, "quote", "--json", *args, user=user or self.slurm.users[0])
        self.assertIn(answer.rc, (0, 3), answer.err)
        return answer.rc, json.loads(answer.out)

    def test_a_question_is_answered_and_never_queued(self):
        found = self.raw(60, 100, "ask")
        self.assertTrue(found["accepted"])
        self.assertAlmostEqual(found["price"], 60.6)
        self.assertGreaterEqual(len(found["curve"]), 24)
        self.assertEqual(self.raw(60, 50, "ask", "--test-only")["category"], "deadline")
        commented = self.slurm.sbatch("--comment=libra:quote=ask,estimate=60,deadline=100,budget=99")
        self.refused(commented, MARK)
        self.refused(self.slurm.srun(*self.terms_of(60, 100), "--sla-quote=ask", "true"), MARK)
        self.assertEqual(self.slurm.must("squeue", "-h"), "")
        # A submission at this moment gets the same.
        answer = self.ask(60, 100)
        self.assertIn(f"libra: {found['text']}", answer.err)

    def test_an_array_that_is_refused(self):
        found = self.raw(60, 100, "ask", "--array=1-9")
        self.assertFalse(found["accepted"])
        self.assertGreaterEqual(len(found["curve"]), 24)
        self.assertTrue(any(isinstance(point[2], float) for point in found["curve"]), "a longer deadline would do")

    def test_libra_quote_reads_the_script_and_asks_the_controller(self):
        code, found = self.quote(self.script, "an", "argument")
        self.assertEqual((code, found["verdict"], found["system"]), (0, "accepted", "slurm"))
        self.assertIn(found["node"], self.slurm.nodes)
        self.assertEqual(found["deadline_seconds"], 100)
        # The command line wins.
        code, found = self.quote("--deadline", "40", "-p", "1", self.script)
        self.assertEqual((code, found["category"]), (3, "deadline"))
        self.assertIn("--sla-deadline=", found["counter_offers"][0]["text"])
        code, found = self.quote("--system", "slurm", "-W", "deadline=100,budget=99,estimate=60")
        self.assertEqual(code, 0)
        # Also over terms in the script's comment.
        commented = self.script.with_name("commented.sh")
        commented.write_text("#!/bin/sh\n#SBATCH --comment=libra:deadline=100,budget=99,estimate=60\ntrue\n")
        commented.chmod(0o755)
        self.assertEqual(self.quote("--deadline", "200", commented)[1]["deadline_seconds"], 200)
        self.assertEqual(self.slurm.must("squeue", "-h"), "")

    def test_what_is_wrong_is_said(self):
        def said(*args):
            answer = self.slurm.run(self.libra, "quote", *args, user=self.slurm.users[0])
            self.assertEqual(answer.rc, 2, answer.err)
            return answer.err

        self.assertIn("libra: the estimate is missing", said("--system", "slurm", "-W", "deadline=100,budget=99"))
        self.assertIn("at most 10m", said("--hold", "1h", self.script))
        self.assertIn("not the number of a quote", said("--drop", "1", "--system", "slurm"))
        self.refused(self.ask(60, 100, "--sla-quote=maybe"), "not the number of a quote", status=BAD_OPTION)

    def test_a_held_quote_is_used_once(self):
        slurm = self.slurm
        asked = time.time()
        code, found = self.quote("--hold", "10m", self.script)
        self.assertEqual(code, 0)
        number = found["quote"]
        self.assertTrue(asked + 599 <= found["held_until"] <= time.time() + 600, (asked, found["held_until"], time.time()))
        # Whatever is committed meanwhile, and however often the queue is read, its place stays: a whole node is left for others, and no more.
        self.accept(95, 100, "-n1")
        time.sleep(3)
        self.refused(self.ask(60, 100, "-n1"), "refused (share)")
        with_it = lambda deadline=100, **options: self.ask(60, deadline, "-n1", f"--sla-quote={number}", budget=99, **options)  # noqa: E731
        self.refused(with_it(user=slurm.users[1]), f"there is no quote {number} of yours")
        self.refused(with_it(90), "its deadline from submission is 90 and the quote's 100")
        answer = with_it()
        self.assertEqual(answer.rc, 0, answer.err)
        self.assertIn("libra: accepted", answer.err)
        self.running(answer.out)
        self.assertEqual(slurm.nodes_of(answer.out), [found["node"]])
        self.assertAlmostEqual(float(self.commitment(answer.out)["price"]), found["price"])
        self.refused(with_it(), "was used or given back")

    def test_it_outlives_the_controller(self):
        """Its place stays through a crash and an orderly end of slurmctld, and it is used once."""
        slurm = self.slurm
        file = pathlib.Path(slurm.all_settings()["StateSaveLocation"]) / "libra.quotes"
        found = self.quote("--hold", "10m", self.script)[1]
        number, dropped = found["quote"], self.quote("--hold", "10m", self.script)[1]["quote"]
        slurm.must(self.libra, "quote", "--drop", dropped, "--system", "slurm", user=slurm.users[0])
        slurm.wait("it is written down, and it alone", lambda: file.exists() and number in file.read_text() and dropped not in file.read_text())
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        for end in (slurm.kill_controller, slurm.stop_controller):
            judging = slurm.log().count(" jobs with terms")
            end()
            slurm.start_controller()
            slurm.wait_judging(judging + 1)
        self.accept(95, 100, "-n1")
        self.refused(self.ask(60, 100, "-n1"), "refused (share)")
        with_it = lambda **options: self.ask(60, 100, "-n1", f"--sla-quote={number}", budget=99, **options)  # noqa: E731
        self.refused(with_it(user=slurm.users[1]), f"there is no quote {number} of yours")
        answer = with_it()
        self.assertEqual(answer.rc, 0, answer.err)
        self.running(answer.out)
        self.assertEqual(slurm.nodes_of(answer.out), [found["node"]])
        self.assertAlmostEqual(float(self.commitment(answer.out)["price"]), found["price"])
        self.refused(with_it(), "was used or given back")
        slurm.wait("nothing is held, and there is no file", lambda: not file.exists())

    def test_it_expires_and_can_be_given_back(self):
        slurm = self.slurm
        first = self.quote("--hold", "5m", self.script)[1]["quote"]
        second = self.quote("--hold", "5m", self.script)[1]["quote"]
        # Both nodes are taken for more than a half.
        self.refused(self.ask(60, 100), "refused (share)")
        third = slurm.run(self.libra, "quote", "--hold", "5m", "--deadline", "1h", self.script, user=slurm.users[0])
        self.assertIn("2 quotes of yours are held already", third.err)
        for one in (first, second):
            said = slurm.must(self.libra, "quote", "--drop", one, "--system", "slurm", user=slurm.users[0])
            self.assertIn(f"quote {one} was given back", said)
        # Alone: the limits above must not have to be tried while it is held.
        first = self.quote("--hold", "2s", self.script)[1]["quote"]
        time.sleep(2.1)
        self.refused(self.ask(60, 100, f"--sla-quote={first}"), "expired")
        for _ in range(2):
            self.accept(60, 100)


if __name__ == "__main__":
    unittest.main()
