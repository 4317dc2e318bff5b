#!/usr/bin/env python3
"""Nodes on which a job cannot be held to its share. What happens is the site's rule for faults; never is a node drained.

Run as root: `tests/slurm/run test_faults_host`. Takes about two minutes.
"""

import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from promises import expect_free, terms  # noqa: E402

ADMIT, REFUSE = ('[slurm]\non-fault = "admit"\n', '[slurm]\non-fault = "refuse"\n')


class Registry(SiteCase):
    """It cannot be written to."""

    site = {"nodes": 2}

    @contextlib.contextmanager
    def registry_on(self, node, *options, full=False):
        """The node's registry is on a file system of its own."""
        where = self.slurm.registry(node)
        where.mkdir(mode=0o755, parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(["size=64k,mode=0755", *options]), "libra-test", where], check=True)
        try:
            if full:
                with contextlib.suppress(OSError), open(where / "filler", "wb", buffering=0) as filler:
                    while filler.write(b"x" * 4096):
                        pass
            yield
        finally:
            subprocess.run(["umount", where], check=True)

    def test_unwritable(self):
        slurm = self.slurm
        n1, n2 = slurm.nodes
        for what, options in {"full": {"full": True}, "read-only": {}}.items():
            for rule in (REFUSE, ADMIT):
                with self.subTest(what, rule=rule), self.registry_on(n1, *([] if options else ["ro"]), **options):
                    slurm.configure(rule)
                    before = len(slurm.log(n1))
                    job = slurm.submit(*terms(0.3, n1), script="sleep 2\n")
                    ended = slurm.wait_ended(job)
                    # Where nothing at all can be written, a refusal of its tasks cannot be either: they try to begin it themselves.
                    self.assertEqual(ended["JobState"], "COMPLETED" if rule == ADMIT else "FAILED", slurm.log(n1)[before:])
                    said = slurm.wait("slurmd's log says it", lambda before=before: [line for line in slurm.log(n1)[before:].splitlines() if "libra" in line and "rror" in line])
                    self.assertTrue([line for line in said if job in line or "registry" in line], said)
                    self.assertNotIn("DRAIN", slurm.node(n1)["State"])
                    plain = slurm.submit("-w", n1, script="true\n")
                    self.assertEqual(slurm.wait_ended(plain)["JobState"], "COMPLETED", "jobs without terms run")
        slurm.configure()
        # As usual again; elsewhere nothing was amiss.
        job = slurm.submit(*terms(0.3, n1))
        self.started(job)
        expect_free(self, slurm, {n1: 0.7, n2: 1})


class Plugins(SiteCase):
    """The node's plugin is missing, broken, or cut off."""

    site = {"nodes": 2}

    def restart(self, node, *more):
        self.slurm.kill_slurmd(node)
        self.slurm.start_slurmd(node, *more)
        self.slurm.wait("it answers", lambda: "IDLE" in self.slurm.node(node)["State"] and "NOT_RESP" not in self.slurm.node(node)["State"])

    def test_missing(self):
        """A node without the plugin: its jobs run, held to nothing; nobody is drained and the other node is as ever."""
        slurm = self.slurm
        n1, n2 = slurm.nodes
        file, aside = slurm.plugins / "libra_spank.so", slurm.plugins / "aside"
        # The clients are on the same machine: they miss it too, so the terms come as a comment.
        file.rename(aside)
        try:
            self.restart(n1)
            job = slurm.submit("--comment=libra:estimate=20,deadline=100,budget=1000", "-w", n1)
            self.running(job)
            time.sleep(1)
            self.assertEqual(slurm.job_groups(), [])
            self.assertNotIn("DRAIN", slurm.node(n1)["State"])
            self.assertIn("libra:v=1", slurm.job(job)["AdminComment"], "it was committed all the same")
        finally:
            aside.rename(file)
        self.restart_busy(n1)
        slurm.scancel(job)
        slurm.wait_ended(job)
        job = slurm.submit(*terms(0.3, n1))
        self.started(job)
        expect_free(self, slurm, {n1: 0.7, n2: 1})

    def restart_busy(self, node):
        self.slurm.kill_slurmd(node)
        self.slurm.start_slurmd(node)
        self.slurm.wait("it answers", lambda: "NOT_RESP" not in self.slurm.node(node)["State"] and "DOWN" not in self.slurm.node(node)["State"])

    def test_epilog_killed(self):
        """The epilog is killed while it waits: Slurm drains the node itself. The book is right, and the administrator's `resume` is all there is to do."""
        slurm = self.slurm
        node = slurm.nodes[0]
        job = slurm.submit(*terms(0.3, node))
        self.started(job)
        with open(slurm.registry(node) / "lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            slurm.scancel(job)
            pid = slurm.wait("its epilog waits", lambda: self.epilog(node))
            os.kill(pid, signal.SIGKILL)
            slurm.wait("it is gone", lambda: self.epilog(node) != pid)
        slurm.wait_ended(job)
        slurm.wait("the book is rid of it", lambda: job not in slurm.booked())
        slurm.wait("the node is not completing", lambda: "COMPLETING" not in slurm.node(node)["State"])
        if "DRAIN" in slurm.node(node)["State"]:
            print("drained by Slurm:", slurm.node(node).get("Reason"), file=sys.stderr)
            slurm.must("scontrol", "update", f"nodename={node}", "state=resume")
        # A job with a commitment of nearly all of the node gets it: its prolog ends what is left over, and a cgroup with it where the job had not
        # yet come to its program.
        self.assertEqual(slurm.live(), [f"{node} {job}"])
        time.sleep(10)
        for _ in range(3):
            seen = len(slurm.log(node))
            whole = slurm.wait("it is taken again", lambda: slurm.sbatch(*terms(0.9, node)).out)
            self.started(whole)
            # Where slurmctld was too busy to tell a prolog about the other one within its 3 s, the next one asks.
            if "did not say" not in slurm.log(node)[seen:]:
                break
            slurm.scancel(whole)
            slurm.wait(f"{whole} is gone", lambda whole=whole: f"{node} {whole}" not in slurm.live() and whole not in slurm.booked())
        self.assertEqual(slurm.job_groups(), [f"{node} job-{whole}"])
        self.assertEqual(slurm.live(), [f"{node} {whole}"])
        self.assertAlmostEqual(self.quota(whole, node), 0.9, delta=0.02)
        expect_free(self, slurm, {node: 0.1})

    def epilog(self, node):
        """The process of a node's epilog."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and b"spank\0epilog" in (entry / "cmdline").read_bytes() and f"SLURMD_NODENAME={node}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    return int(entry.name)
        return None


if __name__ == "__main__":
    unittest.main()
