#!/usr/bin/env python3
"""Processes that are stopped (SIGSTOP) while they have a lock: pbs_server and the hosts answer all the same, as `on-fault` says, and everybody else as ever.

Run as root: `tests/openpbs/run test_faults_locks`. Takes about four minutes.
"""

import concurrent.futures
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import holders  # noqa: E402
from case import SiteCase  # noqa: E402
from promises import libra_log, started_in_cgroup, terms  # noqa: E402
from test_accounts import AccountsCase  # noqa: E402

RULES = ("refuse", "admit")
# Of patience: whoever waits for a stopped process has to wait for ever.
LIMIT = 180


class Submissions(AccountsCase):
    """Somebody has a lock of the accounts, in front of pbs_server."""

    # What is let in without a promise takes whole processors of PBS's.
    site = {"hosts": 2, "processors": 20}

    def setUp(self):
        # Each of some hundred jobs can be paid.
        self.account("deposit", self.user, "100000")
        self.rules = f"[accounts]\nmode = 'on'\nledger = '{self.books}/ledger.sqlite'\nlive = '{self.books}/live'\n"

    @property
    def live(self):
        """The live state's file."""
        return next(path for path in (self.books / "live").glob("*.sqlite"))

    def on_fault(self, rule, more=""):
        """The server's rule, taken with the next event."""
        self.pbs.write_config(f'{self.rules}{more}[pbs]\non-fault = "{rule}"\n')

    def submitted(self, count=6):
        """So many submissions with terms, one after another, while another user submits without and asks: the answers to the first."""
        pbs, other = self.pbs, self.pbs.users[1]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            began = time.monotonic()
            plain = pool.submit(lambda: [pbs.qsub(user=other, script="true\n").rc for _ in range(count)])
            asked = pool.submit(lambda: [pbs.run("qstat", user=other, timeout=LIMIT).rc for _ in range(count)])
            answers = [self.ask(1, 1000, budget=5, script="true\n") for _ in range(count)]
            self.assertEqual((plain.result(), asked.result()), ([0] * count, [0] * count), "others are answered")
            self.assertLess(time.monotonic() - began, LIMIT, "all of them")
        return answers

    def commitment(self, job):
        return self.pbs.qstat(job).get("Resource_List.libra_terms")

    def expect(self, rule, answers, *said):
        """As the rule for faults says: refused with the reason, or let in without a promise."""
        for answer in answers:
            if rule == "refuse":
                self.refused(answer, "libra: refused (fault): accounting unavailable", *said)
            else:
                self.assertEqual(answer.rc, 0, answer.err)
                self.assertIsNone(self.commitment(answer.out), "nobody pays, so nothing is promised")

    def expect_as_usual(self):
        """Soon after the lock is free."""
        def accepted():
            answer = self.ask(1, 1000, budget=5, script="true\n")
            return answer.rc == 0 and self.commitment(answer.out)
        self.pbs.wait("accepted again", accepted)

    def test_a_change_of_the_live_state(self):
        for rule in RULES:
            with self.subTest(rule):
                self.on_fault(rule)
                with holders.stopped("write", self.live):
                    self.expect(rule, self.submitted(), "is locked by another process")
                self.expect_as_usual()
        self.account("check")

    def test_inside_the_live_state(self):
        """Moving SQLite's log, recovering it, taking a place to read."""
        for rule in RULES:
            with self.subTest(rule):
                self.on_fault(rule)
                with holders.stopped("inside", self.live):
                    self.expect(rule, self.submitted())
                self.expect_as_usual()
        self.account("check")

    def test_who_opens_the_accounts(self):
        """pbs_server opens them anew when its rules for them change, and when it starts."""
        pbs = self.pbs
        for rule in RULES:
            with self.subTest(rule), holders.stopped("flock", self.books / "live/lock"):
                self.on_fault(rule, f"administrators = 'nobody-{rule}'\n")
                self.expect(rule, self.submitted(), "/live/lock is locked")
                pbs.kill_server()
                pbs.start_server()
                self.expect(rule, self.submitted(), "/live/lock is locked")
            self.expect_as_usual()
        self.account("check")

    def test_what_keeps_nobody_out(self):
        """Who reads and who writes down."""
        self.on_fault("refuse")
        ledger = self.books / "ledger.sqlite"
        for kind, path in (("read", self.live), ("read", ledger), ("write", ledger), ("inside", ledger)):
            with self.subTest(f"{kind} {path.name}"), holders.stopped(kind, path):
                for answer in self.submitted():
                    self.assertEqual(answer.rc, 0, answer.err)
                    self.assertIsNotNone(self.commitment(answer.out))
        self.expect_as_usual()
        self.pbs.wait("all of it is written down", lambda: "ok" in self.account("check"))


class Hosts(SiteCase):
    """Somebody has the lock of a host's registry, in front of pbs_mom and the host's agent."""

    site = {"hosts": 2, "agents": True}

    def on_fault(self, rule):
        self.pbs.write_config(f'[pbs]\non-fault = "{rule}"\n')
        self.pbs.install()

    def tried_again(self, job):
        """What the job is when it has ended. PBS holds one after twenty attempts, which on a slow machine the lock may have outlasted."""
        found = self.pbs.qstat(job)
        if found["job_state"] == "H":
            self.pbs.run("qrls", "-h", "s", job)
        return found if found["job_state"] == "F" else None

    def test_the_registry(self):
        pbs = self.pbs
        n1, n2 = pbs.host_names
        for rule in RULES:
            with self.subTest(rule):
                self.on_fault(rule)
                plain = []
                with holders.stopped("flock", pbs.own / n1 / "lock"):
                    began = time.monotonic()
                    before = len(libra_log(pbs, n1))
                    job = pbs.submit(*terms(0.3, n1), script="true\n")
                    elsewhere = pbs.submit(*terms(0.3, n2), script="true\n")
                    plain = [pbs.submit("-l", f"select=1:ncpus=1:host={host}", user=pbs.users[1], script="true\n") for host in (n1, n2)]
                    for other in (elsewhere, *plain):
                        self.assertEqual(pbs.wait_state(other, "F")["Exit_status"], "0", "others run")
                    if rule == "admit":
                        self.assertEqual(pbs.wait_state(job, "F")["Exit_status"], "0")
                    pbs.wait("the log says it", lambda before=before: [line for line in libra_log(pbs, n1)[before:] if "/lock has been locked" in line])
                    print(f"{rule}: {time.monotonic() - began:.1f} s", file=sys.stderr)
                    self.assertEqual(pbs.node(n1)["state"], "free")
                if rule == "refuse":
                    # PBS tries it again, and now it can be held to its share.
                    self.assertEqual(pbs.wait("it has run", lambda job=job: self.tried_again(job))["Exit_status"], "0")
        job = pbs.submit(*terms(0.3, n1))
        started_in_cgroup(pbs, n1, job)

    def test_an_agent_that_is_stopped(self):
        """It leads the control loop; hooks stand in for it."""
        pbs = self.pbs
        n1 = pbs.host_names[0]
        with holders.stopped_leader(pbs.agents[n1].pid, pbs.own / n1):
            job = pbs.submit(*terms(0.3, n1))
            started_in_cgroup(pbs, n1, job)
            self.assertAlmostEqual(self.quota(job, n1), 0.3, delta=0.02)
            pbs.qdel(job)
            pbs.wait("no cgroup left", lambda: not pbs.cgroups())


if __name__ == "__main__":
    unittest.main()
