#!/usr/bin/env python3
"""Jobs without terms on Libra's nodes: each is in a group of its own from its first process on, so all of it is counted and nothing of it is left behind.

Run as root: `python3 tests/openpbs/test_without_terms.py`. Nothing here needs much processor time.
"""

import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402
from case import SiteCase  # noqa: E402
from libra_site import CGROUPS  # noqa: E402

# Its first command says where it is; then it leaves a process behind that is in no session of PBS's, and waits for the word.
SCRIPT = """cat /proc/self/cgroup >{file}
setsid sleep 1000 &
echo $! >{file}.left
while ! test -e {file}.go; do sleep 0.2; done
"""
# What a site's own hook does, as PBS's pbs_cgroups: it puts the job's process into a group of its own.
SITES_HOOK = """
import os, pbs
os.makedirs("{group}", exist_ok=True)
with open("{group}/cgroup.procs", "w") as file:
    file.write(str(os.getppid()))
pbs.event().accept()
"""


class WithoutTerms(SiteCase):
    site = {"hosts": 2, "processors": 2}

    def setUp(self):
        self.number = getattr(WithoutTerms, "number", 0) + 1
        WithoutTerms.number = self.number

    def file(self, name):
        """One that a job can write."""
        pbs = self.pbs
        return pbs.directory / "home" / pbs.users[0] / f"{self.number}-{name}"

    def begin(self, name, *words, job=None):
        """Submits; (the job that runs, its file)."""
        file = self.file(name)
        pbs = self.pbs
        submitted = pbs.submit(*words, script=SCRIPT.format(file=file))
        running = job(submitted) if job else submitted
        pbs.wait(f"{file} is written", lambda: pathlib.Path(f"{file}.left").exists() and pathlib.Path(f"{file}.left").read_text().strip())
        return running, file

    def groups(self, host, job):
        return [root / f"job-{job}" for root in self.pbs.roots_without_terms(host)]

    def host(self, job):
        return self.pbs.node_of(job)[0]

    def in_group(self, host, job):
        return [int(pid) for pid in (self.groups(host, job)[0] / "cgroup.procs").read_text().split()]

    def assert_group_is_gone(self, host, job, left):
        pbs = self.pbs
        pbs.wait(f"{job} has no group", lambda: not [group for group in self.groups(host, job) if group.exists()])
        self.assertFalse(machine.alive(left), "it was left behind")

    def test_from_the_first_process_to_the_last(self):
        whole = ["-l", "select=1:ncpus=1", "-l", "place=excl"]
        for name, words, job in (
                ("plain", [], None), ("chunk", ["-l", "select=1:ncpus=2:mem=10mb"], None), ("excl", whole, None), ("nodes", ["-l", "nodes=1:ppn=2"], None),
                ("array", ["-J", "1-2", "-h"], lambda array: self.released(array))):
            with self.subTest(name):
                job, file = self.begin(name, *words, job=job)
                host, left = self.host(job), int(pathlib.Path(f"{file}.left").read_text())
                group = self.groups(host, job)[0]
                where = dict(line.split(":", 2)[1:] for line in file.read_text().splitlines())
                for controller in ("cpu", "cpuacct"):
                    path = next(path for names, path in where.items() if controller in names.split(","))
                    self.assertEqual(path, f"/{group.relative_to(CGROUPS)}", "its first command ran elsewhere")
                self.assertIn(left, self.in_group(host, job))
                # A shell that PBS has started, and nothing of another job.
                self.assertGreaterEqual(len(self.in_group(host, job)), 3)
                pathlib.Path(f"{file}.go").touch()
                self.pbs.wait_state(job, "FX")
                self.assert_group_is_gone(host, job, left)
                self.clear()

    def released(self, array):
        """The first job of an array, once it alone may run."""
        self.pbs.qdel(array.replace("[]", "[2]"))
        self.assertEqual(self.pbs.run("qrls", array).rc, 0)
        return array.replace("[]", "[1]")

    def test_what_leaves_its_session_is_counted(self):
        pbs = self.pbs
        work = "setsid python3 -c 'import time\nwhile time.process_time() < 2: pass'\n"
        job = pbs.submit(script=work)
        pbs.wait_state(job, "F")
        host = self.host(job)
        found = pbs.wait("its use is in the log", lambda: re.search(rf"libra: job {re.escape(job)} used (\S+) processor seconds here", pbs.log(host)))
        self.assertGreaterEqual(float(found[1]), 2)

    def test_by_their_processors(self):
        """Against one another they weigh as many processors as they asked for."""
        one, _ = self.begin("one", "-l", f"select=1:ncpus=1:host={self.pbs.host_names[0]}")
        two, _ = self.begin("two", "-l", f"select=1:ncpus=1:host={self.pbs.host_names[1]}")
        self.pbs.wait_started(two)  # before, its mom has nobody to signal
        self.pbs.qdel(two)
        three, _ = self.begin("three", "-l", f"select=1:ncpus=2:host={self.pbs.host_names[1]}")
        weight = lambda host, job: int((self.groups(host, job)[0] / "cpu.shares").read_text())  # noqa: E731
        self.assertEqual(2 * weight(self.pbs.host_names[0], one), weight(self.pbs.host_names[1], three))
        # And nobody holds them to anything.
        self.assertEqual((self.groups(self.pbs.host_names[0], one)[0] / "cpu.cfs_quota_us").read_text().strip(), "-1")

    def test_on_all_its_hosts(self):
        pbs = self.pbs
        file = self.file("there")
        script = f"pbsdsh -n 1 -- sh -c 'cat /proc/self/cgroup >{file}; setsid sleep 1000 & echo $! >{file}.left; wait'\n"
        job = pbs.submit("-l", "select=2:ncpus=1", "-l", "place=scatter", script=script)
        pbs.wait("its task runs", lambda: pathlib.Path(f"{file}.left").exists() and pathlib.Path(f"{file}.left").read_text().strip())
        second = pbs.node_of(job)[1]
        left = int(pathlib.Path(f"{file}.left").read_text())
        self.assertIn(f"/{self.groups(second, job)[0].relative_to(CGROUPS)}\n", file.read_text())
        self.assertIn(left, self.in_group(second, job))
        pbs.qdel(job)
        for host in pbs.host_names:
            self.assert_group_is_gone(host, job, left)

    def test_what_another_hook_has_put_into_a_group(self):
        pbs = self.pbs
        other = CGROUPS / f"libra-others-{pbs.plan['subnet']}"
        pbs.hook("sites_own", "execjob_launch", SITES_HOOK.format(group=other), order=100)
        try:
            for host in pbs.host_names:
                pbs.wait(f"{host} has it", lambda host=host: (pbs.directory / host / "mom_priv/hooks/sites_own.PY").exists())
            job, file = self.begin("others")
            where = dict(line.split(":", 2)[1:] for line in file.read_text().splitlines())
            self.assertEqual(next(path for names, path in where.items() if "cpu" in names.split(",")), f"/{other.name}")
            pathlib.Path(f"{file}.go").touch()
            pbs.wait_state(job, "F")
            left = int(pathlib.Path(f"{file}.left").read_text())
            if machine.alive(left):  # where one directory both holds and counts, it is the other's
                machine.end_process(left, signal.SIGKILL)
            self.assert_group_is_gone(self.host(job), job, left)
        finally:
            pbs.qmgr("delete hook sites_own")
            pbs.wait("nobody is in its group", lambda: not other.exists() or not (other / "cgroup.procs").read_text())
            if other.exists():
                other.rmdir()

    def test_one_that_pbs_has_forgotten(self):
        """Its host was gone when it was deleted: it ends when that comes back."""
        pbs = self.pbs
        job, file = self.begin("forgotten", "-l", f"host={pbs.host_names[0]}")
        host, left = self.host(job), int(pathlib.Path(f"{file}.left").read_text())
        pbs.wait_started(job)
        pbs.kill_mom(host)
        pbs.qdel("-Wforce", job)
        pbs.wait_state(job, "F")
        pbs.start_mom(host, preserve=True)
        self.assert_group_is_gone(host, job, left)
        pbs.wait_free()


if __name__ == "__main__":
    unittest.main(verbosity=2)
