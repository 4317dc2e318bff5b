"""How long a test of a throw-away cluster may take: limits of patience, for what hangs, not for what is slow.

`begin` is called for each test, and for what comes before the first and after the last of a class. What is not done in time fails
where it is: the exception comes up in whatever waits, so its traceback says what was waited for.
"""

import contextlib
import os
import signal
import sys

# Most tests take less than half a minute on a machine of their own. A machine may be ten times slower. A class that needs more says so
# in `seconds`.
SECONDS = 900


class Late(Exception):
    """A test has used up its time. No TimeoutError: those are expected here and there."""


def begin(what, seconds=SECONDS):
    """From now on: `what` has so many seconds."""

    def late(_signal, _frame):
        # What cleans up after it has as much time once more.
        signal.setitimer(signal.ITIMER_REAL, seconds)
        raise Late(f"{what} is not done after {seconds:.0f} s; it waits here")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)


@contextlib.contextmanager
def paused():
    """What is waited for in here has a limit of its own."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)


def default_signals():
    """Signals act as from a terminal, in this process and in those that it starts, whatever its starter ignores: a shell's
    background job ignores SIGINT, one under nohup SIGHUP, and tests send both. And with the usual mode of new files, which others may read."""
    os.umask(0o022)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.stdout.reconfigure(line_buffering=True)
