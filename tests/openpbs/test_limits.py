#!/usr/bin/env python3
"""Limits of the server and its queues: a promise is given only where PBS will start the job.

Run as root: `python3 tests/openpbs/test_limits.py`.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402


class Limits(SiteCase):
    """Three hosts of two processors; queues `small` and `other` beside workq."""

    site = {"hosts": 3, "processors": 2, "users": 2}

    @classmethod
    def prepare(cls):
        for queue in ("small", "other"):
            cls.pbs.qmgr(f"create queue {queue} queue_type=execution,enabled=true,started=true")

    def with_settings(self, *settings):
        """Settings of qmgr for one test."""
        for setting in settings:
            self.pbs.qmgr(f"set {setting}")
            self.addCleanup(self.pbs.qmgr, "unset " + setting.partition("=")[0].rstrip(" +"))

    def test_a_users_jobs(self):
        """What runs and what is promised counts, of the user that has the limit, in the queue that has it."""
        pbs = self.pbs
        self.with_settings("queue small max_run = [u:PBS_GENERIC=2]")
        plain = pbs.submit("-q", "small")
        pbs.wait_state(plain, "R")
        pbs.qmgr("set server scheduling = false")
        promised = self.accept(1, 600, "-q", "small")
        self.refused(self.ask(1, 600, "-q", "small"), "refused (limit): queue small: max_run [u:PBS_GENERIC=2] is reached", "2 running or promised")
        pbs.qmgr("set server scheduling = true")
        self.running(promised)
        self.refused(self.ask(1, 600, "-q", "small"), "refused (limit)")
        self.running(self.accept(1, 600))
        self.running(self.accept(1, 600, "-q", "small", user=pbs.users[1]))
        pbs.qdel(plain)
        pbs.wait_state(plain, "F")
        self.running(self.accept(1, 600, "-q", "small"))

    def test_all_jobs_of_the_server_and_arrays(self):
        self.with_settings("server max_run = [o:PBS_ALL=2]")
        self.refused(self.ask(1, 600, "-J", "1-3"), "refused (limit): server: max_run [o:PBS_ALL=2] is reached (all jobs: 0 running or promised, 3 more asked for)")
        array = self.accept(1, 600, "-J", "1-2")
        for index in (1, 2):
            self.running(array.replace("[]", f"[{index}]"))
        self.refused(self.ask(1, 600), "all jobs: 2 running or promised")

    def test_processors_as_they_were_asked_for(self):
        """PBS sees ncpus=0 of a job that shares processors, and of one without terms that runs beside it."""
        pbs = self.pbs
        self.with_settings("queue small max_run_res.ncpus = [u:PBS_GENERIC=3]", "queue small resources_max.ncpus = 2")
        self.refused(self.ask(1, 600, "-q", "small", "-l", "select=3:ncpus=1"), "queue small: resources_max.ncpus is 2, this job has 3")
        self.refused(pbs.qsub("-q", "small", "-l", "select=3:ncpus=1"), "queue small: resources_max.ncpus is 2, this job has 3")
        self.running(self.accept(1, 600, "-q", "small", "-l", "select=2:ncpus=1"))
        self.refused(self.ask(1, 600, "-q", "small", "-l", "select=2:ncpus=1"), "max_run_res.ncpus [u:PBS_GENERIC=3] is reached")
        first, second = (pbs.submit("-q", "small") for _ in range(2))
        pbs.wait_state(first, "R")
        comment = pbs.wait("why it waits", lambda: pbs.qstat(second).get("comment"))
        self.assertIn("max_run_res.ncpus", comment)
        self.assertEqual(pbs.qstat(second)["job_state"], "Q")

    def test_walltime(self):
        self.with_settings("queue small resources_max.walltime = 00:10:00")
        self.refused(self.ask(1, 700, "-q", "small"), "refused (limit): queue small: resources_max.walltime is 00:10:00")
        self.running(self.accept(1, 500, "-q", "small"))

    def test_a_stopped_queue(self):
        pbs = self.pbs
        pbs.run("qstop", "small")
        self.addCleanup(pbs.run, "qstart", "small")
        self.refused(self.ask(1, 600, "-q", "small"), "refused (limit): queue small: started is False")
        pbs.run("qstart", "small")
        self.running(self.accept(1, 600, "-q", "small"))

    def test_nodes_of_a_queue(self):
        pbs, (first, *others) = self.pbs, self.pbs.host_names
        self.with_settings(f"node {first} queue = small")
        own, other = self.accept(1, 600, "-q", "small"), self.accept(1, 600)
        for job in (own, other):
            self.running(job)
        self.assertEqual(pbs.node_of(own), [first])
        self.assertIn(pbs.node_of(other)[0], others)
        self.refused(self.ask(1, 600, "-l", f"select=1:host={first}"), "refused (no-node)")

    def test_check_names_what_is_not_judged(self):
        self.with_settings("queue other Priority = 200", "server node_group_key = host", "server max_run = [o:PBS_ALL=50]")
        said = self.pbs.run(self.pbs.libra, "pbs", "check", *self.pbs.install_arguments()).out
        for part in ("queue other: Priority=200 is not judged at submission", "server: node_group_key=host is not judged"):
            self.assertIn(part, said)
        self.assertNotIn("max_run", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
