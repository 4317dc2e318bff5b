#!/usr/bin/env python3
"""What an administrator changes while slurmctld runs: partitions, their nodes, features, reservations. Polls ask slurmctld for what has changed, and not all of this
counts as a change to it.

Run as root: `tests/slurm/run test_changes`. Takes about half a minute.
"""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from promises import expect_free, terms  # noqa: E402


class Changed(SiteCase):
    """Each change is known to whoever submits some polls later, and so is its undoing."""

    site = {"nodes": 2}

    def becomes(self, what, *words, says):
        """Such a submission gets this answer some time, "" for a job; how long that took is shown."""
        slurm, since = self.slurm, time.monotonic()

        def answered():
            answer = slurm.sbatch(*words)
            if answer.rc == 0:
                self.gone(answer.out)
            return says in answer.err if says else answer.rc == 0
        slurm.wait(what, answered)
        print(f"{what}: after {time.monotonic() - since:.1f} s", file=sys.stderr)

    def gone(self, job):
        self.slurm.scancel(job)
        self.slurm.wait("its share is given back", lambda: any(line.startswith(f"job {job} ") and "ended after" in line for line in self.slurm.said()))

    def test_nodes_of_a_partition(self):
        slurm = self.slurm
        n1, n2 = slurm.nodes
        self.addCleanup(slurm.scontrol, "update", "partitionname=main", f"nodes={n1},{n2}")
        slurm.must("scontrol", "update", "partitionname=main", f"nodes={n1}")
        self.becomes("a node is no longer in the partition", *terms(0.1, n2), says="no-node")
        slurm.must("scontrol", "update", "partitionname=main", f"nodes={n1},{n2}")
        self.becomes("it is again", *terms(0.1, n2), says="")
        expect_free(self, slurm, {n1: 1, n2: 1})

    def test_a_partition_that_comes_and_goes(self):
        slurm = self.slurm
        n2 = slurm.nodes[1]
        self.addCleanup(slurm.scontrol, "delete", "partitionname=extra")
        slurm.must("scontrol", "create", "partitionname=extra", f"nodes={n2}", "oversubscribe=force:20", "state=up")
        self.becomes("a new partition takes jobs", "-p", "extra", *terms(0.1), says="")
        job = self.slurm.submit("-p", "extra", *terms(0.3), script="sleep 1000\n")
        self.started(job)
        expect_free(self, slurm, {n2: 0.7})
        self.gone(job)
        slurm.must("scontrol", "update", "partitionname=extra", "oversubscribe=no")
        self.becomes("its jobs share no processor any more", "-p", "extra", *terms(0.1), says="partition extra takes no jobs with a deadline")

    def test_features(self):
        slurm = self.slurm
        n2 = slurm.nodes[1]
        self.addCleanup(slurm.scontrol, "update", f"nodename={n2}", "availablefeatures=", "activefeatures=")
        slurm.must("scontrol", "update", f"nodename={n2}", "availablefeatures=fast", "activefeatures=fast")
        self.becomes("a feature is asked for", "-C", "fast", *terms(0.1), says="")
        job = slurm.submit("-C", "fast", *terms(0.3))
        self.assertEqual(slurm.job(job)["ReqNodeList"], n2)
        self.gone(job)

    def test_a_reservation(self):
        slurm = self.slurm
        n2 = slurm.nodes[1]
        self.addCleanup(slurm.scontrol, "delete", "reservationname=kept")
        slurm.must("scontrol", "create", "reservation", "reservationname=kept", "starttime=now", "duration=60", f"nodes={n2}", "users=root", "flags=maint,ignore_jobs")
        self.becomes("a node is reserved", *terms(0.1, n2), says="refused (no-node)")
        slurm.must("scontrol", "delete", "reservationname=kept")
        self.becomes("it no longer is", *terms(0.1, n2), says="")


if __name__ == "__main__":
    unittest.main()
