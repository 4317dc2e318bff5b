#!/usr/bin/env python3
"""Questions about price on a PBS with Libra: asked with qsub itself and with `libra quote`, and held quotes.

Run as root: `python3 tests/openpbs/test_quotes.py`.
"""

import contextlib
import json
import pathlib
import pwd
import re
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402

MARK = "qsub: libra-quote: "
HOOKS = pathlib.Path(__file__).resolve().parents[2] / "pbs-hooks"
LONGEST_TEXT = int(re.search(r"^LONGEST_TEXT = (\d+)$", (HOOKS / "common.py").read_text(), re.MULTILINE)[1])
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
        self.assertGreaterEqual(len(found["curve"]), 8)
        self.assertEqual(self.raw(60, 50, "ask")["category"], "deadline")
        self.assertEqual(self.jobs(), {})
        # A submission at this moment gets the same.
        record = self.pbs.qstat(self.accept(60, 100))
        self.assertEqual(record["Resource_List.libra_info"], found["text"])
        self.assertNotIn("Resource_List.libra_quote", record)

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

    def test_it_outlives_the_server(self):
        """Its place stays through a crash of pbs_server, and it is used once."""
        pbs = self.pbs
        file = pbs.home / "server_priv/libra/quotes.json"
        found = self.quote("--hold", "10m", self.script)[1]
        number = found["quote"]
        self.assertIn(number, file.read_text())
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        pbs.kill_server()
        pbs.start_server()
        # All of them: what is held has a place on one, and the next job is to go to the other.
        pbs.wait_free()
        pbs.wait("they take jobs", lambda: self.quote(self.script)[1]["verdict"] == "accepted")
        self.accept(95, 100)
        self.refused(self.ask(60, 100), "refused (share)")
        with_it = lambda **options: self.ask(60, 100, "-l", f"libra_quote={number}", budget=99, **options)  # noqa: E731
        self.refused(with_it(user=pbs.users[1]), f"there is no quote {number} of yours")
        answer = with_it()
        self.assertEqual(answer.rc, 0, answer.err)
        record = self.running(answer.out)
        self.assertEqual(pbs.node_of(answer.out), [found["node"]])
        self.assertAlmostEqual(float(record["Resource_List.libra_price"]), found["price"])
        self.refused(with_it(), "was used or given back")
        self.assertFalse(file.exists())

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


class LongAnswers(SiteCase):
    """qsub has room for some thousand bytes: what Libra says fits, and what is longer comes in parts to `libra quote`. Six hosts of two processors."""

    site = {"hosts": 6, "processors": 2, "server_config": "[admission]\nmost-quotes = 9\n[class]\ndedicated-price = 0.001\nimmediate-price = 0.001\n"}
    WIDE = ("-l", "select=5:ncpus=2", "-l", "place=scatter")

    @classmethod
    def prepare(cls):
        """Who asks."""
        cls.user = cls.pbs.users[0]

    def fits(self, answer):
        """It was refused, by an exit status of qsub's own, in a text that fits. The text."""
        said = self.refused(answer, "libra")
        self.assertTrue(said.startswith("qsub: ") and said.endswith("\n"), said)
        self.assertLessEqual(len(said.encode()), len("qsub: ") + LONGEST_TEXT + 1)
        return said.removeprefix("qsub: ")

    def by_hand(self, *asked):
        """What somebody is answered who asks with qsub itself: one object."""
        said = self.fits(self.pbs.qsub(*asked))
        return json.loads(said.removeprefix("libra-quote: "))

    def by_libra(self, *asked):
        """`libra quote --json`, which ends by its own exit status."""
        answer = self.pbs.run(self.pbs.libra, "quote", "--json", "--system", "pbs", *asked, user=self.user)
        self.assertIn(answer.rc, (0, 3), answer.err)
        return json.loads(answer.out)

    def joined(self, *asked):
        """The answer as it comes to who joins the parts by hand."""
        whole, order, parts = "", "parts:ask", 1
        number = 0
        while number < parts:
            said = self.fits(self.pbs.qsub(*asked, "-l", f"libra_quote={order}")).removeprefix("libra-quote: ")
            head, end = json.JSONDecoder().raw_decode(said)
            number, parts = number + 1, head["parts"]
            self.assertEqual(head["part"], number)
            whole += said[end + 1:-1]
            order = f"part:{number + 1}:{head['key']}"
        return whole.removeprefix("libra-quote: ")

    def script(self, name, terms, *lines):
        """As the page writes one for the time of a question."""
        file = self.pbs.directory / "home" / self.user / name
        file.write_text("\n".join(["#!/bin/sh", f"#PBS -W {terms}", *(f"#PBS {line}" for line in lines), "true", ""]))
        file.chmod(0o755)
        return file

    def background(self):
        """The user's qsub in the background, which hands jobs on and must outlive every refusal. One that is idle for a minute ends: asked for anew each time."""
        self.pbs.submit("-h", "-z", user=self.user)
        return self.pbs.wait("a qsub in the background", lambda: sorted(qsubs_of(self.user)))

    def test_nothing_is_lost(self):
        large = "estimate=1234567.89,deadline=2345678.91"
        array = ("-J", "1-4")
        for name, terms, args, accepted, offers in [
            ("accepted", "estimate=60,deadline=100,budget=9999", self.WIDE, True, 0),
            # All that can be offered here: deadline, budget, jobs, two classes.
            ("offers", "estimate=60,deadline=600,budget=240.05", array, False, 5),
            ("dear", f"{large},budget=1", array, False, 1),
            ("short", "estimate=60,deadline=61,budget=9999", self.WIDE, False, 1),
            ("wide", "estimate=60,deadline=100,budget=9999", ("-l", "select=9:ncpus=2"), False, 2),
        ]:
            with self.subTest(name):
                before = self.background()
                short = self.by_hand("-l", terms, *args, "-l", "libra_quote=ask")
                whole = self.by_libra("--", self.script(name, terms, " ".join(args)))
                self.assertEqual((short["accepted"], whole["verdict"] == "accepted"), (accepted, accepted))
                self.assertEqual((short["text"], short["price"], short["category"]), (whole["text"], whole["price"], whole["category"]))
                self.assertGreaterEqual(len(whole["curve"]), 24)
                shown = [text for _, text in short["offers"]]
                self.assertEqual([offer["text"] for offer in whole["counter_offers"]][:len(shown)], shown)
                self.assertEqual(len(whole["counter_offers"]), offers)
                self.assertLessEqual(set(short), set(json.loads(self.joined("-l", terms, *args))))
                self.pbs.submit("-h", "-z", user=self.user)
                self.assertTrue(set(before) & qsubs_of(self.user), "the qsub in the background has ended")

    def test_a_held_quote_is_known_and_used(self):
        terms = "estimate=60,deadline=100,budget=9999"
        whole = self.by_libra("--hold", "5m", "--", self.script("held", terms, " ".join(self.WIDE)))
        self.assertEqual(len(whole["node"].split("+")), 5)
        self.assertIn(f"-W quote={whole['quote']}", whole["text"])
        job = self.pbs.submit("-l", f"{terms},libra_quote={whole['quote']}", *self.WIDE)
        self.running(job)
        self.assertEqual(sorted(self.pbs.node_of(job)), sorted(whole["node"].split("+")))
        self.clear()
        # By hand it is one line, with the number.
        short = self.by_hand("-l", terms, *self.WIDE, "-l", "libra_quote=hold:5m")
        number = short["held"][0]
        said = self.fits(self.pbs.qsub("-l", f"libra_quote=drop:{number}"))
        self.assertEqual(json.loads(said.removeprefix("libra-quote: "))["dropped"], number)

    def test_parts_are_of_who_asked(self):
        said = self.fits(self.pbs.qsub("-l", "estimate=60,deadline=100,budget=9999", *self.WIDE, "-l", "libra_quote=parts:ask"))
        head, end = json.JSONDecoder().raw_decode(said.removeprefix("libra-quote: "))
        self.assertEqual((head["part"], head["held"]), (1, False))
        self.assertGreaterEqual(head["parts"], 2)
        self.assertEqual(len(said.removeprefix("libra-quote: ")[end + 1:].rstrip("\n").encode()), head["bytes"])
        order = ("-l", f"libra_quote=part:2:{head['key']}")
        self.assertIn('"part":2', self.fits(self.pbs.qsub(*order)))
        self.assertIn("ask again", self.fits(self.pbs.qsub(*order, user=self.pbs.users[1])))
        self.assertIn("is not a part of an answer", self.fits(self.pbs.qsub("-l", "libra_quote=part:2:7")))
        # The server's memory ends with it.
        self.pbs.kill_server()
        self.pbs.start_server()
        self.assertIn("ask again", self.fits(self.pbs.qsub(*order)))

    def test_a_refusal_at_the_limit_is_printed_whole(self):
        """By a hook that says nothing else: what Libra's say is never longer, and the qsub in the background lives on."""
        source = "import pbs\nname = str(pbs.event().job.Job_Name)\nif name.startswith('T'):\n    pbs.event().reject('x' * (int(name[1:]) - 3) + 'end')\n"
        self.pbs.hook("limit", "queuejob", source, order=1)
        try:
            for _ in range(20):
                before = self.background()
                answer = self.pbs.qsub("-N", f"T{LONGEST_TEXT}", user=self.user)
                self.assertEqual((answer.rc, answer.out), (32, ""), answer.err)
                self.assertEqual(answer.err, "qsub: " + "x" * (LONGEST_TEXT - 3) + "end\n")
                self.pbs.submit("-h", "-z", user=self.user)
                self.assertTrue(set(before) & qsubs_of(self.user), "the qsub in the background has ended")
        finally:
            self.pbs.delete_hook("limit")


def qsubs_of(user):
    """Numbers of a user's processes that are qsub, but for those that have ended."""
    uid, found = pwd.getpwnam(user).pw_uid, set()
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            if lines["Name"] == "qsub" and int(lines["Uid"].split()[0]) == uid and not lines["State"].startswith("Z"):
                found.add(int(status.parent.name))
    return found


if __name__ == "__main__":
    unittest.main()
