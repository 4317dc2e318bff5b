"""What users and administrators do, at random: the same for both batch systems, by a random generator of its own for each thread.

A `Site` (on_slurm.py, on_openpbs.py) gives the words: how a job is submitted, ended, held. Nothing here waits for what comes of it; the audit
(audit.py) looks at that.
"""

import random
import subprocess
import time

# Processors that jobs may ask for on a node, and what a user has in the beginning.
DEPOSIT, POOR = 200_000, 3


def pick(dice, weighted):
    """One of {what: weight}."""
    return dice.choices(list(weighted), list(weighted.values()))[0]


class Work:
    """What is done to one site; `truth` has all of it."""

    # How often, in comparison.
    SUBMISSIONS = {"one": 40, "wide": 8, "array": 9, "late": 5, "soft": 6, "held": 4, "after": 4, "later": 3, "long": 5, "plain": 9,
                   "poor": 2, "no-account": 2, "tight": 4, "cheap": 4, "odd": 2, "too-much": 2}
    ACTIONS = {"cancel": 10, "kill-process": 7, "requeue": 5, "suspend": 5, "hold": 4, "release": 6, "alter": 4, "transfer": 3, "balance": 3}
    # Kinds that can only be refused.
    HOPELESS = ("poor", "no-account", "tight", "cheap", "odd", "too-much")

    def __init__(self, site, truth, seed):
        self.site, self.truth, self.dice = site, truth, random.Random(seed)
        users = site.cluster.users
        self.payers, self.poor, self.penniless = users[:-2], users[-2], users[-1]

    # ---- accounts

    def open_accounts(self):
        """Everybody has some money, but for the last two users: one has next to nothing, one has no account."""
        for user in [*self.payers, self.poor]:
            self.site.account("create", user)
        for user in self.payers:
            self.deposit(user, DEPOSIT, "first")
        self.deposit(self.poor, POOR, "first")

    def deposit(self, user, credits, note):
        """As an administrator; what was acknowledged is there."""
        self.site.account("deposit", user, str(credits), "--note", note)
        self.truth.deposits[user] += credits
        self.truth.note("deposit", user, credits)

    def deposit_killed(self):
        """The command is killed on its way: the deposit is whole or not there, and the ledger says which."""
        user, note = self.dice.choice(self.payers), f"killed-{self.truth.counts['deposit-killed'] + 1}"
        child = subprocess.Popen(self.site.account_words("deposit", user, "7", "--note", note), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.dice.uniform(0, 0.06))
        child.kill()
        child.wait()
        self.truth.count("deposit-killed", user, note)

    # ---- submissions

    def submit(self):
        """One submission of any kind."""
        dice, site, truth = self.dice, self.site, self.truth
        kind = pick(dice, self.SUBMISSIONS)
        user = {"poor": self.poor, "no-account": self.penniless}.get(kind) or dice.choice(self.payers)
        estimate = dice.choice([3, 5, 8, 13, 21, 34]) * dice.uniform(0.8, 1.2)
        deadline, seconds, tasks, nodes, more = estimate * dice.uniform(1.4, 8), estimate * dice.uniform(0.2, 1.2), 1, 1, {}
        budget = 1000
        if kind == "wide":
            nodes = dice.choice([2, 2, 3])
        elif kind == "array":
            tasks = dice.randint(2, 6)
            budget = 5000
        elif kind == "late":  # by its own fault
            seconds = deadline * dice.uniform(0.9, 1.5)
        elif kind == "soft":
            more = {"soft": dice.choice([0.1, 5, 100])}
            seconds = deadline * dice.uniform(0.3, 1.3)
        elif kind == "held":
            more = {"held": True}
        elif kind == "after":
            before = self.any_task(None)
            more = {"after": before.name.split("[")[0] + "[]" if "[" in before.name else before.name} if before else {}
        elif kind == "later":
            more = {"begin": dice.randint(2, 20)}
        elif kind == "long":
            estimate, deadline, budget = dice.uniform(30, 60), dice.uniform(400, 1500), 10000
            seconds = deadline * dice.uniform(0.3, 0.9)
        elif kind == "poor":
            estimate, deadline = max(estimate, 5), max(deadline, 40)
        elif kind == "tight":
            deadline = estimate * 0.9
        elif kind == "cheap":
            budget = estimate / 10
        elif kind == "odd":
            deadline = -1
        elif kind == "too-much":
            estimate, deadline, nodes = 1000, 1100, 1 + len(site.nodes)
        if kind == "plain":
            terms, seconds = None, dice.uniform(1, 15)
        else:
            terms = {"estimate": f"{estimate:.3f}", "deadline": f"{deadline:.3f}", "budget": f"{budget:.3f}", **more}
        where = dice.choice(site.nodes) if nodes == 1 and kind in ("one", "plain", "late") and dice.random() < 0.3 else None
        busy = min(seconds, 2) if dice.random() < 0.1 else 0
        one = truth.begins(kind, user, tasks)
        self.answered(one, *site.submit(one, terms, nodes, where, script(seconds, busy)))

    def answered(self, one, job, text, line):
        """`job`: its id, None if the client failed. `text`: what the user was told. `line`: of what is committed."""
        if not job:
            self.truth.refused(one, text)
        else:
            self.truth.accepted(one, job, text, line)

    # ---- whatever is done to jobs

    def act(self):
        """One thing of any kind, to a job of any kind."""
        dice, truth = self.dice, self.truth
        what = pick(dice, self.ACTIONS)
        if what in ("transfer", "balance"):
            user, other = dice.sample(self.payers, 2)
            rc = self.site.ask_service(user, *(("transfer", user, other, f"{dice.uniform(0.1, 5):.3f}") if what == "transfer" else ("balance",)))
            truth.count(f"{what}-by-the-service" if rc == 0 else f"{what}-not-answered", user)
            return
        task = self.any_task({"requeue": "runs", "suspend": "runs", "kill-process": "runs", "release": "rests", "hold": "waits"}.get(what))
        if task is None:
            return
        one = truth.submissions.get(task.submission)
        owner = one.user if one else None
        if one:
            one.done.append(f"{what} {time.time():.1f}")
        rc = getattr(self.site, what.replace("-", "_"))(task, owner, dice)
        truth.count(what if rc == 0 else f"{what}-failed", task.name, task.submission)

    def any_task(self, state):
        """A random one of this state, of any state if None; None if there is none."""
        found = [task for task in self.site.tasks() if state is None or task.state == state]
        # A held job is rare: most of those that wait are about to begin.
        if state == "waits" and not found:
            found = [task for task in self.site.tasks() if task.state == "runs"]
        return self.dice.choice(found) if found else None


def script(seconds, busy):
    """A job of so many seconds, of which it computes for some."""
    work = f"python3 -c 'import time\nwhile time.process_time() < {busy:.2f}: pass'\n" if busy else ""
    return f"{work}sleep {max(0.1, seconds - busy):.2f} & wait\n"
