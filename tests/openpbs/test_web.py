#!/usr/bin/env python3
"""The page of `libra web` with jobs of PBS, in a real browser, as an ordinary user.

Run as root: `python3 tests/openpbs/test_web.py`. Pictures are in target/web/pbs.
"""

import os
import pathlib
import pwd
import sys
import tempfile
import time
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(TOP / "tests/web")]

import browser  # noqa: E402
import drive  # noqa: E402
from case import SiteCase  # noqa: E402

TERMS = {"estimate": "10", "deadline": "60", "budget": "1000", "processors": "1"}


@unittest.skipUnless(drive.chromium(), "not run: there is no chromium")
class Web(SiteCase):
    """Two hosts of one processor each; a page of the first user."""

    site = {"hosts": 2, "processors": 1, "users": 2}

    @classmethod
    def prepare(cls):
        pictures = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")) / "web/pbs"
        pictures.mkdir(parents=True, exist_ok=True)
        # The server remembers ended jobs, as most sites have it.
        cls.pbs.qmgr("set server job_history_enable = true")
        name = cls.pbs.users[0]
        entry = pwd.getpwnam(name)
        environment = {**cls.pbs.environment(), "HOME": entry.pw_dir, "USER": name, "LOGNAME": name}
        cls.home = pathlib.Path(entry.pw_dir)
        cls.profile = tempfile.TemporaryDirectory()
        cls.web = drive.Web([cls.pbs.libra], "pbs", env=environment, cwd=entry.pw_dir, user=entry.pw_uid, group=entry.pw_gid, extra_groups=[])
        cls.web.__enter__()
        cls.page = browser.Browser(drive.chromium(), cls.profile.name)
        cls.user = drive.User(cls.page, cls.web, pictures)
        cls.user.enter()

    @classmethod
    def tearDownClass(cls):
        cls.page.__exit__()
        cls.web.__exit__()
        cls.profile.cleanup()
        super().tearDownClass()

    def tearDown(self):
        complaints, self.user.problems = self.user.complaints(), []
        self.page.said.clear()
        self.page.requested.clear()
        super().tearDown()
        self.assertEqual(complaints, [])

    def test_watched(self):
        """A job is submitted, its progress and output grow, it ends in time."""
        drive.watched(self.user, self.home, TERMS)

    def test_overview(self):
        """What root sees of all users' jobs, to be read only."""
        key = self.user.submit(script=drive.lines("echo here; sleep 1000\n"), name="seen-by-all", directory=str(self.home), **{**TERMS, "deadline": "600"})
        self.user.wait_output("here")
        number = self.page.evaluate("document.querySelector('h1').innerText").rpartition("(")[2].partition(".")[0].strip(")")
        with drive.Web([self.pbs.libra], "pbs", "--overview", env={**self.pbs.environment(), "HOME": str(self.home)}, cwd="/") as web:
            drive.overview(self.user, web, number, "pbs")
            self.page.open(web.url.partition("?")[0] + "jobs")
            self.assertIn(self.pbs.users[0], self.page.text("tbody"))
            self.user.asked += self.page.requested
        self.user.go("jobs")
        self.user.cancel_on_list(key)

    def test_cancelled(self):
        drive.cancelled(self.user, self.home, TERMS)

    def test_refused(self):
        drive.refused(self.user, self.home, {**TERMS, "budget": "1"}, "Submit with budget")

    def test_classes(self):
        """Whole processors now, without a deadline."""
        drive.immediate(self.user, self.home, TERMS)

    def test_hostile(self):
        drive.hostile(self.user, self.home, TERMS)

    def test_story(self):
        """How a job went on and ended, what it printed and ran, and in which environment."""
        user = self.user
        drive.story(user, self.home, TERMS)
        failed = user.submit(script=drive.lines("#PBS -v SAID=yes\nexit 2\n"), name="fails", directory=str(self.home), **TERMS)
        user.page.wait("document.getElementById('part').innerText.includes('It failed with exit code 2')")
        user.go(f"job?id={failed}")
        self.assertRegex(user.page.evaluate("document.querySelector('.variables')?.textContent ?? ''"), "SAIDyes")

    def test_without_scripts(self):
        drive.without_scripts(self.user, self.home, TERMS)

    def test_terms_in_the_script(self):
        """What #PBS lines say need not be typed, and what is typed wins."""
        user = self.user
        user.fill(script="#!/bin/sh\n#PBS -W estimate=10,deadline=60,budget=1\ntrue\n", directory=str(self.home), budget="1000", estimate="", deadline="")
        user.page.click("button[value=submit]")
        user.at_job()
        self.assertIn("of 1000 credits", user.page.text())

    def test_price_of_a_script(self):
        """What a script says is asked as it is typed, and what was said goes with it."""
        user = self.user
        user.fill(script=drive.lines("true\n"), directory=str(self.home))
        self.assertIn("nothing is charged", user.verdict())
        user.fields(script="#!/bin/sh\n#PBS -W estimate=10,deadline=60,budget=1000\ntrue\n")
        user.page.wait("document.querySelector('#verdict .verdict')")
        self.assertIn("It would be accepted", user.verdict())
        user.fields(script="#!/bin/sh\n#PBS -W estimate=10,deadline=60,budget=1\ntrue\n")
        user.page.wait("document.querySelector('#verdict .verdict.bad')")
        user.fields(script="")
        user.page.wait("!document.getElementById('verdict').firstElementChild")

    def test_waiting_script(self):
        """qsub goes on for as long as its job does: the job is there, with its page."""
        user = self.user
        began = time.monotonic()
        key = user.submit(script=drive.lines("#PBS -W block=true\necho begun; sleep 1000\n"), name="waits", directory=str(self.home), **{**TERMS, "deadline": "6000"})
        self.assertLess(time.monotonic() - began, 900)  # the job goes on for longer
        user.wait_output("begun")
        # Its client was ended; it was not.
        user.go("jobs")
        self.assertEqual(user.page.evaluate(f"document.querySelectorAll('#choose-{key}').length"), 1)

    def test_mistakes_of_pbs(self):
        """What PBS itself refuses is said in its words, and nothing typed is lost."""
        user = self.user
        user.fill(script=drive.lines("true\n"), queue="nowhere", directory=str(self.home), **TERMS)
        user.page.click("button[value=submit]")
        user.page.wait("document.querySelector('#verdict .notice.bad')?.innerText.includes('queue')")
        # The verdict may have come before the answer's page.
        user.page.wait("document.querySelector('[name=queue]')?.value === 'nowhere'")

    def test_cluster_and_others(self):
        """Nodes are shown to all; a job of somebody else is not, nor can it be cancelled or read."""
        pbs, user = self.pbs, self.user
        other = self.accept(10, 600, user=pbs.users[1], script="echo 'a secret'; sleep 1000\n")
        self.running(other)
        user.go("cluster")
        for host in pbs.host_names:
            self.assertIn(host, user.page.text())
        self.assertIn("of 2 processors are committed", user.page.text())
        user.check_view("cluster")
        user.go("jobs")
        self.assertNotIn(other, user.page.evaluate("document.body.innerHTML"))
        user.go(f"job?id={other}")
        self.assertIn("no such job of yours", user.page.text())
        self.assertIn("no such job of yours", user.page.evaluate(f"fetch('output?id={other}&from=0').then((a) => a.text())"))
        self.assertEqual(pbs.qstat(other)["job_state"], "R")
        self.page.said.clear()


if __name__ == "__main__":
    unittest.main()
