"""What a test of Libra in Slurm asks again and again: how much is still to be had on a node, and a stream of jobs that are all to end in time.

The book is inside slurmctld and shows itself only by what it admits. So what is left on a node is found by asking for a little more, which must be refused, and
for a little less, which must be accepted.
"""

import time

from case import MARGIN
from libra_site import busy

LONG = 100_000  # a deadline of which a minute is next to nothing
SLACK = 0.003


def terms(share, node=None, deadline=LONG):
    """Arguments for sbatch: a job that needs this share of its processor."""
    where = ["-w", node] if node else []
    return [f"--sla-deadline={deadline}", f"--estimate={share * deadline / MARGIN:.6f}", "--budget=unlimited", *where]


def expect_free(test, slurm, free, patience=20.0):
    """free: {node: processors that nobody was promised}. Neither more nor less is to be had, at the latest after the next looks at the queue."""
    for node, share in free.items():
        def more_is_refused(node=node, share=share):
            more = slurm.sbatch(*terms(share + SLACK, node))
            if more.rc == 0:
                slurm.scancel(more.out)
            return more.rc != 0 and more
        more = slurm.wait(f"no more than {share} free on {node}", more_is_refused, patience)
        # More than a whole processor is more than any deadline allows.
        test.assertIn("refused (share)" if share + SLACK < 1 else "refused (deadline)", more.err)
        if share > SLACK:
            less = slurm.wait(f"{share} free on {node}", lambda node=node, share=share: (answer := slurm.sbatch(*terms(share - SLACK, node))).rc == 0 and answer, patience)
            test.assertEqual(slurm.scancel(less.out).rc, 0)


def stream(test, chance, seconds, pause):
    """Submit jobs for so many seconds, of all sorts, some of which need more than they said: [(job, does it keep its estimate?)] of those that were accepted, and how many were refused.

    Most work needs clearly less than its estimate: programs start, and the machine is not theirs alone.
    """
    accepted, refused, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        estimate = round(chance.uniform(2, 5), 2)
        deadline = round(estimate * chance.uniform(2, 6) + 1, 2)
        honest = chance.random() < 0.8
        options = chance.choice([[], [], ["--array=1-2"], ["-N2"]])
        work = busy(round(estimate * (0.7 if honest else 2.0), 2))
        answer = test.ask(estimate, deadline, *options, script=work, budget=chance.choice([8, 20, 1000]))
        if answer.rc == 0:
            jobs = [f"{answer.out}_{task}" for task in (1, 2)] if "--array=1-2" in options else [answer.out]
            accepted += [(job, honest) for job in jobs]
        else:
            test.refused(answer, "libra: refused (")
            refused += 1
        time.sleep(chance.uniform(0, 2 * pause))
    return accepted, refused
