#!/usr/bin/env python3
"""srun and salloc on a Slurm with Libra, jobs on several nodes, and jobs that submit jobs.

Run as root: `python3 tests/slurm/test_users_clients.py`.
"""

import concurrent.futures
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import BAD_OPTION, SiteCase  # noqa: E402

# However long it takes a busy machine to start some steps: Slurm would end a job at its deadline, to the minute.
LONG = "--time=30"
SHOW = "echo $SLURMD_NODENAME $SLURM_JOB_ID; cat /proc/self/cgroup"


class Clients(SiteCase):
    """Three nodes of one processor each."""

    def in_group(self, text, node, job):
        """A task has printed its /proc/self/cgroup: it is in its job's group."""
        for controller in ("cpu", "cpuacct"):
            self.assertIn(f":{controller}:/{self.slurm.cgroup_root(node)}/job-{job}\n", text)

    def test_srun(self):
        """The command's output alone is on standard output; it runs in the job's cgroup; a refusal is exit status 1, a bad value 255."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        done = slurm.srun(*self.terms_of(10, 20, 15), LONG, "sh", "-c", SHOW)
        self.assertEqual(done.rc, 0, done.err)
        self.assertIn(f"srun: libra: accepted: 52.5 % of a processor on {node}, finished in 20 s at the latest, for 10.5 of 15 credits\n", done.err)
        where, job = done.out.split()[:2]
        self.assertEqual(where, node)
        self.in_group(done.out, node, job)
        self.assertEqual(slurm.srun(*self.terms_of(10, 20), LONG, "sh", "-c", "exit 7").rc, 7)
        self.refused(slurm.srun(*self.terms_of(10, 20, 9), "true"), "srun: error: libra: refused (budget)", "accepted now would be: --budget=10.5")
        self.refused(slurm.srun(*self.terms_of("ten", 20), "true"), "libra: --estimate=ten: ", status=BAD_OPTION)

    def test_salloc(self):
        """Its steps are in the job's cgroup, and pay nothing more."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        done = slurm.salloc(*self.terms_of(10, 20, 15), LONG, "sh", "-c", f"srun sh -c '{SHOW}'; srun true; squeue -h -o %A")
        self.assertEqual(done.rc, 0, done.err)
        self.assertIn("salloc: libra: accepted: 52.5 % of a processor on ", done.err)
        self.assertEqual(done.err.count("libra: "), 1)
        where, job = done.out.split()[:2]
        self.assertEqual((where, done.out.split()[-1]), (node, job))
        self.in_group(done.out, node, job)
        self.refused(slurm.salloc(*self.terms_of(30, 20), "true"), "salloc: error: libra: refused (deadline)")
        self.refused(slurm.salloc("--budget=much", "true"), "'much' is not a number of credits", status=BAD_OPTION)

    def test_steps_of_a_batch_job(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = self.accept(10, 20, LONG, script=f"srun sh -c '{SHOW}'\nsrun --overlap true && echo all\n")
        self.assertEqual(slurm.wait_ended(job)["JobState"], "COMPLETED")
        self.in_group(slurm.output(job), node, job)
        self.assertIn("all\n", slurm.output(job))
        self.assertNotIn("libra:", slurm.output(job))

    def test_two_nodes(self):
        """srun -N2, and sbatch -N2 with srun in it: a task on each, capped there."""
        slurm = self.slurm
        one, two = slurm.nodes[:2]
        done = slurm.srun(*self.terms_of(10, 20), LONG, "-N2", "-l", "sh", "-c", SHOW)
        self.assertEqual(done.rc, 0, done.err)
        self.assertIn(f"accepted: 52.5 % of each of 2 processors on {one} and {two}, finished in 20 s at the latest, for 21 of 1000 credits", done.err)
        job = re.search(r" (\d+)\n", done.out)[1]
        for node in (one, two):
            task = re.search(rf"^(\d): {node} ", done.out, re.M)[1]
            self.in_group("".join(line[3:] + "\n" for line in done.out.splitlines() if line.startswith(f"{task}: ")), node, job)
        self.clear()
        job = self.accept(1000, 2000, "-N2", budget=10_000, script="srun sh -c 'echo $SLURMD_NODENAME; exec sleep 1000'\n")
        self.running(job)
        self.assertEqual(slurm.nodes_of(job), [one, two])
        slurm.wait("both tasks", lambda: sorted(slurm.output(job).split()) == [one, two])
        for node in (one, two):
            self.assertTrue(slurm.wait("processes of it", lambda node=node: self.processes(job, node)))
            self.assertGreaterEqual(self.quota(job, node), 0.525)
            self.assertLess(self.quota(job, node), 0.65)

    def test_tasks_on_nodes_of_one_processor(self):
        """-n 3: one task on each of three nodes."""
        slurm = self.slurm
        done = slurm.srun(*self.terms_of(10, 20), LONG, "-n3", "sh", "-c", "echo $SLURMD_NODENAME")
        self.assertEqual((done.rc, sorted(done.out.split())), (0, slurm.nodes), done.err)
        self.clear()
        job = self.accept(10, 20, LONG, "-n3", script="srun sh -c 'echo $SLURMD_NODENAME'\n")
        slurm.wait_ended(job)
        self.assertEqual(sorted(slurm.output(job).split()), slurm.nodes)

    def test_a_job_submitted_by_a_job(self):
        """It has no terms but those that it is given itself."""
        slurm = self.slurm
        inner = "cat > inner <<'END'\n#!/bin/sh\nsleep 100\nEND\n"
        job = self.accept(10, 60, script=inner + "echo $(sbatch --parsable inner) $(sbatch --parsable --estimate=7 --sla-deadline=70 --budget=99 inner)\n")
        slurm.wait_ended(job)
        plain, own = re.search(r"^(\d+) (\d+)$", slurm.output(job), re.M).groups()
        self.assertNotIn("AdminComment", slurm.job(plain))
        self.assertEqual([self.commitment(own)[key] for key in ("estimate", "deadline", "budget")], ["7", "70", "99"])

    def test_heterogeneous_jobs(self):
        """Terms for both components: both are committed, on nodes of their own. One refused: nothing is submitted, and nothing stays reserved."""
        slurm = self.slurm
        job = slurm.submit(*self.terms_of(10, 100), "-n1", ":", *self.terms_of(60, 100), "-n1")
        slurm.wait("both run", lambda: [slurm.job(f"{job}+{part}").get("JobState") for part in (0, 1)] == ["RUNNING"] * 2)
        self.assertEqual([self.commitment(f"{job}+{part}")["estimate"] for part in (0, 1)], ["10", "60"])
        self.clear()
        answer = slurm.sbatch(*self.terms_of(90, 100), "-n1", ":", *self.terms_of(60, 20), "-n1")
        self.refused(answer, "0: libra: accepted", "1: libra: refused (deadline)")
        self.free_again(slurm.nodes[0])

    def free_again(self, node):
        """Within seconds a node can be committed as a whole."""
        began = time.monotonic()
        self.running(self.slurm.wait("it is free", lambda: (answer := self.ask(95, 100, "-w", node)).rc == 0 and answer).out)
        print(f"\n  free after {time.monotonic() - began:.1f} s")

    def test_a_test_only(self):
        """It says what would be, and nothing stays reserved."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        refused = slurm.sbatch(*self.terms_of(90, 10), "--test-only")
        self.assertNotEqual(refused.rc, 0)
        self.assertIn("refused (deadline)", refused.err)
        answer = slurm.sbatch(*self.terms_of(90, 100), "--test-only")
        self.assertEqual(answer.rc, 0, answer.err)
        self.assertIn(f"libra: accepted: 94.5 % of a processor on {node}", answer.err)
        self.assertEqual(slurm.must("squeue", "-h"), "")
        self.free_again(node)
        # One after the other would keep it from others; the user's jobs do not wait, and another user does not.
        test = [*self.terms_of(1, 100), "--test-only"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            slurm.wait("a test is one too many", lambda: any("test again in" in answer.err for answer in pool.map(lambda _: slurm.sbatch(*test), range(8))))
        self.assertEqual(slurm.sbatch(*test, user=slurm.users[1]).rc, 0)
        self.running(slurm.submit(*self.terms_of(1, 100)))


if __name__ == "__main__":
    unittest.main()
