#!/usr/bin/env python3
"""A day of the four classes of service in a quarter of an hour, on a throw-away Slurm with Libra, and the same jobs on one that backfills (tests/batch/four_classes.py).

    sudo LIBRA=… LIBRA_SLURM_PLUGINS=… tests/slurm/classes.py                 both, half an hour; nothing else should run
    tests/slurm/classes.py --only libra --minutes 2 --seed 7                  a short one

The exit status is 0 where no promise was broken.
"""

import contextlib
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import four_classes  # noqa: E402
from client import ENDED  # noqa: E402
from cluster import Cluster  # noqa: E402
from libra_site import Site  # noqa: E402

# Slurm takes a second and more to start a job, and its daemons are on the processors of the node.
RULES = "[slurm]\npartitions = ['main']\nstart-delay = '3s'\n"
# Jobs of best effort, one for each processor, which take no places of the others (docs/slurm-install.md).
PARTITIONS = {"beside": {"Default": "YES", "OverSubscribe": "FORCE:1"}}
SETTINGS = {"MinJobAge": 100_000, "MaxJobCount": 20_000}
# Time limits are whole minutes there; nobody is ended for them.
ALONE = {**SETTINGS, "SchedulerType": "sched/backfill", "PriorityType": "priority/basic", "OverTimeLimit": "UNLIMITED"}


class System:
    """What four_classes.Day asks of it."""

    def __init__(self, slurm, libra):
        self.slurm, self.libra, self.ids = slurm, libra, {}
        self.worker = slurm.directory / "worker"
        self.worker.write_text(four_classes.WORKER)
        self.worker.chmod(0o755)

    def file(self, job):
        return self.slurm.home(self.slurm.users[job.user]) / f"{job.name}.said"

    def submit(self, job):
        words = ["-J", job.name, "-o", "/dev/null", "-e", "/dev/null", "-N", 1, "-n", job.tasks]
        if self.libra:
            words += [f"--{'sla-' if key in ('deadline', 'class') else ''}{key}={value}" for key, value in job.terms.items()]
        else:
            words += ["-t", -(-job.estimate // 60), *(["--nice=10000"] if job.cls == "best-effort" else [])]
        work = f"{self.worker} {job.work} {self.file(job)}\n"
        answer = self.slurm.sbatch(*words, user=self.slurm.users[job.user], script=f"srun {work}" if job.tasks > 1 else f"exec {work}")
        if answer.rc == 0:
            self.ids[job.name] = answer.out
        return None if answer.rc == 0 else answer.err.strip()

    def waiting(self):
        """Names of jobs that have not ended."""
        return {job["name"] for job in self.slurm.jobs().values() if job["job_state"] not in ENDED}

    def cancel(self, name):
        self.slurm.scancel(self.ids[name])

    def said(self, job):
        file = self.file(job)
        return file.read_text() if file.exists() else ""


@contextlib.contextmanager
def with_libra(suspend):
    with Site(agents=True, nodes=1, cpus=four_classes.PROCESSORS, users=2, rules=f"{RULES}\n[class]\nsuspend = '{suspend}'\n", partition={"Default": "NO"}, partitions=PARTITIONS, settings=SETTINGS) as slurm:
        yield System(slurm, True)


@contextlib.contextmanager
def alone(_):
    with Cluster(nodes=1, cpus=four_classes.PROCESSORS, users=2, partition={"OverSubscribe": "NO"}, settings=ALONE) as slurm:
        yield System(slurm, False)


if __name__ == "__main__":
    sys.exit(0 if four_classes.main(__doc__.splitlines()[0], {"libra": with_libra, "backfilling": alone}) else 1)
