#!/usr/bin/env python3
"""What came of a day of mixture.py: was every promise kept, and is PBS's accounting that of the same jobs without Libra?

    mixture.py --keep FILE; mixture_audit.py FILE       judges again what was kept

Promises are judged by PBS's own records: a job's end (E) against what was committed to it (`libra_terms`) and against the deadline that its user has named,
counted from PBS's `qtime`, or with `/start` from its `etime`. A job ends when its last process does, and PBS collects its files after that (docs/pbs-user-guide.md): one
whose record alone is late, on a busy machine, counts as `closed late` if its host's log has the end of its processes before the deadline. Accounting is compared record by record; RULES says what may differ and why, all else is the same.
"""

import collections
import functools
import json
import pathlib
import re
import sys
import time

REASON = re.compile(r"libra: refused \(([\w-]+)\): \S")
MISTAKE = re.compile(r"libra: \S.*\S")
CLOCK = 2  # PBS's times are whole seconds, of two programs
FIELDS = re.compile(r' (?=[A-Za-z_]+(?:\.[A-Za-z_]+)?=)(?=(?:[^"]*"[^"]*")*[^"]*$)')


def records(text):
    """[(kind, job's number, index or None, {field: value})] of an accounting log. Names of users, hosts and servers are without the number of their cluster."""
    found = []
    for line in text.splitlines():
        _, kind, job, rest = line.split(";", 3)
        if number := re.match(r"(\d+)(?:\[(\d*)\])?\.", job):
            plain = re.sub(r"\b(libra-test|pbs|n\d+)-\d+", r"\1", rest)
            fields = dict(word.split("=", 1) for word in FIELDS.split(plain) if "=" in word)
            found.append((kind, number[1], number[2], fields))
    return found


def done(log):
    """[(job, Unix time)] of a mom's log: when the last process of each job's script had ended."""
    found = re.findall(r"^(\S+ [\d:]+)(\.\d+)?;\w+;pbs_mom;Job;(\S+);task 00000001 terminated$", log, re.MULTILINE)
    return [(job, time.mktime(time.strptime(at, "%m/%d/%Y %H:%M:%S")) + float(part or 0)) for at, part, job in found]


def terms(fields):
    """{key: value} of what was committed to a job; {} if nothing is (any more)."""
    line = fields.get("Resource_List.libra_terms", "")
    return dict(pair.split("=", 1) for pair in line.split(":") if "=" in pair)


def chunks(select):
    """What a `select` asks for, chunk by chunk, without what Libra or PBS derives: [{resource: value}]."""
    found = []
    for chunk in select.split("+"):
        words = chunk.split(":")
        count = int(words.pop(0)) if words[0].isdigit() else 1
        has = dict(word.split("=", 1) for word in words)
        processors = has.get("ncpus", "1")
        if processors == "0" and any(key.startswith("libra_") for key in has):
            processors = has.get("libra_besteffort", has.get("ompthreads", "1"))
        kept = {key: amount(value) for key, value in has.items() if not key.startswith("libra_") and key not in ("vnode", "host", "mpiprocs", "ompthreads")}
        found += [sorted((kept | {"ncpus": processors}).items())] * count
    return sorted(found)


def amount(text):
    """An amount of memory in bytes, or the text itself."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b", text)
    return str(int(found[1]) * 1024 ** " kmgt".index(found[2] or " ")) if found else text


def seconds(text):
    """Of [[HH:]MM:]SS."""
    return functools.reduce(lambda whole, part: 60 * whole + int(part), text.split(":"), 0)


class Pair:
    """A record of a job's end on both servers."""

    def __init__(self, job, libra, alone):
        self.job, self.libra, self.alone = job, libra, alone

    def free(self, _field):
        return True

    def only_with_libra(self, field):
        return field not in self.alone

    def added(self, field):
        """Said with Libra where PBS alone derives it."""
        return field not in self.alone or self.alone[field] == self.libra.get(field)

    def processors(self, field):
        """As they were asked for: by what was used, or, of a whole array, by its chunks."""
        if self.libra[field] not in ("0", self.alone[field]):
            return False
        return self.libra.get("resources_used.ncpus", self.alone[field]) == self.alone[field]

    def select(self, field):
        return chunks(self.libra[field]) == chunks(self.alone[field])

    def memory(self, field):
        return amount(self.libra[field]) == amount(self.alone[field])

    def place(self, field):
        return self.libra[field].removesuffix(":shared") == self.alone[field].removesuffix(":shared")

    def walltime(self, field):
        """Deadline and estimate together, where its user has named none."""
        return field not in self.alone and bool(self.job["terms"])

    def chunked(self, field):
        """`nodes` became the `select` that PBS makes of it."""
        return field not in self.libra

    def work(self, field):
        """The same work; an interpreter that starts on a busy machine needs somewhat more."""
        one, other = (seconds(side.get(field, "0")) for side in (self.libra, self.alone))
        return self.job["delete"] != "" or abs(one - other) <= 3 + 0.25 * max(one, other)

    def status(self, field):
        """SIGTERM comes to the shell of a deleted job or to its command first, on either server."""
        return self.job["delete"] == "running" and {self.libra[field], self.alone[field]} <= {"143", "271"}


# (field, what may differ, why)
RULES = (
    ("ctime|qtime|etime|start|end|session", Pair.free, "each server's own clock, queue and processes: with shares a job begins sooner and takes longer"),
    ("exec_host|exec_vnode|resource_assigned.*", Pair.free, "a node that has a share to give need not be the first that is free"),
    (r"resources_used\.(walltime|cpupercent|mem|vmem)", Pair.free, "how long it took with its share, and what mom had seen by then"),
    (r"resources_used\.cput", Pair.work, "the same work, by mom's whole seconds"),
    (r"resources_used\.libra_\w+", Pair.only_with_libra, "how far it is, from its hosts"),
    (r"Resource_List\.(libra_\w+|estimate|deadline|budget|class|deadline_type|penalty_rate)", Pair.only_with_libra, "terms and what became of them"),
    (r"Resource_List\.ncpus", Pair.processors, "0, so that PBS calls no node busy that has shares to give; resources_used.ncpus is what was asked for"),
    (r"Resource_List\.(mpiprocs|ompthreads)", Pair.added, "what PBS derives from ncpus, said"),
    (r"Resource_List\.select", Pair.select, "the same chunks, their processors as libra_share or libra_besteffort, and the node that has them"),
    (r"Resource_List\.mem", Pair.memory, "the same amount, which Libra writes in bytes"),
    (r"Resource_List\.nodes", Pair.chunked, "it is the select that PBS makes of it"),
    (r"Resource_List\.place", Pair.place, "`:shared` said, which is PBS's default"),
    (r"Resource_List\.walltime", Pair.walltime, "deadline and estimate together: a job with a share takes longer than its estimate"),
    ("Exit_status", Pair.status, "of a job that was deleted while it ran: to which of its processes the signal came first"),
)


class Audit:
    """Of the evidence that mixture.py has collected."""

    def __init__(self, evidence):
        self.jobs = {job["name"]: job for job in evidence["jobs"]}
        self.libra, self.alone = evidence["libra"], evidence["alone"]
        self.broken, self.classes = [], collections.defaultdict(collections.Counter)
        self.reasons, self.differing, self.compared = collections.Counter(), collections.Counter(), 0
        self.margins, self.closed = [], []
        ends = [self.ends(side) for side in (self.libra, self.alone)]
        for name, job in self.jobs.items():
            self.one(name, job, *ends)
        self.broken += [f"left: {what}: {found}" for what, found in self.libra["left"].items() if found]
        self.broken += [f"fault: {line}" for line in self.libra.get("faults", ())]

    @staticmethod
    def ends(side):
        """{job's name: {(kind, index): [fields]}} of the records of ends: E ended, D deleted, A aborted."""
        names = {re.match(r"\d+", job)[0]: name for name, job in side["ids"].items()}
        found = collections.defaultdict(lambda: collections.defaultdict(list))
        for kind, number, index, fields in records(side["accounting"]):
            if kind in "EDA" and number in names:
                found[names[number]][kind, index].append(fields)
        return found

    def one(self, name, job, libra, alone):
        """A job: what was said to it, and what became of it."""
        row = self.classes[job["kind"]]
        row["submitted"] += 1
        if name in self.libra["refused"]:
            self.refused(name, job, row)
            return
        if name not in self.libra["ids"]:
            self.broken.append(f"lost: {name} was never submitted")
            return
        if name in self.alone["refused"]:
            self.broken.append(f"refused: {name} ({job['kind']}) was taken with Libra, and without it not: {self.alone['refused'][name]}")
            return
        for side, ended in (("with Libra", libra), ("without", alone)):
            if not ended[name]:
                self.broken.append(f"lost: {name} ({job['kind']}) has no record of its end {side}")
        if job["terms"]:
            row["promised"] += 1
            self.promise(name, job, libra[name], row)
        else:
            row["plain"] += 1
        self.compare(name, job, libra[name], alone[name])

    def refused(self, name, job, row):
        rc, said = self.libra["refused"][name]
        if rc is None:
            row["not submitted"] += 1
            return
        row["refused"] += 1
        if not job["terms"]:
            if name not in self.alone["refused"]:
                self.broken.append(f"refused: {name} names no terms, and only Libra has refused it: {said}")
            self.reasons["PBS's limits, without terms"] += 1
        elif found := REASON.search(said):
            self.reasons[found[1]] += 1
        elif MISTAKE.search(said):
            self.reasons["mistake"] += 1
        else:
            self.broken.append(f"reason: {name} was refused without one: exit {rc}: {said!r}")

    def promise(self, name, job, ended, row):
        """Was it kept? Of an array that of every subjob."""
        found = [fields for (kind, index), all_of in ended.items() if kind == "E" and index != "" for fields in all_of]
        if job["delete"] or not found:
            row["deleted"] += 1  # by its user; or by PBS, since what it depends on has failed
            if not job["delete"] and not (job["after"] and self.jobs[job["after"][1]]["fails"] and job["after"][0] == "afterok"):
                self.broken.append(f"lost: {name} ({job['kind']}) has no E record, and nobody deleted it")
            return
        if len(found) != job["tasks"]:
            self.broken.append(f"lost: {name}: {len(found)} of {job['tasks']} subjobs have ended")
        verdicts = {self.verdict(name, job, index, fields) for (kind, index), all_of in ended.items() if kind == "E" and index != "" for fields in all_of}
        worst = next(word for word in ("late", "given back", "closed late", "kept") if word in verdicts)
        row[worst] += 1
        if max(float(fields["start"]) - float(fields["etime"]) for fields in found) > 30:
            row["waited"] += 1

    def verdict(self, name, job, index, fields):
        number = self.libra["ids"][name].replace("[]", f"[{index}]")
        has, info = terms(fields), fields.get("Resource_List.libra_info", "")
        if "at" not in has:
            if len(info) < 20:
                self.broken.append(f"reason: the promise of {name} is gone, and nothing says why: {fields}")
            return "given back"
        end, due = float(fields["end"]), float(has["submitted"]) + float(has["deadline"])
        named = str(job["terms"]["deadline"])
        asked = float(fields["etime" if named.endswith("/start") else "qtime"]) + float(named.removesuffix("/start"))
        if due > asked + CLOCK:
            self.broken.append(f"promise: {name} was to end {due - asked:.1f} s after the deadline that its user has named")
        self.margins.append((due - end) / float(has["deadline"]))
        if end <= due:
            return "kept"
        if self.libra["done"].get(number, end) <= due:
            self.closed.append(f"{name} ({job['kind']}) was done {due - self.libra['done'][number]:.1f} s before its deadline, and PBS has its end {end - due:.1f} s after it")
            return "closed late"
        self.broken.append(f"late: {name} ({job['kind']}) ended {end - due:.1f} s after its deadline: {fields}")
        return "late"

    def compare(self, name, job, libra, alone):
        """The same records of its end on both servers, and in them the same but for RULES."""
        count = lambda ended: {key: len(found) for key, found in ended.items()}  # noqa: E731
        if count(libra) != count(alone):
            self.broken.append(f"records: {name} ({job['kind']}): {count(libra)} with Libra, {count(alone)} without")
        for key in libra.keys() & alone.keys():
            for one, other in zip(libra[key], alone[key]):
                self.compared += 1
                pair = Pair(job, one, other)
                for field in sorted(one.keys() | other.keys()):
                    if one.get(field) != other.get(field):
                        self.differs(f"{name} ({job['kind']}), {key[0]}", pair, field)

    def differs(self, what, pair, field):
        rule = next((number for number, (pattern, _, _) in enumerate(RULES) if re.fullmatch(pattern, field)), None)
        try:
            allowed = rule is not None and RULES[rule][1](pair, field)
        except KeyError:
            allowed = False  # one of the two does not have what the rule looks at
        if allowed:
            self.differing[rule] += 1
        else:
            self.broken.append(f"accounting: {what}: {field} is {pair.libra.get(field)!r} with Libra, {pair.alone.get(field)!r} without")

    # ---- for people

    COLUMNS = ("submitted", "promised", "kept", "closed late", "late", "given back", "deleted", "refused", "plain", "not submitted", "waited")

    def table(self):
        """By kind, and what is broken."""
        rows = sorted(self.classes.items())
        rows.append(("all", sum((row for _, row in rows), collections.Counter())))
        lines = ["| " + " | ".join(("kind", *self.COLUMNS)) + " |", "| --- " * (1 + len(self.COLUMNS)) + "|"]
        lines += ["| " + " | ".join((name, *(str(row[column]) for column in self.COLUMNS))) + " |" for name, row in rows]
        lines += ["", "refused: " + ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common()),
                  f"compared: {self.compared} records of ends; fields that differ, by rule:"]
        lines += [f"  {count:5} {RULES[rule][0]}: {RULES[rule][2]}" for rule, count in sorted(self.differing.items())]
        if self.margins:
            self.margins.sort()
            lines.append(f"left of its deadline at a job's end: least {self.margins[0]:.0%}, half of all jobs less than {self.margins[len(self.margins) // 2]:.0%}")
        lines += self.closed
        return "\n".join([*lines, f"{len(self.broken)} broken", *self.broken])


if __name__ == "__main__":
    judged = Audit(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    print(judged.table())
    sys.exit(1 if judged.broken else 0)
