#!/usr/bin/env python3
"""The page of `libra web` with jobs of Slurm, in a real browser, as an ordinary user.

Run as root: `python3 tests/slurm/test_web.py`. Pictures are in target/web/slurm.
"""

import json
import os
import pathlib
import pwd
import signal
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
    """Two nodes of one processor each; a page of the first user."""

    site = {"nodes": 2, "cpus": 1, "users": 2, "partitions": {"other": {}}}

    @classmethod
    def prepare(cls):
        pictures = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")) / "web/slurm"
        pictures.mkdir(parents=True, exist_ok=True)
        name = cls.slurm.users[0]
        entry = pwd.getpwnam(name)
        environment = {**cls.slurm.environment(), "HOME": entry.pw_dir, "USER": name, "LOGNAME": name, "LIBRA_CONFIG": str(cls.slurm.rules_file)}
        cls.home = pathlib.Path(entry.pw_dir)
        cls.profile = tempfile.TemporaryDirectory()
        cls.web = drive.Web([cls.slurm.program], "slurm", env=environment, cwd=entry.pw_dir, user=entry.pw_uid, group=entry.pw_gid, extra_groups=[])
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
        """A job is submitted, its progress and output grow, it ends in time; sbatch's own files are what is shown."""
        drive.watched(self.user, self.home, TERMS)
        self.assertIn("all done", (self.home / f"slurm-{max(map(int, self.slurm.jobs()))}.out").read_text())

    def test_cancelled(self):
        drive.cancelled(self.user, self.home, TERMS)

    def test_refused(self):
        drive.refused(self.user, self.home, {**TERMS, "budget": "1"}, "Submit with budget")

    def test_classes(self):
        """Whole processors now; none is left, the offer of shares is taken, and that is the job that runs."""
        drive.immediate(self.user, self.home, TERMS)
        self.clear()
        for _ in range(2):
            # One on each node, with some of it left.
            self.accept(200_000, 300_000, budget="unlimited", script="#!/bin/sh\nsleep 1000\n")
        drive.whole_processors(self.user, self.home, TERMS, 1)
        last = max(map(int, self.slurm.jobs()))
        self.assertNotIn("class=", self.slurm.job(last)["AdminComment"])

    def test_hostile(self):
        drive.hostile(self.user, self.home, TERMS)

    def test_overview(self):
        """What root sees of all users' jobs, to be read only."""
        key = self.user.submit(script=drive.lines("echo here; sleep 1000\n"), name="seen-by-all", directory=str(self.home), **{**TERMS, "deadline": "600"})
        self.user.wait_output("here")
        environment = {**self.slurm.environment(), "HOME": str(self.home), "LIBRA_CONFIG": str(self.slurm.rules_file)}
        with drive.Web([self.slurm.program], "slurm", "--overview", env=environment, cwd="/") as web:
            number = str(max(map(int, self.slurm.jobs())))
            drive.overview(self.user, web, number, "slurm")
            self.page.open(web.url.partition("?")[0] + f"jobs?q={number}")
            self.assertIn(self.slurm.users[0], self.page.text("tbody"))
            self.user.asked += self.page.requested
        self.user.go("jobs")
        self.user.cancel_on_list(key)

    def test_story(self):
        """How a job went on and ended, what it printed and ran; of one that was submitted elsewhere too."""
        user = self.user
        drive.story(user, self.home, TERMS)
        job = self.accept(10, 600, script="#!/bin/sh\necho 'by hand'; sleep 1000\n")
        user.go(f"job?id={job}")
        self.assertIn("echo 'by hand'", user.page.evaluate("document.querySelector('[aria-label=Script]')?.textContent ?? ''"))
        failed = user.submit(script=drive.lines("exit 2\n"), name="fails", directory=str(self.home), **TERMS)
        user.page.wait("document.getElementById('part').innerText.includes('It failed with exit code 2')")
        self.assertNotIn("times too long", user.until(f"job?id={failed}", "It failed"))

    def test_without_scripts(self):
        drive.without_scripts(self.user, self.home, TERMS)

    def test_price(self):
        """The price is Slurm's own answer, terms may be in the script, and nothing is left of a question."""
        user = self.user
        user.fill(script="#!/bin/sh\n#SBATCH --estimate=10 --sla-deadline=60\ntrue\n", directory=str(self.home), budget="1000", estimate="", deadline="")
        user.page.click("button[value=submit]")
        key = user.at_job()
        self.assertIn("Accepted: ", user.page.text())
        user.go(f"submit?again={key}")
        user.fields(estimate="20", deadline="1h")
        self.assertIn("It would be accepted", user.verdict())
        user.check_view("submit")
        self.clear()
        self.assertEqual(self.slurm.booked(), [])

    def test_price_of_a_script(self):
        """What a script says is asked as it is typed; the partition that is typed wins over it, as in a submission; no clock times."""
        user = self.user
        terms = "#SBATCH --estimate=10 --sla-deadline=60 --budget=1000\n"
        user.fill(script=f"#!/bin/sh\n{terms}true\n", directory=str(self.home))
        self.assertIn("It would be accepted", user.verdict())
        user.fields(script=f"#!/bin/sh\n{terms}#SBATCH --partition=nowhere\ntrue\n")
        user.page.wait("document.querySelector('#verdict')?.innerText.includes('nowhere')")
        user.fields(queue="main")
        user.page.wait("document.querySelector('#verdict .verdict.good')")
        user.fields(deadline="@23:59")
        user.page.wait("document.querySelector('#verdict .notice.bad')?.innerText.includes('jobs here take no clock time')")
        user.fields(script="")
        user.page.wait("!document.getElementById('verdict').firstElementChild")
        self.assertEqual(self.slurm.booked(), [])
        self.page.said.clear()

    def test_waiting_script(self):
        """sbatch goes on for as long as its job does: the job is there, with its page."""
        user = self.user
        began = time.monotonic()
        user.submit(script=drive.lines("#SBATCH --wait\necho begun; sleep 1000\n"), name="waits", directory=str(self.home), **{**TERMS, "deadline": "6000"})
        self.assertLess(time.monotonic() - began, 900)  # the job goes on for longer
        user.wait_output("begun")
        self.slurm.wait("it is in the book", lambda: len(self.slurm.booked()) == 1)

    def test_silent_controller(self):
        """slurmctld says nothing for a while, and has the job afterwards: the page does not say that it has not."""
        user, page = self.user, self.user.page
        user.go("jobs")  # from here on the page knows the cluster's name
        user.fill(script=drive.lines("echo begun; sleep 1000\n"), name="perhaps", directory=str(self.home), **{**TERMS, "deadline": "6000"})
        user.verdict()
        form = "new URLSearchParams(new FormData(document.getElementById('submit')))"
        sent = page.evaluate(f"{form}.toString()")
        controller = self.slurm.daemon_pid("slurmctld")
        os.kill(controller, signal.SIGSTOP)
        try:
            page.click("button[value=submit]")
            page.wait("document.querySelector('h1')?.innerText === 'Perhaps submitted'")
        finally:
            os.kill(controller, signal.SIGCONT)
        self.assertIn("It may have been submitted", page.text())
        self.assertIn("Look under Jobs", page.text())
        self.started(self.slurm.wait("the job", lambda: next(iter(self.slurm.booked()), None)))
        user.go("jobs")
        page.wait("document.querySelector('#rows').innerText.includes('perhaps submitted')")
        # The same form again leads there, and submits nothing.
        where = page.evaluate(f"fetch('submit', {{method: 'POST', body: new URLSearchParams({json.dumps(sent)})}}).then((a) => a.url)")
        self.assertTrue(where.endswith("/jobs"), where)
        self.assertEqual(len(self.slurm.booked()), 1)
        self.page.said.clear()

    def test_array(self):
        """An array has a page from its submission on, to its end; those of its jobs that have not begun are cancelled together."""
        user = self.user
        for script, terms in (("#SBATCH --array=1-2\n", {**TERMS, "deadline": "6000"}), ("#SBATCH --array=1-3%1 --partition=other\n", {})):
            key = user.submit(script=drive.lines(f"{script}echo begun; sleep 1000\n"), name="array", directory=str(self.home), **terms)
            self.assertNotIn("no such job", user.page.text())
            user.page.wait("document.querySelector('h1')?.innerText.includes('_')")
            user.go("jobs")
            user.page.wait("/_1\\b/.test(document.querySelector('#rows').innerText)")
            if not terms:
                user.page.wait(f"document.getElementById('job-{key}')?.parentElement.innerText.includes('[2-3')")
                user.page.click(f"#job-{key}")
                user.page.wait("document.querySelector('h1')?.innerText.includes('[2-3')")
                self.assertIn("have not begun", user.page.text())
                user.go("jobs")
                user.cancel_on_list(key)
                user.page.wait("document.querySelectorAll('[id^=choose-]').length === 1")
                self.assertRegex(user.page.text("#rows tr"), r"_1\b")
            self.clear()
            user.go(f"job?id={key}")
            self.assertNotIn("no such job", user.page.text())

    def test_mistakes_of_slurm(self):
        """What Slurm itself refuses is said in its words, and nothing typed is lost."""
        user = self.user
        user.fill(script=drive.lines("true\n"), queue="nowhere", directory=str(self.home), **TERMS)
        user.page.click("button[value=submit]")
        user.page.wait("document.querySelector('#verdict .notice.bad')?.innerText.includes('partition nowhere takes no jobs with a deadline')")
        # The verdict may have come before the answer's page.
        user.page.wait("document.querySelector('[name=queue]')?.value === 'nowhere'")
        self.page.evaluate("0")
        self.page.said.clear()

    def test_cluster_and_others(self):
        """Nodes are shown to all; a job of somebody else is not, nor can it be cancelled or read."""
        slurm, user = self.slurm, self.user
        other = self.accept(10, 600, user=slurm.users[1], script="echo 'a secret'; sleep 1000\n")
        self.started(other)
        user.go("cluster")
        for node in slurm.nodes:
            self.assertIn(node, user.page.text())
        self.assertIn("of 2 processors are committed", user.page.text())
        user.check_view("cluster")
        user.go("jobs")
        self.assertNotIn(f"job-{other}", user.page.evaluate("document.body.innerHTML"))
        user.go(f"job?id={other}")
        self.assertIn("no such job of yours", user.page.text())
        self.assertIn("no such job of yours", user.page.evaluate(f"fetch('output?id={other}&from=0').then((a) => a.text())"))
        self.assertEqual(slurm.state(other), "RUNNING")
        self.page.said.clear()


if __name__ == "__main__":
    unittest.main()
