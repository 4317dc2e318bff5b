#!/usr/bin/env python3
"""Reservations (pbs_rsub) and jobs with terms: nothing is promised of nodes that others have reserved, and one's own reservation is judged by its nodes and its time.

Run as root: `python3 tests/openpbs/test_reservations.py`. Nothing here needs much processor time.
"""

import json
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402


class Reservations(SiteCase):
    """Two hosts of two processors."""

    site = {"hosts": 2, "processors": 2}

    def reserve(self, host, begins, lasts, user=None):
        """A reservation of a host, in so many seconds for so many: the name of its queue. It is confirmed."""
        pbs = self.pbs
        at = lambda seconds: time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() + seconds))  # noqa: E731
        # PBS takes none whose begin has passed, as it may have on a slow machine.
        for begin in (begins, 6 * begins, 36 * begins):
            asked = pbs.run("pbs_rsub", "-R", at(begin), "-E", at(begin + lasts), "-l", f"select=1:ncpus=2:host={host}", user=user or pbs.users[1])
            if asked.rc == 0:
                break
        self.assertEqual(asked.rc, 0, asked.err)
        name = asked.out.split()[0]
        self.addCleanup(pbs.run, "pbs_rdel", name)
        pbs.wait(f"{name} is confirmed", lambda: re.search(r"reserve_state = RESV_(CONFIRMED|RUNNING)", self.shown(name)))
        return name.split(".")[0]

    def shown(self, name):
        return self.pbs.run("pbs_rstat", "-f", name).out

    def begun(self, name):
        self.pbs.wait(f"{name} has begun", lambda: "reserve_state = RESV_RUNNING" in self.shown(name), 400)

    def restart(self, **environment):
        self.pbs.kill_server()
        self.pbs.start_server(**environment)
        self.pbs.wait_free()

    def test_nodes_that_others_have_reserved(self):
        pbs = self.pbs
        first, second = pbs.host_names
        reserved = self.reserve(first, 900, 3600)
        # It may be on the first host until 110 s from now, not 1010 s.
        for _ in range(3):
            job = self.accept(10, 1000)
            self.running(job)
            self.assertEqual(pbs.node_of(job), [second])
        self.running(self.accept(10, 100, "-l", f"select=1:ncpus=1:host={first}"))
        self.refused(self.ask(10, 1000, "-l", f"select=1:ncpus=1:host={first}"), f"refused (limit): the nodes that it could have are reserved before it would end: {reserved}.")
        # Who reserved it is no matter: this job is in another queue.
        self.refused(self.ask(10, 1000, "-l", f"select=1:ncpus=1:host={first}", user=pbs.users[1]), "are reserved before it would end")
        both = self.reserve(second, 900, 3600)
        self.refused(self.ask(10, 1000), f"{reserved}.", f"{both}.")
        self.assertEqual(pbs.run("pbs_rdel", reserved).rc, 0)
        pbs.wait(f"{reserved} is gone", lambda: not self.shown(reserved))
        job = self.accept(10, 1000)
        self.running(job)
        self.assertEqual(pbs.node_of(job), [first])

    def test_jobs_of_one_that_is_over(self):
        """PBS has them until its history of them ends; what it makes of them reads what it has freed, which is overwritten here."""
        pbs = self.pbs
        self.restart(MALLOC_PERTURB_="85")
        self.addCleanup(self.restart)
        own = self.reserve(pbs.host_names[0], 5, 900)
        self.begun(own)
        job = self.accept(10, 100, "-q", own, user=pbs.users[1], script="true\n")
        pbs.wait_state(job, "F")
        self.assertEqual(pbs.run("pbs_rdel", own).rc, 0)
        pbs.wait(f"{own} is gone", lambda: not self.shown(own))
        gone = time.time()
        records = pbs.home / "server_priv/libra/records.json"
        pbs.wait("what PBS has is written down", lambda: records.exists() and json.loads(records.read_text())["taken"] > gone)
        self.assertEqual(pbs.qstat(job)["job_state"], "F")

    def test_in_ones_own(self):
        pbs = self.pbs
        user, second = pbs.users[1], pbs.host_names[1]
        own = self.reserve(second, 600, 3600)
        self.refused(self.ask(10, 100, "-q", own, user=user), f"refused (limit): reservation {own}.", "and a job with a deadline starts at once; submit it then")
        self.assertEqual(pbs.run("pbs_rdel", own).rc, 0)
        own = self.reserve(second, 5, 900)
        self.begun(own)
        jobs = [self.accept(10, 100, "-q", own, user=user) for _ in range(3)]
        for job in jobs:
            record = self.running(job)
            self.assertEqual(pbs.node_of(job), [second])
            self.assertIn("accepted: ", record["Resource_List.libra_info"])
        self.refused(self.ask(10, 3000, "-q", own, user=user), f"reservation {own}.", "and PBS would have to let this job run for 50m10s")
        self.refused(self.ask(10, 100, "-q", own, "-l", f"select=1:ncpus=1:host={pbs.host_names[0]}", user=user), "refused")
        # A plain job in it, and somebody else's, as ever.
        plain = pbs.submit("-q", own, user=user)
        self.running(plain)
        self.assertEqual(pbs.node_of(plain), [second])
        self.assertNotEqual(pbs.qsub("-q", own, user=pbs.users[0]).rc, 0)

    def test_one_that_there_is_not(self):
        for terms in ([], ["-l", "estimate=10,deadline=100,budget=1000"]):
            answer = self.pbs.qsub("-q", "R999", *terms)
            self.assertEqual((answer.rc, answer.err), (170, "qsub: Unknown queue\n"))
        # Nothing is held for it.
        for _ in range(4):
            self.accept(90, 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
