#!/usr/bin/env python3
"""`libra slurm` on a real Slurm: installed, used, taken out again; plugins of another version, found before slurmctld finds them.

    tests/slurm/run test_install.py
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import machine  # noqa: E402
from cluster import Cluster, slurm_version  # noqa: E402
from libra_site import ACCOUNTING, CPU, plugin, program  # noqa: E402

TERMS = ["--estimate=20", "--sla-deadline=600", "--budget=1000"]
# A plugin that slurmctld would ask, built for VERSION, which calls what Slurm may not have.
OTHER = """
#include <stdint.h>
const char plugin_name[] = "other"; const char plugin_type[] = "job_submit/libra"; const uint32_t plugin_version = VERSION;
extern void CALLED(const char *, ...);
int init(void) { CALLED("here"); return 0; }
int fini(void) { return 0; }
int job_submit(void *job, uint32_t uid, char **message) { return 0; }
int job_modify(void *job, void *record, uint32_t uid) { return 0; }
"""


def shown(major, minor, micro):
    return f"{major}.{minor:02}.{micro}"


def number(major, minor, micro):
    """As Slurm compares versions."""
    return f"0x{major:02x}{minor:02x}{micro:02x}"


class Bare(Cluster):
    """A Slurm that a site may have, without Libra: a plugin of its own, files that include others, an old way to write."""

    def before_start(self):
        (self.directory / "libra-plugins").mkdir()
        machine.remove_directories(self.cgroup_roots())
        self.rules.write_text(f"[cgroup]\nroot = '{self.cgroup_root}'\n[registry]\ndirectory = '{self.directory}/registry'\n")
        for name in ("job_submit_libra.so", "libra_spank.so"):
            shutil.copy(plugin(name), self.directory / "libra-plugins" / name)

    def write_conf(self):
        super().write_conf()
        (self.directory / "etc/submit.conf").write_text("# ours\njobSubmitPlugins = logging   # keep\n")
        with self.conf.open("a") as conf:
            conf.write("Include submit.conf\nSchedulerTimeSlice=\\\n30\n# the end, without a line end")

    def down(self):
        roots = self.cgroup_roots() if self.directory is not None else []
        super().down()
        machine.remove_directories(roots)

    @property
    def cgroup_root(self):
        return f"libra-slurm-install-{self.plan['number']}"

    def cgroup_roots(self):
        return [*(where / self.cgroup_root for where in (CPU, ACCOUNTING)), *CPU.glob(f"{self.cgroup_root}-best-effort-*")]

    @property
    def rules(self):
        return self.directory / "etc/libra.toml"

    def daemon_environment(self, name):
        return {"LIBRA_CONFIG": str(self.rules)} if name == "slurmctld" else {}

    def libra(self, *words, plugins="libra-plugins", json_too=False):
        """`libra slurm …` as root, with the plugins of a directory of the cluster."""
        where = [] if words[0] == "status" or "--nodes" in words else ["--plugins", self.directory / plugins, "--state", self.directory / "libra-state"]
        return self.run(program(), *(["--json"] if json_too else []), "--config", self.rules, "slurm", *words, *where)

    def restart(self):
        self.stop_controller()
        self.start_controller()
        self.wait_idle()

    def restart_nodes(self):
        """slurmd looks for plugins that have a prolog when it starts."""
        for node in self.nodes:
            self.end(node, signal.SIGTERM)
            self.start_slurmd(node)
        self.wait_idle()

    def files(self):
        """All that a site's administrator has here: names, contents, modes."""
        found = [path for name in ("etc", "plugins") for path in sorted((self.directory / name).rglob("*"))]
        # The copy of the rules that go on where a configuration is gone is nobody's to look after; below /etc it is in /var/lib/libra.
        return {str(path): (path.read_bytes(), path.stat().st_mode, path.stat().st_uid) for path in found if path.is_file() and not path.name.endswith(".toml.last")}

    def build(self, directory, version, called="slurm_info"):
        """A job_submit plugin in C."""
        where = self.directory / directory
        where.mkdir(exist_ok=True)
        source = where / "other.c"
        source.write_text(OTHER.replace("VERSION", version).replace("CALLED", called))
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-Wl,-z,now", "-o", where / "job_submit_libra.so", source], check=True)
        shutil.copy(plugin("libra_spank.so"), where)
        return where / "job_submit_libra.so"


class Installation(unittest.TestCase):
    seconds = 3600  # one test is the whole of it
    measures = 0

    @classmethod
    def setUpClass(cls):
        cls.slurm = Bare(nodes=2, cpus=1, settings={"PrologFlags": "NoHold"})
        cls.slurm.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.slurm.__exit__(None, None, None)

    def said(self, result, code, *parts):
        text = result.out + result.err
        self.assertEqual(result.rc, code, text)
        for part in parts:
            self.assertIn(part, text)
        return text

    def held(self):
        """A job with terms is held to its share, also by a slurmd that knows of no prolog yet."""
        slurm = self.slurm
        job = slurm.srun(*TERMS, "cat", "/proc/self/cgroup")
        self.assertRegex(job.out, rf":cpu:/{slurm.cgroup_root}/job-\d+\n", job.err + "\n".join(slurm.log(node)[-3000:] for node in slurm.nodes))

    def test_installed_used_and_taken_out_again(self):
        slurm = self.slurm
        before = slurm.files()
        self.said(slurm.libra("check"), 0, f"Slurm {shown(*slurm_version())}", "controller and node", "installed: no")
        self.said(slurm.libra("install", "--dry-run"), 0, "etc/submit.conf, in line 2:\n    JobSubmitPlugins=logging,libra", "nothing was changed")
        self.assertEqual(slurm.files(), before)

        # The plugins first, the lines by hand or later.
        self.said(slurm.libra("install"), 0, "To be written", "systemctl restart slurmctld")
        self.said(slurm.libra("check"), 0, "NOTHING IS JUDGED", "plugstack.conf does not name")
        self.said(slurm.libra("install", "--edit"), 0, "-jobSubmitPlugins = logging   # keep", "+jobSubmitPlugins = logging,libra   # keep", "+PrologFlags=NoHold,Alloc", "+optional libra_spank.so config=")
        self.said(slurm.libra("install", "--edit"), 0, "nothing to do")
        self.assertEqual((slurm.directory / "etc/submit.conf").read_text(), "# ours\njobSubmitPlugins = logging,libra   # keep\n")
        self.said(slurm.libra("check"), 0, "runs without Libra's plugin; restart it")
        slurm.restart()
        self.said(slurm.libra("check"), 0, "slurmctld: runs with this plugin", "has libra", *(f"slurmd: of {node} runs without Libra's plugin" for node in slurm.nodes))
        self.held()
        slurm.restart_nodes()
        self.comes_to_say(0, *(self.runs_with(node) for node in slurm.nodes))
        self.held()

        # It judges, and status shows what it knows.
        self.assertIn("--sla-deadline", slurm.must("sbatch", "--help", user=slurm.users[0]))
        asked = time.time()
        job = slurm.submit(*TERMS)
        self.said(slurm.sbatch("--estimate=500", "--sla-deadline=10", "--budget=1000"), 1, "libra: refused")
        slurm.wait_running(job)
        begun = slurm.wait("its task has its share", lambda: [path for where in slurm.cgroup_roots() for path in where.glob(f"job-{job}")])
        self.assertFalse([line for node in slurm.nodes for line in slurm.log(node).splitlines() if f"job {job} had no prolog" in line], begun)
        report = json.loads(self.said(slurm.libra("status", json_too=True), 0))
        self.assertEqual([(one["id"], one["user"], one["nodes"]) for one in report["jobs"]], [(job, slurm.users[0], [slurm.job(job)["NodeList"]])])
        self.assertEqual((sorted(one["node"] for one in report["nodes"]), report["problems"]), (slurm.nodes, []))
        # What it has until its deadline without its estimate, less what has passed; the margin on its estimate is a second.
        self.assertLess(report["jobs"][0]["slack_seconds"], 580)
        self.assertGreater(report["jobs"][0]["slack_seconds"], 577 - (time.time() - asked))
        self.said(slurm.libra("status"), 0, "COMMITTED", job)

        # Out again: not under a job's feet, not while slurm.conf names it.
        self.said(slurm.libra("uninstall", "--edit"), 1, f"queued or running: {job}", "--force")
        slurm.must("scancel", job)
        slurm.wait_ended(job)
        self.said(slurm.libra("uninstall"), 1, "etc/submit.conf:2: libra in JobSubmitPlugins=logging,libra", "plugstack.conf:1")
        installed = slurm.files()
        self.said(slurm.libra("uninstall", "--edit", "--dry-run"), 0, "nothing was changed")
        self.assertEqual(slurm.files(), installed)
        self.said(slurm.libra("uninstall", "--edit"), 0, "-jobSubmitPlugins = logging,libra   # keep", "uninstalled")
        self.assertEqual(slurm.files(), before, "byte for byte, and no file more")
        self.assertFalse((slurm.directory / "libra-state").exists())
        slurm.restart()
        self.assertEqual(slurm.wait_ended(slurm.submit("--time=1", script="sleep 1\n"))["JobState"], "COMPLETED")
        slurm.restart_nodes()
        self.said(slurm.libra("check"), 0, "installed: no")
        self.said(slurm.sbatch(*TERMS), 255, "unrecognized option")
        self.assertEqual(slurm.wait_ended(slurm.submit("--time=1", script="sleep 1\n"))["JobState"], "COMPLETED")
        self.said(slurm.libra("uninstall"), 0, "nothing to do")

    def test_what_others_changed_since_stays(self):
        slurm = self.slurm
        before = slurm.files()
        self.said(slurm.libra("install", "--edit"), 0)
        submit = slurm.directory / "etc/submit.conf"
        submit.write_text(submit.read_text().replace("# ours", "# theirs"))
        with (slurm.directory / "etc/plugstack.conf").open("a") as stack:
            stack.write("# optional other.so\n")
        self.said(slurm.libra("uninstall", "--edit"), 0)
        self.assertEqual(submit.read_text(), "# theirs\njobSubmitPlugins = logging   # keep\n")
        self.assertEqual((slurm.directory / "etc/plugstack.conf").read_text(), "# optional other.so\n")
        for name in ("submit.conf", "plugstack.conf"):
            (slurm.directory / f"etc/{name}.before-libra").unlink()  # kept: it is what was before, and no longer there
        slurm.write_conf()
        self.assertEqual(slurm.files(), before)

    def test_a_plugin_of_another_version_is_found_before_slurmctld_finds_it(self):
        slurm = self.slurm
        before = slurm.files()
        major, minor, micro = slurm_version()
        here, other = shown(major, minor, micro), shown(major, minor, micro + 1)
        slurm.build("other", number(major, minor, micro + 1))
        self.said(slurm.libra("check", plugins="other"), 1, f"there is no job_submit_libra.so for Slurm {here}", f"some for {other}")
        self.said(slurm.libra("install", "--edit", plugins="other"), 1, "nothing was changed")
        self.assertEqual(slurm.files(), before)
        self.said(slurm.libra("install", "--edit"), 0)
        shutil.copy(slurm.directory / "other/job_submit_libra.so", slurm.plugins)
        text = self.said(slurm.libra("check"), 1, f"it was built for Slurm {other}, and this is {here}: slurmctld would not start with it")
        self.refuses_to_start("Incompatible Slurm plugin")
        # What to do about it is what check says.
        self.assertIn("'libra slurm install' replaces it", text)
        # Whatever else is wrong: without it there is no slurmctld.
        rules = slurm.rules.read_text()
        slurm.rules.write_text(rules + "[slurm]\npartitions = ['nowhere']\n")
        self.said(slurm.libra("install", "--dry-run"), 1, "there is no partition 'nowhere'", "install -m 644", "nothing was changed (--dry-run)")
        self.said(slurm.libra("install", "--edit"), 1, "there is no partition 'nowhere'", "only the plugins that were there for another Slurm were replaced")
        slurm.rules.write_text(rules)
        self.said(slurm.libra("install"), 0, "nothing to do")
        slurm.start_controller()
        self.said(slurm.libra("check"), 0, "runs with this plugin")
        self.take_out(before)

    def test_a_plugin_that_needs_what_slurm_has_not_is_found(self):
        slurm = self.slurm
        before = slurm.files()
        slurm.build("lacking", number(*slurm_version()), "slurm_from_the_future")
        self.said(slurm.libra("install", "--edit", plugins="lacking"), 1, "it needs what this Slurm does not have: slurm_from_the_future", "nothing was changed")
        self.assertEqual(slurm.files(), before)
        self.said(slurm.libra("install", "--edit"), 0)
        shutil.copy(slurm.directory / "lacking/job_submit_libra.so", slurm.plugins)
        self.said(slurm.libra("check"), 1, "slurm_from_the_future")
        self.refuses_to_start("undefined symbol: slurm_from_the_future")
        (slurm.plugins / "job_submit_libra.so").unlink()
        self.said(slurm.libra("check"), 1, "job_submit_libra.so is in no PluginDir: slurmctld would not start")
        self.refuses_to_start("job_submit/libra", stop=False)
        self.said(slurm.libra("install"), 0)
        slurm.start_controller()
        self.take_out(before)

    def test_a_running_slurmctld_keeps_the_plugin_that_it_has(self):
        slurm = self.slurm
        before = slurm.files()
        self.said(slurm.libra("install", "--edit"), 0)
        slurm.restart()
        newer = slurm.directory / "newer"
        newer.mkdir()
        for name in ("job_submit_libra.so", "libra_spank.so"):
            # Behind its end a file may have more: the same plugin, and another file.
            (newer / name).write_bytes((slurm.directory / "libra-plugins" / name).read_bytes() + b"newer")
        self.said(slurm.libra("install", plugins="newer"), 0, "by rename", "systemctl restart slurmctld")
        self.said(slurm.libra("check", plugins="newer"), 0, "loaded before this one was installed; restart it")
        pid = slurm.daemon_pid("slurmctld")
        job = slurm.submit(*TERMS, script="true\n")
        slurm.wait_ended(job)
        self.assertEqual(slurm.daemon_pid("slurmctld"), pid)
        slurm.restart()
        self.said(slurm.libra("check", plugins="newer"), 0, "runs with this plugin")
        self.take_out(before)

    def test_what_runs_is_asked(self):
        """Daemons are found without pid files, and are asked what is in them; of one that does not run nothing is said to be fine."""
        slurm = self.slurm
        first, second = slurm.nodes
        before = self.put_in()
        # As with --systemd; and an old one that names another process.
        for file in (slurm.directory / "run").glob("*.pid"):
            file.write_text("1\n")
        as_it_is = self.said(slurm.libra("check"), 0, "slurmctld: runs with this plugin", self.runs_with(first), "libra.toml as it is", "wrote limits and read them back")
        self.assertNotIn("warning  slurm", as_it_is)
        rules = slurm.rules.read_text()
        slurm.rules.write_text(f"{rules}# more\n")
        self.said(slurm.libra("check"), 0, "changed since it started; prologs read it anew")
        slurm.rules.write_text(rules)
        # Nothing can be held below a group that cannot be made.
        slurm.rules.write_text(rules.replace("root = '", "version = 'off'\nroot = '"))
        slurm.end(second, signal.SIGTERM)
        slurm.start_slurmd(second)
        slurm.wait("the plugin has tried", lambda: "could NOT" in slurm.libra("check").out)
        slurm.rules.write_text(rules)
        text = self.said(slurm.libra("check"), 1, self.runs_with(first), f"the plugin in that of {second} tried to hold a share and could NOT")
        self.assertNotIn(self.runs_with(second), text)
        slurm.end(second, signal.SIGTERM)
        text = self.said(slurm.libra("check"), 0, self.runs_with(first), f"slurmd: of {second} is not seen running here")
        self.assertNotIn(self.runs_with(second), text)
        slurm.start_slurmd(second)
        slurm.wait_idle()
        slurm.stop_controller()
        self.said(slurm.libra("check"), 0, "warning  slurmctld: not seen running here")
        slurm.start_controller()
        slurm.wait_idle()
        self.comes_to_say(0, self.runs_with(second))
        self.take_out(before)
        slurm.restart_nodes()

    def test_the_nodes_are_asked(self):
        """From one host, by a command that reaches the others; who does not answer is no 'ok'."""
        slurm = self.slurm
        first, second = slurm.nodes
        before = self.put_in()
        # Both nodes are on this host, which is asked once.
        way = slurm.directory / "reach"
        way.write_text(f"#!/bin/sh\necho $1 >>{slurm.directory}/asked\nshift 2\nexec {program()} --config {slurm.rules} \"$@\" --plugins {slurm.directory}/libra-plugins\n")
        way.chmod(0o755)
        asked = ["--nodes", "--by", f"{way} {{}}"]
        running = "slurmd: that of NODE runs with the plugin of Libra"
        both = f"n{slurm.plan['number']}-[1-2]"
        text = self.said(slurm.libra("check", *asked), 0, f"ok       {both}: {running}", "ok       all 2 nodes hold jobs to their shares")
        self.assertEqual(text.count(running), 1)
        self.assertEqual((slurm.directory / "asked").read_text().split(), [socket.gethostname()])
        found = [json.loads(line) for line in slurm.libra("check", *asked, json_too=True).out.splitlines()]
        self.assertEqual({key for line in found for key in line}, {"level", "text"})
        slurm.end(second, signal.SIGTERM)
        self.said(slurm.libra("check", *asked), 1, f"ok       {first}: {running}", f"warning  {second}: slurmd: of NODE is not seen", f"problem  1 of 2 nodes are known to hold jobs to their shares; {second} have a problem, or it is not known of them")
        slurm.start_slurmd(second)
        slurm.wait_idle()
        way.write_text("#!/bin/sh\necho >&2 connect to host $1 port 22: No route to host\nexit 255\n")
        self.said(slurm.libra("check", *asked), 1, f"problem  {both}: does not answer: connect to host NODE port 22: No route to host", "problem  0 of 2 nodes")
        self.said(slurm.run(program(), "--config", slurm.rules, "slurm", "check", f"--nodes=n{slurm.plan['number']}-[2-4]"), 2, f"Slurm has no node n{slurm.plan['number']}-[3-4]")
        self.said(slurm.libra("check", "--nodes", "--by", "ssh"), 2, "{} stands for the host")
        self.take_out(before)
        slurm.restart_nodes()

    def test_check_works_while_the_controller_is_down(self):
        slurm = self.slurm
        slurm.stop_controller()
        try:
            self.said(slurm.libra("check"), 0, f"slurmctld: Slurm {shown(*slurm_version())}")
            # 26.05 asks in another way, as its squeue has no JSON here.
            self.assertRegex(self.said(slurm.libra("status"), 125), "squeue --json|Unable to contact slurm controller")
            self.said(slurm.libra("uninstall"), 0, "nothing to do")
        finally:
            slurm.start_controller()
            slurm.wait_idle()

    def test_a_login_host_and_a_configuration_that_nobody_may_read(self):
        slurm = self.slurm
        text = self.said(slurm.libra("check", "--role", "login"), 0, "this machine: login host", "not checked, as it is elsewhere")
        self.assertNotIn("job_submit_libra.so is for", text)
        slurm.rules.chmod(0o600)
        self.said(slurm.libra("check"), 1, "keeps slurm (SlurmUser) from reading")
        slurm.rules.chmod(0o644)
        with tempfile.TemporaryDirectory() as empty:
            away = slurm.run(program(), "slurm", "check", environment={"SLURM_CONF": f"{empty}/slurm.conf", "LIBRA_CONFIG": str(slurm.rules)})
            self.said(away, 1, f"slurm.conf: {empty}/slurm.conf: No such file")

    # ----

    def put_in(self):
        """Installed, and all daemons run with it; the files as they were before."""
        slurm = self.slurm
        before = slurm.files()
        self.said(slurm.libra("install", "--edit"), 0)
        slurm.restart()
        slurm.restart_nodes()
        self.comes_to_say(0, *(self.runs_with(node) for node in slurm.nodes))
        return before

    def comes_to_say(self, code, *parts):
        """`libra slurm check` says all of it, once a daemon that was just started has come so far."""
        slurm = self.slurm
        with contextlib.suppress(TimeoutError):
            slurm.wait("check says it", lambda: all(part in slurm.libra("check").out for part in parts))
        return self.said(slurm.libra("check"), code, *parts)

    @staticmethod
    def runs_with(node):
        return f"slurmd: that of {node} runs with the plugin of Libra"

    def refuses_to_start(self, words, stop=True):
        """slurmctld does not start, and its log says why."""
        slurm = self.slurm
        if stop:
            slurm.stop_controller()
        known = len(slurm.log())
        with self.assertRaisesRegex(RuntimeError, "slurmctld has ended"):
            slurm.start_controller()
        self.assertIn(words, slurm.log()[known:])

    def take_out(self, before):
        slurm = self.slurm
        self.said(slurm.libra("uninstall", "--edit"), 0)
        self.assertEqual(slurm.files(), before)
        slurm.restart()


if __name__ == "__main__":
    unittest.main()
