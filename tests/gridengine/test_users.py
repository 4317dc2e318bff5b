"""What users see on a cell with Libra: verdicts, quotes, arrays, parallel jobs, holds, changes, deletion, interactive jobs."""

import json
import unittest

from case import CellCase
from cluster import HOSTS


class Verdicts(CellCase):
    def test_an_accepted_job_runs_where_it_was_promised(self):
        job = self.accept(60, "1h", "-ac", "mine=1")
        host = self.cell.wait_running(job)
        self.assertEqual(list(self.places(job)), [host])
        self.assertAlmostEqual(self.places(job)[host], 63 / 3600, places=3)
        details = self.cell.details(job)
        self.assertIn("libra_accepted=accepted: 1.8 % of a processor on", details["context"])
        self.assertIn("mine=1", details["context"])
        self.assertNotIn("hard resource_list", details)
        committed = self.cell.committed()
        self.assertAlmostEqual(committed[host], 63 / 3600, places=2)

    def test_one_status_shows_the_host_and_the_cell(self):
        job = self.accept(60, "1h")
        host = self.cell.wait_running(job)
        both = self.cell.libra("--json", "status")
        self.assertEqual(both.rc, 0, both)
        shown = json.loads(both.out)
        self.assertEqual({node["system"] for node in shown["nodes"]}, {"local", "gridengine"})
        self.assertEqual(shown["problems"], [])
        mine = [one for one in shown["jobs"] if one["system"] == "gridengine" and one["id"] == job]
        self.assertEqual([(one["nodes"], one["state"], one["phase"]) for one in mine], [([host], "on_track", "running")])
        alone = json.loads(self.cell.status())
        self.assertEqual([one.keys() for one in alone["jobs"]], [one.keys() for one in mine])
        self.assertEqual({node["system"] for node in alone["nodes"]}, {"gridengine"})
        self.assertIn("Grid Engine:", self.cell.libra("status").out)
        # By its number, wherever it is; and one that is nowhere.
        one = self.cell.libra("--json", "status", job)
        self.assertEqual([one["id"] for one in json.loads(one.out)["jobs"]], [job])
        self.assertEqual(self.cell.libra("status", "4711").rc, 4)

    def test_terms_stand_in_scripts_too(self):
        job = self.cell.submit(script="#$ -l estimate=60,deadline=3600\n#$ -l budget=1000000\nsleep 1000\n")
        self.assertEqual(float(self.commitment(job)["deadline"]), 3600)

    def test_a_refusal_says_why_and_what_would_be_accepted(self):
        said = self.refused(self.cell.qsub(*self.terms(600, 600)), "refused (deadline)", "accepted now would be: -l deadline=")
        offer = said.partition("-l deadline=")[2].split()[0]
        self.accept(600, offer)
        self.refused(self.cell.qsub(*self.terms(600, 3600, budget=1)), "refused (budget)", "-l budget=")

    def test_a_full_cell_takes_no_more_until_a_job_is_gone(self):
        jobs = self.fill()
        self.assertEqual(len(jobs), sum(self.cell.slots(host) for host in HOSTS))
        for job in jobs:
            self.cell.wait_running(job)
        self.cell.must("qdel", jobs[0])
        self.cell.wait("its share is free", lambda: self.cell.qsub(*self.terms(3600, 3785)).rc == 0)

    def test_what_cannot_be_read_or_could_wait_is_refused(self):
        for arguments, said in (
            (["-l", "estimate=soon,deadline=1h,budget=1"], "'soon'"),
            (["-l", "estimate=60,deadline=1h"], "budget is missing"),
            ([*self.terms(60, "1h"), "-t", "1-4", "-tc", "2"], "leave out -tc"),
            ([*self.terms(60, "1h"), "-l", "mem_free=1M"], "mem_free"),
            ([*self.terms(60, "1h"), "-pe", "smp", "1-2"], "not for a range"),
        ):
            with self.subTest(said):
                self.refused(self.cell.qsub(*arguments), "libra: ", said)

    def test_hosts_are_chosen_among(self):
        for request in (["-l", "h=g2"], ["-q", "*@g2"], ["-q", "main.q@g2"]):
            self.assertEqual(list(self.places(self.accept(60, "1h", *request))), ["g2"])

    def test_jobs_without_terms_run_beside(self):
        job = self.cell.submit(script="cat /proc/self/cgroup\nsleep 1000\n")
        self.cell.wait_running(job)
        self.cell.wait("it says where it is", lambda: "-best-effort" in self.cell.output(job))

    def test_a_quote_is_kept(self):
        asked = self.cell.qsub("-l", "quote=hold:5m", *self.terms(600, "1h"))
        line = self.refused(asked, "libra-quote: ").partition("libra-quote: ")[2].splitlines()[0]
        quote = json.loads(line)
        self.assertTrue(quote["accepted"])
        self.assertEqual(self.cell.jobs(), [])
        number = quote["held"]["number"] if isinstance(quote["held"], dict) else quote["held"][0]
        job = self.accept(600, "1h", "-l", f"quote={number}")
        self.assertAlmostEqual(float(self.commitment(job)["price"]), quote["price"], places=2)
        self.refused(self.cell.qsub("-l", f"quote={number}", *self.terms(600, "1h")), "libra: ")


class Kinds(CellCase):
    def test_the_tasks_of_an_array_are_on_one_host(self):
        job = self.accept(60, "1h", "-t", "2-6:2", script="grep -E 'cpu[:,]' /proc/self/cgroup\nsleep 1000\n")
        host = self.cell.wait_running(job)
        self.cell.wait("all run", lambda: len([one for one in self.cell.jobs() if one[2] == "r"]) == 3)
        for task in (2, 4, 6):
            self.cell.wait(f"task {task} is in its group", lambda task=task: f"{self.cell.cgroup_root(host)}/job-{job}.{task}" in self.cell.output(job, task))
        self.cell.must("qdel", job, "-t", "4")
        self.cell.wait("its group is gone", lambda: not self.cell.group(host, f"{job}.4").exists())
        self.assertTrue(self.processes(f"{job}.2", host))

    def test_a_parallel_job_is_in_its_group_on_all_its_hosts(self):
        script = """for host in $(awk '{print $1}' $PE_HOSTFILE); do
    until qrsh -inherit $host grep -E 'cpu[:,]' /proc/self/cgroup </dev/null; do sleep 1; done
done
sleep 1000
"""
        job = self.accept(60, "1h", "-pe", "spread", "2", "-v", f"PATH={self.cell.environment()['PATH']}", script=script)
        self.assertEqual(sorted(self.places(job)), ["g1", "g2"])
        self.cell.wait_running(job)
        for host in HOSTS:
            self.cell.wait(f"its task on {host}", lambda host=host: f"{self.cell.cgroup_root(host)}/job-{job}" in self.cell.output(job))
        self.cell.must("qdel", job)
        self.cell.wait("nothing of it on either host", lambda: not self.cell.job_groups())

    def test_a_threaded_job_has_its_slots_on_one_host(self):
        slots = self.cell.slots("g1")
        job = self.accept(60, "1h", "-pe", "smp", slots)
        self.assertEqual(len(self.places(job)), 1)
        self.assertEqual(self.commitment(job)["processors"], str(slots))
        self.refused(self.cell.qsub(*self.terms(60, "1h"), "-pe", "smp", slots + 1), f"has {slots + 1} processors")
        self.refused(self.cell.qsub(*self.terms(60, "1h"), "-pe", "nosuch", "2"))

    def test_interactive_jobs_and_those_that_are_waited_for(self):
        user = self.cell.users[0]
        shown = self.cell.run("qrsh", *self.terms(60, "1h"), "grep -E 'cpu[:,]' /proc/self/cgroup", user=user)
        self.assertIn("/job-", shown.out, shown)
        done = self.cell.qsub("-sync", "y", *self.terms(60, "1h"), script="exit 3\n")
        self.assertEqual(done.rc, 3, done)

    def test_an_array_that_is_waited_for(self):
        done = self.cell.qsub("-sync", "y", *self.terms(60, "1h"), "-t", "1-3", script="true\n")
        self.assertEqual(done.rc, 0, done)
        self.cell.wait("all were in time", lambda: self.cell.log().count("met its deadline") >= 3)

    def test_a_login_is_served(self):
        cell, user = self.cell, self.cell.users[0]
        refused = cell.run("qlogin", *self.terms(60, "1h", 1), user=user)
        self.assertIn("refused (budget)", refused.out + refused.err)
        # Typed at its prompt, and left when there is an answer: what comes before the session ends Grid Engine's shepherd, with Libra or without.
        seen = 'seen() { for i in $(seq 1500); do grep -q "$1" shown && break; sleep 0.1; done; }'
        typed = f"{seen}; seen '[$] '; echo \"grep -E 'cpu[:,]' /proc/self/cgroup\"; seen '[0-9]:cpu'; echo exit"
        words = " ".join(self.terms(60, "1h"))
        cell.run("sh", "-c", f"touch shown; {{ {typed}; }} | script -qfec 'qlogin {words}' shown", user=user)
        self.assertRegex((cell.home(user) / "shown").read_text(), rf":/{cell.cgroup_root('g')}[12]/job-\d+")

    def test_a_job_that_is_held_gives_its_share_back_and_begins_when_it_is_released(self):
        cell, user = self.cell, self.cell.users[0]
        # Accepted jobs start within a second: nothing does without a scheduler.
        cell.must("qconf", "-kt", "scheduler")
        try:
            job = self.accept(60, "1h")
            self.assertEqual(cell.run("qhold", job, user=user).rc, 0)
        finally:
            cell.must("qconf", "-at", "scheduler")
        other = self.accept(60, "1h")
        cell.wait_running(other)
        self.assertEqual(cell.state(job), "hqw")
        cell.wait("its share is free", lambda: sum(cell.committed().values()) < 1.5 * 63 / 3600)
        self.assertEqual(cell.run("qrls", job, user=user).rc, 0)
        self.assertEqual([cell.wait_running(job)], list(self.places(job)))
        cell.wait("it has its share again", lambda: sum(cell.committed().values()) > 1.5 * 63 / 3600)

    def test_users_change_what_was_not_committed(self):
        job = self.accept(60, "1h")
        user = self.cell.users[0]
        self.assertEqual(self.cell.run("qalter", "-N", "renamed", job, user=user).rc, 0)
        for change in (["-l", "deadline=9h"], ["-q", "*@g2"], ["-ac", "libra=1"], ["-dc", "libra"], ["-sc", "a=b"]):
            with self.subTest(change):
                said = self.cell.run("qalter", *change, job, user=user)
                self.assertIn("rejected due to jsv_allowed_mod", said.out + said.err)
        self.assertEqual(float(self.commitment(job)["deadline"]), 3600)

    def test_a_suspended_job_goes_on(self):
        job = self.accept(60, "1h")
        host = self.cell.wait_running(job)
        self.cell.must("qmod", "-sj", job)
        self.cell.wait("it is suspended", lambda: self.cell.state(job) == "s")
        # It may have been before its first process was there.
        self.cell.wait("its processes", lambda: self.processes(job, host))
        self.cell.must("qmod", "-usj", job)
        self.cell.wait("it goes on", lambda: self.cell.state(job) == "r")

    def test_a_job_that_is_started_anew_has_its_share_again(self):
        job = self.accept(60, "1h", "-r", "y")
        host = self.cell.wait_running(job)
        before = self.cell.wait("its processes", lambda: self.processes(job, host))
        self.cell.must("qmod", "-rj", job)
        self.cell.wait("it runs again", lambda: "r" in self.cell.state(job) and "q" not in self.cell.state(job) and set(self.processes(job, host)) - set(before))


if __name__ == "__main__":
    unittest.main()
