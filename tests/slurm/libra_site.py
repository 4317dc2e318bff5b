"""A throw-away Slurm with Libra: the job_submit plugin in slurmctld, the SPANK plugin on the nodes and in the clients.

    with Site(nodes=4) as slurm:
        job = slurm.submit("--estimate=10", "--sla-deadline=20", "--budget=15", script=busy(10))

LIBRA_SLURM_PLUGINS (a directory with job_submit_libra.so and libra_spank.so) and LIBRA (the program) in the environment say which; tests/slurm/run
sets both. Without them they are built with cargo. Every node has a configuration of its own, since all are on one kernel: its own registry, its own
directory for cgroups.
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402  (puts tests/batch in the path)
import commands  # noqa: E402
from cluster import Cluster  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
CPU, ACCOUNTING, VERSION_2 = (pathlib.Path("/sys/fs/cgroup") / name for name in ("cpu", "cpuacct", "."))
PLUGINS = {"job_submit_libra.so": "libjob_submit_libra.so", "libra_spank.so": "liblibra_spank.so"}  # as installed, as cargo calls them


@functools.cache
def built():
    """Where cargo has built the plugins and the program."""
    packages = [word for name in ("libra", "libra-slurm-job-submit", "libra-slurm-spank") for word in ("--package", name)]
    subprocess.run(["cargo", "build", "--quiet", *packages], cwd=TOP, check=True)
    return TOP / os.environ.get("CARGO_TARGET_DIR", "target") / "debug"


def plugin(name):
    """A plugin, by its name in Slurm's directory."""
    directory = os.environ.get("LIBRA_SLURM_PLUGINS")
    return pathlib.Path(directory) / name if directory else built() / PLUGINS[name]


def program():
    return pathlib.Path(os.environ["LIBRA"]) if "LIBRA" in os.environ else built() / "libra"


def busy(seconds, processes=1):
    """A script that uses so many seconds of processor time, in each of its processes. One is not waited for: tasks of Slurm 25.05 and 25.11.0 have SIGCHLD blocked,
    and a shell of Debian's never goes on from `wait`."""
    work = f"python3 -c 'import time\nwhile time.process_time() < {seconds}: pass'\n"
    return work if processes == 1 else work.replace("'\n", "' &\n") * processes + "wait\n"


def with_start(rules):
    """Rules of slurmctld, with no time for a late start and no reserve where they say nothing of them: what a job gets can be worked out by hand then."""
    if "[node]" not in rules:
        rules = f"{rules}\n[node]\nreserve = '0%'\n"
    if "start-delay" in rules:
        return rules
    line = "start-delay = '0s'\n"
    return rules.replace("[slurm]\n", f"[slurm]\n{line}", 1) if "[slurm]\n" in rules else f"{rules}\n[slurm]\n{line}"


class Site(Cluster):
    """A cluster with Libra. rules: TOML for slurmctld. more: TOML for every node, without [cgroup], [registry] and [node], which are given. agents: run
    `libra agent` on every node. controller: with False slurmctld has nothing of Libra's. The options are those of `Cluster`."""

    def __init__(self, rules="", more="", agents=False, controller=True, plugstack=(), settings=None, **options):
        stack = [*plugstack, lambda site: f"optional libra_spank.so config={site.directory}/etc/libra-%n.toml"]
        own = {"JobSubmitPlugins": "libra"} if controller else {}
        super().__init__(plugstack=stack, settings={**own, **(settings or {})}, **options)
        self.rules, self.more, self.with_agents, self.with_controller = rules, more, agents, controller
        self.agents = {}

    def before_start(self):
        machine.remove_directories(self.cgroup_roots())  # a killed run with the same number may have left some
        for name in PLUGINS if self.with_controller else ["libra_spank.so"]:
            shutil.copy(plugin(name), self.plugins / name)
        self.program = machine.for_everybody(program(), self.directory / "programs")
        self.rules_file.write_text(with_start(self.rules))
        self.configure(self.more)

    def up(self):
        super().up()
        if self.with_controller:
            self.wait_judging()
        for node in self.nodes if self.with_agents else []:
            self.start_agent(node)

    def wait_judging(self, times=1):
        """Wait until slurmctld has read its queue so many times anew: before that, clients are told to try again."""
        self.wait("slurmctld judges", lambda: self.log().count(" jobs with terms") >= times)

    def down(self):
        roots = self.cgroup_roots() if self.directory is not None else []
        super().down()
        for node in list(self.agents):
            self.agents.pop(node).wait()  # it was ended with everything of this cluster
        machine.remove_directories(roots)

    def daemon_environment(self, name):
        return {"LIBRA_CONFIG": str(self.rules_file)} if name == "slurmctld" else {}

    def start_agent(self, node):
        """`libra agent` of a node, to be found and ended with the cluster."""
        with open(self.directory / f"log/agent-{node}", "ab") as log:
            self.agents[node] = subprocess.Popen([program(), "agent", "--config", self.node_file(node)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                 env={**os.environ, machine.MARK: str(self.directory)}, start_new_session=True)

    def kill_agent(self, node):
        """SIGKILL for a node's agent."""
        self.agents[node].kill()
        self.agents.pop(node).wait()

    # ---- settings

    @property
    def rules_file(self):
        """slurmctld's configuration."""
        return self.directory / "etc/libra.toml"

    def rule(self, rules):
        """Give slurmctld another configuration; when it has taken it."""
        rules = with_start(rules)
        before = self.log().count("was read anew")
        if rules != self.rules_file.read_text():
            # An empty file, as it would be for a moment while it is written, means the defaults.
            machine.write_whole(self.rules_file, rules)
            self.wait("slurmctld has its new rules", lambda: self.log().count("was read anew") > before)

    def node_file(self, node):
        return self.directory / f"etc/libra-{node}.toml"

    def configure(self, more=""):
        """Write every node's configuration; it is read anew at every prolog, task and epilog."""
        for node, processors in zip(self.nodes, self.plan["cpus"]):
            self.registry(node).parent.mkdir(mode=0o755, exist_ok=True)
            machine.write_whole(
                self.node_file(node),
                f"[node]\nprocessors = {processors}\n[cgroup]\nroot = '{self.cgroup_root(node)}'\n[registry]\ndirectory = '{self.registry(node)}'\n{more}")

    # ---- on the nodes

    def registry(self, node):
        return self.directory / "registry" / node

    def cgroup_root(self, node):
        return f"libra-slurm-{node}"

    def group(self, node, job, where=CPU):
        """The directory of a job's cgroup."""
        return where / self.cgroup_root(node) / f"job-{job}"

    def best_effort(self, node, job):
        """The directory of a job's cgroup that was promised nothing."""
        return CPU / f"{self.cgroup_root(node)}-best-effort-job-{job}"

    def processes_at_best(self, node):
        """Those of all such jobs on a node."""
        pids = []
        for group in commands.there(CPU, f"{self.cgroup_root(node)}-best-effort-*/cgroup.procs"):
            with contextlib.suppress(OSError):  # it is removed in this moment
                pids += group.read_text().split()
        return pids

    def cgroup_roots(self):
        """All directories that Libra has made groups in."""
        above = [where / self.cgroup_root(node) for node in self.nodes for where in (CPU, ACCOUNTING, VERSION_2)]
        return above + [path for node in self.nodes for path in commands.there(CPU, f"{self.cgroup_root(node)}-best-effort-*")]

    def cgroups(self):
        """All that is there of this cluster's."""
        return [str(path) for path in self.cgroup_roots() if path.exists()]

    def job_groups(self):
        """Names of all jobs' cgroups, on all nodes."""
        return sorted({f"{node} {group.name}" for node in self.nodes for where in (CPU, ACCOUNTING) for group in commands.there(where / self.cgroup_root(node), "job-*")})

    def entry(self, node, job):
        """What a node's registry has of a job."""
        for file in (self.registry(node) / f"{where}/{job}.json" for where in ("jobs", "ended", "jobs")):
            with contextlib.suppress(FileNotFoundError):
                return json.loads(file.read_text())
        return {}

    def live(self):
        """Jobs that a registry has and that have not ended."""
        found = []
        for file in (file for node in self.nodes for file in commands.there(self.registry(node), "jobs/*.json")):
            with contextlib.suppress(FileNotFoundError):  # it ends in this moment
                if json.loads(file.read_text())["phase"] != "ended":
                    found.append(f"{file.parent.parent.name} {file.stem}")
        return found

    def output(self, job, user=None):
        """What a batch script has printed so far."""
        file = self.home(user or self.users[0]) / f"slurm-{job}.out"
        return file.read_text() if file.exists() else ""

    def nodes_of(self, job):
        """The nodes that a job runs or ran on."""
        given = self.job(job).get("NodeList", "")
        return self.must("scontrol", "show", "hostnames", given).split() if given not in ("", "(null)") else []

    # ---- in slurmctld

    def said(self):
        """The lines that Libra has written into slurmctld's log."""
        return [line.split("libra: ", 1)[1] for line in self.log().splitlines() if "libra: " in line]

    def booked(self):
        """Jobs that slurmctld's book has, as far as its log says."""
        known = set()
        for line in self.said():
            if line.endswith(" jobs with terms"):
                known = set()  # slurmctld has begun anew, and does not list what it has found
            elif found := re.match(r"job (\S+?):? (.*)", line):
                if re.match(r"\S+ % of a processor for|was found", found[2]):
                    known.add(found[1])
                elif re.search(r"ended after|was over when|^is gone|share is free", found[2]):
                    known.discard(found[1])
        return sorted(known)
