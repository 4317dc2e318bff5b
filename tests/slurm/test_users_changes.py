#!/usr/bin/env python3
"""What may be done to an accepted job on a Slurm with Libra: changes, cancelling, requeueing, suspending; and job arrays.

Run as root: `python3 tests/slurm/test_users_changes.py`.
"""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402


class Changing(SiteCase):
    """Three nodes of one processor each."""

    def freed(self, terms, *options):
        """Ask until it is accepted: (job, seconds)."""
        began = time.monotonic()
        answer = self.slurm.wait("the share is free", lambda: (answer := self.ask(*terms, *options)).rc == 0 and answer)
        return answer.out, time.monotonic() - began

    def test_scancel_frees_the_share_again(self):
        slurm, there = self.slurm, ("-w", self.slurm.nodes[2])
        took = []
        job = self.accept(60, 70, *there)
        for _ in range(3):
            self.started(job)
            self.refused(self.ask(60, 70, *there), "refused (share)")
            self.assertEqual(slurm.scancel(job, user=slurm.users[0]).rc, 0)
            job, seconds = self.freed((60, 70), *there)
            took.append(seconds)
        print(f"\n  free after {', '.join(f'{seconds:.2f}' for seconds in took)} s")
        # The next moment, before the plugin has seen the job.
        self.clear()
        job = self.accept(60, 70, *there)
        self.assertEqual(slurm.scancel(job, user=slurm.users[0]).rc, 0)
        self.freed((60, 70), *there)

    def test_ended_jobs_are_shown_and_not_counted(self):
        """Slurm shows a job for minutes after its end; its share is free."""
        slurm, there = self.slurm, ("-w", self.slurm.nodes[0])
        job = self.accept(60, 70, *there, script="true\n")
        slurm.wait_ended(job)
        again, _ = self.freed((60, 70), *there)
        self.running(again)
        self.assertEqual(slurm.state(job), "COMPLETED")
        self.assertIn(job, slurm.must("squeue", "-h", "--states=all", "-o", "%A").split())

    def test_scontrol_update(self):
        """Its owner changes nothing that was committed; name, comment and niceness are free. Root may, but for what is committed."""
        slurm, user = self.slurm, self.slurm.users[0]
        job = self.accept(10, 1000)
        self.running(job)
        for comment in ("", "mine"):  # before the plugin has seen it, too
            self.assertNotEqual(slurm.scontrol("update", f"jobid={job}", f"admincomment={comment}").rc, 0, comment)
        self.booked(job)
        before = slurm.job(job)
        for change, what in ((f"nodelist={slurm.nodes[1]}", "NodeList"), ("timelimit=1", "TimeLimit"), ("partition=main", "Partition"), ("numcpus=2", "NumCPUs"),
                             ("starttime=now+60", "StartTime"), ("deadline=now+500", "Deadline"), ("dependency=afterany:1", "Dependency"), ("minmemorynode=5", "MinMemory"),
                             ("priority=5", "Priority"), ("comment=libra:budget=1", None)):
            with self.subTest(change):
                lines = len(slurm.said())
                answer = slurm.scontrol("update", f"jobid={job}", change, user=user)
                self.assertEqual((answer.rc, answer.out), (1, ""), answer.err)
                self.assertIn("Access/permission denied", answer.err)
                # Slurm 22.05 has no place for the reason but the log.
                said = "\n".join(slurm.said()[lines:])
                self.assertIn(f"{what} belongs to the commitment to job {job}" if what else "the terms are given when a job is submitted", said)
        self.assertNotEqual(slurm.scontrol("hold", job, user=user).rc, 0)
        for change in ("jobname=another", "comment=for Monday", "nice=5"):
            self.assertEqual(slurm.scontrol("update", f"jobid={job}", change, user=user).rc, 0, change)
        after = slurm.job(job)
        self.assertEqual((after["JobName"], after["Comment"]), ("another", "for Monday"))
        for field in ("AdminComment", "TimeLimit", "NodeList", "ReqNodeList", "Partition"):
            self.assertEqual(after[field], before[field], field)
        self.assertEqual(slurm.scontrol("update", f"jobid={job}", "timelimit=30").rc, 0)
        self.assertEqual(slurm.job(job)["TimeLimit"], "00:30:00")
        for comment in ("", "mine", f"{before['AdminComment']}0"):
            self.assertNotEqual(slurm.scontrol("update", f"jobid={job}", f"admincomment={comment}").rc, 0, comment)
        self.assertEqual(slurm.job(job)["AdminComment"], before["AdminComment"])
        # A job without terms gets none, and is otherwise its owner's.
        plain = slurm.submit()
        self.running(plain)
        self.assertNotEqual(slurm.scontrol("update", f"jobid={plain}", "comment=libra:estimate=1,deadline=9,budget=9", user=user).rc, 0)
        self.assertNotEqual(slurm.scontrol("update", f"jobid={plain}", f"admincomment={before['AdminComment']}").rc, 0)
        self.assertEqual(slurm.scontrol("update", f"jobid={plain}", "timelimit=9", user=user).rc, 0)

    def test_requeue(self):
        """It keeps what was committed to it while it waits, begins anew, and its deadline counts from its submission."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = self.accept(600, 1000, "-w", node, "--requeue")
        self.started(job)
        first, commitment = slurm.entry(node, job), self.commitment(job)
        self.assertEqual(slurm.scontrol("requeue", job, user=slurm.users[0]).rc, 0)
        slurm.wait_state(job, "PENDING")
        time.sleep(1.2)
        self.refused(self.ask(600, 1000, "-w", node), "refused (share)")
        self.runs_again(job, lambda: int(slurm.job(job)["Restarts"]) >= 1)
        self.started(job)
        second = slurm.wait("it began anew", lambda: (entry := slurm.entry(node, job)).get("begun", 0) > first["begun"] and entry)
        # It waited longer than that; the rest is what a busy machine takes between two readings of a clock.
        self.assertAlmostEqual(second["submitted"], first["submitted"], delta=1)
        self.assertEqual(self.commitment(job), commitment)
        self.refused(self.ask(600, 1000, "-w", node), "refused (share)")

    def test_suspend(self):
        """Its share stays committed."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = self.accept(600, 1000, "-w", node)
        self.started(job)
        slurm.must("scontrol", "suspend", job)
        slurm.wait_state(job, "SUSPENDED")
        self.poll()
        time.sleep(0.5)
        self.refused(self.ask(600, 1000, "-w", node), "refused (share)")
        self.resumed(job)
        self.running(job)
        self.refused(self.ask(600, 1000, "-w", node), "refused (share)")


class Arrays(SiteCase):
    """Three nodes of one processor each."""

    def tasks(self, array, indices):
        return [f"{array}_{index}" for index in indices]

    def places(self, jobs):
        for job in jobs:
            self.running(job)
        return [self.slurm.job(job)["NodeList"] for job in jobs]

    def test_on_one_node(self):
        """Every task is priced and held to its share."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        answer = self.ask(200, 1000, "--array=2,4-6:2", budget=700)
        self.assertEqual(answer.rc, 0, answer.err)
        # 200 + 200 / 1000 for each of the three.
        self.assertEqual(answer.err, f"sbatch: libra: accepted: 3 jobs, each 21 % of a processor on {node}, finished in 16m40s at the latest, for 600.60 of 700 credits\n")
        jobs = self.tasks(answer.out, (2, 4, 6))
        self.assertEqual(self.places(jobs), [node] * 3)
        for job in jobs:
            self.assertAlmostEqual(self.quota(slurm.job(job)["JobId"], node), 0.21, delta=0.06)
        self.refused(self.ask(450, 1000, "-w", node), "refused (share)")
        self.running(self.accept(300, 1000, "-w", node))
        self.refused(self.ask(20, 100, "--array=1-3", budget=60), "refused (budget)", "60.6")

    def test_over_several_nodes(self):
        """Three tasks of 0.63: one to each node, told by the plugin; a cancelled one's share is committed again."""
        slurm = self.slurm
        began = time.monotonic()
        answer = self.ask(600, 1000, "--array=1-3", budget=10_000)
        self.assertEqual(answer.rc, 0, answer.err)
        jobs = self.tasks(answer.out, (1, 2, 3))
        self.assertEqual(sorted(self.places(jobs)), slurm.nodes)
        print(f"\n  all three run after {time.monotonic() - began:.1f} s")
        for job in jobs:
            record = slurm.job(job)
            self.assertEqual(record["ReqNodeList"], record["NodeList"])
            slurm.wait("its cgroup", lambda record=record: self.processes(record["JobId"], record["NodeList"]))
            self.assertLess(self.quota(record["JobId"], record["NodeList"]), 0.75)
        self.poll()
        self.refused(self.ask(600, 1000), "refused (share)")
        freed = slurm.job(jobs[1])["NodeList"]
        self.assertEqual(slurm.scancel(jobs[1], user=slurm.users[0]).rc, 0)
        answer = slurm.wait("the share of the cancelled task", lambda: (answer := self.ask(600, 1000)).rc == 0 and answer)
        self.assertEqual(self.running(answer.out)["NodeList"], freed)
        slurm.wait_ended(jobs[1])
        self.assertEqual([slurm.state(job) for job in jobs], ["RUNNING", "CANCELLED", "RUNNING"])

    def test_requeue_of_a_task(self):
        """It goes back to the node that was committed to it."""
        slurm = self.slurm
        array = self.accept(600, 1000, "--array=1-3", "--requeue", budget=10_000)
        jobs = self.tasks(array, (1, 2, 3))
        places = self.places(jobs)
        self.started(slurm.job(jobs[1])["JobId"])
        slurm.must("scontrol", "requeue", jobs[1])
        slurm.wait_state(jobs[1], "PENDING")
        time.sleep(1.2)
        self.refused(self.ask(600, 1000), "refused (share)")
        self.runs_again(jobs[1])
        self.assertEqual(self.places(jobs), places)

    def test_cancelled_at_once(self):
        """Before its tasks were told their nodes, or after: nothing of it is left."""
        slurm = self.slurm
        array = self.accept(60, 100, "--array=1-3")
        self.assertEqual(slurm.scancel(array, user=slurm.users[0]).rc, 0)
        slurm.wait("its shares", lambda: (answer := self.ask(60, 100, "--array=1-3")).rc == 0 and answer)

    def test_its_owner_does_not_release_or_change_a_task(self):
        slurm, user = self.slurm, self.slurm.users[0]
        array = self.accept(20, 100, "--array=1-3")
        self.places(self.tasks(array, (1, 2, 3)))
        self.booked(f"{array}_3")
        for job in (array, f"{array}_2"):
            for change in ("timelimit=1", f"nodelist={slurm.nodes[1]}"):
                self.assertNotEqual(slurm.scontrol("update", f"jobid={job}", change, user=user).rc, 0, (job, change))


if __name__ == "__main__":
    unittest.main()
