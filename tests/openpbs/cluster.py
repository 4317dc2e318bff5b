#!/usr/bin/env python3
"""A throw-away OpenPBS out of an installed one: server, scheduler, comm and execution hosts on this machine.

In a test:

    with Cluster(hosts=3, processors=2) as pbs:
        job = pbs.submit("-l", "select=1:ncpus=1", script="sleep 5\\n")
        pbs.wait_state(job, "R")

By hand: `cluster.py up DIR`, `cluster.py shell DIR`, `cluster.py down DIR`. `cluster.py down` alone removes what killed runs have left.

Everything is in one directory. What it must take from the machine (addresses 10.77.<subnet>.x on `lo`, lines in
/etc/hosts, ordinary users) is given back at the end; `machine` knows how. Several clusters can run at a time: their
subnets, ports and names differ. All hosts share this machine's processors and kernel. Needs root, PostgreSQL with its
user `postgres`, and OpenPBS in PBS_EXEC (/opt/pbs if the environment does not say); needs and makes no /etc/pbs.conf.

What differs from a real cluster: moms have ports of their own, so `pbsnodes -o` wants host:port (`host_port`), and a
host's cgroups are the machine's. After a server was killed, job numbers go on at the next thousand. PBS_HOME is a copy of one that pbs_habitat has
made (`home`), in target/openpbs-home.tar.
"""

import argparse
import atexit
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import client  # noqa: E402 (the directory of this file must be in the path first)
import home  # noqa: E402
import machine  # noqa: E402

PARENT = "/srv"  # of temporary directories
MOM_DIRECTORIES = {"aux": 0o755, "checkpoint": 0o700, "mom_logs": 0o755, "mom_priv": 0o751, "mom_priv/jobs": 0o751, "mom_priv/hooks": 0o750,
                   "mom_priv/hooks/tmp": 0o750, "spool": 0o1777, "undelivered": 0o1777}


class Cluster(client.Commands):
    """One cluster; its commands are in `client.Commands`.

    hosts: how many execution hosts. processors: what each offers as ncpus, a number or one per host (None: what the
    machine has). subnet: 1 to 250, chosen if None. directory: where (new or empty), a temporary one in /srv if None. users: how many ordinary users.
    """

    def __init__(self, hosts=3, processors=None, subnet=None, directory=None, users=2):
        self.exec = pathlib.Path(os.environ.get("PBS_EXEC", "/opt/pbs"))
        self.processors = processors if isinstance(processors, (list, tuple)) else [processors] * hosts
        self.plan = {"hosts": hosts, "subnet": subnet, "users": users, "owner": None}
        self.directory = pathlib.Path(directory).resolve() if directory else None

    @classmethod
    def existing(cls, directory):
        """The cluster that `up` has started in `directory`."""
        found = cls(directory=directory)
        found.plan = json.loads((found.directory / "cluster.json").read_text())
        return found

    # ---- names and places

    @property
    def home(self):
        return self.directory / "server"

    @property
    def conf(self):
        return self.directory / "server.conf"

    @property
    def server_name(self):
        return f"pbs-{self.plan['subnet']}"

    @property
    def host_names(self):
        """Names of the execution hosts and of their nodes: n1-21, n2-21 … for subnet 21."""
        return [f"n{number}-{self.plan['subnet']}" for number in range(1, self.plan["hosts"] + 1)]

    @property
    def users(self):
        return [f"libra-test-{self.plan['subnet']}-{number}" for number in range(1, self.plan["users"] + 1)]

    @property
    def names(self):
        """{address: name}"""
        names = [self.server_name, *self.host_names]
        return {f"10.77.{self.plan['subnet']}.{number}": name for number, name in enumerate(names, start=1)}

    def host_conf(self, host):
        return self.directory / f"{host}.conf"

    # ---- up and down

    def __enter__(self):
        self.plan["owner"] = os.getpid()
        atexit.register(self.down)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    def up(self):
        """Build and start everything; return when all nodes are free."""
        self.check_machine()
        if self.directory is None:
            self.directory = pathlib.Path(tempfile.mkdtemp(prefix="libra-openpbs-", dir=PARENT))
        self.check_directory()
        self.directory.mkdir(parents=True, exist_ok=True)
        if any(self.directory.iterdir()):
            raise RuntimeError(f"{self.directory} is not empty: `cluster.py down` it, or choose another directory")
        self.directory.chmod(0o755)
        with machine.lock():
            if self.plan["subnet"] is None:
                self.plan["subnet"] = machine.free_subnet()
            self.plan["ports"] = machine.free_ports(self.plan["subnet"], 3 + 2 * self.plan["hosts"])
            (self.directory / "cluster.json").write_text(json.dumps(self.plan) + "\n")
            machine.add_names(self.plan["subnet"], self.directory, self.names)
            for user in self.users:
                machine.add_user(user, self.directory / "home" / user)
        (self.directory / "tmp").mkdir()
        (self.directory / "tmp").chmod(0o1777)
        self.write_server()
        for host in self.host_names:
            self.write_host(host)
        self.build_home()
        (self.home / "pbs_environment").write_text(self.job_environment(self.conf))
        self.daemon("sbin/pbs_comm")
        self.start_server()
        self.daemon("sbin/pbs_sched")
        # What a server of the tests has to say to a user is not for this machine's mail.
        self.qmgr("set server flatuid = true", "set server job_history_enable = true", "set server mailer = /bin/true")
        # All nodes before the first mom: each creation makes the nodes that are up go down for two seconds, and a job
        # that is looked at meanwhile waits for the next event: a node that comes up starts no scheduling cycle.
        for host, processors in zip(self.host_names, self.processors):
            self.qmgr(f"create node {host} port={self.host_port(host)}")
            if processors is not None:
                self.qmgr(f"set node {host} resources_available.ncpus = {processors}")
        for host in self.host_names:
            self.start_mom(host)
        self.wait_free()

    def down(self):
        """End everything and give back what was taken from the machine; may be called at any time, and again."""
        atexit.unregister(self.down)
        if self.directory is None or not self.directory.exists():
            return
        # Not if another cluster has this subnet, because `up` failed on just that: the names and users are the other's.
        ours = machine.known_clusters().get(self.plan["subnet"]) == self.directory
        machine.end_all(self.directory, self.users if ours else ())
        if ours:
            with machine.lock():
                for user in self.users:
                    machine.remove_user(user)
                machine.remove_names(self.plan["subnet"])
        shutil.rmtree(self.directory)

    def check_machine(self):
        if os.geteuid() != 0:
            raise RuntimeError("a throw-away OpenPBS needs root: addresses, users, daemons")
        if not (self.exec / "sbin/pbs_server.bin").exists():
            raise RuntimeError(f"no OpenPBS in {self.exec}: set PBS_EXEC to where it is installed")
        for name in ("pbs_iff", "pbs_rcp"):
            program = self.exec / "sbin" / name
            if not program.stat().st_mode & stat.S_ISUID:
                print(f"{program} was not set-user-id root, so no user's command could work: set it (chmod 4755)", file=sys.stderr)
                program.chmod(0o4755)

    def check_directory(self):
        """OpenPBS stops, with a word in its log only, where others can write to a directory on the way: /tmp will not do."""
        for part in (self.directory, *self.directory.parents):
            if part.exists() and part.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise RuntimeError(f"{self.directory}: others can write to {part}, and OpenPBS refuses that: choose a directory such as {PARENT}/libra")

    def build_home(self):
        """By pbs_habitat, or a copy of what that has made for another cluster."""
        names = [self.server_name, str(self.directory)]
        # Whoever comes meanwhile waits: the first one's is there sooner than another one.
        with machine.lock("openpbs-home", patience=1200):
            if home.copied(self.home, names, self.exec):
                return
            self.make_home()
            home.keep(self.home, names, self.exec)

    def make_home(self):
        """Run pbs_habitat. On a busy machine it asks the data service before that is ready, and gives up; or the server that it starts to make a queue
        refuses root ("Unauthorized Request"), so that there is no queue, or that server stays, and pbs_habitat ends well: then once more."""
        said = self.directory / "daemons.out"
        for _ in range(3):
            before = said.stat().st_size if said.exists() else 0
            try:
                self.daemon("libexec/pbs_habitat", timeout=180)
                text = said.read_bytes()[before:].decode(errors="replace")
                if re.search("^qterm:|Unauthorized Request", text, re.MULTILINE):
                    raise client.CommandFailed(f"pbs_habitat ended well, and was refused what it asked:\n{text[-2000:]}")
                self.wait("the server that pbs_habitat started ends", lambda: self.server_pid() is None)
                return
            except (client.CommandFailed, TimeoutError) as failure:
                last = failure
                machine.end_all(self.directory)
                shutil.rmtree(self.home)
        raise last

    @property
    def common_settings(self):
        """For server and hosts. qsub leaves sockets and copies of scripts in PBS_TMPDIR."""
        return {"PBS_CORE_LIMIT": 0, "PBS_LOG_HIGHRES_TIMESTAMP": 1, "PBS_TMPDIR": self.directory / "tmp"}

    def write_server(self):
        server, comm, store = self.plan["ports"][:3]
        settings = {"PBS_EXEC": self.exec, "PBS_HOME": self.home, "PBS_SERVER": self.server_name, "PBS_LEAF_NAME": self.server_name,
                    "PBS_BATCH_SERVICE_PORT": server, "PBS_BATCH_SERVICE_PORT_DIS": server, "PBS_DATA_SERVICE_PORT": store,
                    "PBS_COMM_NAME": f"{self.server_name}:{comm}", "PBS_LEAF_ROUTERS": f"{self.server_name}:{comm}",
                    "PBS_START_SERVER": 1, "PBS_START_SCHED": 1, "PBS_START_COMM": 1, "PBS_START_MOM": 0,
                    **self.common_settings}
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def write_host(self, host):
        server, comm = self.plan["ports"][:2]
        home, port = self.directory / host, self.host_port(host)
        settings = {"PBS_EXEC": self.exec, "PBS_HOME": home, "PBS_MOM_HOME": home, "PBS_SERVER": self.server_name,
                    "PBS_LEAF_NAME": host, "PBS_MOM_NODE_NAME": host, "PBS_BATCH_SERVICE_PORT": server, "PBS_BATCH_SERVICE_PORT_DIS": server,
                    "PBS_MOM_SERVICE_PORT": port, "PBS_MANAGER_SERVICE_PORT": port + 1, "PBS_LEAF_ROUTERS": f"{self.server_name}:{comm}",
                    "PBS_START_SERVER": 0, "PBS_START_SCHED": 0, "PBS_START_COMM": 0, "PBS_START_MOM": 1,
                    **self.common_settings}
        self.host_conf(host).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        for name, mode in MOM_DIRECTORIES.items():
            (home / name).mkdir(parents=True)
            (home / name).chmod(mode)
        (home / "pbs_environment").write_text(self.job_environment(self.host_conf(host)))
        (home / "mom_priv/config").write_text(f"$usecp *:{self.directory} {self.directory}\n$usecp *:/tmp /tmp\n$min_check_poll 5\n$max_check_poll 5\n"
                                              # Not /var/tmp: a job is refused where a killed cluster's job of the same number has left its directory.
                                              f"$tmpdir {home}/spool\n")

    def job_environment(self, conf):
        """Jobs carry the mark, to be found when their mom is no more; PBS's commands inside jobs need the path of the settings."""
        return f"PATH=/bin:/usr/bin\nPBS_CONF_FILE={conf}\n{machine.MARK}={self.directory}\n"

    def host_port(self, host):
        return self.plan["ports"][3 + 2 * self.host_names.index(host)]

    # ---- daemons

    def daemon(self, program, *args, conf=None, timeout=180, more=()):
        """Start one of PBS's own programs, marked as this cluster's. Its output goes to a file: a daemon keeps it open."""
        environment = {"PBS_CONF_FILE": str(conf or self.conf), machine.MARK: str(self.directory), **dict(more)}
        output = self.directory / "daemons.out"
        result = self.run("sh", "-c", 'exec "$0" "$@" >>"$DAEMON_OUTPUT" 2>&1 </dev/null', self.exec / program, *args,
                          environment={**environment, "DAEMON_OUTPUT": str(output)}, timeout=timeout)
        if result.rc != 0:
            raise client.CommandFailed(f"{program}: exit {result.rc}; the end of its output:\n{output.read_text(errors='replace')[-2000:]}")

    def lock_pid(self, file):
        """The process number a daemon has left in its lock file; None if that process is gone."""
        try:
            pid = int(file.read_text())
        except (OSError, ValueError):
            return None
        return pid if machine.alive(pid) else None

    def server_pid(self):
        return self.lock_pid(self.home / "server_priv/server.lock")

    def mom_pid(self, host):
        return self.lock_pid(self.directory / host / "mom_priv/mom.lock")

    def kill_server(self, number=signal.SIGKILL):
        machine.end_process(self.server_pid(), number)

    def start_server(self, **environment):
        self.daemon("sbin/pbs_server", more=environment)
        self.wait("the server answers", lambda: self.run("qstat", "-B").rc == 0)

    def kill_mom(self, host, number=signal.SIGKILL):
        """End a host's mom; its jobs' processes stay (with SIGKILL)."""
        machine.end_process(self.mom_pid(host), number)

    def seen_down(self, host):
        """Until the server has seen that a host's mom has ended: that its node is free is what was before, otherwise."""
        self.wait(f"{host} is seen to be down", lambda: "down" in self.node(host).get("state", ""))

    def start_mom(self, host, preserve=False):
        """Start a host's mom; with `preserve`, running jobs are taken over (`pbs_mom -p`) rather than ended and run again. A hook that was at work
        when its mom was killed has that mom's lock until it has ended ("another mom running")."""
        def started():
            try:
                self.daemon("sbin/pbs_mom", *(["-p"] if preserve else []), conf=self.host_conf(host))
            except client.CommandFailed as error:
                if "another mom running" not in str(error).splitlines()[-1]:
                    raise
                return False
            return True

        self.wait(f"the mom of {host} starts", started)

    def jobs_of_mom(self, host):
        """The jobs that a host's mom has written down."""
        return {file.stem for file in (self.directory / host / "mom_priv/jobs").glob("*.JB")}

    def wait_free(self):
        """Wait until every node is free, and start a scheduling cycle."""
        self.wait("all nodes free", lambda: all(self.node(host).get("state") == "free" for host in self.host_names))
        self.cycle()

    def scheduler_pid(self):
        return self.lock_pid(self.home / "sched_priv/sched.lock")

    def signal_scheduler(self, number=signal.SIGHUP):
        os.kill(self.scheduler_pid(), number)


def remove_leftovers():
    """Take down every cluster whose owner is gone and that nobody started with `up`."""
    for subnet, directory in machine.known_clusters().items():
        if not (directory / "cluster.json").exists():
            print(f"subnet {subnet}: {directory} is gone; only its names are taken back")
            with machine.lock():
                machine.remove_names(subnet)
            continue
        cluster = Cluster.existing(directory)
        if cluster.plan["owner"] is not None and not machine.alive(cluster.plan["owner"]):
            print(f"taking down {directory}")
            cluster.down()


def shell(cluster):
    """A root shell in which PBS's commands speak to this cluster."""
    environment = {**client.plain_environment(cluster.conf), "PATH": f"{cluster.exec}/bin:{cluster.exec}/sbin:{os.environ['PATH']}"}
    print(f"submit as an ordinary user: su {cluster.users[0]} -c 'qsub …'; hosts: {' '.join(cluster.host_names)}")
    os.chdir(cluster.directory)
    os.execvpe("bash", ["bash"], environment)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["up", "shell", "down"])
    parser.add_argument("directory", nargs="?", help="where the cluster is; `down` without it removes what killed runs left")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--processors", type=int, help="what each host offers as ncpus")
    parser.add_argument("--subnet", type=int, help="addresses 10.77.SUBNET.x")
    options = parser.parse_args()
    if options.directory is None:
        if options.what != "down":
            parser.error(f"{options.what} needs a directory")
        remove_leftovers()
        return
    directory = pathlib.Path(options.directory).resolve()
    if options.what == "down":
        Cluster.existing(directory).down()
        return
    if options.what == "shell" and (directory / "cluster.json").exists():
        shell(Cluster.existing(directory))
    cluster = Cluster(hosts=options.hosts, processors=options.processors, subnet=options.subnet, directory=directory)
    try:
        cluster.up()
    except BaseException:
        cluster.down()
        raise
    if options.what == "shell":
        shell(cluster)
    print(f"PBS_CONF_FILE={cluster.conf}  hosts: {' '.join(cluster.host_names)}  users: {' '.join(cluster.users)}")


if __name__ == "__main__":
    main()
