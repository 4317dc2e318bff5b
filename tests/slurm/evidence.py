"""What is needed to understand a test that failed: its jobs as Slurm knows them, and what the daemons have written about them.

Asked while the cluster is still there, before the test takes down what it made.
"""

import re

MOST_JOBS, MOST_LINES = 3, 12
SHOWN = ("JobState", "Reason", "Restarts", "ExitCode", "RunTime", "TimeLimit", "SubmitTime", "StartTime", "EndTime", "Partition", "ReqNodeList", "NodeList", "NumCPUs", "NumTasks",
         "ArrayJobId", "ArrayTaskId", "HetJobId", "Comment", "AdminComment")


def evidence(slurm, text):
    """What the cluster can say to the failure `text`; never an exception, since whatever failed may be the cluster itself."""
    try:
        return "\n".join(said(slurm, text))
    except Exception as fault:  # pylint: disable=broad-except
        return f"(nothing from the cluster: {type(fault).__name__}: {fault})"


def said(slurm, text):
    """Lines about the jobs that the failure names, else about those that have not ended, else about the last one; what Libra wrote last, and what went wrong."""
    if slurm.directory is None or not slurm.directory.exists():
        return []
    known = slurm.jobs()
    chosen = [job for job in dict.fromkeys(re.findall(r"\bjob (\d+)", text)) if job in known]
    chosen = chosen or [job for job, has in known.items() if has["job_state"] in ("PENDING", "RUNNING")] or list(known)[-1:]
    lines = []
    for job in chosen[-MOST_JOBS:]:
        has = slurm.job(job)
        lines.append(f"---- {job}: " + " ".join(f"{key}={has[key]}" for key in SHOWN if key in has))
        for what in ("slurmctld", *slurm.nodes):
            about = [line for line in slurm.log(what).splitlines() if re.search(rf"(JobId=|job |Job ){job}(?!\d)", line)]
            if about:
                lines += [f"---- {job}: log of {what}", *(line[:400] for line in about[-MOST_LINES:])]
    for title, sought in (("Libra", "libra: "), ("errors", r"\] (error|fatal): ")):
        for what in ("slurmctld", *slurm.nodes):
            found = [line[:400] for line in slurm.log(what).splitlines() if re.search(sought, line)]
            if found:
                lines += [f"---- {title} in the log of {what}", *found[-MOST_LINES:]]
    return lines
