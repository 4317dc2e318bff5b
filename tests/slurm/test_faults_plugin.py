#!/usr/bin/env python3
"""Libra in slurmctld goes wrong, or is told lies: it panics, its configuration is broken, clients forge what is committed. slurmctld lives, users are told,
and nothing that was promised is forgotten.

Run as root: `tests/slurm/run test_faults_plugin`. Takes about three minutes. LIBRA_FAULTY_PLUGIN: a job_submit plugin that was built with the
feature test-faults; without it one is built.
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from case import SiteCase  # noqa: E402  (puts tests/batch in the path)
import faulty  # noqa: E402
from libra_site import TOP, with_start  # noqa: E402
from promises import STILL, expect_free, holding, is_saved, peak_during, terms  # noqa: E402

DEADLY = ["--estimate=10", "--sla-deadline=100", "--budget=666"]  # the plugin panics when it sees this budget
HERE = pathlib.Path(__file__).resolve().parent


def faulty_plugin():
    """A plugin that panics when it is asked to."""
    given = os.environ.get("LIBRA_FAULTY_PLUGIN")
    return pathlib.Path(given) if given else faulty.built("libra-slurm-job-submit", "libjob_submit_libra.so")


class Panics(SiteCase):
    """The plugin panics: the submission has no answer of Libra's, everything else goes on."""

    site = {"nodes": 2}

    @classmethod
    def prepare(cls):
        slurm = cls.slurm
        slurm.stop_controller()
        # Another file: the one that is there may be mapped.
        (slurm.plugins / "job_submit_libra.so").unlink()
        shutil.copy(faulty_plugin(), slurm.plugins / "job_submit_libra.so")
        slurm.start_controller()

    def test_refuse_and_admit(self):
        slurm = self.slurm
        n1, n2 = slurm.nodes
        controller = slurm.daemon_pid("slurmctld")
        kept = slurm.submit(*terms(0.4, n1))
        self.started(kept)
        for _ in range(3):
            self.refused(slurm.sbatch(*DEADLY), "libra: could not judge this job (a fault of its own); tell the administrators")
        self.assertIn("fault in job_submit: a test asked for it", slurm.said())
        expect_free(self, slurm, {n1: 0.6, n2: 1})

        slurm.rule('[slurm]\non-fault = "admit"\n')
        admitted = slurm.sbatch(*DEADLY, "-w", n2)
        self.assertEqual(admitted.rc, 0, admitted.err)
        self.assertIn("libra: could not judge this job; it runs without a promise", admitted.err)
        self.running(admitted.out)
        self.assertNotIn("AdminComment", slurm.job(admitted.out))
        self.assertEqual([name for name in slurm.job_groups() if name.endswith(f" job-{admitted.out}")], [])
        expect_free(self, slurm, {n1: 0.6, n2: 1})
        self.assertEqual(slurm.daemon_pid("slurmctld"), controller)
        self.assertEqual(slurm.state(kept), "RUNNING")


class BadConfiguration(SiteCase):
    """slurmctld's configuration is broken while it runs, and when it starts."""

    site = {"nodes": 2, "rules": '[slurm]\nwithout-terms = "refuse"\n'}

    BROKEN = {"a syntax error": "[slurm\n", "a wrong value": '[slurm]\nwithout-terms = "maybe"\n', "an unknown key": "[slurm]\ntypo = 1\n", "not UTF-8": b"\xff\xfe"}

    def write(self, text):
        file = self.slurm.rules_file
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def test_while_it_runs(self):
        slurm = self.slurm
        job = slurm.submit(*terms(0.4, slurm.nodes[0]))
        self.started(job)
        for what, text in self.BROKEN.items():
            with self.subTest(what):
                before = len(slurm.said())
                self.write(text)
                said = slurm.wait("it is said", lambda before=before: [line for line in slurm.said()[before:] if "the rules stay as they were" in line])
                self.assertEqual(len(said), 1, "once")
                self.refused(slurm.sbatch(), "jobs on this cluster need a deadline")
                expect_free(self, slurm, {slurm.nodes[0]: 0.6})
                self.write(with_start(slurm.rules))
                slurm.wait("it is read", lambda before=before: [line for line in slurm.said()[before:] if "was read anew" in line])
        for what, make in {"gone": slurm.rules_file.unlink, "empty": lambda: self.write("")}.items():
            with self.subTest(what):
                before = len(slurm.said())
                make()
                slurm.wait("it is said", lambda before=before: [line for line in slurm.said()[before:] if f"{slurm.rules_file.name} is {what}; Libra goes on" in line])
                self.refused(slurm.sbatch(), "jobs on this cluster need a deadline")
                self.write(with_start(slurm.rules))
                slurm.wait("it is read", lambda before=before: [line for line in slurm.said()[before:] if "was read anew" in line])
        with self.subTest("unreadable for SlurmUser"):
            before = len(slurm.said())
            slurm.rules_file.chmod(0)
            self.addCleanup(slurm.rules_file.chmod, 0o644)
            os.utime(slurm.rules_file)
            slurm.wait("it is said", lambda: [line for line in slurm.said()[before:] if "the rules stay as they were" in line])
            self.refused(slurm.sbatch(), "jobs on this cluster need a deadline")
            # Nothing of it changes but who may read it.
            slurm.rules_file.chmod(0o644)
            slurm.wait("it is read", lambda: [line for line in slurm.said()[before:] if "was read anew" in line])

    def test_at_its_start(self):
        """Nothing with terms is judged, and users are told why; jobs without terms run. When it can be read, all is as it was."""
        slurm = self.slurm
        job = slurm.submit(*terms(0.4, slurm.nodes[0]))
        self.started(job)
        slurm.wait("saved", lambda: is_saved(slurm, job))
        slurm.kill_controller()
        self.write("[slurm\n")
        self.addCleanup(self.write, with_start(slurm.rules))
        before = len(slurm.said())
        slurm.start_controller()
        slurm.wait("it is said", lambda: [line for line in slurm.said()[before:] if "no job with terms is judged" in line])
        for options in ([], ["--test-only"]):
            self.refused(slurm.sbatch(*options, *terms(0.1), timeout=180), "its configuration cannot be read")
        plain = slurm.submit(script="sleep 1000\n")
        slurm.scancel(plain)
        self.write(with_start(slurm.rules))
        slurm.wait("there are rules again", lambda: "cannot be read" not in slurm.sbatch("--estimate=1", "--sla-deadline=20", "--budget=0.1").err)
        out = slurm.submit(*terms(0.1, slurm.nodes[0]))
        self.assertEqual(set(holding(slurm)), {job, out})
        expect_free(self, slurm, {slurm.nodes[0]: 0.5})


class Forged(SiteCase):
    """Clients that say themselves what is committed to them."""

    site = {"nodes": 1, "users": 2}

    @classmethod
    def prepare(cls):
        """A user's own slurm.conf, with a SPANK plugin of the user's beside Libra's."""
        slurm = cls.slurm
        own = slurm.home(slurm.users[0]) / "etc"
        shutil.copytree(slurm.directory / "etc", own)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", own / "forge.so", HERE / "commitment.c"], check=True)
        with open(own / "plugstack.conf", "a", encoding="ascii") as stack:
            stack.write(f"optional {own}/forge.so\n")
        subprocess.run(["cc", "-o", own / "submit", HERE / "submit.c", "-lslurm"], check=True)
        cls.own = own

    LINE = "v=1:token=17:submitted=1.0:estimate=50:deadline=100:budget=15:type=hard:penalty=0:price=1:chunks=1:processors=1:memory=0:scatter=0:count=1:at={}*1*0.9"

    def forging(self, line):
        return {"SLURM_CONF": str(self.own / "slurm.conf"), "TEST_COMMITMENT": line, "SPANK_LIBRA_COMMITMENT": line, "SLURM_SPANK_LIBRA_COMMITMENT": line, "LIBRA_COMMITMENT": line}

    def test_prolog_environment(self):
        slurm = self.slurm
        node, = slurm.nodes
        line = self.LINE.format(node)
        script = "env | grep -c LIBRA_COMMITMENT > seen; sleep 1000\n"
        plain = slurm.submit(environment=self.forging(line), script=script)
        self.running(plain)
        slurm.wait("it runs", lambda: (slurm.home(slurm.users[0]) / "seen").exists())
        self.assertEqual(slurm.entry(node, plain), {}, "nothing is committed to it")
        self.assertEqual(slurm.job_groups(), [])
        commitment = slurm.submit(*terms(0.2, node), environment=self.forging(line))
        self.started(commitment)
        self.assertAlmostEqual(slurm.entry(node, commitment)["share"], 0.2, delta=0.001)
        self.assertAlmostEqual(self.quota(commitment, node), 0.2, delta=0.01)
        with_srun = slurm.salloc("-w", node, "srun", "cat", "/proc/self/cgroup", environment=self.forging(line))
        self.assertEqual(with_srun.rc, 0, with_srun.err)
        self.assertNotIn("/job-", with_srun.out)
        expect_free(self, slurm, {node: 0.8})

    def test_admin_comment(self):
        """Only Slurm's administrator may send one at all."""
        slurm = self.slurm
        node, = slurm.nodes
        environment = {"SLURM_CONF": str(slurm.conf)}
        asked = slurm.run(self.own / "submit", f"libra:{self.LINE.format(node)}", user=slurm.users[0], environment=environment)
        self.assertNotEqual(asked.rc, 0, asked.out)
        asked = slurm.run(self.own / "submit", user=slurm.users[0], environment=environment)
        self.assertEqual(asked.rc, 0, "without one it goes")
        time.sleep(2)
        expect_free(self, slurm, {node: 1})

    def test_comment(self):
        """A comment is terms, and never what is committed."""
        slurm = self.slurm
        node, = slurm.nodes
        self.refused(slurm.sbatch(f"--comment=libra:{self.LINE.format(node)}"), "libra")
        plain = slurm.submit("-w", node)
        self.running(plain)
        slurm.scontrol("update", f"jobid={plain}", f"comment=libra:{self.LINE.format(node)}", user=slurm.users[0])
        self.assertNotIn("libra:v=1", slurm.job(plain).get("Comment", ""))
        expect_free(self, slurm, {node: 1})


FIXED = ["AdminComment", "TimeLimit", "TimeMin", "Partition", "ReqNodeList", "ExcNodeList", "NumCPUs", "NumTasks", "CPUs/Task", "MinCPUsNode", "MinMemoryNode", "MinMemoryCPU", "Features",
         "TresPerNode", "TresPerJob", "Licenses", "Reservation", "Dependency", "Deadline", "OverSubscribe", "Contiguous", "CoreSpec", "TRES", "ReqB:S:C:T", "UserId", "ArrayTaskThrottle", "Socks/Node"]
VALUES = ["0", "1", "2", "20", "65534", "4294967293", "-1", "-5", "UNLIMITED", "INFINITE", "now", "now+1hour", "2100-01-01", "main", "other", "none", "", "YES", "NO", "libra:estimate=1", "root",
          "afterok:1", "singleton", "gres:x:1", "cpu=8", "x" * 5000, "a=b", "é", "0:30", "1-3", "100%1", "+5", "{node}", "{nodes}"]
KEYS = ["Account", "AdminComment", "ArrayTaskThrottle", "BatchFeatures", "BurstBuffer", "ClusterFeatures", "Clusters", "Comment", "Contiguous", "CoreSpec", "CPUsPerTask", "CPUs/Task", "Deadline",
        "DelayBoot", "Dependency", "EligibleTime", "EndTime", "ExcNodeList", "Features", "Gres", "JobName", "Licenses", "MailType", "MailUser", "MinCPUsNode", "MinMemoryCPU", "MinMemoryNode",
        "MinTmpDiskNode", "Nice", "NodeList", "NumCPUs", "NumNodes", "NumTasks", "OverSubscribe", "Partition", "Prefer", "Priority", "QOS", "Reboot", "ReqCores", "ReqNodeList", "ReqNodes", "ReqProcs",
        "ReqSockets", "ReqThreads", "Requeue", "ReservationName", "ResetAccrueTime", "Shared", "SiteFactor", "StartTime", "StdOut", "Switches", "ThreadSpec", "TimeLimit", "TimeMin", "TresPerNode",
        "UserID", "WCKey", "WorkDir"]


class Changes(SiteCase):
    """Whatever users change about their jobs, what is committed stays."""

    site = {"nodes": 2, "partitions": {"other": {"OverSubscribe": "FORCE:20"}}}
    seed = int(os.environ.get("LIBRA_SEED", "1"))

    def fixed(self, job):
        has = self.slurm.job(job)
        return {key: has.get(key) for key in FIXED} | {"held": has.get("Priority") == "0", "nodes": has.get("NumNodes")}

    def test_at_random(self):
        slurm = self.slurm
        n1, n2 = slurm.nodes
        user = slurm.users[0]
        runs = slurm.submit(*terms(0.2, n1))
        waits = slurm.submit(*terms(0.3, n2))
        array = slurm.submit("--array=1-3", *terms(0.05, n1))
        self.started(runs)
        self.started(waits)
        slurm.must("scontrol", "requeuehold", waits)
        slurm.wait("it waits", lambda: slurm.state(waits) == "PENDING" and f"{n2} {waits}" not in slurm.live())
        for task in (1, 2, 3):
            self.running(f"{array}_{task}")
        slurm.wait("its share is free", lambda: "held after it was requeued" in slurm.must("scontrol", "show", "job", waits))
        before = {job: self.fixed(job) for job in (runs, waits, f"{array}_1", f"{array}_2", f"{array}_3")}
        dice = random.Random(self.seed)
        changed = {}
        for _ in range(250):
            job = dice.choice(list(before) + [array])
            pairs = [f"{dice.choice(KEYS)}={dice.choice(VALUES).format(node=n2, nodes=f'{n1},{n2}')}" for _ in range(dice.choice([1, 1, 1, 2, 3]))]
            slurm.scontrol("update", f"jobid={job}", *pairs, user=user)
            # Who is held may be released by its owner (test_held.py); of those that run nobody is held.
            if dice.random() < 0.1 and job != waits:
                slurm.scontrol(dice.choice(["hold", "uhold", "release"]), job, user=user)
            examined = before if job == array else [job]
            for one in examined:
                now = self.fixed(one)
                if now != before[one]:
                    changed[" ".join(pairs)] = {key: (before[one][key], now[key]) for key in now if now[key] != before[one][key]}
                    before[one] = now
        self.assertEqual(changed, {}, f"seed {self.seed}")
        self.assertEqual([line for line in slurm.said() if "fault" in line], [])
        self.assertEqual(slurm.scontrol("update", f"jobid={runs}", "comment=mine", user=user).rc, 0, "what is not committed is the user's")
        expect_free(self, slurm, {n1: 1 - 0.2 - 0.15, n2: 1})

    def test_just_submitted(self):
        """A change that comes before the book knows the job's number."""
        slurm = self.slurm
        for _ in range(5):
            job = slurm.submit(*terms(0.1, slurm.nodes[0]))
            for key, value in (("timelimit", "1"), ("partition", "other"), ("priority", "0")):
                slurm.scontrol("update", f"jobid={job}", f"{key}={value}", user=slurm.users[0])
            has = slurm.job(job)
            self.assertEqual((has["Partition"], has["Priority"] == "0", has["TimeLimit"] == "00:01:00"), ("main", False, False))


class OddJobs(SiteCase):
    """Job descriptions that nobody would write by hand: a clear refusal, or a job; slurmctld lives."""

    site = {"nodes": 4, "settings": {"SchedulerParameters": STILL, "MaxArraySize": 100_000, "MaxJobCount": 200_000}, "partition": {"OverSubscribe": "FORCE:1000"}}

    GOOD = {"estimate": "10", "deadline": "1000", "budget": "100000"}

    def odd(self):
        """Arguments, and whether the job may be accepted."""
        numbers = ["", " ", "0", "-1", "-0", "nan", "inf", "-inf", "1e308", "1e309", "1e-320", "9" * 400, "0x10", "1,5", "１０", "10=20", "=10", "10\n20", "10\t", "\x1b[31m10", "10;rm", "\udcff\udcfe", "%s%n",
                   "18446744073709551616", "4294967296", "99999999999999999999d", "1d2d3d", "::", "1:2:3:4:5"]
        for number in numbers:
            for key in self.GOOD:
                given = {**self.GOOD, key: number}
                # As a comment nothing of it is checked before slurmctld.
                yield [f"--comment=libra:{','.join(f'{name}={value}' for name, value in given.items())}"]
                yield [f"--{'sla-deadline' if name == 'deadline' else name}={value}" for name, value in given.items()]
        good = [f"--comment=libra:{','.join(f'{name}={value}' for name, value in self.GOOD.items())}"]
        for comment in ("libra:", "libra:=", "libra:,,,", "libra:estimate", "libra:" + "x" * 100_000, "libra:" + "estimate=1," * 10_000, "libra:\udcff", "libra:estimate=1\ndeadline=2", "libra:v=1"):
            yield [f"--comment={comment}"]
        for size in ("-n4294967293", "-n65536", "-n0", "-n-1", "-N4000000000", "-N1000", "-c65535", "-c0", "--mem=18446744073709551615", "--mem=0", "--ntasks-per-node=65535", "-n1000", "-N2-4", "-N4-2",
                     "--array=0-63999", "--array=0-99999", "--array=0-99999:7%3", "--array=0-4000000000", "--array=1-10:0", "--array=,", "--array=5-1", "--array=1-1000%0", "--array=1-3,2-4", "--array=1,1,1",
                     "-w" + "n1," * 5000, "-wnobody[1-100000]", "-w[", "-x[1-", "-pnobody", "-p,,,", "-pmain,main,main", "-C&&|", "-C" + "x" * 10_000, "--time=UNLIMITED", "--time=0", "--deadline=now-5",
                     "--deadline=2999-01-01", "--begin=2999-01-01", "--dependency=afterok:999999", "--licenses=x", "--gres=gpu:1", "--reservation=x", "--core-spec=1", "--exclusive", "--mem-per-cpu=999999999"):
            yield [*good, size]
        yield [*good, ":", *good]  # a heterogeneous job
        yield ["-J" + "x" * 5000, *good]

    def test_one_by_one(self):
        slurm = self.slurm
        controller = slurm.daemon_pid("slurmctld")
        slowest, accepted = (0.0, ""), []
        for arguments in self.odd():
            began = time.monotonic()
            asked = slurm.sbatch(*arguments, timeout=180)
            slowest = max(slowest, (time.monotonic() - began, " ".join(arguments)[:200]))
            with self.subTest(repr(arguments)[:200]):
                self.assertEqual(slurm.daemon_pid("slurmctld"), controller)
                if asked.rc == 0:
                    accepted.append(repr(arguments)[:120])
                    slurm.must("scancel", asked.out.split(";")[0])
                else:
                    self.assertIn(asked.rc, (1, 255))
                    self.assertGreater(len(asked.err.strip()), 10, "it is said why")
                    self.assertNotIn("fault", asked.err)
                    self.assertNotIn("temporarily", asked.err)
                    self.assertLess(len(asked.err), 3000, "in few words")
        self.assertEqual([line for line in slurm.said() if "fault" in line], [])
        print(f"slowest: {slowest[0]:.1f} s for {slowest[1]}; accepted: {len(accepted)}", *accepted, sep="\n  ", file=sys.stderr)
        slurm.wait("nothing is left in the book", lambda: not slurm.booked())
        # What Slurm itself refused after Libra keeps its share for five seconds and a poll. A question reserves nothing.
        for node in slurm.nodes:
            slurm.wait(f"{node} is free", lambda node=node: "refused (share)" not in slurm.sbatch("--sla-quote=ask", *terms(1 - 0.001, node)).err)
        expect_free(self, slurm, dict.fromkeys(slurm.nodes, 1))

    def test_more_nodes_by_name_than_there_is_memory(self):
        """A range of ten letters is 65,536 names; slurmctld holds its locks while they are read."""
        slurm = self.slurm
        controller = slurm.daemon_pid("slurmctld")
        many = ",".join(f"x{number}-[0-65535]" for number in range(150))
        for option in ("-w", "-x"):
            with self.subTest(option):
                asked = []
                rose = peak_during(controller, lambda: asked.append(slurm.sbatch(*terms(0.1), option + many, timeout=180)))
                self.assertIn("so many nodes by their names", asked[0].err)
                self.assertLess(rose, 65_536, "kB, of a list that has ten million names")
        self.assertEqual(slurm.daemon_pid("slurmctld"), controller)
        job = slurm.submit(*terms(0.1), "-w" + slurm.nodes[1])
        self.assertEqual(slurm.job(job)["ReqNodeList"], slurm.nodes[1])

    def test_a_thousand_tasks(self):
        """An array of a thousand over four nodes: every task is told its node, no node is committed twice."""
        slurm = self.slurm
        array = slurm.submit("--array=1-1000", *terms(0.0035))
        told = lambda: slurm.must("squeue", "-h", "-r", "-j", array, "-o", "%i %n %Q", timeout=180).split("\n")[:-1]  # noqa: E731
        lines = slurm.wait("every task has its node", lambda: (lines := told()) and all(len(line.split()) == 3 and line.split()[2] != "0" for line in lines) and lines)
        self.assertEqual(len(lines), 1000)
        nodes = [line.split()[1] for line in lines]
        on = {node: nodes.count(node) for node in slurm.nodes}
        self.assertEqual(sum(on.values()), 1000)
        for node, count in on.items():
            self.assertLessEqual(count * 0.0035, 1 + 1e-6, on)
        expect_free(self, slurm, {node: 1 - count * 0.0035 for node, count in on.items()})
        self.refused(slurm.sbatch("--array=1-1000", *terms(0.0035)), "refused (jobs)")


if __name__ == "__main__":
    unittest.main()
