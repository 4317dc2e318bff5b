"""Daemons, verifiers and watchers are killed; nothing that was promised is lost, and nothing is left."""

import os
import pathlib
import signal
import time
import unittest

import machine
from case import MARGIN, CellCase
from cluster import HOSTS, MASTER


class Faults(CellCase):
    def test_the_verifiers_may_be_killed(self):
        jobs = self.fill()
        for job in jobs:
            self.cell.wait_running(job)
        for round_ in range(3):
            self.cell.kill_verifiers()
            answer = self.cell.wait("somebody judges again", lambda: (lambda said: "libra: refused (share)" in said.out + said.err and said)(self.cell.qsub(*self.terms(3600, 3785))))
            self.refused(answer, "refused (share)")
            self.assertEqual(len(self.cell.jobs()), len(jobs), f"round {round_}: nothing was promised twice")

    def test_qmaster_may_be_killed(self):
        jobs = self.fill()
        for job in jobs:
            self.cell.wait_running(job)
            self.cell.wait("it is in its group", lambda job=job: any(self.processes(job, host) for host in HOSTS))
        self.cell.kill(MASTER)
        self.cell.start_master()
        self.cell.wait("somebody judges again", lambda: "libra: refused (share)" in "".join(map(str, self.cell.qsub(*self.terms(3600, 3785)))))
        for job in jobs:
            self.cell.wait_running(job)
            self.assertTrue(any(self.processes(job, host) for host in HOSTS), "it runs on in its group")

    def test_an_execution_daemon_may_be_killed(self):
        go_on = self.cell.home(self.cell.users[0]) / "go-on"
        job = self.accept(60, "1h", "-l", "h=g1", script=f"while ! [ -e {go_on} ]; do sleep 0.2; done\n")
        self.cell.wait_running(job)
        self.cell.wait("it is in its group", lambda: self.processes(job, "g1"))
        self.cell.kill("g1")
        self.assertTrue(self.processes(job, "g1"))
        go_on.touch()
        self.cell.wait("it has ended here, without a daemon", lambda: not self.cell.group("g1", job).exists() and not self.cell.live())
        self.cell.start("g1")
        self.cell.wait_gone(job)
        go_on.unlink()

    def test_a_shepherd_that_is_killed_leaves_nothing(self):
        job = self.accept(60, "1h", script="setsid sleep 1000 &\nsleep 1000\n")
        host = self.cell.wait_running(job)
        self.cell.wait("both run", lambda: len(self.processes(job, host)) >= 4)
        inside = self.processes(job, host)
        shepherd = next(pid for pid in inside if b"sge_shepherd" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(shepherd, signal.SIGKILL)
        self.cell.wait("all are gone", lambda: not any(machine.alive(pid) for pid in inside))
        self.cell.wait("its group is gone", lambda: not self.cell.group(host, job).exists())
        # Grid Engine puts the queue into an error where a shepherd says nothing, and the job back into the queue.
        self.cell.must("qdel", job)
        self.cell.wait_gone(job)
        self.cell.run("qmod", "-c", "*")

    def test_a_host_that_cannot_read_its_configuration_keeps_no_promise(self):
        cell = self.cell
        own = cell.directory / "libra-g1.toml"
        sound = own.read_text()
        # Nor is there a copy of what it was, nor can there be.
        copy = cell.rules_file.with_name(f".{cell.rules_file.name}.last")
        copy.unlink(missing_ok=True)
        copy.mkdir()
        own.write_text(sound + "nonsense\n")
        try:
            plain = cell.submit("-l", "h=g1", script="true\n")
            cell.wait_gone(plain)
            job = self.accept(60, "1h", "-l", "h=g1")
            cell.wait("it is not begun", lambda: f"job {job} is not held to its share" in cell.shepherds_log())
            self.assertEqual(self.processes(job, "g1"), [])
        finally:
            own.write_text(sound)
            copy.rmdir()
        # Grid Engine tries again every few seconds.
        cell.wait("it is in its group", lambda: self.processes(job, "g1"))

    def test_who_waits_for_the_end_may_be_killed(self):
        # What is left over for ten seconds is ended when the next job begins.
        job = self.accept(60, "1h", "-l", "h=g1")
        self.cell.wait_running(job)
        # Who waits is started by another with the same command line, who has ended when the job has a process.
        self.cell.wait("its processes", lambda: self.processes(job, "g1"))
        for pid in self.cell.wait("somebody waits", lambda: self.cell.started_with("watch")):
            machine.end_process(pid)
        self.cell.must("qdel", job)
        self.cell.wait_gone(job)
        self.assertTrue(self.cell.live())

        def swept():
            other = self.accept(60, "1h", "-l", "h=g1", script="true\n")
            self.cell.wait_gone(other)
            return not self.cell.group("g1", job).exists()

        self.cell.wait("it is swept", swept)
        self.assertIn(f"job {job} was left over, ended", self.cell.shepherds_log())


class AgentKilled(CellCase):
    """The agent of a host is killed: limits stay, the next job's start takes shares anew, and an agent takes over again."""

    def quota(self, job, host):
        """Processors that the kernel lets a job have."""
        group = self.cell.group(host, job)
        return int((group / "cpu.cfs_quota_us").read_text()) / int((group / "cpu.cfs_period_us").read_text())

    def test_agent(self):
        cell, host = self.cell, "g1"
        agent = f"agent of {host}"
        cell.start_agent(host)
        job = self.accept(100, 600, "-l", f"h={host}", script="while :; do :; done\n")
        cell.wait_running(job)
        cell.wait("it is in its group", lambda: self.processes(job, host))
        cell.wait("it is limited", lambda: self.quota(job, host) > 0)
        cell.kill(agent)
        first = self.quota(job, host)
        # It grows while the job is started.
        self.assertGreater(first, 0.99 * 100 * MARGIN / 600)
        self.assertLess(first, 1.02 * self.needed(job) + 0.01)
        # Who does nothing falls behind, and needs more.
        stopped = self.processes(job, host)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            self.falls_behind(job, host, first)
        finally:
            cell.kill(agent)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def falls_behind(self, job, host, first):
        """Nobody gives it more, then the next start does, then another agent, which runs on."""
        cell = self.cell
        try:
            cell.wait("it needs more than it has", lambda: self.needed(job) > 1.01 * first)
            self.assertEqual(self.quota(job, host), first, "nobody has changed it meanwhile")

            def raised():
                other = self.accept(1, 300, "-l", f"h={host}", script="true\n")
                cell.wait_gone(other)
                return self.quota(job, host) > first

            # Where it is a hundredth more, as it soon is.
            cell.wait("a larger share by a start", raised)
            second = self.quota(job, host)
        finally:
            cell.start_agent(host)
        cell.wait("a larger share by the agent", lambda: self.quota(job, host) > second)

    def needed(self, job):
        """The share that would still finish a job in time that has used next to nothing."""
        terms = self.commitment(job)
        left = float(terms["submitted"]) + float(terms["deadline"]) - time.time()
        return float(terms["estimate"]) * MARGIN / left


if __name__ == "__main__":
    unittest.main()
