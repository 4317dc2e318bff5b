#!/usr/bin/env python3
"""The throw-away cluster itself: does it do what its users build on, and does it leave the machine as it was?

Run as root: `python3 tests/openpbs/test_cluster.py`. Takes about a minute.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import home  # noqa: E402
import machine  # noqa: E402
from cluster import Cluster  # noqa: E402


def traces_of(*numbers):
    """What is left on the machine of the clusters with these numbers; other clusters may run meanwhile."""
    left = [line for line in machine.HOSTS_FILE.read_text().splitlines() if any(f"10.77.{n}." in line or f"libra-openpbs {n} " in line for n in numbers)]
    left += [address for address in machine.addresses_on_lo() if int(address.split(".")[2]) in numbers and address.startswith("10.77.")]
    for file in ("/etc/passwd", "/etc/group", "/etc/shadow"):
        left += [line for line in pathlib.Path(file).read_text().splitlines() if any(line.startswith(f"libra-test-{n}-") for n in numbers)]
    return left


class TwoClusters(unittest.TestCase):
    """Two at a time, daemons killed in both, and nothing left."""

    def test_life(self):
        with Cluster(hosts=2, processors=3) as pbs, Cluster(hosts=1) as other:
            self.assertEqual([pbs.node(host)["resources_available.ncpus"] for host in pbs.host_names], ["3", "3"])
            # The second is a copy of what was made for another one, where that can be (`home` says where not); nothing in it is that one's.
            self.assertTrue(home.KEPT.exists(), "pbs_habitat's work is kept")
            for one in (pbs, other):
                one.wait("the scheduler is known", lambda one=one: "sched_log" in one.qmgr("list sched").out)
                said = one.qmgr("list server", "list sched").out
                named = dict(re.findall(r"^ +(server_host|sched_host|sched_priv|sched_log) = (.*)$", said, re.MULTILINE))
                self.assertEqual(named, {"server_host": one.server_name, "sched_host": one.server_name,
                                         "sched_priv": f"{one.home}/sched_priv", "sched_log": f"{one.home}/sched_logs"})
                self.assertEqual(set(re.findall(r";Server@([^;(]*)", one.log())), {one.server_name})
            first, second = pbs.users
            output = pbs.directory / "home" / first / "out"
            job = pbs.submit("-j", "oe", "-o", str(output), script="id -un\nsleep 2\n")
            elsewhere = other.submit(script="sleep 1000\n")
            host = pbs.host_names[1]
            stray = pbs.submit(script="env -i setsid sleep 1000 &\necho $! > stray\nsleep 1000\n")
            kept = pbs.submit("-l", f"select=1:host={host}", user=second)
            pbs.wait_state(job, "F")
            pbs.wait("output delivered", output.exists)
            self.assertEqual(output.read_text(), f"{first}\n")
            pbs.wait_started(kept)
            number = pbs.directory / "home" / first / "stray"
            pbs.wait_started(stray)
            stray_pid = int(pbs.wait("the job runs", lambda: number.exists() and number.read_text().strip()))
            self.assertEqual(pbs.run("pbsnodes", "-o", f"{host}:{pbs.host_port(host)}").rc, 0)
            self.assertIn("offline", pbs.node(host)["state"])
            self.assertEqual(pbs.run("pbsnodes", "-r", f"{host}:{pbs.host_port(host)}").rc, 0)
            pbs.hook("begin", "execjob_begin", "import pbs\npbs.event().reject('not here')\n")
            refused = pbs.submit()
            pbs.wait("the hook has refused", lambda: "not here" in pbs.log(pbs.host_names[0]))
            pbs.delete_hook("begin")
            pbs.qdel("-Wforce", refused)

            pbs.kill_server()
            self.assertNotEqual(pbs.run("qstat").rc, 0)
            pbs.start_server()
            self.assertEqual(pbs.qstat(kept)["job_state"], "R")
            session = int(pbs.wait("session known", lambda: pbs.qstat(kept).get("session_id")))
            pbs.kill_mom(host)
            pbs.seen_down(host)
            pbs.start_mom(host, preserve=True)
            pbs.wait("node free again", lambda: "free" in pbs.node(host).get("state", ""))
            self.assertTrue(machine.alive(session))
            self.assertEqual(pbs.qstat(kept)["run_count"], "1")
            self.assertEqual(pbs.qdel(kept, user=first).rc, 159, "another user's job")
            self.assertEqual(pbs.qdel(kept, user=second).rc, 0)
            self.assertEqual(other.wait_started(elsewhere)["Job_Owner"], f"{other.users[0]}@{other.server_name}")
            self.assertTrue(machine.alive(stray_pid), stray)
            directories, numbers = [pbs.directory, other.directory], [pbs.plan["subnet"], other.plan["subnet"]]
            self.assertNotEqual(traces_of(*numbers), [])
        for directory in directories:
            self.assertFalse(directory.exists())
            self.assertEqual(machine.marked_processes(directory), [])
        self.assertEqual(traces_of(*numbers), [])
        self.assertFalse(machine.alive(stray_pid), "a job that has left its session and its environment")

    def test_killed_run(self):
        """What a killed run leaves is found and removed by `down`."""
        here = str(pathlib.Path(__file__).resolve().parent)
        program = f"import sys; sys.path.insert(0, {here!r}); import time, cluster\nwith cluster.Cluster(hosts=1) as c:\n  c.submit(); print(c.directory, flush=True); time.sleep(1000)"
        # Somebody else's `down` would remove what this one is to find.
        with machine.lock("leftovers"):
            with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as run:
                directory = pathlib.Path(run.stdout.readline().strip())
                os.kill(run.pid, signal.SIGKILL)
            number = next(number for number, where in machine.known_clusters().items() if where == directory)
            self.assertTrue(machine.marked_processes(directory))
            subprocess.run([sys.executable, f"{here}/cluster.py", "down"], check=True, capture_output=True, timeout=300)
        self.assertEqual(machine.marked_processes(directory), [])
        self.assertFalse(directory.exists())
        self.assertEqual(traces_of(number), [])


if __name__ == "__main__":
    unittest.main()
