"""What test cases on a throw-away Slurm with Libra have in common: one cluster for a class, taken down and looked after at its end."""

import contextlib
import functools
import pathlib
import pwd
import re
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import machine  # noqa: E402
import measuring  # noqa: E402
import turns  # noqa: E402
from libra_site import ACCOUNTING, Site  # noqa: E402

REFUSED, BAD_OPTION = 1, 255  # exit status of sbatch, srun and salloc: after the plugin's refusal, and after one of the client's own
MARGIN = 1.05  # what Libra puts on every estimate, by default


class Gone(AssertionError):
    """A job has ended while it was measured: the machine was too slow for that window."""


class SiteCase(unittest.TestCase):
    """A class is a cluster: `slurm`. After each test its jobs are cancelled, and nothing of them may be left."""

    # The cluster, and what it is made with.
    kind = Site
    site = {}
    # How many processors the class keeps busy while it measures what its jobs get (0: it measures nothing). Such classes have them to
    # themselves (tests/batch/turns.py).
    measures = 0

    @classmethod
    def setUpClass(cls):
        cls.slurm = cls.kind(**{"nodes": 3, "cpus": 1, **cls.site})
        cls.turn = contextlib.ExitStack()
        with turns.held(turns.START) if cls.measures else contextlib.nullcontext():
            cls.slurm.__enter__()
        try:
            if cls.measures:
                turns.take(cls.measures, cls.turn)
            cls.prepare()
        except BaseException:
            cls.turn.close()
            cls.slurm.__exit__(None, None, None)
            raise

    @classmethod
    def prepare(cls):
        """More for the whole class."""

    @classmethod
    def tearDownClass(cls):
        slurm = cls.slurm
        cls.turn.close()
        directory, number, roots = slurm.directory, slurm.plan["number"], slurm.cgroup_roots()
        slurm.__exit__(None, None, None)
        left = [f"process {pid}" for pid in machine.marked_processes(directory)]
        with machine.lock():
            if number not in machine.known_clusters():  # else the next cluster has taken the number over
                left += [str(path) for path in [*roots, *machine.cgroups_of(slurm.nodes)] if path.exists()]
                left += [entry.pw_name for entry in pwd.getpwall() if entry.pw_name.startswith(f"libra-slurm-{number}-")]
        if left:
            raise AssertionError(f"left on the machine: {left}")

    def tearDown(self):
        slurm = self.slurm
        self.clear()
        slurm.configure(slurm.more)
        slurm.rule(slurm.rules)
        for node in slurm.nodes:
            state = slurm.node(node)
            self.assertNotIn("DRAIN", state["State"], f"whatever went wrong, no node may be drained for it: {state.get('Reason')}")

    def clear(self):
        """Cancel all jobs, and wait until nodes and slurmctld are rid of them."""
        slurm = self.slurm
        for user in slurm.users:
            # Asked again where slurmctld had no time to answer.
            slurm.wait(f"scancel of the jobs of {user}", lambda user=user: slurm.scancel("--quiet", f"--user={user}").rc == 0)
        slurm.wait_none("all jobs gone", lambda: slurm.must("squeue", "-h", "-t", "PD,R,CG,S,CF,SO,ST", "-o", "%i %T %N %r").splitlines())
        self.nothing_left()

    def change(self, *words, user=None):
        """`scontrol` by root or this user, which is taken as soon as slurmctld's plugin has seen the job."""
        def taken():
            before = len(self.slurm.said())
            answer = self.slurm.scontrol(*words, user=user)
            # Polls say what they find between the refusal and this look at the log.
            if answer.rc != 0 and any(line.endswith("was only just submitted; try again in some seconds") for line in self.slurm.said()[before:]):
                return False
            self.assertEqual(answer.rc, 0, answer.err)
            return True
        self.slurm.wait(" ".join(words), taken)

    def poll(self):
        """Have slurmctld's plugin poll the queue: it does so after a refusal."""
        self.slurm.sbatch("--budget=1", "--estimate=1")

    def unjudged(self):
        """Jobs that have ended, and that Libra has not noticed."""
        unknown = []
        for number, job in self.slurm.jobs().items():
            task = job["array_task_id"]
            # What is left of an array that was cancelled has the array's number.
            name = number if not job["array_job_id"] else f"{job['array_job_id']}_{task}" if task is not None else rf"{number}(?:_\d+)?"
            if (job["admin_comment"] or "").startswith("libra:") and not re.search(rf"job {name} (met|missed|failed|was ended|is done|is gone)\b", self.slurm.log()):
                unknown.append(name)
        if unknown:
            self.poll()
        return unknown

    def nothing_left(self):
        """No cgroup, no live entry in a registry, no job in the book."""
        slurm = self.slurm
        with contextlib.suppress(TimeoutError):  # what ended while slurmctld was down is noticed by nobody
            slurm.wait("all ends noticed", lambda: not self.unjudged(), 10)
        slurm.wait_none("nothing left of jobs that are gone", lambda: [*slurm.job_groups(), *slurm.live(), *(f"booked {job}" for job in slurm.booked())])

    # ---- submitting

    @staticmethod
    def terms_of(estimate, deadline, budget=1000):
        return [f"--estimate={estimate}", f"--sla-deadline={deadline}", f"--budget={budget}"]

    def accept(self, estimate, deadline, *more, budget=1000, **options):
        """Submit a job that must be accepted; its number."""
        return self.slurm.submit(*self.terms_of(estimate, deadline, budget), *more, **options)

    def ask(self, estimate, deadline, *more, budget=1000, **options):
        """Submit a job; sbatch's answer, once nodes take jobs."""
        return self.slurm.judged(*self.terms_of(estimate, deadline, budget), *more, **options)

    def runs_again(self, job, where=lambda: True, patience=180):
        """A requeued job runs, or has run: it is told to start."""
        slurm = self.slurm

        def again():
            if slurm.state(job) in ("RUNNING", "COMPLETED") and where():
                return True
            if slurm.state(job) == "PENDING":
                slurm.start_now(job)
            return False

        slurm.wait("it runs again", again, patience)

    def refused(self, answer, *parts, status=REFUSED):
        """It was refused, and these parts are in what was said. What was said."""
        self.assertEqual((answer.rc, answer.out), (status, ""), answer.err)
        for part in parts:
            self.assertIn(part, answer.err)
        return answer.err

    def running(self, job):
        """Wait until it runs; its fields."""
        return self.slurm.wait_running(job, patience=180)

    def resumed(self, job):
        """Resume a job that was suspended: asked again while slurmctld is not done with suspending it."""
        slurm = self.slurm

        def again():
            if slurm.state(job) == "SUSPENDED":
                slurm.scontrol("resume", job)
            return slurm.state(job) != "SUSPENDED"

        slurm.wait(f"job {job} goes on", again)

    def booked(self, job):
        """Wait until slurmctld's plugin knows its number."""
        self.slurm.wait(f"job {job} in the book", lambda: str(job) in self.slurm.booked())

    def started(self, job):
        """Wait until its first task is in its cgroup, on every node that has one; its fields."""
        found = self.running(job)
        node = self.slurm.nodes_of(job)[0]
        self.slurm.wait(f"the first process of {job}", lambda: self.processes(job, node))
        return found

    def commitment(self, job):
        """{key: value} of what is committed."""
        return dict(pair.split("=", 1) for pair in self.slurm.job(job)["AdminComment"].removeprefix("libra:").split(":"))

    def share(self, job):
        """The share of each slot that was committed, at the first place."""
        return float(self.commitment(job)["at"].split("+")[0].split("*")[2])

    # ---- measuring

    def used(self, job, node=None):
        """Processor seconds that a job's cgroup has used on a node."""
        node = node or self.slurm.nodes_of(job)[0]
        file = self.slurm.group(node, job, ACCOUNTING) / "cpuacct.usage"

        def text():
            with contextlib.suppress(OSError):  # removed before it is opened, or before it is read
                return file.read_text()
            self.has_not_ended(job)
            return None
        return int(self.slurm.wait(f"cgroup of {job} on {node}", text)) / 1e9

    def has_not_ended(self, job):
        if self.slurm.state(job) in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"):
            raise Gone(f"{job} has ended while it was measured")

    def quota(self, job, node):
        """Processors that a job's cgroup may use; inf without a cap. Slurm says RUNNING earlier, so its first process there is waited for."""
        def begun():
            if found := self.processes(job, node):
                return found
            self.has_not_ended(job)
            return None

        self.slurm.wait(f"a process of {job} in its cgroup on {node}", begun)
        quota, period = (int((self.slurm.group(node, job) / f"cpu.cfs_{what}_us").read_text()) for what in ("quota", "period"))
        return quota / period if quota > 0 else float("inf")

    def processes(self, job, node):
        """Numbers of the processes in a job's cgroup."""
        with contextlib.suppress(OSError):  # removed before it is opened, or before it is read
            return [int(pid) for pid in (self.slurm.group(node, job) / "cgroup.procs").read_text().split()]
        return []

    def rates(self, places, seconds):
        """Processors that each (job, node) uses over so many seconds."""
        return measuring.rates([functools.partial(self.used, *place) for place in places], seconds)

    def capped_rates(self, places, seconds):
        """(processors that each (job, node) uses over so many seconds, the highest quota that it has meanwhile)."""
        return measuring.capped_rates([functools.partial(self.used, *place) for place in places],
                                      [functools.partial(self.quota, *place) for place in places], seconds)

    def ending(self, job, patience=180.0):
        """(what slurmctld's log says of the job's end, did it meet its deadline?)"""
        pattern = re.compile(rf"job {re.escape(str(job))} (met|missed|was ended|is done)\b.*: ended after .*")
        found = self.slurm.wait(f"the verdict on {job}", lambda: pattern.search(self.slurm.log()), patience)
        return found[0], found[1] == "met"

    def met(self, *jobs, patience=180.0):
        """All end in time; what the log says of each."""
        said = [self.ending(job, patience) for job in jobs]
        for text, in_time in said:
            self.assertTrue(in_time, text)
        return [text for text, _ in said]
