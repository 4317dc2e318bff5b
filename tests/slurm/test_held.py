#!/usr/bin/env python3
"""Jobs that an administrator lets wait: their shares and their money go back, and are asked for anew. And jobs that wait past their deadlines.

Run as root: `tests/slurm/run test_held`. Takes about two minutes.
"""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from promises import STILL  # noqa: E402
from test_accounts import AccountsCase  # noqa: E402

# Most of a processor, for most of an hour.
LARGE = (2000, 3600)


class Held(AccountsCase):
    """Two nodes of one processor; nothing is started until a test says so."""

    site = {"nodes": 2}

    def setUp(self):
        self.usual = self.slurm.all_settings()["SchedulerParameters"]
        self.schedule(STILL)
        self.account("deposit", self.user, "100000")

    def schedule(self, parameters):
        # Slurm's schedulers see by the second in which settings were read last whether there are others: two in one second are one to them.
        time.sleep(1.1)
        self.slurm.reconfigure(SchedulerParameters=parameters)

    def start(self):
        """Waiting jobs are started from now on."""
        self.schedule(self.usual)

    def tearDown(self):
        self.start()
        super().tearDown()

    def large(self, node, **options):
        """A job that leaves no room for another one of its kind."""
        job = self.accept(*LARGE, "-w", node, budget=10000, **options)
        self.booked(job)
        return job

    def comments(self, job):
        found = self.slurm.job(job)
        return found.get("AdminComment", ""), found.get("Comment", "")

    def given_back(self, job):
        self.slurm.wait("its share is given back", lambda: self.comments(job)[0].startswith("libra-held:"))

    def test_a_hold(self):
        slurm = self.slurm
        n1 = slurm.nodes[0]
        job = self.large(n1)
        price = float(self.commitment(job)["price"])
        self.held(price)
        slurm.must("scontrol", "hold", job)
        self.given_back(job)
        self.held(0)
        self.assertIn("libra: held: its share is given back", self.comments(job)[1])
        other = self.large(n1, user=self.user)
        # Released while somebody else has its share: held again, and told so.
        slurm.must("scontrol", "release", job)
        slurm.wait("told so", lambda: "libra: refused (share): " in self.comments(job)[1])
        slurm.wait("held", lambda: slurm.job(job)["Priority"] == "0")
        self.assertIn("asked anew after a hold", self.comments(job)[1])
        slurm.scancel(other)
        self.held(0)
        # There is room: a commitment of its own, for the time that is left.
        slurm.must("scontrol", "release", job)
        slurm.wait("committed anew", lambda: self.comments(job)[0].startswith("libra:v=1:"))
        self.assertIn("asked anew after a hold", self.comments(job)[1])
        anew = self.commitment(job)
        self.assertLess(float(anew["deadline"]), LARGE[1])
        self.held(float(anew["price"]))
        self.refused(self.ask(*LARGE, "-w", n1, budget=10000), "refused (share)")
        # The node takes the new commitment, and nobody for a forger.
        self.start()
        self.started(job)
        self.assertAlmostEqual(slurm.entry(n1, job)["share"], float(anew["at"].split("*")[2]), places=4)
        self.assertNotIn("claims what is not committed to it", slurm.log(n1))
        slurm.scancel(job)
        self.held(0)
        self.account("check")

    def test_a_start_time(self):
        """Released by its time rather than by hand, it may run before anybody has asked: its node waits for the answer."""
        slurm = self.slurm
        n1 = slurm.nodes[0]
        job = self.large(n1)
        self.change("update", f"jobid={job}", "starttime=now+600")
        self.given_back(job)
        self.held(0)
        self.start()
        self.change("update", f"jobid={job}", "starttime=now")
        self.started(job)
        slurm.wait("committed anew", lambda: self.comments(job)[0].startswith("libra:v=1:"))
        anew = self.commitment(job)
        self.assertAlmostEqual(slurm.entry(n1, job)["share"], float(anew["at"].split("*")[2]), places=4)
        self.held(float(anew["price"]))

    def test_requeued_and_held_by_its_owner(self):
        """Else a node is kept for ever, for the price of the seconds that it ran."""
        slurm = self.slurm
        n1 = slurm.nodes[0]
        self.start()
        job = self.accept(*LARGE, "-w", n1, budget=10000, script="sleep 100000\n")
        self.started(job)
        price = float(self.commitment(job)["price"])
        self.refused(self.ask(*LARGE, "-w", n1, budget=10000), "refused (share)")
        self.assertEqual(slurm.scontrol("requeuehold", job, user=self.user).rc, 0)
        slurm.wait("its share is free", lambda: "libra: held after it was requeued: " in self.comments(job)[1])
        slurm.wait("on its host too", lambda: not slurm.live())
        self.held(price)
        other = self.accept(*LARGE, "-w", n1, budget=10000, script="sleep 100000\n")
        self.started(other)
        # Its owner may release it: it has what is left.
        self.assertEqual(slurm.scontrol("release", job, user=self.user).rc, 0)

        def runs():
            slurm.start_now(job)
            return slurm.state(job) == "RUNNING"

        slurm.wait("it runs", runs)
        left = f"job {job}: 0.583 processors were accepted for it here and 0.417 are left beside what others were promised"
        slurm.wait("it has what is left", lambda: left in slurm.log(n1))
        self.assertAlmostEqual(slurm.entry(n1, other)["share"], float(self.commitment(other)["at"].split("*")[2]), places=4)
        slurm.scancel(job, other)
        slurm.wait("paid", lambda: self.balance()["held"] == 0)
        self.account("check")

    def test_a_restart_of_slurmctld(self):
        """What a held job gave back is nobody's after it."""
        slurm = self.slurm
        n1 = slurm.nodes[0]
        job = self.large(n1)
        slurm.must("scontrol", "hold", job)
        self.given_back(job)
        slurm.stop_controller()
        slurm.start_controller()
        other = self.large(n1)
        self.assertTrue(self.comments(job)[0].startswith("libra-held:"))
        slurm.scancel(other, job)

    def test_past_its_deadline(self):
        slurm = self.slurm
        n1 = slurm.nodes[0]
        for deadline in (15, 90, 540):
            late = self.accept(deadline * 2 / 3, deadline, "-w", n1, budget=1000)
            try:  # one that lapses before it has its number is not said to wait
                slurm.wait("it has its number", lambda late=late: late in slurm.booked(), deadline)
            except TimeoutError:
                continue
            answer = self.ask(*LARGE, "-w", n1, budget=10000)
            if answer.rc != 0:
                break
            # The machine was so slow that the deadline had passed by then.
            self.booked(answer.out)
            slurm.scancel(answer.out)
            slurm.wait("it is gone", lambda answer=answer: answer.out not in slurm.booked())
        else:
            self.fail("on this machine every deadline passes before it can be looked at")
        self.refused(answer, "refused (share)")
        slurm.wait("it holds nothing", lambda: f"job {late} waits past its deadline" in slurm.log(), 720)
        self.large(n1)
        self.assertEqual(slurm.state(late), "PENDING")


if __name__ == "__main__":
    unittest.main()
