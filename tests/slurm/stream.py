"""A stream of jobs by chance that are all to end in time."""

import time

from libra_site import busy


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
