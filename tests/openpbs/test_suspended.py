#!/usr/bin/env python3
"""Dedicated jobs that stand still for others with earlier deadlines on an OpenPBS with Libra, and go on behind them, through the death of daemons.

Run as root: `tests/openpbs/run test_suspended.py`.
"""

import json
import pathlib
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import mpi  # noqa: E402
from scripts import busy_until, works_until  # noqa: E402
from test_classes import HOUR, Planning  # noqa: E402

SOON = int(1.5 * HOUR)
DAY = 86400


class Suspending(Planning):
    """What the classes have in common."""

    @classmethod
    def prepare(cls):
        cls.pbs.qmgr("set server restrict_res_to_release_on_suspend = ncpus")
        super().prepare()

    def works(self):
        """One that has the first host, works, and is known to run: its number, and the file that ends it."""
        enough = self.file("enough")
        first = self.has_it(HOUR, works_until(enough))
        self.pbs.wait("it could stand still", self.could_begin_before)
        return first, enough

    def could_begin_before(self):
        """Whether one that is due before another one could be done would be accepted, if that one stood still."""
        return "planned: 2 whole processors on " in self.all_of_it(HOUR, "-l", "libra_quote=ask", deadline=SOON).err

    def begins_before(self, first, name, **options):
        """One that is due before the first one could be done: it begins, and the first stands still. Its number, and the file that ends it."""
        enough = self.file(name)
        job = self.taken(self.all_of_it(HOUR, deadline=SOON, script=works_until(enough), **options))
        # On a machine on which PBS's hooks take half a minute each it is planned anew meanwhile.
        self.pbs.wait_started(job, patience=400)
        self.begun(job)
        self.assertEqual(self.pbs.qstat(first)["job_state"], "S")
        self.assertGreater(self.start(first), self.due_time(first) + 2 * DAY - 2)
        self.assertIn("suspended for a job with an earlier deadline: it goes on in ", self.pbs.qstat(first)["comment"])
        return job, enough

    def start(self, job):
        """Its start time, Unix time; 0 without one."""
        found = self.pbs.qstat(job)
        return time.mktime(time.strptime(found["Execution_Time"])) if "Execution_Time" in found else 0

    def due_time(self, job):
        return float(self.terms(job)["submitted"]) + float(self.terms(job)["deadline"])

    def gone_on(self, first):
        self.pbs.wait_job(first, "goes on", lambda found: found.get("substate") == "42")
        # Its start time keeps PBS's alarms off from then on.
        self.pbs.wait("its record says so", lambda: abs(self.start(first) - self.due_time(first) - 1.5 * DAY) <= 2)
        self.assertIn("goes on; its own deadline holds", self.pbs.qstat(first)["comment"])

    def gets_on(self, job, host):
        before = self.used(job, host)
        self.pbs.wait(f"job {job} gets on", lambda: self.used(job, host) > before + 0.2)

    def entry(self, host, job):
        """The job in the host's registry."""
        shown = json.loads(self.pbs.must(self.pbs.libra, "--config", self.pbs.own / f"{host}.toml", "status", "--json"))
        [found] = [one for one in shown["jobs"] if one["id"] == job]
        return found


class Suspended(Suspending):
    """Two hosts of two processors each, with agents, so that shares are taken anew as jobs get on."""

    site = {"hosts": 2, "processors": 2, "agents": True, "server_config": "[class]\nsuspend = 'memory'\n"}

    def test_it_stands_still_and_goes_on(self):
        pbs, host = self.pbs, self.host
        first, enough = self.works()
        self.gets_on(first, host)
        job, done = self.begins_before(first, "done")
        # The other one has both processors, and the first one does nothing.
        still = self.used(first, host)
        pbs.wait("it has whole processors", lambda: self.quota(job, host) >= 2.0)
        self.gets_on(job, host)
        self.assertLess(self.used(first, host) - still, 0.05)
        shown = self.shown(first)
        self.assertEqual((shown["state"], shown["suspended"], shown["phase"]), ("suspended", True, "running"))
        self.assertGreater(shown["goes_on_by"], shown["submitted"] + HOUR)
        # PBS counts its memory and its shares meanwhile, and none of the other one's.
        self.assertEqual(pbs.committed()[host], 2.0)
        # Nobody else comes in between, as the first one has its place behind.
        self.refused(self.all_of_it(HOUR, deadline=int(2.2 * HOUR)), "refused (share)")
        # Its user cannot change that.
        user = {"user": pbs.users[0]}
        altered = pbs.run("qalter", "-a", time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() + 10 * HOUR)), first, **user)
        self.assertIn("libra: it runs, and its start time keeps PBS's alarms off", altered.err)
        as_running = time.strftime("%Y%m%d%H%M.%S", time.localtime(self.due_time(first) + DAY))
        for who in (user, {}):
            self.assertNotEqual(pbs.run("qalter", "-a", as_running, first, **who).rc, 0)
        done.touch()
        self.met(job)
        self.gone_on(first)
        self.gets_on(first, host)
        pbs.wait("it has its processors again", lambda: self.quota(first, host) >= 2.0)
        # Whoever is a mark's user cannot write one.
        mark = time.strftime("%Y%m%d%H%M.%S", time.localtime(self.due_time(first) + 2 * DAY + 600))
        self.assertNotEqual(pbs.run("qalter", "-a", mark, first, **user).rc, 0)
        enough.touch()
        self.met(first)

    def test_deleted(self):
        """Whoever is gone, the other one has the host, and nothing is left."""
        pbs = self.pbs
        self.every_second()
        first, enough = self.works()
        job, _ = self.begins_before(first, "never")
        pbs.qdel(job)
        self.gone_on(first)
        pbs.wait("it could stand still once more", self.could_begin_before)
        job, done = self.begins_before(first, "done")
        pbs.qdel(first)
        pbs.wait_state(first, "F")
        done.touch()
        self.met(job)
        # Before anybody has begun for it.
        again, enough = self.works()
        pbs.qdel(self.taken(self.all_of_it(HOUR, deadline=SOON, script="true\n")))
        pbs.wait("nobody stands still", lambda: pbs.qstat(again)["substate"] == "42" and self.start(again) < self.due_time(again) + 2 * DAY - 2)
        enough.touch()
        self.met(again)

    def test_what_an_administrator_suspends_stays_so(self):
        pbs = self.pbs
        self.every_second()
        first, enough = self.works()
        pbs.must("qsig", "-s", "suspend", first)
        job = self.taken(self.all_of_it(HOUR, deadline=SOON, script="true\n"))
        pbs.wait("it is known to be suspended by somebody else", lambda: f"job {first} was suspended by somebody else" in pbs.log())
        self.assertEqual(self.start(first), 0)
        pbs.qdel(job)
        pbs.must("qsig", "-s", "resume", first)
        pbs.wait_job(first, "runs", lambda found: found.get("substate") == "42")
        pbs.wait("it could stand still", self.could_begin_before)
        job, done = self.begins_before(first, "done")
        # Let go on by hand, it stands still again, as soon as Libra looks.
        pbs.qmgr("set hook libra_periodic enabled = false")
        self.addCleanup(pbs.qmgr, "set hook libra_periodic enabled = true")
        pbs.must("qsig", "-s", "resume", first)
        pbs.wait_job(first, "goes on", lambda found: found.get("substate") == "42")
        pbs.qmgr("set hook libra_periodic enabled = true")
        pbs.wait_state(first, "S")
        done.touch()
        self.met(job)
        self.gone_on(first)
        enough.touch()
        self.met(first)

    def test_memory_that_pbs_would_give_away(self):
        """Where a suspended job would lose its memory nobody is suspended."""
        pbs = self.pbs
        first, enough = self.works()
        for setting in ("unset server restrict_res_to_release_on_suspend", "set server restrict_res_to_release_on_suspend = 'ncpus,mem'"):
            pbs.qmgr(setting)
            self.addCleanup(pbs.qmgr, "set server restrict_res_to_release_on_suspend = ncpus")
            self.refused(self.all_of_it(HOUR, deadline=SOON), "refused (share)")
        pbs.qmgr("set server restrict_res_to_release_on_suspend = ncpus")
        self.assertTrue(self.could_begin_before())
        enough.touch()
        self.met(first)

    @unittest.skipUnless(shutil.which("mpicc.mpich"), "no mpicc.mpich: apt-get install mpich libmpich-dev")
    def test_a_real_mpi_job_of_two_hosts(self):
        """It stands still on both, for a job of one; its result is right."""
        pbs = self.pbs
        run, reach = mpi.Exchange(pbs.directory, "two"), pbs.directory / "reach"
        reach.write_text(f'#!/bin/sh\nhost=$1\nshift\nexec {pbs.exec}/bin/pbs_tmrsh "$host" /bin/sh -c "$*"\n')
        reach.chmod(0o755)
        script = run.command(mpi.build(pbs.directory), "-bootstrap", "rsh", "-bootstrap-exec", reach, "-f", "$PBS_NODEFILE", "-n", 2)
        first = pbs.submit("-l", f"budget=1000000000,estimate={HOUR},deadline={20 * HOUR},class=dedicated", "-l", "select=2:ncpus=2:mpiprocs=1", "-l", "place=scatter",
                           script=script)
        self.running(first)
        pbs.wait("it gets on", lambda: run.rounds() > 0)
        pbs.wait("it could stand still", self.could_begin_before)
        job, done = self.begins_before(first, "done")
        processes = [pid for host in pbs.host_names for pid in self.group_processes(first, host)]
        pbs.wait("all of it stands still", lambda: mpi.states(processes) == {"T"})
        stopped = run.rounds()
        self.gets_on(job, self.host)
        self.assertEqual(run.rounds(), stopped)
        done.touch()
        self.met(job)
        self.gone_on(first)
        pbs.wait("it gets on again", lambda: run.rounds() > stopped)
        run.enough.touch()
        self.met(first)
        self.assertEqual(run.printed.read_text(), "2 ranks: right\n")


class NotGivenBack(Suspending):
    """What a job has for itself beside processors and memory cannot be given back."""

    site = {"hosts": 2, "processors": 2, "agents": True, "server_config": "[class]\nsuspend = 'memory'\n"}

    @classmethod
    def prepare(cls):
        cls.pbs.qmgr("create resource ngpus type=long,flag=nh", *(f"set node {host} resources_available.ngpus = 2" for host in cls.pbs.host_names))
        cls.pbs.schedule_by("ngpus")
        super().prepare()

    def test_a_job_with_a_gpu_runs_on(self):
        pbs, (one, two) = self.pbs, self.pbs.host_names
        ends = [self.file("first"), self.file("second")]
        jobs = [self.taken(self.all_of_it(HOUR, host=where, script=works_until(end))) for where, end in ((f"{one}:ngpus=1", ends[0]), (two, ends[1]))]
        # The one without begins after the other: where its being at work is known, that of the other is.
        for job in jobs:
            self.running(job)
        pbs.wait("the one without could stand still", lambda: f"planned: 2 whole processors on {two}" in self.all_of_it(HOUR, "-l", "libra_quote=ask", host=two, deadline=SOON).err)
        for where in (one, f"{one}:ngpus=1"):
            self.refused(self.all_of_it(HOUR, host=where, deadline=SOON), f"refused (share): needs 2 CPU until its deadline; the best node, {one}, has 0 free")
        self.assertEqual([pbs.qstat(job)["job_state"] for job in jobs], ["R"] * 2)
        self.gets_on(jobs[0], one)
        for end in ends:
            end.touch()
        self.met(*jobs)


class Due(Suspending):
    """Nobody outlives an estimate of seconds, and time passes: a cluster of its own."""

    site = {"hosts": 1, "processors": 2, "agents": True, "server_config": "[class]\nsuspend = 'memory'\n"}

    def test_nobody_stands_still_for_ever(self):
        """pbs_server, the mom and the agent are killed while one stands still: it goes on when the other one has ended, whoever was down then."""
        pbs, host = self.pbs, self.host
        first, enough = self.works()
        job, done = self.begins_before(first, "done")
        pbs.kill_agent(host)
        pbs.start_agent(host)
        pbs.kill_mom(host)
        pbs.seen_down(host)
        pbs.start_mom(host, preserve=True)
        self.restart()
        self.assertEqual((pbs.qstat(first)["job_state"], pbs.qstat(job)["job_state"]), ("S", "R"))
        self.gets_on(job, host)
        self.assertEqual(self.shown(first)["state"], "suspended")
        # It ends while the server is down.
        pbs.kill_server()
        done.touch()
        pbs.wait("it has ended", lambda: not self.group_processes(job, host))
        pbs.start_server()
        self.gone_on(first)
        self.gets_on(first, host)
        enough.touch()
        pbs.wait("both are done", lambda: all(pbs.qstat(one)["job_state"] == "F" for one in (first, job)))

    def test_taken_back_into_its_queue(self):
        """By the death of the mom. Both begin anew by what was committed to them, one after the other."""
        pbs, host = self.pbs, self.host
        first, enough = self.works()
        job, done = self.begins_before(first, "done")
        before = [self.terms(one) for one in (first, job)]
        # A job that begins before its mom has forgotten it is ended there, and PBS takes it to run for ever.
        pbs.qmgr("set server scheduling = false")
        pbs.kill_mom(host)
        pbs.start_mom(host)
        pbs.wait("its mom has forgotten both", lambda: not pbs.jobs_of_mom(host))
        again = lambda one: int(pbs.qstat(one)["run_count"]) >= 2  # noqa: E731
        self.in_cycles("one of them has begun again", lambda: again(first) or again(job))
        done.touch()
        enough.touch()
        self.in_cycles("both have ended", lambda: all(pbs.qstat(one)["job_state"] == "F" for one in (first, job)))
        self.assertTrue(again(first) and again(job))
        self.assertEqual([self.terms(one) for one in (first, job)], before)
        self.met(first, job)

    def test_it_goes_on_when_it_is_due(self):
        """By right, beside one that has outlived its estimate, which has less from then on."""
        pbs, host = self.pbs, self.host
        first, enough = self.works()
        done = self.file("done")

        def stands_still(estimate):
            """For one whose estimate is not used by the time that it is seen."""
            job = self.taken(self.all_of_it(estimate, deadline=HOUR // 2, script=busy_until(done)))
            self.begun(job)
            if pbs.qstat(first)["job_state"] == "S":
                return job
            pbs.qdel(job)
            pbs.wait_state(job, "F")
            self.gone_on(first)
            pbs.wait("it could stand still once more", self.could_begin_before)
            return None

        job = pbs.in_time("a job of so short an estimate", stands_still, (20, 100))
        self.gone_on(first)
        self.assertEqual(pbs.qstat(job)["job_state"], "R")
        pbs.wait("it has its processors", lambda: self.quota(first, host) >= 2.0)
        self.gets_on(first, host)
        enough.touch()
        self.met(first)
        # Beside the other one it has what nobody else wants, which on a busy machine is nothing for minutes.
        done.touch()
        pbs.wait_state(job, "F")


if __name__ == "__main__":
    unittest.main(verbosity=2)
