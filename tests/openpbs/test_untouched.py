#!/usr/bin/env python3
"""Users who know nothing of deadlines: what they write for PBS is taken, refused and placed as on a server without Libra.

The lines of `directives` go to one server by PBS's own qsub, and then, after `libra pbs install`, by Libra's. Every attribute that PBS shows of each job is
compared, and every word of a refusal. What differs by design is in `as_documented`, the rule of docs/pbs-install.md; all else is a difference.

Run as root: `python3 tests/openpbs/test_untouched.py`.
"""

import pathlib
import re
import shlex
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import directives  # noqa: E402
from case import SiteCase  # noqa: E402
from client import STARTED  # noqa: E402

# What two submissions of the same line do not share on one server either: times, numbers, and how far a job has come.
OWN = ("ctime", "mtime", "qtime", "etime", "stime", "session_id", "queue_rank", "eligible_time", "accrue_type", "hashname", "run_count", "run_version", "substate", "jobdir",
       "estimated.start_time", "array_state_count", "array_indices_remaining", "Variable_List", "history_timestamp")

# Beside nodes for oneself: words that are no node and not true or false, and resources of chunks beside nodes.
LEFT_ALONE = ("-l nodes=1:color", "-l nodes=1:ppn=2,vmem=1gb", "-l nodes=1:ppn=2 -l ngpus=1")


def chunks(select):
    """[(how many, {resource: value})]"""
    found = []
    for chunk in select.split("+"):
        words = chunk.split(":")
        count = int(words.pop(0)) if words[0].isdigit() else 1
        found.append((count, dict(word.split("=", 1) for word in words)))
    return found


def places(exec_vnode):
    """[(vnode, {resource: amount})]"""
    found = [part.split(":") for part in re.split(r"[()+]+", exec_vnode) if part]
    return [(words[0], dict(word.split("=", 1) for word in words[1:])) for words in found]


def beside_others(resources, with_processes):
    """A chunk whose processors are counted apart: `ncpus` is 0, and what PBS derives from it is said."""
    processors = int(resources.get("ncpus", 1))
    changed = {**resources, "ncpus": "0"}
    if processors:
        changed |= {"libra_besteffort": str(processors)}
        if with_processes:
            changed = {"mpiprocs": "1", "ompthreads": str(processors), **changed}
    return changed


def as_documented(line, record):
    """What a record of PBS's alone is to be with Libra: the table in docs/pbs-install.md."""
    record = dict(record)
    if "excl" in record["Resource_List.place"] or line in LEFT_ALONE:
        return record
    for key in ("schedselect", "Resource_List.select"):
        record[key] = [(count, beside_others(resources, True)) for count, resources in record[key]]
    if "exec_vnode" in record:
        record["exec_vnode"] = [(vnode, beside_others({"ncpus": "0", **resources}, False)) for vnode, resources in record["exec_vnode"]]
    processors = int(record["Resource_List.ncpus"])
    if processors:
        in_all = lambda key: sum(count * int(resources.get(key, 0)) for count, resources in record["schedselect"])  # noqa: E731
        record |= {"Resource_List.ncpus": "0", "Resource_List.libra_besteffort": str(processors), "Resource_List.mpiprocs": str(in_all("mpiprocs"))}
        # PBS makes its one chunk of what stands there.
        if not re.search("select=|nodes=", line):
            record["Resource_List.ompthreads"] = record["schedselect"][0][1]["ompthreads"]
    # It has become chunks.
    record.pop("Resource_List.nodes", None)
    if "comment" in record:
        # PBS knows how many processors there are in all, by one name alone.
        never = re.sub(r"^Can Never Run: (Insufficient amount of resource: )ncpus \(R: \d+ A: 12 T: 12\)", r"Not Running: \1libra_besteffort ", record["comment"])
        record["comment"] = never.replace("resource: ncpus", "resource: libra_besteffort")
    return record


class Written:
    """Lines of `directives`, on three hosts of four processors."""

    good, bad = (), ()
    site = {"hosts": 3, "processors": 4}
    seconds = 3600

    @classmethod
    def prepare(cls):
        pbs = cls.pbs
        pbs.uninstall()
        third = pbs.host_names[2]
        pbs.qmgr(*(f"create resource {name} type={kind}" for name, kind in (
            ("ngpus", "long,flag=nh"), ("lic", "long,flag=q"), ("color", "string,flag=h"), ("bigmem", "boolean,flag=h"))))
        pbs.qmgr("set server resources_available.lic = 5",
                 *(f"set node {third} resources_available.{name} = {value}" for name, value in (("ngpus", 2), ("color", "blue"), ("bigmem", True))))
        pbs.schedule_by("ngpus", "lic", "color", "bigmem")
        cls.front = pbs.directory / "front/qsub"
        cls.front.parent.mkdir(mode=0o755)
        cls.front.symlink_to(pbs.libra)

    def arguments(self, line):
        names = dict(zip(("H1", "H2", "H3"), self.pbs.host_names), USER=self.pbs.users[0], SERVER=self.pbs.server_name)
        return shlex.split(re.sub(r"\b(H[123]|USER|SERVER)\b", lambda found: names[found[0]], line))

    def outcome(self, line, qsub):
        """What becomes of a submission to an idle cluster: qsub's exit status and words, or all that PBS says of the job once it runs or waits."""
        pbs = self.pbs
        answer = pbs.qsub(*self.arguments(line), program=qsub)
        if answer.rc != 0:
            return {"exit": answer.rc, "said": answer.err}
        job = answer.out
        record = pbs.wait_job(job, "runs, or is said to wait", self.is_placed)
        # One whose dependency cannot be met ends by itself meanwhile.
        pbs.wait(f"{job} is gone", lambda: pbs.qdel("-Wforce", "-x", job) and not pbs.qstat(job))
        return self.shown(record, job)

    @staticmethod
    def is_placed(record):
        """Runs on all its hosts, or waits and says so. One that is deleted while it begins stays on its other hosts, by PBS's own doing."""
        state = record.get("job_state")
        return state in ("B", "H", "W", "F") or record.get("substate") == STARTED or (state == "Q" and record.get("comment"))

    def shown(self, record, job):
        shown = {key: value for key, value in record.items() if key not in OWN and not key.startswith("resources_used.")}
        number = re.match(r"\d+", job)[0]
        for key in ("Error_Path", "Output_Path"):
            shown[key] = re.sub(rf"(?<=[eo]){number}(?=$|\.)", "N", shown[key])
        for key in ("schedselect", "Resource_List.select"):
            shown[key] = chunks(shown[key])
        # Of one that waits since its files could not be fetched: half an hour from then.
        if "stagein" in shown and "Execution_Time" in shown:
            shown["Execution_Time"] = "later"
        if "comment" in shown:
            shown["comment"] = re.sub(r"^(Job Array Began) at .*", r"\1", shown["comment"])
        if "exec_vnode" in shown:
            shown["exec_vnode"] = places(shown["exec_vnode"])
            # "Job run at … on …": the hosts, which are there already.
            del shown["comment"]
            # Which of the host's processors are its: a number, and how many.
            shown["exec_host"] = re.sub(r"\*\d+", "", shown["exec_host"])
        return shown

    def compare(self, lines):
        differences = []
        for line in lines:
            without, with_libra = self.without[line], self.with_libra[line]
            expected = without if "exit" in without else as_documented(line, without)
            for key in sorted({*expected, *with_libra}):
                if expected.get(key) != with_libra.get(key):
                    differences.append(f"{line!r}: {key} is {without.get(key)!r} without Libra, {with_libra.get(key)!r} with it, expected {expected.get(key)!r}")
        taken = sum("exit" not in self.without[line] for line in lines)
        print(f"  {len(lines)} lines, {taken} of them taken without Libra; {len(differences)} differences")
        self.assertEqual(differences, [], "\n" + "\n".join(differences))

    def test_what_is_written_for_pbs(self):
        """All of it before Libra is installed, and then after."""
        good, bad = directives.all_of(*self.good), directives.all_of(*self.bad)
        self.without = {line: self.outcome(line, "qsub") for line in (*good, *bad)}
        self.pbs.install()
        self.with_libra = {line: self.outcome(line, self.front) for line in (*good, *bad)}
        for what, lines in (("what PBS has", good), ("what cannot be had", bad)):
            if lines:
                with self.subTest(what):
                    self.compare(lines)


# One after the other takes a job's whole way through PBS, twice for each line; clusters of their own go side by side.
class Chunks(Written, SiteCase):
    """`select` and `place`."""

    good = (directives.SELECT, directives.PLACE)


class OldWays(Written, SiteCase):
    """`nodes=…:ppn=…` and resources of the whole job."""

    good = (directives.OLD,)


class Others(Written, SiteCase):
    """What is not about nodes, and what is refused."""

    good, bad = (directives.OTHERS,), (directives.NOT_HERE,)


if __name__ == "__main__":
    unittest.main(verbosity=2)
