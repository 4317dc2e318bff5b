"""What the tests of faults ask again and again: how much is still to be had on a node, what slurmctld has, and where a job stands.

The book is inside slurmctld and shows itself only by what it admits. So what is left on a node is found by asking for a little more, which must be
refused, and for a little less, which must be accepted.
"""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import struct

MARGIN = 1.05  # what Libra puts on every estimate, by default
# A waiting job needs more the longer it waits: of a deadline this long a quarter of an hour is next to nothing.
LONG = 1_000_000
SLACK = 0.003
# Nothing is started: what was accepted stays in the queue.
STILL = "defer,sched_interval=-1,bf_interval=-1"
GONE = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


def terms(share, node=None, deadline=LONG):
    """Arguments of sbatch: a job that needs this share of each of its processors."""
    where = ["-w", node] if node else []
    return [f"--estimate={share * deadline / MARGIN:.6f}", f"--sla-deadline={deadline}", "--budget=1000000000", *where]


def expect_committed(test, slurm):
    """What slurmctld has on record is what is taken: neither more nor less is to be had beside it."""
    expect_free_beside(test, slurm, lambda: counted(slurm), lambda found: {node: 1 - taken for node, taken in committed(slurm, found).items()})


def expect_free_beside(test, slurm, look, free):
    """look: what is there, {name: what of it}; free: what is to be had beside it, as in `expect_free`. Right after a kill what is there changes by itself (slurmctld
    holds what it could not launch), and then what was looked at meanwhile says nothing."""
    def agrees():
        before, known = look(), set(slurm.jobs())
        try:
            expect_free(test, slurm, free(before))
        except AssertionError:
            after = look()
            if all(after.get(job) == what for job, what in before.items()):
                raise
            # What was accepted to try it.
            slurm.scancel(*(set(slurm.jobs()) - known))
            return False
        return True

    slurm.wait("what is there is what is taken", agrees, 600)


def expect_free(test, slurm, free):
    """free: {node: processors that nobody was promised}. Neither more nor less is to be had."""
    def ask(share, node):
        """A node that has only just come back may not be known to take new jobs; and who has just taken over may have to wait until the ledger is its own."""
        def judged():
            answer = slurm.sbatch(*terms(share, node))
            return None if any(text in answer.err for text in ("no node takes new jobs now", "accounting unavailable")) else answer
        return slurm.wait(f"{node} takes new jobs", judged)

    def more(node, share):
        asked = ask(share + SLACK, node)
        test.assertEqual(asked.rc, 1, f"{node} was to have {share} free, and more was accepted ({asked.out}, {holding(slurm)})")
        # More than a whole processor is more than any deadline allows.
        test.assertIn("refused (share)" if share + SLACK < 1 else "refused (deadline)", asked.err)

    def less(node, share):
        if share <= 2 * SLACK:  # less than that is no job
            return None
        asked = ask(share - SLACK, node)
        test.assertEqual(asked.rc, 0, f"{node} was to have {share} free: {asked.err} ({holding(slurm)})")
        return asked.out

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(more, *zip(*free.items())))
        accepted = [job for job in pool.map(less, *zip(*free.items())) if job]
    if not accepted:
        return
    # The book must have had each of them before it can notice that they are gone.
    slurm.wait("the book has them", lambda: set(accepted) <= set(slurm.booked()))
    slurm.must("scancel", *accepted)
    slurm.wait("the book is rid of them", lambda: not set(accepted) & set(slurm.booked()))
    slurm.wait("their epilogs are over", lambda: not set(accepted) & set(holding(slurm)))


def holding(slurm):
    """What slurmctld has that has a commitment and has not ended: {name: its line}, by the name that it has in the book."""
    return {job: line(has) for job, has in slurm.jobs().items() if promised(has)}


def promised(has):
    return has["admin_comment"].startswith("libra:") and has["job_state"] not in GONE


def line(has):
    return has["admin_comment"].removeprefix("libra:")


def held_again(has):
    """It was requeued and is held, as slurmctld itself does with what could not be launched: nothing stays reserved for it."""
    return has["job_state"] == "PENDING" and has["priority"] == 0 and has["restart_cnt"] > 0


def commitment(line):
    """{key: value} of a line of the commitment."""
    return dict(pair.split("=", 1) for pair in line.split(":"))


def counted(slurm):
    """What has not ended and has something reserved: {name: its line}."""
    return {job: line(has) for job, has in slurm.jobs().items() if promised(has) and not held_again(has)}


def committed(slurm, found):
    """{node: processors that are committed} by these lines."""
    total = dict.fromkeys(slurm.nodes, 0.0)
    for has in map(commitment, found.values()):
        for place in has["at"].split("+"):
            node, chunks, share = place.split("*")
            total[node] += int(chunks) * int(has["processors"]) * float(share)
    return total


def committed_on(slurm):
    """The same of all jobs that have not ended."""
    return committed(slurm, counted(slurm))


def tokens(slurm):
    """Tokens of what has not ended, sorted: each once, or something was doubled."""
    return sorted(int(commitment(line)["token"]) for line in holding(slurm).values())


def saved_at(slurm):
    """When slurmctld has last written down its jobs, by its own clock in whole seconds (0: never), and what. The file begins with its format (a text
    with its length, and a number of 16 bits) and this time."""
    try:
        state = (slurm.directory / "state/job_state").read_bytes()
    except FileNotFoundError:
        return 0, b""
    (length,) = struct.unpack(">I", state[:4])
    return struct.unpack(">q", state[4 + length + 2:][:8])[0], state


def is_saved(slurm, *jobs):
    """slurmctld has written down these jobs as they are, and what has ended: a kill does not lose them, does not start anew what runs (slurmd would
    drain the node for it: "Duplicate jobid"), and brings back nothing that was cancelled."""
    when, state = saved_at(slurm)
    asked = {job: has for job, has in slurm.jobs().items() if {job, str(has["array_job_id"])} & set(jobs)}
    begun = [has["start_time"] for has in asked.values() if has["job_state"] == "RUNNING"]
    ended = [has["end_time"] for has in slurm.jobs().values() if has["job_state"] in GONE]
    if when <= max(begun + ended, default=0):
        # What backfill starts it does not write down by itself; a job that is changed it does, with all others.
        there = [job for job, has in asked.items() if has["job_state"] not in GONE]
        if there:
            slurm.scontrol("update", f"jobid={there[-1]}", "comment=saved")
        return False
    return all(f"token={commitment(line)['token']}:".encode() in state for job, line in holding(slurm).items() if job in jobs)


def resident(pid):
    """kB of a process's own memory; pages of files do not count."""
    return int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def peak_during(pid, act):
    """kB by which a process's memory rose at most while something was done, above what it had before."""
    proc = pathlib.Path(f"/proc/{pid}")
    has = lambda name: int(re.search(rf"{name}:\s+(\d+)", (proc / "status").read_text())[1])  # noqa: E731
    (proc / "clear_refs").write_text("5")  # the peak is what it has now
    before = has("VmRSS")
    act()
    return has("VmHWM") - before


def pause(test, job, node, on=True):
    """Stop a job's processes, or let them go on."""
    for pid in test.processes(job, node):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP if on else signal.SIGCONT)
