#!/usr/bin/env python3
"""Execution hosts on which a job cannot be held to its share, or does not come to run; and many users at once.

Run as root: `tests/openpbs/run test_faults_hosts`. Takes about four minutes.
"""

import concurrent.futures
import contextlib
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from promises import expect_free, libra_log, started_in_cgroup, terms  # noqa: E402
from test_faults import OneSite  # noqa: E402
from scripts import idle_until  # noqa: E402

TWENTY_ATTEMPTS = 300  # seconds; half a second each where nothing else is to be done
# Does not let a job begin that its user has called so.
REFUSING = """import pbs
event = pbs.event()
if str(event.job.Job_Name) == "unwanted":
    event.reject("not on this host")
event.accept()
"""


class HostFaults(OneSite):
    """The registry or the cgroup of a host cannot be had. What happens is the site's rule for faults; never is a node taken offline."""

    options = {"hosts": 2, "processors": 1}

    def on_fault(self, rule):
        self.pbs.write_config(f'[pbs]\non-fault = "{rule}"\n')
        self.pbs.install()

    @contextlib.contextmanager
    def registry_lost(self, host):
        """A file is where the directory of the registry was."""
        directory, aside = self.pbs.own / host, self.pbs.own / f"{host}.aside"

        def lost():
            """A hook of the host's may have made it anew meanwhile."""
            with contextlib.suppress(FileNotFoundError):
                directory.rename(aside if not aside.exists() else self.pbs.own / f"{host}.{time.monotonic_ns()}")
            with contextlib.suppress(IsADirectoryError):
                directory.write_text("")
                return True
            return False

        def back():
            with contextlib.suppress(IsADirectoryError, FileNotFoundError):
                directory.unlink()
            if not aside.exists():
                return True
            with contextlib.suppress(OSError):  # made anew, and not empty
                aside.rename(directory)
                return True
            directory.rename(self.pbs.own / f"{host}.{time.monotonic_ns()}")
            return False

        self.pbs.wait("the registry is lost", lost)
        try:
            yield
        finally:
            self.pbs.wait("the registry is back", back)

    @contextlib.contextmanager
    def cgroup_lost(self, host, version="v1"):
        """The configuration names a cgroup that cannot be made."""
        file = self.pbs.own / f"{host}.toml"
        before = file.read_text()
        # The control file of the kernel is no directory in which a group could be.
        file.write_text(before.replace('[cgroup]\nroot = "', f'[cgroup]\nversion = "{version}"\nroot = "cgroup.procs/'))
        try:
            yield
        finally:
            file.write_text(before)

    def expect_refused_to_start(self, host, *reasons):
        """PBS tries again some twenty times, then holds the job; the user sees why."""
        pbs = self.pbs
        job = pbs.submit(*terms(0.2, host))
        has = pbs.wait("held by PBS", lambda: pbs.qstat(job)["job_state"] == "H" and pbs.qstat(job), TWENTY_ATTEMPTS)
        self.assertIn("too many failed attempts", has["comment"])
        self.assertEqual(pbs.node(host)["state"], "free")
        told = [line for line in libra_log(pbs, host) if "fault in libra_execjob_begin" in line]
        self.assertTrue(told)
        for reason in reasons:
            self.assertIn(reason, told[-1])
        self.assertEqual(pbs.cgroups(), [])
        return job

    def expect_uncapped(self, host, said):
        """It runs, without a cap, and the log says so."""
        pbs = self.pbs
        end = pbs.own / f"uncapped-{len(pbs.jobs())}.end"
        job = pbs.submit(*terms(0.2, host), script=idle_until(end))
        pbs.wait_started(job)
        self.assertEqual(pbs.cgroups(), [])
        end.touch()
        self.assertEqual(pbs.wait_state(job, "F")["Exit_status"], "0")
        self.assertTrue([line for line in libra_log(pbs, host) if said in line], libra_log(pbs, host))
        self.assertEqual(pbs.node(host)["state"], "free")

    def expect_as_usual(self, host):
        pbs = self.pbs
        job = pbs.submit(*terms(0.2, host))
        started_in_cgroup(pbs, host, job)
        pbs.qdel(job)
        pbs.wait("no cgroup left", lambda: not pbs.cgroups())

    def test_refuse(self):
        pbs = self.pbs
        n1, n2 = pbs.host_names
        self.on_fault("refuse")
        with self.registry_lost(n1):
            job = self.expect_refused_to_start(n1, "not a directory")
        with self.cgroup_lost(n2):
            other = self.expect_refused_to_start(n2, "cgroup")
        # It is held: its share is free, and is asked for anew when it is released.
        pbs.wait("both have given their shares back", lambda: all("given back" in pbs.qstat(one)["Resource_List.libra_info"] for one in (job, other)))
        expect_free(self, pbs, {n1: 1.0, n2: 1.0})
        pbs.must("qrls", "-h", "s", job)
        started_in_cgroup(pbs, n1, job)

    def test_admit(self):
        n1, n2 = self.pbs.host_names
        self.on_fault("admit")
        with self.registry_lost(n1):
            self.expect_uncapped(n1, "fault in libra_execjob_begin")
        with self.cgroup_lost(n2):
            self.expect_uncapped(n2, "has no cap")
        for host in (n1, n2):
            self.expect_as_usual(host)

    def test_off(self):
        """A site may do without caps: then that is no fault."""
        n1, _ = self.pbs.host_names
        self.on_fault("refuse")
        with self.cgroup_lost(n1, "off"):
            self.expect_uncapped(n1, "runs without a cap")

    def test_another_hook_rejects(self):
        """Libra's hook has made its cgroup when another one rejects the job: nothing of it stays, and a job that PBS holds for it has no share."""
        pbs = self.pbs
        n1, n2 = pbs.host_names
        pbs.hook("unwilling", "execjob_begin", REFUSING, order=300)
        self.addCleanup(pbs.delete_hook, "unwilling")
        job = pbs.submit("-N", "unwanted", *terms(0.3, n1))
        pbs.wait("held by PBS", lambda: pbs.qstat(job)["job_state"] == "H", TWENTY_ATTEMPTS)
        pbs.wait("its share is given back", lambda: pbs.qstat(job)["Resource_List.libra_info"].startswith("held: "), TWENTY_ATTEMPTS)
        pbs.wait("nothing is left on the host", lambda: not pbs.cgroups())
        expect_free(self, pbs, {n1: 1})


class ManyAtOnce(OneSite):
    """Twenty submissions at a time never promise more than there is."""

    options = {"hosts": 3, "processors": 1}

    def test_parallel(self):
        pbs = self.pbs
        ask = terms(0.195)  # a job that waits for its start needs a little more every second

        def asking(number):
            """One answer of Libra's; with many at a time PBS itself loses some on the way, before they come to it."""
            for _ in range(5):
                answer = pbs.qsub(*ask, user=pbs.users[number % 2])
                if answer.rc in (0, 32):
                    break
            return answer
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            asked = list(pool.map(asking, range(20)))
        accepted = [job.out for job in asked if job.rc == 0]
        refused = [job for job in asked if job.rc != 0]
        self.assertEqual(len(accepted), 15)
        self.assertEqual({job.rc for job in refused}, {32})
        for job in refused:
            self.assertIn("refused (share)", job.err)
        for job in accepted:
            pbs.wait_started(job)
        for share in pbs.committed().values():
            self.assertAlmostEqual(share, 0.975, places=4)
        self.assertEqual(len(pbs.cgroups()), 15)
        pbs.qdel(*accepted[:5])
        for job in accepted[:5]:
            pbs.wait_state(job, "F")
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            again = list(pool.map(asking, range(20)))
        self.assertEqual(sum(job.rc == 0 for job in again), 5)
        self.assertLessEqual(max(pbs.committed().values()), 1.0001)


if __name__ == "__main__":
    unittest.main()
