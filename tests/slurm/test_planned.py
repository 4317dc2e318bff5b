#!/usr/bin/env python3
"""Dedicated jobs with a planned start on a Slurm with Libra: accepted for later, kept, begun in time and sooner, through the death of slurmctld.

Run as root: `tests/slurm/run test_planned.py`. Nothing is measured here: what a job may use stands in its cgroup.
"""

import json
import pathlib
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from libra_site import program  # noqa: E402
from scripts import busy_until, idle_until  # noqa: E402
from promises import is_saved  # noqa: E402
from test_accounts import AccountsCase  # noqa: E402
from test_deferred import Site  # noqa: E402

HOUR = 3600
DAYS = 10 * 24 * HOUR
BEGUN = "(it was planned)"
# Said of a job that begins where the host has not heard of the end of the one before it: it has all of its processors a moment later.
LEFT = "are left beside what others were promised"


class Planning(Site):
    """What the classes have in common."""

    def file(self, name):
        """A file for which a job waits; it is not there yet."""
        file = self.slurm.directory / f"{name}-{self.id().rpartition('.')[2]}"
        file.unlink(missing_ok=True)
        return file

    def whole(self, estimate, *more, deadline=DAYS, budget=10**9, **options):
        """Ask for all of the first node as a dedicated job; sbatch's answer."""
        return self.ask(estimate, deadline, "--sla-class=dedicated", "-n", 1, "-c", self.slurm.plan["cpus"][0], "-w", self.slurm.nodes[0], *more,
                        budget=budget, **options)

    def runs(self, estimate, script, more=(), **options):
        """One that has the first node; its number."""
        answer = self.whole(estimate, *more, script=script, **options)
        self.assertEqual(answer.rc, 0, answer.err)
        self.assertIn("libra: accepted: ", answer.err)
        self.started(answer.out)
        return answer.out

    def for_later(self, estimate, *more, **options):
        """One that is accepted for later; its number."""
        answer = self.whole(estimate, *more, **options)
        self.assertEqual(answer.rc, 0, answer.err)
        self.assertRegex(answer.err, r"libra: planned: \S.* on \S+, or elsewhere sooner: begins in .+ at the latest, finished in ")
        return answer.out

    def planned(self, estimate, *more, **options):
        """The same of one that waits until somebody ends it."""
        job = self.for_later(estimate, *more, **options)
        self.assertIn(":starts-by=", self.record(job))
        return job

    def starts_by(self, job):
        return float(self.commitment(job)["starts-by"])

    def begun(self, job):
        """Wait until it runs in its place; its fields."""
        found = self.started(job)
        self.assertIn("accepted: ", found["Comment"])
        self.assertIn(BEGUN, found["Comment"])
        self.assertNotIn("starts-by", found["AdminComment"])
        node = self.slurm.nodes_of(job)[0]
        if f"job {job}: " not in "".join(line for line in self.slurm.log(node).splitlines() if LEFT in line):
            self.assertEqual(self.slurm.entry(node, job)["share"], 1.0)
        elif self.slurm.with_agents:
            self.slurm.wait("it has its processors", lambda: self.quota(job, node) >= self.slurm.plan["cpus"][0])
        return found

    def shown(self, job):
        """The job in `libra slurm status`."""
        libra = shutil.copy(program(), self.slurm.directory / "libra")
        status = json.loads(self.slurm.must(libra, "--config", self.slurm.rules_file, "slurm", "status", "--json"))
        [found] = [one for one in status["jobs"] if one["id"] == job]
        return found


class Planned(Planning):
    """Two nodes of two processors each, with agents, so that shares are taken anew as jobs get on."""

    site = {"nodes": 2, "cpus": 2, "agents": True}

    def test_it_waits_in_its_place_and_begins_when_there_is_room(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        enough = self.file("enough")
        first = self.runs(HOUR, idle_until(enough))
        job = self.planned(HOUR, script="true\n")
        self.waits_for(job, "BeginTime")
        slurm.wait("it says so", lambda: "libra: planned: " in self.comment(job))
        # When the first is done at the latest: its estimate with the margin, from when it began. That was between the two submissions.
        before, after = (float(self.commitment(one)["submitted"]) for one in (first, job))
        self.assertTrue(before - 1 <= self.starts_by(job) - 1.05 * HOUR <= after + 1, (before, self.starts_by(job), after))
        found = self.shown(job)
        self.assertEqual((found["state"], found["phase"], found["nodes"], found["share"]), ("planned", "planned", [node], 0))
        self.assertAlmostEqual(found["starts_by"], self.starts_by(job), places=3)
        # A second one is planned behind it, one that is due before that cannot be kept, and nobody has a share in its time.
        second = self.planned(HOUR, script="true\n")
        self.assertGreater(self.starts_by(second), self.starts_by(job) + HOUR)
        self.refused(self.whole(HOUR, deadline=int(2.5 * HOUR)), "refused (share)")
        self.refused(self.ask(HOUR, DAYS, "-n", 1, "-w", node, budget=10**9), "refused (share)")
        # Nobody lets it begin before.
        self.assertNotEqual(slurm.scontrol("release", job, user=slurm.users[1]).rc, 0)
        self.assertEqual(slurm.state(job), "PENDING")
        enough.touch()
        self.met(first, job, second)
        for one in (job, second):
            self.assertIn(BEGUN, self.comment(one))

    def test_it_begins_elsewhere(self):
        """On the first node that it fits on, though it was planned on another."""
        slurm = self.slurm
        enough, others = self.file("enough"), self.file("others")
        jobs = [self.ask(estimate, DAYS, "--sla-class=dedicated", "-n", 1, "-c", 2, "-w", node, budget=10**9, script=idle_until(file)).out
                for node, estimate, file in zip(slurm.nodes, (HOUR, 2 * HOUR), (others, enough))]
        for one in jobs:
            self.started(one)
        answer = self.ask(HOUR, DAYS, "--sla-class=dedicated", "-n", 1, "-c", 2, budget=10**9, script=idle_until(others))
        self.assertIn(f"libra: planned: 2 whole processors on {slurm.nodes[0]}, or elsewhere sooner: ", answer.err)
        enough.touch()
        self.begun(answer.out)
        self.assertEqual(slurm.nodes_of(answer.out), [slurm.nodes[1]])
        others.touch()
        self.met(*jobs, answer.out)

    def test_who_outlives_its_estimate_gives_way_to_who_is_due(self):
        """The promise of the one behind it is kept; it goes on with what that leaves."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        enough, done = self.file("enough"), self.file("done")
        def planned(estimate):
            """Behind one that has not used its estimate yet."""
            first = self.runs(estimate, busy_until(enough))
            answer = self.whole(HOUR, script=idle_until(done))
            if "libra: planned: " in answer.err and (starts_by := self.commitment(answer.out).get("starts-by")):
                return first, answer.out, float(starts_by)
            self.clear()
            return None

        first, job, starts_by = slurm.in_time("a job of so short an estimate", planned, (10, 40, 120))
        self.begun(job)
        self.assertGreaterEqual(time.time(), starts_by)
        self.assertEqual(slurm.state(first), "RUNNING")
        # Its host may have begun with the first some seconds later than slurmctld.
        slurm.wait("it has its processors", lambda: self.quota(job, node) >= 2.0)
        slurm.wait("the first has less", lambda: self.quota(first, node) < 0.5)
        done.touch()
        self.met(job)
        slurm.wait("it has its processors again", lambda: self.quota(first, node) >= 2.0)
        enough.touch()
        self.met(first)

    def test_its_user_keeps_it_from_beginning(self):
        """Nobody is refused for its sake then; released, it is asked for like any other whose promise was deferred."""
        enough = self.file("enough")
        first = self.runs(HOUR, idle_until(enough))
        job = self.planned(HOUR, script="true\n")
        self.as_user("hold", job)
        self.slurm.wait("its place is not kept", lambda: "starts-by" not in self.record(job))
        self.assertIn("its place is not kept any more", self.comment(job))
        other = self.planned(HOUR, deadline=int(2.5 * HOUR), script="true\n")
        self.slurm.scancel(other)
        enough.touch()
        self.met(first)
        self.as_user("release", job)
        self.met(job)

    def test_cancelled_and_only_tested(self):
        enough = self.file("enough")
        first = self.runs(HOUR, idle_until(enough))
        tested = self.whole(HOUR, "--test-only")
        self.assertIn("libra: planned: ", tested.err)
        behind = int(2.5 * HOUR)

        def taken():
            answer = self.whole(HOUR, deadline=behind)
            return answer.out if answer.rc == 0 else None

        job = self.slurm.wait("nothing is kept for a test", taken)
        self.refused(self.whole(HOUR, deadline=behind), "refused (share)")
        self.slurm.scancel(job)
        self.slurm.scancel(self.slurm.wait("its place is free", taken))
        enough.touch()
        self.met(first)

    def test_what_is_not_planned(self):
        """Told at once what would be taken, or that nothing is."""
        enough = self.file("enough")
        first = self.runs(HOUR, idle_until(enough))
        self.refused(self.whole(HOUR, "--array=1-2"), "refused (share)")
        self.refused(self.whole(HOUR, deadline=int(1.5 * HOUR)), "refused (share)")
        self.refused(self.whole(HOUR, budget=100), "refused (budget)")
        immediate = self.slurm.sbatch("--sla-class=immediate", f"--estimate={HOUR}", "--budget=1000000", "-n", 1, "-w", self.slurm.nodes[0])
        self.refused(immediate, "refused (share)")
        # A quote says the same as the submission.
        said = self.refused(self.whole(HOUR, "--sla-quote=ask"), "libra-quote: ")
        found = json.loads(said[said.index("{"):].splitlines()[0])
        self.assertTrue(found["accepted"])
        self.assertRegex(found["text"], r"planned: 2 whole processors on \S+, or elsewhere sooner: begins in ")
        enough.touch()
        self.met(first)


class Killed(Planning):
    """What ends while slurmctld is down is noticed by nobody, which every test after it would wait for: a cluster of its own."""

    site = {"nodes": 1, "cpus": 2}

    def test_the_plan_is_there_again(self):
        """It is made of the jobs' own records."""
        slurm = self.slurm
        enough = self.file("enough")
        first = self.runs(HOUR, idle_until(enough))
        job = self.planned(HOUR, script="true\n")
        starts_by = self.starts_by(job)
        slurm.wait("saved", lambda: is_saved(slurm, first, job))
        for times in (2, 3):
            slurm.kill_controller()
            slurm.start_controller()
            slurm.wait_judging(times)
            self.assertEqual((self.starts_by(job), slurm.state(job)), (starts_by, "PENDING"))
            self.waits_for(job, "BeginTime")
            self.refused(self.whole(HOUR, deadline=int(2.5 * HOUR)), "refused (share)")
        # One that was due while nobody was there begins as soon as somebody is.
        slurm.kill_controller()
        enough.touch()
        slurm.start_controller()
        slurm.wait_judging(4)
        slurm.wait("both are done", lambda: slurm.state(first) == slurm.state(job) == "COMPLETED")
        self.assertIn(BEGUN, self.comment(job))


class Paid(AccountsCase, Planning):
    """Its price is set aside from its acceptance, and is the one that it was told."""

    site = {"nodes": 1}

    def test_from_the_submission_to_the_end(self):
        enough, done = self.file("enough"), self.file("done")
        # For three of an hour, in which the first does not outlive its estimate.
        self.account("deposit", self.user, "30000")
        first = self.runs(HOUR, idle_until(enough), budget=10_000)
        price = float(self.commitment(first)["price"])
        self.held(price)
        job = self.planned(HOUR, budget=10_000, script=idle_until(done))
        told = float(self.commitment(job)["price"])
        self.held(price + told)
        other = self.planned(HOUR, budget=10_000, script="true\n")
        self.held(price + told + float(self.commitment(other)["price"]))
        self.slurm.scancel(other)
        self.held(price + told)
        enough.touch()
        self.begun(job)
        self.assertAlmostEqual(float(self.commitment(job)["price"]), told, places=6)
        self.held(told)
        done.touch()
        self.held(0)
        self.account("check")


if __name__ == "__main__":
    unittest.main()
