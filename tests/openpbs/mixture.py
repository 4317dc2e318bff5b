#!/usr/bin/env python3
"""A day in a few minutes: jobs of all kinds on a throw-away OpenPBS with Libra, and the same jobs on one without it.

    sudo LIBRA=… LIBRA_LIBRARY=… tests/openpbs/mixture.py                  300 jobs, 24 hours of 50 s
    tests/openpbs/mixture.py --jobs 40 --minutes 3 --seed 7                a small one
    tests/openpbs/mixture.py --log FILE.swf.gz                             arrivals by the hours of another log

Both servers have three hosts of two processors, the same limits, queues and reservation. What Libra has taken is submitted to the other server a moment later,
without its terms; both are told the same (qrls, qdel). The audit is in `mixture_audit`, the day in `mixture_plan`. The exit status is 0 where it finds nothing.
"""

import argparse
import contextlib
import dataclasses
import heapq
import itertools
import json
import os
import pathlib
import re
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "batch")]

import day  # noqa: E402
import mixture_audit  # noqa: E402
import mixture_plan  # noqa: E402
from cluster import Cluster  # noqa: E402
from libra_site import Site  # noqa: E402

HOSTS, PROCESSORS, USERS = 3, 2, 4
LIMITS = ("create queue small queue_type=execution,enabled=true,started=true", "create queue tied queue_type=execution,enabled=true,started=true",
          "set queue small resources_max.ncpus = 2", "set queue small max_run_res.ncpus = [u:PBS_GENERIC=3]", "set server max_run = [u:PBS_GENERIC=12]",
          "set server job_history_duration = 24:00:00")
PATIENCE = 900  # seconds for what is left at the end


class Side:
    """One of the two servers, and what it has said to each submission."""

    def __init__(self, pbs, with_libra):
        self.pbs, self.with_libra = pbs, with_libra
        self.ids, self.refused, self.submitted, self.reservation = {}, {}, {}, None

    def prepare(self, hour):
        pbs = self.pbs
        pbs.qmgr(*LIMITS, f"set node {pbs.host_names[2]} queue = tied")
        # Of one processor: for the others there is enough to be had beside it, however long they take by PBS's reckoning.
        begin = time.time() + max(8, mixture_plan.RESERVED_FROM * hour)
        at = lambda seconds: time.strftime("%Y%m%d%H%M.%S", time.localtime(seconds))  # noqa: E731
        self.reservation = pbs.must("pbs_rsub", "-R", at(begin), "-E", at(begin + max(300, mixture_plan.RESERVED_HOURS * hour)), "-l", f"select=1:ncpus=1:host={pbs.host_names[1]}",
                                    user=pbs.users[0]).split()[0]

    def reserved(self):
        """The state of the reservation; empty when it is over."""
        return "".join(re.findall(r"reserve_state = RESV_(\w+)", self.pbs.run("pbs_rstat", "-f", self.reservation).out))

    def submit(self, job):
        words = ["-N", job.name, "-o", "/dev/null", "-e", "/dev/null", *(self.reservation.split(".")[0] if word == "RESERVED" else word for word in job.words)]
        if job.held:
            words.append("-h")
        if job.begins:
            words += ["-a", time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() + job.begins))]
        if job.after:
            words += ["-W", f"depend={job.after[0]}:{self.ids[job.after[1]]}"]
        if job.terms and self.with_libra:
            words += ["-l", ",".join(f"{key}={value}" for key, value in job.terms.items())]
        self.submitted[job.name] = time.time()
        answer = self.pbs.qsub(*words, user=self.pbs.users[job.user], script=job.script)
        if answer.rc == 0:
            self.ids[job.name] = answer.out
        else:
            self.refused[job.name] = (answer.rc, answer.err.strip())
        return answer.rc == 0

    def evidence(self):
        """What is known of it at the end."""
        pbs = self.pbs
        known = {"ids": self.ids, "refused": self.refused, "submitted": self.submitted, "records": pbs.jobs(subjobs=True), "accounting": pbs.log("accounting"), "left": {}}
        if self.with_libra:
            with contextlib.suppress(TimeoutError):
                pbs.wait("nothing is left", lambda: not any(self.left().values()), 60)
            known["left"] = self.left()
            known["done"] = dict(pair for host in pbs.host_names for pair in mixture_audit.done(pbs.log(host)))
            known["faults"] = [line for line in pbs.log().splitlines() if "libra: fault" in line]
        return known

    def left(self):
        """What is to be empty when all jobs have ended: control groups, shares in PBS, what hosts have registered, and what the book has."""
        pbs = self.pbs
        registered = {}
        for host in pbs.host_names:
            registered |= {host: json.loads(pbs.must(pbs.libra, "--config", pbs.own / f"{host}.toml", "status", "--json"))["committed"]}
        book = json.loads(pbs.must(pbs.libra, "pbs", "status", "--json"))
        return {"control groups": pbs.cgroups() + pbs.groups_without_terms(), "shares in PBS": {host: taken for host, taken in pbs.committed().items() if taken},
                "registered": {host: taken for host, taken in registered.items() if taken}, "book": book["jobs"]}

    def state(self, name):
        return self.pbs.qstat(self.ids[name]).get("job_state", "F")


class Mixture:
    """The run of a day."""

    def __init__(self, plan, say=print, config=""):
        self.plan, self.say, self.config = plan, say, config
        self.sides, self.began, self.count = [], 0.0, itertools.count()
        self.queue = []

    def later(self, at, what, *about):
        """To be done at this hour."""
        heapq.heappush(self.queue, (at, next(self.count), what, about))

    def run(self):
        """The day; the evidence of it, as mixture_audit takes it."""
        with Site(hosts=HOSTS, processors=PROCESSORS, users=USERS, agents=True, server_config=self.config) as site, Cluster(hosts=HOSTS, processors=PROCESSORS, users=USERS) as alone:
            self.sides = [Side(site, True), Side(alone, False)]
            for side in self.sides:
                side.prepare(self.plan.hour)
            self.began = time.monotonic()
            for job in self.plan.jobs:
                self.later(job.at, self.submit, job)
            while self.queue:
                at, _, what, about = heapq.heappop(self.queue)
                time.sleep(max(0.0, self.began + at * self.plan.hour - time.monotonic()))
                what(at, *about)
            self.drain()
            return {"jobs": [dataclasses.asdict(job) for job in self.plan.jobs], "libra": self.sides[0].evidence(), "alone": self.sides[1].evidence()}

    def submit(self, at, job):
        libra, alone = self.sides
        if job.kind == "reserved" and {"RUNNING"} != (states := {side.reserved() for side in self.sides}):
            if "" in states:
                libra.refused[job.name] = (None, "not submitted: the reservation is over")
            else:
                self.later(at + 1 / self.plan.hour, self.submit, job)
            return
        if job.after and job.after[1] not in libra.ids:
            libra.refused[job.name] = (None, f"not submitted: {job.after[1]} was refused")
            return
        taken = libra.submit(job)
        # What Libra refuses for its terms the other server is not asked; what names none it is.
        if taken or not job.terms:
            alone.submit(job)
        if not taken or job.name not in alone.ids:
            return
        if job.release:
            self.later(max(job.release, at), self.release, job)
        if job.delete:
            self.later(at + 0.2, self.delete, job, time.monotonic() + PATIENCE)

    def release(self, _at, job):
        for side in self.sides:
            side.pbs.run("qrls", side.ids[job.name])

    def delete(self, at, job, until):
        """When it is so on both servers; or it never gets there."""
        wanted = "R" if job.delete == "running" else "H"
        if time.monotonic() < until and not all(side.state(job.name) in wanted for side in self.sides):
            self.later(at + 2 / self.plan.hour, self.delete, job, until)
            return
        for side in self.sides:
            side.pbs.qdel(side.ids[job.name], user=side.pbs.users[job.user])

    def drain(self):
        """Until all jobs have ended. A deferred promise that was given back leaves its job held: it runs without one."""
        self.say(f"all submitted after {time.monotonic() - self.began:.0f} s; load {os.getloadavg()[0]:.1f}")

        left = {}

        def gone(side):
            left.clear()
            left.update({job: has for job, has in side.pbs.jobs().items() if has.get("job_state") not in ("F", "X")})
            for job, has in left.items():
                if "s" in has.get("Hold_Types", "n"):
                    side.pbs.run("qrls", "-h", "s", job)
            return not left
        for side in self.sides:
            if not side.with_libra:
                # What could not share processors has queued; when it runs is not compared.
                side.pbs.qmgr(*(f"set node {host} resources_available.ncpus = {6 * PROCESSORS}" for host in side.pbs.host_names))
            side.pbs.cycle()
            try:
                side.pbs.wait("all jobs have ended", lambda side=side: gone(side), PATIENCE)
            except TimeoutError as late:
                raise TimeoutError(f"{late}: " + "; ".join(f"{job} ({has.get('Job_Name')}) {has.get('job_state')} {has.get('comment')}" for job, has in left.items())) from None
        self.say(f"all ended after {time.monotonic() - self.began:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    day.options(parser, jobs=300, part=0.125, full=0.1, stretch=1)
    parser.add_argument("--policy", default="libra", help="`conditional` jobs are taken under libra-adaptive and libra-risk")
    options = parser.parse_args()
    plan = day.planned(mixture_plan.Day, options, USERS)
    config = f'[admission]\npolicy = "{options.policy}"\nestimate-above-deadline = "conditional"\n' if options.policy != "libra" else ""
    evidence = Mixture(plan, lambda text: print(text, flush=True), config).run()
    return day.judged(mixture_audit.Audit, evidence, options)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
