#!/usr/bin/env python3
"""A backup slurmctld takes over under load, with all promises and accounts, and gives them back.

Run as root: `python3 tests/slurm/test_failover.py`. Two hosts of control on one machine: names and addresses of their own, and for the second a host name, a
directory for its log and a memory of accounts of its own (namespaces). What is shared is on a disk that both see: StateSaveLocation and the ledger. Or the ledger
is in PostgreSQL, which is killed as well.
"""

import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402  (puts tests/batch in the path)
import postgres  # noqa: E402
from case import SiteCase  # noqa: E402
from cluster import PROGRAMS, slurm_version  # noqa: E402
from commands import where_the_day_is_young  # noqa: E402
from libra_site import Site, program  # noqa: E402
from scripts import idle_until  # noqa: E402
from promises import STILL, commitment, committed, counted, expect_free_beside, holding, is_saved, terms, tokens  # noqa: E402

# Seconds without an answer of the primary after which the backup takes over: not while the primary is only slow.
DELAY = 20


class Pair(Site):
    """A primary and a backup slurmctld. `second`: which of the two is in control."""

    second = False

    @property
    def backup_name(self):
        return f"ctl2-{self.plan['number']}"

    @property
    def memory(self):
        """Where accounts are in memory; each host has its own."""
        return pathlib.Path(f"/run/libra-slurm-{self.plan['number']}")

    def all_settings(self):
        return {**super().all_settings(), "SlurmctldTimeout": DELAY}

    def write_conf(self):
        super().write_conf()
        # A key that is there twice.
        text = self.conf.read_text().replace(f"SlurmctldHost={socket.gethostname()}(127.0.0.1)\n", f"SlurmctldHost={socket.gethostname()}(127.0.0.1)\nSlurmctldHost={self.backup_name}(127.0.0.2)\n")
        machine.write_whole(self.conf, text)

    def down(self):
        memory = self.memory if self.plan["number"] is not None else None
        super().down()
        if memory:
            shutil.rmtree(memory, ignore_errors=True)

    def log(self, name="slurmctld"):
        """Of the one that is in control."""
        if name != "slurmctld" or not self.second:
            return super().log(name)
        file = self.directory / "log2/slurmctld.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def start_backup(self):
        """slurmctld on the second host."""
        for name in ("log2", "run2"):
            (self.directory / name).mkdir(mode=0o755, exist_ok=True)
            shutil.chown(self.directory / name, self.plan["slurm_user"])
        hosts = self.directory / "etc/hosts"
        hosts.write_text(f"127.0.0.2 {self.backup_name}\n{pathlib.Path('/etc/hosts').read_text()}")
        on_host = ('hostname "$1" && mount --bind "$2/etc/hosts" /etc/hosts && mount --bind "$2/log2" "$2/log" && mount --bind "$2/run2" "$2/run" && mount -t tmpfs -o "mode=700,uid=$3,gid=$3" none "$4" '
                   '&& exec -a slurmctld "$5" -D -f "$2/etc/slurm.conf"')
        # In a chroot, whose root is no mount of its own, that cannot be said, and is so.
        private = self.run("unshare", "--mount", "--propagation", "private", "true").rc == 0
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SLURM_CONF": str(self.conf), machine.MARK: str(self.directory),
                       **self.daemon_environment("slurmctld")}
        with open(self.directory / "log/backup.out", "ab") as output:
            child = subprocess.Popen(["unshare", "--mount", "--uts", "--propagation", "private" if private else "unchanged", "bash", "-c", on_host, "bash", self.backup_name, str(self.directory), self.plan["slurm_user"],
                                      str(self.memory), PROGRAMS["slurmctld"]], env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        self.children.append(child)
        (self.directory / "run/backup.started").write_text(f"{child.pid}\n")
        try:
            self.wait("the backup waits", lambda: self.daemon_pid("backup") is None or self.is_up(self.backup_name))
        except TimeoutError as late:
            raise TimeoutError(f"{late}: {(self.directory / 'log/backup.out').read_text()[-2000:]}") from None
        if self.daemon_pid("backup") is None:
            raise RuntimeError(f"the backup has ended: {(self.directory / 'log/backup.out').read_text()[-2000:]}")

    def is_up(self, host):
        return re.search(rf"at {re.escape(host)} is UP", self.run("scontrol", "ping").out)

    def on_second(self, *words):
        """A command on the second host, in what it has of its own."""
        return ["nsenter", "--mount", "--uts", "--root", "--target", str(self.daemon_pid("backup")), *map(str, words)]


class Failover(SiteCase):
    """Two hosts of control, two nodes of one processor."""

    kind = Pair
    site = {"nodes": 2, "partition": {"OverSubscribe": "FORCE:1000"}}

    @classmethod
    def prepare(cls):
        slurm = cls.slurm
        books = slurm.directory / "accounts"
        slurm.rules = f"[accounts]\nmode = 'on'\nledger = '{books}/ledger.sqlite'\nlive = '{slurm.memory}'\n{cls.ledger()}"
        cls.settings = slurm.directory / "etc/accounts.toml"
        cls.settings.write_text(slurm.rules)
        cls.account("init", "--owner", slurm.plan["slurm_user"])
        for user in slurm.users:
            cls.account("create", user)
            cls.account("deposit", user, "100000000000")
        slurm.rule(slurm.rules)
        slurm.start_backup()

    @classmethod
    def ledger(cls):
        """What else the configuration says of it."""
        return ""

    def lose_first(self):
        """The first host loses its power, and its memory with it."""
        self.slurm.kill_controller(signal.SIGKILL)
        for file in self.slurm.memory.iterdir():
            file.unlink()

    @classmethod
    def account(cls, *words):
        """On the host that is in control."""
        command = [str(word) for word in ("env", f"TZ={where_the_day_is_young()}", program(), "--config", cls.settings, "account", *words)]
        done = subprocess.run(cls.slurm.on_second(*command) if cls.slurm.second else command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done)
        return done.stdout

    def sums(self):
        """{account: (balance, held)}, on the host that is in control."""
        found = [json.loads(line) for line in self.account("--json", "list").splitlines()]
        return {one["account"]: (one["balance"], one["held"]) for one in found}

    def accounts_agree(self, before):
        """Nothing was lost or doubled: what is held are the prices of what is promised, and money is where it was."""
        def agree():
            held = sum(held for _, held in self.sums().values())
            return abs(held - sum(float(commitment(line)["price"]) for line in holding(self.slurm).values())) < 1e-3
        self.slurm.wait("what is held is what is promised", agree)
        self.account("check")
        sums = self.sums()
        self.assertAlmostEqual(sum(balance for balance, _ in sums.values()), 0, places=3)
        self.assertEqual(sums["site:bank"], before["site:bank"])

    def charged(self, job):
        statement = json.loads(self.account("--json", "statement", self.slurm.users[0]))
        return [line["amount"] for line in statement["movements"] if line["kind"] == "charge" and line["job"] == job]

    def shares_are_as_promised(self):
        """Neither more nor less is to be had than is left beside what was promised; what waits with a deferred promise has no share."""
        def look():
            return {job: line for job, line in counted(self.slurm).items() if ":deferred=1" not in line}
        expect_free_beside(self, self.slurm, look, lambda found: {node: 1 - taken for node, taken in committed(self.slurm, found).items()})

    def in_control(self, second):
        slurm = self.slurm
        slurm.second = second
        slurm.wait("it answers", lambda: slurm.run("squeue", "-h").rc == 0)
        slurm.wait_judging()

    def test_the_backup_takes_over_and_gives_back(self):
        slurm = self.slurm
        first, second = slurm.nodes
        go = slurm.directory / "go-failover"
        before = self.sums()
        running = slurm.submit(*terms(0.5, first), script=idle_until(go))
        self.running(running)
        waits = slurm.submit(*terms(0.25, second), f"--dependency=afterok:{running}", script="#!/bin/sh\ntrue\n")
        held = slurm.submit(*terms(0.25, second), "--hold")
        stays = slurm.submit(*terms(0.375, second))
        self.running(stays)
        slurm.reconfigure(SchedulerParameters=STILL)
        slurm.wait("written down", lambda: is_saved(slurm, running, stays))
        said = slurm.judged(*terms(0.05, second), "--sla-quote=hold:10m").err
        quote = json.loads(said[said.index("{"):].splitlines()[0])["held"][0]
        quotes = pathlib.Path(slurm.all_settings()["StateSaveLocation"]) / "libra.quotes"
        slurm.wait("so is a held quote", lambda: quotes.exists() and quote in quotes.read_text())

        # Submissions without an end, while the first host loses its power. What is promised to them they keep without running.
        answers, stop = [], threading.Event()

        def submit():
            # Some a second: all of them are to be cancelled in the end.
            while not stop.wait(0.2):
                answers.append(slurm.sbatch(*terms(0.001)))
        clients = [threading.Thread(target=submit) for _ in range(2)]
        self.addCleanup(stop.set)
        for one in clients:
            one.start()
        slurm.wait("some were accepted", lambda: sum(answer.rc == 0 for answer in list(answers)) >= 10)
        saved = list(holding(slurm))
        slurm.wait("they are written down", lambda: is_saved(slurm, *saved))
        self.lose_first()
        self.in_control(second=True)
        before_it = len(answers)
        slurm.wait("it accepts", lambda: sum(answer.rc == 0 for answer in list(answers)[before_it:]) >= 5)
        stop.set()
        for one in clients:
            one.join()
        slurm.submit(*terms(0.05, second), f"--sla-quote={quote}")
        # A slurmctld that has just begun may take a node for lost that has not answered it yet, and may need some seconds for its accounts.
        passes = ("no node takes new jobs now", "accounting unavailable")
        self.assertEqual({answer.err for answer in answers if "refused (" in answer.err and not any(words in answer.err for words in passes)}, set())
        self.assertEqual(set(saved) - holding(slurm).keys(), set())
        known = tokens(slurm)
        self.assertEqual(len(set(known)), len(known))
        self.shares_are_as_promised()
        self.accounts_agree(before)
        there = {job: line for job, line in holding(slurm).items() if job in (running, waits, held, stays)}
        self.assertEqual(len(there), 4)

        # The first host is back, and takes control again. From 24.05.5 to 24.05.8 a backup that is asked to give it back signals its own thread, which
        # has that signal blocked, and keeps it (_slurm_rpc_request_control): it is ended there, as its administrators have to, and started again.
        keeps = (24, 5, 5) <= slurm_version() < (24, 11)
        if keeps:
            slurm.end("backup", signal.SIGTERM)
        slurm.start_controller()
        self.in_control(second=False)
        if keeps:
            slurm.start_backup()
        slurm.wait("the backup waits", lambda: slurm.is_up(slurm.backup_name))
        self.assertEqual({job: line for job, line in holding(slurm).items() if job in there}, there)
        stood_by = lambda: (slurm.directory / "log2/slurmctld.log").read_text().count("another slurmctld is in control")  # noqa: E731
        slurm.wait("the backup's plugin stands by, as at its start", lambda: stood_by() == 2)
        self.shares_are_as_promised()
        self.accounts_agree(before)

        # And what was promised is kept and paid once, by the one that is in control.
        slurm.reconfigure(SchedulerParameters="batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2")
        go.touch()
        for job in (running, waits):
            slurm.wait(f"{job} is paid for", lambda job=job: self.charged(job))
            self.assertEqual(len(self.charged(job)), 1)
            # Said by a slurmctld that has begun anew with the reconfigure, too.
            paid = re.compile(rf"job {job}: user:\S+ is charged [\d.]+ \(met its deadline\)")
            slurm.wait(f"it is said of {job}", lambda paid=paid: paid.search(slurm.log()))
        self.clear()
        self.accounts_agree(before)

    def test_what_both_must_see_is_checked(self):
        slurm = self.slurm

        def check(rules):
            """Of what the slurmctld that runs reads."""
            slurm.rule(rules)
            return slurm.run(program(), "slurm", "check").out
        said = check(slurm.rules)
        self.assertIn(f"warning  backup controller: {slurm.backup_name} needs the same plugins", said)
        self.assertIn("ok       failover: the ledger of the accounts is on the disk of StateSaveLocation", said)
        said = check(slurm.rules.replace(f"{slurm.directory}/accounts/", "/dev/shm/").replace(str(slurm.memory), f"{slurm.directory}/live"))
        self.assertIn("problem  failover: the ledger /dev/shm/ledger.sqlite is not on the disk of StateSaveLocation", said)
        self.assertIn("warning  failover: accounts.live, ", said)


@unittest.skipUnless(postgres.programs(), "not run: no PostgreSQL in /usr/lib/postgresql (scripts/bootstrap test installs it)")
class FailoverInDatabase(Failover):
    """The same with the ledger in a database, which is killed when the first slurmctld is. That one's host lives on, with what it has in its memory."""

    @classmethod
    def ledger(cls):
        cls.server = postgres.Server()
        cls.addClassCleanup(cls.server.end)
        return f"database = '{cls.server.string}'\n"

    def lose_first(self):
        self.slurm.kill_controller(signal.SIGKILL)
        self.server.kill()
        self.server.begin_again()

    def in_control(self, second):
        super().in_control(second)
        # The other host may live: its lease has to run out. This is more than any deadline allows, and accounts are asked first.
        self.slurm.wait("accounts are open", lambda: "refused (deadline)" in self.slurm.sbatch(*terms(2)).err)

    def test_the_backup_takes_over_and_gives_back(self):
        super().test_the_backup_takes_over_and_gives_back()
        # Each in its turn: first, second, first. What that one had not written down when it was killed was about jobs.
        self.assertGreaterEqual(int(self.server.sql("SELECT value FROM libra.meta WHERE key = 'generation'")), 3)

    def test_what_both_must_see_is_checked(self):
        slurm = self.slurm
        slurm.rule(slurm.rules)
        said = slurm.run(program(), "slurm", "check").out
        self.assertIn("warning  failover: the ledger of the accounts is in the database", said)
        slurm.rule(slurm.rules.replace(f"host={self.server.directory}", "host=db.invalid"))
        said = slurm.run(program(), "slurm", "check").out
        self.assertIn("ok       failover: the ledger of the accounts is in the database", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
