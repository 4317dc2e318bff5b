#!/usr/bin/env python3
"""Jobs with shares where Slurm binds jobs to processors: task/affinity, and ConstrainCores of cgroup.conf.

Run as root: `python3 tests/slurm/test_bound.py`.
"""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402
from scripts import idle_until  # noqa: E402

CPUSET = pathlib.Path("/sys/fs/cgroup/cpuset")
WHERE = "sed -n s/^Cpus_allowed_list://p /proc/self/status\n"


def numbers(text):
    """The processors of a list such as 0-2,5."""
    pairs = [part.split("-") for part in text.strip().split(",")]
    return {number for pair in pairs for number in range(int(pair[0]), int(pair[-1]) + 1)}


class Bound(SiteCase):
    """A node of two processors, of which Slurm picks one for each job."""

    site = {"nodes": 1, "cpus": 2, "cgroups": "ConstrainCores=yes\n", "settings": {"TaskPlugin": "task/affinity,task/cgroup"}}

    def places(self, job):
        """The processors of each process that has written them down. srun may have its own to say."""
        return [numbers(line) for line in self.slurm.output(job).splitlines() if re.fullmatch(r"[\d,-]+", line.strip())]

    def test_a_job_with_a_share_runs_on_all_processors(self):
        """Its script, a step, and a task that asks to be bound; plain jobs of the same user stay where Slurm has put them, before, meanwhile and after."""
        all_of_them = numbers((CPUSET / "cpuset.cpus").read_text())
        plain = lambda: self.slurm.submit(script=WHERE)  # noqa: E731
        first = plain()
        self.slurm.wait_ended(first)
        [bound] = self.places(first)
        self.assertLess(len(bound), len(all_of_them), "what is tried here is not there")
        end = self.slurm.directory / "bound.end"
        job = self.accept(20, "2d", script=f"{WHERE}srun {WHERE}srun --cpu-bind=cores {WHERE}{idle_until(end)}")
        self.slurm.wait("all three have said it", lambda: len(self.places(job)) == 3)
        self.assertEqual(self.places(job), [all_of_them] * 3)
        second = plain()
        self.slurm.wait_ended(second)
        self.assertEqual(len(self.places(second)[0]), len(bound))
        end.touch()
        self.met(job)
        third = plain()
        self.slurm.wait_ended(third)
        self.assertEqual(len(self.places(third)[0]), len(bound))

    def test_a_job_that_has_all_whole_processors_is_bound_as_slurm_binds(self):
        """Each of its tasks to one, when it asks for that; of one that has only some of the node's the tasks are not."""
        tasks = lambda count: self.accept(20, "2d", "--sla-class=dedicated", "-n", count, script=f"srun --cpu-bind=cores {WHERE}")  # noqa: E731
        job = tasks(2)
        self.met(job)
        places = self.places(job)
        self.assertEqual([len(place) for place in places], [1, 1])
        self.assertNotEqual(*places)
        job = tasks(1)
        self.met(job)
        self.assertEqual(self.places(job), [numbers((CPUSET / "cpuset.cpus").read_text())])


if __name__ == "__main__":
    unittest.main()
