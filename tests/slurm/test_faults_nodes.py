#!/usr/bin/env python3
"""Nodes that fail: slurmd and agent killed, nodes down and drained. What runs goes on in its share, and nothing new is promised where it cannot be kept.

Run as root: `tests/slurm/run test_faults_nodes`. Takes about four minutes.
"""

import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402
from case import SiteCase  # noqa: E402
from client import launch_failed  # noqa: E402
from libra_site import busy  # noqa: E402
from scripts import idle_until, works_until  # noqa: E402
from promises import expect_free, is_saved, pause, terms  # noqa: E402


class SlurmdKilled(SiteCase):
    """slurmd is killed; the job's own daemon lives on."""

    site = {"nodes": 2}

    def test_goes_on(self):
        slurm = self.slurm
        node = slurm.nodes[0]
        home = slurm.home(slurm.users[0])
        end, ran = home / "kept.end", home / "kept"
        job = self.accept(300, 2000, "-w", node, script=works_until(end) + f"echo once >>{ran}\n")
        self.started(job)
        before, members = self.quota(job, node), self.processes(job, node)
        slurm.kill_slurmd(node)
        self.assertAlmostEqual(self.quota(job, node), before, delta=0.05)
        slurm.start_slurmd(node)
        slurm.wait("it answers", lambda: not re.search(r"DOWN|NOT_RESP|\*", slurm.node(node)["State"]))
        self.assertTrue(set(members) & set(self.processes(job, node)))
        self.assertEqual(slurm.job(job)["Restarts"], "0")
        expect_free(self, slurm, {slurm.nodes[1]: 1})
        end.touch()
        self.met(job, patience=180)
        self.assertEqual(ran.read_text().split(), ["once"])
        slurm.wait("its cgroup is gone", lambda: not slurm.job_groups())
        expect_free(self, slurm, {node: 1})

    def test_ends_meanwhile(self):
        """A job ends while its node has no slurmd: the epilog comes when slurmd does, and the share is free."""
        slurm = self.slurm
        node = slurm.nodes[0]
        end = slurm.directory / "meanwhile.end"
        job = slurm.submit(*terms(0.3, node), script=idle_until(end))
        self.started(job)
        slurm.kill_slurmd(node)
        end.touch()
        slurm.wait("it has ended", lambda: not self.processes(job, node))
        slurm.start_slurmd(node)
        slurm.wait_ended(job)
        slurm.wait("its epilog", lambda: not slurm.job_groups() and not slurm.live())
        expect_free(self, slurm, dict.fromkeys(slurm.nodes, 1))

    def test_prolog_cut_off(self):
        """slurmd is killed while a job begins; Slurm says what becomes of the job, and nothing of it stays behind."""
        slurm = self.slurm
        node = slurm.nodes[0]
        for _ in range(3):
            job = slurm.submit(*terms(0.3, node))
            slurm.wait("it is being started", lambda job=job: slurm.state(job) != "PENDING")
            slurm.kill_slurmd(node)
            slurm.start_slurmd(node)
            slurm.wait("it answers", lambda: not re.search(r"DOWN|NOT_RESP|\*", slurm.node(node)["State"]))
            slurm.scancel(job)
            slurm.wait_ended(job)
            slurm.wait("nothing of it is left", lambda: not slurm.job_groups() and not slurm.live())
        expect_free(self, slurm, dict.fromkeys(slurm.nodes, 1))


class NodesLost(SiteCase):
    """Down, drained, and back."""

    site = {"nodes": 2, "settings": {"SlurmdTimeout": 30, "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2,requeue_delay=1"}}

    def test_down(self):
        slurm = self.slurm
        down, other = slurm.nodes
        job = slurm.submit(*terms(0.3, down))
        self.started(job)
        members = self.processes(job, down)
        before = {pid: machine.began(pid) for pid in members}
        slurm.kill_slurmd(down)
        slurm.wait("seen down", lambda: "DOWN" in slurm.node(down)["State"])
        self.refused(slurm.sbatch(*terms(0.1, down)), "no-node")
        elsewhere = slurm.submit(*terms(0.2))
        self.assertEqual(slurm.job(elsewhere)["ReqNodeList"], other)
        said = self.refused(slurm.judged(*terms(0.9)), other)
        self.assertNotIn(down, said)
        # Requeued: it waits for its node, and its share is still its own.
        slurm.wait("requeued", lambda: int(slurm.job(job)["Restarts"]) >= 1)
        self.assertEqual(slurm.state(job), "PENDING")
        slurm.start_slurmd(down)
        # Told to start at once, after its node was lost, Slurm would end it: "Job credential revoked". So its two minutes are waited for.
        slurm.wait("it runs anew, where it was", lambda: self.begun_anew(job) and slurm.nodes_of(job) == [down] and set(self.processes(job, down)) - set(members), 600)
        # Minutes have passed, and numbers are given again.
        slurm.wait("what ran before was ended", lambda: not [pid for pid in members if before[pid] and machine.began(pid) == before[pid]])
        self.assertEqual(slurm.job_groups(), sorted([f"{down} job-{job}", f"{other} job-{elsewhere}"]))
        expect_free(self, slurm, {down: 0.7, other: 0.8})

    def begun_anew(self, job):
        """Is it running? Where slurmctld is too slow to confirm to slurmd that it is to start it, Slurm holds it, and its user lets it go."""
        found = self.slurm.job(job)
        if launch_failed(found):
            self.slurm.scontrol("release", job)
        return found["JobState"] == "RUNNING"

    def test_drained(self):
        slurm = self.slurm
        drained, other = slurm.nodes
        job = slurm.submit(*terms(0.3, drained))
        self.started(job)
        slurm.must("scontrol", "update", f"nodename={drained}", "state=drain", "reason=test")
        self.addCleanup(slurm.scontrol, "update", f"nodename={drained}", "state=resume")
        # More than it has left: never accepted, and for another reason than before.
        slurm.wait("nothing new goes there", lambda: "no-node" in slurm.sbatch(*terms(0.75, drained)).err)
        elsewhere = slurm.submit(*terms(0.2))
        self.assertEqual(slurm.job(elsewhere)["ReqNodeList"], other)
        self.assertEqual((slurm.state(job), len(self.processes(job, drained)) > 0), ("RUNNING", True), "it runs on")
        slurm.must("scontrol", "update", f"nodename={drained}", "state=resume")
        slurm.wait("it is taken again", lambda: "refused (share)" in slurm.sbatch(*terms(0.75, drained)).err)
        expect_free(self, slurm, {drained: 0.7, other: 0.8})

    def test_requeued(self):
        """A requeue by the administrator: another run, the same share, and its deadline still counts from its submission."""
        slurm = self.slurm
        node = slurm.nodes[0]
        job = slurm.submit(*terms(0.3, node))
        self.started(job)
        commitment = self.commitment(job)
        slurm.must("scontrol", "requeue", job)
        self.runs_again(job, lambda: int(slurm.job(job)["Restarts"]) >= 1)
        self.started(job)
        self.assertEqual(self.commitment(job), commitment)
        self.assertEqual(slurm.job_groups(), [f"{node} job-{job}"])
        expect_free(self, slurm, {node: 0.7})

    def test_controller_killed_while_a_node_is_down(self):
        slurm = self.slurm
        down, other = slurm.nodes
        job = slurm.submit(*terms(0.3, down))
        self.started(job)
        slurm.wait("saved", lambda: is_saved(slurm, job))
        slurm.kill_slurmd(down)
        slurm.kill_controller()
        slurm.start_controller()
        # After ten seconds a node that has not answered is taken to be down; clients wait for that by themselves.
        expect_free(self, slurm, {other: 1})
        slurm.start_slurmd(down)
        # The job holds its share. Whether it still runs is Slurm's matter: killed early, slurmctld may have it as one that waits.
        slurm.wait("it is taken again", lambda: "refused (share)" in slurm.sbatch(*terms(0.75, down)).err)


class AgentKilled(SiteCase):
    """The agent of a node is killed: caps stay, prologs take shares anew, and an agent takes over again."""

    site = {"nodes": 1, "agents": True}

    def test_agent(self):
        slurm = self.slurm
        node, = slurm.nodes
        job = self.accept(60, 360, script=busy(10_000))
        self.started(job)
        slurm.kill_agent(node)
        first = self.quota(job, node)
        # The estimate and its margin, until the deadline; it grows while the job is started.
        left = 360 - (time.time() - float(self.commitment(job)["submitted"]))
        self.assertGreater(first, 0.17)
        self.assertLess(first, 63 / left + 0.02)
        pause(self, job, node)
        time.sleep(5)
        self.assertAlmostEqual(self.quota(job, node), first, delta=0.01)

        # It falls behind, so it needs more: the next job's prolog gives it that, where it is a hundredth.
        def raised():
            slurm.wait_ended(self.accept(1, 300, script="true\n"))
            return self.quota(job, node) > first

        slurm.wait("a larger share by a prolog", raised)
        second = self.quota(job, node)
        slurm.start_agent(node)
        slurm.wait("a larger share by the agent", lambda: self.quota(job, node) > second)
        pause(self, job, node, on=False)
        self.assertEqual([line for line in slurm.said() if "fault" in line], [])


if __name__ == "__main__":
    unittest.main()
