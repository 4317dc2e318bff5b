#!/usr/bin/env python3
"""A throw-away cell of Grid Engine out of an installed one: qmaster and two execution hosts on this machine, and Libra in it.

    with Cell() as cell:
        job = cell.submit("-l", "estimate=10,deadline=20,budget=1000", script="sleep 5\\n")
        cell.wait_running(job)

Everything is in one directory, /srv/libra-gridengine-NUMBER: the cell's root, spools, logs, homes. The hosts are namespaces (`machine.Hosts`): gm has
qmaster, g1 and g2 have execution daemons, and each has a configuration of Libra's own: a registry, a directory for cgroups. LIBRA in the environment says
which program is meant; tests/gridengine/run sets it. `cluster.py down` removes what killed runs have left. Needs root and Debian's gridengine-master, gridengine-exec, gridengine-client.
"""

import atexit
import contextlib
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402  (puts tests/batch in the path)
import commands  # noqa: E402
from commands import CommandFailed  # noqa: E402

LIB = pathlib.Path("/usr/lib/gridengine")
SHARE = pathlib.Path("/usr/share/gridengine")
CPU, ACCOUNTING = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup/cpuacct")
MASTER, HOSTS = "gm", ("g1", "g2")
ADMIN = "sgeadmin"
QUEUE = {"qname": "main.q", "hostlist": " ".join(HOSTS), "slots": "40", "load_thresholds": "NONE", "pe_list": "smp spread", "shell": "/bin/sh", "shell_start_mode": "unix_behavior", "rerun": "TRUE"}
ENVIRONMENT = """pe_name {name}
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule {rule}
control_slaves TRUE
job_is_first_task FALSE
urgency_slots min
accounting_summary TRUE
qsort_args NONE
"""


def program():
    return pathlib.Path(os.environ["LIBRA"])


def changed(text, settings):
    """Lines `key value` with other values of these keys."""
    for key, value in settings.items():
        text, count = re.subn(rf"(?m)^{key}\s.*$", f"{key} {value}", text)
        if not count:
            text += f"{key} {value}\n"
    return re.sub(r"(?m)^#.*\n", "", text)


class Cell(commands.Programs):
    """A cell with Libra. rules: TOML of qmaster's host. more: TOML of every execution host. installed: `libra gridengine install` is done."""

    def __init__(self, rules="", more="", installed=True):
        self.rules, self.more, self.with_libra = rules, more, installed
        self.directory, self.number, self.hosts, self.daemons = None, None, None, {}

    # ---- names and places

    @property
    def root(self):
        return self.directory / "root"

    @property
    def users(self):
        return [f"libra-gridengine-{self.number}-{one}" for one in (1, 2)]

    def home(self, user):
        return self.directory / "home" / user

    def spool(self, host):
        return self.root / "spool/execd" / host

    def environment(self):
        """To speak to this cell; what is started so carries its mark, jobs too."""
        return commands.environment_without("SGE_", "LIBRA_") | {
            "SGE_ROOT": str(self.root), "SGE_CELL": "default", "SGE_QMASTER_PORT": "6444", "SGE_EXECD_PORT": "6445", "SGE_ARCH": "lx-amd64", "SGE_ND": "1",
            "PATH": f"{LIB}:/usr/sbin:/usr/bin:/sbin:/bin", machine.MARK: str(self.directory)}

    def run(self, *argv, host=MASTER, user=None, **options):
        """Run a program on a host of the cell, as root or as a user in its home."""
        inside = self.hosts.inside(host)
        if user:
            # What enters namespaces is root; what it starts is the user.
            options["environment"] = {"HOME": str(self.home(user)), "USER": user, "LOGNAME": user, **options.get("environment", {})}
            inside += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "sh", "-c", 'cd && exec "$@"', "sh"]
        return super().run(*inside, *argv, **options)

    # ---- up and down

    def __enter__(self):
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
        with machine.lock():
            self.number, self.directory = machine.take_number()
            for user in self.users:
                machine.add_user(user, self.home(user))
        machine.remove_directories(self.cgroup_roots())  # a killed run with the same number may have left some
        self.program = machine.for_everybody(program(), self.directory / "programs")
        self.hosts = machine.Hosts(self.directory, [MASTER, *HOSTS])
        self.hosts.up()
        self.make_root()
        self.write_rules()
        self.start_master()
        for index, host in enumerate(HOSTS):
            self.must("qconf", "-ah", host)
            self.must("qconf", "-as", host)
            # A daemon kills what has the group that it gave to a job, and all of them see all processes of this machine.
            first = 100000 + 1000 * self.number + 100 * index
            self.give("-Aconf", host, f"gid_range {first}-{first + 99}\n")
            self.start(host)
        self.must("qconf", "-as", MASTER)
        self.configure_cell()
        self.wait("both hosts report", lambda: all(self.slots(host) for host in HOSTS))
        self.before = self.configuration()
        if self.with_libra:
            self.install()

    def make_root(self):
        """An empty cell in Berkeley DB, as Debian's own."""
        root = self.root
        for name in ("bin", "lib", "utilbin", "default/common", "spool/qmaster", "spool/execd", "spool/db"):
            (root / name).mkdir(parents=True)
        (root / "util").symlink_to(SHARE / "util")
        for name in ("bin", "lib", "utilbin"):
            (root / name / "lx-amd64").symlink_to(LIB)
        bootstrap = {"spooling_params": root / "spool/db", "qmaster_spool_dir": root / "spool/qmaster", "binary_path": root / "bin", "admin_user": ADMIN}
        (root / "default/common/bootstrap").write_text(changed((SHARE / "default-bootstrap").read_text(), bootstrap))
        (root / "default/common/act_qmaster").write_text(f"{MASTER}\n")
        # Its mail is not for this machine's: Grid Engine has a whole log to say of each job that did not begin.
        conf = changed((SHARE / "default-configuration").read_text(), {"execd_spool_dir": root / "spool/execd", "load_report_time": "00:00:02", "max_unheard": "00:02:00",
                                                                       "finished_jobs": "0", "mailer": "/bin/true"})
        (root / "conf").write_text(conf.replace("flush_time=00:00:15", "flush_time=00:00:01"))
        admin = pwd.getpwnam(ADMIN)
        for where, directories, files in os.walk(root):
            for name in [".", *directories, *files]:
                os.lchown(pathlib.Path(where) / name, admin.pw_uid, admin.pw_gid)
        resources = SHARE / "util/resources"
        for command in (["spoolinit", "berkeleydb", "libspoolb", root / "spool/db", "init"], ["spooldefaults", "configuration", root / "conf"],
                        ["spooldefaults", "complexes", resources / "centry"], ["spooldefaults", "usersets", resources / "usersets"],
                        ["spooldefaults", "managers", ADMIN], ["spooldefaults", "managers", "root"]):
            subprocess.run(["setpriv", f"--reuid={ADMIN}", f"--regid={ADMIN}", "--clear-groups", LIB / command[0], *map(str, command[1:])], cwd=root, check=True,
                           env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def give(self, option, name, text):
        """Give qconf a file."""
        file = self.directory / "given" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        self.must("qconf", option, file)

    def configure_cell(self):
        self.give("-Msconf", "scheduler", changed(self.must("qconf", "-ssconf"), {"schedule_interval": "0:0:2", "flush_submit_sec": "1", "flush_finish_sec": "1"}))
        for name, rule in (("smp", "$pe_slots"), ("spread", "1")):
            self.give("-Ap", name, ENVIRONMENT.format(name=name, rule=rule))
        self.give("-Aq", "queue", changed(self.must("qconf", "-sq"), QUEUE | {"tmpdir": self.temporary_directories()}))

    def temporary_directories(self):
        """One for each host, as the queue says it. A daemon names a job's after its number, and takes it away when its part of the job has ended: in a directory that
        other hosts of this machine have too, it is that of the same job on another host, or of another cell's job with this number, which cannot start then."""
        own = {host: self.directory / "tmp" / host for host in HOSTS}
        for directory in own.values():
            directory.mkdir(parents=True)
            directory.chmod(0o1777)
        return "/tmp," + ",".join(f"[{host}={directory}]" for host, directory in own.items())

    def start(self, host):
        """The daemon of a host."""
        name = "sge_qmaster" if host == MASTER else "sge_execd"
        with open(self.directory / f"{host}.log", "ab") as log:
            self.daemons[host] = subprocess.Popen([*self.hosts.inside(host), LIB / name], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(),
                                                  start_new_session=True, cwd="/")

    def start_master(self):
        """qmaster, until it answers. Where its threads take turns badly one of them cannot become the admin user as it starts, and it ends; whoever starts
        daemons at a site starts it again."""
        def answers():
            if self.daemons[MASTER].poll() is not None:
                said = (self.root / "spool/qmaster/messages").read_text().splitlines()[-1]
                if "can't switch to admin_user" not in said:
                    raise RuntimeError(f"qmaster has ended: {said}")
                self.start(MASTER)
            return self.run("qconf", "-sh").rc == 0

        self.start(MASTER)
        self.wait("qmaster answers", answers)

    def start_agent(self, host):
        """`libra agent` of an execution host."""
        with open(self.directory / f"agent-{host}.log", "ab") as log:
            self.daemons[f"agent of {host}"] = subprocess.Popen([*self.hosts.inside(host), self.program, "--config", self.rules_file, "agent"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                                env=self.environment(), start_new_session=True, cwd="/")

    def daemon(self, host):
        """Number of its process."""
        return self.daemons[host].pid

    def kill(self, host):
        """SIGKILL for a host's daemon."""
        self.daemons[host].kill()
        self.daemons.pop(host).wait()

    def started_with(self, *words):
        """Numbers of the cell's processes whose command line has these words."""
        found = []
        for pid in machine.marked_processes(self.directory):
            try:
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(word.encode() in line for word in words):
                found.append(pid)
        return found

    def kill_verifiers(self):
        for pid in self.started_with("gridengine", "jsv"):
            machine.end_process(pid)

    def add_rules(self, text):
        """More of the configuration of qmaster's host. Verifiers read it as they start: from now on there is none that has not."""
        with self.rules_file.open("a") as rules:
            rules.write(text)
        self.kill_verifiers()

    def down(self):
        """End everything and give back what was taken from the machine; may be called at any time, and again."""
        atexit.unregister(self.down)
        if self.directory is None or not self.directory.exists():
            return
        machine.end_marked(self.directory, self.users)
        for daemon in self.daemons.values():
            daemon.wait()
        self.daemons = {}
        if self.hosts is not None:
            self.hosts.down()
        machine.remove_directories(self.cgroup_roots())
        with machine.lock():
            for user in self.users:
                machine.remove_user(user)
            shutil.rmtree(self.directory)

    # ---- Libra

    @property
    def rules_file(self):
        """The same path on all hosts, and another file on each."""
        return self.directory / "libra.toml"

    def write_rules(self):
        self.rules_file.write_text(f"[node]\nreserve = '0%'\n[gridengine]\nstart-delay = '0s'\n{self.rules}")
        for host in HOSTS:
            own = self.directory / f"libra-{host}.toml"
            own.write_text(f"[node]\nreserve = '0%'\n[cgroup]\nroot = '{self.cgroup_root(host)}'\n[registry]\ndirectory = '{self.directory}/registry-{host}'\n{self.more}")
            self.hosts.must(host, "mount", "--bind", own, self.rules_file)

    def libra(self, *args, **options):
        """`libra gridengine …` on qmaster's host."""
        return self.run(self.program, "--config", self.rules_file, *args, **options)

    @property
    def places(self):
        return ["--scripts", self.directory / "scripts", "--shepherd-log", self.directory / "shepherd.log", "--state", self.directory / "state"]

    def install(self):
        done = self.libra("gridengine", "install", *self.places)
        if done.rc != 0:
            raise CommandFailed(f"libra gridengine install: {done.out}{done.err}")
        # Daemons hear of a new configuration with their next report; what they begin before that they begin without Libra.
        self.wait("both hosts begin jobs by Libra", self.begins_by_libra)

    def begins_by_libra(self):
        """Whether jobs without terms are in groups of Libra's, on every host."""
        jobs = {host: self.submit("-l", f"h={host}", script="cat /proc/self/cgroup\n") for host in HOSTS}
        for job in jobs.values():
            self.wait_gone(job)
        return all(f"{self.cgroup_root(host)}-best-effort" in self.output(job) for host, job in jobs.items())

    def configuration(self):
        """What `qconf -s*` says."""
        texts = {what: self.must("qconf", f"-s{what}") for what in ("conf", "c", "sconf", "h", "m", "pl", "ql")}
        return texts | {"q": self.must("qconf", "-sq", "main.q")}

    def cgroup_root(self, host):
        return f"libra-gridengine-{self.number}-{host}"

    def cgroup_roots(self):
        if not self.number:
            return []
        above = [where / self.cgroup_root(host) for host in HOSTS for where in (CPU, ACCOUNTING)]
        return above + [path for host in HOSTS for path in commands.there(CPU, f"{self.cgroup_root(host)}-best-effort-*")]

    def group(self, host, job, where=CPU):
        return where / self.cgroup_root(host) / f"job-{job}"

    def job_groups(self):
        return sorted({f"{host} {group.name}" for host in HOSTS for where in (CPU, ACCOUNTING) for group in commands.there(where / self.cgroup_root(host), "job-*")})

    def live(self):
        """Jobs that a registry has and that have not ended."""
        files = [file for host in HOSTS for file in commands.there(self.directory, f"registry-{host}/jobs/*.json")]
        found = []
        for file in files:
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                entry = json.loads(file.read_text())
                if entry.get("phase") in ("reserved", "running"):
                    found.append(f"{file.stem} in the registry")
        return found

    def committed(self):
        """Processors that are committed on each host, as `libra gridengine status` has it."""
        return {node["node"]: node["committed"] for node in json.loads(self.status())["nodes"]}

    def status(self):
        done = self.libra("--json", "gridengine", "status")
        if done.rc != 0:
            raise CommandFailed(done.err)
        return done.out

    def log(self):
        """What the verifiers have logged."""
        with contextlib.suppress(FileNotFoundError):
            return (self.root / "spool/qmaster/libra.log").read_text()
        return ""

    def shepherds_log(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / "shepherd.log").read_text()
        return ""

    # ---- jobs

    @staticmethod
    def is_to_be_asked_again(answer):
        return any(words in answer.out + answer.err for words in ("submit again in a few seconds", "JSV stderr: Killed"))

    def qsub(self, *args, user=None, script="sleep 1000\n", **options):
        """Submit a script as an ordinary user; what it prints goes to `NUMBER.out` in its home. Where the verifier still reads the queue it is tried again,
        as users are told to.

        Each of qmaster's threads has a verifier: one that a test has killed refuses the next submission of its thread, whenever that comes."""
        user = user or self.users[0]

        def judged():
            done = self.run("qsub", "-terse", "-S", "/bin/sh", "-j", "y", "-o", f"{self.home(user)}/$JOB_ID.$TASK_ID.out", *args, user=user, stdin=script, **options)
            return None if self.is_to_be_asked_again(done) else done

        return self.wait("the verifier has read the queue", judged)

    def submit(self, *args, **options):
        """A submission that must be accepted: the job's number."""
        done = self.qsub(*args, **options)
        if done.rc != 0:
            raise CommandFailed(f"qsub {' '.join(map(str, args))}: {done.out}{done.err}")
        return done.out.strip().split(".")[0]

    def output(self, job, task=0, user=None):
        with contextlib.suppress(FileNotFoundError):
            return (self.home(user or self.users[0]) / f"{job}.{task}.out").read_text()
        return ""

    def jobs(self):
        """[(number, task, state, host)] of what is in the queue."""
        root = xml.etree.ElementTree.fromstring(self.must("qstat", "-xml", "-u", "*"))
        return [(job.findtext("JB_job_number"), job.findtext("tasks"), job.findtext("state"), (job.findtext("queue_name") or "@").partition("@")[2]) for job in root.iter("job_list")]

    def state(self, job):
        """Of the first task that is listed; "" for a job that is gone."""
        return next((state for number, _, state, _ in self.jobs() if number == str(job)), "")

    def host_of(self, job):
        return next((host for number, _, _, host in self.jobs() if number == str(job)), "")

    def details(self, job):
        """What `qstat -j` says: {key: value}."""
        text = self.must("qstat", "-j", job)
        return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}

    def wait_running(self, job):
        return self.wait(f"job {job} runs: it is {self.state(job)}", lambda: self.state(job) == "r" and self.host_of(job))

    def wait_gone(self, job):
        self.wait(f"job {job} is gone", lambda: not self.state(job))

    def slots(self, host):
        """Processors of a host, once its daemon has said so."""
        found = re.search(rf"(?m)^{host}\s+\S+\s+(\d+)\s", self.must("qhost"))
        return int(found.group(1)) if found else 0


def remove_leftovers():
    """Take down what killed runs have left behind: cells none of whose processes has an owner any more."""
    for number, directory in machine.known_clusters().items():
        cell = Cell()
        cell.number, cell.directory = number, directory
        cell.down()


if __name__ == "__main__":
    if sys.argv[1:] != ["down"]:
        sys.exit("cluster.py down: removes what killed runs have left")
    remove_leftovers()
