#!/usr/bin/env python3
"""A secondary server takes over, with all promises and accounts, and gives them back.

Run as root: `python3 tests/openpbs/test_failover.py`. Two hosts of one machine: names and addresses of their own, and for the second a host name and a
memory of accounts of its own (namespaces). What is shared is on a disk that both see: PBS_HOME and the ledger.
"""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import client  # noqa: E402
import machine  # noqa: E402
from case import SiteCase  # noqa: E402
from libra_site import Site  # noqa: E402
from scripts import idle_until  # noqa: E402
from promises import terms  # noqa: E402

# Seconds without a sign of the primary after which the secondary takes over: not while the primary is only slow.
DELAY = 15


class Pair(Site):
    """A primary and a secondary server. `second`: which of the two is the server now; root's commands are given on its host."""

    second = False

    @property
    def conf(self):
        return self.second_conf if self.second else self.first_conf

    @property
    def first_conf(self):
        return self.directory / "server.conf"

    @property
    def secondary_name(self):
        return f"pbs2-{self.plan['subnet']}"

    @property
    def names(self):
        return {**super().names, f"10.77.{self.plan['subnet']}.200": self.secondary_name}

    @property
    def second_conf(self):
        return self.directory / "second.conf"

    @property
    def second_comm(self):
        """A port behind those of the last host, in this cluster's own range."""
        return self.plan["ports"][-1] + 2

    @property
    def live(self):
        """Where accounts are in memory; each host has its own."""
        return pathlib.Path(f"/run/libra-openpbs-{self.plan['subnet']}")

    def down(self):
        live = self.live if self.plan["subnet"] is not None else None
        super().down()
        if live:
            shutil.rmtree(live, ignore_errors=True)

    @property
    def common_settings(self):
        comm = self.plan["ports"][1]
        return {**super().common_settings, "PBS_PRIMARY": self.server_name, "PBS_SECONDARY": self.secondary_name,
                "PBS_LEAF_ROUTERS": f"{self.server_name}:{comm},{self.secondary_name}:{self.second_comm}"}

    def write_server(self):
        super().write_server()
        own = {"PBS_LEAF_NAME": self.secondary_name, "PBS_COMM_NAME": f"{self.secondary_name}:{self.second_comm}"}
        lines = [line for line in self.conf.read_text().splitlines() if line.split("=")[0] not in own]
        self.second_conf.write_text("".join(f"{line}\n" for line in [*lines, *(f"{key}={value}" for key, value in own.items())]))

    def lock_of(self, what, secondary):
        directory = {"server": "server_priv", "sched": "sched_priv", "comm": "server_priv"}[what]
        return self.home / directory / (f"{what}.lock" + (".secondary" if secondary else ""))

    def pid_of(self, what, secondary=False):
        return self.lock_pid(self.lock_of(what, secondary))

    def start_secondary(self):
        """pbs_comm and pbs_server on the second host."""
        on_host = 'hostname "$1" && mount -t tmpfs -o mode=755 none "$2" && shift 2 && exec "$@" >>"$DAEMON_OUTPUT" 2>&1 </dev/null'
        environment = {"PBS_CONF_FILE": str(self.second_conf), machine.MARK: str(self.directory), "DAEMON_OUTPUT": str(self.directory / "daemons.out")}
        for program in (["sbin/pbs_comm"], ["sbin/pbs_server", "-F", str(DELAY)]):
            done = self.run("unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", on_host, "sh", self.secondary_name, self.live,
                            self.exec / program[0], *program[1:], environment=environment)
            if done.rc != 0:
                raise client.CommandFailed(f"{program}: exit {done.rc}: {(self.directory / 'daemons.out').read_text()[-2000:]}")
        self.wait("the secondary waits", lambda: self.pid_of("server", secondary=True))
        self.wait("the primary knows it", lambda: "as Secondary Server" in self.log())

    def end_host(self):
        """All of PBS on the first host, at once, as by a loss of power: its data service too, and what was in its memory."""
        store = self.home / "datastore/postmaster.pid"
        pids = [self.pid_of(what) for what in ("server", "sched", "comm")]
        pids += [int(store.read_text().splitlines()[0])]
        pids += self.monitors()
        for pid in filter(None, pids):
            machine.end_process(pid, signal.SIGKILL)
        for file in self.live.iterdir():
            file.unlink()

    def monitors(self):
        """Who looks after the data service; on both hosts it is the same program."""
        found = subprocess.run(["pgrep", "-f", "pbs_ds_monitor"], capture_output=True, text=True, check=False).stdout.split()
        ours = set(machine.marked_processes(self.directory))
        return [int(pid) for pid in found if int(pid) in ours]

    def see_to_scheduler(self):
        """Start a scheduler if there is none. The other server's may still be there when one is looked for, and ends then."""
        if not self.pid_of("sched"):
            self.daemon("sbin/pbs_sched", conf=self.conf)

    def is_active(self):
        """Whether the secondary is the server."""
        return "has gone active" in self.log()

    def wait_answer(self):
        self.wait("a server answers", lambda: self.run("qstat", "-B").rc == 0)

    def on_second(self, *words):
        """A command on the second host, in what it has of its own."""
        return ["nsenter", "--mount", "--uts", "--target", str(self.pid_of("server", secondary=True)), *map(str, words)]


class Failover(SiteCase):
    """Two hosts of one processor each, two servers."""

    cluster = Pair
    site = {"hosts": 2}

    @classmethod
    def prepare(cls):
        pbs = cls.pbs
        books = pbs.own / "accounts"
        books.mkdir()
        pbs.live.mkdir()
        pbs.write_config(f"[accounts]\nmode = 'on'\nledger = '{books}/ledger.sqlite'\nlive = '{pbs.live}'\n")
        cls.account("init")
        for user in pbs.users:
            cls.account("create", user)
            cls.account("deposit", user, "100000000000")
        # As PBS's guides have it: root of either host.
        both = ",".join(f"root@{name}" for name in (pbs.server_name, pbs.secondary_name))
        pbs.qmgr(f"set server acl_roots = '{both}'", f"set server managers = '{both}'")
        pbs.start_secondary()

    @classmethod
    def account(cls, *words):
        """On the host that is the server."""
        command = [str(word) for word in (cls.pbs.libra, "--config", cls.pbs.own / "server.toml", "account", *words)]
        done = subprocess.run(cls.pbs.on_second(*command) if cls.pbs.second else command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done)
        return done.stdout

    def sums(self):
        """{account: (balance, held)}, on the host that is the server."""
        found = [json.loads(line) for line in self.account("--json", "list").splitlines()]
        return {one["account"]: (one["balance"], one["held"]) for one in found}

    def promised(self):
        """{job: price} of all that is promised and has not ended, as PBS has it."""
        lines = {job: record.get("Resource_List.libra_terms") for job, record in self.pbs.jobs().items() if record.get("job_state") != "F"}
        return {job: float(re.search(":price=([^:]+)", line)[1]) for job, line in lines.items() if line}

    def accounts_agree(self, before):
        """Nothing was lost or doubled: what is held are the prices of what is promised, and money is where it was."""
        total = sum(self.promised().values())

        def difference():
            """Of a submission that was lost on the way the money is held until an event after the next comparison with PBS's records: each question is one."""
            self.pbs.qsub(*terms(0.001), "-l", "libra_quote=ask")
            return sum(held for _, held in self.sums().values()) - total
        try:
            self.pbs.wait("what is held is what is promised", lambda: abs(difference()) < 1e-3)
        except TimeoutError as late:
            raise TimeoutError(f"{late}: {difference():.3f} more are held than the {total:.3f} that are promised") from None
        self.account("check")
        self.assertAlmostEqual(sum(balance for balance, _ in self.sums().values()), 0, places=3)
        self.assertEqual(self.sums()["site:bank"], before["site:bank"])

    def test_the_secondary_takes_over_and_gives_back(self):
        pbs = self.pbs
        first, second = pbs.host_names
        go = pbs.directory / "go-failover"
        before = self.sums()
        running = pbs.submit(*terms(0.5, first), script=idle_until(go))
        self.running(running)
        waits = pbs.submit(*terms(0.25, second), "-W", f"depend=afterok:{running}", script="true\n")
        held = pbs.submit(*terms(0.25, second), "-h")
        stays = pbs.submit(*terms(0.375, second))
        self.running(stays)
        said = pbs.qsub(*terms(0.05, second), "-l", "libra_quote=hold:10m").err
        quote = json.loads(said[said.index("{"):].splitlines()[0])["held"][0]

        # Submissions without an end, while the first host loses its power. What is promised to them they keep without running.
        pbs.qmgr("set server scheduling = false")
        answers, stop = [], threading.Event()

        def submit():
            while not stop.is_set():
                answers.append(pbs.qsub(*terms(0.001)))
        clients = [threading.Thread(target=submit) for _ in range(2)]
        for one in clients:
            one.start()
        pbs.wait("some were accepted", lambda: sum(answer.rc == 0 for answer in list(answers)) >= 10)
        seen = {running, waits, held, stays, *self.promised()}
        pbs.end_host()
        pbs.second = True
        pbs.wait("the secondary takes over", pbs.is_active)
        pbs.wait_answer()
        before_it = len(answers)
        pbs.wait("it accepts", lambda: sum(answer.rc == 0 for answer in list(answers)[before_it:]) >= 5)
        stop.set()
        for one in clients:
            one.join()
        accepted = {answer.out for answer in answers if answer.rc == 0}
        # The last submission of each client may be one that was under way: one whose number had been said was not there once.
        there = self.promised().keys()
        self.assertEqual(seen - there, set())
        self.assertLessEqual(len(accepted - there), len(clients))
        accepted &= there
        # Nobody was refused but while the hosts had not reported to the new server yet.
        refused = {answer.err.split("(")[1].split(")")[0] for answer in answers if "refused (" in answer.err}
        self.assertLessEqual(refused, {"no-node"})

        # All shares are as they were promised.
        self.the_same_shares(first, second, running, stays)
        # A quote that was held is good.
        pbs.must("qdel", pbs.submit(*terms(0.05, second), "-l", f"libra_quote={quote}"))
        self.accounts_agree(before)
        self.assertEqual(self.terms(held)["deferred"], "1")

        # The first host is back, and its server takes over again.
        pbs.daemon("sbin/pbs_comm", conf=pbs.first_conf)
        pbs.daemon("sbin/pbs_server", conf=pbs.first_conf)
        pbs.wait("the first is the server", lambda: not pbs.lock_of("server", False).read_text().isspace() and pbs.pid_of("server") and "going inactive" in pbs.log())
        pbs.wait_answer()
        pbs.second = False
        pbs.wait("its hosts are up", lambda: all("down" not in pbs.node(host)["state"] for host in pbs.host_names))
        self.assertEqual((accepted | seen) - self.promised().keys(), set())
        self.the_same_shares(first, second, running, stays)
        self.accounts_agree(before)

        # And what was promised is kept.
        pbs.qmgr("set server scheduling = true")
        go.touch()
        self.met(running)
        pbs.wait("what waited has run", lambda: pbs.see_to_scheduler() or pbs.qstat(waits)["job_state"] == "F")
        self.met(waits)
        self.assertNotIn("libra: fault in", pbs.log())

    def test_what_both_must_see_is_checked(self):
        pbs = self.pbs

        def check():
            return pbs.run(pbs.libra, "pbs", "check", "--state", pbs.own / "record").out
        self.assertIn("warning  PBS: there is a secondary server; library and configuration must be on its host as well", check())
        self.assertIn("ok       failover: the ledger of the accounts is on the disk of PBS_HOME", check())
        good = (pbs.own / "server.toml").read_text()
        self.addCleanup(machine.write_whole, pbs.own / "server.toml", good)
        machine.write_whole(pbs.own / "server.toml", re.sub("ledger = .*", "ledger = '/dev/shm/ledger.sqlite'", re.sub("live = .*", f"live = '{pbs.own}/live'", good)))
        said = check()
        self.assertIn("problem  failover: the ledger /dev/shm/ledger.sqlite is not on the disk of PBS_HOME", said)
        self.assertIn("warning  failover: accounts.live, ", said)

    def the_same_shares(self, first, second, running, stays):
        for host, job, share in ((first, running, 0.5), (second, stays, 0.375)):
            self.assertAlmostEqual(self.share(job), share, delta=0.01)

            def judged(host=host, share=share):
                """A server that has taken over hears of its hosts one after the other."""
                answer = self.pbs.qsub(*terms(1 - share + 0.01, host))
                return None if "no node takes new jobs now" in answer.err else answer

            self.refused(self.pbs.wait(f"{host} takes jobs", judged), "refused (share)")
        self.assertEqual(self.pbs.qstat(running)["job_state"], "R")


if __name__ == "__main__":
    unittest.main(verbosity=2)
