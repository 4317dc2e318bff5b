#!/usr/bin/env python3
"""A real MPI job on an OpenPBS with Libra: whole processors on two hosts, stopped in the middle, and right in the end.

Run as root, with MPICH and its compiler (Debian: mpich, libmpich-dev): `python3 tests/openpbs/test_mpi.py`.
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
    """Two hosts of one processor each, one process on each. MPICH starts them through PBS."""

    site = {"hosts": 2, "processors": 1, "agents": True}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = mpi.build(cls.pbs.directory)
        # MPICH quotes the command for a shell there, which rsh has and pbs_tmrsh has not.
        cls.reach = cls.pbs.directory / "reach"
        cls.reach.write_text(f'#!/bin/sh\nhost=$1\nshift\nexec {cls.pbs.exec}/bin/pbs_tmrsh "$host" /bin/sh -c "$*"\n')
        cls.reach.chmod(0o755)

    def job(self, name, *terms):
        """An MPI job of both hosts; its number and its files."""
        pbs = self.pbs
        run = mpi.Exchange(pbs.directory, name)
        script = run.command(self.program, "-bootstrap", "rsh", "-bootstrap-exec", self.reach, "-f", "$PBS_NODEFILE", "-n", 2)
        return pbs.submit(*terms, "-l", "select=2:ncpus=1:mpiprocs=1", "-l", "place=scatter", script=script), run

    def test_stopped_in_the_middle(self):
        """PBS stops all its processes on both hosts; its promise is kept, and its result is right."""
        pbs = self.pbs
        job, run = self.job("stopped", "-l", "budget=1000000,estimate=1h,deadline=4h,class=dedicated")
        self.running(job)
        pbs.wait("it gets on", lambda: run.rounds() > 0)
        for host in pbs.host_names:
            self.assertEqual(self.quota(job, host), 1.0)
        on_hosts = lambda: [self.group_processes(job, host) for host in pbs.host_names]  # noqa: E731
        self.assertTrue(all(on_hosts()), "each host has some of it")
        pbs.must("qsig", "-s", "suspend", job)
        pbs.wait_state(job, "S")
        pbs.wait("all of it stands still", lambda: mpi.states(pid for host in on_hosts() for pid in host) == {"T"})
        stopped = run.rounds()
        # Somebody else has the hosts meanwhile, and gets on.
        between = [pbs.submit("-l", f"select=1:ncpus=1:host={host}", script="true\n") for host in pbs.host_names]
        for other in between:
            pbs.wait_state(other, "F")
        self.assertEqual(run.rounds(), stopped)
        pbs.must("qsig", "-s", "resume", job)
        pbs.wait("it gets on again", lambda: run.rounds() > stopped)
        run.enough.touch()
        self.met(job)
        self.assertEqual(run.printed.read_text(), "2 ranks: right\n")

    def test_one_without_terms(self):
        """Stopped in the same way, all of it; deleted while it stands still, it leaves nothing behind."""
        pbs = self.pbs
        job, run = self.job("plain")
        self.running(job)
        pbs.wait("it gets on", lambda: run.rounds() > 0)

        def ranks():
            groups = [root / f"job-{job}" for host in pbs.host_names for root in pbs.roots_without_terms(host)]
            listed = {int(pid) for group in groups if (group / "cgroup.procs").exists() for pid in (group / "cgroup.procs").read_text().split()}
            return mpi.ranks(self.program, listed)

        self.assertEqual(len(ranks()), 2, "one on each host")
        pbs.must("qsig", "-s", "suspend", job)
        pbs.wait("its ranks stand still", lambda: mpi.states(ranks()) == {"T"})
        stopped = ranks()
        pbs.qdel(job)
        pbs.wait("they are gone", lambda: not mpi.states(stopped))


if __name__ == "__main__":
    unittest.main()
