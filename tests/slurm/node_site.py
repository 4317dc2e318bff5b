"""A throw-away Slurm whose nodes hold jobs to their shares, with nothing of Libra in slurmctld: the tests themselves say what is committed (commitment.c), and a
plugin of theirs in slurmctld puts it on record (record.c)."""

import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from libra_site import Site  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


class NodeSite(Site):
    """`Site` with another job_submit plugin."""

    def __init__(self, settings=None, **options):
        super().__init__(controller=False, plugstack=["optional commitment.so"], settings={"JobSubmitPlugins": "record", **(settings or {})}, **options)

    def before_start(self):
        super().before_start()
        for source, library in (("commitment.c", "commitment.so"), ("record.c", "job_submit_record.so")):
            subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self.plugins / library), str(HERE / source)], check=True)

    def commitment(self, *places, estimate=5, deadline=100, count=1):
        """The environment of a client whose job has commitments on these nodes: (node, share) or (node, share, chunks). count: tasks of an array."""
        at = [(node, chunks[0] if chunks else 1, share) for node, share, *chunks in places]
        line = {"v": 1, "token": 17, "submitted": time.time(), "estimate": estimate, "deadline": deadline, "budget": 15, "type": "hard", "penalty": 0, "price": 10.5,
                "chunks": sum(place[1] for place in at) // count, "processors": 1, "memory": 0, "scatter": 0, "count": count,
                "at": "+".join("{}*{}*{}".format(*place) for place in at)}
        return {"TEST_COMMITMENT": ":".join(f"{key}={value}" for key, value in line.items())}


class NodeCase(SiteCase):
    """A class is a cluster of two nodes with one processor each."""

    site = {"nodes": 2}
    kind = NodeSite

    def unjudged(self):
        """None: nobody in slurmctld is there to notice an end. (Asking would submit jobs, which nobody refuses here.)"""
        return []

    def printed(self, job, what="LIBRA_DEADLINE"):
        """Wait until a batch script that runs has printed this; what it has printed."""
        slurm = self.slurm
        return slurm.wait(f"{what} from job {job}", lambda: what in slurm.output(job) and slurm.output(job))

    def in_group(self, node, job, text):
        """A task has printed its /proc/self/cgroup: it is in its job's group."""
        inside = f"/{self.slurm.cgroup_root(node)}/job-{job}"
        for controller in ("cpu", "cpuacct"):
            self.assertIn(f":{controller}:{inside}\n", text)
