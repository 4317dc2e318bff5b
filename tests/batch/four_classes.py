"""A day of the four classes of service (AROMA 2004, section 3.1) in a quarter of an hour, for tests/slurm/classes.py and tests/openpbs/classes.py: what is submitted, and what came of it,
with Libra and under the batch system's own backfilling.

One node of two processors, which are those of this machine: jobs work, and what they have used is told by themselves. Nothing else should run on it. Times are seconds.
"""

import argparse
import collections
import dataclasses
import itertools
import json
import pathlib
import random
import re
import time

from day import WEIGHTS

PROCESSORS = 2
# {class: what its jobs need of all that the machine can do in the day}: more is asked for than there is, so that best effort always waits for something.
CLASSES = {"deadline": 0.3, "dedicated": 0.25, "immediate": 0.1, "best-effort": 0.6}
# {class: (estimates, how many times as long its deadline is, how many of its jobs have two tasks)}
SHAPES = {"deadline": ((10, 40), (3, 8), 0.2), "dedicated": ((8, 25), (3, 8), 0.4), "immediate": ((5, 15), None, 0.0), "best-effort": ((5, 30), None, 0.2)}
# Those that have whole processors.
WHOLE = ("dedicated", "immediate")
# An immediate job has none: it starts at once and has a whole processor. So many seconds are left to the batch system to start it.
LATENCY = 10
# A task: uses processor time, and says so twice in a second of the clock.
WORKER = """#!/usr/bin/env -S python3 -S
import os, sys, time
seconds, file = float(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
def say(word):
    os.write(file, f"{time.time():.3f} {os.uname().nodename}-{os.getpid()} {word} {time.process_time():.3f}\\n".encode())
say("begins")
again = time.time() + 0.5
while time.process_time() < seconds:
    if time.time() > again:
        say("used")
        again = time.time() + 0.5
say("ends")
"""


@dataclasses.dataclass
class Job:
    """One submission. at: seconds from the day's begin; work: of a processor, of each task; deadline: from the submission, None for best effort."""

    name: str
    cls: str
    at: float
    user: int
    tasks: int
    estimate: int
    deadline: float | None
    work: float

    @property
    def terms(self):
        """What Libra is told; {} for best effort, which has none in a batch system."""
        if self.cls == "best-effort":
            return {}
        named = {} if self.cls == "immediate" else {"deadline": int(self.deadline)}
        return {"estimate": self.estimate, "budget": 1_000_000, "class": self.cls, **named}


def planned(seconds, seed, users):
    """The day's jobs in the order of their submission. The same seed plans the same day."""
    dice, jobs, numbers = random.Random(seed), [], itertools.count(1)
    for cls, part in CLASSES.items():
        (least, most), slack, two = SHAPES[cls]
        wanted = part * seconds * PROCESSORS
        while wanted > 0:
            estimate, tasks = dice.randint(least, most), 2 if dice.random() < two else 1
            deadline = {"immediate": estimate + LATENCY, "best-effort": None}.get(cls) or (round(estimate * dice.uniform(*slack)) if slack else None)
            [hour] = dice.choices(range(24), WEIGHTS)
            # Estimates say too much, as users do.
            work = round(estimate * dice.uniform(0.5, 0.9), 2)
            jobs.append(Job(f"d{next(numbers)}", cls, (hour + dice.random()) * seconds / 24, dice.randrange(users), tasks, estimate, deadline, work))
            wanted -= tasks * work
    return sorted(jobs, key=lambda job: job.at)


# Who has written nothing for so many seconds, and has used no more than it does between two lines, stood still: on whole processors it writes twice a second.
STILL, BETWEEN = 3.0, 0.6


class Said:
    """What the tasks of a job have written down. until: the end of the day, Unix time. still: seconds for which it stood still."""

    def __init__(self, text, tasks, until):
        self.begin = self.end = None
        self.used = 0.0
        last, ended, wrote, still = collections.Counter(), [], {}, collections.Counter()
        for line in text.splitlines():
            at, task, word, used = line.split()
            self.begin = min(self.begin or float(at), float(at))
            since, before = wrote.get(task, (float(at), 0.0))
            if float(at) - since > STILL and float(used) - before < BETWEEN:
                still[task] += float(at) - since
            wrote[task] = float(at), float(used)
            if float(at) <= until:
                last[task] = float(used)
            if word == "ends":
                ended.append(float(at))
        self.used, self.still = sum(last.values()), max(still.values(), default=0.0)
        if len(ended) == tasks:
            self.end = max(ended)


class Outcome:
    """Of a day: by class, what became of it. evidence: jobs, submitted {name: Unix time}, refused {name: why}, said {name: text}, began, seconds, suspend."""

    COLUMNS = ("submitted", "promised", "kept", "refused", "in time", "stood still", "never began", "done that day")

    def __init__(self, evidence):
        self.rows, self.waits, self.used = collections.defaultdict(collections.Counter), collections.defaultdict(list), collections.Counter()
        self.suspends = evidence.get("suspend") == "memory"
        self.broken, self.reasons, self.seconds = [], collections.Counter(), evidence["seconds"]
        until = evidence["began"] + evidence["seconds"]
        for given in evidence["jobs"]:
            job = Job(**given)
            row = self.rows[job.cls]
            row["submitted"] += 1
            if job.name in evidence["refused"]:
                row["refused"] += 1
                found = re.search(r"refused \(([\w-]+)\)", evidence["refused"][job.name])
                if not found or not job.terms:
                    self.broken.append(f"{job.name} ({job.cls}) was refused: {evidence['refused'][job.name]}")
                self.reasons[found[1] if found else "?"] += 1
                continue
            said, asked = Said(evidence["said"].get(job.name, ""), job.tasks, until), evidence["submitted"][job.name]
            self.used[job.cls] += said.used
            # Who has not begun has waited to the end of the day.
            self.waits[job.cls].append((said.begin or until) - asked)
            row["never began"] += said.begin is None
            row["stood still"] += job.cls in WHOLE and said.still > 0.0
            row["done that day"] += bool(said.end and said.end <= until)
            if job.deadline is None:
                continue
            in_time = bool(said.end and said.end <= asked + job.deadline)
            row["in time"] += in_time
            if evidence["libra"]:
                row["promised"] += 1
                wrong = self.wrong(job, said, asked)
                row["kept"] += not wrong
                if wrong:
                    self.broken.append(f"{job.name} ({job.cls}, estimate {job.estimate}, deadline {job.deadline}, {job.tasks} tasks): {wrong}")
        if evidence["libra"]:
            # To refuse everybody keeps all promises.
            self.broken += [f"nothing was promised to the class {cls}" for cls in CLASSES if cls != "best-effort" and self.rows[cls]["submitted"] and not self.rows[cls]["promised"]]
            self.broken += [f"refused for {reason}, on a node that is in service" for reason in self.reasons if reason == "no-node"]

    def wrong(self, job, said, asked):
        """What was not as promised; "" if all was."""
        if not said.end:
            return "not ended"
        if said.end > asked + job.deadline:
            return f"{said.end - asked - job.deadline:.1f} s late"
        # Whole processors from its begin on, but while it may stand still: what it does takes less than its estimate there.
        may_stand_still = self.suspends and job.cls == "dedicated"
        ran = said.end - said.begin - (said.still if may_stand_still else 0.0)
        if job.cls in WHOLE and ran > job.estimate:
            return f"ran for {ran:.1f} s on whole processors, and needs {job.work} of each"
        return ""

    def table(self):
        rows = [(cls, self.rows[cls]) for cls in CLASSES]
        rows.append(("all", sum((row for _, row in rows), collections.Counter())))
        self.used["all"], self.waits["all"] = sum(self.used.values()), [wait for cls in CLASSES for wait in self.waits[cls]]
        lines = ["| " + " | ".join(("class", *self.COLUMNS, "mean wait, s", "share of the machine, %")) + " |", "| --- " * (3 + len(self.COLUMNS)) + "|"]
        for name, row in rows:
            wait = sum(self.waits[name]) / len(self.waits[name]) if self.waits[name] else 0.0
            lines.append("| " + " | ".join((name, *(str(row[column]) for column in self.COLUMNS), f"{wait:.1f}", f"{100 * self.used[name] / (PROCESSORS * self.seconds):.1f}")) + " |")
        if self.reasons:
            lines.append("refused: " + ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common()))
        return "\n".join([*lines, f"{len(self.broken)} promises broken", *self.broken])


class Day:
    """A run. `system` submits (`submit(job)`: None, or why it was refused), says what is left (`waiting()`: names of jobs that have not ended), cancels one (`cancel(name)`) and knows
    what a job has said (`said(job)`)."""

    def __init__(self, jobs, seconds, libra, say=print):
        self.jobs, self.seconds, self.libra, self.say = jobs, seconds, libra, say
        self.submitted, self.refused = {}, {}

    def run(self, system, patience=900):
        began, since = time.time(), time.monotonic()
        for number, job in enumerate(self.jobs, start=1):
            time.sleep(max(0.0, since + job.at - time.monotonic()))
            self.submitted[job.name] = time.time()
            why = system.submit(job)
            if why is not None:
                self.refused[job.name] = why
            if number % 25 == 0:
                self.say(f"{number} of {len(self.jobs)} submitted after {time.monotonic() - since:.0f} s, {len(self.refused)} refused")
        time.sleep(max(0.0, since + self.seconds - time.monotonic()))
        best_effort = {job.name for job in self.jobs if job.cls == "best-effort"}
        until = time.monotonic() + patience
        while (left := system.waiting()) - best_effort and time.monotonic() < until:
            time.sleep(1)
        for name in left:
            system.cancel(name)
        return {"jobs": [dataclasses.asdict(job) for job in self.jobs], "submitted": self.submitted, "refused": self.refused, "libra": self.libra, "began": began, "seconds": self.seconds,
                "said": {job.name: system.said(job) for job in self.jobs}}


def main(about, systems):
    """systems: {libra: what makes a context that gives a system, of who may stand still for others}. Both days one after the other, and what came of them; True if no promise was broken."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--only", choices=("libra", "backfilling"), help="one of the two days")
    parser.add_argument("--suspend", choices=("never", "memory"), default="never", help="class.suspend of Libra's configuration: whether dedicated jobs stand still for others")
    parser.add_argument("--keep", help="a file for what was seen")
    given = parser.parse_args()
    kept, sound = {}, True
    for name, begin in systems.items():
        if given.only not in (None, name):
            continue
        jobs = planned(given.minutes * 60, given.seed, users=2)
        with begin(given.suspend) as system:
            kept[name] = {"suspend": given.suspend} | Day(jobs, given.minutes * 60, name == "libra", lambda text: print(text, flush=True)).run(system)
        outcome = Outcome(kept[name])
        print(f"\n{name}:\n{outcome.table()}\n", flush=True)
        sound = sound and not outcome.broken
    if given.keep:
        pathlib.Path(given.keep).write_text(json.dumps(kept, indent=1))
    return sound
