"""What is needed to understand a test that failed: its jobs as PBS knows them, and what the daemons have written about them.

Asked while the cluster is still there, before the test takes down what it made.
"""

import contextlib
import os
import pathlib
import re

from client import attributes

MOST_JOBS, MOST_LINES, MOST_BEFORE = 3, 40, 12
FAULT = "fault in libra_"
# Of a daemon that was started anew meanwhile, or a host that was not there.
ALWAYS = re.compile(r"initialization type|ReplyHello|node (?:up|down)|Server@\S+;(?:Starting|Server Ready)|Restarting Python|scheduler (?:dis)?connected")


def evidence(pbs, text):
    """What the cluster can say to the failure `text`; never an exception, since whatever failed may be the cluster itself."""
    try:
        return "\n".join(said(pbs, text))
    except Exception as fault:  # pylint: disable=broad-except
        return f"(nothing from the cluster: {type(fault).__name__}: {fault})"


def at_work(pid):
    """In what of the kernel each thread of a process waits, and its connections; what has ended meanwhile, or is not to be read, is left out."""
    if pid is None:
        return ["it is gone"]
    process, lines, sockets = pathlib.Path(f"/proc/{pid}"), [], set()
    with contextlib.suppress(OSError):
        for thread in (process / "task").iterdir():
            with contextlib.suppress(OSError):
                lines.append(f"thread {thread.name}: {(thread / 'wchan').read_text()}")
                lines[-1] += f", system call {(thread / 'syscall').read_text().strip()}"
        for file in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(file).removeprefix("socket:[").removesuffix("]"))
        # Its address, the other's, the state: 01 is connected, 08 that the other has ended it.
        found = [line.split() for line in (process / "net/tcp").read_text().splitlines()[1:]]
        lines += [f"connection {fields[1]} {fields[2]} {fields[3]}" for fields in found if fields[9] in sockets]
    return lines


def said(pbs, text):
    """Lines about the jobs that the failure names, else about those that have not ended, else about the last one."""
    if pbs.directory is None or not pbs.directory.exists():
        return []
    known = attributes(pbs.run("qstat", "-x", "-f", "-w").out)  # whatever there is: the server may be gone
    chosen = [job for job in dict.fromkeys(re.findall(r"\b\d+(?:\[\d*\])?\.[\w-]+", text)) if job in known or "[" in job]
    chosen = chosen or [job for job, has in known.items() if has.get("job_state") not in ("F", "X")] or list(known)[-1:]
    logs = {what: pbs.log(what).splitlines() for what in ("server", *pbs.host_names, "sched")}
    lines = []
    for what, all_lines in logs.items():
        # What PBS itself says of it stands before.
        for number in [number for number, line in enumerate(all_lines) if FAULT in line and FAULT in text][-2:]:
            lines.append(f"---- a fault: log of {what}")
            lines += [line[:400] for line in all_lines[max(number - MOST_BEFORE, 0):number + 3]]
    for job in chosen[-MOST_JOBS:]:
        # What tells most comes first: of a long passage the end may be lost.
        for what, all_lines in reversed(logs.items()):
            about = [line for line in all_lines if job in line]
            if about:
                lines.append(f"---- {job}: log of {what}")
                lines += [line[:400] for line in all_lines if job in line or (line >= about[0] and ALWAYS.search(line))][-MOST_LINES:]
        lines.append(f"---- {job}: qstat -f")
        lines += [line for line in pbs.run("qstat", "-x", "-f", "-w", job).out.splitlines() if "Variable_List" not in line]
    # A scheduler that is not there, or waits for ever, says nothing of any job.
    lines += ["---- the scheduler: its process, what the server says of it, and the last of its log", *at_work(pbs.scheduler_pid()),
              *re.findall(r"^ +state = .*", pbs.run("qmgr", "-c", "list sched").out, re.MULTILINE), *(line[:400] for line in logs["sched"][-MOST_BEFORE:])]
    return lines
