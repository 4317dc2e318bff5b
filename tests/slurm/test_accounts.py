#!/usr/bin/env python3
"""Budgets that are taken from accounts, in a Slurm with Libra: from the deposit to the statement.

Run as root: `python3 tests/slurm/test_accounts.py`.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from commands import where_the_day_is_young  # noqa: E402
from libra_site import busy, program  # noqa: E402
from scripts import idle_until  # noqa: E402
from promises import STILL, is_saved  # noqa: E402

# The end of a job's script that has it run once more; a busy slurmctld may not listen at once.
REQUEUES_ITSELF = "until scontrol requeue $SLURM_JOB_ID; do sleep 1; done\nsleep 100\n"


class AccountsCase(SiteCase):
    """Two nodes of one processor; the first user has an account, the second has none."""

    site = {"nodes": 2}

    @classmethod
    def prepare(cls):
        slurm = cls.slurm
        cls.books = slurm.directory / "accounts"
        slurm.rules = f"[accounts]\nmode = 'on'\nledger = '{cls.books}/ledger.sqlite'\nlive = '{cls.books}/live'\n"
        cls.settings = slurm.directory / "etc/accounts.toml"
        cls.settings.write_text(slurm.rules)
        cls.account("init", "--owner", slurm.plan["slurm_user"])
        cls.user = slurm.users[0]
        cls.account("create", cls.user)
        slurm.rule(slurm.rules)

    @classmethod
    def account(cls, *words, status=0):
        done = subprocess.run([program(), "--config", cls.settings, "account", *words], env=os.environ | {"TZ": where_the_day_is_young()}, capture_output=True, text=True,
                              check=False)
        assert done.returncode == status, (words, done)
        return done.stdout

    def setUp(self):
        # Whatever the tests before left: 100 credits.
        left = self.balance()["available"]
        if left > 0:
            self.account("create", "bin")
            self.account("transfer", self.user, "bin", str(left))
        self.account("deposit", self.user, "100")

    def balance(self, account=None):
        lines = self.account("--json", "balance", account or self.user).splitlines()
        return json.loads(lines[0])

    def held(self, credits, patience=180):
        self.slurm.wait(f"{credits} held", lambda: abs(self.balance()["held"] - credits) < 1e-4, patience)

    def about(self, amount, wanted):
        """Money is whole micro-credits, and prices are not."""
        self.assertAlmostEqual(amount, wanted, places=4)

    def lines(self):
        """The statement: (kind, amount, job) of each movement."""
        statement = json.loads(self.account("--json", "statement", self.user, "--holds"))
        return [(line["kind"], round(line["amount"], 3), line["job"]) for line in statement["movements"]]

    def run_time(self, job):
        """Seconds for which slurmctld says that its last run has lasted."""
        days, _, clock = self.slurm.job(job)["RunTime"].rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds


class Accounts(AccountsCase):
    def test_from_the_deposit_to_the_statement(self):
        """Held when it is accepted, charged when it has met its deadline."""
        end = self.slurm.directory / "statement.end"
        job = self.accept(20, 1000, budget=50, script=idle_until(end))
        price = float(self.commitment(job)["price"])
        self.assertEqual(self.commitment(job)["payer"], f"user/{self.user}")
        balance = self.balance()
        self.about(balance["held"], price)
        self.about(balance["available"], 100 - price)
        end.touch()
        self.met(job)
        self.held(0)
        self.about(self.balance()["available"], 100 - price)
        self.slurm.wait("written down", lambda: ("charge", -price, job) in [(kind, amount, of) for kind, amount, of in self.lines()])
        self.assertRegex(self.slurm.log(), rf"job {job}: user:{self.user} is charged {price} \(met its deadline\)")
        self.account("check")

    def test_a_held_quote_that_is_used(self):
        """A held quote reserves no money; the job that comes with it does, and is charged the price of the quote."""
        said = self.refused(self.ask(20, 1000, "--sla-quote=hold:10m", budget=50), "libra-quote: ")
        quote = json.loads(said[said.index("{"):].splitlines()[0])
        self.assertEqual(self.balance()["held"], 0)
        too_much = self.refused(self.ask(20, 1000, "--sla-quote=ask", budget=500), "libra-quote: ")
        self.assertIn("funds", too_much)
        end = self.slurm.directory / "quote.end"
        job = self.accept(20, 1000, f"--sla-quote={quote['held'][0]}", budget=50, script=idle_until(end))
        self.about(self.balance()["held"], quote["price"])
        end.touch()
        self.met(job)
        self.held(0)
        self.slurm.wait("written down", lambda: ("charge", round(-quote["price"], 3), job) in self.lines())

    def test_a_budget_larger_than_the_balance(self):
        """Refused, and the budget that it names is accepted."""
        text = self.refused(self.ask(10, 1000, budget=101), "libra: refused (funds): the budget is 101 credits; the account has 100 available")
        offer = re.search(r"accepted now would be: (\S+)", text)[1]
        self.assertEqual(offer, "--budget=100")
        job = self.slurm.submit("--estimate=10", "--sla-deadline=1000", offer)
        self.held(float(self.commitment(job)["price"]))
        # What is held is not there for the next one.
        self.refused(self.ask(10, 30, budget=100), "has 89.99 available")

    def test_who_has_no_account(self):
        other = self.slurm.users[1]
        self.refused(self.ask(10, 20, user=other), f"libra: refused (funds): there is no account user:{other}")
        plain = self.slurm.sbatch(script="true", user=other)
        self.assertEqual(plain.rc, 0, plain.err)

    def test_a_project_pays(self):
        other = self.slurm.users[1]
        self.account("create", "project:chem", "--member", other)
        self.account("deposit", "project:chem", "30")
        job = self.accept(10, 1000, "--account=chem", budget=20, user=other)
        self.about(self.balance("project:chem")["held"], float(self.commitment(job)["price"]))
        self.refused(self.ask(10, 20, "--account=chem", budget=5), f"{self.user} is not a member of project:chem")

    def test_cancelled(self):
        """Before it ran: nothing. While it ran: the part that it has used."""
        job = self.accept(10, 1000, budget=50)
        self.running(job)
        time.sleep(3)
        self.slurm.scancel(job)
        self.held(0)
        left = self.balance()["available"]
        self.assertGreater(left, 100 - 10)
        self.assertLess(left, 100)
        test = self.slurm.sbatch("--test-only", "--estimate=10", "--sla-deadline=20", "--budget=50")
        self.assertIn("accepted", test.err)
        self.held(0)
        self.assertEqual(self.balance()["available"], left)

    def test_an_array(self):
        """Each task is paid for when it ends; what was held for those that never began is free again."""
        end = self.slurm.directory / "array.end"
        job = self.accept(20, 1000, "--array=1-4", budget=100, script=idle_until(end))
        each = float(self.commitment(job)["price"])
        self.about(self.balance()["held"], 4 * each)
        end.touch()
        self.held(0)
        self.about(self.balance()["available"], 100 - 4 * each)

    def test_an_array_whose_first_task_goes_at_once(self):
        """Slurm keeps no record of it; the others are paid for all the same."""
        end = self.slurm.directory / "others.end"
        usual = self.slurm.all_settings()["SchedulerParameters"]
        # None of them begins before the first has gone. Slurm's schedulers tell by the second that their settings were read anew.
        self.slurm.reconfigure(SchedulerParameters=STILL)
        self.addCleanup(self.slurm.reconfigure, SchedulerParameters=usual)
        job = self.accept(20, 1000, "--array=1-3", budget=100, script=idle_until(end))
        each = float(self.commitment(job)["price"])
        self.slurm.scancel(f"{job}_1")
        time.sleep(3)
        self.slurm.reconfigure(SchedulerParameters=usual)
        for task in (2, 3):
            self.running(f"{job}_{task}")
        self.assertGreater(self.balance()["held"], 0)
        end.touch()
        self.held(0)
        self.about(self.balance()["available"], 100 - 2 * each)
        self.account("check")

    def test_requeued_and_cancelled(self):
        """Slurm forgets that it ran; the account does not."""
        job = self.accept(10, 20, budget=50)
        self.running(job)
        # As long as it was seen to run by then, which is some seconds less than it ran.
        self.slurm.wait("it has run", lambda: self.run_time(job) >= 10)
        self.slurm.scontrol("requeuehold", job)
        self.slurm.scancel(job)
        self.held(0)
        self.assertLess(self.balance()["available"], 100 - 0.5)

    def test_requeued_after_it_was_paid(self):
        """It runs once more, and is paid for once more."""
        job = self.accept(20, 1000, budget=30, script="true\n")
        price = float(self.commitment(job)["price"])
        self.met(job)
        self.held(0)
        # slurmd counts in seconds: what starts within the one in which it ended is taken for the same run.
        done = time.time()
        self.slurm.wait("a later second", lambda: time.time() > done + 2)
        self.slurm.must("scontrol", "requeue", job)
        self.held(price)
        self.runs_again(job, lambda: int(self.slurm.job(job)["Restarts"]) >= 1)
        self.slurm.wait("paid twice", lambda: self.slurm.log().count(f"job {job}: user:{self.user} is charged") == 2)
        self.held(0)
        self.about(self.balance()["available"], 100 - 2 * price)
        self.account("check")

    def test_a_late_soft_job_is_compensated(self):
        """Suspended for longer than it had: the delay is not its own."""
        def compensated(deadline):
            before = self.balance()["available"]
            end = self.slurm.directory / f"late-{deadline}.end"
            job = self.accept(1, deadline, "--deadline-type=soft", "--penalty-rate=20", "--time=30", budget=50, script=f"echo begun\n{idle_until(end)}")
            price = float(self.commitment(job)["price"])
            # What has not begun yet is not stopped, and goes on.
            self.slurm.wait("it has begun", lambda: "begun" in self.slurm.output(job))
            self.slurm.must("scontrol", "suspend", job)
            suspended = time.monotonic()
            # Its slack is a second less than its deadline, 2 s are nobody's delay, and Slurm's times, in whole seconds, may be wrong by two.
            self.slurm.wait("it has waited for longer than it could", lambda: time.monotonic() > suspended + deadline + 6, 600)
            end.touch()
            self.resumed(job)
            settled = self.slurm.wait("settled", lambda: re.search(rf"job {job}: user:{self.user} is (charged .*)", self.slurm.log()))[1]
            self.held(0)
            # Who has run for all of its deadline, beginning and ending on a slow machine, has used more than it said.
            if "(late by its own overrun)" in settled and self.run_time(job) >= deadline:
                return False
            self.assertRegex(settled, r"^charged 0 and paid \S+ \(late, less the penalty\)$")
            # At most the price, whatever the rate.
            self.about(self.balance()["available"], before + price)
            self.account("check")
            return True

        self.slurm.in_time("a job that is late because it was suspended", compensated, (10, 60))

    def test_a_heterogeneous_job_is_not_paid_for_waiting(self):
        """Backfilling alone begins its components, at its interval: late by that, and the user named the rate."""
        more = ["--deadline-type=soft", "--penalty-rate=1000"]
        second = ["--estimate=3", "--sla-deadline=6", "--budget=40"]
        job = self.accept(3, 6, *more, "-n1", ":", *second, *more, "-n1", budget=50, script="sleep 1\n")
        self.assertGreater(self.balance()["held"], 0)
        self.slurm.wait("settled", lambda: re.search(rf"job {job}: user:{self.user} is charged", self.slurm.log()))
        self.held(0)
        self.assertNotIn("and paid", "".join(re.findall(rf"job (?:{job}|{int(job) + 1}): user:{self.user} .*", self.slurm.log())))
        self.assertLess(self.balance()["available"], 100)

    def test_a_late_job_that_was_requeued_pays(self):
        """It does its work, requeues itself, and ends late the second time: Slurm does not say who did it."""
        script = f"if [ -z \"$SLURM_RESTART_COUNT\" ]; then\n{busy(4)}\n{REQUEUES_ITSELF}fi\nsleep 8\n"
        job = self.accept(4, 8, "--time=10", budget=50, script=script)
        price = float(self.commitment(job)["price"])
        self.running(job)
        self.runs_again(job, lambda: int(self.slurm.job(job)["Restarts"]) >= 1)
        self.held(0)
        self.about(self.balance()["available"], 100 - price)

    def test_slurmctld_killed(self):
        """Holds are there again, no charge is lost or doubled, also of what ends while there is no slurmctld."""
        end = self.slurm.directory / "killed.end"
        jobs = [self.accept(20, 1000, budget=30, script=idle_until(end)), self.accept(20, 2000, budget=50)]
        prices = [float(self.commitment(job)["price"]) for job in jobs]
        self.held(sum(prices))
        for job in jobs:
            self.started(job)
        node, = self.slurm.nodes_of(jobs[0])
        # slurmctld itself loses what it has not saved.
        self.slurm.wait("slurmctld has saved its jobs", lambda: is_saved(self.slurm, *jobs))
        self.slurm.kill_controller()
        end.touch()
        self.slurm.wait("it has ended", lambda: not self.processes(jobs[0], node))
        self.slurm.start_controller()
        self.slurm.wait("the first is paid", lambda: abs(self.balance()["held"] - prices[1]) < 1e-4)
        self.about(self.balance()["available"], 100 - sum(prices))
        self.slurm.scancel(jobs[1])
        self.held(0)
        self.account("check")

    def test_the_live_state_is_removed(self):
        """It is made anew of the ledger, and slurmctld takes the new one: what is committed meanwhile and after is held there."""
        before = self.accept(10, 1000, budget=30)
        price = float(self.commitment(before)["price"])
        self.slurm.wait("written down", lambda: ("hold", 0, before) in self.lines())
        # Put aside first: slurmctld makes a new one as soon as it sees that it is gone.
        shutil.rmtree((self.books / "live").rename(self.books / "removed"))
        self.about(self.balance()["held"], price)
        # slurmctld still has the one that was removed.
        meanwhile = self.accept(10, 1000, budget=30)
        price += float(self.commitment(meanwhile)["price"])
        self.held(price)
        after = self.accept(10, 2000, budget=30)
        price += float(self.commitment(after)["price"])
        self.about(self.balance()["held"], price)
        for job in (before, meanwhile, after):
            self.slurm.scancel(job)
        self.held(0)
        self.account("check")

    def test_out_of_order(self):
        """A ledger that cannot be opened: refused with a text for the user; jobs without terms go on; then all is well again."""
        away = self.books.with_name("away")
        self.books.rename(away)
        try:
            self.slurm.rule(self.slurm.rules + "administrators = 'nobody'\n")
            self.slurm.wait("refused", lambda: "accounting unavailable" in self.ask(10, 20).err)
            self.assertEqual(self.slurm.sbatch(script="true").rc, 0)
        finally:
            away.rename(self.books)
        self.slurm.wait("accepted", lambda: self.ask(10, 20, budget=20).rc == 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
