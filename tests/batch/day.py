"""A day's jobs for the mixtures of tests/openpbs and tests/slurm: when they are submitted, and what all kinds have in common. The same seed plans the same day.

Times of a plan are hours of its day; estimates and deadlines are seconds as they are submitted.
"""

import collections
import dataclasses
import datetime
import gzip
import json
import pathlib
import random
import re
import zoneinfo

# Arrivals by hour of the day, in thousandths: the submissions of HPC2N-2002-2.2-cln, the cleaned log of 202,871 jobs of the cluster "Seth" (High Performance
# Computing Center North, Sweden; Ake Sandgren) in the Parallel Workloads Archive, by the clock of Europe/Stockholm.
WEIGHTS = (39, 22, 16, 13, 11, 12, 12, 16, 31, 53, 59, 62, 68, 67, 66, 73, 67, 58, 54, 41, 44, 45, 43, 32)


def weights_of(file):
    """24 weights in thousandths, of the submissions in a log in the Standard Workload Format (.gz too), by the clock of its header's time zone."""
    begin, zone, counted = 0, datetime.timezone.utc, collections.Counter()
    with (gzip.open if str(file).endswith(".gz") else open)(file, "rt", errors="replace") as log:
        for number, line in enumerate(log, start=1):
            words = line.split()
            if found := re.match(r";\s*UnixStartTime:\s*(\d+)", line):
                begin = int(found[1])
            elif found := re.match(r";\s*TimeZoneString:\s*(\S+)", line):
                zone = zoneinfo.ZoneInfo(found[1])
            elif words and not line.startswith(";"):
                if len(words) < 2 or not re.fullmatch(r"\d+", words[1]):
                    raise ValueError(f"{file}, line {number}: its second field is to be a time of submission in seconds: {line.strip()[:60]!r}")
                counted[datetime.datetime.fromtimestamp(begin + int(words[1]), zone).hour] += 1
    if not counted:
        raise ValueError(f"{file} has no jobs")
    return tuple(round(1000 * counted[hour] / sum(counted.values())) for hour in range(24))


@dataclasses.dataclass
class Job:
    """One submission. `terms` are for Libra; `words` the batch system's own options."""

    name: str
    kind: str
    at: float  # hours
    user: int
    words: list
    script: str
    terms: dict = dataclasses.field(default_factory=dict)
    tasks: int = 1
    after: tuple = ()  # (afterok or afterany, the name of the other)
    begins: float = 0.0  # seconds after its submission, before which it may not start
    held: bool = False  # submitted with a hold of its user's
    release: float = 0.0  # the hour at which it is released; 0: never
    delete: str = ""  # waiting, running: deleted when it is seen so
    fails: bool = False


def works(seconds, status=0):
    """A script that uses so many seconds of processor time. Short ones do not start an interpreter for it, which would need as much."""
    return f"python3 -S -c 'import time\nwhile time.process_time() < {seconds:.2f}: pass'\nexit {status}\n"


class Plan:
    """The plan of a day. hour: its seconds. part: how much of its estimate a job uses; `full`: how many of them use
    all of it. stretch: what deadlines are multiplied by, for loaded machines. What the kinds of jobs are each batch system says: `mixture` has how many of a
    hundred are of each, and what it is stands in the method of its name."""

    mixture = {}

    def __init__(self, jobs, seed, weights=WEIGHTS, users=4, hour=50.0, part=0.125, full=0.1, stretch=1.0):
        self.dice, self.users, self.hour, self.part, self.full, self.stretch = random.Random(seed), users, hour, part, full, stretch
        self.jobs, self.others = [], 0
        kinds = list(self.mixture)
        # Each kind is there, in a small day as well.
        chosen = [*kinds, *self.dice.choices(kinds, [self.mixture[kind] for kind in kinds], k=max(0, jobs - len(kinds)))][:jobs]
        self.dice.shuffle(chosen)
        hours = sorted(self.dice.choices(range(24), weights, k=len(chosen)))
        for kind, begin in zip(chosen, hours):
            getattr(self, kind.replace("-", "_"))(kind, begin + self.dice.random())
        self.jobs.sort(key=lambda job: job.at)

    def add(self, kind, at, words=(), script=None, **more):
        """One more job."""
        job = Job(f"m{len(self.jobs) + 1}", kind, at, more.pop("user", self.dice.randrange(self.users)), list(words), script or works(self.dice.uniform(0.1, 2)), **more)
        self.jobs.append(job)
        return job

    def promised(self, kind, at, words=(), slack=(2, 8), cls=None, estimate=None, **more):
        """A job with terms. A deadline leaves the batch system half a minute to start and to end it."""
        dice = self.dice
        full = dice.random() < self.full and not more.get("script")
        estimate = estimate or (dice.randint(4, 8) if full else dice.randint(6, 40))
        terms = {"estimate": estimate, "deadline": round(max(estimate * dice.uniform(*slack), estimate + 30) * self.stretch), "budget": 1_000_000}
        if cls:
            terms["class"] = cls
        more.setdefault("script", works(estimate * (0.98 if full else self.part), 3 if more.get("fails") else 0))
        return self.add(kind, at, words, terms=terms, **more)

    def impossible_terms(self, job):
        """What can never be promised, in turns: a budget too small, an estimate beyond the deadline, a deadline that is none."""
        self.others += 1
        job.terms |= ({"budget": 1}, {"estimate": job.terms["deadline"] * 2}, {"deadline": "soon"})[self.others % 3]


def options(parser, jobs, part, full, stretch):
    """What all days may be told at the command line, with these defaults."""
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--log", help="a log in the Standard Workload Format, for the hours of arrivals")
    parser.add_argument("--part", type=float, default=part, help="of its estimate that a job uses. All nodes' processors are this machine's")
    parser.add_argument("--full", type=float, default=full, help="how many of the jobs use all of their estimate")
    parser.add_argument("--stretch", type=float, default=stretch, help="what deadlines are multiplied by, on a loaded machine")
    parser.add_argument("--keep", help="a file for what was seen, which `mixture_audit.py FILE` judges again")


def planned(kind, given, users):
    """The day of this kind that the command line asks for."""
    weights = weights_of(given.log) if given.log else WEIGHTS
    if given.log:
        print("weights of the hours:", *weights)
    return kind(given.jobs, given.seed, weights, users, given.minutes * 60 / 24, given.part, given.full, given.stretch)


def judged(audit, evidence, given):
    """Keeps what was seen where that is asked for, and prints what the audit says; True if it finds nothing."""
    if given.keep:
        pathlib.Path(given.keep).write_text(json.dumps(evidence, indent=1))
    found = audit(evidence)
    print(found.table())
    return not found.broken
