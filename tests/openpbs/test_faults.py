#!/usr/bin/env python3
"""Daemons that are killed: no promise is lost or made twice, and what runs goes on in its share.

Run as root: `tests/openpbs/run test_faults`. Takes about five minutes.
"""

import contextlib
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402
from libra_site import Site, busy  # noqa: E402
from scripts import works_until  # noqa: E402
from promises import expect_free, free_nodes, libra_log, pause, processes, quota, started_in_cgroup, terms, verdict  # noqa: E402

# Rejects what was accepted before it: a reservation that no job will ever claim.
STRAY = """import pbs
event = pbs.event()
if str(event.job.Job_Name) == "stray":
    event.reject("not this one")
event.accept()
"""
# A job begins when it is told to.
SLOW = """import os
import pbs
import time
while not os.path.exists("{file}"):
    time.sleep(0.1)
pbs.event().accept()
"""


class OneSite(unittest.TestCase):
    """A cluster for all tests of a class."""

    options = {}

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.pbs = cls.stack.enter_context(Site(**cls.options))

    def tearDown(self):
        """The next test finds an empty cluster with all nodes up."""
        pbs = self.pbs
        free_nodes(pbs)

        def left():
            """Deleted as often as they are there: the server may have had no time to answer."""
            found = [job for job, has in pbs.jobs().items() if has["job_state"] not in "FMX"]
            if found:
                pbs.qdel("-W", "force", *found)
            return found

        pbs.wait_none("all jobs gone", left)
        pbs.qmgr("set server scheduling = true")
        pbs.wait("no cgroup left", lambda: not pbs.cgroups())


class ServerKilled(OneSite):
    """pbs_server is killed; the book is made anew from what PBS knows."""

    options = {"hosts": 3, "processors": 1}

    def restart(self):
        self.pbs.kill_server()
        self.pbs.start_server()
        free_nodes(self.pbs)

    def test_ten_jobs(self):
        pbs = self.pbs
        n1, n2, n3 = pbs.host_names
        running = [pbs.submit(*terms(0.2, n1)), pbs.submit(*terms(0.1, n2)), pbs.submit("-J", "1-3", *terms(0.1, n1)),
                   pbs.submit(*terms(0.3, chunks=3))]
        array = [running[2].replace("[]", f"[{index}]") for index in (1, 2, 3)]
        for job in [running[0], running[1], *array, running[3]]:
            pbs.wait_started(job)
        pbs.wait("every host has its cgroups", lambda: len(pbs.cgroups()) == 1 + 1 + 3 + 3)
        self.assertEqual(pbs.committed(), {n1: 0.8, n2: 0.4, n3: 0.3})
        pbs.qmgr("set server scheduling = false")
        for share, host in [(0.1, n1), (0.2, n2), (0.15, n2), (0.4, n3), (0.05, n3)]:
            pbs.submit(*terms(share, host))
        pbs.submit("-J", "1-2", *terms(0.05, n3))
        left = {n1: 0.1, n2: 0.25, n3: 0.15}
        expect_free(self, pbs, left)
        self.restart()
        expect_free(self, pbs, left)
        # PBS itself may still be hearing from its hosts what runs there.
        pbs.wait("the same is taken as before", lambda: pbs.committed() == {n1: 0.8, n2: 0.4, n3: 0.3})
        # One killed right after it was accepted, twice in a row.
        pbs.submit(*terms(0.05, n2))
        self.restart()
        self.restart()
        left[n2] = 0.2
        expect_free(self, pbs, left)
        pbs.qmgr("set server scheduling = true")
        pbs.wait("all run", lambda: not [job for job, has in pbs.jobs().items() if has["job_state"] == "Q"])
        expect_free(self, pbs, left)
        for host, share in left.items():
            self.assertAlmostEqual(pbs.committed()[host], 1 - share, places=4)
        # What ends now is free, as if nothing had been: one of two subjobs, and the one on all hosts.
        pbs.must("qdel", array[1], running[3])
        pbs.wait("their cgroups are gone", lambda: not [name for name in pbs.cgroups() if name.endswith((f" job-{running[3]}", f" job-{array[1]}"))])
        for job in (array[1], running[3]):
            pbs.wait_state(job, "FX")
        expect_free(self, pbs, {n1: 0.5, n2: 0.5, n3: 0.45})

    def test_reservation_without_a_job(self):
        """A second hook rejects what Libra accepted. The reservation holds for a while; a restart forgets it at once."""
        pbs = self.pbs
        n1 = pbs.host_names[0]
        self.addCleanup(pbs.write_config, pbs.server_config)
        pbs.write_config('[admission]\nprovisional = "1h"\n')
        self.restart()
        pbs.qmgr("set server scheduling = false")
        pbs.hook("stray", "queuejob", STRAY, order=1000)
        self.addCleanup(pbs.delete_hook, "stray")
        self.assertEqual(pbs.qsub("-N", "stray", *terms(0.6, n1)).rc, 32)
        expect_free(self, pbs, {n1: 0.4})
        for seconds in (5, 50, 500):
            pbs.write_config(f'[admission]\nprovisional = "{seconds}s"\n')
            self.restart()
            expect_free(self, pbs, {n1: 1})
            # A server that starts puts hooks into another order: Libra's is to be the first again.
            pbs.delete_hook("stray")
            pbs.hook("stray", "queuejob", STRAY, order=1000)
            # What has just been deleted may be in its way for a moment.
            pbs.wait("accepted, and rejected by the other hook", lambda: "not this one" in pbs.qsub("-N", "stray", *terms(0.6, n1)).err)
            held = not self.fits(0.9, n1)
            if held:
                break
        self.assertTrue(held)
        pbs.wait("it expires", lambda: self.fits(0.9, n1), 600)

    def fits(self, share, host):
        asked = self.pbs.qsub(*terms(share, host))
        if asked.rc == 0:
            self.pbs.qdel(asked.out)
        return asked.rc == 0


class HostsKilled(OneSite):
    """pbs_mom is killed, with and without taking over its jobs."""

    options = {"hosts": 2, "processors": 1}

    def timed(self, name):
        """A script that works until it is told to end (a file), and says when it did (another)."""
        home = self.pbs.directory / "home" / self.pbs.users[0]
        end, file = home / f"{name}.end", home / name
        return works_until(end) + f"date +%s.%N >>{file}\n", end, file

    def expect_honest(self, job, file):
        """Libra's verdict is what the job itself has written down, or when PBS has seen it, which was before now."""
        pbs = self.pbs
        pbs.wait_state(job, "F", 600)
        met, after = pbs.wait("the verdict", lambda: verdict(pbs, job))
        commitment = dict(pair.split("=", 1) for pair in pbs.qstat(job)["Resource_List.libra_terms"].split(":"))
        took = float(file.read_text().split()[-1]) - float(commitment["submitted"])
        rounded = 0.1 if after < 99 else 0.6  # tenths of a second are written of short times only
        self.assertGreater(after, took - 0.2 - rounded)
        self.assertLess(after, time.time() - float(commitment["submitted"]) + 0.2 + rounded)
        if abs(after - float(commitment["deadline"])) > rounded:
            self.assertEqual(met, after <= float(commitment["deadline"]))
        return met

    def test_mom_takes_over(self):
        pbs = self.pbs
        host = pbs.host_names[0]
        script, end, file = self.timed("kept")
        job = pbs.submit(*terms(0.21, host), script=script)
        members = started_in_cgroup(pbs, host, job)
        before = quota(pbs, host, job)
        self.assertAlmostEqual(before, 0.21, delta=0.02)
        pbs.kill_mom(host)
        self.assertAlmostEqual(quota(pbs, host, job), before, delta=0.02)
        pbs.seen_down(host)
        pbs.start_mom(host, preserve=True)
        free_nodes(pbs)
        self.assertTrue(set(members) & set(processes(pbs, host, job)))
        self.assertAlmostEqual(quota(pbs, host, job), before, delta=0.05)
        self.assertEqual(pbs.qstat(job)["run_count"], "1")
        expect_free(self, pbs, {host: 0.79})
        end.touch()
        # A mom is not the parent of a job that it took over: it looks now and then whether it has ended.
        self.assertTrue(self.expect_honest(job, file))
        self.assertEqual(pbs.qstat(job)["Exit_status"], "0")
        pbs.wait("its cgroup is gone", lambda: not pbs.cgroups())
        expect_free(self, pbs, {host: 1})

    def test_mom_starts_anew(self):
        """The job runs again, from its beginning, and its deadline is still counted from its submission.

        How often PBS tries to start it is PBS's: the second start may be refused by a host that is not ready yet. No scheduling until the host has
        forgotten the first run: a mom says twice that it has ended (as it starts, and when it hears of the server), PBS 23.06 queues the job at the
        second word, and the host's deletion of the first run, which waits for its hooks, took away the second one (1 of 64 beside two busy loops)."""
        pbs = self.pbs
        host = pbs.host_names[1]
        script, end, file = self.timed("again")
        job = pbs.submit("-l", f"deadline=20,estimate=6,budget=1000,walltime=3600,select=1:ncpus=1:host={host}", script=script)
        members = started_in_cgroup(pbs, host, job)
        pbs.kill_mom(host)
        self.assertTrue([pid for pid in members if machine.alive(pid)], "a job outlives its mom")
        pbs.qmgr("set server scheduling = false")
        pbs.start_mom(host)
        pbs.wait_state(job, "Q")
        pbs.wait("its host has forgotten the first run", lambda: job not in pbs.jobs_of_mom(host))
        pbs.cycle()
        again = started_in_cgroup(pbs, host, job, runs=2)
        self.assertFalse(set(members) & set(again))
        self.assertFalse([pid for pid in members if machine.alive(pid)], "what ran before was ended")
        self.assertEqual(pbs.cgroups(), [f"{host} job-{job}"])
        end.touch()
        self.expect_honest(job, file)
        pbs.wait("its cgroup is gone", lambda: not pbs.cgroups())
        expect_free(self, pbs, {host: 1})

    def test_mom_killed_while_a_job_starts(self):
        """PBS 23.06 leaves such a job in state R, with or without `-p`, whatever has become of its processes; forced to run again, it does."""
        pbs = self.pbs
        host = pbs.host_names[1]
        # After Libra's own: the process is in its cgroup, and not the job's program yet.
        go = pbs.own / "go"
        pbs.hook("slow", "execjob_launch", SLOW.format(file=go), order=300, alarm=600)
        self.addCleanup(pbs.delete_hook, "slow")
        self.addCleanup(go.touch)
        job = pbs.submit(*terms(0.3, host), script="sleep 1000\n")
        members = pbs.wait("it has a process in its cgroup", lambda: processes(pbs, host, job))
        self.assertEqual(pbs.qstat(job)["substate"], "41")
        pbs.kill_mom(host)
        go.touch()
        pbs.seen_down(host)
        pbs.start_mom(host)
        free_nodes(pbs)
        expect_free(self, pbs, {host: 0.7})
        pbs.must("qrerun", "-W", "force", job)
        again = started_in_cgroup(pbs, host, job, runs=2)
        self.assertFalse(set(members) & set(again))
        pbs.wait("what ran before was ended", lambda: not [pid for pid in members if machine.alive(pid)])
        self.assertEqual(pbs.cgroups(), [f"{host} job-{job}"])
        self.assertAlmostEqual(quota(pbs, host, job), 0.3, delta=0.02)
        expect_free(self, pbs, {host: 0.7})
        pbs.qdel(job)
        pbs.wait_state(job, "F")
        pbs.wait("its cgroup is gone", lambda: not pbs.cgroups())
        expect_free(self, pbs, {host: 1})

    def test_host_down(self):
        """Nothing new for a host that is down; what it was to run, it runs when it is back."""
        pbs = self.pbs
        down, other = pbs.host_names
        runs = pbs.submit(*terms(0.3, down))
        started_in_cgroup(pbs, down, runs)
        begun = pbs.qstat(runs)["run_count"]
        pbs.qmgr("set server scheduling = false")
        waits = pbs.submit(*terms(0.4, down))
        pbs.kill_mom(down)
        pbs.seen_down(down)
        refused = pbs.qsub(*terms(0.1, down))
        self.assertEqual(refused.rc, 32)
        self.assertIn("no-node", refused.err)
        elsewhere = pbs.submit(*terms(0.2))
        self.assertIn(f"on {other}", pbs.qstat(elsewhere)["Resource_List.libra_info"])
        refused = pbs.qsub(*terms(0.9))
        self.assertEqual(refused.rc, 32)
        self.assertIn(other, refused.err)
        self.assertNotIn(down, refused.err)
        pbs.start_mom(down, preserve=True)
        free_nodes(pbs)
        expect_free(self, pbs, {down: 0.3, other: 0.8})
        pbs.qmgr("set server scheduling = true")
        pbs.wait_started(waits)
        self.assertEqual(pbs.node_of(waits), [down])
        self.assertEqual(pbs.qstat(runs)["run_count"], begun, "it ran on all the while")
        expect_free(self, pbs, {down: 0.3, other: 0.8})


class AgentKilled(OneSite):
    """The agent of a host is killed: caps stay, the hook of the host takes shares anew, and an agent takes over again."""

    options = {"hosts": 1, "processors": 1, "agents": True}

    def test_agent(self):
        pbs = self.pbs
        host, = pbs.host_names
        submitted = time.time()
        job = pbs.submit("-l", "deadline=200,estimate=15,budget=1000", script=busy(10_000))
        started_in_cgroup(pbs, host, job)
        pbs.kill_agent(host)
        first = quota(pbs, host, job)
        # The estimate and its margin, until the deadline; it grows while the job is started.
        self.assertGreater(first, 0.075)
        self.assertLess(first, 0.02 + 15.75 / (200 - (time.time() - submitted)))
        # It falls behind, so it needs more: within a round of the hook (10 s) it has it.
        pause(pbs, host, job)
        pbs.wait("a larger share by the hook", lambda: quota(pbs, host, job) > first + 0.001)
        pause(pbs, host, job, on=False)
        pbs.start_agent(host)
        pause(pbs, host, job)
        raised = []  # (when, quota)

        def small_steps():
            """Four values, each a little above the last, in less time than lies between two rounds of the hook."""
            found = quota(pbs, host, job)
            if not raised or found != raised[-1][1]:
                raised.append((time.monotonic(), found))
            last = raised[-4:]
            return len(last) == 4 and last[3][0] - last[0][0] < 9 and all(0 < b[1] - a[1] < 0.01 for a, b in zip(last, last[1:]))
        pbs.wait("a larger share by the agent, in small steps", small_steps)
        self.assertEqual(len(pbs.cgroups()), 1)
        self.assertFalse([line for line in libra_log(pbs, host) if "fault" in line])
        pause(pbs, host, job, on=False)


if __name__ == "__main__":
    unittest.main()
