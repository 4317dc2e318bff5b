"""Plays packaging/ansible on this machine, as an administrator does on a cluster: the inventory alone is the test's."""

import json
import os
import pathlib
import re
import shutil
import subprocess

PLAYBOOK = pathlib.Path(__file__).resolve().parents[2] / "packaging/ansible/site.yml"


def program():
    """Ansible of this machine; None if there is none."""
    return shutil.which("ansible-playbook")


def group(role):
    """The group of the playbook for hosts of this role."""
    return {"control": "libra_control", "all": "libra_control", "node": "libra_nodes", "login": "libra_login"}[role]


class Played:
    """What came of it. `changed`: so many tasks have changed something, or would have."""

    def __init__(self, done):
        self.rc, self.text = done.returncode, done.stdout + done.stderr
        # A host of each role, and all of them are this machine.
        counts = [{name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line)} for line in done.stdout.splitlines() if re.match(r"host-\w+ +: ok=", line)]
        self.changed = sum(count["changed"] for count in counts)


def play(directory, role, variables, *more):
    """Runs the playbook for this machine as a host of that role. Variables may come as text, which Ansible refuses where it is none of what is expected."""
    directory = pathlib.Path(directory)
    inventory = directory / "inventory.json"
    host = {f"host-{role}": {"ansible_connection": "local", "libra_role": role}}
    inventory.write_text(json.dumps({group(role): {"hosts": host, "vars": variables}}))
    # Its own files are here, not in somebody's home; it insists on an encoding.
    environment = {**os.environ, "ANSIBLE_HOME": str(directory / "ansible"), "ANSIBLE_LOCAL_TEMP": str(directory / "ansible/tmp"),
                   "ANSIBLE_REMOTE_TEMP": str(directory / "ansible/tmp"), "ANSIBLE_NOCOWS": "1", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "0", "LC_ALL": "C.UTF-8"}
    environment.pop("ANSIBLE_CONFIG", None)
    done = subprocess.run([program(), "-i", inventory, PLAYBOOK, *more], env=environment, cwd=directory, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return Played(done)
