"""What test cases on a throw-away cell with Libra have in common: one cell for a class, taken down and looked after at its end."""

import contextlib
import pathlib
import pwd
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import machine  # noqa: E402
import turns  # noqa: E402
from cluster import ACCOUNTING, HOSTS, Cell  # noqa: E402

REFUSED = 1  # exit status of qsub
MARGIN = 1.05  # what Libra puts on every estimate, by default


class CellCase(unittest.TestCase):
    """A class is a cell: `cell`. After each test its jobs are deleted, and nothing of them may be left."""

    # What the cell is made with.
    site = {}
    # How many processors the class keeps busy while it measures (0: it measures nothing); see tests/batch/turns.py.
    measures = 0

    @classmethod
    def setUpClass(cls):
        cls.cell = Cell(**cls.site)
        cls.turn = contextlib.ExitStack()
        with turns.held(turns.START) if cls.measures else contextlib.nullcontext():
            cls.cell.__enter__()
        if cls.measures:
            try:
                turns.take(cls.measures, cls.turn)
            except BaseException:
                cls.cell.down()
                raise

    @classmethod
    def tearDownClass(cls):
        cell = cls.cell
        cls.turn.close()
        roots = cell.cgroup_roots()
        cell.down()
        left = [f"process {pid}" for pid in machine.marked_processes(cell.directory)]
        with machine.lock():
            if cell.number not in machine.known_clusters():  # else the next cell has taken the number over
                left += [str(path) for path in roots if path.exists()]
                left += [entry.pw_name for entry in pwd.getpwall() if entry.pw_name in cell.users]
        if left:
            raise AssertionError(f"left on the machine: {left}")

    def tearDown(self):
        cell = self.cell

        def left():
            """Deleted as often as they are there: the master may have had no time to answer."""
            found = cell.jobs()
            if found:
                cell.run("qdel", "-u", "*")
            return found

        cell.wait_none("all jobs gone", left)
        cell.wait_none("nothing left of jobs that are gone", lambda: [*cell.job_groups(), *cell.live()])
        if cell.with_libra:
            for host in HOSTS:
                # A job may come as late as this, of a submission that a test has not waited for.
                cell.wait(f"all processors of {host} can be had again", lambda host=host: not left() and self.is_free(host))

    def is_free(self, host):
        """Asks for all its processors."""
        asked = self.cell.qsub("-l", f"quote=ask,h={host}", *self.terms(3600, 3785), "-pe", "smp", self.cell.slots(host))
        return '"accepted":true' in asked.out + asked.err

    @staticmethod
    def terms(estimate, deadline, budget=1000000):
        return ["-l", f"estimate={estimate},deadline={deadline},budget={budget}"]

    def accept(self, estimate, deadline, *more, budget=1000000, **options):
        """Submit a job that must be accepted; its number."""
        return self.cell.submit(*self.terms(estimate, deadline, budget), *more, **options)

    def refused(self, answer, *parts):
        """It was refused, and these parts are in what was said. What was said."""
        self.assertEqual(answer.rc, REFUSED, answer)
        said = answer.out + answer.err
        for part in parts:
            self.assertIn(part, said)
        return said

    def commitment(self, job):
        """{key: value} of what is committed to a job, by its context."""
        context = self.cell.details(job)["context"]
        line = context.partition(f"libra={job}:")[2]
        self.assertTrue(line, context)
        return dict(pair.split("=", 1) for pair in line.split(","  )[0].split(":"))

    def places(self, job):
        """{host: share of each slot} as committed."""
        return {host: float(share) for host, _, share in (place.split("*") for place in self.commitment(job)["at"].split("+"))}

    def processes(self, job, host):
        with contextlib.suppress(OSError):  # removed before it is opened, or before it is read
            return [int(pid) for pid in (self.cell.group(host, job) / "cgroup.procs").read_text().split()]
        return []

    def fill(self, estimate=3600):
        """Whole processors until none is left; their jobs."""
        jobs, deadline = [], int(estimate * MARGIN) + 5
        for _ in range(2 * len(HOSTS) * self.cell.slots(HOSTS[0])):
            answer = self.cell.qsub(*self.terms(estimate, deadline))
            if answer.rc != 0:
                self.refused(answer, "refused (share)")
                return jobs
            jobs.append(answer.out.strip())
        self.fail(f"there is no end of processors: {jobs}")

    def used(self, job, host):
        """Processor seconds that a job's cgroup has used."""
        return int((self.cell.group(host, job, ACCOUNTING) / "cpuacct.usage").read_text()) / 1e9
