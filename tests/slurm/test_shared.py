#!/usr/bin/env python3
"""Nodes that jobs with terms have in common with a site's other jobs: whatever those hold counts, whichever partition they came by, and none that waits is in
the way of a job that was accepted.

Run as root: `python3 tests/slurm/test_shared.py`.
"""

import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import machine  # noqa: E402
from case import SiteCase  # noqa: E402
from cluster import slurm_version  # noqa: E402
from libra_site import Site  # noqa: E402

MEMORY = {"SelectTypeParameters": "CR_CPU_Memory"}  # nodes have 1000 MB


class Shared(SiteCase):
    """Two nodes of two processors in three partitions. Memory is counted."""

    site = {"nodes": 2, "cpus": 2, "settings": {**MEMORY, "DefMemPerCPU": 10}, "partitions": {"plain": {}, "asked": {"OverSubscribe": "YES:4"}, "own": {
        "OverSubscribe": "FORCE:20", "ExclusiveUser": "YES"}}}

    def plain(self, *options, **more):
        """A job without terms that runs, and that Libra knows of; its number."""
        job = self.slurm.submit(*options, **more)
        self.running(job)
        return job

    def knows(self, why, *options, **more):
        """Wait until Libra has seen what others have, which then is its reason to refuse a job like this one. A question holds nothing."""
        self.slurm.wait("Libra knows", lambda: why in self.ask(1, "2d", "--sla-quote=ask", *options, **more).err)

    def not_open(self, node, why):
        self.knows(why, "-w", node)
        self.refused(self.ask(1, "2d", "-w", node), "refused (no-node)", why)

    def test_a_job_that_shares_no_processors(self):
        """It has one of two processors, and Slurm gives the other one to no job of a partition with FORCE."""
        one, two = self.slurm.nodes
        plain = self.plain("-p", "plain", "-w", one)
        self.not_open(one, "is free of jobs that share no processors, such as those of partition plain")
        self.assertEqual(self.running(self.accept(1, "2d"))["NodeList"], two)
        self.slurm.scancel(plain)
        self.slurm.wait("the node is open", lambda: self.ask(1, "2d", "-w", one).rc == 0)

    def test_a_node_for_itself(self):
        one = self.slurm.nodes[0]
        self.plain("-p", "plain", "-w", one, "--exclusive")
        self.not_open(one, "partition plain")
        self.refused(self.ask(1, "2d", "--exclusive"), "(--exclusive)", "--sla-class=dedicated")
        self.refused(self.ask(1, "2d", "--exclusive=user"), "(--exclusive)")

    def test_jobs_that_share_when_they_are_asked_to(self):
        one, two = self.slurm.nodes
        self.plain("-p", "asked", "-w", one)
        self.plain("-p", "asked", "-w", two, "--oversubscribe")
        self.not_open(one, "partition asked")
        self.running(self.accept(1, "2d", "-w", two))

    def test_a_node_of_one_user(self):
        one = self.slurm.nodes[0]
        mine, other = self.slurm.users
        self.plain("-p", "own", "-w", one, user=mine)
        self.knows("is free of another user's jobs", "-w", one, user=other)
        self.refused(self.ask(1, "2d", "-w", one, user=other), "is free of another user's jobs that share with nobody else")
        self.running(self.accept(1, "2d", "-w", one, user=mine))

    def test_memory_of_others(self):
        one = self.slurm.nodes[0]
        plain = self.plain("-w", one, "--mem=900")
        self.knows("refused (memory)", "-w", one, "--mem=200")
        self.refused(self.ask(1, "2d", "-w", one, "--mem=200"), "refused (memory)")
        self.running(self.accept(1, "2d", "-w", one, "--mem=50"))
        self.slurm.scancel(plain)
        self.slurm.wait("there is memory", lambda: self.ask(1, "2d", "-w", one, "--mem=200").rc == 0)

    def test_all_memory_of_a_node(self):
        self.refused(self.ask(1, "2d", "--mem=0"), "all memory of a node", "--mem=0", "--mem=…")

    def test_who_waits_is_not_in_the_way(self):
        """A job that waits for memory keeps those behind it in its partition from starting, but no job that was accepted."""
        slurm = self.slurm
        for node in slurm.nodes:
            # They end within what backfilling looks ahead, a day: it keeps the nodes for the one that waits.
            self.plain("-w", node, "--mem=900", "--time=60")
        waits = slurm.submit("--mem=990", "-N", "2")
        behind = slurm.submit("--mem=20")
        # 23.11 and 24.05 say 'invalid account' in their log, and give no reason.
        reasons = ("None", "Priority") if (23,) <= slurm_version() < (24, 11) else ("Priority",)
        slurm.wait("it stands behind the other", lambda: slurm.job(behind)["Reason"] in reasons)
        self.running(self.accept(1, "2d", "--mem=20"))
        array = self.accept(1, "2d", "--mem=5", "-c", "2", "--array=1-8")
        for task in range(1, 9):
            self.running(f"{array}_{task}")
        later = self.accept(1, "2d", "--mem=20", "--begin=now+3")
        self.running(later)
        self.assertEqual(slurm.state(waits), "PENDING")

    def test_who_waits_elsewhere_is_not_in_the_way(self):
        """The same of one that waits for a whole node in another partition."""
        slurm = self.slurm
        for node in slurm.nodes:
            self.plain("-w", node, "--mem=20")
        waits = slurm.submit("-p", "plain", "--exclusive")
        slurm.wait("it waits", lambda: slurm.job(waits)["Reason"] in ("Resources", "Priority"))
        self.running(self.accept(1, "2d"))
        self.assertEqual(slurm.state(waits), "PENDING")


class ByDefault(SiteCase):
    """Memory is counted, and a job that names none has 300 MB for each processor: three go on a node."""

    site = {"nodes": 1, "settings": {**MEMORY, "DefMemPerCPU": 300}, "partitions": {"small": {"OverSubscribe": "FORCE:20", "DefMemPerNode": 100}}}

    def test_what_a_job_has_by_default(self):
        for _ in range(3):
            self.running(self.accept(1, "2d"))
        self.refused(self.ask(1, "2d"), "refused (memory)")
        self.running(self.accept(1, "2d", "-p", "small"))
        self.refused(self.ask(1, "2d", "-p", "small"), "refused (memory)")


class NoDefault(SiteCase):
    """Memory is counted, and a job that names none has all of its node."""

    site = {"nodes": 1, "settings": MEMORY}

    def test_it_has_to_be_said(self):
        self.refused(self.ask(1, "2d"), "where it names none and partition and cluster have no default", "--mem=…")
        self.running(self.accept(1, "2d", "--mem=10"))


LUA = """
function slurm_job_submit(job, partitions, user)
    job.admin_comment = job.comment or "quota=5"
    if job.name == "nobody" then
        slurm.log_user("lua: no such jobs here")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end
"""


class WithLua(Site):
    """A site that has a script of its own, as slurm-quota is one: it writes into admin comments, and some of that its users say."""

    def before_start(self):
        super().before_start()
        machine.write_whole(self.directory / "etc/job_submit.lua", LUA)


class OtherPlugins(SiteCase):
    """Libra behind job_submit/lua, with its words beside the script's."""

    kind = WithLua
    site = {"nodes": 1, "settings": {"JobSubmitPlugins": "lua,libra"}}

    def words(self, job, of="libra:"):
        """Its admin comment is the script's and then Libra's, which begins so."""
        said = self.slurm.job(job)["AdminComment"]
        self.assertTrue(said.startswith(f"quota=5|{of}v=1:"), said)
        return said

    def test_both_are_kept_and_found_again(self):
        slurm = self.slurm
        job = self.accept(1000, "2d", budget="unlimited")
        self.started(job)
        said = self.words(job)
        self.booked(job)
        slurm.stop_controller()
        slurm.start_controller()
        slurm.wait_judging(times=2)
        self.assertIn("1 nodes, 1 jobs with terms", [line for line in slurm.said() if line.endswith(" jobs with terms")][-1])
        self.assertEqual(self.words(job), said)
        # It has its share of the node, on record and in the kernel.
        self.refused(self.ask(1000, 1056, budget="unlimited"), "refused (share)")
        self.assertIn(f"job-{job}", " ".join(slurm.job_groups()))
        answer = slurm.scontrol("update", f"jobid={job}", "admincomment=mine")
        self.assertNotEqual(answer.rc, 0)
        self.assertEqual(self.words(job), said)

    def test_one_that_is_held_and_released(self):
        slurm = self.slurm
        job = self.accept(1, "2d", "--begin=now+3600")
        self.assertIn(":deferred=1:", self.words(job))
        self.change("update", f"jobid={job}", "starttime=now")
        self.running(job)
        self.assertNotIn(":deferred=1", self.words(job))
        slurm.scontrol("requeuehold", job)
        self.words(job)

    def test_nobody_is_given_a_promise_by_what_a_script_copies(self):
        slurm = self.slurm
        said = self.words(self.accept(1, "2d")).removeprefix("quota=5|")
        for comment, left in ((f"x|{said}", "x"), (said.replace("libra:", "libra-held:", 1), ""), (f"x|{said}|{said}", "x"), ("a | b", "a | b")):
            job = slurm.submit(f"--comment={comment}")
            self.assertEqual(slurm.job(job).get("AdminComment"), left)

    def test_what_the_script_refuses_is_not_accepted(self):
        self.refused(self.ask(1, "2d", "-J", "nobody"), "lua: no such jobs here")


if __name__ == "__main__":
    unittest.main()
