#!/usr/bin/env python3
"""Workflows: deadlines that count from the earliest start, starts that are altered, promises that slip, arrays that wait for others.

Run as root: `python3 tests/openpbs/test_workflows.py`. Nothing here needs much processor time.
"""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import test_deferred  # noqa: E402
from scripts import idle_until  # noqa: E402
from test_deferred import CONFIRMED, SLIPPED, at  # noqa: E402

WORDS = "from when it may start"
# A program for mail, as PBS starts it: options, the people, the text on standard input.
MAILER = """#!/bin/sh
{ echo "$@"; cat; echo ====; } >>"$(dirname "$0")/mails"
"""


class Workflows(test_deferred.Site):
    """Two hosts of one processor each."""

    site = {"hosts": 2}

    def tearDown(self):
        super().tearDown()
        self.assertNotIn("libra: fault in", self.pbs.log())

    def eligible(self, job):
        """Since when it may run, Unix time."""
        return time.mktime(time.strptime(self.pbs.qstat(job)["etime"]))

    def counts_from_its_start(self, job, deadline):
        """It was accepted with a deadline so long after it became eligible."""
        # PBS makes it eligible once more, after the moment for which it is put off: it begins after that.
        found = self.pbs.wait_job(job, "accepted and begun", lambda found: CONFIRMED in found.get("Resource_List.libra_info", "") and found.get("job_state", "?") in "REF")
        self.assertIn("accepted: ", found["Resource_List.libra_info"])
        terms = self.terms(job)
        due = float(terms["submitted"]) + float(terms["deadline"])
        self.assertLessEqual(due - deadline, self.eligible(job) + 1)
        return due

    def promised_from_start(self, job):
        self.assertIn(WORDS, self.info(job))
        self.assertEqual(self.terms(job)["from"], "start")

    # ---- a deadline that counts from the start

    def test_after_a_job(self):
        go = self.pbs.directory / "go-after"
        first = self.accept(2, 6000, script=idle_until(go))
        second = self.accept(2, "600/start", "-W", f"depend=afterok:{first}", script="true\n")
        self.deferred(second)
        self.promised_from_start(second)
        self.running(first)
        began = time.time()
        go.touch()
        due = self.counts_from_its_start(second, 600)
        self.assertGreaterEqual(due, began + 600 - 1)
        self.met(first, second)

    def test_released_after_longer_than_its_deadline(self):
        """Its deadline would be over, if it counted from the submission."""
        job = self.accept(1, "3/start", "-h", script="true\n")
        submitted = float(self.terms(job)["submitted"])
        self.pbs.wait("longer than its deadline", lambda: time.time() > submitted + 4)
        self.deferred(job)
        # Nor has it slipped.
        self.every_second()
        other = self.accept(1, 3, "-h")
        self.pbs.wait("the other one is told", lambda: SLIPPED in self.info(other))
        self.promised_from_start(job)
        longer = self.accept(1, "6000/start", "-h", script="true\n")
        self.pbs.must("qrls", longer)
        self.counts_from_its_start(longer, 6000)

    def test_with_a_start_and_its_qalter(self):
        job = self.accept(5, "600/start", "-a", at(7200), script="true\n")
        self.promised_from_start(job)
        # Any later start will do: the deadline goes with it.
        self.pbs.must("qalter", "-a", at(36000), job, user=self.pbs.users[0])
        self.promised_from_start(job)
        self.pbs.must("qalter", "-a", at(2), job, user=self.pbs.users[0])
        self.counts_from_its_start(job, 600)
        self.met(job)

    def test_a_start_that_is_too_late_is_refused(self):
        job = self.accept(100, 6000, "-a", at(600))
        said = self.pbs.run("qalter", "-a", at(7200), job, user=self.pbs.users[0])
        self.assertNotEqual(said.rc, 0)
        self.assertIn("its deadline can be kept if it begins within ", said.err)
        self.assertIn(" of its submission, and this start is ", said.err)
        self.deferred_with_state(job, "W")
        # Other times of it are part of what was promised.
        said = self.pbs.run("qalter", "-l", "walltime=01:00:00", job, user=self.pbs.users[0])
        self.assertIn("walltime belongs to the commitment", said.err)
        self.pbs.must("qalter", "-a", at(1200), job, user=self.pbs.users[0])

    def deferred_with_state(self, job, state):
        self.assertEqual(self.pbs.qstat(job)["job_state"], state)
        self.assertEqual(self.terms(job)["deferred"], "1")

    def test_it_waits_for_nothing(self):
        job = self.accept(1, "600/start")
        found = self.running(job)
        self.assertTrue(found["Resource_List.libra_info"].startswith("accepted: "))
        self.assertEqual(float(self.terms(job)["deadline"]), 600)

    def test_offers_and_bad_values(self):
        self.refused(self.ask(90, "60/start", "-h"), "refused (deadline): ", "accepted now would be: deadline=", "/start (costs ")
        for deadline in ("/start", "2h/begin", "2h/", "@17:30/start", "start"):
            with self.subTest(deadline):
                self.refused(self.ask(1, deadline, "-h"), "libra: ", "deadline: ")
        for deadline, part in (("@17:30/start", "is a clock time, which counts from nothing"), ("2h/begin", "-W: deadline: ")):
            said = self.pbs.run(self.pbs.libra, "qsub", "-W", f"deadline={deadline},estimate=1,budget=9", "--", "/bin/true", user=self.pbs.users[0])
            self.assertEqual(said.rc, 2, said.err)
            self.assertIn(part, said.err)
        said = self.pbs.run(self.pbs.libra, "qsub", "-h", "-W", "deadline=2h/start,estimate=1,budget=999", "--", "/bin/true", user=self.pbs.users[0])
        self.assertEqual(said.rc, 0, said.err)
        self.assertIn(f"finished in 2h00m {WORDS}", said.err)

    # ---- arrays

    def test_an_array_after_an_array(self):
        go = self.pbs.directory / "go-array"
        first = self.accept(1, 6000, "-J", "1-2", script=idle_until(go))
        second = self.accept(1, "600/start", "-J", "1-2", "-W", f"depend=afterok:{first}", script=idle_until(self.pbs.directory / "go-second"))
        self.promised_from_start(second)
        for index in (1, 2):
            self.running(first.replace("[]", f"[{index}]"))
        began = time.time()
        go.touch()
        for index in (1, 2):
            subjob = second.replace("[]", f"[{index}]")
            self.running(subjob)
            self.assertIn(CONFIRMED, self.info(subjob))
            terms = self.terms(subjob)
            self.assertGreaterEqual(float(terms["submitted"]) + float(terms["deadline"]), began + 600 - 2)
        (self.pbs.directory / "go-second").touch()
        self.pbs.wait_state(second, "F")

    def test_an_array_after_what_failed(self):
        first = self.accept(1, 6000, "-h", script="exit 1\n")
        array = self.accept(1, "600/start", "-J", "1-2", "-W", f"depend=afterok:{first}")
        self.pbs.must("qrls", first)
        self.pbs.wait_state(first, "F")
        self.pbs.wait_state(array, "F")

    # ---- slipping, and mail

    def every_second(self):
        pbs = self.pbs
        pbs.qmgr("set hook libra_periodic enabled = false", "set hook libra_periodic freq = 1", "set hook libra_periodic enabled = true")
        self.addCleanup(pbs.qmgr, "set hook libra_periodic enabled = false", "set hook libra_periodic freq = 30", "set hook libra_periodic enabled = true")

    def mailed(self):
        """The mails, each with the words that the mailer was started with."""
        file = self.pbs.directory / "mail/mails"
        return [text.strip() for text in file.read_text().split("====\n")[:-1]] if file.exists() else []

    def of(self, job):
        return [text for text in self.mailed() if f"PBS Job Id: {job}\n" in text and "libra: " in text]

    def test_what_slips_is_given_back_and_asked_for_once_more(self):
        pbs = self.pbs
        directory = pbs.directory / "mail"
        directory.mkdir()
        mailer = directory / "mailer"
        mailer.write_text(MAILER)
        mailer.chmod(0o755)
        pbs.qmgr(f"set server mailer = {mailer}", "set server mail_from = pbs@site")
        self.addCleanup(pbs.qmgr, "set server mailer = /bin/true", "unset server mail_from")
        go = pbs.directory / "go-slip"
        first = self.accept(2, 6000, script=idle_until(go))
        after = ("-W", f"depend=afterok:{first}")
        # It would have to begin within two seconds.
        late = self.accept(1, 3, *after)
        quiet = self.accept(1, 3, *after, "-m", "n")
        named = self.accept(1, 3, *after, "-M", "ann@site,-oQ/tmp,bob@site")
        kept = self.accept(1, 6000, *after, "-m", "b", script="true\n")
        still = self.accept(1, 6000, *after, script="true\n")
        self.every_second()
        for job in (late, quiet, named):
            pbs.wait("it says so", lambda job=job: SLIPPED in self.info(job))
        owner = pbs.qstat(late)["Job_Owner"]
        [mail] = pbs.wait("its owner is mailed", lambda: self.of(late))
        self.assertTrue(mail.startswith(f"-f pbs@site {owner}\nTo: {owner}\nSubject: PBS JOB {late}\n"), mail)
        self.assertIn(f"libra: {SLIPPED}", mail)
        # No option for the mailer becomes of a user's words.
        [mail] = pbs.wait("those whom it names are mailed", lambda: self.of(named))
        self.assertTrue(mail.startswith("-f pbs@site ann@site bob@site\n"), mail)
        # What it waits for ends, and it is too late.
        go.touch()
        for job in (late, quiet):
            self.in_cycles("it says why", lambda job=job: "given back: refused (deadline): " in self.info(job))
            self.assertEqual((pbs.qstat(job)["job_state"], self.pbs.qstat(job)["Hold_Types"]), ("H", "s"))
        pbs.wait("it is mailed again", lambda: len(self.of(late)) == 2)
        self.assertIn("given back: refused (deadline): ", self.of(late)[1])
        self.met(kept, still)
        self.assertEqual((self.of(quiet), self.of(still)), ([], []))


if __name__ == "__main__":
    unittest.main(verbosity=2)
