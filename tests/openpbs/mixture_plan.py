"""A day's jobs for mixture.py: when they are submitted, by whom, and what is written for each. The same seed plans the same day.

Times of a plan are hours of its day; estimates and deadlines are seconds as they are submitted.
"""

import collections
import dataclasses
import datetime
import gzip
import random
import re
import zoneinfo

# Arrivals by hour of the day, in thousandths: the submissions of HPC2N-2002-2.2-cln, the cleaned log of 202,871 jobs of the cluster "Seth" (High Performance
# Computing Center North, Sweden; Ake Sandgren) in the Parallel Workloads Archive, by the clock of Europe/Stockholm.
WEIGHTS = (39, 22, 16, 13, 11, 12, 12, 16, 31, 53, 59, 62, 68, 67, 66, 73, 67, 58, 54, 41, 44, 45, 43, 32)

# {kind: how many of a hundred}: what each is, stands in `Day` below its name.
MIXTURE = {"share": 27, "whole": 6, "conditional": 2, "array": 4, "chain": 7, "later": 4, "held": 4, "reserved": 4, "tied": 4, "impossible": 3, "deleted": 3, "failing": 4,
           "plain": 20, "plain-array": 2, "plain-chain": 3, "plain-later": 1, "plain-excluded": 1, "plain-deleted": 1}

# What PBS alone is asked for.
PLAIN = ("-l nodes=1:ppn=1", "-l nodes=1:ppn=2", "-l nodes=2:ppn=1", "-l select=1:ncpus=1:mem=64mb", "-l select=2:ncpus=1 -l place=scatter", "-l ncpus=2", "-l ncpus=1,mem=32mb",
         "-l select=1:ncpus=1 -l place=excl", "-l select=1:ncpus=2 -l place=pack", "-l select=1:ncpus=1:mpiprocs=1 -l place=free", "", "-q small -l select=1:ncpus=1", "-l walltime=00:30:00")
RESERVED_FROM, RESERVED_HOURS = 10, 3


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
    """One submission. `terms` are for Libra alone; `words` for both servers."""

    name: str
    kind: str
    at: float  # hours
    user: int
    words: list
    script: str
    terms: dict = dataclasses.field(default_factory=dict)
    tasks: int = 1
    after: tuple = ()  # (afterok or afterany, the name of the other)
    begins: float = 0.0  # seconds after its submission (-a)
    held: bool = False  # submitted with -h
    release: float = 0.0  # the hour at which it is released; 0: never
    delete: str = ""  # waiting, running: deleted when it is seen so
    fails: bool = False


def works(seconds, status=0):
    """A script that uses so many seconds of processor time. Short ones do not start an interpreter for it, which would need as much."""
    return f"python3 -S -c 'import time\nwhile time.process_time() < {seconds:.2f}: pass'\nexit {status}\n"


class Day:
    """The plan. hour: its seconds. part: how much of its estimate a job uses; `full`: how many of them use
    all of it. stretch: what deadlines are multiplied by, for loaded machines."""

    def __init__(self, jobs, seed, weights=WEIGHTS, users=4, hour=50.0, part=0.125, full=0.1, stretch=1.0):
        self.dice, self.users, self.hour, self.part, self.full, self.stretch = random.Random(seed), users, hour, part, full, stretch
        self.jobs, self.others = [], 0
        kinds = list(MIXTURE)
        # Each kind is there, in a small day as well.
        chosen = [*kinds, *self.dice.choices(kinds, [MIXTURE[kind] for kind in kinds], k=max(0, jobs - len(kinds)))][:jobs]
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
        """A job with terms. A deadline leaves PBS half a minute to start and to end it."""
        dice = self.dice
        full = dice.random() < self.full and not more.get("script")
        estimate = estimate or (dice.randint(4, 8) if full else dice.randint(6, 40))
        terms = {"estimate": estimate, "deadline": round(max(estimate * dice.uniform(*slack), estimate + 30) * self.stretch), "budget": 1_000_000}
        if cls:
            terms["class"] = cls
        more.setdefault("script", works(estimate * (0.98 if full else self.part), 3 if more.get("fails") else 0))
        return self.add(kind, at, words, terms=terms, **more)

    def shape(self):
        """One to three processors, on one host or several."""
        return self.dice.choice((["-l", "select=1:ncpus=1"],) * 3 + (["-l", "select=1:ncpus=2"], ["-l", "select=2:ncpus=1"], ["-l", "select=2:ncpus=1", "-l", "place=scatter"],
                                ["-l", "select=3:ncpus=1"], ["-l", "select=1:ncpus=1:mem=64mb"], ["-q", "small", "-l", "select=1:ncpus=1"]))

    # ---- with terms

    def share(self, kind, at):
        """By share, with more or less time."""
        self.promised(kind, at, self.shape())

    def whole(self, kind, at):
        """The class dedicated: some begin later (planned starts)."""
        self.promised(kind, at, ["-l", f"select=1:ncpus={self.dice.randint(1, 2)}"], slack=(3, 8), cls="dedicated", estimate=self.dice.randint(5, 15))

    def conditional(self, kind, at):
        """A deadline shorter than the estimate."""
        self.promised(kind, at, ["-l", "select=1:ncpus=1"]).terms["estimate"] *= 20

    def array(self, kind, at):
        """Some subjobs."""
        tasks = self.dice.randint(2, 3)
        self.promised(kind, at, ["-J", f"1-{tasks}", "-l", "select=1:ncpus=1"], tasks=tasks, slack=(5, 9))

    def chain(self, kind, at):
        """A job that is held until the one that waits for it is there; then released."""
        # Where the second is to run afterok of one that fails, PBS deletes it.
        fails = self.dice.random() < 0.2
        make = self.promised if self.dice.random() < 0.6 else self.add
        if make == self.promised:
            first = self.promised(kind, at, self.shape(), slack=(12, 20), held=True, release=at + 0.3, fails=fails)
        else:
            first = self.add("plain-chain", at, ["-l", "select=1:ncpus=1"], works(0.5, 3 if fails else 0), held=True, release=at + 0.3, fails=fails)
        second = self.promised(kind, at + 0.01, ["-l", "select=1:ncpus=1"], slack=(14, 20), after=(self.dice.choice(("afterok", "afterany")), first.name))
        second.terms["deadline"] = f"{second.terms['deadline']}/start" if self.dice.random() < 0.5 else second.terms["deadline"] + 120

    def later(self, kind, at):
        """A start time (-a)."""
        self.promised(kind, at, ["-l", "select=1:ncpus=1"], slack=(12, 20), begins=self.dice.uniform(15, 40))

    def held(self, kind, at):
        """Held, and released later."""
        self.promised(kind, at, self.shape(), slack=(12, 20), held=True, release=at + self.dice.uniform(0.2, 0.7))

    def reserved(self, kind, at):
        """In the reservation, or, of somebody else, plain."""
        at = RESERVED_FROM + 0.3 + self.dice.random()
        words = ["-q", "RESERVED", "-l", "select=1:ncpus=1"]
        if self.dice.random() < 0.6:
            self.promised(kind, at, words, slack=(2, 3), user=0, estimate=5)
        else:
            self.add(kind, at, words, works(0.5), user=0)

    def tied(self, kind, at):
        """In a queue that has a node of its own."""
        if self.dice.random() < 0.6:
            self.promised(kind, at, ["-q", "tied", "-l", "select=1:ncpus=1"], slack=(4, 8))
        else:
            self.add(kind, at, ["-q", "tied", "-l", "ncpus=1"])

    def impossible(self, kind, at):
        """What can never be promised."""
        job = self.promised(kind, at, ["-l", "select=1:ncpus=1"])
        self.others += 1
        job.terms |= ({"budget": 1}, {"estimate": job.terms["deadline"] * 2}, {"deadline": "soon"})[self.others % 3]
        if self.others % 4 == 3:
            job.words, job.terms["budget"] = ["-l", "select=1:ncpus=16"], 1_000_000

    def deleted(self, kind, at):
        """Its user deletes it while it runs, or while it waits."""
        if self.dice.random() < 0.5:
            self.promised(kind, at, ["-l", "select=1:ncpus=1"], slack=(8, 12), delete="running", script="exec sleep 3600\n")
        else:
            self.promised(kind, at, ["-l", "select=1:ncpus=1"], slack=(12, 20), delete="waiting", held=True)

    def failing(self, kind, at):
        """Ends with an exit status."""
        if self.dice.random() < 0.5:
            self.promised(kind, at, self.shape(), fails=True)
        else:
            self.add(kind, at, ["-l", "select=1:ncpus=1"], works(0.3, 3), fails=True)

    # ---- without

    def plain(self, kind, at):
        """What stands in scripts that know nothing of Libra."""
        self.add(kind, at, self.dice.choice(PLAIN).split())

    def plain_array(self, kind, at):
        self.add(kind, at, ["-J", "1-3"], tasks=3)

    def plain_chain(self, kind, at):
        first = self.add(kind, at, [], held=True, release=at + 0.3)
        self.add(kind, at + 0.01, [], after=(self.dice.choice(("afterok", "afterany")), first.name))

    def plain_later(self, kind, at):
        self.add(kind, at, [], begins=20)

    def plain_excluded(self, kind, at):
        """Over a queue's limit."""
        self.add(kind, at, ["-q", "small", "-l", "select=1:ncpus=2+1:ncpus=1"])

    def plain_deleted(self, kind, at):
        self.add(kind, at, ["-l", "ncpus=1"], "exec sleep 3600\n", delete="running")
