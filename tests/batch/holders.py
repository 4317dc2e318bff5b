"""Processes that take a lock and are stopped (SIGSTOP) while they have it: `holders.py KIND FILE` is one, `stopped` starts it.

| kind | what it holds |
| --- | --- |
| flock | the lock of the file |
| write | a transaction that writes, in this SQLite database |
| read | a transaction that reads |
| inside | all locks that SQLite has inside its shared memory, as one that is stopped in the midst of moving its log has some of them |
"""

import contextlib
import fcntl
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time

# Of a database's shared memory, where SQLite's write-ahead log has its locks: writing, moving the log, recovering it, five for readers.
FIRST, COUNT = 120, 8


@contextlib.contextmanager
def stopped(kind, path, patience=180.0):
    """While this lasts, a stopped process has the lock. Its process number."""
    with subprocess.Popen([sys.executable, __file__, kind, str(path)], stdin=subprocess.DEVNULL) as child:
        try:
            deadline = time.monotonic() + patience
            while not is_stopped(child.pid):
                if child.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"no process has the {kind} lock of {path}")
                time.sleep(0.01)
            yield child.pid
        finally:
            child.kill()


@contextlib.contextmanager
def paused(pid, patience=180.0):
    """While this lasts, a process is stopped."""
    deadline = time.monotonic() + patience
    try:
        os.kill(pid, signal.SIGSTOP)
        while not is_stopped(pid):
            if time.monotonic() > deadline:
                raise RuntimeError(f"process {pid} is not stopped within {patience:g} s")
            time.sleep(0.01)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def stopped_leader(pid, registry, patience=180.0):
    """While this lasts, the process that leads the control loop of a registry is stopped, and does not have the registry's lock too: whoever
    has that keeps everybody out."""
    deadline = time.monotonic() + patience

    def wait(what, condition):
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"process {pid} is not {what} within {patience:g} s")
            time.sleep(0.01)

    leader = pathlib.Path(registry) / "leader"
    wait("the leader", lambda: leader.exists() and leader.read_text(encoding="ascii").strip() == str(pid))
    try:
        with take("flock", pathlib.Path(registry) / "lock"):
            os.kill(pid, signal.SIGSTOP)
            wait("stopped", lambda: is_stopped(pid))
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def is_stopped(pid):
    """Are all its threads stopped by a signal?"""
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if thread.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] != "T":
                return False
    return True


def take(kind, path):
    """The lock; it goes with what is returned."""
    if kind == "flock":
        file = open(path, "a", encoding="ascii")  # pylint: disable=consider-using-with
        fcntl.flock(file, fcntl.LOCK_EX)
        return file
    if kind == "inside":
        file = open(f"{path}-shm", "r+b")  # pylint: disable=consider-using-with
        fcntl.lockf(file, fcntl.LOCK_EX, COUNT, FIRST)
        return file
    database = sqlite3.connect(path, timeout=180, isolation_level=None)
    database.execute("BEGIN IMMEDIATE" if kind == "write" else "BEGIN")
    database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    return database


if __name__ == "__main__":
    HELD = take(*sys.argv[1:3])
    os.kill(os.getpid(), signal.SIGSTOP)
