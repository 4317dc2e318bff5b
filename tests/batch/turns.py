"""Whose turn it is to measure processor time, between the processes of tests/batch/suite.py.

The suite makes a directory with three files and names it in LIBRA_TEST_TURNS; their locks go with the processes that hold them.
Without the variable a class runs alone, and nothing is waited for.
"""

import contextlib
import fcntl
import os
import pathlib
import time

VARIABLE = "LIBRA_TEST_TURNS"
# Held by the suite while classes run that measure nothing; by a measuring class while its cluster comes up; one for each processor.
QUIET, START, PROCESSORS = "quiet", "start", ("processor-0", "processor-1")


@contextlib.contextmanager
def held(name, how=fcntl.LOCK_EX):
    """Hold one of the locks, where there is a suite."""
    directory = os.environ.get(VARIABLE)
    if directory is None:
        yield
        return
    with open(pathlib.Path(directory) / name, "w", encoding="ascii") as file:
        fcntl.flock(file, how)
        yield


def take(processors, stack):
    """Wait until nothing else runs than measurements, and so many of the machine's two processors are nobody's; theirs until the stack is closed."""
    with held(QUIET, fcntl.LOCK_SH):
        pass
    if processors > 1:
        for name in PROCESSORS:
            stack.enter_context(held(name))
        return
    while True:
        for name in PROCESSORS:
            try:
                stack.enter_context(held(name, fcntl.LOCK_EX | fcntl.LOCK_NB))
                return
            except BlockingIOError:
                continue
        time.sleep(0.2)
