#!/usr/bin/env python3
"""What AROMA (2004, section 3.1) says of its classes of service, one statement after the other, on a Slurm with Libra. On one host: tests/cli/classes.rs; on PBS:
tests/openpbs/test_aroma.py.

Run as root: `tests/slurm/run test_aroma.py`.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from test_planned import DAYS, HOUR  # noqa: E402
from test_suspended import MEMORY, Suspending  # noqa: E402
from working import Working, gained  # noqa: E402
from scripts import idle_until  # noqa: E402


class Site(Suspending):
    """One node of two processors, with an agent."""

    site = {"nodes": 1, "cpus": 2, "agents": True, "rules": MEMORY}

    def working(self, name):
        return Working(self.slurm.home(self.slurm.users[0]), f"{name}-{self.id().rpartition('.')[2]}", self.file("enough"))

    def at_best(self, script):
        """One without terms; its number."""
        answer = self.slurm.sbatch("-n", 1, user=self.slurm.users[0], script=script)
        self.assertEqual((answer.rc, answer.err), (0, ""))
        return answer.out

    def immediate(self, slots, *more, **options):
        return self.slurm.judged("--sla-class=immediate", f"--estimate={HOUR}", "--budget=1000000000", "-n", 1, "-c", slots, *more, **options)


class Aroma(Site):
    """What can be seen at any time."""

    def test_deadline_the_execution_will_end_before_it_and_can_be_immediate_or_deferred(self):
        enough = self.file("enough")
        at_once = self.accept(HOUR, 2 * HOUR, "-n", 1, budget=10**9, script=idle_until(enough))
        self.started(at_once)
        first = self.ask(HOUR, DAYS, "--sla-class=dedicated", "-n", 1, budget=10**9, script=idle_until(enough))
        self.assertIn("libra: accepted: ", first.err)
        deferred = self.planned(HOUR, script="true\n")
        self.assertEqual(self.slurm.state(deferred), "PENDING")
        enough.touch()
        self.met(at_once, first.out, deferred)

    def test_high_priority_the_execution_will_be_immediate(self):
        enough = self.file("enough")
        answer = self.immediate(1, script=idle_until(enough))
        self.assertRegex(answer.err, "libra: accepted: a whole processor on .* from now on, ")
        self.started(answer.out)
        self.assertEqual(self.quota(answer.out, self.slurm.nodes[0]), 1.0)
        # Where that cannot be it is refused, though a dedicated one would be told a start, and is in no queue.
        known = set(self.slurm.jobs())
        self.refused(self.immediate(2), "refused (share)")
        self.assertLessEqual(set(self.slurm.jobs()), known)
        deferred = self.planned(HOUR, script="true\n")
        enough.touch()
        self.met(deferred)

    def test_several_tasks_of_different_classes_may_share_the_same_host(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        enough = self.file("enough")
        whole = self.immediate(1, script=idle_until(enough))
        self.started(whole.out)
        shares = [self.accept(HOUR, 3 * HOUR, "-n", 1, budget=10**9, script=idle_until(enough)) for _ in range(2)]
        other = self.at_best(idle_until(enough))
        for job in shares:
            self.started(job)
        self.running(other)
        self.assertEqual({job: slurm.nodes_of(job) for job in (whole.out, *shares, other)}, {job: [node] for job in (whole.out, *shares, other)})
        # All constraints are respected: the whole processor, and a third and a little more for each of the two.
        self.assertEqual(self.quota(whole.out, node), 1.0)
        for job in shares:
            self.assertGreaterEqual(self.quota(job, node), 1 / 3)
        self.refused(self.ask(HOUR, 2 * HOUR, "-n", 1, budget=10**9), "refused (share)")
        enough.touch()
        self.met(*shares)

    def test_a_running_application_is_stopped_and_goes_on_later_on_the_same_host_or_the_request_is_rejected(self):
        slurm = self.slurm
        first, enough = self.works()
        job, done = self.begins_before(first, "done")
        self.assertEqual(slurm.nodes_of(first), slurm.nodes_of(job))
        # Who would have to wait too long behind both is rejected.
        self.refused(self.whole(HOUR, deadline=int(1.2 * HOUR)), "refused (share)")
        done.touch()
        self.met(job)
        self.gone_on(first)
        self.assertEqual(slurm.nodes_of(first), [slurm.nodes[0]])
        self.gets_on(first, slurm.nodes[0])
        enough.touch()
        self.met(first)


class Resources(Site):
    """Who uses them, while nobody else does: best effort has next to nothing on a machine on which others want all there is."""

    measures = 2

    def test_dedicated_each_will_be_the_only_one_to_use_its_resources(self):
        slurm = self.slurm
        alone, beside = self.working("alone"), self.working("beside")
        other = self.at_best(beside.script(2))
        self.running(other)
        slurm.wait("the one without terms works", lambda: beside.used() > 0)
        job = self.runs(HOUR, alone.script(2))
        slurm.wait("it has whole processors", lambda: self.quota(job, slurm.nodes[0]) >= 2.0)
        mine, others = gained(alone, beside, slurm.wait)
        self.assertLess(others, 0.2 * mine)
        # Nobody else gets a part of them; the next one is deferred.
        self.refused(self.ask(HOUR, DAYS, "-n", 1, budget=10**9), "refused (share)")
        deferred = self.planned(HOUR, script="true\n")
        alone.enough.touch()
        self.met(job, deferred)

    def test_without_constraint_as_soon_as_possible_with_available_resources(self):
        slurm = self.slurm
        enough, works = self.file("done"), self.working("works")
        job = self.runs(HOUR, idle_until(enough))
        # All is promised, and not used: it begins at once, and no promise is made.
        other = self.at_best(works.script(1))
        self.running(other)
        slurm.wait("it gets on", lambda: works.used() > 1.0)
        self.assertNotIn("libra:", slurm.job(other).get("AdminComment", ""))
        enough.touch()
        self.met(job)
        works.enough.touch()
        slurm.wait("it is done", lambda: slurm.state(other) == "COMPLETED")


if __name__ == "__main__":
    unittest.main()
