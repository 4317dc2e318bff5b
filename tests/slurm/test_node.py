#!/usr/bin/env python3
"""Jobs on the nodes of a Slurm with Libra's SPANK plugin: what becomes of their tasks, measured in their cgroups.

Run as root: `python3 tests/slurm/test_node.py`. What is committed the tests say themselves (commitment.c), so a broken line is tested too.
"""

import pathlib
import re
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from libra_site import busy  # noqa: E402
from scripts import idle_until  # noqa: E402
from node_site import NodeCase  # noqa: E402

SHOW = "cat /proc/self/cgroup; env | grep -i -e spank -e ^LIBRA_DEADLINE; true\n"


class Tasks(NodeCase):
    """Two nodes of one processor each."""

    def test_a_batch_script(self):
        """It is in its job's cgroup, with its share as cap, knows its deadline, and leaves nothing."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        end = slurm.directory / "batch.end"
        before = time.time()
        environment = slurm.commitment((node, 0.5), estimate=5000 / 1.05, deadline=10_000)
        after = time.time()
        job = slurm.submit("-w", node, script=SHOW + idle_until(end), environment=environment)
        self.printed(job)
        # Its share was taken anew after it began: a little time had gone by without work.
        self.assertAlmostEqual(self.quota(job, node), 0.5, delta=0.1)
        self.assertEqual(slurm.entry(node, job)["share"], 0.5)
        end.touch()
        self.assertEqual(slurm.wait_ended(job)["JobState"], "COMPLETED")
        text = slurm.output(job)
        self.in_group(node, job, text)
        deadline = int(re.search(r"LIBRA_DEADLINE=(\d+)\n", text)[1])
        self.assertTrue(before + 9_999 <= deadline <= after + 10_001, (before, deadline, after))
        self.assertTrue(slurm.wait("its epilog", lambda: slurm.entry(node, job).get("ending"))["met"])
        self.assertFalse(slurm.group(node, job).exists())

    def test_how_a_batch_script_ended(self):
        """The node knows, and shows it as it shows a job of its own; what its steps do is the script's business."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        for script, exit_code, signal in (("srun false\nexit 0\n", 0, None), ("exit 3\n", 3, None), ("kill -9 $$\n", None, 9)):
            job = slurm.submit("-w", node, script=script, environment=slurm.commitment((node, 0.5), estimate=500, deadline=1000))
            slurm.wait_ended(job)
            ending = slurm.wait("its epilog", lambda job=job: slurm.entry(node, job).get("ending"))
            self.assertEqual((ending["exit-code"], ending["signal"], ending["met"]), (exit_code, signal, exit_code == 0), script)

    def test_steps_of_srun(self):
        """srun alone, on two nodes, each with the share that was committed there; srun in a batch script."""
        slurm = self.slurm
        one, two = slurm.nodes
        done = slurm.srun("-N2", "-l", "sh", "-c", "echo $SLURMD_NODENAME $SLURM_JOB_ID; cat /proc/self/cgroup", environment=slurm.commitment((one, 0.5), (two, 0.25)))
        self.assertEqual(done.rc, 0, done.err)
        job = re.search(r" (\d+)\n", done.out)[1]
        for node in slurm.nodes:
            task = re.search(rf"^(\d): {node} ", done.out, re.M)[1]
            self.in_group(node, job, "".join(line[3:] + "\n" for line in done.out.splitlines() if line.startswith(f"{task}: ")))
        self.assertEqual([slurm.entry(node, job)["share"] for node in slurm.nodes], [0.5, 0.25])
        job = slurm.submit("-w", one, script="srun cat /proc/self/cgroup\n", environment=slurm.commitment((one, 0.5)))
        slurm.wait_ended(job)
        self.in_group(one, job, slurm.output(job))

    def test_a_step_of_salloc(self):
        """srun in a shell of salloc's."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        done = slurm.salloc("-w", node, "--budget=5", "sh", "-c", f"echo $SLURM_JOB_ID; srun sh -c '{SHOW}'", environment=slurm.commitment((node, 0.5)))
        self.assertEqual(done.rc, 0, done.err)
        self.in_group(node, done.out.split()[0], done.out)

    def test_a_child_that_leaves_its_session(self):
        """It is in the cgroup, and is killed with the job."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        child = "setsid python3 -c 'import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nfor n in range(1000): time.sleep(1)' </dev/null >/dev/null 2>&1 &\n"
        end = slurm.directory / "child.end"
        job = slurm.submit("-w", node, script=child + "echo $!\n" + idle_until(end), environment=slurm.commitment((node, 0.5)))
        pid = int(self.printed(job, "\n"))
        self.assertIn(pid, map(int, (slurm.group(node, job) / "cgroup.procs").read_text().split()))
        end.touch()
        slurm.wait_ended(job)
        slurm.wait("the child is gone", lambda: not pathlib.Path(f"/proc/{pid}").exists())

    def test_a_requeued_job(self):
        """It begins anew, and its deadline stays."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = slurm.submit("-w", node, "--requeue", "--open-mode=append", script=SHOW + "sleep 1000\n", environment=slurm.commitment((node, 0.5)))
        self.printed(job)
        first = slurm.entry(node, job)
        slurm.must("scontrol", "requeue", job)
        # Slurm would let it wait for two minutes, until its credentials have expired. Earlier, it may start without a prolog.

        def again():
            if slurm.output(job).count("LIBRA_DEADLINE") == 2:
                return True
            if slurm.state(job) == "PENDING":
                slurm.start_now(job)
            return False

        slurm.wait("it prints again", again)
        second = slurm.entry(node, job)
        self.assertGreater(second["begun"], first["begun"])
        # Each is taken from two clocks, one after the other, on a machine that may be busy in between; it came seconds after the first.
        self.assertLess(abs(second["submitted"] - first["submitted"]), (second["begun"] - first["begun"]) / 2)
        self.assertEqual(slurm.output(job).count(f"{slurm.cgroup_root(node)}/job-{job}"), 4)
        self.assertEqual(len(set(re.findall(r"LIBRA_DEADLINE=\d+", slurm.output(job)))), 1)

    def test_tasks_of_an_array(self):
        """Each is a job of its own on its node."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = slurm.submit("-w", node, "--array=3,7", "--output=a%a.out", script="echo job $SLURM_JOB_ID\n" + SHOW, environment=slurm.commitment((node, 0.25, 2), count=2))
        for task in (3, 7):
            file = slurm.home(slurm.users[0]) / f"a{task}.out"
            text = slurm.wait("it prints", lambda file=file: file.exists() and "LIBRA" in file.read_text() and file.read_text())
            number = re.search(r"job (\d+)", text)[1]
            self.in_group(node, number, text)
            self.assertEqual((slurm.entry(node, number)["share"], slurm.entry(node, number)["slots"]), (0.25, 1))
        slurm.wait("both ended", lambda: not slurm.must("squeue", "-h", "-j", job))

    def test_a_job_submitted_by_a_job(self):
        """It does not carry the options of the one that submits it, but those that it is given."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        inner = "#!/bin/sh\nenv | grep -i spank_option; echo ran\n"
        script = "unset TEST_COMMITMENT\nenv | grep -i spank_option\ncat > inner <<'END'\n" + inner + "END\nsbatch --wait -o none.out inner\nsbatch --wait --budget=7 -o own.out inner\n"
        job = slurm.submit("--estimate=5", "--budget=3", "-w", node, script=script, environment=slurm.commitment((node, 0.5)))
        # Both run at the least weight, and sbatch --wait looks every half a minute.
        slurm.wait_ended(job, patience=600)
        self.assertNotIn("OPTION", slurm.output(job))
        for name in ("none", "own"):
            self.assertEqual((slurm.home(slurm.users[0]) / f"{name}.out").read_text(), "ran\n")

    def test_a_job_without_terms(self):
        """It runs at the least weight, beside the directory of those with terms, or untouched if the site says so."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        end = slurm.directory / "plain.end"
        job = slurm.submit("-w", node, script=SHOW + idle_until(end))
        self.printed(job, "cpu")
        self.assertIn(f":cpu:/{slurm.best_effort(node, job).name}\n", slurm.output(job))
        self.assertNotIn("LIBRA", slurm.output(job))
        self.assertEqual((slurm.best_effort(node, job) / "cpu.shares").read_text(), "2\n")
        self.assertEqual(slurm.live(), [])
        end.touch()
        slurm.wait_ended(job)
        slurm.wait("its group is removed", lambda: not slurm.best_effort(node, job).exists())
        slurm.configure("[slurm]\nwithout-terms = 'leave-alone'\n")
        job = slurm.submit("-w", node, script=SHOW)
        slurm.wait_ended(job)
        self.assertNotIn("libra-slurm", slurm.output(job))


class Faults(NodeCase):
    """What is committed cannot be kept on this node."""

    def test_a_line_that_cannot_be_read(self):
        """The tasks are refused, with the reason; the job fails and the node does not. Or they run, as the site wishes."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        newer = {"TEST_COMMITMENT": "v=2:token=1"}
        job = slurm.submit("-w", node, script=SHOW, environment=newer)
        ended = slurm.wait_ended(job)
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("FAILED", "1:0"))
        self.assertIn(f"libra: job {job} is not held to its share: its commitment cannot be read: it is of another version of Libra", slurm.output(job))
        done = slurm.srun("-w", node, "true", environment=newer)
        self.assertEqual(done.rc, 1, done.out)
        self.assertIn("another version of Libra", done.err)
        slurm.configure("[slurm]\non-fault = 'admit'\n")
        done = slurm.srun("-w", node, "cat", "/proc/self/cgroup", environment=newer)
        self.assertEqual(done.rc, 0, done.err)
        self.assertIn(f"{slurm.cgroup_root(node)}-best-effort-job-", done.out)

    def test_a_registry_that_cannot_be_used(self):
        """Nothing that others could write into is believed. Jobs that are known to have terms are refused, others run."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        slurm.registry(node).mkdir(exist_ok=True)
        slurm.registry(node).chmod(0o777)
        try:
            done = slurm.srun("-w", node, "--budget=5", "true", environment=slurm.commitment((node, 0.5)))
            self.assertEqual(done.rc, 1, done.out)
            self.assertIn("chmod 755", done.err)
            self.assertEqual(slurm.srun("-w", node, "true").rc, 0)
        finally:
            slurm.registry(node).chmod(0o755)

    def test_a_registry_that_is_removed(self):
        """While a job runs: its end removes its cgroup all the same."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        job = slurm.submit("-w", node, environment=slurm.commitment((node, 0.5)))
        self.started(job)
        shutil.rmtree(slurm.registry(node))
        slurm.scancel(job)
        slurm.wait_ended(job)
        slurm.wait("no cgroup", lambda: not slurm.group(node, job).exists())
        # As usual again.
        job = slurm.submit("-w", node, environment=slurm.commitment((node, 0.5)))
        self.started(job)

    def test_a_configuration_that_cannot_be_read(self):
        slurm, node = self.slurm, self.slurm.nodes[0]
        start = lambda: slurm.srun("-w", node, "--budget=5", "true", environment=slurm.commitment((node, 0.5)))
        self.assertEqual(start().rc, 0)
        slurm.configure("[slurm]\nwithout-terms = 'maybe'\n")
        with self.subTest("the rules that it had last go on"):
            done = start()
            self.assertEqual(done.rc, 0, done.err)
        self.nothing_left()
        slurm.node_file(node).with_name(f".libra-{node}.toml.last").unlink()
        done = start()
        self.assertEqual(done.rc, 1, done.out)
        self.assertIn(f"libra-{node}.toml", done.err)
        self.assertEqual(slurm.srun("-w", node, "true").rc, 0)

    def test_slurmd_is_killed(self):
        """The job goes on in its cgroup, ends meanwhile, and slurmd's restart removes what is left."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        end = slurm.directory / "slurmd.end"
        job = slurm.submit("-w", node, script=SHOW + idle_until(end), environment=slurm.commitment((node, 0.5)))
        self.printed(job)
        slurm.kill_slurmd(node, signal.SIGKILL)
        end.touch()
        slurm.wait("the job has ended", lambda: not self.processes(job, node))
        self.assertTrue(slurm.group(node, job).exists())
        slurm.start_slurmd(node)
        slurm.wait("its epilog", lambda: not slurm.group(node, job).exists())
        slurm.wait_idle()


class Options(NodeCase):
    """What users see."""

    def test_help(self):
        """Every client describes all five."""
        slurm = self.slurm
        for client in ("sbatch", "srun", "salloc"):
            text = " ".join(slurm.must(client, "--help", user=slurm.users[0]).split())
            for part in ("--estimate=time processor time that each", "--sla-deadline=time the job is to be finished", "--budget=credits most that you pay",
                         "--deadline-type=type 'hard':", "--penalty-rate=credits what you are paid"):
                self.assertIn(part, text, client)

    def test_values_that_cannot_be(self):
        """The client stops with exit status 255, and says what was given, what was expected, and an example."""
        slurm = self.slurm
        for option, said in (("--estimate=soon", "'soon' is not a duration: not a number; write seconds (90), HH:MM:SS (00:01:30) or units (1h30m, 2d); for example --estimate=1h30m"),
                             ("--sla-deadline=0", "0 is out of range, expected seconds, from 0.001 to 10000000000; for example --sla-deadline=3h"),
                             ("--budget=much", "'much' is not a number of credits; for example --budget=50"),
                             ("--deadline-type=firm", "'firm' is neither 'hard' nor 'soft'; for example --deadline-type=soft"),
                             ("--penalty-rate=-1", "'-1' is not a number of credits; for example --penalty-rate=0.5")):
            for done in (slurm.sbatch(option), slurm.srun(option, "true"), slurm.salloc(option, "true")):
                self.assertEqual((done.rc, done.out), (255, ""), done.err)
                self.assertEqual(done.err.splitlines()[0], f"libra: {option}: {said}")
        done = slurm.sbatch(script="#!/bin/sh\n#SBATCH --budget=a%sb\n")
        self.assertEqual(done.rc, 255)
        self.assertIn("--budget=a%sb: 'a%sb' is not a number", done.err)

    def test_lines_in_the_script(self):
        """`#SBATCH` lines are options, and a job with all five runs."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        lines = "#!/bin/sh\n#SBATCH --estimate=5\n#SBATCH --sla-deadline=1h30m\n#SBATCH --budget=unlimited\n#SBATCH --deadline-type=soft\n#SBATCH --penalty-rate=0.5\n"
        job = slurm.submit("-w", node, script=lines + SHOW)
        self.assertEqual(slurm.wait_ended(job)["JobState"], "COMPLETED")
        self.assertNotIn("OPTION", slurm.output(job))
        self.assertNotIn("error", slurm.output(job))


class Shares(NodeCase):
    """Busy jobs, all on processor 0. Where the machine is too busy a measurement is repeated, and longer."""

    measures = 2

    def start(self, node, share):
        """Start a busy job; long before its end, so that what it needs changes little."""
        slurm = self.slurm
        job = slurm.submit("-w", node, script="taskset -p -c 0 $$\n" + busy(1000), environment=slurm.commitment((node, share), estimate=share * 1000 / 1.05, deadline=1000))
        slurm.wait_running(job)
        slurm.wait("it works", lambda: self.used(job, node) > 0.5)
        return job

    def measured(self, places, good):
        said = []
        for seconds in (5, 10, 20, 40, 80):
            said.append(self.rates(places, seconds))
            if good(said[-1]):
                break
        print("\n  used " + "; ".join(" : ".join(f"{rate:.3f}" for rate in rates) for rates in said))
        self.assertTrue(good(said[-1]), said)

    def test_two_jobs_on_one_processor(self):
        """Shares of 0.6 and 0.3 are used 2 : 1."""
        node = self.slurm.nodes[0]
        jobs = [self.start(node, share) for share in (0.6, 0.3)]
        self.measured([(job, node) for job in jobs], lambda rates: abs(rates[0] / rates[1] / 2 - 1) <= 0.1)

    def test_jobs_without_terms_beside_one_with(self):
        """A share of 0.6 is used, whatever eight processes of others do."""
        slurm, node = self.slurm, self.slurm.nodes[0]
        for _ in range(2):
            slurm.submit("-w", node, script="taskset -p -c 0 $$\n" + busy(1000, 4))
        slurm.wait("the others work", lambda: len(slurm.processes_at_best(node)) >= 8)
        job = self.start(node, 0.6)
        self.measured([(job, node)], lambda rates: rates[0] >= 0.6 * 0.9)


if __name__ == "__main__":
    unittest.main()
