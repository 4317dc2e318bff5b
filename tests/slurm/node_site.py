"""A throw-away Slurm whose nodes hold jobs to their shares, with nothing of Libra in slurmctld: the tests themselves say what was sold."""

import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import libra_site  # noqa: E402
from case import SiteCase  # noqa: E402
from libra_site import ACCOUNTING, CPU  # noqa: E402, F401

HERE = pathlib.Path(__file__).resolve().parent


def busy(processors="0"):
    """A script that keeps a processor busy for ever."""
    return f"exec taskset -c {processors} python3 -c 'while True: pass'\n"


class Site(libra_site.Site):
    """sold.so before Libra's plugin."""

    def __init__(self, **options):
        super().__init__(**{"controller": False, "plugstack": ["optional sold.so"], **options})

    def before_start(self):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self.plugins / "sold.so"), str(HERE / "sold.c")], check=True)
        super().before_start()

    def sold(self, *places, estimate=5, deadline=100, count=1, chunks=None):
        """The environment of a client whose job was sold these places: (node, share) or (node, share, chunks)."""
        at = [(place[0], place[2] if len(place) > 2 else 1, place[1]) for place in places]
        each = chunks or sum(place[1] for place in at) // count
        line = {"v": 1, "token": 17, "submitted": time.time(), "estimate": estimate, "deadline": deadline, "budget": 15, "type": "hard", "penalty": 0,
                "price": 10.5, "chunks": each, "processors": 1, "memory": 0, "scatter": 0, "count": count, "at": "+".join("{}*{}*{}".format(*place) for place in at)}
        return {"TEST_SOLD": ":".join(f"{key}={value}" for key, value in line.items())}


class NodeCase(SiteCase):
    """A class is a cluster, `slurm`. After each test its jobs are cancelled, and nothing of them may be left."""

    kind = Site
    site = {"nodes": 2}

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
