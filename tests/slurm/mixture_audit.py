#!/usr/bin/env python3
"""What became of a day's jobs (mixture.py): every promise, by what the jobs themselves have written down.

    tests/slurm/mixture_audit.py FILE     judges again what `mixture.py --keep FILE` has kept

Of each job: its end against its deadline, and Libra's verdict on it against that. Of all together: no node gives more processors to jobs that have whole ones, or more GPUs,
than it has; a job that has a node for itself is alone on it; tasks of a job that has all of a node, or has no terms, have a processor each. At the end nothing is left, no node is drained and no job was started twice.
"""

import collections
import json
import pathlib
import re
import sys

REASON = re.compile(r"libra: refused \(([\w-]+)\): \S")
MISTAKE = re.compile(r"libra: \S.*\S")
GPUS = re.compile(r"--gres=gpu:(\d+)")
LICENCES = re.compile(r"-L solver:(\d+)")
# Slurm's seconds are whole, and slurmctld hears of an end a moment after the job has said so.
CLOCK = 2.0
# Jobs that wait when they are submitted, or may: their promise can be given back.
WAITING = ("held", "later", "chain", "dedicated", "mpi")


def processors(text):
    """{0, 1, 3} of 0-1,3."""
    pairs = [part.split("-") for part in text.split(",")]
    return {number for pair in pairs for number in range(int(pair[0]), int(pair[-1]) + 1)}


class Said:
    """What one task of an array, or a job, has written down itself."""

    def __init__(self, text):
        self.begin = self.end = self.node = None
        self.processors, self.tasks = set(), []
        for line in text.splitlines():
            at, node, allowed, *words = line.split()
            if words == ["begins"]:
                self.begin, self.node, self.processors = float(at), node, processors(allowed)
            elif words == ["ends"]:
                self.end = float(at)
            else:
                self.tasks.append((node, processors(allowed)))


class Audit:
    """Of the evidence that mixture.py has collected."""

    def __init__(self, evidence):
        self.jobs = {job["name"]: job for job in evidence["jobs"]}
        self.evidence = evidence
        self.broken, self.classes = [], collections.defaultdict(collections.Counter)
        self.reasons, self.margins, self.seconds = collections.Counter(), [], collections.Counter()
        self.said = {name: {int(task): Said(text) for task, text in of.items()} for name, of in evidence["said"].items()}
        self.records = collections.defaultdict(dict)
        for number, record in evidence["records"].items():
            self.records[str(record["array_job_id"] or number)][record["array_task_id"] or 0] = record
        self.verdicts = {}
        for line in evidence["log"]:
            if found := re.match(r"job (\S+) (met its deadline|missed its deadline|failed|was ended|is done)\b", line):
                self.verdicts[found[1]] = found[2]
        for name, job in self.jobs.items():
            self.one(name, job)
        self.together()
        self.broken += [f"left: {what}: {found}" for what, found in evidence["left"].items() if found]
        self.broken += [f"node {node}: {state}" for node, state in evidence["nodes"].items() if re.search("DRAIN|DOWN|FAIL", state)]
        self.broken += [f"fault: {line}" for line in evidence["log"] if re.match(r"fault\b|panic", line)]

    def one(self, name, job):
        """A job: what was said to it, and what became of it."""
        row = self.classes[job["kind"]]
        row["submitted"] += 1
        if name in self.evidence["refused"]:
            self.refused(name, job, row)
            return
        records = self.records.get(self.evidence["ids"].get(name), {})
        if len(records) != job["tasks"]:
            self.broken.append(f"lost: {name} ({job['kind']}): Slurm has {len(records)} of {job['tasks']} records")
        if any(record["restart_cnt"] for record in records.values()):
            self.broken.append(f"restarted: {name} ({job['kind']})")
        if not job["terms"]:
            row["plain"] += 1
            if not job["delete"] and not self.never_started(job) and len([said for said in self.said[name].values() if said.end]) != job["tasks"]:
                self.broken.append(f"lost: {name} ({job['kind']}) did not get to its end")
            if job["fails"] and {record["job_state"] for record in records.values()} != {"FAILED"}:
                self.broken.append(f"state: {name} ({job['kind']}) has failed, and Slurm says: {records}")
            return
        row["promised"] += 1
        if job["kind"] == "impossible":
            self.broken.append(f"accepted: {name} cannot be promised: {job['terms']}, {job['words']}")
            return
        words = [self.promise(name, job, task, record) for task, record in sorted(records.items())]
        worst = next((word for word in ("late", "lost", "given back", "deleted", "kept") if word in words), "lost")
        row[worst] += 1

    def refused(self, name, job, row):
        rc, said = self.evidence["refused"][name]
        if rc is None:
            row["not submitted"] += 1
            return
        row["refused"] += 1
        if not job["terms"]:
            self.broken.append(f"refused: {name} ({job['kind']}) names no terms: {said}")
        elif found := REASON.search(said):
            self.reasons[found[1]] += 1
        elif MISTAKE.search(said) and job["kind"] == "impossible":
            self.reasons["mistake"] += 1
        else:
            self.broken.append(f"reason: {name} was refused without one: exit {rc}: {said!r}")

    def never_started(self, job):
        """Does it wait for the success of one that fails?"""
        return bool(job["after"]) and job["after"][0] == "afterok" and self.jobs[job["after"][1]]["fails"]

    def promise(self, name, job, task, record):
        """Was it kept? One word."""
        said = self.said[name].get(task)
        number = self.evidence["ids"][name] + (f"_{task}" if job["tasks"] > 1 else "")
        has = self.commitment(record)
        if job["delete"] or (job["after"] and said is None and record["job_state"] == "CANCELLED"):
            if not job["delete"] and not self.never_started(job):
                self.broken.append(f"lost: {name} ({job['kind']}) was cancelled, and not by its user")
            return "deleted"
        if said is None or said.end is None:
            self.broken.append(f"lost: {name} ({job['kind']}), task {task}, did not get to its end: {record}")
            return "lost"
        if not has:
            if job["kind"] not in WAITING or not (record["admin_comment"] or "").startswith("libra-nothing:") or len(record["comment"] or "") < 20:
                self.broken.append(f"reason: the promise of {name} ({job['kind']}) is gone, and nothing says why: {record}")
            return "given back"
        due = float(has["submitted"]) + float(has["deadline"])
        # It counts from the submission, whatever the job waits for; the client has asked in between.
        asked = [at + float(job["terms"]["deadline"]) for at in self.evidence["submitted"][name]]
        if not asked[0] - 0.1 <= due <= asked[1] + 0.1:
            self.broken.append(f"promise: {name} ({job['kind']}) was to end {due - asked[1]:.1f} s after the deadline that its user has named")
        self.margins.append((due - said.end) / float(has["deadline"]))
        kept, verdict = said.end <= due, self.verdicts.get(number)
        wanted = ("failed",) if job["fails"] else ("met its deadline",) if kept else ("missed its deadline",)
        if verdict not in wanted and abs(due - said.end) > CLOCK:
            self.broken.append(f"verdict: {name} ({job['kind']}), job {number}, ended {due - said.end:.1f} s before its deadline, and Libra says: {verdict}")
        if not kept:
            self.broken.append(f"late: {name} ({job['kind']}) ended {said.end - due:.1f} s after its deadline: {record}")
        return "kept" if kept else "late"

    def together(self):
        """Of all jobs of a node, at each moment at which one begins."""
        runs, everywhere = collections.defaultdict(list), []
        for name, of_tasks in self.said.items():
            job = self.jobs[name]
            for task, said in of_tasks.items():
                if said.begin and said.end:
                    run = (said.begin, said.end, name, job, said)
                    everywhere.append(run)
                    for node in self.nodes_of(name, task, said):
                        runs[node].append(run)
                    self.seconds[job["kind"]] += said.end - said.begin
        licences = lambda of: int((LICENCES.search(" ".join(of["words"])) or [0, 0])[1])  # noqa: E731
        for begin, _, name, job, _ in everywhere:
            taken = sum(licences(other[3]) for other in everywhere if other[0] <= begin + 0.01 < other[1])
            if licences(job) and taken > self.evidence["licences"]:
                self.broken.append(f"licences: {taken} are in use as {name} begins")
        for node, found in runs.items():
            for begin, _, name, job, said in found:
                # By its own clock each: what has just ended may overlap with what begins by the time that a line takes.
                beside = [other for other in found if other[0] <= begin + 0.01 and other[1] > begin + 0.01]
                self.moment(node, name, job, said, beside)

    def whole(self, node, name):
        """Whole processors that a dedicated job was promised on a node."""
        has = self.commitment(next(iter(self.records[self.evidence["ids"][name]].values())))
        return sum(chunks * int(has["processors"]) for where, chunks in self.allocation(has) if where == node)

    def nodes_of(self, name, task, said):
        """The nodes that a job, or a task of an array, runs on: those that were committed, or that of its script and of its tasks."""
        records = self.records.get(self.evidence["ids"].get(name), {})
        has = self.commitment(records.get(task) or next(iter(records.values()), {"admin_comment": ""}))
        return {where for where, _ in self.allocation(has)} if self.jobs[name]["tasks"] == 1 and "at" in has else {said.node, *(where for where, _ in said.tasks)}

    @staticmethod
    def allocation(has):
        """[(node, chunks)] of a commitment."""
        return [(node, int(chunks)) for node, chunks, _ in (one.split("*") for one in has.get("at", "").split("+") if one)]

    @staticmethod
    def commitment(record):
        """{key: value} of what is committed; {} if nothing is (any more)."""
        kind, _, line = (record["admin_comment"] or "").split("|")[0].partition(":")
        return dict(pair.split("=", 1) for pair in line.split(":") if "=" in pair) if kind == "libra" else {}

    def moment(self, node, name, job, said, beside):
        wants = lambda of: int((GPUS.search(" ".join(of["words"])) or [0, 0])[1])  # noqa: E731
        gpus = sum(wants(other[3]) for other in beside)
        if gpus > self.evidence["gpus"]:
            self.broken.append(f"GPUs: {gpus} are in use on {node} as {name} begins")
        alone = [other[2] for other in beside if "--exclusive" in other[3]["words"]]
        if alone and len(beside) > 1:
            self.broken.append(f"exclusive: {alone} on {node}, with {[other[2] for other in beside]}")
        whole = {other[2]: self.whole(node, other[2]) for other in beside if other[3]["terms"].get("class") == "dedicated"}
        if sum(whole.values()) > self.evidence["processors"]:
            self.broken.append(f"processors: {node} has {self.evidence['processors']}, and gives whole ones to {whole}")
        if job["kind"] in ("mpi", "plain-mpi"):
            places = [(where, tuple(sorted(allowed))) for where, allowed in said.tasks]
            # A job that has not all of a node's processors runs on whichever are free.
            bound = job["kind"] == "plain-mpi" or job["words"][-1] == "1"
            if len(places) != 2 or len(set(places)) != 2 or (bound and any(len(allowed) != 1 for _, allowed in places)):
                self.broken.append(f"bound: the tasks of {name} ({job['kind']}) ran on {places}")

    # ---- for people

    COLUMNS = ("submitted", "promised", "kept", "late", "lost", "given back", "deleted", "refused", "plain", "not submitted")

    def table(self):
        """By kind, and what is broken."""
        rows = sorted(self.classes.items())
        rows.append(("all", sum((row for _, row in rows), collections.Counter())))
        self.seconds["all"] = sum(self.seconds.values())
        lines = ["| " + " | ".join(("kind", *self.COLUMNS, "hours run")) + " |", "| --- " * (2 + len(self.COLUMNS)) + "|"]
        lines += ["| " + " | ".join((name, *(str(row[column]) for column in self.COLUMNS), f"{self.seconds[name] / 3600:.2f}")) + " |" for name, row in rows]
        lines += ["", "refused: " + ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common())]
        if self.margins:
            self.margins.sort()
            lines.append(f"left of its deadline at a job's end: least {self.margins[0]:.0%}, half of all jobs less than {self.margins[len(self.margins) // 2]:.0%}")
        return "\n".join([*lines, f"{len(self.broken)} broken", *self.broken])


if __name__ == "__main__":
    judged = Audit(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    print(judged.table())
    sys.exit(1 if judged.broken else 0)
