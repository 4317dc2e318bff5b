"""Budgets that are taken from accounts, in a cell with Libra: from the deposit to the statement."""

import json
import re
import time
import unittest

from case import CellCase
from cluster import ADMIN, MASTER
from commands import where_the_day_is_young


def idle_until(file):
    """A script that waits until this file is there."""
    return f"while ! [ -e {file} ]; do sleep 0.2; done\n"


def shown(credits):
    """As Libra writes credits."""
    return f"{credits:.2f}".rstrip("0").rstrip(".")


class Accounts(CellCase):
    """The first user has an account, the second has none."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.with_accounts()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def with_accounts(cls):
        cell = cls.cell
        cls.books = cell.directory / "accounts"
        cls.user, cls.other = cell.users
        cell.add_rules(f"[accounts]\nmode = 'on'\nledger = '{cls.books}/ledger.sqlite'\nlive = '{cls.books}/live'\n")
        found = cell.libra("gridengine", "check", *cell.places)
        assert found.rc == 1 and "libra account init --owner sgeadmin" in found.out, found
        cls.account("init", "--owner", ADMIN)
        cls.account("create", cls.user)
        found = cell.libra("gridengine", "check", *cell.places)
        assert found.rc == 0 and "the ledger is sgeadmin's" in found.out, found

    @classmethod
    def account(cls, *words, status=0):
        done = cls.cell.libra("account", *words, environment={"TZ": where_the_day_is_young()})
        assert done.rc == status, (words, done)
        return done.out

    def setUp(self):
        # Whatever the tests before left: 100 credits.
        self.held(0)
        left = self.balance()["available"]
        if left > 0:
            self.account("create", "bin")
            self.account("transfer", self.user, "bin", str(left))
        self.account("deposit", self.user, "100")

    def tearDown(self):
        super().tearDown()
        self.account("check")

    def balance(self, account=None):
        return json.loads(self.account("--json", "balance", account or self.user).splitlines()[0])

    def about(self, amount, wanted):
        """Money is whole micro-credits, and prices are not."""
        self.assertAlmostEqual(amount, wanted, places=4)

    def held(self, credits):
        self.cell.wait(f"{credits} held, it is {self.balance()}", lambda: abs(self.balance()["held"] - credits) < 1e-4)

    def settled(self, job):
        """What the log says that was paid for it."""
        return self.cell.wait(f"job {job} is settled", lambda: re.search(rf"job {job}: (\S+ is charged .*)", self.cell.log()))[1]

    def price(self, job):
        return float(self.commitment(job)["price"])

    def is_free(self, host):
        """Nobody but who has an account is told; and who has one may ask for more than it has."""
        asked = self.cell.qsub("-l", f"quote=ask,h={host}", "-l", "estimate=3600,deadline=3785", "-pe", "smp", self.cell.slots(host))
        said = asked.out + asked.err
        return '"reason":"funds"' in said or "refused (funds)" in said or '"accepted":true' in said

    def test_from_the_deposit_to_the_statement(self):
        end = self.cell.home(self.user) / "statement.end"
        job = self.accept(20, 1000, budget=50, script=idle_until(end))
        price = self.price(job)
        self.assertEqual(self.commitment(job)["payer"], f"user/{self.user}")
        balance = self.balance()
        self.about(balance["held"], price)
        self.about(balance["available"], 100 - price)
        end.touch()
        self.assertEqual(self.settled(job), f"user:{self.user} is charged {shown(price)} (met its deadline)")
        self.about(self.balance()["available"], 100 - price)
        self.held(0)
        self.assertRegex(self.cell.log(), rf"job {job} met its deadline: ended after .+ of 16m40s, used \S+ s of the estimated 20 s, price {shown(price)}")

        def lines():
            statement = json.loads(self.account("--json", "statement", self.user, "--holds"))
            return [(line["kind"], round(line["amount"], 3), line["job"]) for line in statement["movements"]]

        self.cell.wait("it is in the statement", lambda: ("charge", -round(price, 3), job) in lines())

    def test_a_budget_larger_than_the_balance(self):
        """Refused in the words of all systems, and the budget that is named is accepted."""
        said = self.refused(self.cell.qsub(*self.terms(10, 30, 101)), "libra: refused (funds): the budget is 101 credits; the account has 100 available")
        self.assertIn("accepted now would be: -l budget=100", said)
        job = self.accept(10, 1000, budget=100)
        price = self.price(job)
        self.held(price)
        # What is held is not there for the next one.
        self.refused(self.cell.qsub(*self.terms(10, 30, 100)), f"has {shown(100 - price)} available")

    def test_who_has_no_account(self):
        self.refused(self.cell.qsub(*self.terms(10, 30, 5), user=self.other), f"libra: refused (funds): there is no account user:{self.other}")
        plain = self.cell.qsub(user=self.other, script="true\n")
        self.assertEqual(plain.rc, 0, plain)

    def test_a_held_quote_that_is_used(self):
        said = self.refused(self.cell.qsub("-l", "quote=hold:10m,estimate=20,deadline=1000,budget=50"), "libra-quote: ")
        quote = json.loads(said[said.index("{"):].splitlines()[0])
        self.assertEqual(self.balance()["held"], 0)
        end = self.cell.home(self.user) / "quote.end"
        job = self.accept(20, 1000, "-l", f"quote={quote['held'][0]}", budget=50, script=idle_until(end))
        self.held(quote["price"])
        end.touch()
        self.assertIn("(met its deadline)", self.settled(job))
        self.about(self.balance()["available"], 100 - quote["price"])

    def test_deleted(self):
        """Before it ran: nothing. While it ran: the part of the price that it had used."""
        job = self.accept(50, 300, "-l", "h=g2", budget=100, script="sleep 1000\n")
        price = self.price(job)
        host = self.cell.wait_running(job)
        self.assertEqual(host, "g2")
        self.cell.wait("its processes", lambda: self.processes(job, host))
        time.sleep(3)  # what it has had
        self.cell.must("qdel", job)
        self.assertIn("(cancelled)", self.settled(job))
        left = self.balance()["available"]
        self.assertGreater(left, 100 - price * 0.5)
        self.assertLess(left, 100)

    def test_deleted_while_it_waits(self):
        """It has no record in the accounting file, and its price is free when that has had its time."""
        self.cell.must("qconf", "-rattr", "queue", "load_thresholds", "np_load_avg=0", "main.q")
        self.addCleanup(self.cell.must, "qconf", "-rattr", "queue", "load_thresholds", "NONE", "main.q")
        job = self.accept(50, 300, budget=100)
        self.assertEqual(self.cell.state(job), "qw")
        self.assertGreater(self.balance()["held"], 0)
        self.cell.must("qdel", job)
        self.assertEqual(self.settled(job), f"user:{self.user} is charged 0 (never began)")
        self.assertEqual(self.balance()["available"], 100)

    def test_a_job_that_fails_pays(self):
        end = self.cell.home(self.user) / "failed.end"  # one that has ended is forgotten at once
        job = self.accept(20, 1000, budget=50, script=idle_until(end) + "exit 3\n")
        price = self.price(job)
        end.touch()
        self.assertEqual(self.settled(job), f"user:{self.user} is charged {shown(price)} (met its deadline)")
        self.assertRegex(self.cell.log(), rf"job {job} failed, in time \(exit status 3\)")

    def test_one_that_cannot_be_started_pays_nothing(self):
        # A host that is slow to find out that it cannot begin a job has it among the running ones until then, and those seconds are charged.
        for _ in range(5):
            had = self.balance()["available"]
            job = self.accept(2, 300, "-wd", "/nonexistent", budget=50)
            self.cell.wait("it is in an error", lambda job=job: "E" in self.cell.state(job))
            self.cell.must("qdel", job)
            said = self.settled(job)
            if "(cancelled)" not in said:
                break
        self.assertIn("is charged 0 (never began)", said)
        self.about(self.balance()["available"], had)

    def test_a_job_that_is_requeued_is_paid_once(self):
        """By qmod, and by itself with exit status 99: its hold stays, and it is settled at its end."""
        job = self.accept(5, 3000, "-r", "y", budget=50, script='[ "$RESTARTED" = 1 ] && exit 0\nsleep 1000\n')
        price = self.price(job)
        host = self.cell.wait_running(job)
        # It may have been before its first process was there.
        self.cell.wait("its processes", lambda: self.processes(job, host))
        self.cell.must("qmod", "-rj", job)
        self.assertIn("(met its deadline)", self.settled(job))
        self.about(self.balance()["available"], 100 - price)
        end = self.cell.home(self.user) / "again.end"
        job = self.accept(5, 3000, "-r", "y", budget=50, script='[ "$RESTARTED" = 1 ] && exit 0\n' + idle_until(end) + "exit 99\n")
        again = self.price(job)
        end.touch()
        self.assertIn("(met its deadline)", self.settled(job))
        self.held(0)
        self.about(self.balance()["available"], 100 - price - again)

    def test_an_array(self):
        """Each task is paid for when it ends; one that never began costs nothing."""
        end = self.cell.home(self.user) / "array.end"
        job = self.accept(20, 1000, "-t", "1-4", budget=100, script=idle_until(end))
        each = self.price(job)
        self.about(self.balance()["held"], 4 * each)
        end.touch()
        self.held(0)
        self.about(self.balance()["available"], 100 - 4 * each)
        self.cell.wait("all four are said to be", lambda: len(re.findall(rf"job {job}\.[1-4]: user:{self.user} is charged", self.cell.log())) == 4)

    def test_kills_change_no_sum(self):
        """kill -9 of the verifiers and of qmaster, while jobs run and end: each is paid for once, and no hold stays."""
        go_on = self.cell.home(self.user) / "go-on"
        jobs = [self.accept(2, 1200, budget=20, script=idle_until(go_on)) for _ in range(3)]
        prices = [self.price(job) for job in jobs]
        for job in jobs:
            self.cell.wait_running(job)
        self.cell.kill_verifiers()
        # They end while nobody keeps the book: what was committed to them is in files.
        go_on.touch()
        for job in jobs:
            self.cell.wait_gone(job)
        records = self.cell.root / "default/common/accounting"
        self.cell.wait("qmaster has written their ends down", lambda: all(f":{job}:sge:" in records.read_text() for job in jobs))
        self.cell.kill(MASTER)
        self.cell.start_master()
        # The first submission has qmaster start its verifiers.
        self.cell.wait("somebody judges again", lambda: "refused (funds)" in "".join(map(str, self.cell.qsub(*self.terms(1, 10, 1000)))))
        for job in jobs:
            self.settled(job)
        self.held(0)
        self.about(self.balance()["available"], 100 - sum(prices))
        for job in jobs:
            self.assertEqual(len(re.findall(rf"job {job}: \S+ is charged", self.cell.log())), 1)
        go_on.unlink()

    def test_accounts_that_are_out_of_order(self):
        """Nobody is admitted on them; jobs without terms are."""
        ledger = self.books / "ledger.sqlite"
        moved = self.books / "moved.sqlite"
        ledger.rename(moved)
        try:
            self.refused_for_their_sake(moved, ledger)
        finally:
            if moved.exists():
                moved.rename(ledger)

    def refused_for_their_sake(self, moved, ledger):
        self.cell.kill_verifiers()
        self.cell.wait("it is said", lambda: "libra: refused (fault): accounting unavailable; job rejected" in "".join(map(str, self.cell.qsub(*self.terms(1, 10, 5)))))
        # Each of qmaster's workers refuses one job for the sake of its verifier that was killed.
        self.cell.wait("one without terms is taken", lambda: self.cell.qsub(script="true\n").rc == 0)
        moved.rename(ledger)
        job = self.cell.wait("they are opened again", lambda: (lambda said: said.rc == 0 and said.out.strip())(self.cell.qsub(*self.terms(1, 30, 5), script="true\n")))
        self.settled(job)


if __name__ == "__main__":
    unittest.main()
