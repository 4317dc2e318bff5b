#!/usr/bin/env python3
"""What users see when they submit to a PBS with Libra: price and node, refusals and counter-offers, changes, deletions, queues.

Run as root: `python3 tests/openpbs/test_users.py`. Nothing here needs much processor time; that is in test_users_shares.py.
"""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import MARGIN, REFUSED, SiteCase  # noqa: E402
from client import CommandFailed  # noqa: E402

# Every estimate is planned with a margin of 5 % (the default), so an estimate of 10 s and a deadline of 20 s take 10.5 / 20.


class Submitting(SiteCase):
    """Three hosts of one processor each."""

    def price(self, estimate, deadline):
        """The linear price with alpha and beta 1."""
        return estimate + estimate / deadline

    def test_accepted_with_price_and_node(self):
        job = self.accept(1000, 2000, budget=1500)
        record = self.running(job)
        # It began before, so it was due no more than it would be now.
        most = self.due(job)
        host = self.pbs.host_names[0]
        self.assertEqual(record["Resource_List.libra_price"], "1000.5")
        self.assertEqual(record["Resource_List.libra_info"],
                         f"accepted: 52.5 % of a processor on {host}, finished in 33m20s at the latest, for 1000.5 of 1500 credits")
        self.assertEqual(record["Resource_List.walltime"], "00:50:00")
        self.assertEqual(self.pbs.node_of(job), [host])
        self.assertAlmostEqual(self.pbs.committed()[host], 0.525)
        # The same with select, where every chunk says what it takes.
        chunks = self.accept(1000, 2000, "-l", "select=1:ncpus=1", budget="1000.5")
        self.assertIn("libra_share=0.525", self.running(chunks)["Resource_List.select"])
        self.assertIn(":vnode=n", self.pbs.qstat(chunks)["Resource_List.select"])
        # The kernel holds it: 52.5 ms of each 100 ms (and the registry's minimum for a job just begun is no less).
        quota = int((self.pbs.cgroup(host, job) / "cpu.cfs_quota_us").read_text()) / int((self.pbs.cgroup(host, job) / "cpu.cfs_period_us").read_text())
        self.assertGreaterEqual(quota, 0.525)
        self.assertLess(quota, max(0.6, most + 0.01, self.due(job) + 0.01))

    def test_nobody_else_writes_a_commitment(self):
        forged = self.pbs.qsub("-l", "libra_terms=v=1", "-l", "estimate=1,deadline=9,budget=9")
        self.refused(forged, "libra_terms is written by Libra")
        forged = self.pbs.qsub("-l", "select=1:libra_share=0.1", "-l", "estimate=1,deadline=9,budget=9")
        self.refused(forged, "libra_share is written by Libra")

    def offer(self, text):
        """The terms of the first counter-offer, as qsub -l takes them."""
        line = re.search(r"accepted now would be: ([^\n]+)", text)[1]
        return dict(pair.split("=") for pair in re.findall(r"\b[a-z]+=[0-9.]+\w*", line.split("(")[0]))

    def take(self, offer, estimate, deadline, budget):
        """Submit with a counter-offer in place of what was refused."""
        terms = {"estimate": estimate, "deadline": deadline, "budget": budget, **offer}
        return self.running(self.pbs.submit("-l", ",".join(f"{key}={value}" for key, value in terms.items())))

    def test_refused_for_its_budget(self):
        text = self.refused(self.ask(10, 20, budget=9), "libra: refused (budget): the job costs 10.5 credits; the budget is 9")
        self.assertEqual(self.offer(text), {"budget": "10.5"})
        self.take(self.offer(text), 10, 20, 9)

    def test_refused_for_its_deadline(self):
        text = self.refused(self.ask(30, 20), "libra: refused (deadline)", "31.5 s; the deadline is 20 s")
        self.assertEqual(self.offer(text), {"deadline": "31.5"})
        self.take(self.offer(text), 30, 20, 1000)

    def offered_and_taken(self):
        """(an offer, the job that took it); None if PBS's jobs were looked at in between, which need more then."""
        offer = self.offer(self.refused(self.ask(100, 200), "libra: refused (share)"))
        try:
            return offer, self.take(offer, 100, 200, 1000)
        except CommandFailed:
            return None

    def test_refused_for_other_peoples_shares(self):
        """All three hosts are committed to 70 %; what the refusal offers is what is left."""
        first = [self.accept(200, 300) for _ in self.pbs.host_names]
        for job in first:  # until they run, they need more with every second, and what is offered is soon too much
            self.running(job)
        shares = [self.share(job) for job in first]
        offer, job = self.pbs.wait("what is offered is taken", self.offered_and_taken)
        self.assertGreater(float(offer["deadline"]), 200)
        for host, taken in self.pbs.committed().items():
            self.assertLessEqual(taken, 1.0, host)
        self.assertEqual(len(shares), 3)
        self.assertIn("accepted", job["Resource_List.libra_info"])

    def test_refused_for_a_bad_value(self):
        for terms, parts in [
            ("estimate=abc,deadline=20,budget=9", ["estimate: 'abc' is not a duration", "HH:MM:SS"]),
            ("estimate=10,deadline=-5,budget=9", ["deadline"]),
            ("estimate=10,deadline=20,budget=cheap", ["budget"]),
            ("deadline=20,budget=9", ["estimate is missing"]),
            ("estimate=10,deadline=20,budget=9,deadline_type=maybe", ["deadline_type", "maybe"]),
        ]:
            with self.subTest(terms):
                self.refused(self.pbs.qsub("-l", terms), "qsub: libra: ", *parts)
        self.refused(self.ask(1, 9, "-l", "place=excl"), "place=excl")
        self.refused(self.ask(1, 9, "-l", "select=1:host=nowhere"), "refused (no-node)")
        self.assertEqual([job for job, record in self.pbs.jobs().items() if record["job_state"] != "F"], [])

    def test_best_fit(self):
        """Nodes with 0.9, 0.5 and 0.7 of a processor left: each job goes where it leaves least."""
        pbs = self.pbs
        try:
            pbs.qmgr(*(f"set node {host} resources_available.libra_share = {share}" for host, share in zip(pbs.host_names, ("0.9", "0.5", "0.7"))))
            n1, n2, n3 = pbs.host_names
            chosen = []
            # Shares of 0.6, 0.4, 0.25, 0.08: 0.6 fits n1 and n3, n3 is tighter; 0.4 fits n1 and n2, n2 is tighter; 0.25 then only n1; 0.08 leaves 0.02 on n2 (and n3) and more on n1.
            for share in (0.6, 0.4, 0.25, 0.08):
                job = self.accept(round(share * 1_000_000 / MARGIN, 3), 1_000_000, budget=5_000_000)
                chosen.append(self.running(job) and pbs.node_of(job)[0])
            self.assertEqual(chosen[:3], [n3, n2, n1])
            self.assertIn(chosen[3], (n2, n3))
        finally:
            self.clear()
            pbs.qmgr(*(f"set node {host} resources_available.libra_share = 1" for host in pbs.host_names))

    def test_an_urgent_job_is_refused_rather_than_an_accepted_one_made_late(self):
        host = self.pbs.host_names[1]
        there = ("-l", f"select=1:ncpus=1:host={host}")
        first = self.accept(600, 1000, *there)
        self.running(first)
        before = self.terms(first)
        # It alone would need the whole processor, and would pay for it.
        self.refused(self.ask(100, 106, *there, budget=1e6), "libra: refused (share)", host)
        self.assertEqual(self.terms(first), before)
        self.assertEqual(self.pbs.qstat(first)["job_state"], "R")
        self.running(self.accept(100, 106))  # elsewhere

    def test_qalter(self):
        pbs, user = self.pbs, self.pbs.users[0]
        pbs.qmgr("set server scheduling = false")
        job = self.accept(10, 20)
        for change in ("deadline=200", "budget=1", "select=1:ncpus=2", "walltime=99", "estimate="):
            answer = pbs.run("qalter", "-l", change, job, user=user)
            self.assertEqual(answer.rc, REFUSED, answer)
            self.assertIn("belongs to the commitment to this job", answer.err)
        self.assertNotEqual(pbs.run("qalter", "-l", "libra_terms=v=1", job, user=user).rc, 0)
        self.assertEqual(pbs.run("qalter", "-N", "other-name", job, user=user).rc, 0)
        record = pbs.qstat(job)
        self.assertEqual((record["Job_Name"], record["Resource_List.deadline"]), ("other-name", "20"))
        plain = pbs.submit()
        answer = pbs.run("qalter", "-l", "deadline=200", plain, user=user)
        self.assertEqual(answer.rc, REFUSED, answer)
        self.assertIn("given when a job is submitted", answer.err)

    def test_qmove(self):
        pbs = self.pbs
        pbs.qmgr("create queue other queue_type=execution,enabled=true,started=true", "set server scheduling = false")
        host = pbs.host_names[0]
        there = ("-l", f"select=1:ncpus=1:host={host}")
        job = self.accept(60, 100, *there)
        self.assertEqual(pbs.run("qmove", "other", job, user=pbs.users[0]).rc, 0)
        self.assertEqual(pbs.qstat(job)["queue"], "other")
        self.refused(self.ask(60, 100, *there), "refused (share)")
        away = pbs.run("qmove", "workq@elsewhere", job, user=pbs.users[0])
        self.assertNotEqual(away.rc, 0)
        pbs.qmgr("set server scheduling = true")
        self.running(job)
        self.assertAlmostEqual(pbs.committed()[host], 0.63)

    def test_qdel_frees_the_share_again(self):
        pbs, user = self.pbs, self.pbs.users[0]
        there = ("-l", f"select=1:ncpus=1:host={pbs.host_names[2]}")
        # Running.
        first = self.accept(60, 70, *there)
        self.running(first)
        self.refused(self.ask(60, 70, *there), "refused (share)")
        self.assertEqual(pbs.qdel(first, user=user).rc, 0)
        pbs.wait_state(first, "F")
        # The next moment; and waiting.
        pbs.qmgr("set server scheduling = false")
        second = self.accept(60, 70, *there)
        self.refused(self.ask(60, 70, *there), "refused (share)")
        self.assertEqual(pbs.qdel(second, user=user).rc, 0)
        third = self.accept(60, 70, *there)
        pbs.qmgr("set server scheduling = true")
        self.running(third)

    def test_history_and_route_queue(self):
        """A routing queue in front, and a job in the history that says what was committed to it."""
        pbs = self.pbs
        pbs.qmgr("create queue behind queue_type=execution,enabled=true,started=true",
                 "create queue front queue_type=route,enabled=true,started=true,route_destinations=behind")
        job = self.accept(10, 20, "-q", "front", budget=15, script="true\n")
        record = pbs.wait_state(job, "F")
        self.assertEqual((record["queue"], record["Exit_status"], record["Resource_List.libra_price"]), ("behind", "0", "10.5"))
        self.assertIn("accepted", record["Resource_List.libra_info"])
        self.assertIn("job_state = F", pbs.must("qstat", "-x", "-f", job))
        self.refused(self.ask(30, 20, "-q", "front"), "refused (deadline)")

    def test_w_options(self):
        """-W as in the papers, through libra qsub: on the command line, in the script, both."""
        pbs = self.pbs
        qsub = ("qsub", "-W", "deadline=20,budget=15,estimate=10")
        answer = pbs.run(pbs.libra, *qsub, user=pbs.users[0], stdin="sleep 100\n")
        self.assertEqual(answer.rc, 0, answer)
        job = answer.out.strip()
        said = f"accepted: 52.5 % of a processor on {pbs.host_names[0]}, finished in 20 s at the latest, for 10.5 of 15 credits"
        self.assertIn(said, answer.err)
        self.assertEqual(pbs.qstat(job)["Resource_List.libra_price"], "10.5")
        script = pathlib.Path(pbs.directory) / "home" / pbs.users[1] / "job.sh"
        script.write_text("#!/bin/bash\n#PBS -W deadline=00:00:40,budget=99\n#PBS -W estimate=10\n#PBS -N named\nsleep 100\n")
        answer = pbs.run(pbs.libra, "qsub", "-W", "deadline=50", script, user=pbs.users[1])
        self.assertEqual(answer.rc, 0, answer)
        record = pbs.qstat(answer.out.strip())
        self.assertEqual([record[f"Resource_List.{key}"] for key in ("deadline", "budget", "estimate")], ["50", "99", "10"])
        self.assertEqual(record["Job_Name"], "named")
        self.assertIn("for 10.2 of 99 credits", answer.err)
        refused = pbs.run(pbs.libra, "qsub", "-W", "deadline=20,budget=9,estimate=10", user=pbs.users[0], stdin="sleep 100\n")
        self.assertEqual(refused.rc, REFUSED, refused)
        self.assertIn("refused (budget)", refused.err)

    def test_qrun_elsewhere(self):
        pbs = self.pbs
        pbs.qmgr("set server scheduling = false")
        job = self.accept(100, 200)
        here, elsewhere = pbs.host_names[:2]
        answer = pbs.run("qrun", "-H", elsewhere, job)
        self.assertNotEqual(answer.rc, 0)
        self.assertIn(f"its share was committed on {here}, not on {elsewhere}", answer.err)
        self.assertEqual(pbs.qstat(job)["job_state"], "Q")
        self.assertEqual(pbs.run("qrun", "-H", here, job).rc, 0)
        self.running(job)

    def test_memory(self):
        """A node's memory is committed as well."""
        pbs = self.pbs
        host = pbs.host_names[0]
        there = f"select=1:ncpus=1:host={host}"
        try:
            pbs.qmgr(f"set node {host} resources_available.mem = 3gb")
            first = self.accept(1, 100, "-l", f"{there}:mem=2gb")
            self.assertIn("mem=2147483648b", self.running(first)["Resource_List.select"])
            self.refused(self.ask(1, 100, "-l", f"{there}:mem=2gb"), "refused (memory)")
            self.refused(self.ask(1, 100, "-l", f"{there}:mem=20tb"), "refused")
            self.running(self.accept(1, 100, "-l", f"{there}:mem=1gb"))
        finally:
            self.clear()
            pbs.qmgr(f"unset node {host} resources_available.mem", check=False)


if __name__ == "__main__":
    unittest.main()
