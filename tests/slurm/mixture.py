#!/usr/bin/env python3
"""A day in a few minutes: jobs of all kinds on a throw-away Slurm with Libra, task/affinity and ConstrainCores.

    sudo LIBRA=… LIBRA_SLURM_PLUGINS=… tests/slurm/mixture.py           1,000 jobs, 24 hours of 50 s
    tests/slurm/mixture.py --jobs 60 --minutes 3 --seed 7               a small one
    LIBRA_MIXTURE='--jobs 1000' tests/slurm/versions REPOSITORY 24.11   on another Slurm, built from its source

Four nodes of two processors, two GPUs (fake ones) and some memory; licences; a partition that jobs share and one whose jobs share nothing, both of all nodes. Each
job writes down itself when it begins and ends, where, and on which processors; the audit (`mixture_audit`) compares that with what was promised. The day is in
`mixture_plan`. The exit status is 0 where the audit finds nothing.
"""

import argparse
import dataclasses
import heapq
import itertools
import os
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import day  # noqa: E402
import machine  # noqa: E402
import mixture_audit  # noqa: E402
import mixture_plan  # noqa: E402
from client import ENDED  # noqa: E402
from libra_site import Site  # noqa: E402

NODES, PROCESSORS, USERS, GPUS, LICENCES = 4, 2, 4, 2, 4
# /dev/null is a GPU for whoever counts files; each node is to have its own.
FILES = "Name=gpu Type=fake File=/dev/null\nName=gpu Type=fake File=/dev/zero\n"
# `say` WORDS…: a line about this process, by the clock of the machine. One write each, as several tasks share the file.
SAY = """say() {{ echo "$(date +%s.%N) ${{SLURMD_NODENAME:-?}} $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status) $*" >>{file}; }}
"""
# dash exports no functions; a task has `say` as a program.
PROGRAM = """#!/bin/sh
. {directory}/say.sh
say "$@"
"""
PATIENCE = 900  # seconds for what is left at the end


class Mixed(Site):
    """Slurm as a site with MPI and GPUs has it."""

    def __init__(self):
        super().__init__(agents=True, nodes=NODES, cpus=PROCESSORS, users=USERS, cgroups="ConstrainCores=yes\n", jobcomp=True,
                         settings={"TaskPlugin": "task/affinity,task/cgroup", "SelectTypeParameters": "CR_CPU_Memory", "DefMemPerCPU": 10, "GresTypes": "gpu",
                                   "Licenses": f"solver:{LICENCES}", "MinJobAge": 100_000, "MaxJobCount": 20_000, "MaxArraySize": 100},
                         node_settings={"Gres": f"gpu:fake:{GPUS}"}, partitions={"plain": {"OverSubscribe": "NO"}})

    def before_start(self):
        super().before_start()
        machine.write_whole(self.directory / "etc/gres.conf", FILES)
        for user in self.users:
            home = self.home(user)
            home.joinpath("say.sh").write_text(SAY.format(file=f"{home}/$SLURM_JOB_NAME.${{SLURM_ARRAY_TASK_ID:-0}}.said"))
            say = home / "say"
            say.write_text(PROGRAM.format(directory=home))
            say.chmod(0o755)


class Mixture:
    """The run of a day."""

    def __init__(self, plan, say=print):
        self.plan, self.say = plan, say
        self.began, self.count, self.queue = 0.0, itertools.count(), []
        self.ids, self.refused, self.submitted = {}, {}, {}

    def later(self, at, what, *about):
        """To be done at this hour."""
        heapq.heappush(self.queue, (at, next(self.count), what, about))

    def run(self):
        """The day; the evidence of it, as mixture_audit takes it."""
        with Mixed() as self.slurm:
            self.began = time.monotonic()
            for job in self.plan.jobs:
                self.later(job.at, self.submit, job)
            while self.queue:
                at, _, what, about = heapq.heappop(self.queue)
                time.sleep(max(0.0, self.began + at * self.plan.hour - time.monotonic()))
                what(at, *about)
            self.say(f"all submitted after {time.monotonic() - self.began:.0f} s; load {os.getloadavg()[0]:.1f}")
            self.drain()
            self.say(f"all ended after {time.monotonic() - self.began:.0f} s")
            return self.evidence()

    def submit(self, at, job):
        slurm = self.slurm
        if job.after and job.after[1] not in self.ids:
            self.refused[job.name] = (None, f"not submitted: {job.after[1]} was refused")
            return
        user = slurm.users[job.user]
        home = slurm.home(user)
        words = ["-J", job.name, "-D", home, "-o", "/dev/null", "-e", f"{home}/{job.name}.err", *job.words]
        if job.held:
            words.append("--hold")
        if job.begins:
            words.append(f"--begin=now+{round(job.begins)}")
        if job.after:
            words.append(f"--dependency={job.after[0]}:{self.ids[job.after[1]]}")
        words += [f"--{'sla-' if key in ('deadline', 'class') else ''}{key}={value}" for key, value in job.terms.items()]
        *work, last = job.script.rstrip("\n").split("\nexit ")
        script = f"export PATH={home}:$PATH\nsay begins\n{last if not work else work[0]}\nstatus=$?\nsay ends\nexit {last if work else '$status'}\n"
        before = time.time()
        answer = slurm.sbatch(*words, user=user, script=script)
        self.submitted[job.name] = (before, time.time())
        if answer.rc != 0:
            self.refused[job.name] = (answer.rc, answer.err.strip())
            return
        self.ids[job.name] = answer.out
        if job.release:
            self.later(max(job.release, at), self.release, job)
        if job.delete:
            self.later(at + 0.2, self.delete, job, time.monotonic() + PATIENCE)

    def release(self, at, job):
        """What is confirmed just then is released a moment later."""
        if self.slurm.scontrol("release", self.ids[job.name]).rc != 0 and self.slurm.state(self.ids[job.name]) == "PENDING":
            self.later(at + 2 / self.plan.hour, self.release, job)

    def delete(self, at, job, until):
        """When it is so; or it never gets there."""
        wanted = "RUNNING" if job.delete == "running" else "PENDING"
        if time.monotonic() < until and self.slurm.state(self.ids[job.name]) != wanted:
            self.later(at + 2 / self.plan.hour, self.delete, job, until)
            return
        self.slurm.scancel(self.ids[job.name], user=self.slurm.users[job.user])

    def drain(self):
        """Until all jobs have ended. What waits for a job that has failed waits for ever, and is cancelled; a deferred promise that was given back leaves its job
        held: it runs without one."""
        slurm, left = self.slurm, {}

        def gone():
            left.clear()
            left.update({number: job for number, job in slurm.jobs().items() if job["job_state"] not in ENDED})
            for number, job in left.items():
                if job["state_reason"] == "DependencyNeverSatisfied":
                    slurm.scancel(number)
                elif job["state_reason"] in ("JobHeldAdmin", "JobHeldUser"):
                    slurm.scontrol("release", number)
            return not left
        try:
            slurm.wait("all jobs have ended", gone, PATIENCE)
        except TimeoutError as late:
            # What is known is judged all the same.
            self.say(f"{late}: " + "; ".join(f"{number} ({job['name']}) {job['job_state']} {job['state_reason']} {job['comment']}" for number, job in left.items()))

    def evidence(self):
        """What is known at the end."""
        slurm = self.slurm
        said = {}
        for job in self.plan.jobs:
            home = slurm.home(slurm.users[job.user])
            said[job.name] = {file.name.split(".")[1]: file.read_text() for file in home.glob(f"{job.name}.*.said")}
        try:
            slurm.wait("nothing is left", lambda: not any(self.left().values()), 120)
        except TimeoutError:
            pass
        nodes = {node: slurm.node(node)["State"] for node in slurm.nodes}
        jobs = {number: {key: job[key] for key in ("name", "job_state", "restart_cnt", "array_job_id", "array_task_id", "comment", "admin_comment")} for number, job in slurm.jobs().items()}
        return {"jobs": [dataclasses.asdict(job) for job in self.plan.jobs], "ids": self.ids, "refused": self.refused, "submitted": self.submitted, "said": said,
                "records": jobs, "log": slurm.said(), "left": self.left(), "nodes": nodes, "gpus": GPUS, "processors": PROCESSORS, "licences": LICENCES}

    def left(self):
        """What is to be empty when all jobs have ended: control groups, registries, the book."""
        return {"control groups": self.slurm.job_groups(), "registered": self.slurm.live(), "book": self.slurm.booked()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    day.options(parser, jobs=1000, part=0.05, full=0.02, stretch=2)
    options = parser.parse_args()
    plan = day.planned(mixture_plan.Day, options, USERS)
    evidence = Mixture(plan, lambda text: print(text, flush=True)).run()
    return day.judged(mixture_audit.Audit, evidence, options)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
