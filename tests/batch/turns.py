"""Whose turn it is to measure processor time, among all processes of this machine that test with throw-away clusters.

Locks of files in one directory, which go with the processes that hold them: several suites may run side by side, and whoever measures is alone
with other measurements.
"""

import contextlib
import fcntl
import os
import pathlib
import threading
import time

import limits

DIRECTORY = pathlib.Path(os.environ.get("LIBRA_TEST_TURNS", "/run/libra-test-turns"))
# Held together by everything that uses processors and measures nothing; together by all that measure; by a measuring class while its cluster
# comes up; one for each processor.
NOISE, MEASURING, START, PROCESSORS = "noise", "measuring", "start", ("processor-0", "processor-1")
# Who has it looks for a place.
QUEUE = "queue"
# One for each cluster that works at the same time. They wait more than they work: with three for each processor, and all other steps
# beside them, processors were busy for little more than half of the time.
PLACES = tuple(f"place-{number}" for number in range(4 * len(os.sched_getaffinity(0))))
# As long as two whole suites on a slow machine.
PATIENCE = 7200
# Set when this process is being ended: no thread of it waits any longer.
ENDING = threading.Event()


def attempt(name, how):
    """The locked file, None if somebody else has it."""
    DIRECTORY.mkdir(mode=0o755, exist_ok=True)
    file = open(DIRECTORY / name, "a", encoding="ascii")  # pylint: disable=consider-using-with
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def until(what, names, question):
    """Asks until the answer is true; the answer. `what` and the locks that it is about are for the message if it never is."""
    deadline = time.monotonic() + PATIENCE
    with limits.paused():
        while not (answer := question()):
            if ENDING.is_set():
                raise InterruptedError(f"ended while waiting for {what}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {PATIENCE} s still not: {what}; who holds {' or '.join(str(DIRECTORY / name) for name in names)} is shown by 'fuser -v'")
            time.sleep(0.5)
    return answer


def wait(what, names, how):
    """Whichever of these locks is free first."""
    return until(what, names, lambda: next(filter(None, (attempt(name, how) for name in names)), None))


@contextlib.contextmanager
def held(name, how=fcntl.LOCK_EX):
    """Hold one of the locks."""
    with wait(f"the lock '{name}'", [name], how):
        yield


@contextlib.contextmanager
def noise():
    """While this is held nobody begins to measure; it begins when nobody measures."""
    with held(MEASURING):
        file = wait("the lock 'noise'", [NOISE], fcntl.LOCK_SH)
    with file:
        yield


@contextlib.contextmanager
def place():
    """One of the places for clusters that work at the same time, of all suites together."""
    # One at a time looks for a place. Else whoever has just left one would be the first to see that it is free, and a suite would keep all places until
    # it has ended.
    with held(QUEUE):
        file = wait("a place among the clusters that work", PLACES, fcntl.LOCK_EX)
    with file:
        yield


def take(processors, stack):
    """Wait until nothing else runs than measurements, and so many of the machine's two processors are nobody's; theirs until the stack is closed."""
    stack.enter_context(quiet())
    if processors > 1:
        stack.enter_context(all_of(PROCESSORS))
    else:
        stack.enter_context(wait("a processor to measure on", PROCESSORS, fcntl.LOCK_EX))


def all_of(names):
    """These locks, in a moment in which nobody has one of them: whoever had the first and waited for the second would keep it from those who need only one."""
    def taken():
        with contextlib.ExitStack() as some:
            if all((file := attempt(name, fcntl.LOCK_EX)) and some.enter_context(file) for name in names):
                return some.pop_all()
        return None

    return until("all processors, to measure on", names, taken)


def quiet():
    """A share of MEASURING, at a moment at which nobody has NOISE. It is not held while that is waited for, or all suites would wait for each other's noise."""
    def silent():
        if measuring := attempt(MEASURING, fcntl.LOCK_SH):
            if noise_of_none := attempt(NOISE, fcntl.LOCK_EX):
                noise_of_none.close()
                return measuring
            measuring.close()
        return None

    return until("quiet, in which to measure", [NOISE], silent)
