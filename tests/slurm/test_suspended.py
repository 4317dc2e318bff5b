#!/usr/bin/env python3
"""Dedicated jobs that stand still for others with earlier deadlines on a Slurm with Libra, and go on behind them, through the death of daemons.

Run as root: `tests/slurm/run test_suspended.py`.
"""

import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import mpi  # noqa: E402
from scripts import works_until  # noqa: E402
from promises import is_saved  # noqa: E402
from test_counted import WithGres  # noqa: E402
from test_planned import HOUR, Planning  # noqa: E402

MARK = ":goes-on-by="
MEMORY = "[class]\nsuspend = 'memory'\n"


class Suspending(Planning):
    """What the classes have in common."""

    def works(self):
        """One that has the first node, works, and is known to run: its number, and the file that ends it."""
        enough = self.file("enough")
        first = self.runs(HOUR, works_until(enough))
        self.slurm.wait("it could stand still", self.could_begin_before)
        return first, enough

    def could_begin_before(self):
        """Whether one that is due before another one could be done would be accepted, if that one stood still."""
        return "planned: 2 whole processors on " in self.whole(HOUR, "--sla-quote=ask", deadline=int(1.5 * HOUR)).err

    def begins_before(self, first, name, **options):
        """One that is due before the first one could be done: it begins, and the first stands still. Its number, and the file that ends it."""
        enough = self.file(name)
        # The first one may stand still at once.
        job = self.for_later(HOUR, deadline=int(1.5 * HOUR), script=works_until(enough), **options)
        self.begun(job)
        # A node that was lost for a moment has it go on for some seconds.
        self.slurm.wait("the first stands still", lambda: self.slurm.state(first) == "SUSPENDED")
        self.assertIn(MARK, self.record(first))
        self.assertIn("suspended for a job with an earlier deadline: it goes on in ", self.comment(first))
        return job, enough

    def gone_on(self, first):
        self.slurm.wait("it goes on", lambda: self.slurm.state(first) == "RUNNING")
        self.slurm.wait("its record says so", lambda: MARK not in self.record(first))
        self.assertIn("goes on; its own deadline holds", self.comment(first))

    def gets_on(self, job, node):
        before = self.used(job, node)
        self.slurm.wait(f"job {job} gets on", lambda: self.used(job, node) > before + 0.2)


class Suspended(Suspending):
    """Two nodes of two processors each, with agents, so that shares are taken anew as jobs get on."""

    site = {"nodes": 2, "cpus": 2, "agents": True, "rules": MEMORY}

    def test_it_stands_still_and_goes_on(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        seen = len(slurm.log(node))
        first, enough = self.works()
        self.gets_on(first, node)
        job, done = self.begins_before(first, "done")
        # The other one has both processors, and the first one does nothing, once slurmd has been told.
        slurm.wait("it is stopped", lambda: mpi.states(self.processes(first, node)) == {"T"})
        still = self.used(first, node)
        slurm.wait("it has whole processors", lambda: self.quota(job, node) >= 2.0)
        self.gets_on(job, node)
        self.assertLess(self.used(first, node) - still, 0.05)
        self.assertGreaterEqual(self.quota(job, node), 2.0)
        self.assertNotIn("are left beside what others were promised", slurm.log(node)[seen:])
        shown = self.shown(first)
        self.assertEqual((shown["state"], shown["suspended"], shown["phase"]), ("suspended", True, "running"))
        self.assertGreater(shown["goes_on_by"], shown["submitted"] + HOUR)
        # Nobody else comes in between, as the first one has its place behind.
        self.refused(self.whole(HOUR, deadline=int(2.2 * HOUR)), "refused (share)")
        done.touch()
        self.met(job)
        self.gone_on(first)
        self.gets_on(first, node)
        slurm.wait("it has its processors again", lambda: self.quota(first, node) >= 2.0)
        slurm.wait("the host has noticed", lambda: not slurm.entry(node, first).get("suspended"))
        enough.touch()
        self.met(first)

    def test_cancelled(self):
        """Whoever is gone, the other one has the node, and nothing is left."""
        slurm = self.slurm
        first, enough = self.works()
        job, _ = self.begins_before(first, "never")
        slurm.scancel(job)
        self.gone_on(first)
        # Not before it certainly goes on.
        slurm.wait("it could stand still again", self.could_begin_before)
        job, done = self.begins_before(first, "done")
        slurm.scancel(first)
        slurm.wait("it is gone", lambda: slurm.state(first) == "CANCELLED")
        done.touch()
        self.met(job)
        # Before anybody has stood still for it.
        again, enough = self.works()
        slurm.scancel(self.for_later(HOUR, deadline=int(1.5 * HOUR), script="true\n"))
        slurm.wait("nobody stands still", lambda: slurm.state(again) == "RUNNING" and MARK not in self.record(again))
        enough.touch()
        self.met(again)

    def test_what_an_administrator_suspends_stays_so(self):
        slurm = self.slurm
        first, enough = self.works()
        slurm.must("scontrol", "suspend", first)
        # It keeps its place: nobody is planned in front of it.
        slurm.wait("it is known to stand still", lambda: not self.could_begin_before())
        self.refused(self.whole(HOUR, deadline=int(1.5 * HOUR)), "refused (share)")
        self.resumed(first)
        slurm.wait("it is known to run", self.could_begin_before)
        job, done = self.begins_before(first, "done")
        # Let go on by hand, it stands still again.
        self.resumed(first)
        slurm.wait("it stands still again", lambda: slurm.state(first) == "SUSPENDED")
        done.touch()
        self.met(job)
        self.gone_on(first)
        enough.touch()
        self.met(first)

    @unittest.skipUnless(shutil.which("mpicc.mpich"), "no mpicc.mpich: apt-get install mpich libmpich-dev")
    def test_a_real_mpi_job_of_two_nodes(self):
        """It stands still on both, for a job of one; its result is right."""
        slurm = self.slurm
        run = mpi.Exchange(slurm.directory, "two")
        script = run.command(mpi.build(slurm.directory), "-bootstrap", "slurm", "-n", 2)
        answer = self.ask(HOUR, 20 * HOUR, "--sla-class=dedicated", "-N", 2, "--ntasks-per-node=1", "-c", 2, budget=10**9, script=script)
        first = answer.out
        self.started(first)
        slurm.wait("it gets on", lambda: run.rounds() > 0)
        slurm.wait("it could stand still", self.could_begin_before)
        job, done = self.begins_before(first, "done")
        processes = [pid for node in slurm.nodes for pid in self.processes(first, node)]
        slurm.wait("all of it stands still", lambda: mpi.states(processes) == {"T"})
        stopped = run.rounds()
        self.gets_on(job, slurm.nodes[0])
        self.assertEqual(run.rounds(), stopped)
        done.touch()
        self.met(job)
        self.gone_on(first)
        slurm.wait("it gets on again", lambda: run.rounds() > stopped)
        run.enough.touch()
        self.met(first)
        self.assertEqual(run.printed.read_text(), "2 ranks: right\n")


class NotGivenBack(Suspending):
    """What a job has for itself beside processors and memory cannot be given back."""

    kind = WithGres
    site = {"nodes": 2, "cpus": 2, "agents": True, "rules": MEMORY, "settings": {"GresTypes": "gpu,card,tape"}}

    def test_a_job_with_a_gpu_runs_on(self):
        slurm, (one, two) = self.slurm, self.slurm.nodes
        soon, ends = int(1.5 * HOUR), [self.file("first"), self.file("second")]
        jobs = [self.runs(HOUR, works_until(end), more) for more, end in ((["--gres=gpu:tesla:1"], ends[0]), (["-w", two], ends[1]))]
        # The one without began after the other: where its being at work is known, that of the other is.
        slurm.wait("the one without could stand still", lambda: f"planned: 2 whole processors on {two}" in self.whole(HOUR, "--sla-quote=ask", "-w", two, deadline=soon).err)
        for more in ([], ["--gres=gpu:tesla:1"]):
            answer = self.whole(HOUR, *more, deadline=soon)
            self.refused(answer, f"refused (share): needs 2 CPU until its deadline; the best node, {one}, has 0 free")
        self.assertEqual([slurm.state(job) for job in jobs], ["RUNNING"] * 2)
        self.gets_on(jobs[0], one)
        for end in ends:
            end.touch()
        self.met(*jobs)


class Killed(Suspending):
    """What ends while slurmctld is down is noticed by nobody, which every test after it would wait for: a cluster of its own."""

    site = {"nodes": 1, "cpus": 2, "agents": True, "rules": MEMORY}

    def test_nobody_stands_still_for_ever(self):
        """slurmctld, slurmd and the agent are killed while one stands still: it goes on when the other one has ended, whoever was down then."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        first, enough = self.works()
        job, done = self.begins_before(first, "done")
        slurm.wait("saved", lambda: is_saved(slurm, first, job))
        slurm.kill_agent(node)
        slurm.start_agent(node)
        slurm.kill_slurmd(node)
        slurm.start_slurmd(node)
        slurm.kill_controller()
        slurm.start_controller()
        slurm.wait_judging(2)
        # For all that slurmctld knows its slurmd may not have heard that it is to stand still, and it is told again.
        slurm.wait("it stands still", lambda: (slurm.state(first), slurm.state(job)) == ("SUSPENDED", "RUNNING"))
        self.gets_on(job, node)
        # It ends while slurmctld is down.
        slurm.kill_controller()
        done.touch()
        slurm.wait("it has ended", lambda: not self.processes(job, node))
        slurm.start_controller()
        slurm.wait_judging(3)
        self.gone_on(first)
        self.gets_on(first, node)
        enough.touch()
        slurm.wait("both are done", lambda: slurm.state(first) == slurm.state(job) == "COMPLETED")

    def test_who_is_told_while_slurmd_is_down_is_told_again(self):
        """Slurm tells a node once that a job is to go on: here for longer than it tries to."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        first, enough = self.works()
        job, done = self.begins_before(first, "done")
        slurm.kill_slurmd(node)
        done.touch()
        slurm.wait("slurmctld says that it runs", lambda: slurm.state(first) == "RUNNING")
        slurm.wait("slurmctld tries no more", lambda: "NOT_RESPONDING" in slurm.node(node)["State"] or slurm.node(node)["State"].rstrip("~#$@").endswith("*"))
        self.assertEqual(mpi.states(self.processes(first, node)), {"T"})
        slurm.start_slurmd(node)
        slurm.wait("it is told again", lambda: f"job {first}: a slurmd may not have heard that it is to go on" in slurm.log())
        slurm.wait("its processes do", lambda: mpi.states(self.processes(first, node)) & {"R", "S"})
        self.gone_on(first)
        self.gets_on(first, node)
        enough.touch()
        self.met(first)
        self.met(job)


if __name__ == "__main__":
    unittest.main()
