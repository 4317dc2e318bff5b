"""What a run has shown: evidence of what is broken, a file of figures for programs, and a short table for people."""

import json
import os
import platform
import re
import statistics
import subprocess
import time

from audit import Broken

# Evidence has an end: so many broken rules have it, and of each log so much.
MOST, TAIL = 24, 200_000
# kB an hour that the own memory of a daemon may grow in the second half of a run. pbs_server: its hooks' interpreter is begun anew up to 120 times
# an hour, for some 16 to 27 kB each (docs/performance.md). malloc's arenas come to rest only after some thousand submissions.
BOUNDS = {"slurmctld": 6000, "pbs_server": 8000, "pbs_mom": 4000, "slurmd": 2000, "agent": 1000, "account": 2000}
# A slope over less says nothing.
LEAST_SECONDS = 1800


class Evidence:
    """One directory for each broken rule, below `directory`."""

    def __init__(self, directory):
        self.directory, self.known, self.odd = directory, {}, []

    def keep(self, broken, site, truth, audit):
        """What is still broken after an audit. A rule that is broken for the same thing again is the same."""
        for one in broken:
            seen = self.known.setdefault((one.rule, one.subject), {"rule": one.rule, "subject": one.subject, "text": one.text[:2000], "first": time.time() - truth.began, "times": 0})
            seen["last"], seen["times"] = time.time() - truth.began, seen["times"] + 1
            if "evidence" not in seen and len([1 for other in self.known.values() if "evidence" in other]) < MOST:
                seen["evidence"] = str(self.write(one, site, truth, audit))

    def keep_odd(self, site, truth, audit):
        """What is the batch system's own, and was repaired."""
        while site.odd:
            task, text = site.odd.pop(0)
            where = self.write(Broken("odd", task.name, text), site, truth, audit) if len(self.odd) < MOST else None
            self.odd.append({"at": round(time.time() - truth.began), "text": text[:1000], "evidence": str(where)})

    def write(self, one, site, truth, audit):
        """The directory."""
        where = self.directory / f"evidence-{len([1 for other in [*self.known.values(), *self.odd] if 'evidence' in other]) + 1:02}-{one.rule}"
        where.mkdir(parents=True)
        # The numbers and names of jobs that the rule is about, and all that the truth knows of them.
        words = set(re.findall(r"\bs\d+\b", f"{one.subject} {one.text}"))
        about = [found for found in truth.submissions.values() if found.name in words or any(key in one.subject + one.text for key in found.commitments)]
        about += [found for found in truth.submissions.values() if found.job and re.search(rf"(?<![\w.:-]){re.escape(re.split(r'[.[]', found.job)[0])}(?![\w:-])", one.subject)]
        about = list({found.name: found for found in about}.values())[:8]
        lines = [str(one), "", *map(str, about), ""]
        numbers = {re.split(r"[.\[_]", found.job)[0] for found in about if found.job} | {task.host_name for task in audit.tasks if task.submission in {found.name for found in about}}
        for number in sorted(numbers):
            lines.append(f"---- {number}\n{site.show(number)}")
        lines.append("---- all that is there\n" + "\n".join(map(str, audit.tasks[:300])))
        (where / "what").write_text("\n".join(lines))
        wanted = re.compile("|".join([rf"(?:JobId=|[Jj]ob |job-|;|libra: job ){re.escape(number)}(?![\d])" for number in numbers] + [re.escape(found.name) + r"\b" for found in about] or ["(?!)"]))
        for file in [*site.all_logs(), truth.path]:
            text = tail(file, 50 * TAIL)
            own = "\n".join(line[:600] for line in text.splitlines() if wanted.search(line))
            name = re.sub(r"\W+", "-", str(file).rsplit("/srv/", maxsplit=1)[-1])[-80:]
            (where / f"{name}.about").write_text(own[-TAIL:])
            (where / f"{name}.tail").write_text(text[-TAIL:])
        return where


def tail(file, size):
    """The end of a file."""
    with open(file, "rb") as opened:
        opened.seek(max(0, os.path.getsize(file) - size))
        return opened.read().decode(errors="replace")


def memory(samples, seconds):
    """{daemon: figures} of [(second, {daemon: (pid, kB)}, jobs kept)]. The slope is of the process that has lived longest in the second half."""
    found = {}
    for name in sorted({name for _, daemons, _ in samples for name in daemons}):
        points = [(at, *daemons[name]) for at, daemons, _ in samples if name in daemons]
        lives = {}
        for at, pid, kilobytes in points:
            if at >= seconds / 2:
                lives.setdefault(pid, []).append((at, kilobytes))
        longest = max(lives.values(), key=lambda life: life[-1][0] - life[0][0], default=[])
        slope, lasted = None, longest[-1][0] - longest[0][0] if longest else 0
        if len(longest) > 3:
            slope = round(statistics.linear_regression(*zip(*longest)).slope * 3600)
        bound = next((kilobytes for prefix, kilobytes in BOUNDS.items() if name.startswith(prefix)), None)
        middle = min(points, key=lambda point: abs(point[0] - seconds / 2))
        found[name] = {"start_kb": points[0][2], "middle_kb": middle[2], "end_kb": points[-1][2], "most_kb": max(point[2] for point in points), "processes": len({pid for _, pid, _ in points}),
                       "slope_kb_per_hour": slope, "slope_over_seconds": round(lasted), "bound_kb_per_hour": bound,
                       "grows": bool(bound and slope is not None and lasted >= LEAST_SECONDS and slope > bound)}
    return found


def figures(soak):
    """All of one system's run, to be written as JSON."""
    truth, audit = soak.truth, soak.audit
    kinds = {}
    for one in truth.submissions.values():
        kind = kinds.setdefault(one.kind, {})
        verdict = one.verdict or "not-asked"
        kind[verdict] = kind.get(verdict, 0) + 1
    refused, failed = {}, {}
    for one in truth.submissions.values():
        if one.verdict in ("refused", "failed"):
            reasons = refused if one.verdict == "refused" else failed
            reasons[one.reason] = reasons.get(one.reason, 0) + 1
    money = audit.money
    accepted = [one for one in truth.submissions.values() if one.verdict == "accepted"]
    return {"system": soak.site.name, "versions": versions(soak.site), "seed": soak.seed, "seconds": soak.seconds, "lasted": round(time.time() - truth.began),
            "began": time.strftime("%Y-%m-%d %H:%M", time.localtime(truth.began)), "submissions": len(truth.submissions), "accepted": len(accepted), "jobs": sum(one.tasks for one in accepted),
            "kinds": kinds, "refused": refused, "no_answer": failed, "done": dict(sorted(truth.counts.items())),
            "holds": len(money.held) if money else 0, "settlements": money.settlements if money else 0, "settled_as": dict(money.notes) if money else {},
            "charged_credits": sum(money.charged.values()) / 1e6 if money else 0, "lines_of_verdicts": sum(count for of, count in audit.verdicts.lines.items() if of.startswith("user:")),
            "faults_in_the_log": dict(audit.verdicts.faults.most_common(20)), "quiet_points": soak.quiet_points, "memory": memory(soak.samples, soak.seconds),
            "samples": [{"at": round(at), "jobs_kept": kept, **{name: kilobytes for name, (_, kilobytes) in daemons.items()}} for at, daemons, kept in soak.samples],
            "broken": list(soak.evidence.known.values()), "odd": soak.evidence.odd, "harness": soak.troubles, "evidence": str(soak.evidence.directory)}


def versions(site):
    """What was run."""
    libra = subprocess.run([site.program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    command = ["scontrol", "--version"] if site.name == "slurm" else ["qstat", "--version"]
    return {"libra": libra, "system": site.cluster.run(*command).out.strip(), "kernel": platform.release(), "processors": os.cpu_count()}


def is_sound(found):
    """Nothing is broken, and nothing grows."""
    return not found["broken"] and not found["harness"] and not [1 for has in found["memory"].values() if has["grows"]]


def table(found):
    """A page of text."""
    listed = lambda counts: ", ".join(f"{key} {value}" for key, value in sorted(counts.items(), key=lambda pair: -pair[1])) or "none"  # noqa: E731
    done = found["done"]
    kills = {key: value for key, value in done.items() if key.startswith(("kill", "power", "stop", "deposit-killed")) and not key.endswith("failed")}
    told = ("accepted", "refused", "plain", "failed")
    lines = [f"== {found['system']}: {found['lasted']} s, seed {found['seed']}, {found['versions']['system']}, {found['versions']['libra']}",
             f"submissions      {found['submissions']}, of which accepted {found['accepted']} ({found['jobs']} jobs), without terms {done.get('plain', 0)}",
             f"refused          {listed(found['refused'])}",
             f"no answer        {listed({'in all': sum(found['no_answer'].values())})}; accepted all the same {done.get('accepted-without-an-answer', 0)}",
             f"killed           {listed(kills)}",
             f"done             {listed({key: value for key, value in done.items() if key not in kills and key not in told})}",
             f"settlements      {found['settlements']} of {found['holds']} holds: {listed(found['settled_as'])}",
             f"charged          {found['charged_credits']:.2f} credits, {found['lines_of_verdicts']} lines in the log",
             f"quiet points     {len(found['quiet_points'])}, settled after {listed_seconds(found['quiet_points'])} s",
             "memory, kB       " + f"{'':16}{'start':>8}{'middle':>8}{'end':>8}{'most':>8}{'kB/h':>8}{'over s':>8}{'bound':>8}"]
    for name, has in found["memory"].items():
        slope = "" if has["slope_kb_per_hour"] is None else has["slope_kb_per_hour"]
        lines.append(f"                 {name:16}{has['start_kb']:>8}{has['middle_kb']:>8}{has['end_kb']:>8}{has['most_kb']:>8}{slope:>8}{has['slope_over_seconds']:>8}{has['bound_kb_per_hour'] or '':>8}"
                     + ("  GROWS" if has["grows"] else ""))
    for one in found["broken"]:
        lines.append(f"BROKEN           {one['first']:.0f} s to {one['last']:.0f} s, at {one['times']} quiet points: {one['rule']}: {one['subject']}: {one['text'][:300]} ({one.get('evidence', 'no evidence kept')})")
    for one in found["odd"]:
        lines.append(f"odd              {one['at']} s: {one['text'][:200]} ({one['evidence']})")
    lines += [f"HARNESS          {trouble[-600:]}" for trouble in found["harness"]]
    lines.append(f"{found['system']}: " + ("nothing is lost, nothing doubled, nothing grows" if is_sound(found) else f"{len(found['broken'])} broken; evidence in {found['evidence']}"))
    return "\n".join(lines)


def listed_seconds(points):
    """Median and longest."""
    took = [point["seconds"] for point in points] or [0]
    return f"{statistics.median(took):.0f} (median), {max(took):.0f} (longest)"


def write(found, file):
    file.write_text(json.dumps(found, indent=1) + "\n")
