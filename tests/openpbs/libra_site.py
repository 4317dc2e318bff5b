"""A throw-away OpenPBS with Libra installed in it, by the one command that a site's administrator runs.

    with Site(processors=1) as pbs:
        job = pbs.submit("-l", "deadline=20,budget=15,estimate=10", script=busy(10))

LIBRA and LIBRA_LIBRARY in the environment say which program and which library (tests/openpbs/run sets both). Every host has
a configuration of its own, since all are on one kernel: its own registry, its own cgroup.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402  (puts tests/batch in the path)
import commands  # noqa: E402
from cluster import Cluster  # noqa: E402

HOST_EVENTS = ["execjob_begin", "execjob_launch", "execjob_attach", "execjob_epilogue", "execjob_end", "execjob_abort", "execjob_postsuspend", "execjob_preresume", "exechost_periodic"]
TOP = pathlib.Path(__file__).resolve().parents[2]
CGROUPS = pathlib.Path("/sys/fs/cgroup/cpu")
# Often the same directory; where it is not, Libra has its groups in both.
ACCOUNTING = pathlib.Path("/sys/fs/cgroup/cpuacct")


def busy(seconds, processes=1):
    """A script that uses so many seconds of processor time, in each of its processes."""
    work = ("python3 -c 'import time\nwhile time.process_time() < %s: pass'" % seconds)
    return "\n".join([f"{work} &"] * processes) + "\nwait\n"


def wait_told(pbs):
    """Wait until the server has sent its hosts all of Libra. Until then they reject jobs, some ten in a second, and PBS holds a job after twenty; or a
    job is run by the rules of an older installation."""
    wanted = {}
    with tempfile.TemporaryDirectory(dir=pbs.directory) as directory:
        exported = [(f"libra_{event}", part, kind) for event in HOST_EVENTS for part, kind in (("PY", "x-python"), ("CF", "x-config"))]
        pbs.qmgr(*(f"export hook {hook} application/{kind} default {directory}/{hook}.{part}" for hook, part, kind in exported))
        for hook, part, _ in exported:
            wanted[f"{hook}.{part}"] = (pathlib.Path(directory) / f"{hook}.{part}").read_text()
    for host in pbs.host_names:
        pbs.wait(f"{host} has hooks and resources", lambda host=host: is_told(pbs.directory / host / "mom_priv/hooks", wanted))


def is_told(hooks, wanted):
    """Whether a host has these hooks in its directory, switched on, and the resources."""
    try:
        return ("libra_terms" in (hooks / "resourcedef").read_text() and all((hooks / name).read_text() == text for name, text in wanted.items())
                and not any("enabled=false" in (hooks / f"libra_{event}.HK").read_text().lower() for event in HOST_EVENTS))
    except OSError:
        return False


class Site(Cluster):
    """A cluster with Libra. server_config: TOML for the server; host_config: TOML for every host, without [cgroup], [registry] and [node]
    processors, which are given. `processors`: what each host shares, and offers as ncpus. `agents`: run `libra agent` on every host."""

    def __init__(self, hosts=3, processors=1, server_config="", host_config="", agents=False, library=None, **options):
        super().__init__(hosts=hosts, processors=processors, **options)
        self.libra = pathlib.Path(os.environ.get("LIBRA", TOP / "target/release/libra"))
        self.library = pathlib.Path(library or os.environ.get("LIBRA_LIBRARY", TOP / "target/lib/small/liblibra.so"))
        self.server_config, self.host_config, self.with_agents = server_config, host_config, agents
        self.agents = {}

    @property
    def own(self):
        """Libra's files of this cluster."""
        return self.directory / "libra"

    def up(self):
        super().up()
        self.remove_cgroups(self.host_names)  # a killed run with the same names may have left some
        self.own.mkdir()
        self.libra = machine.for_everybody(self.libra, self.directory / "programs")
        self.write_config()
        self.install()
        if self.with_agents:
            for host in self.host_names:
                self.start_agent(host)

    def down(self):
        hosts = self.host_names if self.plan["subnet"] is not None else []
        super().down()
        for host in list(self.agents):
            self.agents.pop(host).wait()  # it was ended with everything of this cluster
        self.remove_cgroups(hosts)

    def remove_cgroups(self, hosts):
        """All groups of these hosts; no process is in them."""
        for root in (root for host in hosts for root in [*self.cgroup_roots(host), *self.roots_without_terms(host)]):
            for directory in [*commands.there(root, "*"), root] if root.is_dir() else []:
                if directory.is_dir():
                    directory.rmdir()

    def write_config(self, server_config=None):
        """The server's configuration and the hosts'; the hooks take a changed one at the next event."""
        if server_config is not None:
            self.server_config = server_config
        # What a job gets can be worked out by hand without a reserve.
        reserve = "" if "[node]" in self.server_config else '\n[node]\nreserve = "0%"\n'
        # An empty file, as it would be for a moment while it is written, means the defaults.
        machine.write_whole(self.own / "server.toml", self.server_config + reserve)
        for host, processors in zip(self.host_names, self.processors):
            machine.write_whole(
                self.own / f"{host}.toml",
                f'[cgroup]\nroot = "{self.cgroup_root(host).name}"\n[registry]\ndirectory = "{self.own / host}"\n'
                f"[node]\nprocessors = {processors or 1}\n{self.host_config}")

    def install_arguments(self):
        return ["--library", self.library, "--config", self.own / "server.toml", "--host-config", self.own / "%h.toml", "--state", self.own / "record"]

    def install(self, *more):
        """`libra pbs install`; what it printed. The hosts have it."""
        said = self.must(self.libra, "pbs", "install", *self.install_arguments(), *more, timeout=300)
        wait_told(self)
        return said

    def uninstall(self, *more):
        return self.must(self.libra, "pbs", "uninstall", "--state", self.own / "record", *more, timeout=300)

    def cgroup_root(self, host):
        return CGROUPS / f"libra-{host}"

    def cgroup_roots(self, host):
        """All directories that Libra makes groups in on a host."""
        return [self.cgroup_root(host), ACCOUNTING / self.cgroup_root(host).name]

    def cgroup(self, host, job, accounting=False):
        """The cgroup of a job on a host, where its cap is or where its time is counted; it may not be there."""
        return self.cgroup_roots(host)[accounting] / f"job-{job}"

    def cgroups(self):
        """Names of all jobs' cgroups, on all hosts."""
        return sorted({f"{host} {directory.name}" for host in self.host_names for root in self.cgroup_roots(host) for directory in commands.there(root, "job-*")})

    def roots_without_terms(self, host):
        """All directories that it makes groups of jobs without terms in."""
        return [root.with_name(f"{root.name}-without-terms") for root in self.cgroup_roots(host)]

    def groups_without_terms(self):
        """Names of the cgroups of all jobs without terms, on all hosts."""
        return sorted({f"{host} {directory.name}" for host in self.host_names for root in self.roots_without_terms(host) for directory in commands.there(root, "job-*")})

    def start_agent(self, host):
        """`libra agent` of a host, to be found and ended with the cluster."""
        with open(self.own / f"agent-{host}.log", "ab") as log:
            agent = subprocess.Popen([self.libra, "agent", "--config", self.own / f"{host}.toml"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     env={**os.environ, machine.MARK: str(self.directory)}, start_new_session=True)
        self.agents[host] = agent

    def kill_agent(self, host):
        """SIGKILL for a host's agent."""
        self.agents[host].kill()
        self.agents.pop(host).wait()

    def node_of(self, job):
        """The hosts that a job runs or ran on."""
        return re.findall(r"\((n\d+-\d+)", self.qstat(job).get("exec_vnode", ""))

    def committed(self):
        """{node: processors that PBS counts as taken}."""
        return {host: float(self.node(host).get("resources_assigned.libra_share", 0)) for host in self.host_names}
