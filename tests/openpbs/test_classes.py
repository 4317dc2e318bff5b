#!/usr/bin/env python3
"""Classes of service on an OpenPBS with Libra: whole processors, given now and held from start to end, or at a planned start, or refused.

Run as root: `python3 tests/openpbs/test_classes.py`. Nothing is measured here: what a job may use stands in its cgroup.
"""

import json
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from test_deferred import Site  # noqa: E402
from scripts import busy_until, idle_until  # noqa: E402

HOUR = 3600
DAYS = 10 * 24 * HOUR
# More than two seconds of work, and nothing after them.
WORKED = "python3 -c 'import time\nwhile time.process_time() < 3: pass'\nexec sleep 1000\n"
BEGUN = "(it was planned)"
# A hook of the site's own that lets no job go until this file is there.
SLOW_END = """
import os
import time
for _ in range(1000):
    if os.path.exists("%s"):
        break
    time.sleep(0.2)
"""


class Planning(Site):
    """What the classes have in common."""

    @property
    def host(self):
        return self.pbs.host_names[0]

    def whole(self, terms, *more, **options):
        """A job of one processor on the first host; qsub's answer."""
        return self.pbs.qsub("-l", f"budget=1000000,{terms}", "-l", f"select=1:ncpus=1:host={self.host}", *more, **options)

    def taken(self, answer):
        """The number of a job that was accepted."""
        self.assertEqual(answer.rc, 0, answer.err)
        return answer.out.strip()

    def shown(self, job):
        """The job in `libra pbs status`."""
        status = json.loads(self.pbs.must(self.pbs.libra, "--config", self.pbs.own / "server.toml", "pbs", "status", "--json"))
        [found] = [one for one in status["jobs"] if one["id"] == job]
        return found

    def file(self, name):
        """A file for which a job waits; it is not there yet."""
        return self.pbs.directory / f"{name}-{self.id().rpartition('.')[2]}"

    def all_of_it(self, estimate, *more, deadline=DAYS, budget=10**9, host=None, **options):
        """Ask for all of the first host as a dedicated job; qsub's answer."""
        where = f"select=1:ncpus=2:host={host or self.host}"
        return self.pbs.qsub("-l", f"estimate={estimate},deadline={deadline},budget={budget},class=dedicated", "-l", where, *more, **options)

    def has_it(self, estimate, script, **options):
        """One that has the first host, and runs."""
        job = self.taken(self.all_of_it(estimate, script=script, **options))
        self.running(job)
        return job

    def planned(self, estimate, *more, **options):
        """One that is accepted for later, and waits."""
        job = self.taken(self.all_of_it(estimate, *more, **options))
        found = self.pbs.qstat(job)
        self.assertRegex(found["Resource_List.libra_info"], r"planned: 2 whole processors on \S+, or elsewhere sooner: begins in .+ at the latest, finished in ")
        self.assertEqual(found["job_state"], "W")
        starts = time.mktime(time.strptime(found["Execution_Time"]))
        self.assertTrue(0 <= starts - self.starts_by(job) <= 1, found)
        return job

    def starts_by(self, job):
        return float(self.terms(job)["starts-by"])

    def begun(self, job):
        """Wait until it runs as it was planned."""
        found = self.running(job)
        self.assertIn("accepted: ", found["Resource_List.libra_info"])
        self.assertIn(BEGUN, found["Resource_List.libra_info"])
        self.assertNotIn("starts-by", self.terms(job))
        return found

    def every_second(self):
        """The periodic hook."""
        def set_it(seconds):
            self.pbs.qmgr("set hook libra_periodic enabled = false", f"set hook libra_periodic freq = {seconds}", "set hook libra_periodic enabled = true")
        set_it(1)
        self.addCleanup(set_it, 30)


class Classes(Planning):
    """Two hosts of two processors, with agents, so that shares are taken anew as jobs get on."""

    site = {"hosts": 2, "processors": 2, "agents": True, "server_config": "[class]\ndedicated-price = 2.0\nimmediate-price = 3.0\n"}

    def test_whole_processors_are_held_while_the_job_gets_on(self):
        """With its estimate used and hours until its deadline a job with a share would need next to nothing: this one keeps its processor."""
        job = self.taken(self.whole("estimate=2,deadline=2h,class=dedicated", script=WORKED))
        self.running(job)
        self.assertEqual((self.share(job), self.terms(job)["class"]), (1.0, "dedicated"))
        self.assertIn("a whole processor on", self.pbs.qstat(job)["Resource_List.libra_info"])
        self.assertEqual(self.quota(job, self.host), 1.0)
        self.pbs.wait("it has used its estimate", lambda: self.used(job, self.host) > 2.5)
        self.assertEqual(self.quota(job, self.host), 1.0)
        # One of two processors is left to others, half of which somebody gets.
        self.running(self.taken(self.whole(f"estimate={HOUR},deadline=2h")))
        self.refused(self.whole(f"estimate={HOUR},class=immediate"), "refused (share)", f"the best node, {self.host}, has")
        found = self.shown(job)
        self.assertEqual((found["class"], found["share"]), ("dedicated", 1.0))

    def test_an_immediate_job_needs_no_deadline(self):
        """It starts at once, and PBS lets it run for another estimate."""
        job = self.taken(self.whole(f"estimate={HOUR},class=immediate"))
        self.running(job)
        record = self.pbs.qstat(job)
        self.assertEqual(record["Resource_List.walltime"], "02:00:00")
        self.assertNotIn("finished", record["Resource_List.libra_info"])
        found = self.shown(job)
        self.assertEqual((found["class"], found["deadline"], found["left_seconds"]), ("immediate", None, None))

    def test_less_than_a_whole_processor_is_free(self):
        """Refused at once, with what would be taken instead; and that is taken."""
        # 1.575 with the margin.
        self.running(self.taken(self.pbs.qsub("-l", "budget=1000000,estimate=3h,deadline=4h", "-l", f"select=1:ncpus=2:host={self.host}")))
        terms = f"estimate={HOUR},deadline=4h"
        self.refused(self.whole(f"{terms},class=dedicated"), "refused (share): needs 1 CPU until its deadline", "class=deadline (costs ")
        self.running(self.taken(self.whole(f"{terms},class=deadline")))
        # No deadline: nothing that has one is offered.
        self.assertNotIn("class=deadline", self.refused(self.whole(f"estimate={HOUR},class=immediate"), "refused (share)"))

    def test_bad_input(self):
        """Each is told what is wrong with it, and is not queued."""
        terms, waits = f"estimate={HOUR},deadline=4h", "class=immediate starts at once or is refused, and this job may not start yet"
        later = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + HOUR))
        other = self.pbs.submit("-h")
        for more, options, said in [
            (f"{terms},class=dedicated,libra_quote=hold:5m", [], "a quote cannot be held for class=dedicated"),
            ("deadline=4h,class=dedicated", [], "estimate is missing; class=dedicated needs it"),
            (f"estimate={HOUR},class=dedicated", [], "deadline is missing; class=dedicated needs it"),
            ("class=immediate", [], "estimate is missing; class=immediate needs it"),
            (f"estimate={HOUR},class=immediate,penalty_rate=1", [], "class=immediate promises no deadline here"),
            ("class=best-effort", [], "class=best-effort: in a batch system a job without terms is promised nothing"),
            (f"{terms},class=urgent", [], "'urgent' is no class of service"),
            (f"{terms},class=immediate", ["-h"], waits),
            (f"{terms},class=immediate", ["-a", later], waits),
            (f"{terms},class=immediate", ["-W", f"depend=afterany:{other}"], waits),
            ("estimate=4h,deadline=1h,class=immediate", [], "refused (deadline)"),
        ]:
            with self.subTest(more, options=options):
                self.refused(self.whole(more, *options), said)

    def test_what_a_site_does_not_offer(self):
        """Refused by name."""
        before = self.pbs.server_config
        self.addCleanup(self.pbs.write_config, before)
        self.pbs.write_config(f"{before}immediate = false\n")
        self.refused(self.whole(f"estimate={HOUR},class=immediate"), "class=immediate is not offered here (section [class]")

    def test_classes_of_jobs_that_name_none(self):
        """By the queue, else by the processors: a quote, a submission and a refusal say the same, and what a job names counts."""
        pbs, before = self.pbs, self.pbs.server_config
        pbs.qmgr("create queue urgent queue_type=execution,enabled=true,started=true", "create queue door queue_type=route,enabled=true,started=true,route_destinations=urgent")
        self.addCleanup(pbs.write_config, before)
        pbs.write_config(f"{before}several = 'dedicated'\n[class.queues]\nurgent = 'immediate'\n")
        for queue, processors, named, sla_class, line in [
            ([], 1, "", "deadline", None),
            ([], 2, "", "dedicated", "class.several"),
            (["-q", "urgent"], 2, "", "immediate", "class.queues.urgent"),
            (["-q", "urgent"], 2, ",class=deadline", "deadline", None),
            # It goes to the other one, and is submitted here.
            (["-q", "door"], 1, "", "deadline", None),
        ]:
            with self.subTest(queue=queue, processors=processors, named=named):
                asked = ["-l", f"budget=1000000,estimate={HOUR},deadline=4h{named}", "-l", f"select=1:ncpus={processors}:host={self.host}", *queue]
                found = pbs.qsub(*asked, "-l", "libra_quote=ask").err
                quote = json.loads(found[found.index("{"):found.rindex("}") + 1])
                self.assertEqual((quote["accepted"], quote["class"], quote["class_line"]), (True, sla_class, line))
                job = self.taken(pbs.qsub(*asked, script="true\n"))
                self.assertEqual(self.terms(job).get("class", "deadline"), sla_class)
                pbs.wait_state(job, "F")
        by = "class=immediate by class.queues.urgent of the site's configuration, as it names none"
        self.refused(self.whole(f"estimate={HOUR},deadline=4h", "-q", "urgent", "-h"), "class=immediate starts at once", by)

    # ---- planned starts

    def test_a_planned_job_waits_in_its_place_and_begins_when_others_end(self):
        enough, pbs = self.file("enough"), self.pbs
        first = self.has_it(HOUR, idle_until(enough))
        job = self.planned(HOUR, script="true\n")
        # When the first is done at the latest: its estimate with the margin from when it began, between the two submissions, and what PBS may take.
        before, after = (float(self.terms(one)["submitted"]) for one in (first, job))
        self.assertTrue(before - 1 <= self.starts_by(job) - 1.05 * HOUR <= after + 60, (before, self.starts_by(job), after))
        found = self.shown(job)
        self.assertEqual((found["state"], found["phase"], found["nodes"], found["share"]), ("planned", "planned", [self.host], 0))
        self.assertAlmostEqual(found["starts_by"], self.starts_by(job), places=3)
        # A second one is planned behind it, one that is due before that cannot be kept, and nobody has a share in its time.
        second = self.planned(HOUR, script="true\n")
        self.assertGreater(self.starts_by(second), self.starts_by(job) + HOUR)
        self.refused(self.all_of_it(HOUR, deadline=int(2.5 * HOUR)), "refused (share)")
        self.refused(self.whole(f"estimate={HOUR},deadline={DAYS}"), "refused (share)")
        # Its user lets it begin neither sooner nor later.
        user = {"user": pbs.users[0]}
        pbs.run("qrls", job, **user)
        for start in (time.time() + 2, time.time() + 10 * HOUR):
            altered = pbs.run("qalter", "-a", time.strftime("%Y%m%d%H%M.%S", time.localtime(start)), job, **user)
            self.assertNotEqual(altered.rc, 0)
            self.assertIn("libra: its start is planned: it begins in ", altered.err)
        self.assertEqual(pbs.qstat(job)["job_state"], "W")
        # Nor does an administrator, who is told why.
        pbs.run("qalter", "-a", time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() + 1)), job)
        self.in_cycles("it says why", lambda: "libra: planned: " in pbs.qstat(job).get("comment", ""))
        pbs.wait("it waits for its start", lambda: pbs.qstat(job)["job_state"] == "W")
        enough.touch()
        self.met(first, job, second)
        for one in (job, second):
            self.assertIn(BEGUN, self.info(one))

    def test_a_planned_job_that_begins_sooner_runs_once(self):
        """PBS keeps an alarm for each start time that a job ever had, and one that finds it ending puts it back into its queue. The hook keeps it ending."""
        pbs, over = self.pbs, self.file("over")
        self.addCleanup(over.touch)

        def once(seconds):
            """Its number and its alarm, if it was ending before that went off."""
            over.unlink(missing_ok=True)
            enough, done = self.file(f"enough-{seconds}"), self.file(f"done-{seconds}")
            first = self.has_it(HOUR, idle_until(enough))
            job = self.planned(HOUR, script=idle_until(done))
            alarm = int(time.time() + seconds)
            pbs.must("qalter", "-a", time.strftime("%Y%m%d%H%M.%S", time.localtime(alarm)), job)
            enough.touch()
            self.begun(job)
            pbs.hook("libra_test_end", "execjob_end", SLOW_END % over, alarm=300)
            due = float(self.terms(job)["submitted"]) + float(self.terms(job)["deadline"])
            pbs.wait_job(job, "has no alarms any more", lambda found: starts(found) > due)
            done.touch()
            pbs.wait_state(job, "E")
            if time.time() < alarm:
                return job, alarm
            over.touch()
            self.met(first, job)
            pbs.delete_hook("libra_test_end")
            return None

        def starts(found):
            return time.mktime(time.strptime(found["Execution_Time"])) if "Execution_Time" in found else 0

        job, alarm = pbs.in_time("ending before its alarm", once, (20, 100))
        self.addCleanup(pbs.delete_hook, "libra_test_end")
        # The server's clock is ours; another second for what it does then.
        pbs.wait("the alarm has gone off", lambda: time.time() > alarm + 2)
        over.touch()
        found = pbs.wait_state(job, "F")
        self.assertEqual((found["run_count"], found["Exit_status"]), ("1", "0"))
        self.met(job)

    def test_a_planned_job_that_is_rerun_keeps_its_share(self):
        """Its start time is behind its deadline then; it begins at once nevertheless, by what was committed to it."""
        pbs, enough, done = self.pbs, self.file("enough"), self.file("done")
        first = self.has_it(HOUR, idle_until(enough))
        job = self.planned(HOUR, script=idle_until(done))
        enough.touch()
        self.begun(job)
        pbs.wait_job(job, "has another start time", lambda found: "Execution_Time" in found)
        before = self.terms(job)
        # PBS's records are looked at while it waits as well.
        self.every_second()
        for runs in (2, 3):
            pbs.must("qrerun", job)
            pbs.wait_started(job, runs=runs)
            self.assertEqual(self.terms(job), before)
            self.assertIn(BEGUN, self.info(job))
            pbs.wait_job(job, "has it anew", lambda found: "Execution_Time" in found)
        done.touch()
        self.met(first, job)

    def test_a_planned_job_begins_elsewhere(self):
        """On the first host that it fits on, though it was planned on another."""
        enough, others = self.file("enough"), self.file("others")
        jobs = [self.has_it(estimate, idle_until(file), host=host)
                for host, estimate, file in zip(self.pbs.host_names, (HOUR, 2 * HOUR), (others, enough))]
        terms = f"estimate={HOUR},deadline={DAYS},budget=1000000000,class=dedicated"
        job = self.taken(self.pbs.qsub("-l", terms, "-l", "select=1:ncpus=2", script=idle_until(others)))
        self.assertIn(f"planned: 2 whole processors on {self.host}, or elsewhere sooner: ", self.info(job))
        enough.touch()
        self.begun(job)
        self.assertEqual(self.pbs.node_of(job), [self.pbs.host_names[1]])
        others.touch()
        self.met(*jobs, job)

    def test_who_outlives_its_estimate_gives_way_to_who_is_due(self):
        """The promise of the one behind it is kept; it goes on with what that leaves."""
        enough, done = self.file("enough"), self.file("done")
        def planned(estimate):
            """Behind one that has not used its estimate yet."""
            first = self.has_it(estimate, busy_until(enough))
            answer = self.all_of_it(HOUR, script=idle_until(done))
            if answer.rc == 0 and (starts_by := self.terms(answer.out).get("starts-by")):
                return first, answer.out, float(starts_by)
            self.clear()
            return None

        first, job, starts_by = self.pbs.in_time("a job of so short an estimate", planned, (10, 40, 120))
        self.begun(job)
        self.assertGreaterEqual(time.time(), starts_by)
        self.assertEqual(self.pbs.qstat(first)["job_state"], "R")
        # Its host may have begun with the first some seconds later than PBS.
        self.pbs.wait("it has its processors", lambda: self.quota(job, self.host) >= 2.0)
        self.pbs.wait("the first has less", lambda: self.quota(first, self.host) < 0.5)
        done.touch()
        self.met(job)
        self.pbs.wait("it has its processors again", lambda: self.quota(first, self.host) >= 2.0)
        enough.touch()
        self.met(first)

    def test_who_holds_a_planned_job_gives_its_place_away(self):
        """Nobody is refused for its sake then; released, it is asked for like any other whose promise was deferred."""
        self.every_second()
        enough, user = self.file("enough"), {"user": self.pbs.users[0]}
        first = self.has_it(HOUR, idle_until(enough))
        job = self.planned(HOUR, script="true\n")
        self.pbs.must("qhold", job, **user)
        self.pbs.wait("its place is not kept", lambda: "starts-by" not in self.terms(job))
        self.assertIn("its planned place is not kept any more", self.info(job))
        self.pbs.qdel(self.planned(HOUR, deadline=int(2.5 * HOUR)))
        enough.touch()
        self.met(first)
        self.pbs.must("qrls", job, **user)
        self.in_cycles("it has run", lambda: self.pbs.qstat(job)["job_state"] == "F")
        self.met(job)

    def test_a_planned_job_that_is_deleted(self):
        enough, behind = self.file("enough"), int(2.5 * HOUR)
        first = self.has_it(HOUR, idle_until(enough))
        # A quote says the same as the submission, and keeps nothing.
        said = self.refused(self.all_of_it(HOUR, "-l", "libra_quote=ask"), "libra-quote: ")
        found = json.loads(said[said.index("{"):].splitlines()[0])
        self.assertTrue(found["accepted"])
        self.assertRegex(found["text"], r"planned: 2 whole processors on \S+, or elsewhere sooner: begins in ")
        job = self.planned(HOUR, deadline=behind)
        self.refused(self.all_of_it(HOUR, deadline=behind), "refused (share)")
        self.pbs.qdel(job)
        self.pbs.qdel(self.planned(HOUR, deadline=behind))
        # What is not planned is told at once what would be taken, or that nothing is.
        self.refused(self.all_of_it(HOUR, "-J", "1-2"), "refused (share)")
        self.refused(self.all_of_it(HOUR, deadline=int(1.5 * HOUR)), "refused (share)")
        self.refused(self.all_of_it(HOUR, budget=100), "refused (budget)")
        # PBS tells nobody that a waiting job was deleted: the periodic hook sees it, and who was behind it begins.
        self.every_second()
        job, second = self.planned(HOUR), self.planned(HOUR, script="true\n")
        self.pbs.qdel(job)
        enough.touch()
        self.met(first, second)

    def test_the_plan_outlives_the_server(self):
        """It is made of the jobs' own records; one that is due while nobody is there begins when somebody is."""
        enough = self.file("enough")
        first = self.has_it(HOUR, idle_until(enough))
        job = self.planned(HOUR, script="true\n")
        starts_by = self.starts_by(job)
        for _ in range(2):
            self.restart()
            self.assertEqual((self.starts_by(job), self.pbs.qstat(job)["job_state"]), (starts_by, "W"))
            self.refused(self.all_of_it(HOUR, deadline=int(2.5 * HOUR)), "refused (share)")
        self.pbs.kill_server()
        enough.touch()
        self.pbs.start_server()
        self.pbs.wait("both are done", lambda: all(self.pbs.qstat(one)["job_state"] == "F" for one in (first, job)))
        self.assertIn(BEGUN, self.info(job))


if __name__ == "__main__":
    unittest.main(verbosity=2)
