"""A day's jobs for mixture.py on Slurm: what each kind is. The same seed plans the same day (tests/batch/day.py)."""

from day import Plan, works

# {kind: how many of a hundred}: what each is, stands in `Day` below its name.
MIXTURE = {"share": 24, "dedicated": 5, "mpi": 5, "array": 4, "gres": 6, "licence": 3, "chain": 5, "later": 3, "held": 3, "impossible": 4, "deleted": 4, "failing": 3,
           "plain": 18, "plain-exclusive": 2, "plain-array": 3, "plain-gres": 3, "plain-mpi": 3, "plain-chain": 2}

# What Slurm alone is asked for: in the partition that Libra's jobs are in too, and in one that shares no processors.
PLAIN = ("-n 1", "-n 1", "-n 2", "-N 2", "-n 1 --mem=20", "-c 2", "-n 2 --ntasks-per-node=1", "-p plain", "-p plain -n 2", "-p plain -N 2", "-p plain -c 2 --mem=20", "-t 5")
# Tasks of a step that say where they run, and then work a little; `srun` binds them where Slurm does.
TASKS = "srun --cpu-bind={bind} sh -c 'say task $SLURM_PROCID; python3 -S -c \"import time\nwhile time.process_time() < {seconds:.2f}: pass\"'\n"


def gpus(count):
    return f"--gres=gpu:{count}"


class Day(Plan):
    """The plan, in the words of sbatch."""

    mixture = MIXTURE

    def shape(self):
        """One to three processors, on one node or several."""
        return self.dice.choice((["-n", "1"],) * 3 + (["-n", "2"], ["-c", "2"], ["-N", "2"], ["-n", "3"], ["-n", "1", "--mem=20"], ["-n", "2", "--ntasks-per-node=1"]))

    # ---- with terms

    def share(self, kind, at):
        """By share, with more or less time."""
        self.promised(kind, at, self.shape())

    def dedicated(self, kind, at):
        """Whole processors: some begin later (planned starts)."""
        self.promised(kind, at, ["-n", str(self.dice.randint(1, 2))], slack=(4, 9), cls="dedicated", estimate=self.dice.randint(5, 15))

    def mpi(self, kind, at):
        """Two tasks that run at the same time, each on a processor of its own."""
        estimate = self.dice.randint(5, 15)
        self.promised(kind, at, ["-n", "2", "-N", str(self.dice.randint(1, 2))], slack=(4, 9), cls="dedicated", estimate=estimate,
                      script=TASKS.format(bind="cores", seconds=estimate * self.part))

    def array(self, kind, at):
        """Some tasks."""
        tasks = self.dice.randint(2, 4)
        self.promised(kind, at, [f"--array=1-{tasks}", "-n", "1"], tasks=tasks, slack=(5, 9))

    def gres(self, kind, at):
        """A GPU for itself, beside its share."""
        self.promised(kind, at, ["-n", "1", gpus(self.dice.randint(1, 2))], slack=(5, 9))

    def licence(self, kind, at):
        self.promised(kind, at, ["-n", "1", "-L", f"solver:{self.dice.randint(1, 2)}"], slack=(5, 9))

    def chain(self, kind, at):
        """A job that is held until the one that waits for it is there; then released."""
        fails = self.dice.random() < 0.2
        first = self.promised(kind, at, self.shape(), slack=(12, 20), held=True, release=at + 0.3, fails=fails)
        self.promised(kind, at + 0.01, ["-n", "1"], slack=(14, 20), after=(self.dice.choice(("afterok", "afterany")), first.name)).terms["deadline"] += 120

    def later(self, kind, at):
        """A start time (--begin)."""
        self.promised(kind, at, ["-n", "1"], slack=(12, 20), begins=self.dice.uniform(15, 40))

    def held(self, kind, at):
        """Held, and released later."""
        self.promised(kind, at, self.shape(), slack=(12, 20), held=True, release=at + self.dice.uniform(0.2, 0.7))

    def impossible(self, kind, at):
        """What can never be promised."""
        job = self.promised(kind, at, ["-n", "1"])
        self.impossible_terms(job)
        if self.others % 4 == 3:
            job.words, job.terms["budget"] = ["--exclusive"], 1_000_000

    def deleted(self, kind, at):
        """Its user cancels it while it runs, or while it waits."""
        if self.dice.random() < 0.5:
            self.promised(kind, at, ["-n", "1"], slack=(8, 12), delete="running", script="exec sleep 3600\n")
        else:
            self.promised(kind, at, ["-n", "1"], slack=(12, 20), delete="waiting", held=True)

    def failing(self, kind, at):
        """Ends with an exit status."""
        if self.dice.random() < 0.5:
            self.promised(kind, at, self.shape(), fails=True)
        else:
            self.add(kind, at, ["-n", "1"], works(0.3, 3), fails=True)

    # ---- without

    def plain(self, kind, at):
        """What stands in scripts that know nothing of Libra."""
        self.add(kind, at, self.dice.choice(PLAIN).split())

    def plain_exclusive(self, kind, at):
        """A node for itself."""
        self.add(kind, at, ["-p", "plain", "--exclusive"])

    def plain_array(self, kind, at):
        self.add(kind, at, ["--array=1-3"], tasks=3)

    def plain_gres(self, kind, at):
        self.add(kind, at, ["-n", "1", gpus(1)])

    def plain_mpi(self, kind, at):
        """Two tasks that Slurm binds to a processor each."""
        self.add(kind, at, ["-p", "plain", "-n", "2", "-N", "1"], TASKS.format(bind="cores", seconds=0.5))

    def plain_chain(self, kind, at):
        first = self.add(kind, at, ["-n", "1"], held=True, release=at + 0.3)
        self.add(kind, at + 0.01, ["-n", "1"], after=(self.dice.choice(("afterok", "afterany")), first.name))
