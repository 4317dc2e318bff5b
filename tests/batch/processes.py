"""Processes and ordinary users of throw-away clusters, of whatever batch system (tests/openpbs, tests/slurm).

A cluster's processes carry its directory as a mark in their environment, so they can be found and ended after a crash, and clusters
do not meet. What is shared by all clusters is changed under one lock.
"""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time

LOCKS = pathlib.Path("/run")
# In the environment of every daemon and job of a cluster, with the cluster's directory as value. Processes are ended
# by this mark, looked up again at the moment of the signal: a process number may have been reused, a mark has not.
MARK = "LIBRA_TEST_CLUSTER"


@contextlib.contextmanager
def lock(what="clusters", patience=600.0):
    """Hold the lock of everything that clusters share, also those of other suites; or another one, of tests that would meet."""
    deadline = time.monotonic() + patience
    with open(LOCKS / f"libra-test-{what}.lock", "w", encoding="ascii") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"after {patience:.0f} s somebody still holds {file.name}; 'fuser -v' says who") from None
                time.sleep(0.02)
        yield


def in_turn(kind, numbers):
    """The numbers, beginning behind the one that was taken last: a number comes back as late as can be, so that nobody takes a new cluster
    for one that has just gone. Call it, and `taken`, under the lock."""
    numbers = list(numbers)
    try:
        last = numbers.index(int((LOCKS / f"libra-test-{kind}.last").read_text()))
    except (OSError, ValueError):
        last = -1
    return numbers[last + 1 :] + numbers[: last + 1]


def taken(kind, number):
    """This one was taken."""
    (LOCKS / f"libra-test-{kind}.last").write_text(f"{number}\n")


def account(program, *words, patience=120.0):
    """Runs useradd or userdel until it has done its work. The machine's own files of users have locks, which whoever installs something may hold, and
    which somebody who was killed leaves behind; what does not go away by waiting is said in the program's own words."""
    busy = (1, 10)  # passwd or group cannot be changed now: useradd(8), userdel(8)
    deadline = time.monotonic() + patience
    while (done := subprocess.run([program, *words], capture_output=True, text=True)).returncode:
        if done.returncode not in busy or time.monotonic() > deadline:
            raise RuntimeError(f"{program} ended with {done.returncode}: {(done.stderr or done.stdout).strip()} ({' '.join(words)})")
        time.sleep(0.5)


def add_user(name, home):
    """An ordinary user with a group of the same name. Call it under the lock."""
    account("useradd", "--no-create-home", "--user-group", "--home-dir", str(home), "--shell", "/bin/bash", name)
    entry = pwd.getpwnam(name)
    home.mkdir(parents=True)
    home.chmod(0o755)
    os.chown(home, entry.pw_uid, entry.pw_gid)


def remove_user(name):
    """Call it under the lock."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return
    account("userdel", "--force", name)


def write_whole(file, text):
    """Gives a file that others read at any time a new text: they see the old one or the new one, and never the beginning of one."""
    new = file.with_name(file.name + ".new")
    new.write_text(text)
    if file.exists():
        shutil.copymode(file, new)
    new.rename(file)


def for_everybody(program, directory):
    """A program, or a directory of programs, or where other users cannot come to it, as in root's home, a copy of it in `directory`."""
    program = pathlib.Path(program).resolve()
    if all(place.stat().st_mode & 0o001 for place in (program, *program.parents)):
        return program
    directory.mkdir(mode=0o755, exist_ok=True)
    copy = directory / program.name
    if program.is_dir():
        shutil.copytree(program, copy, symlinks=True, dirs_exist_ok=True)
    elif not copy.exists():
        shutil.copy(program, copy)
        copy.chmod(0o755)
    return copy


def end_with_parent(parent, number=signal.SIGTERM):
    """From now on this process gets the signal when `parent`, which has started it, ends, however that ends: the thread of it that has done so."""
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
    ctypes.CDLL(None).prctl(set_parent_death_signal, int(number))
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def began(pid):
    """When a process began, by which it is told from a later one of its number; None if it does not live."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] if alive(pid) else None
    except OSError:
        return None


def alive(pid):
    """Whether this process exists and is more than a zombie. One whose first thread has ended before others is: they hold its files and locks."""
    directory = pathlib.Path(f"/proc/{pid}")
    try:
        state = (directory / "stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" or len(list((directory / "task").iterdir())) > 1
    except (OSError, IndexError):
        return False


def end_process(pid, number=signal.SIGKILL, patience=180.0):
    """Send a signal and wait until the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    deadline = time.monotonic() + patience
    while alive(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} still runs {patience:.0f} s after signal {int(number)}")
        time.sleep(0.02)


# These clear their environment (Slurm's, from 25.11 on), and are known by their cluster's files: a log, at least.
UNMARKED = ("slurmstepd",)


def has_open(entry, directory):
    """Has the process of this directory in /proc a file below `directory` open?"""
    def is_below(file):
        # One of a clean system that is a directory here has that in front.
        with contextlib.suppress(OSError):
            return f"{directory}/" in os.readlink(file)
        return False
    return any(is_below(file) for file in (entry / "fd").iterdir())


def marked_processes(directory, users=()):
    """Numbers of all living processes that carry the mark of the cluster in `directory`, or belong to its users."""
    mark = f"{MARK}={directory}".encode()
    uids = {entry.pw_uid for entry in pwd.getpwall() if entry.pw_name in users}
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            marked = entry.stat().st_uid in uids or mark in (entry / "environ").read_bytes().split(b"\0")
            marked = marked or ((entry / "comm").read_text().strip() in UNMARKED and has_open(entry, directory))
        except OSError:
            continue
        if marked and alive(int(entry.name)):
            found.append(int(entry.name))
    return found


def end_marked(directory, users=()):
    """End every process of the cluster in `directory`: daemons, and jobs, also those that dropped the mark."""
    deadline = time.monotonic() + 600
    while remaining := marked_processes(directory, users):
        if time.monotonic() > deadline:
            raise TimeoutError(f"these processes of {directory} do not end: {remaining}")
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
