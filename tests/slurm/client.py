"""Slurm's commands, as methods: what a test says to a cluster and asks of it.

`Commands` expects of its user: `conf` (slurm.conf), `directory`, `users`, `nodes`. Every command runs with a time limit, since clients ask a
controller that does not answer for minutes, and returns `Result(rc, out, err)`.
"""

import json
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "batch"))

import commands  # noqa: E402
import machine  # noqa: E402
from commands import CommandFailed  # noqa: E402

# What clients read from their environment, beside SLURM_*.
VARIABLES = ("SLURM", "SBATCH", "SALLOC", "SRUN", "SPANK", "_SLURM", "SQUEUE", "SINFO", "SCANCEL", "SCONTROL", "LIBRA_")
# What may be run once more where slurmctld hung up on it. Not srun and salloc, which may have a job by then.
RUN_AGAIN = ("sbatch", "scontrol", "scancel", "squeue", "sinfo", "submit")
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "PREEMPTED")


def fields(line):
    """A line of `scontrol show … -o` as {key: value}. Values may hold blanks; a word with `=` in one would be taken for a key."""
    return {key: value.strip() for key, value in re.findall(r"(?:^|(?<= ))([A-Za-z][\w:/\-]*)=(.*?)(?= [A-Za-z][\w:/\-]*=|$)", line.strip())}


def plain(value):
    """A value of `--json`: from 23.02 on numbers that may be missing are {"set": …, "infinite": …, "number": …}."""
    if isinstance(value, dict) and {"set", "number"} <= value.keys():
        return value["number"] if value["set"] else None
    return value


def base_state(state):
    """A job's state of `--json`: later versions have a list, in which what it is besides (completing, …) comes behind it."""
    return state[0] if isinstance(state, list) else state


def as_json(line):
    """A job of `scontrol show job -o` under the names that `squeue --json` has for what is asked here; {} for a line without one."""
    job = fields(line)
    if "JobId" not in job:
        return {}

    def seconds(key):
        return 0 if job[key] in ("Unknown", "None", "N/A") else int(time.mktime(time.strptime(job[key], "%Y-%m-%dT%H:%M:%S")))

    task = job.get("ArrayTaskId", "")
    return {"job_id": job["JobId"], "job_state": job["JobState"], "name": job["JobName"], "user_name": job["UserId"].split("(")[0], "state_reason": job["Reason"],
            "comment": job.get("Comment", ""), "admin_comment": job.get("AdminComment", ""), "nodes": job.get("NodeList", "").replace("(null)", ""),
            "array_job_id": int(job.get("ArrayJobId", 0)), "array_task_id": int(task) if task.isdigit() else None, "restart_cnt": int(job["Restarts"]),
            "priority": int(job["Priority"]), "start_time": seconds("StartTime"), "end_time": seconds("EndTime")}


def launch_failed(job):
    """Does Slurm hold a requeued job, as slurmctld was too slow to confirm to slurmd that it is to start it?"""
    return re.fullmatch(r"launch.failed.requeued.held", job.get("Reason", ""))


class Commands(commands.Programs):
    """The commands of one cluster."""

    def environment(self):
        """To speak to this cluster; what is started so carries its mark, jobs too."""
        return commands.environment_without(*VARIABLES) | {"SLURM_CONF": str(self.conf), machine.MARK: str(self.directory)}

    def run(self, *argv, **options):
        """On a machine with many times more work than processors slurmctld may hang up on a command before it has read what is asked. Slurm's commands do not
        outlive that (SIGPIPE), and nothing was done: it is run again, for as long as it takes slurmctld to listen. So is a question that has no answer in time."""
        begun = time.monotonic()
        asks = argv[0] in ("squeue", "sinfo") or argv[:2] == ("scontrol", "show")
        while True:
            result = super().run(*argv, **options)
            not_read = result.rc == -signal.SIGPIPE and pathlib.Path(argv[0]).name in RUN_AGAIN
            late = result.rc != 0 and asks and "timed out" in result.err
            if not (not_read or late) or time.monotonic() > begun + 180:
                return result
            time.sleep(0.5)

    # ---- submitting

    def sbatch(self, *args, user=None, script="#!/bin/sh\nsleep 1000\n", environment=None, timeout=180.0):
        """Submit `script` (its text) as an ordinary user; `out` holds only the job's id."""
        if not script.startswith("#!"):
            script = "#!/bin/sh\n" + script
        result = self.run("sbatch", "--parsable", *args, user=user or self.users[0], stdin=script, environment=environment, timeout=timeout)
        return result._replace(out=result.out.strip())

    def judged(self, *args, **options):
        """`sbatch`, once nodes take jobs: where a machine is busy slurmctld takes a node that is slow to answer for lost for a while."""
        def asked():
            result = self.sbatch(*args, **options)
            return None if "no node takes new jobs now" in result.err else result

        return self.wait("nodes that answer", asked)

    def submit(self, *args, **options):
        """`judged`, and it must be accepted: the job's id."""
        result = self.judged(*args, **options)
        if result.rc != 0:
            raise CommandFailed(f"sbatch {' '.join(map(str, args))}: exit {result.rc}: {result.err.strip()}")
        return result.out

    def srun(self, *args, user=None, **options):
        """`srun` as an ordinary user, to its end."""
        return self.run("srun", *args, user=user or self.users[0], **options)

    def salloc(self, *args, user=None, **options):
        """`salloc` as an ordinary user; give the command that it is to run."""
        return self.run("salloc", *args, user=user or self.users[0], **options)

    def scancel(self, *args, user=None, **options):
        return self.run("scancel", *args, user=user, **options)

    def scontrol(self, *args, user=None, **options):
        return self.run("scontrol", *args, user=user, **options)

    def squeue(self, *args, user=None, **options):
        return self.run("squeue", *args, user=user, **options)

    def sinfo(self, *args, user=None, **options):
        return self.run("sinfo", *args, user=user, **options)

    # ---- asking

    def job(self, job, **options):
        """A job's fields as `scontrol show job` prints them to root or to a user, {} if the controller does not know it."""
        result = self.run("scontrol", "show", "job", "-d", "-o", job, **options)
        if "Invalid job id" in result.err:
            return {}
        if result.rc != 0:
            raise CommandFailed(f"scontrol show job {job}: exit {result.rc}: {result.err.strip()}")
        return fields(result.out.splitlines()[0]) if result.out else {}

    def jobs(self):
        """All jobs as `squeue --json` prints them: {job_id: fields}. Ended ones are there for MinJobAge."""
        said = json.loads(self.must("squeue", "--json", "--states=all"))
        # 23.02 without an accounting database breaks off in the middle of each job, and says so.
        if said.get("errors"):
            return {job["job_id"]: job for job in map(as_json, self.must("scontrol", "show", "job", "-d", "-o").splitlines()) if job}
        found = said["jobs"]
        return {str(job["job_id"]): {key: plain(value) for key, value in job.items()} | {"job_state": base_state(job["job_state"])} for job in found}

    def state(self, job):
        """A job's state, "" if the controller does not know it."""
        return self.job(job).get("JobState", "")

    def node(self, name):
        """A node's fields as `scontrol show node` prints them."""
        return fields(self.must("scontrol", "show", "node", "-o", name).splitlines()[0])

    # ---- waiting

    def start_now(self, job, **options):
        """Start a requeued job that waits: Slurm would let it wait for two minutes, or holds it. In the second in which it was ended slurmd would take it for what has
        just been killed ("Job credential revoked"), and the job would fail: a second is waited for, after it was seen to wait."""
        held = launch_failed(self.job(job, **options))
        time.sleep(1.1)
        self.scontrol(*(["release", job] if held else ["update", f"jobid={job}", "starttime=now"]), **options)

    def wait_state(self, job, *states, patience=180.0):
        """Wait until the job is in one of these states; its fields."""
        def reached():
            found = self.job(job)
            if launch_failed(found):
                self.scontrol("release", job)
            return found if found.get("JobState") in states else None
        try:
            return self.wait(f"job {job} {' or '.join(states)}", reached, patience)
        except TimeoutError as late:
            found = self.job(job)
            nodes = {name: self.node(name).get("State") for name in self.nodes}
            raise TimeoutError(f"{late}: it is {found.get('JobState')}, reason {found.get('Reason')}, nodes {nodes}") from None

    def wait_running(self, job, patience=180.0):
        return self.wait_state(job, "RUNNING", patience=patience)

    def wait_ended(self, job, patience=180.0):
        return self.wait_state(job, *ENDED, patience=patience)
