#!/usr/bin/env python3
"""Jobs that run more than once, by their owners' wish, and what is paid for each run.

Run as root: `tests/slurm/run test_accounts_requeued`. Takes about two minutes.
"""

import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from test_accounts import AccountsCase, REQUEUES_ITSELF  # noqa: E402  (puts tests/batch in the path)
from libra_site import busy  # noqa: E402
from scripts import idle_until  # noqa: E402


class Requeued(AccountsCase):
    # A requeued job may begin again at once.
    site = {"nodes": 2, "settings": {"SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2,requeue_delay=1"}}

    def requeue(self, job, how="requeue"):
        """Its owner has it run once more. What a node is not done with yet may be left as it is."""
        slurm = self.slurm
        slurm.wait("its nodes are done with it", lambda: not slurm.run("squeue", "-h", "-t", "R,CG", "-j", job).out.strip())
        # slurmd counts in seconds: what starts within the one in which it was killed is taken for the same run.
        done = time.time()
        slurm.wait("a later second", lambda: time.time() > done + 2)
        answer = slurm.scontrol(how, job, user=self.user)
        self.assertEqual(answer.rc, 0, answer.err)
        slurm.wait("it is queued again", lambda: slurm.run("squeue", "-h", "-t", "PD,R", "-j", job).out.strip())

    def runs_once_more(self, job):
        """A job that was requeued by `requeue`, a while after it had ended: it may start at once. Of an array one task has to run."""
        def runs():
            if self.slurm.run("squeue", "-h", "-t", "R", "-j", job).out.strip():
                return True
            self.slurm.start_now(job)
            return False
        self.slurm.wait("it runs again", runs)

    def ran(self, job, seconds):
        """Wait until slurmctld says that it ran so long; what its plugin has read by then is some seconds less."""
        self.slurm.wait("it has run", lambda: self.run_time(job) >= seconds)

    def test_work_before_a_requeue_is_paid_for(self):
        """It does its work, requeues itself, and ends late the second time."""
        script = f"if [ -z \"$SLURM_RESTART_COUNT\" ]; then\n{busy(4)}\n{REQUEUES_ITSELF}fi\nsleep 8\n"
        job = self.accept(4, 8, "--time=10", budget=50, script=script)
        price = float(self.commitment(job)["price"])
        self.running(job)
        self.runs_again(job, lambda: int(self.slurm.job(job)["Restarts"]) >= 1)
        self.held(0)
        self.assertLess(self.balance()["available"], 100 - price / 2)

    def test_a_task_that_runs_again_is_paid_for_again(self):
        end = self.slurm.directory / "again.end"
        script = f"[ -n \"$SLURM_RESTART_COUNT\" ] || exit 0\n{busy(2)}\nsleep 6\n{idle_until(end)}"
        job = self.accept(4, 8, "--array=1-2", "--time=10", budget=100, script=script)
        each = float(self.commitment(job)["price"])
        self.held(0)
        paid = self.balance()["available"]
        self.requeue(f"{job}_1")
        self.runs_once_more(f"{job}_1")
        self.held(each)
        end.touch()
        self.held(0)
        self.assertLess(self.balance()["available"], paid - each / 2)
        self.account("check")

    def test_a_run_that_is_given_up_is_paid_for(self):
        """It was paid for; the run after that ends by another requeue, and the job with a cancellation while it waits."""
        job = self.accept(4, 8, "--time=10", budget=50, script=f"[ -n \"$SLURM_RESTART_COUNT\" ] || exit 0\n{busy(1000)}\n")
        self.held(0)
        paid = self.balance()["available"]
        self.requeue(job)
        self.runs_once_more(job)
        self.ran(job, 10)
        self.assertEqual(self.slurm.scontrol("requeuehold", job, user=self.user).rc, 0)
        self.slurm.wait("it waits", lambda: self.slurm.state(job) == "PENDING")
        self.slurm.scancel(job, user=self.user)
        self.held(0)
        self.assertLess(self.balance()["available"], paid - 0.5)

    def test_an_account_that_does_not_cover_another_run(self):
        """Nobody pays for it, so nothing is promised to it: else who has spent all that he had would run on for nothing, again and again."""
        slurm = self.slurm
        job = self.accept(4, 100_000, budget=50, script="[ -n \"$SLURM_RESTART_COUNT\" ] || exit 0\nexec sleep 100000\n")
        slurm.wait("it is done", lambda: slurm.state(job) == "COMPLETED")
        self.held(0)
        self.account("create", "bin")
        self.account("transfer", self.user, "bin", str(self.balance()["available"]))
        self.requeue(job, "requeuehold")
        slurm.wait("it is told so", lambda: "libra: runs once more without a promise" in slurm.job(job).get("Comment", ""))
        self.assertTrue(slurm.job(job)["AdminComment"].startswith("libra-nothing:"))
        self.assertEqual(slurm.scontrol("release", job, user=self.user).rc, 0)
        self.runs_once_more(job)
        self.assertNotIn(job, slurm.booked())
        self.assertEqual([one for one in slurm.live() if one.endswith(f" {job}")], [])
        slurm.scancel(job)
        slurm.wait("it is gone", lambda: slurm.state(job) == "CANCELLED")
        balance = self.balance()
        self.assertEqual((balance["held"], balance["available"]), (0, 0))
        self.account("check")

    def test_an_account_that_is_closed_keeps_nobody_from_being_settled(self):
        """Whose account was closed has requeued a job of before; it is there for as long as its owner likes."""
        other = self.slurm.users[1]
        self.account("create", other)
        self.account("create", "project:dead", "--member", other)
        self.account("deposit", "project:dead", "20")
        old = self.accept(2, 100, "--account=dead", budget=10, script="true\n", user=other)
        self.slurm.wait("it is paid", lambda: re.search(rf"job {old}: project:dead is charged", self.slurm.log()))
        self.account("close", "project:dead")
        self.assertEqual(self.slurm.scontrol("requeuehold", old, user=other).rc, 0)
        self.slurm.wait("it is there again", lambda: self.slurm.state(old) == "PENDING")
        job = self.accept(2, 60, budget=30, script=busy(0.5))
        self.held(0)
        self.slurm.wait("it has ended", lambda: self.slurm.state(job) == "COMPLETED")
        self.slurm.scancel(old, user=other)


if __name__ == "__main__":
    unittest.main()
