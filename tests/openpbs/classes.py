#!/usr/bin/env python3
"""A day of the four classes of service in a quarter of an hour, on a throw-away OpenPBS with Libra, and the same jobs on one that backfills (tests/batch/four_classes.py).

    sudo LIBRA=… LIBRA_LIBRARY=… tests/openpbs/classes.py                    both, half an hour; nothing else should run
    tests/openpbs/classes.py --only libra --minutes 2 --seed 7               a short one

The exit status is 0 where no promise was broken.
"""

import contextlib
import pathlib
import re
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import four_classes  # noqa: E402
import machine  # noqa: E402
from cluster import Cluster  # noqa: E402
from libra_site import Site  # noqa: E402


class System:
    """What four_classes.Day asks of it."""

    def __init__(self, pbs, libra):
        self.pbs, self.libra, self.ids = pbs, libra, {}
        self.worker = pbs.directory / "worker"
        self.worker.write_text(four_classes.WORKER)
        self.worker.chmod(0o755)
        pbs.qmgr("set server job_history_duration = 24:00:00")

    def file(self, job):
        return self.pbs.directory / "home" / self.pbs.users[job.user] / f"{job.name}.said"

    def submit(self, job):
        words = ["-N", job.name, "-o", "/dev/null", "-e", "/dev/null", "-l", f"select={job.tasks}:ncpus=1", "-l", "place=pack"]
        if self.libra:
            words += ["-l", ",".join(f"{key}={value}" for key, value in job.terms.items())] if job.terms else []
        else:
            # A host ends what outlives its walltime, which an estimate on a shared host may.
            words += ["-l", f"walltime={2 * job.estimate}", "-p", "-1000" if job.cls == "best-effort" else "0"]
        work = f"{self.worker} {job.work} {self.file(job)}\n"
        answer = self.pbs.qsub(*words, user=self.pbs.users[job.user], script=f"exec {work}" if job.tasks == 1 else f"{work.rstrip()} &\n{work}wait\n")
        if answer.rc == 0:
            self.ids[job.name] = answer.out
        return None if answer.rc == 0 else answer.err.strip()

    def waiting(self):
        """Names of jobs that have not ended."""
        return {job["Job_Name"] for job in self.pbs.jobs().values() if job.get("job_state") not in ("F", "X")}

    def cancel(self, name):
        self.pbs.qdel(self.ids[name])

    def said(self, job):
        file = self.file(job)
        return file.read_text() if file.exists() else ""


@contextlib.contextmanager
def with_libra(suspend):
    with Site(hosts=1, processors=four_classes.PROCESSORS, users=2, agents=True, server_config=f"[class]\nsuspend = '{suspend}'\n") as pbs:
        # Else PBS gives away the memory of who stands still.
        pbs.qmgr("set server restrict_res_to_release_on_suspend = ncpus")
        yield System(pbs, True)


@contextlib.contextmanager
def alone(_):
    """Jobs in the order of their priority and submission; what comes later goes before where it makes nobody before it later."""
    with Cluster(hosts=1, processors=four_classes.PROCESSORS, users=2) as pbs:
        settings = pbs.home / "sched_priv/sched_config"
        text = settings.read_text()
        machine.write_whole(settings, re.sub(r"^strict_ordering:.*$", "strict_ordering: true ALL", text, flags=re.M))
        pbs.signal_scheduler()
        pbs.qmgr("set server job_sort_formula = job_priority", "set server backfill_depth = 20")
        yield System(pbs, False)


if __name__ == "__main__":
    sys.exit(0 if four_classes.main(__doc__.splitlines()[0], {"libra": with_libra, "backfilling": alone}) else 1)
