"""Jobs with a deadline that may not start yet (-h, -a, -hold_jid): accepted with a deferred promise, and asked for anew when they may."""

import json
import re
import time
import unittest

from case import MARGIN, CellCase
from cluster import HOSTS, MASTER
from test_accounts import Accounts as MoneySite


def at(seconds):
    """For -a: so many seconds from now."""
    return time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() + seconds))


class Site(CellCase):
    """What the classes have in common."""

    def deferred(self, job, commitment=None, details=None):
        """It was accepted so, and holds nothing; it is looked at here where it was not before."""
        self.assertEqual((commitment or self.commitment(job))["deferred"], "1")
        details = details or self.cell.details(job)
        self.assertIn("libra_accepted=deferred: ", details["context"])
        self.assertIn(f"libra_start=*+{job}:*", details["hard resource_list"])

    def starts(self, host):
        """Numbers of the jobs that may start on a host by its value."""
        text = self.cell.must("qconf", "-se", host).replace("\\\n", "")
        return re.findall(r"[+](\d+):", re.search(r"(?m)^complex_values\s+(.*)$", text)[1])

    def confirmed(self, job):
        """Wait until it runs by a promise; its host."""
        host = self.cell.wait_running(job)
        self.assertIn(str(job), self.starts(host))
        self.assertIn(f"job {job} of ", self.cell.log())
        self.assertIn("(its promise was deferred)", self.cell.log())
        return host

    def release(self, job):
        self.cell.must("qrls", job, user=self.cell.users[0])

    def fill_host(self, host, *more):
        estimate = 86400 * 20
        return self.accept(estimate, int(estimate * MARGIN) + 60, "-l", f"h={host}", "-pe", "smp", self.cell.slots(host), *more, budget=10**12)


class Deferred(Site):
    def test_a_chain(self):
        """Each is asked for when the one before has ended; nobody is refused for their sake meanwhile."""
        cell = self.cell
        go = cell.home(cell.users[0]) / "go"
        first = self.accept(60, "1h", script=f"while ! [ -e {go} ]; do sleep 0.2; done\n")
        second = self.accept(60, "2h", "-hold_jid", first, script="true\n")
        third = self.accept(60, "2h", "-hold_jid", second, script="grep -E 'cpu[:,]' /proc/self/cgroup\n")
        for job in (second, third):
            self.deferred(job)
            self.assertEqual(cell.state(job), "hqw")
        cell.wait_running(first)
        # They hold nothing: a whole host is to be had.
        cell.must("qdel", self.fill_host(next(host for host in HOSTS if host != cell.host_of(first))))
        go.touch()
        cell.wait_gone(third)
        go.unlink()
        for job in (first, second, third):
            cell.wait(f"job {job} was in time", lambda job=job: f"job {job} met its deadline" in cell.log())
        self.assertRegex(cell.output(third), rf"/{cell.cgroup_root('g')}[12]/job-{third}")
        cell.wait("no host lets them start any more", lambda: not self.starts("g1") and not self.starts("g2"))

    def test_held_and_released(self):
        job = self.accept(600, "2h", "-h")
        self.deferred(job)
        for host in HOSTS:
            self.cell.must("qdel", self.fill_host(host))
        self.cell.wait("nothing is committed", lambda: sum(self.cell.committed().values()) < 0.01)
        self.release(job)
        host = self.confirmed(job)
        share = json.loads(self.cell.status())
        [found] = [one for one in share["jobs"] if one["id"] == job]
        self.assertEqual((found["phase"], found["nodes"]), ("running", [host]))
        self.assertGreater(self.cell.committed()[host], 600 * MARGIN / 7200 - 0.001)
        self.cell.wait("it is in its group", lambda: self.processes(job, host))

    def test_a_later_start(self):
        def judged(ahead):
            """Looked at in time; else it is one that may begin."""
            begins = time.time() + ahead
            job = self.accept(60, "2h", "-a", at(ahead))
            found = self.commitment(job), self.cell.details(job)
            return (begins, job, found) if time.time() < begins - 2 else None

        begins, job, found = self.cell.in_time("a job that may begin later", judged)
        self.deferred(job, *found)
        self.confirmed(job)
        self.assertGreater(time.time(), begins - 2)
        over = self.accept(60, "2h", "-a", "202001010000")
        self.assertNotIn("deferred", self.commitment(over))

    def test_it_finds_the_host_that_has_room(self):
        for full, free in (HOSTS, HOSTS[::-1]):
            job = self.accept(60, "2h", "-h")
            other = self.fill_host(full)
            self.release(job)
            self.assertEqual(self.confirmed(job), free)
            self.cell.must("qdel", job, other)
            for host in HOSTS:
                self.cell.wait(f"all of {host} can be had again", lambda host=host: self.is_free(host))

    def test_without_room_it_waits_and_says_until_when(self):
        cell, where = self.cell, ("-l", "h=g1")
        job = self.accept(600, "20h", "-h", *where)
        other = self.fill_host("g1")
        cell.wait_running(other)
        self.release(job)
        cell.wait("it says why", lambda: re.search(rf"job {job}: refused \(share\).*its deadline can be kept if it begins within", cell.log()))
        self.assertEqual(cell.state(job), "qw")
        cell.must("qdel", other)
        self.assertEqual(self.confirmed(job), "g1")

    def test_what_cannot_be_kept_any_more_is_given_back(self):
        job = self.accept(10, 20, "-h")
        self.cell.wait("its time is over", lambda: time.time() > float(self.commitment(job)["submitted"]) + 12)
        self.release(job)
        self.cell.wait("it is given back", lambda: f"job {job}: its deferred promise is given back: refused (" in self.cell.log())
        self.assertEqual(self.cell.state(job), "qw")
        self.assertEqual(self.starts("g1") + self.starts("g2"), [])

    def test_an_array_and_a_parallel_job(self):
        cell = self.cell
        array = self.accept(60, "2h", "-h", "-t", "2-6:2")
        wide = self.accept(60, "2h", "-hold_jid", array, "-pe", "spread", "2")
        self.release(array)
        host = self.confirmed(array)
        cell.wait("all run", lambda: len([one for one in cell.jobs() if one[0] == array and one[2] == "r"]) == 3)
        for task in (2, 4, 6):
            cell.wait(f"task {task} is in its group", lambda task=task: self.processes(f"{array}.{task}", host))
        cell.must("qdel", array)
        self.confirmed(wide)
        for host in HOSTS:
            self.assertIn(wide, self.starts(host))
        cell.wait("it is in its group", lambda: any(self.processes(wide, host) for host in HOSTS))

    def test_a_job_that_is_started_anew_has_its_share_again(self):
        job = self.accept(60, "2h", "-h", "-r", "y")
        self.release(job)
        host = self.confirmed(job)
        before = self.cell.wait("its processes", lambda: self.processes(job, host))
        self.cell.must("qmod", "-rj", job)
        self.cell.wait("it runs again in its group", lambda: "r" in self.cell.state(job) and "q" not in self.cell.state(job) and set(self.processes(job, host)) - set(before))

    def test_a_job_that_is_held_after_it_was_accepted_gives_its_share_back(self):
        """Others are promised it until it is released; it has then what they were not."""
        cell = self.cell
        job = self.fill_host("g1", "-r", "y")
        cell.wait_running(job)
        cell.wait("its processes", lambda: self.processes(job, "g1"))
        self.assertFalse(self.is_free("g1"))
        cell.must("qhold", job, user=cell.users[0])
        cell.must("qmod", "-rj", job)
        cell.wait("it waits, held", lambda: {"h", "q"} <= set(cell.state(job)))
        cell.wait("its share is free", lambda: self.is_free("g1"))
        self.assertIn(f"job {job} is held: its share is free", cell.log())
        self.release(job)
        cell.wait("it runs again", lambda: "r" in cell.state(job) and not {"h", "q"} & set(cell.state(job)))
        cell.wait("it has its share again", lambda: not self.is_free("g1"))

    def test_bad_input(self):
        for arguments, said in (
            ([*self.terms(60, "1h"), "-hold_jid_ad", self.accept(60, "1h", "-t", "1-2"), "-t", "1-2"], "one by one (-hold_jid_ad)"),
            ([*self.terms(3600, "1h"), "-h"], "refused (deadline)"),
            ([*self.terms(60, "1h"), "-a", at(7200)], "refused (deadline)"),
            ([*self.terms(60, "1h", 1), "-h"], "-l budget="),
            ([*self.terms(60, "1h"), "-h", "-l", "class=immediate"], "immediate"),
            ([*self.terms(60, "1h"), "-h", "-l", "libra_start=*"], "libra_start"),
        ):
            with self.subTest(said):
                self.refused(self.cell.qsub(*arguments), "libra: ", said)

    def test_a_quote_says_the_same(self):
        said = self.refused(self.cell.qsub("-l", "quote=ask", *self.terms(60, "2h"), "-h"), "libra-quote: ")
        quote = json.loads(said[said.index("{"):].splitlines()[0])
        job = self.accept(60, "2h", "-h")
        self.assertIn(quote["text"].replace(",", ";").replace("'", "\u2019"), self.cell.details(job)["context"])
        self.refused(self.cell.qsub("-l", "quote=hold:1m", *self.terms(60, "2h"), "-h"), "may not start yet")

    def test_status_shows_it(self):
        job = self.accept(60, "2h", "-h")
        [found] = [one for one in json.loads(self.cell.status())["jobs"] if one["id"] == job]
        self.assertEqual((found["state"], found["phase"], found["nodes"], found["share"]), ("deferred", "deferred", [], 0))

    def test_nobody_starts_it_but_libra(self):
        cell, user = self.cell, self.cell.users[0]
        job = self.accept(600, "2h", "-h")
        for host in HOSTS:
            self.fill_host(host)
        self.release(job)
        for change in (["qalter", "-l", "h=g1"], ["qalter", "-q", "main.q"], ["qalter", "-dc", "libra"], ["qalter", "-clear"], ["qconf", "-mattr", "exechost", "complex_values", f"libra_start=+{job}:1:1:1:1:+", "g1"]):
            cell.run(*change, *([job] if change[0] == "qalter" else []), user=user)
        cell.wait("it says why", lambda: f"job {job}: refused (share)" in cell.log())
        self.assertEqual((cell.state(job), self.starts("g1"), self.starts("g2")), ("qw", [], []))


class Restarted(Site):
    def test_restarts(self):
        """What is deferred, and what was confirmed, is on qmaster's own record."""
        cell = self.cell
        job, waits = self.accept(600, "9h", "-h"), self.accept(60, "9h", "-h")
        cell.kill_verifiers()
        cell.kill(MASTER)
        cell.start_master()

        def in_service():
            shown = cell.run("qstat", "-f").out
            return all(f"main.q@{host}" in shown for host in HOSTS) and "-NA-" not in shown

        cell.wait("both hosts are in service", in_service)
        for one in (job, waits):
            self.deferred(one)
        self.release(job)
        # A verifier is started by a submission.
        cell.must("qdel", self.accept(60, "1h"))
        host = self.confirmed(job)
        before = cell.committed()[host]
        cell.kill_verifiers()
        full = cell.slots(host)
        self.refused(cell.wait("somebody judges again", lambda: (lambda said: "refused (share)" in said.out + said.err and said)(
            cell.qsub(*self.terms(36000, 37805), "-l", f"h={host}", "-pe", "smp", full))), "refused (share)")
        self.assertAlmostEqual(cell.committed()[host], before, places=1)
        self.release(waits)
        self.confirmed(waits)


class Money(MoneySite, Site):
    """Its price is set aside, and the price of the day it starts charged; what is given back holds nothing."""

    def test_from_the_submission_to_the_end(self):
        self.refused(self.cell.qsub(*self.terms(10, 1000, 101), "-h"), "refused (funds)")
        job = self.accept(10, 1000, "-h", budget=90, script="true\n")
        self.assertEqual(self.commitment(job)["payer"], f"user/{self.user}")
        self.held(self.price(job))
        self.release(job)
        self.assertRegex(self.settled(job), r"is charged \S+ \(met its deadline\)")
        self.held(0)

    def test_given_back_and_deleted(self):
        late, other = (self.accept(5, deadline, "-h", budget=40) for deadline in (12, 1000))
        self.cell.wait("it is over", lambda: time.time() > float(self.commitment(late)["submitted"]) + 12)
        self.release(late)
        self.cell.wait("it is given back", lambda: f"job {late}: its deferred promise is given back: refused (" in self.cell.log())
        self.held(self.price(other))
        self.cell.must("qdel", other)
        self.held(0)
        self.assertEqual(self.balance()["available"], 100)


for name in [name for name in dir(MoneySite) if name.startswith("test_")]:
    setattr(Money, name, None)  # they are tested where they stand


if __name__ == "__main__":
    unittest.main()
