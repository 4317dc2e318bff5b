"""What a throw-away cluster borrows from the machine, and gives back.

Addresses on `lo`, lines in /etc/hosts, ordinary users and processes. Everything a cluster takes carries its number
(`subnet`, the third byte of its addresses) or its directory, so it can be found and given back after a crash, and
clusters do not meet. What is shared by all of them is changed under one lock.
"""

import contextlib
import fcntl
import os
import pathlib
import pwd
import re
import signal
import socket
import subprocess
import time

HOSTS_FILE = pathlib.Path("/etc/hosts")
LOCK_FILE = "/run/libra-openpbs.lock"
# In the environment of every daemon and job of a cluster, with the cluster's directory as value. Processes are ended
# by this mark, looked up again at the moment of the signal: a process number may have been reused, a mark has not.
MARK = "LIBRA_TEST_CLUSTER"
FIRST_PORT, PORTS_EACH = 16000, 64  # below the ports that the kernel gives to outgoing connections


@contextlib.contextmanager
def lock():
    """Hold the lock of everything that clusters share."""
    with open(LOCK_FILE, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
    taken = set(known_clusters()) | {int(a.split(".")[2]) for a in addresses_on_lo() if a.startswith("10.77.")}
    # From the upper end: the lower numbers are for people who say which one they want.
    return next(number for number in range(250, 99, -1) if number not in taken)


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


def replace_hosts(text):
    """In place, not by rename: in containers /etc/hosts is often a mount of its own. Never empty meanwhile, since other clusters look
    names up in it: what is common stays as it is."""
    with open(HOSTS_FILE, "r+", encoding="utf-8") as file:
        file.write(text)
        file.truncate()


def add_names(subnet, directory, names):
    """Put {address: name} on `lo` and into /etc/hosts. Call it under the lock."""
    if subnet in known_clusters():
        raise RuntimeError(f"subnet {subnet} is taken by {known_clusters()[subnet]}: choose another, or `cluster.py down` that one")
    text = HOSTS_FILE.read_text()
    lines = [begin_line(subnet, directory), *(f"{address} {name}" for address, name in names.items()), f"# libra-openpbs {subnet} end"]
    if not text.endswith("\n"):
        lines.insert(0, "")
    replace_hosts(text + "\n".join(lines) + "\n")
    for address in names:
        subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=True)


def remove_names(subnet):
    """Take this subnet's addresses off `lo` and its lines out of /etc/hosts. Call it under the lock."""
    text = HOSTS_FILE.read_text()
    without = re.sub(rf"^# libra-openpbs {subnet} begin .*?^# libra-openpbs {subnet} end\n", "", text, flags=re.MULTILINE | re.DOTALL)
    if without != text:
        replace_hosts(without)
    for address in addresses_on_lo():
        if address.startswith(f"10.77.{subnet}."):
            subprocess.run(["ip", "addr", "del", f"{address}/32", "dev", "lo"], check=False)


def add_user(name, home):
    """An ordinary user with a group of the same name. Call it under the lock."""
    subprocess.run(["useradd", "--no-create-home", "--user-group", "--home-dir", str(home), "--shell", "/bin/bash", name], check=True)
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
    subprocess.run(["userdel", "--force", name], capture_output=True, check=True)


def alive(pid):
    """Whether this process exists and is more than a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def end_process(pid, number=signal.SIGKILL, patience=20.0):
    """Send a signal and wait until the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    deadline = time.monotonic() + patience
    while alive(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} still runs {patience:.0f} s after signal {int(number)}")
        time.sleep(0.02)


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
        except OSError:
            continue
        if marked and alive(int(entry.name)):
            found.append(int(entry.name))
    return found


def end_all(directory, users=()):
    """End every process of the cluster in `directory`: daemons, jobs (also those that dropped the mark), data service."""
    deadline = time.monotonic() + 20
    while remaining := marked_processes(directory, users):
        if time.monotonic() > deadline:
            raise TimeoutError(f"these processes of {directory} do not end: {remaining}")
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    # The data service is started through `su -`, which drops the mark; its directory is in its command line.
    store = pathlib.Path(directory) / "server/datastore"
    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = int((store / "postmaster.pid").read_text().splitlines()[0])
        if str(store).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
            # SIGQUIT: at once, but its shared memory is given back.
            end_process(pid, signal.SIGQUIT)
