#!/usr/bin/env python3
"""Processes that are stopped (SIGSTOP) while they have a lock: slurmctld and the nodes answer all the same, as `on-fault` says, and everybody else as ever.

Run as root: `tests/slurm/run test_faults_locks`. Takes about four minutes.
"""

import concurrent.futures
import contextlib
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import holders  # noqa: E402
from test_accounts import AccountsCase  # noqa: E402
from case import SiteCase  # noqa: E402
from scripts import idle_until  # noqa: E402
from promises import terms  # noqa: E402
from test_bound import CPUSET, WHERE, numbers  # noqa: E402

RULES = ("refuse", "admit")
# Of patience: whoever waits for a stopped process has to wait for ever.
LIMIT = 180


class Submissions(AccountsCase):
    """Somebody has a lock of the accounts, in front of slurmctld."""

    # However long its short jobs take to end.
    site = {"nodes": 2, "partition": {"OverSubscribe": "FORCE:1000"}}

    def setUp(self):
        # Each of some hundred jobs can be paid.
        self.account("deposit", self.user, "100000")

    @property
    def live(self):
        """The live state's file."""
        return next(path for path in (self.books / "live").glob("*.sqlite"))

    @property
    def ledger(self):
        return self.books / "ledger.sqlite"

    def on_fault(self, rule):
        self.slurm.rule(f"{self.slurm.rules}[slurm]\non-fault = '{rule}'\n")

    def submitted(self, count=6):
        """So many submissions with terms, one after another, while another user submits without and asks: the answers to the first."""
        slurm, other = self.slurm, self.slurm.users[1]
        limits = {"timeout": LIMIT}
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            plain = pool.submit(lambda: [slurm.sbatch(user=other, script="true", **limits).rc for _ in range(count)])
            asked = pool.submit(lambda: [slurm.squeue(user=other, **limits).rc for _ in range(count)])
            answers = [self.ask(1, 1000, budget=5, script="true", **limits) for _ in range(count)]
            self.assertEqual((plain.result(), asked.result()), ([0] * count, [0] * count), "others are answered")
        return answers

    def expect(self, rule, answers, *said):
        """As the rule for faults says: refused with the reason, or let in without a promise."""
        for answer in answers:
            if rule == "refuse":
                self.refused(answer, "libra: refused (fault): accounting unavailable", *said)
            else:
                self.assertEqual(answer.rc, 0, answer.err)
                self.assertNotIn("libra:", self.slurm.job(answer.out).get("AdminComment", ""), "nobody pays, so nothing is promised")

    def expect_as_usual(self):
        """Soon after the lock is free."""
        answer = self.slurm.wait("accepted again", lambda: (lambda answer: answer if answer.rc == 0 and "accounting" not in answer.err and "AdminComment" in self.slurm.job(answer.out) else None)
                                 (self.ask(1, 1000, budget=5, script="true")))
        self.assertIn("libra:", self.slurm.job(answer.out)["AdminComment"])

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
                    began = time.monotonic()
                    self.expect(rule, self.submitted())
                    self.assertLess(time.monotonic() - began, LIMIT, "all of them")
                self.expect_as_usual()
        self.account("check")

    def test_who_opens_the_accounts(self):
        """slurmctld opens them anew when its rules for them change, and when it starts."""
        for rule in RULES:
            with self.subTest(rule), holders.stopped("flock", self.books / "live/lock"):
                self.slurm.rule(f"{self.slurm.rules}administrators = 'nobody-{rule}'\n[slurm]\non-fault = '{rule}'\n")
                self.slurm.wait("it has tried", lambda: "/live/lock is locked" in self.slurm.log()[-4000:] and "accounting" in self.ask(1, 1000, budget=5, script="true").err + self.slurm.log()[-4000:])
                self.expect(rule, self.submitted(), "/live/lock is locked")
                self.slurm.stop_controller()
                self.slurm.start_controller()
                self.slurm.wait("it has tried", lambda: "accounting" in self.ask(1, 1000, budget=5, script="true").err + self.slurm.log()[-4000:])
                self.expect(rule, self.submitted(), "/live/lock is locked")
            self.expect_as_usual()
        self.account("check")

    def test_what_keeps_nobody_out(self):
        """Who reads, who writes down, and a service that accepts connections and never answers."""
        self.on_fault("refuse")
        with contextlib.ExitStack() as stack:
            for kind, path in (("read", self.live), ("read", self.ledger), ("write", self.ledger), ("inside", self.ledger)):
                with self.subTest(f"{kind} {path.name}"), holders.stopped(kind, path):
                    for answer in self.submitted():
                        self.assertEqual(answer.rc, 0, answer.err)
                        self.assertIn("libra:", self.slurm.job(answer.out)["AdminComment"])
            stack.close()
        self.expect_as_usual()
        self.slurm.wait("all of it is written down", lambda: "ok" in self.account("check"))


class Nodes(SiteCase):
    """Somebody has the lock of a node's registry, in front of slurmd and the node's agent."""

    site = {"nodes": 2, "agents": True}

    def test_the_registry(self):
        slurm = self.slurm
        n1, n2 = slurm.nodes
        for rule in RULES:
            with self.subTest(rule):
                slurm.configure(f'[slurm]\non-fault = "{rule}"\n')
                with holders.stopped("flock", slurm.registry(n1) / "lock"):
                    before = len(slurm.log(n1))
                    began = time.monotonic()
                    job = slurm.submit(*terms(0.3, n1), script="true\n")
                    plain = [slurm.submit("-w", node, user=slurm.users[1], script="true\n") for node in (n1, n2)]
                    elsewhere = slurm.submit(*terms(0.3, n2), script="true\n")
                    for other in (*plain, elsewhere):
                        self.assertEqual(slurm.wait_ended(other, LIMIT)["JobState"], "COMPLETED", "others run")
                    ended = slurm.wait_ended(job, LIMIT)
                    print(f"{rule}: {time.monotonic() - began:.1f} s", file=sys.stderr)
                    self.assertEqual(ended["JobState"], "COMPLETED" if rule == "admit" else "FAILED", slurm.log(n1)[before:])
                    self.assertIn("registry/" + n1 + "/lock has been locked", slurm.log(n1)[before:])
                    self.assertNotIn("DRAIN", slurm.node(n1)["State"])
                slurm.wait("its epilogs are done", lambda: not slurm.must("squeue", "-h", "-t", "all", "-t", "PD,R,CG"))
        slurm.configure()
        job = slurm.submit(*terms(0.3, n1))
        self.started(job)

    def test_an_agent_that_is_stopped(self):
        """It leads the control loop; prologs and epilogs stand in for it."""
        slurm = self.slurm
        n1 = slurm.nodes[0]
        with holders.stopped_leader(slurm.agents[n1].pid, slurm.registry(n1)):
            job = slurm.submit(*terms(0.3, n1))
            self.started(job)
            self.assertAlmostEqual(self.quota(job, n1), 0.3, delta=0.02)
            slurm.scancel(job)
            slurm.wait_ended(job, LIMIT)


class SilentController(SiteCase):
    """slurmctld is stopped while a job begins: the job waits for it, and keeps its promise."""

    site = {"nodes": 1, "cpus": 2, "cgroups": "ConstrainCores=yes\n", "settings": {"TaskPlugin": "task/affinity,task/cgroup"}}

    def unread(self, node):
        """Somebody has told this node's slurmd what it has not read yet."""
        port = int(self.slurm.node(node)["Port"])
        rows = (line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:])
        # Of a connection that it has not accepted either: address, state, and what waits to be sent and to be read.
        return any(int(row[1].split(":")[1], 16) == port and row[3] == "01" and int(row[4].split(":")[1], 16) for row in rows)

    def begun_unanswered(self, script):
        """A job whose prolog asks a slurmctld that is stopped, for a while. None if slurmd had been told something else: that it is pinged."""
        slurm, (node,) = self.slurm, self.slurm.nodes
        with contextlib.ExitStack() as silent:
            with holders.paused(slurm.daemon_pid(node)):
                job = slurm.submit(*terms(0.3, node), script=script)
                self.running(job)
                slurm.wait("slurmd is told something", lambda: self.unread(node))
                silent.enter_context(holders.paused(slurm.daemon_pid("slurmctld")))
            unanswered = f"prolog: job {job} is not held to its share: slurmctld did not say in time"
            try:
                slurm.wait("its prolog had no answer", lambda: unanswered in slurm.log(node), patience=60)
                return job
            except TimeoutError:
                pass
        self.clear()
        return None

    def test_a_job_begins_when_it_answers(self):
        """On all processors, as any job with a share, whatever Slurm had picked when its first process began to wait."""
        slurm, (node,) = self.slurm, self.slurm.nodes
        end = slurm.directory / "silent.end"
        job = next(filter(None, (self.begun_unanswered(WHERE + idle_until(end)) for _ in range(3))), None)
        self.assertIsNotNone(job, "slurmd was told something else, three times")
        self.started(job)
        self.assertAlmostEqual(self.quota(job, node), 0.3, delta=0.02)
        [places] = slurm.wait("it has said where it runs", lambda: re.findall(r"^\s*([\d,-]+)$", slurm.output(job), re.MULTILINE))
        self.assertEqual(numbers(places), numbers((CPUSET / "cpuset.cpus").read_text()))
        self.assertIn(f"job {job} begins with its first task: its prolog could not", slurm.log(node))
        self.assertNotIn("DRAIN", slurm.node(node)["State"])
        end.touch()
        self.met(job)


if __name__ == "__main__":
    unittest.main()
