#!/usr/bin/env python3
"""Jobs with a deadline that may not start yet (-W depend, -a, -h): accepted with a deferred promise, and asked for anew when they may.

Run as root: `python3 tests/openpbs/test_deferred.py`. Nothing here needs much processor time.
"""

import json
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from scripts import idle_until  # noqa: E402
from promises import terms  # noqa: E402
from test_accounts import Accounts as MoneySite  # noqa: E402

CONFIRMED = "(its promise was deferred)"
SLIPPED = "its deferred promise is given back: it still waits, and cannot end by its deadline any more"
ASK = "libra_quote=ask"


def at(seconds):
    """For -a: so many seconds from now."""
    return time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() + seconds))


class Site(SiteCase):
    """What the classes have in common."""

    def info(self, job):
        return self.pbs.qstat(job).get("Resource_List.libra_info", "")

    def deferred(self, job):
        """It was accepted so, and holds nothing; its attributes."""
        found = self.pbs.qstat(job)
        self.assertIn("deferred: ", found["Resource_List.libra_info"])
        self.assertEqual(self.terms(job)["deferred"], "1")
        self.assertNotIn("vnode=", found["Resource_List.select"])
        return found

    def confirmed(self, job):
        """Wait until it runs by a promise; its attributes."""
        found = self.running(job)
        self.assertIn("accepted: ", found["Resource_List.libra_info"])
        self.assertIn(CONFIRMED, found["Resource_List.libra_info"])
        self.assertNotIn("deferred", self.terms(job))
        return found

    def in_cycles(self, what, is_so):
        """Wait for something that PBS's scheduler comes to in some cycle."""
        def reached():
            self.pbs.cycle()
            return is_so()
        return self.pbs.wait(what, reached)

    due_at = MoneySite.due_at

    def restart(self):
        self.pbs.kill_server()
        self.pbs.start_server()
        self.pbs.wait("its hosts are up", lambda: all(self.pbs.node(host)["state"] == "free" for host in self.pbs.host_names))


class Deferred(Site):
    """Two hosts of one processor each."""

    site = {"hosts": 2}

    def tearDown(self):
        super().tearDown()
        self.assertNotIn("libra: fault in", self.pbs.log())

    def test_a_chain(self):
        """Each is asked for when the one before has ended; all are in time."""
        go = self.pbs.directory / "go"
        first = self.accept(2, 600, script=idle_until(go))
        second = self.accept(2, 600, "-W", f"depend=afterok:{first}", script="true\n")
        third = self.accept(2, 600, "-W", f"depend=afterok:{second}", script="true\n")
        due = {job: self.due_at(job) for job in (second, third)}
        for job in (second, third):
            self.assertEqual(self.deferred(job)["job_state"], "H")
        self.running(first)
        # They hold nothing: what both hosts have left is to be had.
        for host in self.pbs.host_names:
            self.pbs.submit(*terms(0.98, host))
        go.touch()
        self.met(first)
        for job in (second, third):
            self.pbs.wait_state(job, "F")
            self.assertIn(CONFIRMED, self.info(job))
            # The deadline is where it was.
            self.assertAlmostEqual(self.due_at(job), due[job], delta=0.01)
        self.met(second, third)

    def test_one_that_failed(self):
        """PBS deletes what waits for its success: nothing of that is left."""
        first = self.accept(2, 600, "-h", script="exit 1\n")
        second = self.accept(2, 600, "-W", f"depend=afterok:{first}")
        self.pbs.must("qrls", first)
        self.pbs.wait_state(first, "F")
        self.pbs.wait_state(second, "F")

    def test_a_later_start(self):
        def looked_at(ahead):
            begins = time.time() + ahead
            job = self.accept(5, 6000, "-a", at(ahead), script="true\n")
            found = self.pbs.qstat(job)
            return (begins, job, found) if time.time() < begins - 2 else None

        begins, job, found = self.pbs.in_time("a job that may begin later", looked_at)
        self.assertEqual(found["job_state"], "W")
        self.assertIn("deferred: ", found["Resource_List.libra_info"])
        self.assertIn(":deferred=1", found["Resource_List.libra_terms"])
        self.assertNotIn("vnode=", found["Resource_List.select"])
        self.met(job)
        self.assertGreaterEqual(float(self.terms(job)["submitted"]), begins - 2)

    def test_qalter_of_the_start(self):
        job = self.accept(5, 6000, "-a", at(3600))
        self.deferred(job)
        self.pbs.must("qalter", "-a", at(2), job)
        self.confirmed(job)

    def test_held_and_released(self):
        job = self.accept(600, 6000, "-h")
        self.assertEqual(self.deferred(job)["job_state"], "H")
        # Nobody is refused for its sake, and there is room for it later on.
        for host in self.pbs.host_names:
            self.pbs.submit(*terms(0.875, host))
        self.refused(self.ask(900, 6000), "refused (share)")
        self.pbs.must("qrls", job)
        found = self.confirmed(job)
        self.assertIn("vnode=", found["Resource_List.select"])
        self.assertGreater(float(found["Resource_List.libra_share"]), 0.1)

    def test_it_finds_the_node_that_has_room(self):
        """PBS's scheduler alone would try the first."""
        full, free = self.pbs.host_names
        job = self.accept(60, 600, "-h")
        other = self.accept(560, 600, "-l", f"select=1:host={full}")
        self.running(other)
        self.pbs.must("qrls", job)
        self.confirmed(job)
        self.assertEqual(self.pbs.node_of(job), [free])

    def test_several_chunks(self):
        job = self.accept(60, 600, "-h", "-l", "select=2:ncpus=1", "-l", "place=scatter")
        self.pbs.must("qrls", job)
        self.confirmed(job)
        self.assertEqual(sorted(self.pbs.node_of(job)), self.pbs.host_names)

    def test_without_room_it_waits_and_says_until_when(self):
        host = self.pbs.host_names[0]
        where = ("-l", f"select=1:host={host}")
        job = self.accept(100, 600, "-h", *where)
        other = self.accept(560, 600, *where)
        self.running(other)
        self.pbs.must("qrls", job)
        self.in_cycles("it says why", lambda: "libra: refused (share): " in self.pbs.qstat(job).get("comment", ""))
        self.assertIn("its deadline can be kept if it begins within ", self.info(job))
        # Whatever is asked meanwhile holds nothing for it.
        self.assertEqual(self.terms(job)["deferred"], "1")
        self.pbs.qdel(other)
        self.in_cycles("it runs", lambda: self.pbs.qstat(job)["job_state"] == "R")
        self.confirmed(job)

    def test_what_cannot_be_kept_any_more_is_given_back(self):
        host = self.pbs.host_names[0]
        where = ("-l", f"select=1:host={host}")
        job = self.accept(10, 20, "-h", *where)
        self.running(self.accept(560, 600, *where))
        self.pbs.must("qrls", job)
        self.in_cycles("it is held", lambda: "s" in self.pbs.qstat(job).get("Hold_Types", "n"))
        self.assertIn("its deferred promise is given back: refused (", self.info(job))
        self.assertEqual(self.pbs.qstat(job)["Resource_List.libra_terms"], "-")
        # Nothing is promised to it; an administrator may let it run so.
        self.pbs.must("qrls", "-h", "s", job)
        self.in_cycles("it runs", lambda: self.pbs.qstat(job)["job_state"] == "R")
        self.running(job)

    def test_told_while_it_waits(self):
        """The last moment passes at which it could begin, and nobody has released it."""
        pbs = self.pbs
        job = self.accept(1, 3, "-h")
        pbs.qmgr("set hook libra_periodic enabled = false", "set hook libra_periodic freq = 1", "set hook libra_periodic enabled = true")
        self.addCleanup(pbs.qmgr, "set hook libra_periodic enabled = false", "set hook libra_periodic freq = 30", "set hook libra_periodic enabled = true")
        pbs.wait("it says so", lambda: SLIPPED in self.info(job))
        pbs.must("qrls", job)
        self.in_cycles("it is held", lambda: "s" in pbs.qstat(job).get("Hold_Types", "n"))
        pbs.wait("it says why", lambda: "given back: refused (deadline): " in self.info(job))

    def test_an_array_after_a_job(self):
        first = self.accept(1, 600, "-h", script="true\n")
        array = self.accept(60, 600, "-J", "1-3", "-W", f"depend=afterok:{first}")
        self.assertIn("deferred: 3 jobs, each finished in ", self.info(array))
        for host in self.pbs.host_names:
            before = self.accept(560, 600, "-l", f"select=1:host={host}")
            self.pbs.qdel(before)
            # What it had is free when it has ended, and not when that was asked for.
            self.pbs.wait_state(before, "F")
        self.pbs.must("qrls", first)
        for index in (1, 2, 3):
            subjob = array.replace("[]", f"[{index}]")
            self.assertIn(CONFIRMED, self.running(subjob)["Resource_List.libra_info"])
        # Their shares are theirs.
        self.refused(self.ask(590, 600, "-l", "select=2:ncpus=1", "-l", "place=scatter"), "refused (")

    def test_bad_input(self):
        """What PBS has against a dependency it says itself; what can never be kept is refused at once, with offers."""
        done, other = self.pbs.submit(script="true\n"), self.pbs.submit("-h", user=self.pbs.users[1])
        self.pbs.wait_state(done, "F")
        for depend in ("afterok:99999", f"afterok:{done}", f"afterok:{other}", "afterok:1.nowhere", "sometime:1", "afterok"):
            with self.subTest(depend):
                plain, ours = self.pbs.qsub("-W", f"depend={depend}"), self.ask(1, 600, "-W", f"depend={depend}")
                self.assertEqual((ours.rc, ours.err), (plain.rc, plain.err))
                if plain.rc == 0:
                    # PBS ends it, runs it, or lets it wait.
                    state = self.pbs.wait_state(plain.out, "FRH")["job_state"]
                    self.pbs.wait_state(ours.out, state)
        self.refused(self.ask(10, 60, "-a", at(3600)), "refused (deadline): it may start ", "after its submission at the earliest (-a)")
        self.refused(self.ask(500, 600, "-a", at(300)), "refused (deadline): ", "accepted now would be: deadline=")
        self.refused(self.ask(90, 60, "-h"), "refused (deadline): ", "accepted now would be: deadline=")
        self.refused(self.ask(50, 60, "-h", budget=1), "refused (budget): ", "accepted now would be: budget=")
        self.refused(self.ask(50, 60, "-h", "-J", "1-9"), "refused (", "all 9 jobs of the array together")
        # A time that is over is no reason to wait, nor is a job that waits for this one.
        for words in (("-a", "202001010000"), ("-W", f"depend=beforeany:{self.accept(1, 600, '-W', 'depend=on:1')}")):
            with self.subTest(words):
                self.assertIn("accepted: ", self.info(self.accept(1, 60, *words)))

    def test_a_restart(self):
        """What is deferred is PBS's own record."""
        job = self.accept(60, 600, "-h")
        waits = self.accept(1, 6000, "-W", f"depend=afterany:{job}")
        self.restart()
        for one in (job, waits):
            self.deferred(one)
        self.pbs.must("qrls", job)
        self.confirmed(job)
        self.restart()
        # It is in the book as any job.
        host = self.pbs.node_of(job)[0]
        self.refused(self.ask(560, 600, "-l", f"select=1:host={host}"), "refused (share)")
        self.pbs.qdel(job)
        self.confirmed(waits)

    def test_a_quote_says_the_same(self):
        first = self.accept(1, 600, "-h")
        for words in (("-h",), ("-W", f"depend=afterok:{first}"), ("-a", at(300))):
            with self.subTest(words):
                said = self.refused(self.ask(50, 600, "-l", ASK, *words), "libra-quote: ")
                found = json.loads(said[said.index("{"):].splitlines()[0])
                job = self.accept(50, 600, *words)
                self.assertTrue(found["accepted"])
                self.assertIn("deferred: finished in ", found["text"])
                if words[0] != "-a":  # prices follow what is left after the start
                    self.assertEqual(found["text"], self.info(job))
                self.pbs.qdel(job)
        self.refused(self.ask(50, 600, "-h", "-l", "libra_quote=hold:1m"), "may not start yet")
        script = self.pbs.directory / "later.sh"
        script.write_text("#!/bin/sh\n#PBS -h\n#PBS -l deadline=60,budget=99,estimate=30\nsleep 1\n")
        script.chmod(0o755)
        answer = self.pbs.run(self.pbs.libra, "quote", "--json", script, user=self.pbs.users[0])
        self.assertIn("deferred: ", json.loads(answer.out)["text"])

    def test_status_shows_it(self):
        job = self.accept(60, 600, "-h")
        shown = json.loads(self.pbs.must(self.pbs.libra, "--config", self.pbs.own / "server.toml", "pbs", "status", "--json"))
        [found] = [one for one in shown["jobs"] if one["id"] == job]
        self.assertEqual((found["state"], found["phase"], found["nodes"], found["share"]), ("deferred", "deferred", [], 0))
        text = self.pbs.must(self.pbs.libra, "--config", self.pbs.own / "server.toml", "pbs", "status")
        self.assertRegex(text, rf"(?m)^{job} .* deferred$")


class Money(MoneySite, Site):
    """Its budget is covered, its price set aside, and the price of the day it starts charged."""

    def test_from_the_submission_to_the_start(self):
        self.refused(self.ask(10, 100, "-h", budget=101), "refused (funds)")
        job = self.accept(10, 1000, "-h", budget=90)
        price = self.price(job)
        self.held(price)
        # Its budget is more than is free beside its own hold.
        self.pbs.must("qrls", job)
        self.confirmed(job)
        self.assertGreater(self.price(job), price)
        self.held(self.price(job))
        self.account("check")

    def test_given_back(self):
        job = self.accept(5, 20, "-h", budget=50)
        self.held(self.price(job))
        self.pbs.wait("its deadline is over", lambda: time.time() > self.due_at(job))
        self.pbs.must("qrls", job)
        self.in_cycles("it is held", lambda: "s" in self.pbs.qstat(job).get("Hold_Types", "n"))
        self.held(0)
        self.account("check")

    def test_a_planned_start(self):
        """Its price is set aside from its acceptance, and is the one that it was told."""
        whole = ("-l", "class=dedicated", "-l", f"select=1:host={self.pbs.host_names[0]}")
        enough, done = self.pbs.own / "planned.enough", self.pbs.own / "planned.done"
        # For two of an hour, in which the first does not outlive its estimate.
        self.account("deposit", self.user, "20000")
        first = self.accept(3600, 60_000, *whole, budget=10_000, script=idle_until(enough))
        self.running(first)
        price = self.price(first)
        self.held(price)
        job = self.accept(3600, 60_000, *whole, budget=10_000, script=idle_until(done))
        self.assertIn("planned: ", self.info(job))
        told = self.price(job)
        self.held(price + told)
        enough.touch()
        self.assertIn("(it was planned)", self.running(job)["Resource_List.libra_info"])
        self.assertAlmostEqual(self.price(job), told, places=6)
        self.held(told)
        done.touch()
        self.held(0)
        self.account("check")


for name in [name for name in dir(MoneySite) if name.startswith("test_")]:
    setattr(Money, name, None)  # they are tested where they stand


if __name__ == "__main__":
    unittest.main(verbosity=2)
