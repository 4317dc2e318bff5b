#!/usr/bin/env python3
"""A real Slurm on cgroup v2, with its own plugins for it: jobs are held where Slurm keeps them, and it can still end them.

    LIBRA_UML_MEMORY=1G tests/uml/run tests/slurm/v2.py PLUGINS

as root, in a user-mode kernel, since the machine may have version 1. PLUGINS: the directory with libra_spank.so. What the guest changes of this
machine's files (users, clusters) it changes in its own memory.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cluster  # noqa: E402
from node_site import NodeSite  # noqa: E402

TOP = pathlib.Path("/sys/fs/cgroup")
SETTINGS = {**cluster.CGROUPS, "JobAcctGatherType": "jobacct_gather/none"}
BUSY = "echo runs\nwhile :; do :; done\n"


def prepare():
    """What a machine has that has been started by more than a kernel."""
    # 192.0.2.1 is nobody's: without an address beside 127.0.0.1 no name has one for Slurm. Users are those of the machine without those of
    # clusters that run there meanwhile, which may be coming and going.
    script = f"""set -e
        ip link set lo up; ip address add 192.0.2.1/32 dev lo; hostname localhost
        mount -t tmpfs tmpfs /srv; mkdir {TOP}/system.slice
        cp -a /etc /run/etc 2>/dev/null || true
        mount --bind /run/etc /etc; rm -f /etc/*.lock; sed -i /^libra-slurm-/d /etc/passwd /etc/group /etc/shadow /etc/gshadow"""
    subprocess.run(["sh", "-c", script], check=True)


class V2Site(NodeSite):
    """One node with one processor, and Slurm's groups of version 2 without systemd."""

    def __init__(self):
        super().__init__(nodes=1, settings={**SETTINGS, "UnkillableStepTimeout": 180})

    def write_conf(self):
        super().write_conf()
        (self.directory / "etc/cgroup.conf").write_text("CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n")

    def slurms(self, job):
        """Slurm's directory of a job; None if there is none."""
        found = list(TOP.glob(f"system.slice/*slurmstepd.scope/job_{job}"))
        return found[0] if found else None

    def launched(self, job):
        """Wait until a task of it runs its script, when the plugin is done with it; Slurm's directory."""
        self.wait(f"a task of job {job}", lambda: "runs" in self.output(job))
        return self.slurms(job)


def used(group):
    return int((group / "cpu.stat").read_text().split()[1]) / 1e6


class V2(unittest.TestCase):
    """Jobs on one node."""

    @classmethod
    def setUpClass(cls):
        cls.slurm = V2Site()
        cls.slurm.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.slurm.__exit__(None, None, None)

    def tearDown(self):
        self.slurm.scancel("--quiet", f"--user={self.slurm.users[0]}")
        self.slurm.wait("all jobs gone", lambda: not self.slurm.must("squeue", "-h"))
        self.assertNotIn("DRAIN", self.slurm.node(self.slurm.nodes[0])["State"], self.slurm.diagnostics())

    def gone(self, job):
        """Everything of a job has ended, Slurm's side and ours."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        slurm.wait(f"job {job} gone", lambda: not slurm.must("squeue", "-h", "-t", "R,CG,PD"))
        slurm.wait("its epilog", lambda: not slurm.live())
        self.assertIsNone(slurm.slurms(job))
        self.assertFalse((TOP / slurm.cgroup_root(node)).exists())

    def test_a_job_is_held_and_cancelled(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = slurm.submit(script=BUSY, environment=slurm.commitment((node, 0.5), estimate=5000 / 1.05, deadline=10_000))
        group = slurm.launched(job)
        self.assertFalse((TOP / slurm.cgroup_root(node) / f"job-{job}").exists())
        quota, period = map(int, (group / "cpu.max").read_text().split())
        print("cpu.max", quota, period, "of", group, file=sys.stderr)
        self.assertAlmostEqual(quota / period, 0.5, delta=0.1)
        time.sleep(1)
        # Longer where the machine is busy: to this kernel the time that it does not get is somebody's here.
        for seconds in (5, 10, 20, *[40] * 12):
            start, before = time.monotonic(), used(group)
            time.sleep(seconds)
            share = (used(group) - before) / (time.monotonic() - start)
            print(f"measured {share:.4f}", file=sys.stderr)
            if abs(share / (quota / period) - 1) <= 0.1:
                break
        self.assertAlmostEqual(share / (quota / period), 1, delta=0.1)
        start = time.monotonic()
        self.assertEqual(slurm.scancel(job).rc, 0)
        self.gone(job)
        print(f"cancelled and gone after {time.monotonic() - start:.1f} s", file=sys.stderr)

    def test_little_shares(self):
        """Slurm's own process of the step works out of the job's share, and can end the job all the same."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        for share, deadline in ((0.02, 500), (0.001, 10000)):
            script = "echo runs\n" + "(while :; do :; done) &\n" * 3 + "while :; do :; done\n"
            start = time.monotonic()
            job = slurm.submit(script=script, environment=slurm.commitment((node, share), estimate=10 / 1.05, deadline=deadline))
            group = slurm.launched(job)
            print(f"{share}: cpu.max", (group / "cpu.max").read_text().strip(), f"runs after {time.monotonic() - start:.1f} s", file=sys.stderr)
            start = time.monotonic()
            slurm.scancel(job)
            self.gone(job)
            print(f"{share}: cancelled and gone after {time.monotonic() - start:.1f} s", file=sys.stderr)

    def test_requeue_and_a_new_slurmd(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = slurm.submit("--requeue", script=BUSY, environment=slurm.commitment((node, 0.5), estimate=50 / 1.05))
        group = slurm.launched(job)
        slurm.kill_slurmd(node)
        slurm.start_slurmd(node)
        slurm.wait("slurmd is back", lambda: slurm.node(node)["State"].startswith(("MIXED", "ALLOCATED")))
        self.assertNotEqual((group / "cpu.max").read_text().split()[0], "max")
        first = group.stat().st_ino
        slurm.must("scontrol", "requeue", job)
        slurm.wait("it is requeued", lambda: slurm.job(job)["JobState"] == "PENDING" and not slurm.live())

        def again():
            group = slurm.slurms(job)
            with contextlib.suppress(FileNotFoundError):  # of a start that has failed
                if group and group.stat().st_ino != first and "max" not in (group / "cpu.max").read_text():
                    return True
            if slurm.state(job) == "PENDING":
                slurm.start_now(job)
            return False

        slurm.wait("it runs again", again, 600)
        slurm.scancel(job)
        self.gone(job)

    def test_steps_and_what_they_used(self):
        """Each step of salloc's takes Slurm's directory with it; what all of them used is in the registry at the end."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        work = "python3 -c 'import time\nwhile time.process_time() < 1: pass'"
        script = f"echo $SLURM_JOB_ID; srun sh -c \"$WORK\"; sleep 1; ls -d {TOP}/system.slice/*.scope/job_*; srun sh -c \"$WORK; cat /proc/self/cgroup\""
        done = slurm.salloc("sh", "-c", script, environment={**slurm.commitment((node, 0.5), estimate=50 / 1.05), "WORK": work}, timeout=800)
        self.assertEqual(done.rc, 0, done.err)
        job = done.out.split()[0]
        self.assertIn(f"/job_{job}/step_1/user/task_", done.out)
        self.gone(job)
        ending = slurm.entry(node, job)["ending"]
        print("ending", ending, file=sys.stderr)
        # Both steps' work. Nothing says how much more a kernel counts that is not given the time that it thinks it has.
        self.assertGreater(ending["used"], 2, ending)

    def test_a_job_without_terms(self):
        slurm = self.slurm
        job = slurm.submit(script="echo runs\nsleep 1000\n")
        group = slurm.launched(job)
        self.assertEqual((group / "cpu.weight").read_text(), "1\n")
        self.assertEqual((group / "cpu.max").read_text(), "max 100000\n")
        start = time.monotonic()
        slurm.scancel(job)
        self.gone(job)
        print(f"without terms: cancelled and gone after {time.monotonic() - start:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    if not os.environ.get("LIBRA_TEST_UML"):
        sys.exit(__doc__)
    os.environ["LIBRA_SLURM_PLUGINS"] = sys.argv.pop(1)
    prepare()
    unittest.main(verbosity=2)
