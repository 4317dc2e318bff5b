#!/usr/bin/env python3
"""`libra qsub` before the real qsub and a real server: what becomes of its jobs, and that nobody else notices it.

Run as root: `LIBRA=target/debug/libra python3 tests/openpbs/test_qsub.py`. Takes about a minute. The hook in here is
a stand-in of ten lines for Libra's own: it says a sentence, or refuses a budget of 1. What is tested is the way there and back.
"""

import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import client  # noqa: E402
from cluster import Cluster  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRA = pathlib.Path(os.environ.get("LIBRA", ROOT / "target/debug/libra"))
TERMS = ("deadline", "budget", "estimate", "deadline_type", "penalty_rate", "class")
HOOK = """
import pbs
e = pbs.event()
terms = e.job.Resource_List
if terms["budget"] == "1":
    e.reject("libra: refused (budget): it costs 2 credits; accepted now would be: budget=2")
if terms["deadline"] is not None:
    terms["libra_info"] = "accepted: 'n1' \\"as\\" asked, for 10.5 of %s credits" % terms["budget"]
e.accept()
"""
# What two submissions never share.
OWN = ("Job Id", "ctime", "mtime", "qtime", "etime", "stime", "obittime", "Submit_arguments", "Error_Path", "Output_Path", "session_id", "run_count",
       "comment", "job_state", "substate", "exec_host", "exec_vnode", "exec_host2", "queue_rank", "eligible_time", "accrue_type", "estimated", "jobdir")


class Front(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subnet = os.environ.get("LIBRA_SUBNET")
        cls.pbs = cls.enterClassContext(Cluster(hosts=1, processors=4, subnet=subnet and int(subnet)))
        front = cls.pbs.directory / "front"
        front.mkdir(mode=0o755)
        shutil.copy(LIBRA, front / "libra")
        (front / "qsub").symlink_to("libra")
        cls.libra, cls.front = front / "libra", front / "qsub"
        cls.pbs.qmgr(*(f"create resource {name} type=string,flag=m" for name in TERMS), "create resource libra_info type=string,flag=rm")
        cls.pbs.hook("stand_in", "queuejob", HOOK)
        cls.user = cls.pbs.users[0]
        cls.home = cls.pbs.directory / "home" / cls.user
        cls.pbs.wait("the host knows the resources", cls.host_is_ready)

    @classmethod
    def host_is_ready(cls):
        """A host that has not heard of a new resource yet takes no job that names it, and an interactive one is lost then."""
        job = cls.pbs.submit("-l", ",".join(f"{name}=1h" for name in TERMS), "--", "/bin/true")
        return cls.pbs.wait_state(job, "FH").get("Exit_status") == "0"

    def tearDown(self):
        left = [file for file in pathlib.Path("/tmp").glob("pbsscrpt*") if file.stat().st_uid == self.home.stat().st_uid]
        self.assertEqual(left, [])

    def submit(self, program, *args, script=None, stdin="", environment=None):
        if script is not None:
            (self.home / "job.sh").write_text(script)
            (self.home / "job.sh").chmod(0o644)
        return self.pbs.run(program, *args, user=self.user, stdin=stdin, environment=environment)

    def job(self, result):
        self.assertEqual(result.rc, 0, result)
        return self.pbs.qstat(result.out.strip())

    def same(self, one, other):
        def kept(job):
            return {key: value for key, value in job.items() if key not in OWN}
        self.assertEqual(kept(one), kept(other))

    def test_terms_on_the_command_line(self):
        for program in (self.front, self.libra):
            words = ["qsub"] if program == self.libra else []
            result = self.submit(program, *words, "-h", "-W", "deadline=1h,budget=15,estimate=00:10:00,umask=22", "job.sh", script="sleep 1\n")
            job = self.job(result)
            self.assertEqual(result.err, "libra: accepted: 'n1' \"as\" asked, for 10.5 of 15 credits\n")
            self.assertRegex(result.out, r"^\d+\.\S+\n$")
            self.assertEqual([job[f"Resource_List.{name}"] for name in TERMS[:3]], ["3600", "15", "600"])
            self.assertEqual(job["Job_Name"], "job.sh")
            self.assertEqual(job["umask"], "22")

    def test_a_changed_script_makes_the_same_job(self):
        plain = "#!/bin/bash\n#PBS -l deadline=3600,budget=15,estimate=10 -h\n#PBS -l ncpus=1 -W umask=22\necho $0\n"
        keys = "#!/bin/bash\n#PBS -W deadline=1h,budget=15,estimate=10,umask=22 -h\n#PBS -l ncpus=1\necho $0\n"
        wanted = self.job(self.submit("qsub", "job.sh", script=plain))
        self.assertEqual(wanted["Job_Name"], "job.sh")
        for _ in range(2):  # the second time by qsub's process in the background
            self.same(self.job(self.submit(self.front, "job.sh", script=keys)), wanted)
        self.same(self.job(self.submit(self.front, "-f", "job.sh", script=keys)), wanted)
        wanted = self.job(self.submit("qsub", stdin=plain))
        self.assertEqual(wanted["Job_Name"], "STDIN")
        self.same(self.job(self.submit(self.front, stdin=keys)), wanted)
        self.same(self.job(self.submit(self.front, "-", stdin=keys)), wanted)

    def test_a_changed_script_runs(self):
        out = self.home / "changed.out"
        script = f"#!/bin/bash\n#PBS -W deadline=60 -j oe -o {out}\necho ran; grep PBS $0\n"
        job = self.submit(self.front, "job.sh", script=script).out.strip()
        self.pbs.wait_state(job, "F")
        self.pbs.wait("output", out.exists)
        self.assertEqual(out.read_text(), f"ran\n#PBS -l deadline=60 -j oe -o {out}\necho ran; grep PBS $0\n")

    def test_who_uses_none_of_it_gets_the_real_one(self):
        script = "#!/bin/bash\n#PBS -N named -l walltime=60\n#PBS -W umask=27\nsleep 1\n"
        for arguments, stdin in ((["-h", "job.sh"], ""), (["-h", "-V", "-v", "A=1", "-W", "depend=afterok:999999", "-z"], script),
                                 (["-h"], script), (["-h", "-J", "1-3", "job.sh"], ""), (["-h", "--", "/bin/sleep", "-W", "1"], ""),
                                 (["-l", "nodes", "x", "y"], ""), (["-W", "colour=blue", "job.sh"], ""), (["--version"], "")):
            wanted = self.submit("qsub", *arguments, script=script, stdin=stdin)
            got = self.submit(self.front, *arguments, script=script, stdin=stdin)
            number = re.compile(r"^\d+")
            self.assertEqual((got.rc, number.sub("N", got.out), got.err), (wanted.rc, number.sub("N", wanted.out), wanted.err), arguments)
            if re.match(r"\d+[.\[]", got.out):
                got, wanted = self.job(got), self.job(wanted)
                self.same(got, wanted)
                self.assertEqual(got["Submit_arguments"], wanted["Submit_arguments"])

    def test_refused(self):
        result = self.submit(self.front, "-W", "deadline=5,budget=1,estimate=1", "--", "/bin/true")
        self.assertEqual(result, (32, "", "qsub: libra: refused (budget): it costs 2 credits; accepted now would be: budget=2\n"))
        jobs = lambda: re.findall(r"^\d+\S*", self.pbs.run("qstat", "-x").out, re.MULTILINE)  # noqa: E731
        before = jobs()
        result = self.submit(self.front, "-W", "deadline=soon", "--", "/bin/true")
        self.assertEqual((result.rc, result.out), (2, ""))
        self.assertIn("HH:MM:SS", result.err)
        self.assertEqual(jobs(), before)

    def test_an_array_and_quiet(self):
        result = self.submit(self.front, "-h", "-J", "1-3", "-W", "deadline=5,budget=3", "job.sh", script="sleep 1\n")
        self.assertEqual(result.err, "libra: accepted: 'n1' \"as\" asked, for 10.5 of 3 credits\n")
        self.assertIn("[]", result.out)
        result = self.submit(self.front, "-h", "-z", "-W", "deadline=5,budget=3", "job.sh")
        self.assertEqual(result, (0, "", ""))

    def start(self, *args):
        environment = client.plain_environment(self.pbs.conf)
        return subprocess.Popen([str(self.front), *args], env=environment, cwd=self.home, user=self.user, group=self.home.stat().st_gid,
                                extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_waiting_for_the_end(self):
        end = self.home / "end"
        waiting = self.start("-W", "block=true,deadline=60,budget=9", "--", "/bin/sh", "-c", f"while [ ! -e {end} ]; do sleep 0.2; done; exit 9")
        job = waiting.stdout.readline().strip()
        self.assertIn("accepted", waiting.stderr.readline())
        self.pbs.wait_started(job)
        self.assertIsNone(waiting.poll())
        end.touch()
        waiting.communicate(timeout=180)
        self.assertEqual(waiting.returncode, 9)
        self.assertEqual(self.pbs.qstat(job)["Exit_status"], "9")

        waiting = self.start("-W", "block=true,deadline=60,budget=9", "--", "/bin/sleep", "600")
        job = waiting.stdout.readline().strip()
        waiting.stderr.readline()
        self.pbs.wait_started(job)
        waiting.send_signal(signal.SIGTERM)
        _, errors = waiting.communicate(timeout=180)
        # qsub's own way: it deletes the job and ends with 2.
        self.assertEqual((waiting.returncode, errors), (2, f"qsub: wait for job {job} interrupted by signal 15\n"))
        self.pbs.wait_state(job, "F")

    def test_interactive(self):
        # A mom that cannot reach the waiting qsub gives the job up at once, with and without Libra; then once more.
        for attempt in (1, 2, 3):
            try:
                return self.interactive()
            except AssertionError:
                moms = "".join(self.pbs.log(host) for host in self.pbs.host_names)
                if attempt == 3 or moms.count("cannot open qsub sock") < attempt:
                    raise
                print("a mom could not reach the waiting qsub; once more", file=sys.stderr)

    def interactive(self):
        (self.home / "job.sh").write_text("#PBS -W deadline=60,budget=7\n")
        group = self.home.stat().st_gid
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.home)
            os.setgroups([])
            os.setgid(group)
            os.setuid(self.home.stat().st_uid)
            environment = {**client.plain_environment(self.pbs.conf), "HOME": str(self.home)}
            os.execve(self.front, ["qsub", "-I", "job.sh"], environment)
        said = b""

        def read_until(text):
            nonlocal said
            deadline = time.monotonic() + 600
            while text not in said:
                self.assertLess(time.monotonic(), deadline, said)
                if not select.select([terminal], [], [], 1)[0]:
                    continue
                try:
                    said += os.read(terminal, 4096)
                except OSError:
                    break
            self.assertIn(text, said)
        read_until(b"ready")
        job = re.search(rb"job (\S+) ready", said)[1].decode()
        self.assertEqual(self.pbs.qstat(job)["Resource_List.deadline"], "60")
        self.assertEqual(self.pbs.qstat(job)["Job_Name"], "job.sh")
        os.write(terminal, b"echo it is $((40+2)); exit 3\n")
        read_until(b"it is 42")
        read_until(b"completed")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(terminal)

    def test_a_script_typed_at_a_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.home)
            os.setgroups([])
            os.setgid(self.home.stat().st_gid)
            os.setuid(self.home.stat().st_uid)
            os.execve(self.front, ["qsub", "-h"], client.plain_environment(self.pbs.conf))
        os.write(terminal, b"#PBS -W deadline=60,budget=7\nhostname\n\x04")
        said = b""
        while True:
            try:
                said += os.read(terminal, 4096)
            except OSError:
                break
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(terminal)
        text = said.decode().replace("\r\n", "\n")
        self.assertIn("Job script will be read from standard input. Submit with CTRL+D.\n", text)
        self.assertRegex(text, r"\n\d+\.\S+\nlibra: accepted")

    def test_what_it_costs(self):
        (self.home / "job.sh").write_text("#!/bin/sh\nsleep 1\n")
        times = {}
        for name, program, terms in (("the real qsub", "qsub", []), ("through Libra's, no terms", self.front, []),
                                     ("with terms", self.front, ["-W", "deadline=60,budget=7,estimate=5"])) * 2:
            for _ in range(10):
                start = time.monotonic()
                self.job_free(program, *terms)
                # The best of all: what it costs, without what else the machine has to do.
                times[name] = min(times.get(name, 1e9), (time.monotonic() - start) * 1000)
        print("milliseconds per submission:", {name: round(time, 1) for name, time in times.items()}, file=sys.stderr)
        # Patience; what it costs on a quiet machine is in docs/performance.md.
        self.assertLess(times["through Libra's, no terms"], times["the real qsub"] + 2000)

    def job_free(self, program, *terms):
        result = self.pbs.run(program, "-h", *terms, "job.sh", user=self.user)
        self.assertEqual(result.rc, 0, result)


if __name__ == "__main__":
    unittest.main(verbosity=2)
