"""Whose turn it is to measure processor time, among all processes of this machine that test with throw-away clusters.

Locks of files in one directory, which go with the processes that hold them: several suites may run side by side, and whoever measures is alone
with other measurements.
"""

import contextlib
import fcntl
import os
import pathlib
import time

import limits

DIRECTORY = pathlib.Path(os.environ.get("LIBRA_TEST_TURNS", "/run/libra-test-turns"))
# Held together by everything that uses processors and measures nothing; by a measuring class while its cluster comes up; one for each processor.
NOISE, START, PROCESSORS = "noise", "start", ("processor-0", "processor-1")
# As long as two whole suites on a slow machine.
PATIENCE = 7200


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


def wait(what, names, how, patience=PATIENCE):
    """Whichever of these locks is free first."""
    deadline = time.monotonic() + patience
    with limits.paused():
        while True:
            for name in names:
                if file := attempt(name, how):
                    return file
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {patience} s still not: {what}; who holds {' or '.join(str(DIRECTORY / name) for name in names)} is shown by 'fuser -v'")
            time.sleep(0.2)


@contextlib.contextmanager
def held(name, how=fcntl.LOCK_EX):
    """Hold one of the locks."""
    with wait(f"the lock '{name}'", [name], how):
        yield


def noise():
    """While this is held nobody measures."""
    return held(NOISE, fcntl.LOCK_SH)


def take(processors, stack):
    """Wait until nothing else runs than measurements, and so many of the machine's two processors are nobody's; theirs until the stack is closed."""
    wait("quiet, in which to measure", [NOISE], fcntl.LOCK_EX).close()
    for wanted in [[name] for name in PROCESSORS] if processors > 1 else [PROCESSORS]:
        stack.enter_context(wait("a processor to measure on", wanted, fcntl.LOCK_EX))
