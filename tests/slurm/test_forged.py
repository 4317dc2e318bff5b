#!/usr/bin/env python3
"""Users who say themselves what is committed to their jobs, by every way that there is into a prolog's environment: they get nothing by it, and nobody
loses anything.

Run as root: `python3 tests/slurm/test_forged.py`.
"""

import concurrent.futures
import json
import pathlib
import pwd
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from node_site import NodeCase  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent

# Names under which a line could come to a node. Slurm puts SPANK_ before what does not begin with it.
SPELLINGS = ["SPANK_LIBRA_COMMITMENT", "LIBRA_COMMITMENT", "SPANK_SPANK_LIBRA_COMMITMENT", "_SPANK_LIBRA_COMMITMENT", "SLURM_SPANK_LIBRA_COMMITMENT", "_SLURM_SPANK_OPTION_libra_LIBRA_COMMITMENT",
             "SPANK__SLURM_SPANK_OPTION_libra_LIBRA_COMMITMENT"]


def line(node, share=1, processors=1, **other):
    pairs = {"v": 1, "token": 1, "submitted": time.time(), "estimate": 500, "deadline": 1000, "budget": 1, "type": "hard", "penalty": 0, "price": 0, "chunks": 1,
             "processors": processors, "memory": 0, "scatter": 0, "count": 1, "at": f"{node}*1*{share}", **other}
    return ":".join(f"{key}={value}" for key, value in pairs.items())


class Attacks:
    """One node of one processor, more than half of which is a victim's; the attacker is another user."""

    site = {"nodes": 1, "users": 2}

    @classmethod
    def prepare(cls):
        cls.submit_program = cls.slurm.home(cls.slurm.users[0]) / "submit"
        subprocess.run(["cc", "-o", cls.submit_program, HERE / "submit.c", "-lslurm"], check=True)
        cls.node, = cls.slurm.nodes
        cls.attacker, cls.owner = cls.slurm.users

    def accepted_victim(self):
        """Of so long a deadline a quarter of an hour is next to nothing."""
        victim = self.accept(500_000, 1_000_000, "-w", self.node, user=self.owner, budget=1_000_000)
        self.started(victim)
        return victim

    def forge(self, *arguments):
        """A job that comes with these entries in its SPANK environment, and that begins."""
        slurm = self.slurm
        entries = [word for entry in arguments for word in ("-e", entry)]
        asked = slurm.run(self.submit_program, "-w", self.node, *entries, user=self.attacker, environment={"SLURM_CONF": str(slurm.conf)})
        self.assertEqual(asked.rc, 0, asked.err)
        job = asked.out.strip()
        self.running(job)
        slurm.wait("it begins", (slurm.home(self.attacker) / f"began.{job}").exists)
        return job

    def got_nothing(self, job, victim):
        slurm = self.slurm
        self.assertEqual(slurm.entry(self.node, job), {}, "nothing is committed to it")
        self.assertEqual(slurm.job_groups(), [f"{self.node} job-{victim}"])
        pid = self.processes_of(job)
        self.assertIn(f":cpu:/{slurm.best_effort(self.node, job).name}\n", pathlib.Path(f"/proc/{pid}/cgroup").read_text())
        self.unharmed(victim)

    def processes_of(self, job):
        """One process of a job of the attacker's, found by its environment."""
        user = pwd.getpwnam(self.attacker).pw_uid
        for file in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                # salloc's and srun's own have the job's number as well.
                has = file.read_bytes() if file.parent.stat().st_uid == user else b""
                if f"SLURM_JOB_ID={job}\0".encode() in has and b"SLURM_PROCID=" in has:
                    return int(file.parent.name)
            except OSError:
                continue
        self.fail(f"no process of job {job}")

    def unharmed(self, victim):
        """The victim keeps its quota, to the digit: what it was promised, and the little that it lacks by now."""
        quota = self.quota(victim, self.node)
        self.assertTrue(0.52 <= quota <= 0.54, f"the victim's quota is {quota}")

    def rejected(self):
        """What the node has counted: {reason: jobs}."""
        file = self.slurm.registry(self.node) / "counts.json"
        return json.loads(file.read_text())["totals"].get("claims-rejected", {}) if file.exists() else {}

    def node_log(self):
        return self.slurm.log(self.node)


class Submissions(Attacks, SiteCase):
    """With Libra in slurmctld."""

    def test_every_spelling(self):
        """By libslurm's own call, which takes whatever it is given."""
        victim = self.accepted_victim()
        for forged in [line(self.node), line(self.node, 1, 65536), line(self.node, 0.5, estimate=1)]:
            job = self.forge(*[f"{name}={forged}" for name in SPELLINGS])
            self.got_nothing(job, victim)
            self.slurm.scancel(job, user=self.attacker)
        for name in SPELLINGS:
            with self.subTest(name):
                job = self.forge(f"{name}={line(self.node)}")
                self.got_nothing(job, victim)
                self.slurm.scancel(job, user=self.attacker)

    def test_replayed(self):
        """Another's line, which everybody can read, and one's own of a job that has ended."""
        slurm = self.slurm
        victim = self.accepted_victim()
        own = self.accept(30, 100, "-w", self.node, script="true\n")
        slurm.wait_ended(own)
        for source in (victim, own):
            commitment = slurm.job(source, user=self.attacker)["AdminComment"].removeprefix("libra:")
            self.assertIn("v=1:", commitment)
            slurm.wait("its epilog", lambda: slurm.job_groups() == [f"{self.node} job-{victim}"])
            job = self.forge(f"SPANK_LIBRA_COMMITMENT={commitment}")
            self.got_nothing(job, victim)

    def test_changed(self):
        """A job that runs and is changed, and begins anew."""
        slurm = self.slurm
        victim = self.accepted_victim()
        job = self.forge()
        slurm.run(self.submit_program, "-u", job, "-e", f"SPANK_LIBRA_COMMITMENT={line(self.node)}", user=self.attacker, environment={"SLURM_CONF": str(slurm.conf)})
        asked = slurm.run(self.submit_program, "-u", job, f"libra:{line(self.node)}", user=self.attacker, environment={"SLURM_CONF": str(slurm.conf)})
        self.assertNotEqual(asked.rc, 0, "an admin comment is not for users")
        self.got_nothing(job, victim)
        self.assertNotIn("AdminComment", slurm.job(job))

    def test_beside_terms_of_its_own(self):
        """A job with terms that also says something else keeps its own."""
        slurm = self.slurm
        environment = {name: line(self.node) for name in SPELLINGS}
        job = self.accept(200, 1000, "-w", self.node, environment=environment)
        self.started(job)
        self.assertAlmostEqual(slurm.entry(self.node, job)["share"], 0.21, delta=0.001)
        self.assertLess(self.quota(job, self.node), 0.25)


class Nodes(Attacks, NodeCase):
    """Without Libra in slurmctld: whatever is sent comes to the node, which believes slurmctld's records alone."""

    def victim(self):
        victim = self.slurm.submit("-w", self.node, user=self.owner, environment=self.slurm.commitment((self.node, 0.525), estimate=500_000, deadline=1_000_000))
        self.started(victim)
        return victim

    def test_what_is_not_on_record(self):
        slurm, victim, before = self.slurm, self.victim(), self.rejected().get("unrecorded", 0)
        replayed = slurm.job(victim, user=self.attacker)["AdminComment"].removeprefix("libra:")
        for count, forged in enumerate([line(self.node), line(self.node, 1, 65536), replayed, "", "v=2:token=1", "x" * 5000], 1):
            job = self.forge(f"SPANK_LIBRA_COMMITMENT={forged}")
            self.got_nothing(job, victim)
            self.assertEqual(self.rejected().get("unrecorded", 0), before + count)
            self.assertIn(f"job {job} claims what is not committed to it: slurmctld has no record", self.node_log())
            slurm.scancel(job, user=self.attacker)

    def test_something_else_than_the_record(self):
        """The record counts."""
        slurm, before = self.slurm, self.rejected().get("unrecorded", 0)
        recorded = slurm.commitment((self.node, 0.2), estimate=200, deadline=1000)["TEST_COMMITMENT"]
        job = self.forge(f"LIBRA_COMMITMENT={recorded}", f"SPANK_LIBRA_COMMITMENT={line(self.node)}")
        self.assertEqual(slurm.entry(self.node, job)["share"], 0.2)
        self.assertLess(self.quota(job, self.node), 0.25)
        self.assertEqual(self.rejected().get("unrecorded", 0), before + 1)

    def test_more_than_there_is(self):
        """On record, and impossible: nothing. Possible, but not beside the victim: what is left."""
        slurm, victim, before = self.slurm, self.victim(), self.rejected().get("capacity", 0)
        job = self.forge(f"LIBRA_COMMITMENT={line(self.node, 1, 65536)}")
        self.got_nothing(job, victim)
        self.assertEqual(self.rejected()["capacity"], before + 1)
        self.assertIn(f"job {job}: 65536.000 processors were claimed for it", self.node_log())
        slurm.scancel(job, user=self.attacker)
        job = self.forge(f"LIBRA_COMMITMENT={line(self.node)}")
        self.assertAlmostEqual(slurm.entry(self.node, job)["share"], 0.475, delta=0.01)
        self.assertAlmostEqual(self.quota(job, self.node), 0.475, delta=0.03)
        self.unharmed(victim)
        self.assertEqual(self.rejected()["capacity"], before + 2)


class Steps(Attacks, SiteCase):
    """Prologs run with the first step, which its user starts: its launch request has what the user's own plugin puts into it."""

    site = {"nodes": 1, "users": 2, "settings": {"PrologFlags": None}}

    def test_a_line_in_the_launch_request(self):
        slurm = self.slurm
        victim = self.accepted_victim()
        home = slurm.home(self.attacker)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", home / "commitment.so", HERE / "commitment.c"], check=True)
        # The cluster's settings, with the attacker's list of plugins beside them.
        (home / "slurm.conf").write_text(slurm.conf.read_text())
        (home / "plugstack.conf").write_text(f"required {home}/commitment.so\n")
        for forged in (line(self.node), slurm.job(victim, user=self.attacker)["AdminComment"].removeprefix("libra:")):
            before = self.rejected().get("unrecorded", 0)
            (home / "own").unlink(missing_ok=True)
            own = {"SLURM_CONF": str(home / "slurm.conf"), "TEST_COMMITMENT": forged}
            begin = f"echo $SLURM_JOB_ID >{home}/own.new; mv {home}/own.new {home}/own; sleep 1000"
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                asked = pool.submit(slurm.salloc, "-w", self.node, "srun", "sh", "-c", begin, user=self.attacker, environment=own, timeout=800)
                try:
                    slurm.wait("the step begins", lambda asked=asked: (home / "own").exists() or asked.done())
                    self.assertTrue((home / "own").exists(), asked.done() and asked.result())
                    job = (home / "own").read_text().strip()
                    self.got_nothing(job, victim)
                    self.assertGreater(self.rejected().get("unrecorded", 0), before, "it came to the node")
                finally:
                    slurm.scancel(f"--user={self.attacker}")
            slurm.wait("it is over", lambda: slurm.job_groups() == [f"{self.node} job-{victim}"])


class Changed(SiteCase):
    """A job that was accepted is changed by its owner under another name than its number."""

    site = {"nodes": 2, "users": 1}

    def unchanged(self, job, names):
        slurm = self.slurm
        def fields():
            found = slurm.job(job)
            # Slurm writes the number of nodes as 1-1 until the job runs.
            return {**{key: found[key] for key in ("TimeLimit", "NumTasks", "ReqNodeList", "Partition", "AdminComment")}, "nodes": found["NumNodes"].partition("-")[0]}

        before = fields()
        for name in names:
            for change in ("timelimit=1", "numtasks=2", "numnodes=2-2", f"reqnodelist={','.join(slurm.nodes)}", "starttime=now+1hour", "partition=main"):
                with self.subTest(f"{name!r} {change}"):
                    asked = slurm.scontrol("update", f"jobid={name}", change, user=slurm.users[0])
                    self.assertNotEqual(asked.rc, 0)
        self.assertEqual(fields(), before)

    def test_numbers_as_slurmctld_reads_them(self):
        """It takes blanks, signs and zeros ahead, and cuts off what 32 bits do not hold."""
        slurm = self.slurm
        job = self.accept(30, 300)
        self.booked(job)
        names = [f"+{job}", f" {job}", f"0{job}", str(2**32 + int(job)), f"+{job}_1", f"+{job}+0"]
        self.unchanged(job, names)
        for name in names:
            self.assertNotEqual(slurm.scontrol("update", f"jobid={name}", "admincomment=mine").rc, 0, name)
        self.assertTrue(slurm.job(job)["AdminComment"].startswith("libra:"))

    def test_a_component_of_a_job_without_a_commitment(self):
        slurm = self.slurm
        first = slurm.submit("-n1", ":", *self.terms_of(30, 300), "-n1")
        job = str(int(first) + 1)
        slurm.wait("it has a commitment", lambda: slurm.job(job).get("AdminComment", "").startswith("libra:"))
        self.booked(job)
        self.unchanged(job, [job, f"{first}+1", f"+{first}+1"])


if __name__ == "__main__":
    unittest.main()
