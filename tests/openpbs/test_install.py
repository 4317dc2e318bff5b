#!/usr/bin/env python3
"""`libra pbs install`, `uninstall`, `check` and `hooks` on a real OpenPBS, which is thrown away afterwards.

Needs root and what `cluster` needs. LIBRA names the program (target/debug/libra), LIBRA_LIBRARY the library
(target/debug/liblibra.so). SUBNET is the number of the cluster's addresses. ONLY has words: just the tests with one of them in
their names.
"""

import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cluster import Cluster  # noqa: E402
from evidence import evidence  # noqa: E402
from libra_site import HOST_EVENTS, wait_told  # noqa: E402

ROOT = HERE.parent.parent
LIBRA = pathlib.Path(os.environ.get("LIBRA", ROOT / "target/debug/libra")).resolve()
LIBRARY = pathlib.Path(os.environ.get("LIBRA_LIBRARY", ROOT / "target/debug/liblibra.so")).resolve()
SUBNET = int(os.environ["SUBNET"]) if "SUBNET" in os.environ else None

RESOURCES = ["estimate", "deadline", "budget", "deadline_type", "penalty_rate", "class", "libra_quote", "libra_terms", "libra_price", "libra_info", "libra_progress", "libra_share", "libra_besteffort",
             "libra_rating", "libra_node"]
EVENTS = ["execjob_begin", "execjob_launch", "execjob_attach", "execjob_epilogue", "execjob_end", "execjob_abort", "execjob_postsuspend", "execjob_preresume", "exechost_periodic",
          "postqueuejob", "modifyjob", "movejob", "runjob", "jobobit", "modifyvnode", "management", "periodic", "queuejob"]
SITE_HOOK = "import pbs\npbs.event().accept()\n"


class Site:
    """A cluster with things of its own, and Libra beside it."""

    def __init__(self, pbs):
        self.pbs = pbs
        self.state = pbs.directory / "state"
        self.library = pbs.directory / "lib/liblibra.so.0"
        self.config = pbs.directory / "libra.toml"
        self.cgroup_root = pbs.directory.name
        self.library.parent.mkdir()
        shutil.copyfile(LIBRARY, self.library)
        default = subprocess.run([LIBRA, "config", "default"], check=True, capture_output=True, text=True).stdout
        # The hosts read it too: what they write stays in this cluster.
        own = {'directory = "auto"': f'directory = "{pbs.directory}/registry"', 'root = "auto"': f'root = "{self.cgroup_root}"'}
        for line, value in own.items():
            default = default.replace(line, value)
        self.config.write_text(default)
        # What an installation must leave alone.
        pbs.qmgr("create resource licences type=long,flag=q", "create resource gpus type=long,flag=nh",
                 f"set node {pbs.host_names[0]} resources_available.gpus = 4", "set server resources_available.licences = 3")
        pbs.hook("site_check", "queuejob", SITE_HOOK, order=5)
        self.sched_config.chmod(0o640)
        group = pwd.getpwnam("nobody").pw_gid
        os.chown(self.sched_config, 0, group)

    @property
    def sched_config(self):
        return self.pbs.home / "sched_priv/sched_config"

    def remove_cgroups(self):
        """`uninstall --force` leaves those of running jobs, as its documentation says; the jobs are gone by now."""
        for root in {root.resolve() for root in pathlib.Path("/sys/fs/cgroup").glob(f"*/{self.cgroup_root}*")}:
            for directory in (*root.glob("job-*"), root):
                directory.rmdir()

    def options(self, command):
        settings = ["--state", self.state]
        if command != "uninstall":
            settings += ["--library", self.library, "--config", self.config]
        return settings

    def libra(self, command, *args, user=None):
        return self.pbs.run(LIBRA, "pbs", command, *self.options(command), *args, user=user)

    def do(self, command, *args, rc=0):
        """The answer of a command that has to end with this code."""
        result = self.libra(command, *args)
        assert result.rc == rc, f"pbs {command} {args}: exit {result.rc}, not {rc}\n{result.out}{result.err}"
        return result.out + result.err

    def snapshot(self):
        """All that an installation touches, as bytes."""
        # Few connections: PBS takes a reserved port for each, and they are soon used up.
        shown = {"print": self.pbs.must("qmgr", stdin="print server\nprint resource\nprint node @default\n"), "print hook": self.pbs.must("qmgr", "-c", "print hook")}
        status = self.sched_config.stat()
        return {**shown, "sched_config": self.sched_config.read_bytes(), "owner": (status.st_uid, status.st_gid, status.st_mode),
                "sched_priv": sorted(set(os.listdir(self.sched_config.parent)) - {"usage", "sched_out"}),
                "resourcedef": (self.pbs.home / "server_priv/resourcedef").read_bytes(), "state": self.state.exists()}

    def hooks(self):
        """{name: enabled} of Libra's hooks."""
        listed = self.pbs.must("qmgr", "-c", "list hook")
        return dict(re.findall(r"^Hook (libra_\S+)\n(?:    .*\n|\t.*\n)*?    enabled = (\S+)", listed, re.MULTILINE))


def same(before, after):
    """Fail with what differs."""
    for what, value in before.items():
        assert after[what] == value, f"{what} was\n{value}\nand is\n{after[what]}"


def steps(text):
    """The commands of an answer."""
    return [line for line in text.splitlines() if line.startswith(("qmgr -c", "in /", "kill -HUP", "qdel"))]


def killed_at(site, command, number):
    """Start a command and kill it when it has printed its step `number`, which it is about to run. How many it had printed when it ended: on a
    busy machine it is some steps further before it is killed, or done. None if it has not so many steps."""
    argv = [LIBRA, "pbs", command, *site.options(command)]
    environment = {**os.environ, "PBS_CONF_FILE": str(site.pbs.conf)}
    with subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, text=True, env=environment) as process:
        seen = 0
        for line in process.stdout:
            seen += len(steps(line))
            if seen == number:
                # Some time later, so that kills come before, in and after the step.
                time.sleep(0.004 * (number % 7))
                process.send_signal(signal.SIGKILL)
                break
        reached = seen + sum(len(steps(line)) for line in process.stdout)
    return reached if seen == number else None


# ---- tests


def test_check_finds_no_problem_and_changes_nothing(site):
    before = site.snapshot()
    text = site.do("check")
    assert "problem" not in text and "loads in PBS's Python" in text, text
    for line in subprocess.run([LIBRA, "pbs", "check", "--json", *map(str, site.options("check"))], capture_output=True, text=True, check=True,
                               env={**os.environ, "PBS_CONF_FILE": str(site.pbs.conf)}).stdout.splitlines():
        assert json.loads(line)["level"] in ("ok", "warning")
    same(before, site.snapshot())


def test_dry_run_changes_nothing(site):
    before = site.snapshot()
    planned = steps(site.do("install", "--dry-run"))
    same(before, site.snapshot())
    done = steps(site.do("install"))
    assert planned == done, "the plan that is printed is the plan that is run"
    installed = site.snapshot()
    site.do("uninstall", "--dry-run")
    same(installed, site.snapshot())
    site.do("uninstall")


def expect_nothing_to_do(site):
    # The site's own nodes have GPUs that its scheduler does not count: that is said every time.
    said = [line for line in site.do("install").splitlines() if not line.startswith("warning  resource gpus: ")]
    assert said == ["nothing to do"], said


def test_install_twice_and_uninstall(site):
    before = site.snapshot()
    text = site.do("install")
    assert steps(text)[-1] == "qmgr -c 'set hook libra_queuejob enabled=true'"
    installed = site.snapshot()
    assert site.hooks() == {f"libra_{event}": "true" for event in EVENTS}
    for resource in RESOURCES:
        assert f"create resource {resource}\n" in installed["print"]
    lines = installed["sched_config"].splitlines()
    changed = [new for new, old in zip(lines, before["sched_config"].splitlines()) if new != old]
    assert changed == [b'resources: "ncpus, mem, arch, host, vnode, aoe, eoe, libra_share, libra_besteffort, libra_node"'], changed
    assert installed["owner"] == before["owner"] and (before["owner"][2] & 0o777) == 0o640
    expect_nothing_to_do(site)
    same(installed, site.snapshot())
    assert "installed: by version" in site.do("check")
    site.do("uninstall")
    same(before, site.snapshot())
    assert "nothing to do" in site.do("uninstall")


def test_hooks_get_their_files(site):
    directory = site.pbs.directory / "hooks"
    site.do("hooks", directory)
    site.do("install")
    for event in EVENTS:
        for kind, suffix in (("x-python", "py"), ("x-config", "json")):
            imported = site.pbs.must("qmgr", "-c", f"export hook libra_{event} application/{kind} default")
            assert imported == (directory / f"libra_{event}.{suffix}").read_text()
    told = json.loads(site.pbs.must("qmgr", "-c", "export hook libra_queuejob application/x-config default"))
    assert told == {"library": str(site.library), "config": str(site.config), "host-config": str(site.config),
                    "state": str(site.pbs.home / "server_priv/libra"), "on-fault": "refuse"}, told
    for host in site.pbs.host_names:
        there = site.pbs.directory / host / "mom_priv/hooks"
        site.pbs.wait(f"hooks at {host}", lambda there=there: len(list(there.glob("libra_*.PY"))) == len(HOST_EVENTS))
    site.do("uninstall")


def test_the_scheduler_counts_shares(site):
    site.do("install", "--nodes", site.pbs.host_names[1], "--share", "1")
    wait_told(site.pbs)
    # By itself, without Libra's admission before it.
    site.pbs.qmgr("set hook libra_queuejob enabled = false")
    select = ["-l", "select=1:ncpus=0:mpiprocs=1:libra_share=0.75"]
    first, second = site.pbs.submit(*select), site.pbs.submit(*select)
    site.pbs.wait_started(first)
    site.pbs.wait("second refused a place", lambda: "libra_share" in site.pbs.qstat(second).get("comment", ""))
    assert site.pbs.qstat(second)["job_state"] == "Q"
    assert site.pbs.host_names[1] in site.pbs.qstat(first)["exec_vnode"]
    site.pbs.qdel("-x", first, second)
    site.pbs.wait("jobs gone", lambda: not site.pbs.jobs())
    site.do("uninstall")


def test_options_stay_until_others_are_given(site):
    first, second = site.pbs.host_names[:2]
    before = site.snapshot()
    site.do("install", "--nodes", first, "--share", "1.5")
    assert site.pbs.node(first)["resources_available.libra_share"] == "1.5"
    assert "resources_available.libra_share" not in site.pbs.node(second)
    expect_nothing_to_do(site)
    site.do("install", "--nodes", "all", "--share", "all")
    assert [float(site.pbs.node(host)["resources_available.libra_share"]) for host in (first, second)] == [2.85, 2.85]  # less the reserve
    changed = steps(site.do("install", "--nodes", second))
    assert changed == [f"qmgr -c 'unset node {first} resources_available.libra_share'", f"qmgr -c 'unset node {first} resources_available.libra_node'",
                       f"qmgr -c 'unset node {first} resources_available.libra_besteffort'"], changed
    assert "no node 'nowhere'" in site.do("install", "--nodes", "nowhere", rc=1)
    site.do("uninstall")
    same(before, site.snapshot())


def test_a_budget_of_the_sites_own_is_detected(site):
    site.pbs.qmgr("create resource budget type=long,flag=q")
    before = site.snapshot()
    for command in ("check", "install"):
        text = site.do(command, rc=1)
        assert "problem  resource budget exists as type=long,flag=q; Libra needs type=string,flag=m" in text, text
    same(before, site.snapshot())
    site.pbs.qmgr("delete resource budget", "create resource budget type=string,flag=m")
    before = site.snapshot()
    assert "resource budget was there before" in site.do("install")
    site.do("uninstall")
    same(before, site.snapshot())
    site.pbs.qmgr("delete resource budget")


def test_pbs_cgroups_with_cpu_is_refused(site):
    pbs = site.pbs
    shipped = pbs.must("qmgr", "-c", "export hook pbs_cgroups application/x-config default")
    config = json.loads(shipped)
    config["run_only_on_hosts"] = ["none"]  # the hook itself is not what is tested
    file = pbs.directory / "cgroups.json"

    def set_config(value):
        file.write_text(value)
        pbs.qmgr(f"import hook pbs_cgroups application/x-config default {file}")

    first = site.snapshot()
    config["cgroup"]["cpu"] = {"enabled": True}
    set_config(json.dumps(config))
    assert "pbs_cgroups: not there or not enabled" in site.do("check")
    pbs.qmgr("set hook pbs_cgroups enabled=true")
    before = site.snapshot()
    text = site.do("install", rc=1)
    assert "problem  pbs_cgroups: its cpu part is enabled" in text and "ncpus=0" in text, text
    same(before, site.snapshot())
    config["cgroup"]["cpu"]["enabled"] = False
    set_config(json.dumps(config))
    assert "warning  pbs_cgroups: enabled, with cpuacct" in site.do("check")
    config["cgroup"]["cpuacct"]["enabled"] = False
    set_config(json.dumps(config))
    assert "its cpu part is off" in site.do("check")
    pbs.qmgr("set hook pbs_cgroups enabled=false")
    set_config(shipped)
    same(first, site.snapshot())


def test_other_hooks_and_limits_are_named(site):
    site.pbs.hook("late", "queuejob", SITE_HOOK, order=1000)
    site.pbs.qmgr("set queue workq resources_max.walltime = 01:00:00", "set queue workq resources_min.ncpus = 1", "set server scheduling = false")
    text = site.do("check")
    for part in ("hook site_check (order 5) sees jobs before", "warning  hook late (order 1000) sees jobs after", "resources_max.walltime=01:00:00",
                 "resources_min.ncpus=1", "scheduling is off"):
        assert part in text, f"{part}\n{text}"
    site.pbs.delete_hook("late")
    site.pbs.qmgr("create hook libra_runjob event=runjob,enabled=false")
    assert "problem  hook libra_runjob exists" in site.do("install", rc=1)
    site.pbs.qmgr("delete hook libra_runjob", "unset queue workq resources_max.walltime", "unset queue workq resources_min.ncpus",
                  "set server scheduling = true")


def test_wrong_files_are_refused(site):
    before = site.snapshot()
    for options, part in ((["--library", "/nowhere.so"], "no file /nowhere.so"), (["--library", site.config], "cannot load"),
                          (["--config", site.library], "configuration:")):
        result = site.pbs.run(LIBRA, "pbs", "install", "--state", site.state, *site.options("install")[2:], *options) if options[0] != "--config" else \
            site.pbs.run(LIBRA, "pbs", "install", "--state", site.state, "--library", site.library, *options)
        if result.rc == 2:  # an option given twice
            result = site.pbs.run(LIBRA, "pbs", "install", "--state", site.state, "--config", site.config, *options)
        assert result.rc == 1 and part in result.out, result
    site.config.chmod(0o666)
    assert "can be written by others than root" in site.do("install", rc=1)
    site.config.chmod(0o644)
    site.config.write_text('[pbs]\non-fault = "admit"\n')
    assert "on-fault is admit" in site.do("check")
    same(before, site.snapshot())
    nowhere = subprocess.run([LIBRA, "pbs", "check"], capture_output=True, text=True, check=False, env={**os.environ, "PBS_CONF_FILE": "/nowhere"})
    assert nowhere.returncode == 1 and "PBS_CONF_FILE" in nowhere.stdout, nowhere


def test_an_ordinary_user_cannot(site):
    before = site.snapshot()
    program = site.pbs.directory / "lib/libra"
    shutil.copy(LIBRA, program)
    result = site.pbs.run(program, "pbs", "install", *site.options("install"), user=site.pbs.users[0])
    assert result.rc == 1 and "only root" in result.out, result
    same(before, site.snapshot())


def test_killed_and_continued(site):
    before = site.snapshot()
    total = len(steps(site.do("install")))
    whole = site.snapshot()
    site.do("uninstall")
    for number in [1, 11, 16, 17, 19, 24, 60, total]:
        reached = killed_at(site, "install", number)
        assert reached, number
        if reached < total:
            assert site.hooks().get("libra_queuejob") != "true", "nobody is admitted by half an installation"
        site.do("install")
        same(whole, site.snapshot())
        expect_nothing_to_do(site)
        killed_at(site, "uninstall", 1 + number % 49)
        site.do("uninstall")
        same(before, site.snapshot())


def test_killed_and_undone(site):
    before = site.snapshot()
    total = len(steps(site.do("install", "--dry-run")))
    for number in range(2, 82, 9):
        reached = killed_at(site, "install", number)
        assert reached, number
        if 3 < number and reached < total:
            assert "installed: in part" in site.do("check")
        site.do("uninstall")
        same(before, site.snapshot())


def test_the_server_dies_meanwhile(site):
    before = site.snapshot()
    argv = [LIBRA, "pbs", "install", *site.options("install")]
    environment = {**os.environ, "PBS_CONF_FILE": str(site.pbs.conf)}
    with subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout:
            if "libra_execjob_end" in line:
                site.pbs.kill_server()
                break
        _, error = process.communicate()
    assert process.returncode == 125 and "'libra pbs install' again goes on from here" in error, error
    assert site.libra("check").rc == 1
    site.pbs.start_server()
    for host in site.pbs.host_names:
        site.pbs.wait("node free", lambda host=host: site.pbs.node(host).get("state") == "free")
    site.do("install")
    assert site.hooks() == {f"libra_{event}": "true" for event in EVENTS}
    site.do("uninstall")
    same(before, site.snapshot())


def test_a_host_is_down_meanwhile(site):
    pbs, before = site.pbs, site.snapshot()
    host = pbs.host_names[1]
    site.do("install")
    # Of a host that goes down before it has been sent all, PBS may forget what it has to delete.
    wait_told(pbs)
    pbs.kill_mom(host)
    pbs.seen_down(host)
    site.do("uninstall")
    # PBS does not give a hook's name again before all hosts have deleted the hook.
    text = site.do("install", rc=125)
    assert "A host that is down has not deleted it yet" in text, text
    assert site.hooks() == {}, (site.hooks(), text)
    pbs.start_mom(host)
    pbs.wait("node free", lambda: pbs.node(host).get("state") == "free")
    site.do("install")
    assert site.hooks() == {f"libra_{event}": "true" for event in EVENTS}
    site.do("uninstall")
    same(before, site.snapshot())


def test_an_upgrade_replaces_hooks(site):
    site.do("install")
    whole = site.snapshot()
    old = site.pbs.directory / "old.py"
    old.write_text("import pbs\n# of an older version\npbs.event().accept()\n")
    # Not the installation's way with a periodic hook, so it is off meanwhile.
    site.pbs.qmgr("set hook libra_periodic enabled=false", *[f"import hook libra_{event} application/x-python default {old}" for event in ("queuejob", "periodic")])
    assert "warning  installed: by version" in site.do("check")
    changed = steps(site.do("install"))
    assert [line.split()[2].strip("'") for line in changed] == ["set", "import", "import", "set"], changed
    assert not any("libra_queuejob enabled" in line for line in changed), "jobs are judged all the while"
    same(whole, site.snapshot())
    site.config.write_text(site.config.read_text() + '\n[pbs]\non-fault = "admit"\n' if "[pbs]" not in site.config.read_text()
                           else site.config.read_text().replace('on-fault = "refuse"', 'on-fault = "admit"'))
    assert sum("application/x-config" in line for line in steps(site.do("install"))) == len(EVENTS)
    site.do("uninstall")


def test_jobs_with_terms_hold_what_they_have(site):
    pbs, before = site.pbs, site.snapshot()
    site.do("install")
    wait_told(pbs)
    terms = ("-l", "deadline=1000,budget=1000,estimate=500")
    running = pbs.submit(*terms)
    pbs.wait_started(running)
    pbs.qmgr("set server scheduling = false")
    held = pbs.submit(*terms)
    pbs.qmgr("set server scheduling = true")
    pbs.wait_started(held)
    plain = pbs.submit()
    pbs.wait_started(plain)
    installed = site.snapshot()
    text = site.do("uninstall", rc=1)
    assert running in text and held in text and plain in text, text
    same(installed, site.snapshot())

    text = site.do("uninstall", "--force", rc=1)
    assert "resources that stay" in text and running in text, text
    assert site.hooks() == {} and site.sched_config.read_bytes() == before["sched_config"]
    stay = set(re.findall("create resource (\\S+)", site.pbs.must("qmgr", "-c", "print resource"))) - {"licences", "gpus"}
    assert stay == {"estimate", "deadline", "budget", "libra_terms", "libra_price", "libra_info", "libra_progress", "libra_share", "libra_besteffort"}, stay
    pbs.qdel(running, held, plain)
    for job in (running, held, plain):
        pbs.wait_state(job, "F")

    text = site.do("uninstall", rc=1)
    assert "3 finished jobs with them are in the history" in text and "--delete-history" in text, text
    text = site.do("uninstall", "--delete-history")
    assert f"qdel -x {running} {held} {plain}" in text, text
    assert not pbs.jobs()
    same(before, site.snapshot())


def test_again_in_the_same_server(site):
    """PBS 23.06 keeps a pointer to resources of the last job that a postqueuejob hook accepted; it must not be ours."""
    pbs, before, server = site.pbs, site.snapshot(), site.pbs.server_pid()
    terms = ("-l", "deadline=1000,budget=100000,estimate=50")
    for _ in range(2):
        site.do("install")
        jobs = [pbs.submit(*terms), pbs.submit(), pbs.submit(*terms)]
        assert "libra_info" in str(pbs.qstat(jobs[2])), "it was judged"
        pbs.qdel("-W", "force", *jobs)
        for job in jobs:
            pbs.wait_state(job, "F")
        site.do("uninstall", "--delete-history")
        # The site's own hook has no part in it either.
        plain = pbs.submit()
        pbs.qdel("-W", "force", "-x", plain)
        same(before, site.snapshot())
    assert pbs.server_pid() == server, "the server died"


def test_a_select_that_names_a_resource(site):
    """A job that was kept off Libra's nodes has that in its select, and PBS keeps the resource for it."""
    pbs, before = site.pbs, site.snapshot()
    site.config.write_text(site.config.read_text().replace('without-terms = "best-effort"', 'without-terms = "other-nodes"', 1))  # that of [pbs], which comes first
    site.do("install", "--nodes", pbs.host_names[0])
    wait_told(pbs)
    job = pbs.submit("-l", "select=1:ncpus=1")
    pbs.wait_started(job)
    pbs.qdel("-W", "force", job)
    text = site.do("uninstall", rc=1)
    assert "libra_node stays: a job in PBS has it" in text and "resources that stay: libra_node" in text, text
    pbs.qdel("-x", job)
    site.do("uninstall")
    same(before, site.snapshot())


class OneServer:
    """The tests above whose names have one of `words`, on one cluster; each finds and leaves it as it was."""

    seconds = 3600  # one test is the whole of it
    words = ()

    @classmethod
    def chosen(cls):
        """[(name, test)] that are run."""
        only = os.environ.get("ONLY", "").split()
        tests = [(name, test) for name, test in globals().items() if name.startswith("test_") and (not only or any(word in name for word in only))]
        return [(name, test) for name, test in tests if any(word in name for word in cls.words)]

    def test_on_one_server(self):
        with Cluster(hosts=2, processors=3, subnet=SUBNET) as pbs:
            self.pbs = pbs
            site = Site(pbs)
            self.addCleanup(site.remove_cgroups)
            config, clean = site.config.read_text(), site.snapshot()
            for name, test in self.chosen():
                with self.subTest(name):
                    try:
                        test(site)
                        same(clean, site.snapshot())
                    except BaseException as failure:
                        failure.add_note(evidence(pbs, str(failure)))
                        # For the tests that follow.
                        if jobs := pbs.jobs():
                            pbs.qdel("-x", *jobs)
                        site.libra("uninstall", "--force", "--delete-history")
                        clean = site.snapshot()
                        raise
                    finally:
                        site.config.write_text(config)
                        site.config.chmod(0o644)


class Continued(OneServer, unittest.TestCase):
    """Installations that were killed, and begun again."""

    words = ("killed_and_continued",)


class Undone(OneServer, unittest.TestCase):
    """Installations that were killed and undone, servers and hosts that were not there."""

    words = ("killed_and_undone", "dies_meanwhile", "down_meanwhile")


class Installation(OneServer, unittest.TestCase):
    """All others."""

    @classmethod
    def chosen(cls):
        cls.words = ("test_",)
        elsewhere = {name for other in (Continued, Undone) for name, _ in other.chosen()}
        return [(name, test) for name, test in super().chosen() if name not in elsewhere]


if __name__ == "__main__":
    unittest.main()
