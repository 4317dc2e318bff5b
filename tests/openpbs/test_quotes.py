#!/usr/bin/env python3
"""Questions about price on a PBS with Libra: asked with qsub itself and with `libra quote`, and held quotes.

Run as root: `python3 tests/openpbs/test_quotes.py`.
"""

import json
import pathlib
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402

MARK = "qsub: libra-quote: "
SCRIPT = "#!/bin/sh\n#PBS -l select=1:ncpus=1 -W deadline=100,budget=99,estimate=60\nsleep 1000\n"


class Quotes(SiteCase):
    """Two hosts of one processor each."""

    site = {"hosts": 2, "server_config": "[admission]\nmost-quotes = 2\n"}

    @classmethod
    def prepare(cls):
        """The program where users reach it, and a script."""
        cls.front = cls.pbs.directory / "front"
        cls.front.mkdir(mode=0o755)
        shutil.copy(cls.pbs.libra, cls.front / "libra")
        cls.script = cls.front / "job.sh"
        cls.script.write_text(SCRIPT)
        cls.script.chmod(0o755)

    def raw(self, estimate, deadline, order, *more, **options):
        """What the server says to a question that qsub itself asks."""
        answer = self.ask(estimate, deadline, "-l", f"libra_quote={order}", *more, **options)
        said = self.refused(answer, MARK)
        return json.loads(said[said.index(MARK) + len(MARK):].splitlines()[0])

    def quote(self, *args, user=None):
        """`libra quote --json` as a user; (exit status, the object)."""
        answer = self.pbs.run(self.front / "libra", "quote", "--json", *args, user=user or self.pbs.users[0])
        self.assertIn(answer.rc, (0, 3), answer.err)
        return answer.rc, json.loads(answer.out)

    def jobs(self):
        return {job: record for job, record in self.pbs.jobs().items() if record.get("job_state") != "F"}

    def test_a_question_is_answered_and_never_queued(self):
        found = self.raw(60, 100, "1")
        self.assertTrue(found["accepted"])
        self.assertAlmostEqual(found["price"], 60.6)
        self.assertGreaterEqual(len(found["curve"]), 24)
        self.assertEqual(self.raw(60, 50, "ask")["category"], "deadline")
        self.assertEqual(self.jobs(), {})
        # A submission at this moment gets the same.
        record = self.pbs.qstat(self.accept(60, 100))
        self.assertEqual(record["Resource_List.libra_info"], found["text"])
        self.assertNotIn("Resource_List.libra_quote", record)

    def test_the_longest_answer_comes_whole(self):
        """Arrays on several nodes, refused with all counter-offers: PBS has room for some three thousand bytes."""
        for terms in (("1234567.89", "2345678.91"), ("60", "7000000")):
            found = self.raw(*terms, "ask", "-J", "1-4", budget=1)
            self.assertFalse(found["accepted"])
            self.assertGreaterEqual(len(found["curve"]), 24)

    def test_libra_quote_reads_the_script_and_asks_the_server(self):
        code, found = self.quote(self.script)
        self.assertEqual((code, found["verdict"], found["system"]), (0, "accepted", "pbs"))
        self.assertIn(found["node"], self.pbs.host_names)
        self.assertEqual(found["deadline_seconds"], 100)
        # The command line wins.
        code, found = self.quote("--deadline", "40", "-p", "1", self.script)
        self.assertEqual((code, found["category"]), (3, "deadline"))
        self.assertTrue(found["counter_offers"])
        code, found = self.quote("--system", "pbs", "-W", "deadline=100,budget=99,estimate=60")
        self.assertEqual(code, 0)
        self.assertEqual(self.jobs(), {})

    def test_what_is_wrong_is_said(self):
        def said(*args):
            answer = self.pbs.run(self.front / "libra", "quote", *args, user=self.pbs.users[0])
            self.assertEqual(answer.rc, 2, answer.err)
            return answer.err

        self.assertIn("libra: estimate is missing", said("--system", "pbs", "-W", "deadline=100,budget=99"))
        self.assertIn("at most 10m", said("--hold", "1h", self.script))
        self.assertIn("not the number of a quote", said("--drop", "1", "--system", "pbs"))
        self.assertIn("is written by Libra", self.pbs.qsub("-l", "libra_price=1").err)

    def test_a_held_quote_is_used_once(self):
        pbs = self.pbs
        asked = time.time()
        code, found = self.quote("--hold", "10m", self.script)
        self.assertEqual(code, 0)
        number = found["quote"]
        self.assertTrue(asked + 599 <= found["held_until"] <= time.time() + 600, (asked, found["held_until"], time.time()))
        # Whatever is committed meanwhile, its place stays: a whole node is left for others, and no more.
        self.accept(95, 100)
        self.refused(self.ask(60, 100), "refused (share)")
        qsub = lambda *args, **options: pbs.qsub("qsub", *args, program=self.front / "libra", **options)  # noqa: E731
        with_it = ("-W", f"quote={number}", "-W", "deadline=100,budget=99,estimate=60", "-l", "select=1:ncpus=1")
        self.refused(qsub(*with_it, user=pbs.users[1]), f"there is no quote {number} of yours")
        self.refused(qsub("-W", f"quote={number}", "-W", "deadline=90,budget=99,estimate=60"), "its deadline from submission is 90 and the quote's 100")
        answer = qsub(*with_it)
        self.assertEqual(answer.rc, 0, answer.err)
        self.assertIn("libra: accepted", answer.err)
        record = self.running(answer.out)
        self.assertEqual(pbs.node_of(answer.out), [found["node"]])
        self.assertAlmostEqual(float(record["Resource_List.libra_price"]), found["price"])
        self.assertNotIn("Resource_List.libra_quote", record)
        self.refused(qsub(*with_it), "was used or given back")

    def test_it_expires_and_can_be_given_back(self):
        first = self.quote("--hold", "5m", self.script)[1]["quote"]
        second = self.quote("--hold", "5m", self.script)[1]["quote"]
        # Both nodes are taken for more than a half.
        self.refused(self.ask(60, 100), "refused (share)")
        third = self.pbs.run(self.front / "libra", "quote", "--hold", "5m", "--deadline", "1h", self.script, user=self.pbs.users[0])
        self.assertIn("2 quotes of yours are held already", third.err)
        for one in (first, second):
            said = self.pbs.must(self.front / "libra", "quote", "--drop", one, "--system", "pbs", user=self.pbs.users[0])
            self.assertIn(f"quote {one} was given back", said)
        # Alone: the limits above must not have to be tried while it is held.
        first = self.quote("--hold", "2s", self.script)[1]["quote"]
        time.sleep(2.1)
        self.refused(self.pbs.qsub("-l", f"deadline=100,budget=99,estimate=60,libra_quote={first}"), "expired")
        for _ in range(2):
            self.accept(60, 100)


if __name__ == "__main__":
    unittest.main()
