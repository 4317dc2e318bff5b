"""A day's jobs for mixture.py on PBS: what each kind is. The same seed plans the same day (tests/batch/day.py)."""

from day import Plan, works

# {kind: how many of a hundred}: what each is, stands in `Day` below its name.
MIXTURE = {"share": 27, "whole": 6, "conditional": 2, "array": 4, "chain": 7, "later": 4, "held": 4, "reserved": 4, "tied": 4, "impossible": 3, "deleted": 3, "failing": 4,
           "plain": 20, "plain-array": 2, "plain-chain": 3, "plain-later": 1, "plain-excluded": 1, "plain-deleted": 1}

# What PBS alone is asked for.
PLAIN = ("-l nodes=1:ppn=1", "-l nodes=1:ppn=2", "-l nodes=2:ppn=1", "-l select=1:ncpus=1:mem=64mb", "-l select=2:ncpus=1 -l place=scatter", "-l ncpus=2", "-l ncpus=1,mem=32mb",
         "-l select=1:ncpus=1 -l place=excl", "-l select=1:ncpus=2 -l place=pack", "-l select=1:ncpus=1:mpiprocs=1 -l place=free", "", "-q small -l select=1:ncpus=1", "-l walltime=00:30:00")
RESERVED_FROM, RESERVED_HOURS = 10, 3


class Day(Plan):
    """The plan, in the words of qsub."""

    mixture = MIXTURE

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
        self.impossible_terms(job)
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
