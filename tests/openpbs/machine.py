"""What a throw-away cluster takes from the machine, and gives back.

Addresses on `lo`, lines in /etc/hosts, ordinary users and processes. Everything a cluster takes carries its number
(`subnet`, the third byte of its addresses) or its directory, so it can be found and given back after a crash, and
clusters do not meet. What is shared by all of them is changed under one lock.
"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "batch"))

# For the users of this module too.
from processes import MARK, add_user, alive, end_marked, end_process, for_everybody, in_turn, lock, marked_processes, remove_user, taken, write_whole  # noqa: E402, F401

HOSTS_FILE = pathlib.Path("/etc/hosts")
FIRST_PORT, PORTS_EACH = 16000, 64  # below the ports that the kernel gives to outgoing connections


def begin_line(subnet, directory):
    return f"# libra-openpbs {subnet} begin {directory}"


def known_clusters():
    """{subnet: directory} of the clusters that have lines in /etc/hosts, living or left behind."""
    found = re.findall(r"^# libra-openpbs (\d+) begin (.*)$", HOSTS_FILE.read_text(), re.MULTILINE)
    return {int(subnet): pathlib.Path(directory) for subnet, directory in found}


def addresses_on_lo():
    shown = subprocess.run(["ip", "-o", "-4", "addr", "show", "dev", "lo"], capture_output=True, text=True, check=True)
    return set(re.findall(r"inet ([0-9.]+)", shown.stdout))


def free_subnet():
    """A number that no cluster uses. Call it under the lock."""
    used = set(known_clusters()) | {int(a.split(".")[2]) for a in addresses_on_lo() if a.startswith("10.77.")}
    # From the upper end: the lower numbers are for people who say which one they want.
    number = next((number for number in in_turn("openpbs", range(250, 99, -1)) if number not in used), None)
    if number is None:
        raise RuntimeError("subnets 100 to 250 are all taken; `cluster.py down` removes what killed runs have left")
    taken("openpbs", number)
    return number


def free_ports(subnet, count):
    """`count` ports of this subnet's own range on which nobody listens."""
    ports = []
    for port in range(FIRST_PORT + subnet * PORTS_EACH, FIRST_PORT + (subnet + 1) * PORTS_EACH):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError(f"fewer than {count} free ports from {FIRST_PORT + subnet * PORTS_EACH}: fewer hosts, or another subnet")


def gone_line(size):
    """What stands in the place of a cluster's lines when it is gone, of the same size."""
    return "# libra-openpbs gone ".ljust(size - 1, "#") + "\n"


def overwrite_hosts(offset, text):
    """Only what changes, in place: in containers /etc/hosts is often a mount of its own and takes no rename, and whoever looks a name up
    while lines move sees some of them twice and others not at all (a mom gives up an interactive job for that)."""
    with open(HOSTS_FILE, "r+b", buffering=0) as file:
        file.seek(offset)
        file.write(text.encode())


def add_names(subnet, directory, names):
    """Put {address: name} on `lo` and into /etc/hosts. Call it under the lock."""
    if subnet in known_clusters():
        raise RuntimeError(f"subnet {subnet} is taken by {known_clusters()[subnet]}: choose another, or `cluster.py down` that one")
    text = HOSTS_FILE.read_bytes().decode()
    lines = [begin_line(subnet, directory), *(f"{address} {name}" for address, name in names.items()), f"# libra-openpbs {subnet} end"]
    if not text.endswith("\n"):
        lines.insert(0, "")
    overwrite_hosts(len(text.encode()), "\n".join(lines) + "\n")
    for address in names:
        subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)


def remove_names(subnet):
    """Take this subnet's addresses off `lo` and its lines out of /etc/hosts. Call it under the lock."""
    text = HOSTS_FILE.read_bytes().decode()
    found = re.search(rf"^# libra-openpbs {subnet} begin .*?^# libra-openpbs {subnet} end\n", text, flags=re.MULTILINE | re.DOTALL)
    if found:
        overwrite_hosts(len(text[: found.start()].encode()), gone_line(len(found[0].encode())))
    if not known_clusters():
        # Nobody looks any more: now the file may become what it was.
        rest = re.sub(r"^# libra-openpbs gone #*\n", "", HOSTS_FILE.read_bytes().decode(), flags=re.MULTILINE)
        overwrite_hosts(0, rest)
        os.truncate(HOSTS_FILE, len(rest.encode()))
    for address in addresses_on_lo():
        if address.startswith(f"10.77.{subnet}."):
            subprocess.run(["ip", "addr", "del", f"{address}/32", "dev", "lo"], check=False)


def end_all(directory, users=()):
    """End every process of the cluster in `directory`: daemons, jobs (also those that dropped the mark), data service."""
    end_marked(directory, users)
    # The data service is started through `su -`, which drops the mark; its directory is in its command line.
    store = pathlib.Path(directory) / "server/datastore"
    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = int((store / "postmaster.pid").read_text().splitlines()[0])
        if str(store).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
            # SIGQUIT: at once, but its shared memory is given back.
            end_process(pid, signal.SIGQUIT)
