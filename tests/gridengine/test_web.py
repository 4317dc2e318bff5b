#!/usr/bin/env python3
"""The page of `libra web` with jobs of Grid Engine, in a real browser, as an ordinary user.

Page and browser are on qmaster's host, in its network. Pictures are in target/web/gridengine.
"""

import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(TOP / "tests/web")]

import browser  # noqa: E402
import drive  # noqa: E402
from case import CellCase  # noqa: E402
from cluster import HOSTS, MASTER  # noqa: E402

TERMS = {"estimate": "10", "deadline": "60", "budget": "1000"}


@unittest.skipUnless(drive.chromium(), "not run: there is no chromium")
class Web(CellCase):
    """A page of the first user."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.prepare()
        except BaseException:
            cls.tearDownClass()
            raise

    web, page, profile = None, None, None

    @classmethod
    def prepare(cls):
        pictures = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")) / "web/gridengine"
        pictures.mkdir(parents=True, exist_ok=True)
        cell, name = cls.cell, cls.cell.users[0]
        cls.home = cell.home(name)
        cls.settle()
        # What enters namespaces is root; what it starts is the user.
        command = [*cell.hosts.inside(MASTER), "setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups", "sh", "-c", 'cd && exec "$@"', "sh",
                   cell.program, "--config", cell.rules_file]
        environment = {**cell.environment(), "HOME": str(cls.home), "USER": name, "LOGNAME": name}
        web = drive.Web(command, "gridengine", env=environment)
        cls.web = web.__enter__()
        cls.profile = tempfile.TemporaryDirectory()
        inside = pathlib.Path(cls.profile.name) / "chromium"
        inside.write_text(f'#!/bin/sh\nexec nsenter -t {cell.hosts.holders[MASTER].pid} -n {drive.chromium()} "$@"\n')
        inside.chmod(0o755)
        cls.page = browser.Browser(str(inside), cls.profile.name)
        cls.user = drive.User(cls.page, cls.web, pictures)
        cls.user.enter()

    @classmethod
    def settle(cls):
        """The verifier has read the queue: a page does not try again by itself."""
        job = cls.cell.submit("-l", "estimate=1,deadline=60,budget=1000", script="true\n")
        cls.cell.wait_gone(job)

    @classmethod
    def tearDownClass(cls):
        if cls.page:
            cls.page.__exit__()
        if cls.web:
            cls.web.__exit__()
        if cls.profile:
            cls.profile.cleanup()
        super().tearDownClass()

    def tearDown(self):
        complaints, self.user.problems = self.user.complaints(), []
        self.page.said.clear()
        self.page.requested.clear()
        super().tearDown()
        self.assertEqual(complaints, [])

    def id_of(self, key):
        """The number of a job that the page has submitted."""
        record = self.home / f".local/state/libra/web/gridengine/{key}/record.json"
        return json.loads(record.read_text())["id"]

    def test_watched(self):
        """A job is submitted, its progress and output grow, it ends in time; how it ended is known after Grid Engine has forgotten it."""
        drive.watched(self.user, self.home, TERMS)

    def test_overview(self):
        """What root sees of all users' jobs, to be read only."""
        cell, user = self.cell, self.user
        key = user.submit(script=drive.lines("echo here; sleep 1000\n"), name="seen-by-all", directory=str(self.home), **{**TERMS, "deadline": "600"})
        user.wait_output("here")
        number = str(self.id_of(key))
        command = [*cell.hosts.inside(MASTER), cell.program, "--config", cell.rules_file]
        with drive.Web(command, "gridengine", "--overview", env={**cell.environment(), "HOME": str(cell.directory)}, cwd="/") as web:
            drive.overview(user, web, number, "gridengine")
            self.page.open(web.url.partition("?")[0] + f"jobs?q={number}")
            self.assertIn(cell.users[0], self.page.text("tbody"))
            user.asked += self.page.requested
        user.go("jobs")
        user.cancel_on_list(key)

    def test_cancelled(self):
        drive.cancelled(self.user, self.home, TERMS)

    def test_refused(self):
        drive.refused(self.user, self.home, {**TERMS, "budget": "1"}, "Submit with budget")

    def test_classes(self):
        """Whole processors now, without a deadline."""
        drive.immediate(self.user, self.home, TERMS)

    def test_hostile(self):
        drive.hostile(self.user, self.home, TERMS)

    def test_without_scripts(self):
        drive.without_scripts(self.user, self.home, TERMS)

    def test_price(self):
        """The price is what the verifier commits to, and nothing is left of a question; a larger budget than that of the script is the one that counts."""
        user = self.user
        script = "#!/bin/sh\n#$ -l estimate=10,deadline=60,budget=1\nsleep 1000\n"
        user.fill(script=script, directory=str(self.home), name="priced", estimate="", deadline="", budget="")
        user.page.wait("document.querySelector('#verdict .verdict.bad')")
        user.fields(budget="1000")
        user.page.wait("document.querySelector('#verdict .verdict.good')")
        self.assertIn("It would be accepted", user.verdict())
        shown = user.page.text("#verdict .price strong")
        user.check_view("submit")
        self.assertEqual(self.cell.jobs(), [])
        user.page.follow("button[value=submit]")
        key = user.at_job()
        self.assertIn("of 1000 credits", user.page.text())
        committed = self.commitment(self.id_of(key))
        self.assertAlmostEqual(float(committed["price"]), float(shown), delta=0.01)
        self.assertEqual((committed["estimate"], committed["budget"]), ("10", "1000"))

    def test_the_form_wins_over_the_script(self):
        """A queue that is typed takes the place of the script's, and processors that of the environment's number: in the question as in the submission."""
        user = self.user
        script = "#!/bin/sh\n#$ -q nowhere.q -pe smp 2\nsleep 1000\n"
        user.fill(script=script, directory=str(self.home), name="mine", **TERMS)
        user.page.wait("document.querySelector('#verdict')?.innerText.includes('nowhere.q')")
        user.fields(queue="main.q", processors="1")
        user.page.wait("document.querySelector('#verdict .verdict.good')")
        user.page.follow("button[value=submit]")
        committed = self.commitment(self.id_of(user.at_job()))
        self.assertEqual(committed["processors"], "1")
        # Without an environment nobody knows by which one they are meant.
        user.fill(script=drive.lines("true\n"), directory=str(self.home), processors="2", **TERMS)
        user.page.wait("document.querySelector('#verdict .notice.bad')?.innerText.includes('#$ -pe NAME 2')")
        user.fields(processors="")
        user.page.wait("document.querySelector('#verdict .verdict.good')")

    def test_an_offer_that_is_taken_is_the_job_that_runs(self):
        """There is no room for all of it by then; one click takes the deadline that is offered, with all else that was typed."""
        user = self.user
        for host in HOSTS:
            self.cell.wait_running(self.accept(3600, 7200, "-l", f"h={host}"))
        slots = self.cell.slots(HOSTS[0])
        script = f"#!/bin/sh\n#$ -pe smp {slots} -N other\nsleep 1000\n"
        user.fill(script=script, directory=str(self.home), name="later", estimate="30m", deadline="33m", budget="100000")
        user.page.follow("button[value=submit]")
        user.page.wait("document.querySelector('#verdict .verdict.bad')")
        said = user.page.text("#verdict")
        self.assertIn("Submit with deadline", said)
        self.assertEqual(len(self.cell.jobs()), len(HOSTS), said)
        user.page.follow(".offers button")
        number = self.id_of(user.at_job())
        committed = self.commitment(number)
        self.assertGreater(float(committed["deadline"]), 33 * 60)
        self.assertEqual((committed["processors"], committed["estimate"]), (str(slots), "1800"))
        self.assertEqual(self.cell.details(number)["job_name"], "later")

    def test_without_terms(self):
        """A plain job is told that nothing is promised, runs, and its exit code is there afterwards."""
        user = self.user
        user.fill(script="#!/bin/bash -e\necho \"${BASH_VERSION:+bash}\"; exit 3\n", directory=str(self.home), name="plain-job")
        self.assertIn("nothing is promised and nothing is charged", user.verdict())
        user.page.follow("button[value=submit]")
        user.at_job()
        user.wait_output("bash")
        user.wait_state("failed")
        self.assertIn("exit code 3", user.page.text())

    def test_an_error_is_shown_with_its_reason(self):
        """What Grid Engine itself finds when the job begins."""
        user = self.user
        user.submit(script="#!/bin/sh\n#$ -o /nowhere/at/all\ntrue\n", name="no-place", directory=str(self.home), **TERMS)
        user.wait_state("error")
        user.until(f"job?id={user.page.evaluate('new URLSearchParams(location.search).get(`id`)')}", "can't open output file")

    def test_array(self):
        """All tasks are one job of the list; it is cancelled whole."""
        user = self.user
        user.fill(script=drive.lines("echo begun $SGE_TASK_ID; sleep 1000\n"), name="array", directory=str(self.home), **TERMS)
        user.page.evaluate("document.querySelector('[name=array]').closest('details').open = true")
        user.fields(array="2-6:2")
        user.page.follow("button[value=submit]")
        key = user.at_job()
        user.wait_output("begun 2")
        user.until(f"job?id={key}", "3 have begun")
        number = self.id_of(key)
        self.assertEqual(len([one for one in self.cell.jobs() if one[0] == number]), 3)
        user.go("jobs")
        user.cancel_on_list(key)
        user.page.wait("!document.querySelector('[id^=choose-]')")
        user.go(f"job?id={key}")
        user.wait_state("cancelled")

    def test_what_ended_unseen_is_known(self):
        """No page looked when it ended, nor when the accounting file said so; a held job that is deleted has no record there."""
        user = self.user
        user.go("account")  # no list from here on
        wanted = {"name": "unseen", "directory": str(self.home)}
        key = user.submit(script=drive.lines("exit 7\n"), **wanted, **TERMS)
        user.go("submit")
        self.cell.wait_gone(self.id_of(key))
        user.go(f"job?id={key}")
        user.wait_state("failed")
        self.assertIn("exit code 7", user.page.text())
        record = json.loads((self.home / f".local/state/libra/web/gridengine/{key}/record.json").read_text())
        self.assertEqual((record["end"]["state"], record["wanted"]["name"]), ("failed", "unseen"))
        key = user.submit(script="#!/bin/sh\n#$ -h\ntrue\n", **wanted)
        user.wait_state("held")
        user.go("jobs")
        user.cancel_on_list(key)
        user.go(f"job?id={key}")
        user.wait_state("cancelled")
        self.assertIn("deleted before it began", user.page.text())

    def test_silent_qmaster(self):
        """qmaster says nothing for a while, and has the job afterwards: the page does not say that it has not."""
        user, page = self.user, self.user.page
        user.fill(script=drive.lines("echo begun; sleep 1000\n"), name="perhaps", directory=str(self.home), **TERMS)
        user.verdict()
        qmaster = self.cell.daemon(MASTER)
        os.kill(qmaster, signal.SIGSTOP)
        try:
            page.click("button[value=submit]")
            page.wait("document.querySelector('h1')?.innerText === 'Perhaps submitted'")
        finally:
            os.kill(qmaster, signal.SIGCONT)
        self.assertIn("It may have been submitted", page.text())
        self.cell.wait("qmaster answers", lambda: self.cell.run("qstat").rc == 0)
        user.until("jobs", "perhaps submitted")
        self.page.said.clear()

    def test_waiting_script(self):
        """qsub goes on for as long as its job does: the job is there, with its page."""
        user = self.user
        began = time.monotonic()
        user.submit(script="#!/bin/sh\n#$ -sync y\necho begun; sleep 1000\n", name="waits", directory=str(self.home), **TERMS)
        self.assertLess(time.monotonic() - began, 900)  # the job goes on for longer
        user.wait_output("begun")
        self.assertEqual(len(self.cell.jobs()), 1)

    def test_mistakes_of_grid_engine(self):
        """What Grid Engine itself refuses is said in its words, and nothing typed is lost."""
        user = self.user
        user.fill(script=drive.lines("true\n"), name="1st", directory=str(self.home), **TERMS)
        user.page.click("button[value=submit]")
        user.page.wait("document.querySelector('#verdict .notice.bad')?.innerText.includes('cannot start with a digit')")
        # The verdict may have come before the answer's page.
        user.page.wait("document.querySelector('[name=name]')?.value === '1st'")
        self.page.said.clear()

    def test_cluster_and_others(self):
        """Hosts are shown to all; a job of somebody else is not, nor can it be cancelled or read."""
        cell, user = self.cell, self.user
        other = self.accept(10, 600, user=cell.users[1], script="echo 'a secret'; sleep 1000\n")
        cell.wait_running(other)
        user.go("cluster")
        for host in HOSTS:
            self.assertIn(host, user.page.text())
        self.assertIn(f"of {sum(cell.slots(host) for host in HOSTS)} processors are committed", user.page.text())
        user.check_view("cluster")
        user.go("jobs")
        self.assertNotIn(f"job-{other}", user.page.evaluate("document.body.innerHTML"))
        user.go(f"job?id={other}")
        self.assertIn("no such job of yours", user.page.text())
        self.assertIn("no such job of yours", user.page.evaluate(f"fetch('output?id={other}&from=0').then((a) => a.text())"))
        self.assertEqual(cell.state(other), "r")
        self.page.said.clear()


if __name__ == "__main__":
    unittest.main()
