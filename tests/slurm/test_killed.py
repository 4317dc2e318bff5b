#!/usr/bin/env python3
"""What Slurm kills on a node with an agent: it gets the weight of a processor, or with little of one it would end so late that Slurm drains the node.

Run as root: `python3 tests/slurm/test_killed.py`. A tracer holds a process in its end, with all of its memory, as a busy node does.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from node_site import NodeCase  # noqa: E402

TRACER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
assert libc.ptrace(0x4206, pid, None, 0x40) == 0, os.strerror(ctypes.get_errno())
print("traced", flush=True)
while os.waitpid(pid, 0x40000000)[1] >> 8 != 5 | 6 << 8:
    assert libc.ptrace(7, pid, None, None) == 0
print("held", flush=True)
sys.stdin.read()
"""

NOTHING = ("-1", "262144")  # of one processor


class Killed(NodeCase):
    """Two nodes of one processor each."""

    site = {"nodes": 2, "agents": True}

    def setUp(self):
        super().setUp()
        self.tracers = []

    def tearDown(self):
        # What they hold would never be gone.
        for tracer in self.tracers:
            tracer.kill()
            tracer.wait()
            tracer.stdin.close()
            tracer.stdout.close()
        super().tearDown()

    def held(self, group):
        """Quota and weight of a group."""
        return tuple((group / name).read_text().strip() for name in ("cpu.cfs_quota_us", "cpu.shares"))

    def processes(self, group):
        with contextlib.suppress(OSError):  # an agent may take an empty one away, and it is made anew
            return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
        return []

    def trace(self, pid):
        """Hold a process in its end, when that comes. It is let go with the tracer."""
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tracers.append(tracer)
        self.assertEqual(tracer.stdout.readline(), "traced\n")
        return tracer

    def ends_with_the_weight_of_a_processor(self, job, group):
        slurm = self.slurm
        slurm.wait("its process", lambda: group.exists() and len(self.processes(group)) == 1)
        before = self.held(group)
        self.assertNotEqual(before[1], NOTHING[1])
        tracer = self.trace(self.processes(group)[0])
        slurm.must("scancel", "--full", "--signal=KILL", job)
        self.assertEqual(tracer.stdout.readline(), "held\n")
        slurm.wait("nothing holds it", lambda: self.held(group) == NOTHING)
        tracer.kill()
        slurm.wait("its group is removed", lambda: not group.exists())
        slurm.wait_ended(job)

    def test_a_job_without_terms(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = slurm.submit("-w", node, script="exec sleep 100000\n")
        self.ends_with_the_weight_of_a_processor(job, slurm.best_effort(node, job))

    def test_a_job_with_terms(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        environment = slurm.commitment((node, 0.01), estimate=1000, deadline=100_000)
        job = slurm.submit("-w", node, script="exec sleep 100000\n", environment=environment)
        self.ends_with_the_weight_of_a_processor(job, slurm.group(node, job))

    def test_one_that_is_killed_gives_nothing_to_one_that_lives(self):
        """A job kills a process of its own, and has it held in its end from outside: nobody gets more."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        script = "sleep 100000 &\necho $!\nwait\nexec sleep 100000\n"
        plain = slurm.submit("-w", node, script=script)
        beside = slurm.submit("-w", node, script="exec sleep 100000\n")
        group = slurm.best_effort(node, plain)
        pid = int(self.printed(plain, "\n"))
        tracer = self.trace(pid)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(tracer.stdout.readline(), "held\n")
        # The agent looks, as it does at what all of is killed.
        other = slurm.best_effort(node, beside)
        slurm.wait("its process", lambda: other.exists() and len(self.processes(other)) == 1)
        ending = self.trace(self.processes(other)[0])
        slurm.must("scancel", "--full", "--signal=KILL", beside)
        self.assertEqual(ending.stdout.readline(), "held\n")
        slurm.wait("nothing holds the other", lambda: self.held(other) == NOTHING)
        self.assertEqual(self.held(group), ("-1", "2"))


if __name__ == "__main__":
    unittest.main()
