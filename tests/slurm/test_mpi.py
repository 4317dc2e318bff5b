#!/usr/bin/env python3
"""A real MPI job on a Slurm with Libra: whole processors on two nodes, stopped in the middle, and right in the end.

Run as root, with MPICH and its compiler (Debian: mpich, libmpich-dev): `python3 tests/slurm/test_mpi.py`.
"""

import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import mpi  # noqa: E402
from case import SiteCase  # noqa: E402


@unittest.skipUnless(shutil.which("mpicc.mpich"), "no mpicc.mpich: apt-get install mpich libmpich-dev")
class Mpi(SiteCase):
    """Two nodes of one processor each, one process on each. MPICH starts them through srun."""

    site = {"nodes": 2, "cpus": 1, "agents": True}

    @classmethod
    def prepare(cls):
        cls.program = mpi.build(cls.slurm.directory)

    def job(self, name, *terms):
        """An MPI job of both nodes; its number and its files."""
        run = mpi.Exchange(self.slurm.directory, name)
        script = run.command(self.program, "-bootstrap", "slurm", "-n", 2)
        return self.slurm.submit(*terms, "-N", 2, "--ntasks-per-node=1", script=script), run

    def test_stopped_in_the_middle(self):
        """Slurm stops all its processes on both nodes; its promise is kept, and its result is right."""
        slurm = self.slurm
        job, run = self.job("stopped", "--sla-class=dedicated", "--estimate=1h", "--sla-deadline=4h", "--budget=1000000")
        self.started(job)
        slurm.wait("it gets on", lambda: run.rounds() > 0)
        for node in slurm.nodes:
            self.assertEqual(self.quota(job, node), 1.0)
        on_nodes = lambda: [self.processes(job, node) for node in slurm.nodes]  # noqa: E731
        self.assertTrue(all(on_nodes()), "each node has some of it")
        slurm.must("scontrol", "suspend", job)
        slurm.wait("all of it stands still", lambda: mpi.states(pid for node in on_nodes() for pid in node) == {"T"})
        stopped = run.rounds()
        self.assertEqual(slurm.state(job), "SUSPENDED")
        # Somebody else has the nodes meanwhile, and gets on.
        between = [slurm.submit("-w", node, script="true\n") for node in slurm.nodes]
        for other in between:
            slurm.wait(f"job {other} is done", lambda other=other: slurm.state(other) == "COMPLETED")
        self.assertEqual(run.rounds(), stopped)
        self.resumed(job)
        slurm.wait("it gets on again", lambda: run.rounds() > stopped)
        run.enough.touch()
        self.met(job)
        self.assertEqual(run.printed.read_text(), "2 ranks: right\n")

    def test_cancelled_while_it_stands_still(self):
        """It leaves nothing behind."""
        slurm = self.slurm
        job, run = self.job("cancelled", "--estimate=1h", "--sla-deadline=4h", "--budget=1000000")
        self.started(job)
        slurm.wait("it gets on", lambda: run.rounds() > 0)
        stopped = [pid for node in slurm.nodes for pid in self.processes(job, node)]
        slurm.must("scontrol", "suspend", job)
        slurm.wait("all of it stands still", lambda: mpi.states(stopped) == {"T"})
        slurm.must("scancel", job)
        slurm.wait("they are gone", lambda: not mpi.states(stopped))


if __name__ == "__main__":
    unittest.main()
