#!/usr/bin/env python3
"""A throw-away Slurm out of an installed one: munged, slurmctld and several slurmd on this machine.

In a test:

    with Cluster(nodes=4, cpus=1) as slurm:
        job = slurm.submit("--time=5", script="sleep 5\\n")
        slurm.wait_running(job)

By hand: `cluster.py hold` starts one, prints how to speak to it and waits for Ctrl-C or SIGTERM; `cluster.py up` leaves it running;
`cluster.py shell NUMBER`, `cluster.py down NUMBER`. `cluster.py down` alone removes what killed runs have left.

Everything is in one directory, /srv/libra-slurm-NUMBER: settings in etc, plugins of its own in plugins (behind Slurm's own in PluginDir), logs in
log. Several clusters run at a time: `machine` knows how. No systemd, no slurmdbd, 127.0.0.1 only. All nodes share this machine's
processors and kernel; how many processors each has is told to Slurm, and believed. Needs root, the user `slurm`, and Slurm and munge as Debian packages them.
"""

import argparse
import atexit
import functools
import glob
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import client  # noqa: E402
import machine  # noqa: E402

PROGRAMS = {"munged": "/usr/sbin/munged", "slurmctld": "/usr/sbin/slurmctld", "slurmd": "/usr/sbin/slurmd"}
QUICK = "batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2"
LINUX = {"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none", "JobAcctGatherType": "jobacct_gather/none"}
CGROUPS = {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/cgroup", "JobAcctGatherType": "jobacct_gather/cgroup"}


@functools.cache
def slurm_version():
    """(22, 5, 8) of 22.05.8."""
    said = subprocess.run([PROGRAMS["slurmctld"], "-V"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.search(r"(\d+)\.(\d+)\.(\d+)", said).groups())


class Cluster(client.Commands):
    """One cluster; its commands are in `client.Commands`.

    nodes: how many, each with a slurmd. cpus: processors of each, a number or one per node. users: how many ordinary users. partition: settings
    of the one partition `main` that are added or (None as value) left out. partitions: more of them, {name: settings}. settings: lines of slurm.conf, {key: value},
    over the default ones. node_settings: of every node. plugstack: lines of plugstack.conf, may be functions of the cluster. jobcomp: ended jobs are written to
    `jobcomp` in the directory. cgroups: Slurm's plugins for cgroup v1 instead of those that need none, True or lines for cgroup.conf. slurm_user: whom slurmctld runs as. number: 1 to 60, chosen if None.
    """

    def __init__(self, nodes=4, cpus=1, users=2, partition=None, partitions=None, settings=None, node_settings=None, plugstack=(), jobcomp=False,
                 cgroups=False, slurm_user="slurm", number=None):
        self.plan = {"nodes": nodes, "cpus": list(cpus) if isinstance(cpus, (list, tuple)) else [cpus] * nodes, "users": users, "number": number,
                     "partition": partition or {}, "partitions": partitions or {}, "settings": settings or {}, "node_settings": node_settings or {},
                     "plugstack": list(plugstack), "jobcomp": jobcomp, "cgroups": cgroups, "slurm_user": slurm_user, "owner": None, "ports": []}
        self.directory = None
        self.children = []  # daemons that this process has started: they are reaped when they have ended

    @classmethod
    def existing(cls, directory):
        """The cluster that another process has started in `directory`."""
        found = cls()
        found.directory = pathlib.Path(directory)
        found.plan = json.loads((found.directory / "cluster.json").read_text())
        return found

    # ---- names and places

    @property
    def conf(self):
        return self.directory / "etc/slurm.conf"

    @property
    def plugins(self):
        """The directory of this cluster's own plugins; Slurm looks into it after its own."""
        return self.directory / "plugins"

    @property
    def nodes(self):
        """Names of the nodes: n60-1, n60-2 … for cluster 60."""
        return [f"n{self.plan['number']}-{one}" for one in range(1, self.plan["nodes"] + 1)]

    @property
    def users(self):
        return [f"libra-slurm-{self.plan['number']}-{one}" for one in range(1, self.plan["users"] + 1)]

    def home(self, user):
        return self.directory / "home" / user

    # ---- up and down

    def __enter__(self):
        atexit.register(self.down)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        self.plan["owner"] = os.getpid()
        try:
            self.up()
        except BaseException as failure:
            if self.directory is not None and not isinstance(failure, (KeyboardInterrupt, SystemExit)):
                print(self.diagnostics(), file=sys.stderr)
            self.down()
            raise
        return self

    def __exit__(self, kind, *_):
        if kind is not None and issubclass(kind, Exception):
            print(self.diagnostics(), file=sys.stderr)
        self.down()

    def up(self):
        """Build and start everything; return when all nodes are idle."""
        self.check_machine()
        with machine.lock():
            self.plan["number"], self.directory = machine.take_number(self.plan["number"])
            self.plan["ports"] = machine.free_ports(self.plan["number"], 1 + self.plan["nodes"])
            (self.directory / "cluster.json").write_text(json.dumps({**self.plan, "plugstack": []}) + "\n")
            for user in self.users:
                machine.add_user(user, self.home(user))
        for name in ("etc", "plugins", "log", "state", "spool", "run", "munge"):
            (self.directory / name).mkdir(mode=0o755)
        for name in ("log", "state", "run"):
            shutil.chown(self.directory / name, self.plan["slurm_user"])
        self.before_start()
        self.write_conf()
        self.start_munged()
        self.start_controller()
        for node in self.nodes:
            self.start_slurmd(node)
        self.wait_idle()

    def before_start(self):
        """For those who build on this: directories and users are there, settings are not written yet."""

    def down(self):
        """End everything and give back what was taken from the machine; may be called at any time, and again."""
        atexit.unregister(self.down)
        if self.directory is None or not self.directory.exists():
            return
        machine.end_marked(self.directory, self.users)
        self.reap()
        machine.remove_cgroups(self.nodes)
        with machine.lock():
            for user in self.users:
                machine.remove_user(user)
            shutil.rmtree(self.directory)

    def check_machine(self):
        if os.geteuid() != 0:
            raise RuntimeError("a throw-away Slurm needs root: users, daemons")
        for name, program in PROGRAMS.items():
            if not os.access(program, os.X_OK):
                raise RuntimeError(f"no {program}: apt-get install --no-install-recommends slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge")
        pwd.getpwnam(self.plan["slurm_user"])
        machine.take_loopback_name()

    # ---- settings

    @property
    def slurm_plugins(self):
        """The directory of Slurm's own plugins."""
        found = glob.glob("/usr/lib/*/slurm-wlm/auth_munge.so") + glob.glob("/usr/lib*/slurm/auth_munge.so")
        if not found:
            raise RuntimeError("Slurm's plugins are not where Debian puts them: /usr/lib/*/slurm-wlm")
        return pathlib.Path(found[0]).parent

    def all_settings(self):
        where, host = self.directory, socket.gethostname()
        return {"ClusterName": f"libra{self.plan['number']}", "SlurmctldHost": f"{host}(127.0.0.1)", "SlurmctldPort": self.plan["ports"][0],
                "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny", "SlurmUser": self.plan["slurm_user"],
                "AuthType": "auth/munge", "CredType": "cred/munge", "AuthInfo": f"socket={where}/munge/socket",
                "PluginDir": f"{self.slurm_plugins}:{self.plugins}", "StateSaveLocation": where / "state", "SlurmdSpoolDir": where / "spool/%n",
                "SlurmctldPidFile": where / "run/slurmctld.pid", "SlurmdPidFile": where / "run/%n.pid",
                "SlurmctldLogFile": where / "log/slurmctld.log", "SlurmdLogFile": where / "log/%n.log", "SlurmctldDebug": "info", "SlurmdDebug": "info",
                "LogTimeFormat": "iso8601_ms", "AccountingStorageType": "accounting_storage/none", "MpiDefault": "none", "MailProg": "/bin/true",
                **({"JobCompType": "jobcomp/filetxt", "JobCompLoc": where / "log/jobcomp"} if self.plan["jobcomp"] else {"JobCompType": "jobcomp/none"}),
                **(CGROUPS if self.plan["cgroups"] else LINUX), "PrologFlags": "Alloc", "ReturnToService": 2, "KillWait": 5,
                # What was killed may be long in ending on a busy machine; slurmd drains the node for it, by itself after a minute.
                "UnkillableStepTimeout": 1200,
                "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CPU", "SlurmdParameters": "config_overrides",
                "SchedulerParameters": QUICK, **self.plan["settings"]}

    def write_conf(self):
        """Write slurm.conf, plugstack.conf and cgroup.conf as the plan says now."""
        lines = [f"{key}={value}" for key, value in self.all_settings().items() if value is not None]
        for node, port, cpus in zip(self.nodes, self.plan["ports"][1:], self.plan["cpus"]):
            line = {"NodeName": node, "NodeHostname": socket.gethostname(), "NodeAddr": "127.0.0.1", "Port": port, "CPUs": cpus, "RealMemory": 1000, **self.plan["node_settings"]}
            lines.append(joined(line))
        main = {"PartitionName": "main", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE", "State": "UP", "OverSubscribe": "FORCE:20", **self.plan["partition"]}
        for name, more in {"main": {}, **self.plan["partitions"]}.items():
            lines.append(joined(main if name == "main" else {"PartitionName": name, "Nodes": "ALL", "MaxTime": "INFINITE", "State": "UP", **more}))
        # A task or a prolog that begins meanwhile reads them as well.
        machine.write_whole(self.conf, "\n".join(lines) + "\n")
        stack = [line(self) if callable(line) else line for line in self.plan["plugstack"]]
        machine.write_whole(self.directory / "etc/plugstack.conf", "".join(f"{line}\n" for line in stack))
        if self.plan["cgroups"]:
            # CgroupAutomount is unknown from 23.11 on.
            automount = "CgroupAutomount=no\n" if slurm_version() < (23, 11) else ""
            more = self.plan["cgroups"] if isinstance(self.plan["cgroups"], str) else ""
            machine.write_whole(self.directory / "etc/cgroup.conf", f"CgroupPlugin=cgroup/v1\n{automount}{more}")
        else:
            # slurmd looks for groups even where no plugin uses them. On version 2 it does not start in a container without systemd, and where there is systemd it moves
            # itself and all jobs into a group of its own. Before 24.05 it cannot be told to look for none; for those of version 1 it then looks at nothing.
            machine.write_whole(self.directory / "etc/cgroup.conf", f"CgroupPlugin={'disabled' if slurm_version() >= (24, 5) else 'cgroup/v1'}\n")

    def reconfigure(self, **settings):
        """Change settings of slurm.conf (None: leave out) and have all daemons read them again."""
        self.plan["settings"] |= settings
        self.write_conf()
        self.must("scontrol", "reconfigure")

    # ---- daemons

    def start(self, name, *args, node=None):
        """Start a daemon, which stays in the foreground. Slurm looks at argv[0]: it is the bare name."""
        # Nothing from this process's environment: daemons hand theirs on to jobs.
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "SLURM_CONF": str(self.conf), machine.MARK: str(self.directory),
                       **self.daemon_environment(name)}
        with open(self.directory / "log" / f"{node or name}.out", "ab") as output:
            child = subprocess.Popen([name, *map(str, args)], executable=PROGRAMS[name], env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=output, start_new_session=True)
        self.children.append(child)
        (self.directory / "run" / f"{node or name}.started").write_text(f"{child.pid}\n")

    def daemon_environment(self, _name):
        """For those who build on this: more variables for a daemon."""
        return {}

    def reap(self):
        self.children = [child for child in self.children if child.poll() is None]

    def daemon_pid(self, name):
        """The process number of `munged`, `slurmctld` or of a node's slurmd; None if it does not run."""
        self.reap()
        try:
            pid = int((self.directory / "run" / f"{name}.started").read_text())
            # A child's environment can be looked at only when it has begun to run its program.
            ours = pid in [child.pid for child in self.children] or f"{machine.MARK}={self.directory}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if ours and machine.alive(pid) else None

    def start_munged(self):
        where = self.directory / "munge"
        (where / "key").write_bytes(os.urandom(128))
        (where / "key").chmod(0o400)
        self.start("munged", "--foreground", "--num-threads=2", f"--key-file={where}/key", f"--socket={where}/socket", f"--pid-file={where}/pid", f"--log-file={where}/log", f"--seed-file={where}/seed")
        self.wait("munged answers", lambda: self.run("munge", "-n", f"--socket={where}/socket", timeout=180).rc == 0)

    def start_controller(self, *args):
        """Start slurmctld and wait until it answers."""
        self.start("slurmctld", "-D", "-f", self.conf, *args)
        self.wait("slurmctld answers", self.controller_answers)

    def controller_answers(self):
        if self.daemon_pid("slurmctld") is None:
            raise RuntimeError(f"slurmctld has ended: {self.log()[-2000:]}")
        return "is UP" in self.run("scontrol", "ping", timeout=180).out

    def stop_controller(self):
        """End slurmctld in its own time: it saves its state."""
        self.kill_controller(signal.SIGTERM)

    def kill_controller(self, number=signal.SIGKILL):
        self.end("slurmctld", number)

    def start_slurmd(self, node, *args):
        self.start("slurmd", "-D", "-f", self.conf, "-N", node, *args, node=node)

    def kill_slurmd(self, node, number=signal.SIGKILL):
        """End a node's slurmd; its jobs go on."""
        self.end(node, number)

    def end(self, name, number):
        pid = self.daemon_pid(name)
        if pid is None:
            raise RuntimeError(f"{name} of {self.directory} does not run")
        machine.end_process(pid, number, patience=180)
        self.reap()

    def wait_idle(self):
        """Wait until every node is idle."""
        self.wait("all nodes idle", lambda: all(state == "idle" for state in self.must("sinfo", "-h", "-N", "-o", "%T", timeout=180).split()))

    # ---- when something is wrong

    def log(self, name="slurmctld"):
        """The text of a daemon's log: `slurmctld`, `munged` or a node's name for its slurmd's."""
        file = self.directory / ("munge/log" if name == "munged" else f"log/{name}.log")
        output = self.directory / f"log/{name}.out"
        # In the foreground the same lines go to the log and to the output.
        return (file if file.exists() else output).read_text(errors="replace") if file.exists() or output.exists() else ""

    def diagnostics(self, lines=20):
        """What is good to know after a failure: nodes, jobs, and the ends of the logs."""
        shown = []
        for name in ("slurmctld", *self.nodes[:8]):
            # Every daemon of Debian's build complains that there is no PMIx.
            said = [line for line in self.log(name).splitlines() if not re.search("pmi|MPI", line)]
            shown += [f"--- the end of the log of {name}", *said[-lines:]]
        if self.daemon_pid("slurmctld"):
            for command in (["sinfo", "-N", "-l"], ["squeue", "-l", "--states=all"]):
                try:
                    shown += [f"--- {' '.join(command)}", *self.run(*command, timeout=180).out.splitlines()]
                except subprocess.TimeoutExpired:
                    shown.append(f"{command[0]} gets no answer")
        return "\n".join(shown)


def joined(settings):
    return " ".join(f"{key}={value}" for key, value in settings.items() if value is not None)


def remove_leftovers():
    """Take down every cluster whose owner is gone and that nobody started with `up`."""
    for directory in machine.known_clusters().values():
        if not (directory / "cluster.json").exists():
            print(f"{directory}: being made, or left unfinished: remove it by hand if nobody is at work")
            continue
        try:
            cluster = Cluster.existing(directory)
        except (OSError, ValueError):  # being made, or removed meanwhile
            continue
        if cluster.plan["owner"] is not None and not machine.alive(cluster.plan["owner"]):
            print(f"taking down {directory}")
            cluster.down()


def shown(cluster):
    return f"""cluster {cluster.plan['number']} in {cluster.directory}; nodes: {' '.join(cluster.nodes)}; users: {' '.join(cluster.users)}
    export SLURM_CONF={cluster.conf} {machine.MARK}={cluster.directory}
    su {cluster.users[0]} -c 'cd; sbatch --wrap="sleep 60"; squeue'"""


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["hold", "up", "shell", "down"])
    parser.add_argument("number", nargs="?", type=int, help="which cluster; `down` without it removes what killed runs left")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--cpus", type=int, default=1, help="processors of each node")
    parser.add_argument("--cgroups", action="store_true", help="Slurm's plugins for cgroup v1")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a line of slurm.conf")
    options = parser.parse_args()
    known = machine.known_clusters()
    if options.what == "down":
        if options.number is None:
            remove_leftovers()
        elif options.number in known:
            Cluster.existing(known[options.number]).down()
        else:
            parser.error(f"there is no cluster {options.number}; there are {sorted(known)}")
        return
    if options.what == "shell":
        if options.number not in known:
            parser.error(f"shell needs a cluster's number; there are {sorted(known)}")
        cluster = Cluster.existing(known[options.number])
        print(shown(cluster))
        os.chdir(cluster.directory)
        machine.take_loopback_name()
        os.execvpe("bash", ["bash"], cluster.environment())
    cluster = Cluster(nodes=options.nodes, cpus=options.cpus, cgroups=options.cgroups, number=options.number, settings=dict(pair.split("=", 1) for pair in options.set))
    if options.what == "hold":
        with cluster:
            print(shown(cluster), flush=True)
            try:
                signal.pause()
            except KeyboardInterrupt:
                print("taking it down")
        return
    try:
        cluster.up()
    except BaseException:
        if cluster.directory is not None:
            print(cluster.diagnostics(), file=sys.stderr)
        cluster.down()
        raise
    print(shown(cluster))


if __name__ == "__main__":
    main()
