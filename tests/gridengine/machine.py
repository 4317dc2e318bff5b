"""What a throw-away cell of Grid Engine takes from the machine, and gives back.

A number, which is in its directory (`/srv/libra-gridengine-NUMBER`) and its users' names, and hosts: each is a process that holds namespaces of
its own for network, host name and mounts. The hosts of a cell are joined by a bridge that no other process sees, so that all cells have the same
names, addresses and ports, and each host has its own configuration at the same path. Processes and users: tests/batch/processes.py.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "batch"))

# For the users of this module too.
from processes import MARK, add_user, alive, end_marked, end_process, for_everybody, in_turn, lock, marked_processes, remove_user, taken, write_whole  # noqa: E402, F401

PARENT = pathlib.Path("/srv")  # users must be able to enter it
PREFIX = "libra-gridengine-"
MOST = 30


def known_clusters():
    """{number: directory} of the cells on this machine, living or left behind."""
    return {int(path.name.removeprefix(PREFIX)): path for path in PARENT.glob(f"{PREFIX}*") if re.fullmatch(r"\d+", path.name.removeprefix(PREFIX))}


def take_number():
    """A number that no cell has, taken by making its directory: (number, directory). Call it under the lock."""
    for number in in_turn("gridengine", range(MOST, 0, -1)):
        directory = PARENT / f"{PREFIX}{number}"
        try:
            directory.mkdir(mode=0o755)
        except FileExistsError:
            continue
        directory.chmod(0o755)
        taken("gridengine", number)
        return number, directory
    raise RuntimeError(f"there are cells already: {sorted(known_clusters())}")


def address(index):
    return f"10.79.1.{index + 1}"


class Hosts:
    """Hosts of a cell: the first one is qmaster's. `inside(name)`: what comes before a command that is to run there."""

    def __init__(self, directory, names):
        self.directory, self.names, self.holders = directory, names, {}

    def up(self):
        hosts = self.directory / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address(index)} {name}\n" for index, name in enumerate(self.names)))
        for name in self.names:
            setup = f"hostname {name} && mount --bind {hosts} /etc/hosts && ip link set lo up && echo ready && exec sleep infinity"
            self.holders[name] = subprocess.Popen(["unshare", "-m", "-n", "-u", "sh", "-c", setup], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                                  env={**os.environ, MARK: str(self.directory)}, start_new_session=True)
        for name, holder in self.holders.items():
            if holder.stdout.readline() != "ready\n":
                raise RuntimeError(f"host {name} has no namespaces: unshare, mount and ip are needed")
        first = self.names[0]
        self.must(first, "ip", "link", "add", "bridge", "type", "bridge")
        self.must(first, "ip", "addr", "add", f"{address(0)}/24", "dev", "bridge")
        self.must(first, "ip", "link", "set", "bridge", "up")
        for index, name in enumerate(self.names[1:], 1):
            self.must(first, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(self.holders[name].pid))
            self.must(first, "ip", "link", "set", name, "master", "bridge", "up")
            self.must(name, "ip", "addr", "add", f"{address(index)}/24", "dev", "eth0")
            self.must(name, "ip", "link", "set", "eth0", "up")

    def inside(self, name):
        return ["nsenter", "-t", str(self.holders[name].pid), "-m", "-n", "-u"]

    def must(self, name, *command):
        subprocess.run([*self.inside(name), *map(str, command)], check=True)

    def down(self):
        """They have been ended with everything of the cell."""
        for holder in self.holders.values():
            holder.wait()
            holder.stdout.close()
        self.holders = {}


def remove_directories(roots, patience=10):
    """Cgroups, and the directories above them; no process is in them, or the last one is just ending."""
    deadline = time.monotonic() + patience
    for root in roots:
        while root.exists():
            for where, _, _ in os.walk(root, topdown=False):
                with contextlib.suppress(OSError):
                    pathlib.Path(where).rmdir()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{root} is still there")
            time.sleep(0.05)
