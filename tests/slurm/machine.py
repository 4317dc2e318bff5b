"""What a throw-away Slurm takes from the machine, and gives back.

A number, which is in its directory (`/srv/libra-slurm-NUMBER`), its ports, its users and its nodes' names, so that clusters do not
meet and what a killed run has left can be found. Everything listens on 127.0.0.1 only. Processes and users: tests/batch/processes.py.
"""

import contextlib
import ctypes
import errno
import os
import pathlib
import re
import socket
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "batch"))

# For the users of this module too.
from processes import MARK, add_user, alive, began, end_marked, end_process, for_everybody, in_turn, lock, marked_processes, remove_user, taken, write_whole  # noqa: E402, F401

PARENT = pathlib.Path("/srv")  # users must be able to enter it, and plugins to be executed from it
PREFIX = "libra-slurm-"
FIRST_PORT, PORTS_EACH = 10000, 96  # below those of tests/openpbs; numbers 1 to 60
CGROUPS = pathlib.Path("/sys/fs/cgroup")


def has_loopback_name():
    """Does this machine's own name mean an address of loopback?"""
    try:
        return socket.gethostbyname(socket.gethostname()).startswith("127.")
    except OSError:
        return False


def take_loopback_name():
    """Where this machine's name means no address of loopback, as in containers, and in systems whose /etc/hosts does not have it, it does from now on for this
    process and all that it starts: they see a copy of that file. A system without the file, as debootstrap makes it, gets one with localhost."""
    if has_loopback_name():
        return
    hosts = pathlib.Path("/etc/hosts")
    if not hosts.exists():
        write_whole(hosts, "127.0.0.1 localhost\n")
    new_mounts, bind, all_below, from_outside_only = 0x20000, 0x1000, 0x4000, 0x80000  # CLONE_NEWNS, MS_BIND, MS_REC, MS_SLAVE
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.NamedTemporaryFile("w", prefix="hosts-", encoding="utf-8") as file:
        file.write(f"127.0.0.1 localhost {socket.gethostname()}\n{hosts.read_text(encoding='utf-8')}")
        file.flush()
        os.chmod(file.name, 0o644)
        # In this order, so that nothing is changed where others see it.
        done = libc.unshare(new_mounts) == 0 and libc.mount(b"none", b"/", None, all_below | from_outside_only, None) == 0 and libc.mount(file.name.encode(), b"/etc/hosts", None, bind, None) == 0
        why = os.strerror(ctypes.get_errno())
    if not done or not has_loopback_name():
        raise RuntimeError(f"this machine's name, {socket.gethostname()}, must mean 127.0.0.1, which /etc/hosts does not say, and that cannot be said here without it ({why}): add it there")


def known_clusters():
    """{number: directory} of the clusters on this machine, living or left behind."""
    return {int(path.name.removeprefix(PREFIX)): path for path in PARENT.glob(f"{PREFIX}*") if re.fullmatch(r"\d+", path.name.removeprefix(PREFIX))}


def take_number(wanted=None):
    """A number that no cluster has, taken by making its directory: (number, directory). Call it under the lock."""
    for number in [wanted] if wanted is not None else in_turn("slurm", range(60, 0, -1)):
        directory = PARENT / f"{PREFIX}{number}"
        try:
            directory.mkdir(mode=0o755)
        except FileExistsError:
            continue
        directory.chmod(0o755)
        taken("slurm", number)
        return number, directory
    raise RuntimeError(f"there are clusters already: {sorted(known_clusters())}; `cluster.py down` removes what killed runs have left")


def free_ports(number, count):
    """`count` ports of this number's own range on which nobody listens."""
    ports = []
    for port in range(FIRST_PORT + number * PORTS_EACH, FIRST_PORT + (number + 1) * PORTS_EACH):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError(f"fewer than {count} free ports from {FIRST_PORT + number * PORTS_EACH}: fewer nodes, or another number")


def cgroups_of(nodes):
    """Slurm's own cgroups (v1) of these nodes, which it leaves behind: innermost first."""
    tops = [top for node in nodes for top in CGROUPS.glob(f"*/slurm_{node}")]
    return [pathlib.Path(where) for top in tops for where, _, _ in os.walk(top, topdown=False)]


def remove_cgroups(nodes):
    """Call it when the cluster's processes have ended. The kernel counts them for a moment longer."""
    until = time.monotonic() + 60
    for group in cgroups_of(nodes):
        while True:
            try:
                with contextlib.suppress(FileNotFoundError):
                    group.rmdir()
                break
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > until:
                    raise
            time.sleep(0.1)


def remove_directories(roots):
    """Cgroups below these directories, and the directories themselves; no process is in them."""
    for root in roots:
        for where, _, _ in os.walk(root, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                pathlib.Path(where).rmdir()
