"""Is anything lost or doubled? Compares what the soak itself knows (truth.py) with the batch system, the accounts, the book and the nodes.

At a quiet point nobody submits or changes anything and all daemons run, but jobs go on and end. So a pass may see something on its way; it is
repeated until one finds nothing, for at most PATIENCE. What was found by each pass of the last SAME seconds then is broken.

| rule | what it says |
| --- | --- |
| unknown | a job with terms that nobody submitted, or one of a submission that was refused |
| lost | an accepted job that is neither there nor has ended by the batch system's own records |
| price | what its user was told, what is in its record and what was set aside are one amount |
| hold | a job that is there has its price set aside, one whose promise is deferred too; one that was held later or has ended has not |
| hold-without-job | money that is set aside for no job |
| settled-twice | a job, or a task of an array, that was paid for or released more than once |
| charged-too-much | more than its price |
| verdicts | for each job: what the log says it was charged is what the ledger has |
| balances | what users have is what they were given, less what the verdicts in the log charged them |
| check | `libra account check` is content |
| book | as many jobs as the batch system has with a share (by the metrics); a deferred promise has none yet |
| capacity | no more processors of a node were committed to jobs that run than it has (what they need from now on may be more, after a node was lost) |
| registry | what runs on a node is in its registry, and nothing else |
| cgroup | each of these has its cgroup, and nobody else has one |
| drained | no node is taken out of service |
"""

import collections
import contextlib
import dataclasses
import re
import sqlite3
import time

from truth import micro

PATIENCE, SAME = 180, 60
# A charge may be written down and its line in the log not, where the daemon was killed just then.
UNWRITTEN = 5
# The log shows money to a hundredth of a credit.
GRAIN = 5001
REST = 0xFFFFFFFF  # the "part" of what is released for all tasks together that never began


@dataclasses.dataclass(frozen=True)
class Broken:
    """One rule that does not hold."""

    rule: str
    subject: str
    text: str

    def __str__(self):
        return f"{self.rule}: {self.subject}: {self.text}"


@dataclasses.dataclass
class Task:
    """A job as the batch system has it, or a task of an array, or what still waits of one."""

    name: str  # as the batch system's commands take it
    host_name: str  # as the nodes' registries have it
    submission: str  # the job's name
    # waits; rests: held, with nothing of Libra's; runs; moving: on its way from one to the other
    state: str
    commitment: dict
    nodes: tuple = ()
    count: int = 1
    began: bool = False  # by the batch system's record it has processes
    text: str = ""  # for evidence

    @property
    def deferred(self):
        """It may not start yet: its price is set aside, and it has no share."""
        return self.commitment.get("deferred") == "1"

    def lapsed(self, now):
        """It waits past its deadline: its share is free until it runs."""
        return self.state == "waits" and bool(self.commitment) and now > float(self.commitment["submitted"]) + float(self.commitment["deadline"])


class Money:
    """What the ledger says, hold by hold. All in micro-credits."""

    def __init__(self, path):
        self.held, self.paid = collections.Counter(), collections.Counter()
        self.parts = collections.defaultdict(set)  # (key, part): moments at which it was settled
        self.charged, self.by_job = collections.Counter(), collections.Counter()
        self.last = {}  # key: when it was settled last
        self.notes = collections.Counter()
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as ledger:
            self.jobs = dict(ledger.execute("SELECT hold, id FROM job"))
            accounts = dict(ledger.execute("SELECT id, name FROM account"))
            rows = ledger.execute("SELECT at, kind, payer, payee, amount, hold, part, note FROM movement ORDER BY id").fetchall()
        self.balance = collections.Counter()
        self.killed_deposits, self.moved = collections.Counter(), collections.Counter()
        for at, kind, payer, payee, amount, key, part, note in rows:
            self.balance[accounts[payer]] -= amount
            self.balance[accounts[payee]] += amount
            if kind == "deposit" and note.startswith("killed-"):
                self.killed_deposits[accounts[payee]] += amount
            if kind == "transfer":
                self.moved[accounts[payer]] -= amount
                self.moved[accounts[payee]] += amount
            if key is None:
                continue
            if kind == "hold":
                self.held[key] += amount
                continue
            if kind in ("charge", "release"):
                self.paid[key] += amount
            if kind in ("charge", "overrun"):
                self.charged[key] += amount
                self.by_job[self.base(key)] += amount
            self.parts[key, part].add(at)
            self.last[key] = max(at / 1000, self.last.get(key, 0))
            self.notes[note] += 1
        self.settlements = sum(len(moments) for moments in self.parts.values())

    def base(self, key):
        """The id of the job that a hold was for."""
        return self.jobs.get(key, f"hold {key}").split("[")[0].split(".")[0]

    def open(self):
        """{key: what is set aside}"""
        return {key: amount - self.paid[key] for key, amount in self.held.items() if amount != self.paid[key]}


CHARGED = re.compile(r"job (\S+?):? .*?(?:user|project):(\S+) is charged ([\d.]+)(?: and paid ([\d.]+))? \(")


class Verdicts:
    """What the batch system's log says was charged, read on where it was left."""

    def __init__(self):
        self.places, self.by_job, self.by_user = {}, collections.Counter(), collections.Counter()
        self.lines = collections.Counter()  # of a job, of a user
        self.faults = collections.Counter()

    def read(self, files):
        """Everything new in these."""
        for file in files:
            with open(file, "rb") as log:
                log.seek(self.places.get(file, 0))
                text = log.read()
            whole = text.rfind(b"\n") + 1
            self.places[file] = self.places.get(file, 0) + whole
            for line in text[:whole].decode(errors="replace").splitlines():
                self.line(line)

    def line(self, line):
        if "libra: " not in line:
            return
        said = line.split("libra: ", 1)[1]
        if "fault" in said:
            self.faults[re.sub(r"\d+", "N", said)[:160]] += 1
        if found := CHARGED.match(said):
            job, user, charged, paid = found.groups()
            job, user = re.split(r"[._\[]", job)[0], f"user:{user}"
            self.by_job[job] += micro(charged)
            self.by_user[user] += micro(charged) - micro(paid or 0)
            self.lines.update((job, user))


class Audit:
    """Of one site, whose truth this is."""

    def __init__(self, site, truth):
        self.site, self.truth, self.verdicts = site, truth, Verdicts()
        self.money, self.lost_by_system = None, {}
        self.tasks = []

    def converge(self, known=(), patience=PATIENCE):
        """Audit until nothing is broken; (what is broken after that, seconds that it took). `known`: (rule, subject) of what was broken before, for
        which nobody waits for long."""
        began, since = time.monotonic(), {}
        while True:
            found = self.one_pass()
            took = time.monotonic() - began
            since = {(one.rule, one.subject): since.get((one.rule, one.subject), took) for one in found}
            lasting = [one for one in found if (one.rule, one.subject) in known or took - since[one.rule, one.subject] >= SAME]
            if not found or took > (20 if set(since) <= set(known) else patience):
                return lasting, took
            self.truth.note("not-yet", f"{took:.0f} s", "; ".join(map(str, found))[:600])
            time.sleep(3)

    def one_pass(self):
        """One pass: everything that does not hold."""
        site, truth = self.site, self.truth
        site.repair(site.tasks())
        checked = site.account_done("check")
        self.tasks = tasks = site.tasks()
        time.sleep(1.2)  # accounts are written down twice a second
        self.money = money = Money(site.ledger)
        self.verdicts.read(site.logs())
        broken = [] if checked.returncode == 0 else [Broken("check", "libra account check", (checked.stdout + checked.stderr)[-1500:])]
        there = collections.defaultdict(list)
        for task in tasks:
            there[task.submission].append(task)
            broken += self.known(task)
        ended = site.ended()
        for one in truth.submissions.values():
            if one.verdict == "accepted" and not one.over:
                broken += self.accepted(one, there.get(one.name, ()), ended)
        broken += self.holds(there) + self.sums() + self.nodes(tasks) + self.book(tasks)
        return broken + [Broken("drained", node, why) for node, why in site.drained().items()]

    # ---- job by job

    def known(self, task):
        """Is there such a submission? One whose client failed may have come through all the same."""
        one = self.truth.submissions.get(task.submission)
        if one is None:
            return [Broken("unknown", task.name, f"nobody submitted it: {task.text}")]
        if one.verdict == "failed":
            one.job, one.verdict = task.name, "accepted" if one.kind != "plain" else "plain"
            self.truth.count("accepted-without-an-answer", one.name, task.name)
        elif one.verdict == "refused":
            return [Broken("unknown", task.name, f"{one.name} was refused ({one.reason}), and is there: {task.text}")]
        if task.commitment:
            key = self.truth.key(task.commitment)
            if key not in one.commitments:
                one.commitments[key] = task.commitment
        return []

    def accepted(self, one, tasks, ended):
        """One that was accepted and of which it is not yet known that it has ended."""
        broken, money, now = [], self.money, time.time()
        broken += self.price(one)
        keys = [key for key in money.held if key.split("+")[0] in one.commitments]
        is_open = [key for key in keys if money.held[key] != money.paid[key]]
        if tasks:
            promised = [task for task in tasks if task.deferred or (task.commitment and task.state != "rests")]
            if promised and not is_open and not any(task.state == "moving" for task in tasks):
                broken.append(Broken("hold", one.name, f"{tasks[0].name} is there ({tasks[0].state}) and nothing is set aside for it: {one}"))
            # An array is paid for by one hold, and keeps it where some of it has begun.
            if not promised and is_open and one.tasks == 1:
                broken.append(Broken("hold", one.name, f"{tasks[0].name} has no promise ({tasks[0].state}), and money is set aside for it: {is_open}"))
            return broken
        if is_open:
            return [*broken, Broken("hold", one.name, f"it is gone, and money is set aside for it: {is_open}: {one}")]
        how = ended.get(one.name)
        if how is None:
            if not self.forgotten(one):
                return [*broken, Broken("lost", one.name, f"accepted, not there, and nobody knows of its end: {one}")]
            how = "lost by the batch system"
            self.truth.count("lost-by-the-system", one.name, one.job)
        if not broken and now - one.at > 5:
            one.over = how
        return broken

    def forgotten(self, one):
        """The batch system had not saved it when it was killed."""
        return self.truth.near("kill-controller", one.answered, 1, self.site.unsaved)

    def price(self, one):
        """Said, committed and set aside."""
        broken = []
        for number, (key, line) in enumerate(one.commitments.items()):
            count, price = int(line["count"]), micro(line["price"])
            if number == 0 and one.said and abs(float(one.said) - float(line["price"]) * count) > 0.006 * max(1, count, float(one.said) / 1000):
                broken.append(Broken("price", one.name, f"its user was told {one.said} for all, committed was {line['price']} for each of {count}"))
            held = self.money.held.get(key)
            if held is None:
                broken.append(Broken("price", one.name, f"accepted at {line['price']}, and nothing was ever set aside: {key}"))
            elif held != price * count:
                broken.append(Broken("price", one.name, f"{held} micro-credits were set aside, committed was {count} * {price}"))
        return broken

    # ---- money

    def holds(self, there):
        """No hold without a job, none settled twice, none charged more than its price."""
        broken, money = [], self.money
        of_key = {key: one for one in self.truth.submissions.values() for key in one.commitments}
        for key, amount in money.open().items():
            one = of_key.get(key.split("+")[0])
            if one is None or one.name not in there:
                broken.append(Broken("hold-without-job", key, f"{amount} micro-credits, of job {money.jobs.get(key)}, submission {one.name if one else 'unknown'}"))
            if amount < 0:
                broken.append(Broken("settled-twice", key, f"{-amount} micro-credits more than were set aside"))
        for (key, part), moments in money.parts.items():
            if len(moments) > 1 and part != REST:
                broken.append(Broken("settled-twice", key, f"part {part} of job {money.jobs.get(key)} at {sorted(moments)}"))
        for key, amount in money.charged.items():
            if amount > money.held[key]:
                broken.append(Broken("charged-too-much", key, f"{amount} of {money.held[key]} micro-credits"))
        return broken

    def sums(self):
        """The log, the ledger and the soak's own deposits say the same."""
        broken, money, verdicts = [], self.money, self.verdicts
        slack = collections.Counter()
        for job in set(money.by_job) | set(verdicts.by_job):
            if abs(money.by_job[job] - verdicts.by_job[job]) <= GRAIN * verdicts.lines[job]:
                continue
            keys = [key for key, _ in money.charged.items() if money.base(key) == job]
            lines_lost = money.by_job[job] > verdicts.by_job[job] and any(self.truth.near("kill-controller", money.last[key], 1, UNWRITTEN) for key in keys)
            if lines_lost:
                slack["all"] += money.by_job[job] - verdicts.by_job[job]
            else:
                broken.append(Broken("verdicts", job, f"charged {money.by_job[job]} micro-credits by the ledger, {verdicts.by_job[job]} by the log; {keys}"))
        for user, given in self.truth.deposits.items():
            name = f"user:{user}"
            wanted = micro(given) + money.killed_deposits[name] + money.moved[name] - verdicts.by_user[name]
            # `balance` of the ledger has both sides of an account: what is held is still its own.
            grain = 2 * GRAIN * verdicts.lines[name]
            if not wanted - slack["all"] - grain <= money.balance[name] <= wanted + grain:
                broken.append(Broken("balances", name, f"{money.balance[name]} micro-credits, not {wanted} (lines lost by kills: {slack['all']})"))
        return broken

    # ---- nodes

    def book(self, tasks):
        """By the metrics of the one who admits."""
        files = self.site.metrics_now()
        now = time.time()
        jobs = files.gauges("libra_jobs")
        expected = sum(task.count for task in tasks if task.commitment and task.state != "rests" and not task.deferred and not task.lapsed(now))
        broken = []
        if sum(jobs.values()) != expected:
            broken.append(Broken("book", "jobs", f"{jobs} in the book, {expected} jobs that {self.site.name} has"))
        return broken

    def nodes(self, tasks):
        """Registries and cgroups."""
        runs = {(node, task.host_name): task for task in tasks if task.commitment and task.state == "runs" for node in task.nodes}
        on_the_way = {task.host_name for task in tasks if task.state == "moving"}
        registered, groups = self.site.registered(), self.site.groups()
        broken = []
        for place in sorted(set(runs) - registered):
            broken.append(Broken("registry", " ".join(place), f"it runs and no registry has it, processes {self.site.processes_of(runs[place])}: {runs[place].text}"))
        for place in sorted(registered - set(runs)):
            if place[1] not in on_the_way:
                broken.append(Broken("registry", " ".join(place), "it is registered, and does not run there"))
        for place in sorted(set(runs) - groups):
            broken.append(Broken("cgroup", " ".join(place), f"it runs without a cgroup: {runs[place].text}"))
        for place in sorted(groups - set(runs)):
            if place[1] not in on_the_way:
                broken.append(Broken("cgroup", " ".join(place), "a cgroup of nobody"))
        sums = collections.Counter()
        for (node, _), task in runs.items():
            sums[node] += processors(task, node)
        for node, total in sums.items():
            if total > self.site.processors * 1.001 + 0.001:
                broken.append(Broken("capacity", node, f"{total:.4f} processors were committed on it to jobs that run"))
        return broken


def processors(task, node):
    """What is committed to a task that runs on this node."""
    line = task.commitment
    places = [(int(chunks), float(share)) for at, chunks, share in (place.split("*") for place in line["at"].split("+")) if at == node]
    if int(line["count"]) > 1 and places:  # the plan of all tasks together: each has what one has
        places = [(int(line["chunks"]), max(share for _, share in places))]
    return int(line["processors"]) * sum(chunks * share for chunks, share in places)
