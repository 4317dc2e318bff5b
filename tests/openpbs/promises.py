"""What a test of Libra in OpenPBS asks again and again: how much is still to be had on a node, and where a job stands.

The book is inside pbs_server and shows itself only by what it admits. So what is left on a node is found by asking for a little
more, which must be refused, and for a little less, which must be accepted.
"""

import contextlib
import os
import re
import signal

MARGIN = 1.05  # what Libra puts on every estimate, by default
# A waiting job needs more the longer it waits: of a deadline this long a quarter of an hour is next to nothing.
LONG = 1_000_000
SLACK = 0.003


def terms(share, host=None, deadline=LONG, chunks=1):
    """Arguments for qsub: a job that needs this share of each of its processors."""
    where = f":host={host}" if host else ""
    spread = ["-l", "place=scatter"] if chunks > 1 else []
    return ["-l", f"deadline={deadline},estimate={share * deadline / MARGIN:.6f},budget=1000000000", "-l", f"select={chunks}:ncpus=1{where}", *spread]


def expect_free(test, pbs, free):
    """free: {node: processors that nobody was promised}. Neither more nor less is to be had. Nothing is started meanwhile."""
    scheduling = "scheduling = True" in pbs.must("qstat", "-B", "-f")
    pbs.qmgr("set server scheduling = false")
    for host, share in free.items():
        more = pbs.qsub(*terms(share + SLACK, host))
        test.assertEqual(more.rc, 32, f"{host} was to have {share} free, and more was accepted")
        # More than a whole processor is more than any deadline allows.
        test.assertIn("refused (share)" if share + SLACK < 1 else "refused (deadline)", more.err)
        if share > SLACK:
            less = pbs.qsub(*terms(share - SLACK, host))
            test.assertEqual(less.rc, 0, f"{host} was to have {share} free: {less.err}")
            test.assertEqual(pbs.qdel(less.out).rc, 0)
    if scheduling:
        pbs.qmgr("set server scheduling = true")


def libra_log(pbs, what="server"):
    """The lines that Libra's hooks have written into a log."""
    return [line.split("libra: ", 1)[1] for line in pbs.log(what).splitlines() if ";libra: " in line]


def verdict(pbs, job):
    """The line about the job's end: (met, seconds after which it ended). None if it is not there yet."""
    for line in libra_log(pbs):
        found = re.match(rf"job {re.escape(job)} (met|missed) its deadline.*: ended after (.+?) of ", line)
        if found:
            return found[1] == "met", seconds(found[2])
    return None


def seconds(text):
    """A duration as Libra writes it: 1h2m3.5s."""
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) ?([dhms])", text))


def quota(pbs, host, job):
    """The processors that the kernel holds a job to; None if it has no cgroup."""
    with contextlib.suppress(OSError):  # removed before it is opened, or before it is read
        group = pbs.cgroup(host, job)
        return int((group / "cpu.cfs_quota_us").read_text()) / int((group / "cpu.cfs_period_us").read_text())
    return None


def processes(pbs, host, job):
    """Numbers of the processes in a job's cgroup."""
    return processes_of(pbs.cgroup(host, job))


def processes_of(group):
    """Numbers of the processes in a cgroup; of one that is gone, or goes meanwhile, none."""
    with contextlib.suppress(OSError):
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    return []


def pause(pbs, host, job, on=True):
    """Stop a job's processes, or let them go on."""
    for pid in processes(pbs, host, job):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP if on else signal.SIGCONT)


def started_in_cgroup(pbs, host, job, runs=1):
    """Wait until a job's processes run in its cgroup, and PBS knows it (see wait_started); their numbers."""
    pbs.wait_started(job, runs=runs)
    return pbs.wait(f"{job} has processes in its cgroup", lambda: processes(pbs, host, job))


def free_nodes(pbs):
    """Wait until all nodes are up."""
    for host in pbs.host_names:
        pbs.wait(f"node {host} free", lambda host=host: pbs.node(host).get("state") in ("free", "job-busy"))

