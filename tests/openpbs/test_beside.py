#!/usr/bin/env python3
"""What sites have beside Libra: an agent that an init script starts, PBS's own hook for cgroups, routing queues, another server.

Run as root: `python3 tests/openpbs/test_beside.py`. Nothing here needs much processor time.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402
from case import SiteCase  # noqa: E402
from cluster import Cluster  # noqa: E402
from libra_site import TOP, Site  # noqa: E402
from scripts import idle_until  # noqa: E402
from promises import processes, processes_of, quota, terms  # noqa: E402
from test_deferred import CONFIRMED  # noqa: E402

ROOT = pathlib.Path("/sys/fs/cgroup")


class InitScript(SiteCase):
    """An execution host without systemd: its agent is started, asked after and stopped by the script that packages have for it."""

    site = {"hosts": 1}

    @classmethod
    def prepare(cls):
        pbs = cls.pbs
        cls.host = pbs.host_names[0]
        cls.script = pbs.own / "libra-agent"
        cls.script.write_text((TOP / "packaging/init/libra-agent").read_text().replace("@BINDIR@/libra", str(pbs.libra)))
        cls.script.chmod(0o755)
        cls.config, cls.pid_file, cls.log_file = (pbs.own / name for name in (f"{cls.host}.toml", "agent.pid", "agent.log"))
        (pbs.own / "defaults").write_text(f"CONFIG={cls.config}\nPIDFILE={cls.pid_file}\nLOG={cls.log_file}\n")

    def tearDown(self):
        self.do("stop")
        super().tearDown()

    def do(self, word, rc=0):
        """The script, as init and administrators call it."""
        environment = {"PATH": os.environ["PATH"], "LIBRA_AGENT_DEFAULTS": str(self.pbs.own / "defaults"), machine.MARK: str(self.pbs.directory)}
        done = subprocess.run([self.script, word], env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, rc, done)
        return done.stdout + done.stderr

    def agent(self):
        return int(self.pid_file.read_text())

    def test_started_asked_after_and_stopped(self):
        pbs = self.pbs
        self.assertIn("does not run", self.do("status", rc=3))
        self.do("stop")
        self.assertIn("process", self.do("start"))
        first = self.agent()
        self.assertEqual(pathlib.Path(f"/proc/{first}/cmdline").read_bytes().split(b"\0")[1:4], [b"agent", b"--config", str(self.config).encode()])
        # A session of its own: no terminal takes it away.
        self.assertEqual(os.getsid(first), first)
        self.assertIn(f"runs as process {first}", self.do("status"))
        self.assertIn("runs already", self.do("start"))
        self.assertEqual(self.agent(), first)
        # A job is held to its share by it, and runs on at that while it is stopped.
        job = pbs.submit(*terms(0.5, self.host), script=idle_until(pbs.directory / "go-init"))
        self.running(job)
        pbs.wait("it is in its group", lambda: processes(pbs, self.host, job))
        self.do("restart")
        second = self.agent()
        self.assertNotEqual(second, first)
        self.do("stop")
        self.assertFalse(machine.alive(second))
        self.assertFalse(self.pid_file.exists())
        self.assertTrue(processes(pbs, self.host, job))
        self.assertIsNotNone(quota(pbs, self.host, job))
        self.do("try-restart")
        self.assertIn("does not run", self.do("status", rc=3))
        self.do("force-reload")
        self.assertIn("runs as process", self.do("status"))
        (pbs.directory / "go-init").touch()
        self.met(job)

    def test_one_that_was_killed(self):
        self.do("start")
        killed = self.agent()
        machine.end_process(killed)
        self.assertIn("is there", self.do("status", rc=1))
        self.do("start")
        self.assertNotEqual(self.agent(), killed)

    def test_a_number_that_is_another_process(self):
        """Numbers are used again: what is not the agent is neither taken for it nor ended."""
        other = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        self.pid_file.write_text(f"{other.pid}\n")
        self.assertIn("does not run", self.do("status", rc=1))
        self.do("stop")
        self.assertIsNone(other.poll())

    def test_a_user_who_takes_the_number_of_an_agent_that_was_killed(self):
        """With its command line: the agent would never be started again, and no job on this host held to its share."""
        directory = self.pbs.directory / "home" / self.pbs.users[0]
        (directory / "agent").write_text("read line\n")
        words = [self.pbs.libra, "agent", "--config", self.config]
        other = subprocess.Popen(words, executable="/bin/sh", user=self.pbs.users[0], cwd=directory, stdin=subprocess.PIPE)
        self.addCleanup(other.stdin.close)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        self.pid_file.write_text(f"{other.pid}\n")
        self.assertIn("does not run", self.do("status", rc=1))
        self.do("start")
        self.assertNotEqual(self.agent(), other.pid)
        self.do("stop")
        self.assertIsNone(other.poll())

    def test_bad_input(self):
        self.assertIn("usage: ", self.do("begin", rc=2))
        good = self.config.read_text()
        self.addCleanup(machine.write_whole, self.config, good)
        machine.write_whole(self.config, "[node]\nprocessors = 'many'\n")
        self.assertIn("processors", self.do("start", rc=6))
        self.assertIn("does not run", self.do("status", rc=3))
        blocked = self.pbs.own / "a-file"
        blocked.write_text("")
        machine.write_whole(self.config, good.replace(f'directory = "{self.pbs.own / self.host}"', f'directory = "{blocked}/below"'))
        self.assertIn("cannot be used", self.do("start", rc=6))
        machine.write_whole(self.config, good)
        defaults = self.pbs.own / "defaults"
        kept = defaults.read_text()
        self.addCleanup(defaults.write_text, kept)
        defaults.write_text(kept + "LIBRA=/nowhere/libra\n")
        self.assertIn("/nowhere/libra is not there", self.do("start", rc=5))
        # A program that ends at once, whatever it is.
        defaults.write_text(kept + "LIBRA=/bin/true\n")
        self.assertIn("it has ended again", self.do("start", rc=1))
        self.assertFalse(self.pid_file.exists())


class WithPbsCgroups(Site):
    """PBS's hook leaves the directory of all its groups, which has a name of its own here: other clusters of this machine have theirs."""

    @property
    def prefix(self):
        return f"pbs_jobs_{self.plan['subnet']}"

    def down(self):
        roots = list(ROOT.glob(f"*/{self.prefix}.service")) if self.plan["subnet"] is not None else []
        super().down()
        for root in roots:
            for directory in sorted((path for path in [root, *root.rglob("*")] if path.is_dir()), reverse=True):
                directory.rmdir()


class PbsCgroups(SiteCase):
    """PBS's own hook for cgroups on the same host, with its cpu part off as it is shipped."""

    cluster = WithPbsCgroups
    site = {"hosts": 1}

    @classmethod
    def prepare(cls):
        pbs = cls.pbs
        cls.host = pbs.host_names[0]
        config = json.loads(pbs.must("qmgr", "-c", "export hook pbs_cgroups application/x-config default"))
        config["cgroup_prefix"] = pbs.prefix
        config["cgroup"]["cpuacct"]["enabled"] = False
        config["discover_gpus"] = config["manage_rlimit_as"] = False
        file = pbs.directory / "cgroups.json"
        file.write_text(json.dumps(config))
        pbs.qmgr(f"import hook pbs_cgroups application/x-config default {file}", "set hook pbs_cgroups enabled = true")
        hooks = pbs.directory / cls.host / "mom_priv/hooks"

        def told():
            with contextlib.suppress(FileNotFoundError):
                return pbs.prefix in (hooks / "pbs_cgroups.CF").read_text() and "enabled=false" not in (hooks / "pbs_cgroups.HK").read_text()
        pbs.wait("its host has it", told)
        # At its start it says what it has.
        pbs.kill_mom(cls.host)
        pbs.seen_down(cls.host)
        pbs.start_mom(cls.host)
        pbs.wait("its node is free", lambda: pbs.node(cls.host).get("state") == "free")

    def of_pbs(self, controller, job):
        """The group that PBS's hook has made for a job."""
        return ROOT / controller / f"{self.pbs.prefix}.service/jobid/{job}"

    def in_both(self, group, ours):
        """The job's processes are in PBS's group and in Libra's."""
        def both():
            return ours() and set(ours()) <= set(processes_of(group))
        self.pbs.wait("its processes are in both groups", both)

    def gone(self, group):
        self.pbs.wait("PBS's group is gone", lambda: not group.exists())
        self.assertNotIn("libra: fault in", self.pbs.log(self.host))

    def test_a_share_and_a_limit_of_memory(self):
        """A job with terms is held to its share by ours, to its memory by PBS's; at its end both are gone. PBS's gives no cpuset to a job of ncpus=0."""
        pbs = self.pbs
        go = pbs.directory / "go-both"
        job = self.accept(2, 600, "-l", f"select=1:ncpus=1:mem=200mb:host={self.host}", script=idle_until(go))
        self.running(job)
        memory = self.of_pbs("memory", job)
        self.in_both(memory, lambda: processes(pbs, self.host, job))
        self.assertEqual(int((memory / "memory.limit_in_bytes").read_text()), 200 << 20)
        self.assertIsNotNone(quota(pbs, self.host, job))
        self.assertFalse(self.of_pbs("cpuset", job).exists())
        go.touch()
        self.met(job)
        self.gone(memory)

    def test_a_whole_node_and_its_cpuset(self):
        """A job that Libra does not touch has the cpuset that PBS's hook gives it, and is counted by ours."""
        pbs = self.pbs
        job = pbs.submit("-l", "select=1:ncpus=1", "-l", "place=excl")
        self.running(job)
        [root, *_] = pbs.roots_without_terms(self.host)

        def ours():
            return processes_of(root / f"job-{job}")
        cpuset = self.of_pbs("cpuset", job)
        self.in_both(cpuset, ours)
        self.assertTrue((cpuset / "cpuset.cpus").read_text().strip())
        pbs.qdel(job)
        pbs.wait_state(job, "F")
        self.gone(cpuset)

    def test_what_is_said_of_it(self):
        """That its cpu part is refused is in test_install.py."""
        pbs = self.pbs
        said = pbs.run(pbs.libra, "pbs", "check", "--state", pbs.own / "record")
        self.assertIn("pbs_cgroups: enabled, its cpu part is off", said.out)


class OtherServers(SiteCase):
    """A second server, which has no Libra."""

    site = {"hosts": 1}

    @classmethod
    def prepare(cls):
        cls.other = Cluster(hosts=1, processors=1)
        cls.addClassCleanup(cls.other.down)
        cls.other.__enter__()
        pbs = cls.pbs
        port = cls.other.plan["ports"][0]
        cls.there = f"workq@{cls.other.server_name}:{port}"
        pbs.qmgr("create queue behind queue_type=execution,enabled=true,started=true",
                 "create queue front queue_type=route,enabled=true,started=true,route_destinations=behind",
                 f"create queue away queue_type=route,enabled=true,started=true,route_destinations='{cls.there}'")

    def check(self):
        return self.pbs.run(self.pbs.libra, "pbs", "check", "--state", self.pbs.own / "record")

    def test_a_promise_does_not_move(self):
        pbs = self.pbs
        pbs.qmgr("set server scheduling = false")
        for job in (self.accept(10, 6000), self.accept(10, 6000, "-h")):
            said = pbs.run("qmove", self.there, job, user=pbs.users[0])
            self.assertNotEqual(said.rc, 0)
            self.assertIn("libra: its share was committed on this server, it cannot move to another", said.err)
            self.assertTrue(self.terms(job))

    def test_a_queue_that_sends_jobs_away(self):
        for words in ((), ("-h",)):
            said = self.refused(self.ask(10, 6000, "-q", "away", *words), "libra: refused (limit): queue away: it sends jobs to another server (workq@")
            self.assertIn("name a queue of this server (-q)", said)
        self.refused(self.ask(10, 6000, "-q", "away", "-l", "libra_quote=ask"), "it sends jobs to another server")
        text = self.check().out
        self.assertIn("queue away: route_destinations=workq@", text)
        self.assertNotIn("queue front: route_destinations", text)

    def test_a_deferred_promise_in_a_routing_queue(self):
        """It goes to where the queue sends it when it may start, and is asked for there."""
        pbs = self.pbs
        job = self.accept(10, 6000, "-h", "-q", "front", script="true\n")
        self.assertIn("deferred: ", pbs.qstat(job)["Resource_List.libra_info"])
        pbs.must("qrls", job, user=pbs.users[0])
        self.met(job)
        found = pbs.qstat(job)
        self.assertEqual(found["queue"], "behind")
        self.assertIn(CONFIRMED, found["Resource_List.libra_info"])

    def test_peer_scheduling_is_refused_by_name(self):
        pbs = self.pbs
        file = pbs.home / "sched_priv/sched_config"
        before = file.read_text()
        self.addCleanup(file.write_text, before)
        self.assertNotIn("peer_queue", self.check().out)
        file.write_text(f'{before}peer_queue: "workq {self.there}"\n')
        said = self.check()
        self.assertEqual(said.rc, 1)
        self.assertIn(f'problem  scheduler: peer_queue: "workq {self.there}"', said.out)
        self.assertIn("peer scheduling is not served", said.out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
