#!/usr/bin/env python3
"""The throw-away Slurm itself, and the suite that runs tests on it: do they do what their users build on, and leave the machine as it was?

Run as root: `python3 tests/slurm/test_cluster.py`. Takes about a minute.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import pwd
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "web")]

import machine  # noqa: E402  (puts tests/batch in the path)
import drive  # noqa: E402
import limits  # noqa: E402
from cluster import Cluster  # noqa: E402
from promises import is_saved  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def traces_of(number, nodes, owner):
    """What is left on the machine of the cluster with this number that process `owner` has started."""
    directory = machine.PARENT / f"{machine.PREFIX}{number}"
    plan = directory / "cluster.json"
    if directory.exists() and not (plan.exists() and json.loads(plan.read_text())["owner"] == owner):
        return []  # somebody else has taken the number meanwhile
    left = [str(directory)] if directory.exists() else []
    left += [f"process {pid}" for pid in machine.marked_processes(directory)]
    left += [entry.pw_name for entry in pwd.getpwall() if entry.pw_name.startswith(f"libra-slurm-{number}-")]
    return left + [str(group) for group in machine.cgroups_of(nodes)]


class NameOfAnotherAddress(unittest.TestCase):
    """The machine's own name is in no /etc/hosts, as in containers and in minimal systems."""

    def test_jobs_run(self):
        program = (f"import sys; sys.path.insert(0, {str(HERE)!r}); import cluster, machine; assert not machine.has_loopback_name()\n"
                   "with cluster.Cluster(nodes=1) as c:\n  print(c.wait_ended(c.submit(script='true\\n'))['JobState'], c.srun('true').rc)")
        done = subprocess.run(["unshare", "--uts", "sh", "-c", 'hostname libra-nowhere && exec "$@"', "sh", sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "COMPLETED 0\n"), done.stderr)
        self.assertNotIn("libra-nowhere", pathlib.Path("/etc/hosts").read_text(), "nobody else sees it")


class TwoClusters(unittest.TestCase):
    """Two at a time, daemons killed, and nothing left."""

    def test_life(self):
        with Cluster(nodes=2, jobcomp=True) as slurm, Cluster(nodes=1, cpus=3, cgroups=True) as other:
            first, second = slurm.users
            out = slurm.home(first) / "out"
            job = slurm.submit("--time=5", "-o", out, script="id -un; echo $SLURMD_NODENAME; sleep 1\n")
            elsewhere = other.submit("-n3", script="env -i setsid sleep 1000 & echo $! > stray; sleep 1000\n")
            ended = slurm.wait_ended(job)
            self.assertEqual((ended["JobState"], ended["TimeLimit"]), ("COMPLETED", "00:05:00"))
            self.assertEqual(out.read_text(), f"{first}\n{ended['NodeList']}\n")
            self.assertIn(f"JobId={job}", (slurm.directory / "log/jobcomp").read_text())
            self.assertEqual(sorted(slurm.srun("-N2", "printenv", "SLURMD_NODENAME").out.split()), slurm.nodes)
            self.assertEqual(slurm.salloc("true", user=second).rc, 0)

            node = slurm.nodes[1]
            shared = [slurm.submit("-w", node, user=user) for user in slurm.users]
            for one in shared:
                self.assertEqual(slurm.wait_running(one)["NodeList"], node, "two jobs share its one processor")
            self.assertNotEqual(slurm.scancel(shared[0], user=second).rc, 0, "another user's job")
            slurm.wait("both are saved as running", lambda: is_saved(slurm, *shared))
            slurm.kill_controller()
            self.assertIsNone(slurm.daemon_pid("slurmctld"))
            slurm.start_controller()
            self.assertEqual([slurm.state(one) for one in shared], ["RUNNING", "RUNNING"])
            slurm.kill_slurmd(node)
            slurm.start_slurmd(node)
            slurm.scancel(*shared)
            self.assertEqual(slurm.wait_ended(shared[0])["JobState"], "CANCELLED")
            slurm.wait_idle()

            self.assertEqual(other.wait_running(elsewhere)["NumCPUs"], "3")
            self.assertEqual(slurm.job("999"), {})
            self.assertEqual(other.jobs()[elsewhere]["user_name"], other.users[0])
            file = other.home(other.users[0]) / "stray"
            stray = int(other.wait("the job has begun", lambda: file.exists() and file.read_text().strip()))
            clusters = [(one.plan["number"], one.nodes) for one in (slurm, other)]
            for number, nodes in clusters:
                self.assertNotEqual(traces_of(number, nodes, os.getpid()), [])
            stray_began = machine.began(stray)
            self.assertIsNotNone(stray_began)
        for number, nodes in clusters:
            self.assertEqual(traces_of(number, nodes, os.getpid()), [])
        self.assertNotEqual(machine.began(stray), stray_began, "a job that has left its session and its environment")

    def test_ended_by_signals(self):
        """`hold` gives everything back after Ctrl-C and SIGTERM; what a killed run leaves is removed by `down`."""
        limits.default_signals()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            # Somebody else's `down` would remove what this one is to find.
            with machine.lock("leftovers"):
                with subprocess.Popen([sys.executable, HERE / "cluster.py", "hold", "--nodes", "1"], stdout=subprocess.PIPE, text=True) as run:
                    which = int(run.stdout.readline().split()[1])
                    self.assertNotEqual(traces_of(which, [], run.pid), [])
                    os.kill(run.pid, number)
                    self.assertIsNotNone(run.wait(600))
                if number == signal.SIGKILL:
                    self.assertNotEqual(traces_of(which, [], run.pid), [])
                    subprocess.run([sys.executable, HERE / "cluster.py", "down"], check=True, capture_output=True, timeout=600)
            self.assertEqual(traces_of(which, [], run.pid), [], number)


def below(pid):
    """Every process that this one has started, and those that they have."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text(errors="replace")
            children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append((int(stat.parent.name), text[text.index("(") + 1:text.rindex(")")]))
    found, of = [], [pid]
    while of:
        found += (more := children.get(of.pop(), []))
        of += [number for number, _ in more]
    return found


# A test of two parts, of which the first is never done.
PARTS = """import pathlib, time, unittest
parts = pathlib.Path("{parts}")
def note(text):
    parts.write_text((parts.read_text() if parts.exists() else "") + text)
class Parts(unittest.TestCase):
    def test_it(self):
        for part in range(2):
            with self.subTest(part):
                note(str(part))
                time.sleep(600 if part == 0 else 0)
    def tearDown(self):
        note(" given back")
"""


@unittest.skipUnless(drive.chromium(), "not run: there is no chromium")
class Suite(unittest.TestCase):
    """A suite that is ended, in its own time or killed: of its classes one is in a test and has a browser, and one waits for its turn to measure."""

    def test_ended(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            # The suite looks for what others have left, and somebody else's test may have left it for itself.
            with self.subTest(number.name), tempfile.TemporaryDirectory() as place, machine.lock("leftovers"):
                command = [sys.executable, HERE.parent / "batch/suite.py", HERE, "Web", "Sharing"]
                with subprocess.Popen(command, env={**os.environ, "LIBRA_TEST_TURNS": place}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as run:
                    try:
                        self.wait("one class with a browser, and one that waits", lambda: self.at_work(run, pathlib.Path(place)))
                        clusters = {number: owner for number, owner in owners().items() if owner in dict(below(run.pid))}
                        processes = {pid: machine.began(pid) for pid, _ in below(run.pid)}
                    finally:
                        run.send_signal(number)
                    self.assertNotEqual(run.wait(600), 0)
                self.assertEqual(len(clusters), 2)
                self.wait("their processes to end", lambda: not [pid for pid, when in processes.items() if when and machine.began(pid) == when])
                for cluster, owner in clusters.items():
                    self.assertEqual(traces_of(cluster, [], owner), [])

    @staticmethod
    def at_work(run, place):
        if run.poll() is not None:
            raise RuntimeError(f"the suite has ended: {run.returncode}")
        # The lock is that of a class that measures, as long as its cluster comes up.
        if not (place / "start").exists() or not any("chrom" in name for _, name in below(run.pid)):
            return False
        with open(place / "start", "a", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    @staticmethod
    def wait(what, condition, patience=300):
        deadline = time.monotonic() + patience
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {patience} s still not: {what}")
            time.sleep(0.5)


class EndedInAPart(unittest.TestCase):
    """A suite without clusters and browsers."""

    def test_ended_in_a_part_of_a_test(self):
        """Its next part does not begin: the test would go on, on a cluster that is being taken down."""
        with tempfile.TemporaryDirectory() as place:
            directory, parts = pathlib.Path(place), pathlib.Path(place) / "parts"
            (directory / "cluster.py").write_text("def remove_leftovers():\n    pass\n")
            (directory / "evidence.py").write_text("evidence = None\n")
            (directory / "test_parts.py").write_text(PARTS.format(parts=parts))
            with subprocess.Popen([sys.executable, HERE.parent / "batch/suite.py", directory], env={**os.environ, "LIBRA_TEST_TURNS": place},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as run:
                try:
                    Suite.wait("the first part has begun", lambda: run.poll() is not None or parts.exists() and parts.read_text())
                finally:
                    run.terminate()
                self.assertEqual(run.wait(600), 143)
            self.assertEqual(parts.read_text(), "0 given back")


def owners():
    """{number: the process that has started it} of the clusters there are."""
    found = {}
    for number, directory in machine.known_clusters().items():
        with contextlib.suppress(OSError, ValueError):  # being made, or being removed
            found[number] = json.loads((directory / "cluster.json").read_text())["owner"]
    return found


if __name__ == "__main__":
    unittest.main()
