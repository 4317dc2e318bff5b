#!/usr/bin/env python3
"""What AROMA (2004, section 3.1) says of its classes of service, one statement after the other, on an OpenPBS with Libra. On one host: tests/cli/classes.rs; on Slurm:
tests/slurm/test_aroma.py.

Run as root: `tests/openpbs/run test_aroma.py`.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from test_classes import DAYS, HOUR  # noqa: E402
from test_suspended import Suspending  # noqa: E402
from working import Working, gained  # noqa: E402
from scripts import idle_until  # noqa: E402


class Site(Suspending):
    """One host of two processors, with an agent."""

    site = {"hosts": 1, "processors": 2, "agents": True, "server_config": "[class]\nsuspend = 'memory'\n"}

    def working(self, name):
        return Working(self.pbs.directory / "home" / self.pbs.users[0], f"{name}-{self.id().rpartition('.')[2]}", self.file("enough"))

    def asked(self, terms, slots=1, **options):
        return self.pbs.qsub("-l", f"budget=1000000000,{terms}", "-l", f"select=1:ncpus={slots}", **options)


class Aroma(Site):
    """What can be seen at any time."""

    def test_deadline_the_execution_will_end_before_it_and_can_be_immediate_or_deferred(self):
        enough = self.file("enough")
        at_once = self.taken(self.asked(f"estimate={HOUR},deadline={2 * HOUR}", script=idle_until(enough)))
        first = self.taken(self.asked(f"estimate={HOUR},deadline={DAYS},class=dedicated", script=idle_until(enough)))
        self.running(at_once)
        self.running(first)
        deferred = self.planned(HOUR, script="true\n")
        enough.touch()
        self.met(at_once, first, deferred)

    def test_high_priority_the_execution_will_be_immediate(self):
        enough = self.file("enough")
        job = self.taken(self.asked(f"estimate={HOUR},class=immediate", script=idle_until(enough)))
        self.assertIn("a whole processor on ", self.running(job)["Resource_List.libra_info"])
        self.assertEqual(self.quota(job, self.host), 1.0)
        # Where that cannot be it is refused, though a dedicated one would be told a start, and is in no queue.
        known = set(self.pbs.jobs())
        self.refused(self.asked(f"estimate={HOUR},class=immediate", slots=2), "refused (share)")
        self.assertLessEqual(set(self.pbs.jobs()), known)
        deferred = self.planned(HOUR, script="true\n")
        enough.touch()
        self.met(deferred)

    def test_several_tasks_of_different_classes_may_share_the_same_host(self):
        enough = self.file("enough")
        whole = self.taken(self.asked(f"estimate={HOUR},class=immediate", script=idle_until(enough)))
        shares = [self.taken(self.asked(f"estimate={HOUR},deadline={3 * HOUR}", script=idle_until(enough))) for _ in range(2)]
        other = self.pbs.submit("-l", "select=1:ncpus=1", script=idle_until(enough))
        self.pbs.wait_started(other)
        for job in (whole, *shares):
            self.running(job)
        # All constraints are respected: the whole processor, and a third and a little more for each of the two.
        self.assertEqual(self.quota(whole, self.host), 1.0)
        for job in shares:
            self.assertGreaterEqual(self.quota(job, self.host), 1 / 3)
        self.refused(self.asked(f"estimate={HOUR},deadline={2 * HOUR}"), "refused (share)")
        enough.touch()
        self.met(*shares)

    def test_a_running_application_is_stopped_and_goes_on_later_on_the_same_host_or_the_request_is_rejected(self):
        first, enough = self.works()
        host = self.pbs.qstat(first)["exec_host"]
        job, done = self.begins_before(first, "done")
        # Who would have to wait too long behind both is rejected.
        self.refused(self.all_of_it(HOUR, deadline=int(1.2 * HOUR)), "refused (share)")
        done.touch()
        self.met(job)
        self.gone_on(first)
        self.assertEqual(self.pbs.qstat(first)["exec_host"], host)
        self.gets_on(first, self.host)
        enough.touch()
        self.met(first)


class Resources(Site):
    """Who uses them, while nobody else does: best effort has next to nothing on a machine on which others want all there is."""

    measures = 2

    def test_dedicated_each_will_be_the_only_one_to_use_its_resources(self):
        pbs = self.pbs
        alone, beside = self.working("alone"), self.working("beside")
        other = pbs.submit("-l", "select=1:ncpus=1", script=beside.script(2))
        pbs.wait_started(other)
        pbs.wait("the one without terms works", lambda: beside.used() > 0)
        job = self.has_it(HOUR, alone.script(2))
        pbs.wait("it has whole processors", lambda: self.quota(job, self.host) >= 2.0)
        mine, others = gained(alone, beside, pbs.wait)
        self.assertLess(others, 0.2 * mine)
        # Nobody else gets a part of them; the next one is deferred.
        self.refused(self.asked(f"estimate={HOUR},deadline={DAYS}"), "refused (share)")
        deferred = self.planned(HOUR, script="true\n")
        alone.enough.touch()
        self.met(job, deferred)

    def test_without_constraint_as_soon_as_possible_with_available_resources(self):
        pbs = self.pbs
        enough, works = self.file("done"), self.working("works")
        job = self.has_it(HOUR, idle_until(enough))
        # All is promised, and not used: it begins at once, and no promise is made.
        other = pbs.submit("-l", "select=1:ncpus=1", script=works.script(1))
        pbs.wait_started(other)
        pbs.wait("it gets on", lambda: works.used() > 1.0)
        self.assertNotIn("Resource_List.libra_info", pbs.qstat(other))
        enough.touch()
        self.met(job)
        works.enough.touch()
        pbs.wait_state(other, "F")


if __name__ == "__main__":
    unittest.main()
