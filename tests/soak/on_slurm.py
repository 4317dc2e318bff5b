"""A throw-away Slurm with Libra (tests/slurm), as the soak works on it: what is said to it, what it has, and how its parts are killed."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "slurm"), str(HERE.parent / "batch")]

import commands  # noqa: E402
import exposition  # noqa: E402
import machine  # noqa: E402
from audit import Task  # noqa: E402
from libra_site import ACCOUNTING, CPU, Site, program  # noqa: E402
from promises import resident  # noqa: E402
from site_parts import Parts, indices_of  # noqa: E402
from truth import commitment  # noqa: E402

NODES, PROCESSORS = 3, 2
TRANSIENT = ("COMPLETING", "CONFIGURING", "SIGNALING", "STAGE_OUT", "STOPPED", "RESIZING")
# Slurm's own, after a slurmctld that was killed has given a number twice: it is counted, and the node resumed.
DUPLICATE = "Duplicate jobid"


class Cluster(Site):
    """Its metrics are written each second; ends of jobs are on record in `jobcomp`."""

    def before_start(self):
        self.metrics = self.directory / "metrics"
        self.metrics.mkdir(mode=0o755)
        shutil.chown(self.metrics, self.plan["slurm_user"])
        super().before_start()


class OnSlurm(Parts):
    """The site."""

    name, system, processors, job_variable = "slurm", "slurm", PROCESSORS, "SLURM_JOB_ID"
    # slurmctld saves its jobs within so many seconds; what it has not saved when it is killed it does not know afterwards.
    unsaved = 12

    def __init__(self, users=6):
        self.cluster = Cluster(nodes=NODES, cpus=PROCESSORS, users=users, agents=True, jobcomp=True,
                               settings={"SlurmdTimeout": 20, "MinJobAge": 300, "KillWait": 3, "SchedulerParameters":
                                         "batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2,requeue_delay=1"})

    def __enter__(self):
        slurm = self.cluster
        slurm.__enter__()
        self.program, self.settings, self.ledger = slurm.program, slurm.rules_file, slurm.directory / "accounts/ledger.sqlite"
        self.nodes = slurm.nodes
        rules = self.rules(slurm.directory, slurm.metrics)
        before = slurm.directory / "etc/accounts.toml"
        before.write_text(rules)
        self.must_account(before, "init", "--owner", slurm.plan["slurm_user"])
        self.start_service(before, slurm.directory / "log/service")
        slurm.rules = rules
        self.settings = before
        return self

    def begin(self):
        """The accounts are filled: from now on they count."""
        self.cluster.rule(self.cluster.rules)

    def __exit__(self, *what):
        self.cluster.__exit__(*what)
        self.reap()

    # ---- submitting, and what is done to jobs

    def submit(self, one, terms, nodes, where, script):
        """(id, what the user was told, what is committed); no id where the client failed."""
        words = [f"--job-name={one.name}", "--output=/dev/null"]
        if terms:
            words += [f"--estimate={terms['estimate']}", f"--sla-deadline={terms['deadline']}", f"--budget={terms['budget']}"]
            if "soft" in terms:
                words += ["--deadline-type=soft", f"--penalty-rate={terms['soft']}"]
            if "held" in terms:
                words.append("--hold")
            if "after" in terms:
                words.append(f"--dependency=afterany:{terms['after'].split('_')[0]}")
            if "begin" in terms:
                words.append(f"--begin=now+{terms['begin']}")
        if one.tasks > 1:
            words.append(f"--array=1-{one.tasks}")
        if nodes > 1:
            words.append(f"-N{nodes}")
        if where:
            words.append(f"--nodelist={where}")
        try:
            answer = self.cluster.sbatch(*words, user=one.user, script=script)
        except subprocess.TimeoutExpired:
            return None, "sbatch got no answer", None
        if answer.rc != 0:
            return None, answer.err or answer.out, None
        line = None
        with contextlib.suppress(Exception):  # slurmctld may be down again
            line = self.cluster.job(answer.out).get("AdminComment", "")
        return answer.out, answer.err, commitment_line(line)

    def scontrol(self, *words, user=None):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.cluster.run("scontrol", *words, user=user, timeout=60).rc
        return 124

    def cancel(self, task, user, _dice):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.cluster.run("scancel", task.name, user=user, timeout=60).rc
        return 124

    def requeue(self, task, _user, dice):
        rc = self.scontrol(dice.choice(["requeue", "requeue", "requeuehold"]), task.name)
        self.hurry.append((time.monotonic() + 3, task.name))
        return rc

    def suspend(self, task, _user, dice):
        rc = self.scontrol("suspend", task.name)
        self.resume_later.append((time.monotonic() + dice.uniform(1, 15), task.name))
        return rc

    def hold(self, task, _user, _dice):
        return self.scontrol("hold", task.name)

    def release(self, task, _user, _dice):
        return self.scontrol("release", task.name)

    def alter(self, task, user, dice):
        """Its user may change its comment, and nothing that was committed."""
        change = dice.choice(["comment=mine", "nice=5", "timelimit=1", f"nodelist={self.nodes[0]}", "admincomment=", "numcpus=2"])
        return self.scontrol("update", f"jobid={task.name}", change, user=user)

    def later(self):
        """What was suspended goes on, and what was requeued need not wait for Slurm's two minutes."""
        for name in self.due(self.resume_later):
            self.scontrol("resume", name)
        for name in self.due(self.hurry):
            with contextlib.suppress(commands.CommandFailed, subprocess.TimeoutExpired):
                self.cluster.start_now(name, timeout=60)

    # ---- what there is

    def tasks(self):
        """All jobs that have not ended."""
        found = []
        for has in json.loads(self.cluster.must("squeue", "--json", "--states=all", timeout=180))["jobs"]:
            states = has["job_state"] if isinstance(has["job_state"], list) else [has["job_state"]]
            comment = has["admin_comment"] or ""
            line = commitment(comment.removeprefix("libra:")) if comment.startswith("libra:") else {}
            if {"PENDING", "RUNNING", "SUSPENDED"} & set(states):
                state = "runs" if "PENDING" not in states else "waits" if line or not comment.startswith(("libra-held:", "libra-nothing:")) else "rests"
            elif set(TRANSIENT) & set(states):
                state = "moving"
            else:
                continue
            name, count = str(has["job_id"]), 1
            if has["array_job_id"]:
                task, waiting = has["array_task_id"], has.get("array_task_string") or ""
                name = f"{has['array_job_id']}_{task}" if task is not None else f"{has['array_job_id']}_[{waiting}]"
                count = 1 if task is not None else len(indices_of(waiting))
            found.append(Task(name, str(has["job_id"]), has["name"], state, line, tuple(expand(has["nodes"] or "")) if state == "runs" else (), count, state == "runs",
                              f"{states} since {has['start_time']}, restarted {has['restart_cnt']}, {comment[:400]}"))
        return found

    def show(self, job):
        """What Slurm has of it."""
        return self.cluster.run("scontrol", "show", "job", "-d", job, timeout=60).out[:3000]

    def ended(self):
        """{job's name: how}, of all that Slurm has on record as ended."""
        file = self.cluster.directory / "log/jobcomp"
        if not file.exists():
            return {}
        # PENDING: it was requeued.
        return dict(re.findall(r"^JobId=\S+ .*? Name=(s\d+) JobState=(?!PENDING)(\S+)", file.read_text(errors="replace"), re.MULTILINE))

    def logs(self):
        return [self.cluster.directory / "log/slurmctld.log"]

    def all_logs(self):
        return sorted(file for file in (self.cluster.directory / "log").iterdir() if file.suffix != ".out")

    def registered(self):
        """{(node, job)} of what the registries have as alive."""
        return {tuple(one.split(" ", 1)) for one in self.cluster.live()}

    def groups(self):
        slurm = self.cluster
        return {(node, group.name.removeprefix("job-")) for node in slurm.nodes for where in (CPU, ACCOUNTING) for group in commands.there(where / slurm.cgroup_root(node), "job-*")}

    def group(self, node, host_name):
        return self.cluster.group(node, host_name)

    def metrics_now(self):
        """The plugin's metrics, written after now."""
        files, now = exposition.Files(self.cluster.metrics, "slurm"), time.time()
        self.cluster.wait("metrics written", lambda: files.written() > now + 1)
        return files

    def drained(self):
        """{node: why} of those that were taken out of service."""
        found = {node: self.cluster.node(node) for node in self.nodes}
        return {node: f"{has['State']}: {has.get('Reason')}" for node, has in found.items() if "DRAIN" in has["State"]}

    def repair(self, tasks):
        """What is Slurm's own: a node that it drained for a number that it gave twice; a job whose end on its node it has not heard of."""
        for task in self.phantoms(tasks):
            self.truth.count("runs-without-a-process", task.name, task.submission, self.show(task.name).replace("\n", " ")[:1500])
            self.scontrol("reconfigure")  # its node says anew what is there
            self.scontrol("requeue", task.name)
        for node, why in self.drained().items():
            if DUPLICATE in why:
                self.truth.count("drained-by-slurm-for-a-duplicate-number", node, why)
                self.scontrol("update", f"nodename={node}", "state=resume")

    # ---- daemons

    def daemons(self):
        """{name: process number} of what is measured."""
        slurm = self.cluster
        found = {"slurmctld": slurm.daemon_pid("slurmctld"), **{f"slurmd {node}": slurm.daemon_pid(node) for node in slurm.nodes},
                 **{f"agent {node}": agent.pid for node, agent in slurm.agents.items()}, "account serve": self.service.pid if self.service else None}
        return {name: pid for name, pid in found.items() if pid and machine.alive(pid)}

    def resident(self, pid):
        return resident(pid)

    def kill_controller(self, dice):
        self.cluster.kill_controller()
        self.truth.count("kill-controller")
        time.sleep(dice.choice([0, 0.5, 2, 6]))
        self.start_controller()

    def stop_controller(self, _dice):
        self.cluster.stop_controller()
        self.truth.count("stop-controller")
        self.start_controller()

    def start_controller(self):
        slurm = self.cluster
        times = slurm.log().count(" jobs with terms")
        slurm.start_controller()
        slurm.wait_judging(times + 1)

    def reread(self, _dice):
        self.truth.count("reconfigure")
        self.scontrol("reconfigure")

    def kill_host(self, dice, spared=()):
        """slurmd; its jobs go on."""
        node = dice.choice([node for node in self.nodes if node not in spared])
        self.cluster.kill_slurmd(node)
        self.truth.count("kill-slurmd", node)
        time.sleep(dice.choice([0, 0, 1, 5]))
        self.cluster.start_slurmd(node)

    kill_host_and_jobs = None

    def power_off(self, dice, spared=()):
        """Everything on a node is gone at once, what it had in memory as well."""
        slurm, node = self.cluster, dice.choice([node for node in self.nodes if node not in spared])
        self.truth.count("power-off", node)
        slurm.kill_slurmd(node)
        if node in slurm.agents:
            slurm.kill_agent(node)
        self.end_everything(node, self.steps(node))
        self.forget(slurm.registry(node), [where / slurm.cgroup_root(node) for where in (CPU, ACCOUNTING)])
        # Longer than SlurmdTimeout, or not.
        time.sleep(dice.choice([1, 5, 35]))
        slurm.start_slurmd(node)
        slurm.start_agent(node)

    def steps(self, node):
        """Slurm's own daemons of the node's jobs, and what those have started."""
        found = set()
        for pid in machine.marked_processes(self.cluster.directory):
            with contextlib.suppress(OSError):
                if f"SLURMD_NODENAME={node}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.add(pid)
                    parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                    if pathlib.Path(f"/proc/{parent}/comm").read_text().startswith("slurmstepd"):
                        found.add(parent)
        return found

    def kill_agent(self, dice, spared=()):
        node = dice.choice([node for node in self.nodes if node not in spared])
        if node in self.cluster.agents:
            self.cluster.kill_agent(node)
        self.truth.count("kill-agent", node)
        time.sleep(dice.choice([0, 3]))
        self.cluster.start_agent(node)

    def all_up(self):
        """Every daemon runs, and Slurm has heard of all nodes."""
        slurm = self.cluster
        if slurm.daemon_pid("slurmctld") is None:
            self.start_controller()
        for node in self.nodes:
            if slurm.daemon_pid(node) is None:
                slurm.start_slurmd(node)
            if node not in slurm.agents:
                slurm.start_agent(node)
        slurm.wait("all nodes answer", lambda: not [1 for node in self.nodes if re.search(r"DOWN|NOT_RESP|\*", slurm.node(node)["State"])])

    def clear(self):
        """All jobs are cancelled and gone."""
        slurm = self.cluster
        slurm.wait("all jobs gone", self.cancel_all, 240)

    def cancel_all(self):
        names = [task.name for task in self.tasks()]
        if names:
            self.cluster.run("scancel", "--quiet", *[f"--user={user}" for user in self.cluster.users[:1]], timeout=120)
            for user in self.cluster.users:
                self.cluster.run("scancel", "--quiet", f"--user={user}", timeout=120)
            time.sleep(2)
        return not names


def commitment_line(comment):
    """Of an admin comment."""
    return comment.split(":", 1)[1] if comment and comment.startswith(("libra:", "libra-held:")) else None


def expand(nodes):
    """The names in a list of Slurm's: n60-[1-2,3] or n60-1,n60-2."""
    found = []
    for prefix, inside, plain in re.findall(r"([\w-]+)\[([\d,-]+)\]|([\w-]+)", nodes):
        found += [f"{prefix}{index}" for index in indices_of(inside)] if inside else [plain]
    return found


__all__ = ["OnSlurm", "os", "signal"]
