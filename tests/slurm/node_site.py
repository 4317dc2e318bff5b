"""A throw-away Slurm whose nodes hold jobs to their shares, with nothing of Libra in slurmctld: the tests themselves say what was sold.

LIBRA_SPANK says which plugin; without it, it is built. Each node has a registry and a directory for cgroups of its own (`cgroup_root`).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from cluster import Cluster  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CPU, ACCOUNTING = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup/cpuacct")


def plugin():
    """The SPANK plugin."""
    if "LIBRA_SPANK" in os.environ:
        return pathlib.Path(os.environ["LIBRA_SPANK"])
    subprocess.run(["cargo", "build", "--quiet", "--package", "libra-slurm-spank"], cwd=HERE.parent.parent, check=True)
    return HERE.parent.parent / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/liblibra_spank.so"


def busy(processors="0"):
    """A script that keeps a processor busy for ever."""
    return f"exec taskset -c {processors} python3 -c 'while True: pass'\n"


class Site(Cluster):
    """`Cluster` with the plugin; `more` is added to every node's configuration."""

    def __init__(self, more="", **options):
        stack = ["optional sold.so", lambda site: f"optional libra_spank.so config={site.directory}/etc/libra-%n.toml"]
        super().__init__(**{"nodes": 2, "cpus": 1, "plugstack": stack, **options})
        self.more = more

    def before_start(self):
        shutil.copy(plugin(), self.plugins / "libra_spank.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self.plugins / "sold.so"), str(HERE / "sold.c")], check=True)
        self.configure(self.more)

    def configure(self, more=""):
        """Write every node's configuration; it is read anew at every prolog, task and epilog."""
        for node in self.nodes:
            self.registry(node).parent.mkdir(mode=0o755, exist_ok=True)
            (self.directory / f"etc/libra-{node}.toml").write_text(
                f"[node]\nprocessors = 1\n[cgroup]\nroot = '{self.cgroup_root(node)}'\n[registry]\ndirectory = '{self.registry(node)}'\n{more}")

    def registry(self, node):
        return self.directory / "registry" / node

    def cgroup_root(self, node):
        return f"libra-slurm-{node}"

    def group(self, node, job, where=CPU):
        """The directory of a job's cgroup."""
        return where / self.cgroup_root(node) / f"job-{job}"

    def best_effort(self, node):
        return CPU / f"{self.cgroup_root(node)}-best-effort"

    def cgroups(self):
        """All that is there of this cluster's."""
        return [str(path) for node in self.nodes for where in (CPU, ACCOUNTING) for path in where.glob(f"{self.cgroup_root(node)}*")]

    def entry(self, node, job):
        """What a node's registry has of a job."""
        file = self.registry(node) / f"jobs/{job}.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def live(self):
        """Jobs that a registry has and that have not ended."""
        files = [file for node in self.nodes for file in self.registry(node).glob("jobs/*.json")]
        return [f"{file.parent.parent.name} {file.stem}" for file in files if json.loads(file.read_text())["phase"] != "ended"]

    def sold(self, *places, estimate=5, deadline=100, count=1, chunks=None):
        """The environment of a client whose job was sold these places: (node, share) or (node, share, chunks)."""
        at = [(place[0], place[2] if len(place) > 2 else 1, place[1]) for place in places]
        each = chunks or sum(place[1] for place in at) // count
        line = {"v": 1, "token": 17, "submitted": time.time(), "estimate": estimate, "deadline": deadline, "budget": 15, "type": "hard", "penalty": 0,
                "price": 10.5, "chunks": each, "processors": 1, "memory": 0, "scatter": 0, "count": count, "at": "+".join("{}*{}*{}".format(*place) for place in at)}
        return {"TEST_SOLD": ":".join(f"{key}={value}" for key, value in line.items())}

    def output(self, job, user=None):
        """What a batch script has printed so far."""
        file = self.home(user or self.users[0]) / f"slurm-{job}.out"
        return file.read_text() if file.exists() else ""


class NodeCase(unittest.TestCase):
    """A class is a cluster, `slurm`. After each test its jobs are cancelled, and nothing of them may be left."""

    site = {}

    @classmethod
    def setUpClass(cls):
        cls.slurm = Site(**cls.site)
        cls.slurm.__enter__()

    @classmethod
    def tearDownClass(cls):
        slurm = cls.slurm
        groups = slurm.cgroups
        slurm.__exit__(None, None, None)
        if groups():
            raise AssertionError(f"left on the machine: {groups()}")

    def tearDown(self):
        slurm = self.slurm
        slurm.configure(slurm.more)
        for user in slurm.users:
            slurm.scancel(f"--user={user}")
        # The directory of jobs without terms goes with the first epilog that finds it empty.
        slurm.wait("no jobs", lambda: not slurm.must("squeue", "-h"))
        slurm.wait("their processes end", lambda: not [file for node in slurm.nodes for file in slurm.best_effort(node).glob("cgroup.procs") if file.read_text()])
        for node in slurm.nodes:
            slurm.srun("-w", node, "true")
        left = lambda: [*slurm.cgroups(), *slurm.live(), *slurm.must("squeue", "-h", "-o", "%i").split()]  # noqa: E731
        try:
            slurm.wait("all jobs gone", lambda: not left(), 30)
        except TimeoutError:
            self.fail(f"all jobs are cancelled, and there is still {left()}")
        # Whatever a hook did wrong, no node may be drained for it.
        for node in slurm.nodes:
            self.assertNotIn("DRAIN", slurm.node(node)["State"])

    def in_group(self, node, job, text):
        """A task has printed its /proc/self/cgroup: it is in its job's group."""
        inside = f"/{self.slurm.cgroup_root(node)}/job-{job}"
        for controller in ("cpu", "cpuacct"):
            self.assertIn(f":{controller}:{inside}\n", text)

    def quota(self, node, job):
        quota, period = (int((self.slurm.group(node, job) / f"cpu.cfs_{what}_us").read_text()) for what in ("quota", "period"))
        return quota / period

    def used(self, node, job):
        """Processor seconds that a job's cgroup has used."""
        return int((self.slurm.group(node, job, ACCOUNTING) / "cpuacct.usage").read_text()) / 1e9

    def rates(self, places, seconds):
        """Processors that each (node, job) uses over so many seconds."""
        began, before = time.monotonic(), [self.used(*place) for place in places]
        time.sleep(seconds)
        took, after = time.monotonic() - began, [self.used(*place) for place in places]
        return [(b - a) / took for a, b in zip(before, after)]
