"""What test cases on a throw-away OpenPBS with Libra have in common: one cluster for a class, taken down and looked after at its end."""

import contextlib
import functools
import json
import pathlib
import pwd
import re
import sys
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import machine  # noqa: E402
import measuring  # noqa: E402
import turns  # noqa: E402
from libra_site import Site  # noqa: E402
from promises import processes  # noqa: E402

REFUSED = 32  # qsub's exit status after a hook's reject
MARGIN = 1.05  # what Libra puts on every estimate, by default


class Gone(AssertionError):
    """A job has ended while it was measured: the machine was too slow for that window."""


class SiteCase(unittest.TestCase):
    """A class is a cluster: `pbs`. After each test its jobs are deleted, and nothing of them may be left."""

    # What it is, and for that.
    cluster = Site
    site = {}
    # How many processors the class keeps busy while it measures what its jobs get (0: it measures nothing). Such classes have them to
    # themselves (tests/batch/turns.py).
    measures = 0

    @classmethod
    def setUpClass(cls):
        cls.pbs = cls.cluster(**{"hosts": 3, "processors": 1, **cls.site})
        cls.turn = contextlib.ExitStack()
        with turns.held(turns.START) if cls.measures else contextlib.nullcontext():
            cls.pbs.__enter__()
        try:
            if cls.measures:
                turns.take(cls.measures, cls.turn)
            cls.prepare()
        except BaseException:
            cls.turn.close()
            cls.pbs.__exit__(None, None, None)
            raise

    @classmethod
    def prepare(cls):
        """More for the whole class."""

    @classmethod
    def tearDownClass(cls):
        pbs = cls.pbs
        cls.turn.close()
        directory, number, roots = pbs.directory, pbs.plan["subnet"], [root for host in pbs.host_names for root in [*pbs.cgroup_roots(host), *pbs.roots_without_terms(host)]]
        pbs.__exit__(None, None, None)
        left = [str(path) for path in [directory] if path.exists()]
        left += [f"process {pid}" for pid in machine.marked_processes(directory)]
        with machine.lock():
            if number not in machine.known_clusters():  # else the next cluster has taken the number over
                left += [str(root) for root in roots if root.exists()]
                left += [address for address in machine.addresses_on_lo() if address.startswith(f"10.77.{number}.")]
                left += [entry.pw_name for entry in pwd.getpwall() if entry.pw_name.startswith(f"libra-test-{number}-")]
        if left:
            raise AssertionError(f"left on the machine: {left}")

    def tearDown(self):
        self.pbs.qmgr("set server scheduling = true")
        self.clear()
        # A job that was deleted while it began has its group made and removed after it is gone, perhaps just when it is asked for once more.
        self.comes_to("cgroups of jobs that are gone", [], lambda: self.pbs.cgroups() + self.pbs.groups_without_terms())
        self.comes_to("registered on a host, and gone", {}, self.registered)

    def comes_to(self, what, expected, ask):
        """Wait for an answer; fail with the last one."""
        answers = []

        def is_so():
            answers[:] = [ask()]
            return answers == [expected]
        with contextlib.suppress(TimeoutError):
            self.pbs.wait(what, is_so)
        self.assertEqual(answers, [expected], what)

    def clear(self):
        """Delete all jobs, and wait until the hosts are rid of them."""
        pbs = self.pbs

        def alive():
            """Deleted as often as they are there: the server may have had no time to answer."""
            found = {job: record.get("job_state") for job, record in pbs.jobs().items() if record.get("job_state") != "F"}
            if found:
                pbs.qdel("-Wforce", *found)
            return found

        pbs.wait_none("all jobs gone", alive)
        pbs.wait_none("all shares free and all cgroups gone",
                      lambda: [*pbs.cgroups(), *pbs.groups_without_terms(), *(f"{host} {taken}" for host, taken in pbs.committed().items() if taken)])

    def registered(self):
        """Jobs that a host's registry still has as live: {host: processors committed}."""
        left = {}
        for host in self.pbs.host_names:
            shown = self.pbs.must(self.pbs.libra, "--config", self.pbs.own / f"{host}.toml", "status", "--json")
            committed = json.loads(shown)["committed"]
            left |= {host: committed} if committed else {}
        return left

    # ---- submitting

    def accept(self, estimate, deadline, *more, budget=1000, **options):
        """Submit a job that must be accepted."""
        return self.pbs.submit("-l", f"estimate={estimate},deadline={deadline},budget={budget}", *more, **options)

    def ask(self, estimate, deadline, *more, budget=1000, **options):
        """Submit a job; qsub's answer."""
        return self.pbs.qsub("-l", f"estimate={estimate},deadline={deadline},budget={budget}", *more, **options)

    def refused(self, answer, *parts):
        """It was refused, and these parts are in what was said. What was said."""
        self.assertEqual((answer.rc, answer.out), (REFUSED, ""), answer.err)
        for part in parts:
            self.assertIn(part, answer.err)
        return answer.err

    def running(self, job):
        """Wait until its processes run; its attributes."""
        return self.pbs.wait_started(job)

    def terms(self, job):
        """{key: value} of what is committed."""
        return dict(pair.split("=", 1) for pair in self.pbs.qstat(job)["Resource_List.libra_terms"].split(":"))

    def share(self, job):
        """The share of each slot that was committed, at the first place."""
        return float(self.terms(job)["at"].split("+")[0].split("*")[2])

    def due(self, job, used=0.0):
        """The share that a job needs to be in time if it has used so many processor seconds by now: one that started late, or did not get on
        because the machine was busy, needs more than was committed to it, and is given it."""
        terms = self.terms(job)
        left = float(terms["deadline"]) - (time.time() - float(terms["submitted"]))
        return (MARGIN * float(terms["estimate"]) - used) / left if left > 0 else 1

    # ---- measuring

    def used(self, job, host=None):
        """Processor seconds that a job's cgroup has used."""
        host = host or self.pbs.node_of(job)[0]
        file = self.pbs.cgroup(host, job, accounting=True) / "cpuacct.usage"

        def text():
            with contextlib.suppress(OSError):  # removed before it is opened, or before it is read
                return file.read_text()
            if self.pbs.qstat(job).get("job_state") == "F":
                raise Gone(f"{job} has ended while it was measured")
            return None
        return int(self.pbs.wait(f"cgroup of {job} on {host}", text)) / 1e9

    def quota(self, job, host):
        """Processors that a job's cgroup may use; inf without a cap."""
        quota, period = (int((self.pbs.cgroup(host, job) / f"cpu.cfs_{what}_us").read_text()) for what in ("quota", "period"))
        return quota / period if quota > 0 else float("inf")

    def held_back(self, job, host, seconds=2):
        """The part of so many seconds for which the kernel kept a job's cgroup from running, by its quota. What a busy machine has no time
        for is not in it."""
        def waited():
            return int(dict(line.split() for line in (self.pbs.cgroup(host, job) / "cpu.stat").read_text().splitlines())["throttled_time"]) / 1e9

        began, before = time.monotonic(), waited()
        time.sleep(seconds)
        return (waited() - before) / (time.monotonic() - began)

    def group_processes(self, job, host):
        return processes(self.pbs, host, job)

    def rates(self, jobs, seconds):
        """Processors that each job uses over so many seconds."""
        return measuring.rates([functools.partial(self.used, job) for job in jobs], seconds)

    def capped_rates(self, jobs, host, seconds):
        """(processors that each job uses over so many seconds, the highest quota that it has there meanwhile)."""
        return measuring.capped_rates([functools.partial(self.used, job) for job in jobs],
                                      [functools.partial(self.quota, job, host) for job in jobs], seconds)

    def ending(self, job, patience=180.0):
        """(seconds from submission to end, as the library judged it in the server's log; did it meet its deadline?)"""
        self.pbs.wait_state(job, "F", patience)
        pattern = re.compile(rf"job {re.escape(job)} (met|missed) its deadline.*?: ended after (\S+(?: \S+)*?) of (.*)")
        found = self.pbs.wait(f"the verdict on {job}", lambda: pattern.search(self.pbs.log()))
        return found[0], found[1] == "met"

    def met(self, *jobs, patience=180.0):
        """All end in time; what the log says of each."""
        said = [self.ending(job, patience) for job in jobs]
        for text, in_time in said:
            self.assertTrue(in_time, text)
        return [text for text, _ in said]
