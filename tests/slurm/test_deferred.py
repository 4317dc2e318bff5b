#!/usr/bin/env python3
"""Jobs with a deadline that may not start yet (--dependency, --begin, --hold): accepted with a deferred promise, and asked for anew when they may.

Run as root: `tests/slurm/run test_deferred.py`. Nothing here needs much processor time.
"""

import json
import pathlib
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from libra_site import program  # noqa: E402
from test_accounts import AccountsCase  # noqa: E402

CONFIRMED = "(its promise was deferred)"
NOTHING = "libra-nothing:"
DECADE = 3650 * 86400  # by which Libra keeps a job from starting


class Site(SiteCase):
    """What the classes have in common."""

    def comment(self, job):
        return self.slurm.job(job).get("Comment", "")

    def record(self, job):
        return self.slurm.job(job).get("AdminComment", "")

    def reason(self, job):
        return self.slurm.must("squeue", "-h", "-r", "-t", "PD", "-j", job, "-o", "%r").splitlines()[0].strip()

    def waits_for(self, job, reason):
        self.slurm.wait(f"job {job}: {reason}", lambda: self.reason(job) == reason)

    def deferred_at_first(self, *terms, **options):
        """Submit a job that must be accepted so; its number."""
        answer = self.ask(*terms, **options)
        self.assertEqual(answer.rc, 0, answer.err)
        self.assertIn("libra: deferred: ", answer.err)
        return answer.out

    def deferred(self, *terms, **options):
        """Submit a job that must be accepted so, and that waits and holds nothing; its number."""
        job = self.deferred_at_first(*terms, **options)
        found = self.slurm.job(job)
        self.assertIn(":deferred=1:", found["AdminComment"])
        self.assertEqual(found["JobState"], "PENDING")
        return job

    def confirmed(self, job):
        """Wait until it runs by a promise; its fields."""
        found = self.started(job)
        self.assertIn("accepted: ", found["Comment"])
        self.assertIn(CONFIRMED, found["Comment"])
        self.assertRegex(found["AdminComment"], r"^libra:v=1:(?!.*:deferred=1:).*:was=\d+")
        return found

    def as_user(self, *words):
        self.change(*words, user=self.slurm.users[0])

    def due_at(self, job):
        terms = self.commitment(job)
        return float(terms["submitted"]) + float(terms["deadline"])

    def until(self, name):
        """A script that goes on until the test makes this file; the file."""
        file = self.slurm.directory / name
        file.unlink(missing_ok=True)
        return file, f"while ! test -e {file}; do sleep 0.1; done\n"

    def given_back(self, job):
        """Wait until nothing is promised to it any more; its comment."""
        self.slurm.wait("given back", lambda: self.record(job).startswith(NOTHING))
        return self.comment(job)

    def tearDown(self):
        self.assertNotIn("libra: fault in", self.slurm.log())
        super().tearDown()


class Deferred(Site):
    """Two nodes of one processor each."""

    site = {"nodes": 2}

    def full(self, node):
        """Nothing more of its kind is to be had there; the job."""
        job = self.accept(560, 600, "-w", node)
        self.booked(job)
        return job

    def test_a_chain(self):
        """Each is asked for when the one before has ended; all are in time."""
        go, script = self.until("go")
        first = self.accept(2, 600, script=script)
        second = self.deferred(2, 600, f"--dependency=afterok:{first}", script="true\n")
        third = self.deferred(2, 600, f"--dependency=afterok:{second}", script="true\n")
        due = {job: self.due_at(job) for job in (second, third)}
        self.running(first)
        for job in (second, third):
            self.waits_for(job, "Dependency")
        # They hold nothing: what both nodes have left is to be had.
        for node in self.slurm.nodes:
            self.accept(540, 600, "-w", node)
        go.touch()
        self.met(first, second, third)
        for job in (second, third):
            self.assertIn(CONFIRMED, self.comment(job))
            # The deadline is where it was.
            self.assertAlmostEqual(self.due_at(job), due[job], delta=0.01)

    def test_one_that_can_never_start(self):
        """Its promise is given back; Slurm keeps it, and says why."""
        first = self.slurm.submit("--hold", script="exit 1\n")
        second = self.deferred(2, 600, f"--dependency=afterok:{first}")
        self.slurm.must("scontrol", "release", first)
        self.slurm.wait_state(first, "FAILED")
        self.assertIn("its deferred promise is given back: what it depends on ", self.given_back(second))
        self.waits_for(second, "DependencyNeverSatisfied")

    def test_a_later_begin(self):
        def later(seconds):
            begins = int(time.time()) + seconds
            answer = self.ask(5, 6000, f"--begin={time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(begins))}", script="true\n")
            found = self.slurm.job(answer.out)
            # One that may begin at once, or nearly so, is not deferred.
            if time.time() >= begins - 2:
                return False
            self.assertIn("libra: deferred: ", answer.err)
            self.assertIn(":deferred=1:", found["AdminComment"])
            self.assertEqual((found["JobState"], found["Reason"]), ("PENDING", "BeginTime"))
            self.assertIn(str(time.localtime(begins + DECADE).tm_year), found["StartTime"])
            self.met(answer.out)
            self.assertGreaterEqual(float(self.commitment(answer.out)["submitted"]), begins)
            return True

        self.slurm.in_time("a job that may begin later", later)

    def test_another_begin(self):
        """By its user and by an administrator; Slurm never has it as it is asked for."""
        slurm = self.slurm
        for by in (self.as_user, self.change):
            job = self.deferred(5, 6000, "--begin=now+3000")
            by("update", f"jobid={job}", "starttime=now+2000")
            self.assertIn(str(time.localtime(time.time() + DECADE).tm_year), slurm.job(job)["StartTime"])
            self.assertIn(":deferred=1:", self.record(job))
            for user in (slurm.users[0], None):
                before = len(slurm.said())
                self.assertNotEqual(slurm.scontrol("update", f"jobid={job}", "starttime=now+7000", user=user).rc, 0)
                self.assertIn("give it a StartTime before its deadline", " ".join(slurm.said()[before:]))
            by("update", f"jobid={job}", "starttime=now")
            self.confirmed(job)
            slurm.scancel(job)

    def test_another_dependency(self):
        job = self.deferred(5, 600, f"--dependency=afterany:{self.full(self.slurm.nodes[0])}")
        self.waits_for(job, "Dependency")
        self.as_user("update", f"jobid={job}", "dependency=")
        self.confirmed(job)
        # From now on it is a commitment as any other.
        for change in ("starttime=now+9", "dependency=singleton", "priority=0"):
            self.assertNotEqual(self.slurm.scontrol("update", f"jobid={job}", change, user=self.slurm.users[0]).rc, 0, change)

    def test_held_and_released_by_its_user(self):
        slurm = self.slurm
        full, free = slurm.nodes
        job = self.deferred(60, 600, "--hold")
        self.waits_for(job, "JobHeldUser")
        # Nobody is refused for its sake, and it gets the node that has room.
        self.full(full)
        self.as_user("release", job)
        found = self.confirmed(job)
        self.assertEqual((slurm.nodes_of(job), found["ReqNodeList"]), ([free], free))
        self.assertAlmostEqual(slurm.entry(free, job)["share"], self.share(job), places=4)
        self.assertNotIn("says something else than slurmctld's records", slurm.log(free))

    def test_held_while_it_waits(self):
        """By its user, who may release it again: it waits on for its time."""
        job = self.deferred(5, 6000, "--begin=now+3000")
        for what, reason in (("hold", "JobHeldUser"), ("release", "BeginTime")):
            self.as_user(what, job)
            self.waits_for(job, reason)
        self.assertIn(":deferred=1:", self.record(job))

    def test_several_nodes(self):
        job = self.deferred(60, 600, "--hold", "-N", "2")
        self.slurm.must("scontrol", "release", job)
        self.confirmed(job)
        self.assertEqual(sorted(self.slurm.nodes_of(job)), self.slurm.nodes)

    def test_without_room_it_waits_and_says_until_when(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = self.deferred(100, 600, "--hold", "-w", node)
        other = self.full(node)
        slurm.must("scontrol", "release", job)
        slurm.wait("it says why", lambda: "deferred: it may start, and waits for room" in self.comment(job))
        self.assertIn("its deadline can be kept if it begins within ", self.comment(job))
        self.waits_for(job, "BeginTime")
        # Whatever is asked meanwhile holds nothing for it, and nothing is written anew with each poll.
        said = len([line for line in slurm.said() if line.startswith(f"job {job}: refused (share)")])
        self.poll()
        self.assertEqual(len([line for line in slurm.said() if line.startswith(f"job {job}: refused (share)")]), said)
        self.assertIn(":deferred=1:", self.record(job))
        slurm.scancel(other)
        self.confirmed(job)

    def test_what_cannot_be_kept_any_more_is_given_back(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        # It has to begin within six seconds, and its deadline is not over when it is released.
        job = self.deferred(600, 636, "--hold", "-w", node)
        self.full(node)
        slurm.must("scontrol", "release", job)
        said = self.given_back(job)
        self.assertIn("its deferred promise is given back: refused (", said)
        slurm.wait("held", lambda: slurm.job(job)["Priority"] == "0")
        self.assertEqual(self.reason(job), "JobHeldAdmin")
        # Nothing is promised to it; an administrator may let it run so.
        self.assertNotEqual(slurm.scontrol("release", job, user=slurm.users[0]).rc, 0)
        slurm.must("scontrol", "release", job)
        self.running(job)
        self.assertTrue(self.record(job).startswith(NOTHING))

    def test_told_while_it_waits(self):
        """Its deadline passes, and nobody has released it."""
        job = self.deferred_at_first(1, 3, "--hold")
        self.assertIn("given back: refused (deadline): its deadline passed before it could start", self.given_back(job))
        self.slurm.must("scontrol", "release", job)
        self.running(job)

    def test_arrays_after_a_job(self):
        """On one node, and spread over both: all tasks by one promise."""
        for estimate, nodes in ((10_000, 1), (25_000, 2)):
            with self.subTest(estimate):
                first = self.deferred(1, 60_000, "--hold", script="true\n")
                array = self.deferred(estimate, 60_000, "--array=1-3", f"--dependency=afterok:{first}", budget=10**9)
                self.waits_for(array, "Dependency")
                self.slurm.must("scontrol", "release", first)
                tasks = [f"{array}_{task}" for task in (1, 2, 3)]
                for task in tasks:
                    self.assertIn(CONFIRMED, self.running(task)["Comment"])
                    self.assertIn(":tasks=1-3", self.record(task))
                self.assertEqual(len({self.slurm.nodes_of(task)[0] for task in tasks}), nodes)
                # Their shares are theirs.
                text = self.refused(self.ask(57_000, 60_000, "-N", "2", budget=10**9))
                self.assertRegex(text, r"refused \((share|nodes)\)")
                self.clear()

    def test_bad_input(self):
        """What Slurm has against a dependency it says itself; what can never be kept is refused at once, with offers."""
        slurm = self.slurm
        done = slurm.submit(script="true\n")
        slurm.wait_state(done, "COMPLETED")
        foreign = slurm.submit("--hold", user=slurm.users[1])
        for depend in ("afterok:99999", "sometime:1", "afterok"):
            with self.subTest(depend):
                plain, ours = slurm.sbatch(f"--dependency={depend}"), self.ask(1, 60, f"--dependency={depend}")
                self.assertEqual(ours.rc, plain.rc)
                if plain.rc != 0:
                    self.assertEqual(ours.err.splitlines()[-1], plain.err.splitlines()[-1])
        # One that has ended well is no reason to wait, somebody else's is one.
        self.confirmed(self.deferred_at_first(1, 600, f"--dependency=afterok:{done}"))
        self.waits_for(self.deferred(1, 6000, f"--dependency=afterok:{foreign}"), "Dependency")
        self.refused(self.ask(10, 60, "--begin=now+3600"), "refused (deadline): it may start ", "after its submission at the earliest (--begin)")
        self.refused(self.ask(50, 60, "--begin=now+30"), "refused (deadline): ", "accepted now would be: --sla-deadline=")
        self.refused(self.ask(90, 60, "--hold"), "refused (deadline): ", "accepted now would be: --sla-deadline=")
        self.refused(self.ask(50, 60, "--hold", budget=1), "refused (budget): ", "accepted now would be: --budget=")
        self.refused(self.ask(50, 60, "--hold", "--array=1-9"), "refused (", "all 9 jobs of the array together")
        self.refused(self.ask(5, 60, "--array=1-2", f"--dependency=aftercorr:{foreign}"), "write afterok")
        self.refused(slurm.sbatch(*self.terms_of(5, 60), "--hold", ":", *self.terms_of(5, 60)), "a heterogeneous job with a deadline starts at once")
        self.refused(self.ask(5, "2000d", "--begin=2099-01-01", budget="unlimited"), "refused (")
        # A time that is over is no reason to wait.
        self.assertIn("libra: accepted: ", self.ask(1, 60, "--begin=now").err)

    def test_srun_waits_for_it(self):
        def waited(seconds):
            answer = self.slurm.srun(*self.terms_of(2, 6000), f"--begin=now+{seconds}", "true", timeout=900)
            self.assertEqual(answer.rc, 0, answer.err)
            return "libra: deferred: " in answer.err

        self.slurm.in_time("srun that may begin later", waited, (3, 30, 150))

    def test_a_quote_says_the_same(self):
        first = self.deferred(1, 600, "--hold")
        for words in (("--hold",), (f"--dependency=afterok:{first}",), ("--begin=now+300",)):
            with self.subTest(words):
                said = self.refused(self.ask(50, 600, "--sla-quote=ask", *words), "libra-quote: ")
                found = json.loads(said[said.index("{"):].splitlines()[0])
                self.assertTrue(found["accepted"])
                self.assertIn("deferred: finished in ", found["text"])
                if not words[0].startswith("--begin"):  # prices follow what is left after the start
                    self.assertIn(found["text"], self.ask(50, 600, *words).err)
        self.refused(self.ask(50, 600, "--hold", "--sla-quote=hold:1m"), "may not start yet")
        front = self.slurm.directory / "front"
        front.mkdir(mode=0o755)
        libra, script = shutil.copy(program(), front), front / "later.sh"
        script.write_text("#!/bin/sh\n#SBATCH --hold --sla-deadline=60 --budget=99 --estimate=30\nsleep 1\n")
        script.chmod(0o755)
        answer = self.slurm.run(libra, "quote", "--json", script, user=self.slurm.users[0])
        self.assertIn("deferred: ", json.loads(answer.out)["text"])

    def test_status_shows_it(self):
        slurm = self.slurm
        job = self.deferred(60, 600, "--hold")
        libra = shutil.copy(program(), slurm.directory / "libra")
        shown = json.loads(slurm.must(libra, "--config", slurm.rules_file, "slurm", "status", "--json"))
        [found] = [one for one in shown["jobs"] if one["id"] == job]
        self.assertEqual((found["state"], found["phase"], found["nodes"], found["share"]), ("deferred", "deferred", [], 0))
        self.assertRegex(slurm.must(libra, "--config", slurm.rules_file, "slurm", "status"), rf"(?m)^{job} .* deferred$")


class Restarted(Site):
    """What ends while slurmctld is down is noticed by nobody, which every test after it would wait for: a cluster of its own."""

    site = {"nodes": 2}

    def test_restarts(self):
        """What is deferred is slurmctld's own record. What comes to an end while it is down starts nothing that was not confirmed."""
        slurm = self.slurm
        go, script = self.until("go")
        first = self.accept(2, 600, script=script)
        self.started(first)
        job = self.deferred(60, 600, f"--dependency=afterany:{first}")
        held = self.deferred(60, 600, "--hold")
        self.waits_for(job, "Dependency")
        slurm.stop_controller()
        go.touch()
        slurm.start_controller()
        slurm.wait_judging(2)
        self.confirmed(job)
        self.assertAlmostEqual(slurm.entry(slurm.nodes_of(job)[0], job)["share"], self.share(job), places=4)
        self.assertIn(":deferred=1:", self.record(held))
        slurm.stop_controller()
        slurm.start_controller()
        slurm.wait_judging(3)
        # It is in the book as any job.
        self.refused(self.ask(560, 600, "-w", slurm.nodes_of(job)[0]), "refused (share)")
        slurm.must("scontrol", "release", held)
        self.confirmed(held)


class Money(AccountsCase, Site):
    """Its budget is covered, its price set aside, and the price of the day it starts charged."""

    site = {"nodes": 1}

    def price(self, job):
        return float(self.commitment(job)["price"])

    def test_from_the_submission_to_the_start(self):
        self.refused(self.ask(10, 100, "--hold", budget=101), "refused (funds)")
        job = self.deferred(10, 6000, "--hold", budget=90)
        price = self.price(job)
        self.held(price)
        # Its budget is more than is free beside its own hold.
        self.as_user("release", job)
        self.confirmed(job)
        self.assertGreaterEqual(self.price(job), price)
        self.held(self.price(job))
        self.slurm.scancel(job)
        self.held(0)
        self.account("check")

    def test_given_back_and_cancelled(self):
        late = self.deferred_at_first(2, 4, "--hold", budget=40)
        self.given_back(late)
        self.held(0)
        job = self.deferred(2, 600, "--hold", "--array=1-2", budget=40)
        self.held(2 * self.price(job))
        self.slurm.scancel(job)
        self.held(0)
        # What only was a test, or Slurm itself refuses, is paid by nobody.
        for words in (("--hold", "--test-only"), ("--dependency=sometime:1",)):
            self.assertIn("libra: deferred: ", self.ask(2, 600, *words, budget=40).err)
        self.held(0)
        self.account("check")


if __name__ == "__main__":
    unittest.main()
