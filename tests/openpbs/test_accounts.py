#!/usr/bin/env python3
"""Budgets that are taken from accounts, in a PBS with Libra: from the deposit to the statement.

Run as root: `python3 tests/openpbs/test_accounts.py`.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402  (puts tests/batch in the path)
import postgres  # noqa: E402
from commands import where_the_day_is_young  # noqa: E402
from libra_site import busy  # noqa: E402
from scripts import idle_until, works_until  # noqa: E402


class AccountsCase(SiteCase):
    """Two hosts of one processor; the first user has an account, the second has none."""

    site = {"hosts": 2}

    @classmethod
    def prepare(cls):
        pbs = cls.pbs
        cls.books = pbs.own / "accounts"
        pbs.write_config(f"[accounts]\nmode = 'on'\nledger = '{cls.books}/ledger.sqlite'\nlive = '{cls.books}/live'\n{cls.ledger()}")
        cls.account("init")
        cls.user = pbs.users[0]
        cls.account("create", cls.user)

    @classmethod
    def ledger(cls):
        """What else the configuration says of it."""
        return ""

    @classmethod
    def account(cls, *words):
        done = subprocess.run([cls.pbs.libra, "--config", cls.pbs.own / "server.toml", "account", *words], env=os.environ | {"TZ": where_the_day_is_young()},
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done)
        return done.stdout

    def setUp(self):
        # Whatever the tests before left: 100 credits.
        left = self.balance()["available"]
        if left > 0:
            self.account("create", "bin")
            self.account("transfer", self.user, "bin", str(left))
        self.account("deposit", self.user, "100")

    def balance(self, account=None):
        return json.loads(self.account("--json", "balance", account or self.user).splitlines()[0])

    def held(self, credits, patience=180):
        self.pbs.wait(f"{credits} held", lambda: abs(self.balance()["held"] - credits) < 1e-4, patience)

    def price(self, job):
        return float(self.terms(job)["price"])

    def about(self, amount, wanted):
        """Money is whole micro-credits, and prices are not."""
        self.assertAlmostEqual(amount, wanted, places=4)

    def lines(self):
        """The statement: (kind, amount, job) of each movement."""
        statement = json.loads(self.account("--json", "statement", self.user, "--holds"))
        return [(line["kind"], round(line["amount"], 3), line["job"]) for line in statement["movements"]]


class Accounts(AccountsCase):
    """With the ledger in a file."""

    def test_from_the_deposit_to_the_statement(self):
        """Held when it is accepted, charged when it has met its deadline."""
        end = self.pbs.own / "statement.end"
        job = self.accept(20, 600, budget=50, script=idle_until(end))
        price = self.price(job)
        self.assertEqual(self.terms(job)["payer"], f"user/{self.user}")
        balance = self.balance()
        self.about(balance["held"], price)
        self.about(balance["available"], 100 - price)
        end.touch()
        said = self.met(job)[0]
        self.assertIn(f"user:{self.user} is charged", said)
        self.held(0)
        self.about(self.balance()["available"], 100 - price)
        self.pbs.wait("written down", lambda: ("charge", round(-price, 3), job) in self.lines())
        self.account("check")

    def test_a_held_quote_that_is_used(self):
        """A held quote reserves no money; the job that comes with it does, and is charged the price of the quote."""
        said = self.refused(self.ask(20, 600, "-l", "libra_quote=hold:10m", budget=50), "libra-quote: ")
        quote = json.loads(said[said.index("{"):].splitlines()[0])
        self.assertEqual(self.balance()["held"], 0)
        self.assertIn("funds", self.refused(self.ask(20, 600, "-l", "libra_quote=ask", budget=500), "libra-quote: "))
        end = self.pbs.own / "quote.end"
        job = self.accept(20, 600, "-l", f"libra_quote={quote['held'][0]}", budget=50, script=idle_until(end))
        self.about(self.balance()["held"], quote["price"])
        end.touch()
        self.met(job)
        self.held(0)
        self.pbs.wait("written down", lambda: ("charge", round(-quote["price"], 3), job) in self.lines())

    def test_a_budget_larger_than_the_balance(self):
        """Refused, and the budget that it names is accepted."""
        text = self.refused(self.ask(10, 1000, budget=101), "libra: refused (funds): the budget is 101 credits; the account has 100 available")
        offer = re.search(r"accepted now would be: budget=(\S+)", text)[1]
        self.assertEqual(offer, "100")
        job = self.accept(10, 1000, budget=offer)
        self.running(job)  # PBS has no event of a job that is deleted before
        self.held(self.price(job))
        # What is held is not there for the next one.
        self.refused(self.ask(10, 30, budget=100), "has 89.99 available")

    def test_who_has_no_account(self):
        other = self.pbs.users[1]
        self.refused(self.ask(10, 20, user=other), f"libra: refused (funds): there is no account user:{other}")
        self.assertEqual(self.pbs.qsub(user=other).rc, 0)

    def test_a_project_pays(self):
        other = self.pbs.users[1]
        self.account("create", "project:chem", "--member", other)
        self.account("deposit", "project:chem", "30")
        job = self.accept(10, 1000, "-A", "chem", budget=20, user=other)
        self.about(self.balance("project:chem")["held"], self.price(job))
        self.refused(self.ask(10, 20, "-P", "chem", budget=5), f"{self.user} is not a member of project:chem")

    def test_cancelled(self):
        """While it ran: the part of the estimate that it has used."""
        job = self.accept(40, 600, budget=50, script=busy(1000))
        self.running(job)
        self.pbs.wait("it has worked", lambda: self.used(job) > 0.1)
        self.pbs.qdel(job)
        self.held(0)
        left = self.balance()["available"]
        self.assertGreater(left, 100 - self.price(job))
        self.assertLess(left, 100)

    def test_an_array(self):
        """Each subjob is paid for when it ends."""
        end = self.pbs.own / "array.end"
        job = self.accept(20, 600, "-J", "1-4", budget=100, script=idle_until(end))
        each = self.price(job)
        self.about(self.balance()["held"], 4 * each)
        end.touch()
        self.held(0)
        self.about(self.balance()["available"], 100 - 4 * each)
        self.account("check")

    def test_a_late_soft_job_is_compensated(self):
        """PBS starts it later than it could wait: the delay is not its own. What is paid out is at most its price."""
        def compensated(deadline):
            before = self.balance()["available"]
            self.pbs.qmgr("set server scheduling = false")
            try:
                job = self.accept(1, deadline, "-l", "deadline_type=soft,penalty_rate=20,walltime=600", budget=50, script=busy(0.7))
                price, due = self.price(job), self.due_at(job)
                self.pbs.wait("its deadline has passed", lambda: time.time() > due + 3, 600)
            finally:
                self.pbs.qmgr("set server scheduling = true")
            said = self.ended_late(job)
            self.held(0)
            # It is paid only if it uses what it is given, of which beginning and ending on a slow machine have their part.
            if "(late by its own overrun)" in said and self.ran(job) >= 0.7 * deadline:
                return False
            self.assertRegex(said, r"is charged 0 and paid \S+ \(late, less the penalty\)")
            self.about(self.balance()["available"], before + price)
            return True

        self.pbs.in_time("a job that is late because it was begun late", compensated, (10, 60))

    def ran(self, job):
        """Seconds from its beginning to its end, as PBS has them."""
        hours, minutes, seconds = self.pbs.qstat(job)["resources_used.walltime"].split(":")
        return int(hours) * 3600 + int(minutes) * 60 + int(seconds)

    def test_who_sleeps_beyond_the_deadline_pays(self):
        """It had its share all the time."""
        job = self.accept(3, 6, "-l", "deadline_type=soft,penalty_rate=1000000,walltime=60", budget=50, script="sleep 7.5\n")
        price = self.price(job)
        self.pbs.wait("settled", lambda: re.search(rf"job {re.escape(job)} missed.*user:{self.user} is charged \S+ \(late by its own overrun\)", self.pbs.log()))
        self.held(0)
        self.about(self.balance()["available"], 100 - price)

    def ended_late(self, job):
        """What the server says of what it pays."""
        return self.pbs.wait("settled", lambda: re.search(rf"job {re.escape(job)} .*(user:{self.user} is charged .*)", self.pbs.log()), 600)[1]

    def due_at(self, job):
        """When its deadline is."""
        terms = self.terms(job)
        return float(terms["submitted"]) + float(terms["deadline"])

    def test_no_slack_is_no_income(self):
        """Its deadline leaves no time to start it, and it sleeps: the moment that PBS takes is not why it is late."""
        for sleep in ("10.2", "11"):
            before = self.balance()["available"]
            job = self.accept(10, 10.5, "-l", "deadline_type=soft,penalty_rate=1000000,walltime=60", budget=50, script=f"sleep {sleep}\n")
            price = self.price(job)
            said = self.ended_late(job)
            self.held(0)
            # The shorter one may just meet its deadline.
            self.assertNotIn("and paid", said)
            self.about(self.balance()["available"], before - price)

    def test_sleeping_too_long_is_no_free_work(self):
        """It works for nearly all of its estimate, and sleeps beyond a hard deadline."""
        # So long that it has not used what it was given either if it began too late to be in time.
        job = self.accept(10, 20, "-l", "walltime=300", budget=50, script=busy(9) + "sleep 16\n")
        price = self.price(job)
        self.assertRegex(self.ended_late(job), r"is charged \S+ \(late by its own overrun\)")
        self.held(0)
        self.about(self.balance()["available"], 100 - price)

    def test_who_waited_and_then_sleeps_pays(self):
        """PBS starts it later than it could wait; it does nothing then but sleep."""
        self.pbs.qmgr("set server scheduling = false")
        try:
            job = self.accept(3, 6, "-l", "deadline_type=soft,penalty_rate=20,walltime=60", budget=50, script="sleep 10\n")
            price = self.price(job)
            time.sleep(8)
        finally:
            self.pbs.qmgr("set server scheduling = true")
        self.assertRegex(self.ended_late(job), r"is charged \S+ \(late by its own overrun\)")
        self.held(0)
        self.about(self.balance()["available"], 100 - price)

    def test_a_late_job_that_used_more_than_it_said(self):
        job = self.accept(2, 6, "-l", "deadline_type=soft,penalty_rate=20,walltime=600", budget=50, script=busy(9))
        self.assertRegex(self.ended_late(job), r"is charged \S+ \(late by its own overrun\)")
        self.held(0)
        self.about(self.balance()["available"], 100 - self.price(job))

    def test_pbs_server_killed(self):
        """Holds are there again, no charge is lost or doubled, also of what ends while there is no server."""
        end = self.pbs.own / "killed.end"
        jobs = [self.accept(20, 600, budget=30, script=works_until(end)), self.accept(20, 3000, budget=50)]
        prices = [self.price(job) for job in jobs]
        for job in jobs:
            self.running(job)
        self.held(sum(prices))
        host, = self.pbs.node_of(jobs[0])
        self.pbs.wait("it works", lambda: self.group_processes(jobs[0], host))
        self.pbs.kill_server()
        end.touch()
        self.pbs.wait("it has ended", lambda: not self.group_processes(jobs[0], host))
        self.pbs.start_server()
        self.pbs.wait("the first is paid", lambda: abs(self.balance()["held"] - prices[1]) < 1e-4)
        self.about(self.balance()["available"], 100 - sum(prices))
        self.account("check")

    def test_uninstalled_while_a_job_runs(self):
        """By force it runs on as it is. When it has ended its host is freed by one command, and its money by uninstalling the rest."""
        pbs = self.pbs
        end = pbs.own / "uninstalled.end"
        job = self.accept(20, 600, budget=50, script=idle_until(end))
        self.running(job)
        price, [host] = self.price(job), pbs.node_of(job)
        pbs.wait("it is on its host", lambda: self.group_processes(job, host))
        uninstall = [pbs.libra, "pbs", "uninstall", "--state", pbs.own / "record", "--delete-history"]
        self.assertIn(job, pbs.run(*uninstall).out)
        self.addCleanup(pbs.install)
        forced = pbs.run(*uninstall, "--force", timeout=300)
        self.assertEqual(forced.rc, 1, forced)
        self.assertIn("what accounts hold for them is given back then", forced.out)
        self.assertTrue(self.group_processes(job, host))
        self.held(price)
        # Nor has its host hooks any more, which would see it end.
        pbs.wait("its host has no hooks", lambda: not list((pbs.directory / host / "mom_priv/hooks").glob("libra_*.PY")))
        end.touch()
        pbs.wait_state(job, "F")
        pbs.must(pbs.libra, "--config", pbs.own / f"{host}.toml", "cancel", job)
        self.assertFalse(pbs.cgroup(host, job).exists())
        said = pbs.must(*uninstall, timeout=300)
        self.assertIn("credits are free again that were held for 1 job that ended unseen", said)
        self.assertEqual(self.balance()["held"], 0)
        self.about(self.balance()["available"], 100)
        self.account("check")

    def test_out_of_order(self):
        """A ledger that cannot be opened: refused with a text for the user; jobs without terms go on; then all is well again."""
        away, rules = self.books.with_name("away"), self.pbs.server_config
        self.books.rename(away)
        try:
            self.pbs.write_config(rules + "administrators = 'nobody'\n")
            self.pbs.wait("refused", lambda: "accounting unavailable" in self.ask(10, 20).err)
            self.assertEqual(self.pbs.qsub().rc, 0)
        finally:
            away.rename(self.books)
        accepted = self.pbs.wait("accepted", lambda: (found := self.ask(10, 20, budget=20)).rc == 0 and found.out)
        self.pbs.write_config(rules)
        self.running(accepted)  # PBS has no event of a job that is deleted before, and what is held for it is there a minute longer


@unittest.skipUnless(postgres.programs(), "not run: no PostgreSQL in /usr/lib/postgresql (scripts/bootstrap test installs it)")
class AccountsInDatabase(AccountsCase):
    """With the ledger in PostgreSQL."""

    @classmethod
    def ledger(cls):
        cls.server = postgres.Server()
        cls.addClassCleanup(cls.server.end)
        return f"database = '{cls.server.string}'\n"

    def test_a_database_that_is_gone_for_a_while(self):
        """Whoever has a promise keeps it and is settled; new ones are refused when the lease has run out, until the database is back."""
        end = self.pbs.own / "gone.end"
        job = self.accept(20, 600, budget=50, script=idle_until(end))
        price = self.price(job)
        self.about(self.balance()["held"], price)
        self.server.kill()
        # It costs more than its budget: accounts are asked first.
        self.pbs.wait("nothing is accepted any more", lambda: "cannot be reached" in self.ask(20, 10, budget=5).err)
        end.touch()
        self.assertIn(f"user:{self.user} is charged", self.met(job)[0])
        self.server.begin_again()
        self.pbs.wait("accounts are there again", lambda: "refused (budget)" in self.ask(20, 10, budget=5).err)
        self.held(0)
        self.about(self.balance()["available"], 100 - price)
        self.pbs.wait("written down", lambda: ("charge", round(-price, 3), job) in self.lines())
        self.account("check")


if __name__ == "__main__":
    unittest.main(verbosity=2)
