#!/usr/bin/env python3
"""slurmctld is killed: no promise is lost or made twice, and what slurmctld itself loses keeps no share.

Run as root: `tests/slurm/run test_faults`. Takes about four minutes.
"""

import concurrent.futures
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from promises import committed_on, expect_committed, expect_free, expect_free_beside, holding, is_saved, terms, tokens  # noqa: E402


class ControllerKilled(SiteCase):
    """The book is made anew from what slurmctld has saved."""

    # Clients ask so many seconds for a slurmctld that is starting.
    site = {"nodes": 4, "settings": {"MessageTimeout": 60}}

    def setUp(self):
        self.save()
        self.pass_numbers()

    def save(self):
        """Ended in its own time, slurmctld saves what was cancelled; killed too early, it would have those jobs again."""
        self.slurm.stop_controller()
        self.slurm.start_controller()

    def pass_numbers(self):
        """Have slurmctld give numbers that it has not given yet: one that was killed gives again those that it had not saved, and a slurmd
        that has ended such a job does not begin its namesake."""
        slurm = self.slurm
        given = max((int(number) for number in re.findall(r"JobId=(\d+)", slurm.log())), default=0)
        passed = []
        while not passed or int(passed[-1]) <= given:
            passed.append(slurm.submit("--hold", script="true\n"))
        slurm.must("scancel", *passed)

    def restart(self):
        self.slurm.kill_controller()
        self.slurm.start_controller()

    def saved(self):
        self.slurm.wait("slurmctld has saved its jobs", lambda: is_saved(self.slurm, *holding(self.slurm)))

    def test_ten_jobs(self):
        slurm = self.slurm
        n1, n2, n3, n4 = slurm.nodes
        array = slurm.submit("--array=1-3", *terms(0.1, n1))
        two = slurm.submit("-N2", *terms(0.3, f"{n3},{n4}"))
        jobs = [slurm.submit(*terms(share, node)) for share, node in [(0.2, n1), (0.1, n2), (0.1, n1), (0.2, n2), (0.15, n2), (0.4, n3), (0.05, n3), (0.25, n4)]]
        for job in [two, *jobs, *(self.running(f"{array}_{task}")["JobId"] for task in (1, 2, 3))]:
            self.started(job)
        # One that does not run, and so holds nothing.
        slurm.must("scontrol", "requeuehold", jobs[2])
        slurm.wait("its share is free", lambda: "held after it was requeued" in slurm.must("scontrol", "show", "job", jobs[2]))
        left = {n1: 1 - 0.3 - 0.2, n2: 1 - 0.1 - 0.2 - 0.15, n3: 1 - 0.3 - 0.4 - 0.05, n4: 1 - 0.3 - 0.25}
        expect_free(self, slurm, left)
        self.saved()
        before = tokens(slurm)
        self.assertEqual(len(before), 3 + 1 + len(jobs))
        self.restart()
        expect_free(self, slurm, left)
        self.assertEqual(tokens(slurm), before)
        # One that has just begun, twice in a row: of one that begins after it was saved slurmctld itself knows nothing, and begins it again.
        last = slurm.submit(*terms(0.05, n2))
        self.started(last)
        self.saved()
        self.restart()
        self.restart()
        self.assertIn(last, holding(slurm))
        self.assertEqual(len(tokens(slurm)), len(before) + 1)
        left[n2] -= 0.05
        expect_free(self, slurm, left)
        for job in [two, *jobs[:2], *jobs[3:], last]:
            self.assertEqual((slurm.state(job), slurm.job(job)["Restarts"]), ("RUNNING", "0"), "it runs on")
        # What ends now is free, as if nothing had been: one task of three, the held one, and the one on two nodes.
        slurm.must("scancel", f"{array}_2", jobs[2], two)
        for job in (f"{array}_2", two):
            slurm.wait("the book is rid of it", lambda job=job: re.search(rf"libra: job {job} .*ended after", slurm.log()))
        expect_free(self, slurm, {n1: 0.6, n2: 0.5, n3: 0.55, n4: 0.75})

    def test_array_over_nodes(self):
        """Killed while the tasks of an array are told their nodes: all of them come to run where they were planned, none twice."""
        slurm = self.slurm
        array = slurm.submit("--array=0-23", *terms(0.12))
        # What starts after it was saved slurmctld itself would start again, and slurmd drain the node for it: nothing does meanwhile.
        slurm.must("scontrol", "update", "partitionname=main", "state=down")
        # Nor is anything on its way to a node, which slurmctld would take for lost and hold.
        slurm.wait("what runs has begun", lambda: all(self.processes(job, has["nodes"]) for job, has in slurm.jobs().items() if has["job_state"] == "RUNNING"))
        slurm.wait("saved", lambda: is_saved(slurm, array))
        self.restart()
        slurm.must("scontrol", "update", "partitionname=main", "state=up")
        slurm.wait("all its tasks run", lambda: len([1 for has in slurm.jobs().values() if has["job_state"] == "RUNNING"]) == 24)
        on = running_tasks(slurm)
        for node in slurm.nodes:
            self.assertLessEqual(list(on.values()).count(node) * 0.12, 1, on)
        expect_free_beside(self, slurm, lambda: running_tasks(slurm), lambda on: {node: 1 - list(on.values()).count(node) * 0.12 for node in slurm.nodes})

    def test_right_after_a_burst(self):
        """slurmctld itself loses what it has not saved: then no share stays reserved, and the numbers that are given again confuse nobody."""
        slurm = self.slurm
        for number in range(2):
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                asked = list(pool.map(lambda n: slurm.sbatch(*terms(0.03, slurm.nodes[n % 4])), range(60)))
            self.assertEqual([one.err for one in asked if one.rc and "no-node" not in one.err], [])
            self.restart()
            self.settled()
            kept = holding(slurm)
            print(f"burst {number + 1}: {len(asked)} accepted, {len(kept)} kept by slurmctld", file=sys.stderr)
            expect_committed(self, slurm)
            now = tokens(slurm)  # what slurmd has sent back has come back since
            self.assertGreaterEqual(len(now), len(kept))
            self.assertEqual(len(set(now)), len(now), "none twice")
            # What has just been tried out is free again with the next poll.
            # On nodes with room: what took all that was free, and was cancelled, may be among those that slurmctld has brought back.
            taken = committed_on(slurm)
            room = [node for node in slurm.nodes if taken[node] < 0.9]
            self.assertGreater(len(room), 0, taken)
            again = [slurm.wait(f"committed again on {node}", lambda node=node: slurm.sbatch(*terms(0.02, node)).out or None) for node in room]
            for job in again:
                self.assertEqual(sum(one == job for one in holding(slurm)), 1)
            expect_committed(self, slurm)
            self.clear()
            self.save()

    def settled(self):
        """All nodes have ended what slurmctld does not know. What was lost between its prolog and its first process slurmd knows nothing of,
        so no epilog comes: the prolog of the next job with terms ends it."""
        slurm = self.slurm
        unknown = lambda: [name.split(" job-") for name in slurm.job_groups() if name.split(" job-")[1] not in holding(slurm)]  # noqa: E731
        slurm.must("scontrol", "reconfigure")  # every slurmd says anew what runs; without, some minutes later
        slurm.wait("no process of a job that slurmctld does not know", lambda: not [job for node, job in unknown() if self.processes(job, node)])
        time.sleep(11)
        if unknown():
            print(f"left without an epilog: {unknown()}", file=sys.stderr)

        # A job that had a lost number would not begin where its namesake has ended.
        self.pass_numbers()

        def gone():
            self.resume()
            # Where slurmctld does not answer a prolog in time, the next one ends it.
            for node in {node for node, _ in unknown()}:
                slurm.wait_ended(slurm.submit(*terms(0.01, node), script="true\n"))
            return not unknown()

        # Each check waits for nodes and for jobs.
        slurm.wait("all of it is gone", gone, 600)
        self.resume()

    def resume(self):
        """Nodes that Slurm itself has drained, after it has given lost numbers again, take jobs."""
        slurm = self.slurm
        for node in slurm.nodes:
            if "DRAIN" in slurm.node(node)["State"]:
                self.assertIn("Duplicate jobid", slurm.node(node).get("Reason"))
                slurm.must("scontrol", "update", f"nodename={node}", "state=resume")
                # The book knows of it with its next poll of the nodes. A question reserves nothing, a test does for a moment.
                slurm.wait(f"{node} takes jobs", lambda node=node: "no node takes new jobs" not in slurm.sbatch("--sla-quote=ask", *terms(0.01, node)).err)

    def test_submissions_meanwhile(self):
        """Clients wait by themselves for a slurmctld that starts, and for its book."""
        slurm = self.slurm
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            slurm.kill_controller()
            asked = [pool.submit(self.slurm.judged, *terms(0.02, slurm.nodes[number % 4])) for number in range(4)]
            time.sleep(1.5)
            starting = pool.submit(slurm.start_controller)
            for number in range(20):
                asked.append(pool.submit(self.slurm.judged, *terms(0.02, slurm.nodes[number % 4])))
                time.sleep(0.1)
            starting.result()
            answers = [one.result() for one in asked]
        self.assertEqual([one.err for one in answers if one.rc], [])
        self.assertEqual(len({one.out for one in answers}), 24)
        self.assertEqual(set(holding(slurm)), {one.out for one in answers})
        expect_free(self, slurm, dict.fromkeys(slurm.nodes, 1 - 6 * 0.02))
        print(f"{sum('sleeping and retrying' in one.err for one in answers)} of 24 were asked to try again", file=sys.stderr)

    def test_taken_out_and_put_back(self):
        """A slurmctld without the plugin keeps what is committed; with it again the book is as before."""
        slurm = self.slurm
        n1, n2, n3, n4 = slurm.nodes
        job = slurm.submit(*terms(0.4, n1))
        self.started(job)
        without = slurm.submit("-w", n2)  # nobody judges it
        controller = slurm.daemon_pid("slurmctld")
        for way in ("reconfigure", "restart"):
            with self.subTest(way):
                if way == "restart":
                    slurm.stop_controller()
                    slurm.plan["settings"]["JobSubmitPlugins"] = None
                    slurm.write_conf()
                    slurm.start_controller()
                else:
                    slurm.reconfigure(JobSubmitPlugins=None)
                plain = slurm.wait("jobs with terms are not judged", lambda: self.without_libra(n3))
                self.assertEqual(slurm.job(plain).get("AdminComment"), None)
                slurm.scancel(plain)
                if way == "restart":
                    slurm.stop_controller()
                    slurm.plan["settings"]["JobSubmitPlugins"] = "libra"
                    slurm.write_conf()
                    slurm.start_controller()
                else:
                    slurm.reconfigure(JobSubmitPlugins="libra")
                slurm.wait("judged again", lambda: "refused (budget)" in slurm.sbatch("--estimate=10", "--sla-deadline=20", "--budget=1", timeout=180).err)
                expect_free(self, slurm, {n1: 0.6, n3: 1, n4: 1})
                if way == "reconfigure":
                    self.assertEqual(slurm.daemon_pid("slurmctld"), controller, "the same slurmctld")
        # Nothing but a reread.
        for _ in range(5):
            slurm.must("scontrol", "reconfigure")
            self.assertEqual(slurm.sbatch(*terms(0.9, n1)).rc, 1)
        expect_free(self, slurm, {n1: 0.6, n4: 1})
        self.assertEqual(slurm.state(job), "RUNNING")
        slurm.scancel(without)

    def without_libra(self, node):
        asked = self.slurm.sbatch("--estimate=10", "--sla-deadline=20", "--budget=1", "-w", node, timeout=180)
        return asked.out if asked.rc == 0 else None


def running_tasks(slurm):
    """{task of an array or other job that runs: its node}."""
    return {job: has["nodes"] for job, has in slurm.jobs().items() if has["job_state"] == "RUNNING"}


if __name__ == "__main__":
    unittest.main()
