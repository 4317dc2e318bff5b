"""A throw-away OpenPBS with Libra (tests/openpbs), as the soak works on it: what is said to it, what it has, and how its parts are killed."""

import contextlib
import json
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "openpbs"), str(HERE.parent / "batch")]

import client  # noqa: E402
import exposition  # noqa: E402
import machine  # noqa: E402
from audit import Task  # noqa: E402
from libra_site import Site  # noqa: E402
from site_parts import Parts, indices_of  # noqa: E402
from truth import commitment  # noqa: E402

HOSTS, PROCESSORS = 3, 2
# A job that became eligible to run so long after its commitment was held in between (crates/pbs/src/release.rs).
AT_ONCE = 30


class OnOpenPBS(Parts):
    """The site."""

    name, system, processors, job_variable = "openpbs", "pbs", PROCESSORS, "PBS_JOBID"
    # qsub may have printed a job's id when pbs_server is killed before it has written the job down.
    unsaved = 1

    def __init__(self, users=6):
        self.cluster = Site(hosts=HOSTS, processors=PROCESSORS, users=users, agents=True)

    def __enter__(self):
        pbs = self.cluster
        pbs.__enter__()
        # So that the server's memory is not that of all jobs that ever were.
        pbs.qmgr("set server job_history_duration = 00:05:00")
        self.program, self.ledger, self.nodes = pbs.libra, pbs.own / "accounts/ledger.sqlite", pbs.host_names
        self.metrics = pbs.own / "metrics"
        self.metrics.mkdir(mode=0o755)
        (pbs.own / "accounts.toml").write_text(self.rules(pbs.own, self.metrics))
        self.must_account(pbs.own / "accounts.toml", "init", "--owner", "root")
        self.start_service(self.settings, pbs.own / "service.log")
        return self

    def begin(self):
        """The accounts are filled: from now on they count."""
        self.cluster.write_config(self.settings.read_text())

    def __exit__(self, *what):
        self.cluster.__exit__(*what)
        self.reap()

    # ---- submitting, and what is done to jobs

    def submit(self, one, terms, nodes, where, script):
        """(id, what the user was told, what is committed); no id where the client failed."""
        words = ["-N", one.name, "-o", "/dev/null", "-e", "/dev/null"]
        if terms:
            soft = f",deadline_type=soft,penalty_rate={terms['soft']}" if "soft" in terms else ""
            words += ["-l", f"estimate={terms['estimate']},deadline={terms['deadline']},budget={terms['budget']}{soft}"]
            if "held" in terms:
                words.append("-h")
            if "after" in terms:
                words += ["-W", f"depend=afterany:{terms['after']}"]
            if "begin" in terms:
                words += ["-a", time.strftime("%Y%m%d%H%M.%S", time.localtime(time.time() + terms["begin"]))]
        if one.tasks > 1:
            words += ["-J", f"1-{one.tasks}"]
        words += ["-l", f"select={nodes}:ncpus=1" + (f":host={where}" if where else "")]
        if nodes > 1:
            words += ["-l", "place=scatter"]
        try:
            answer = self.cluster.qsub(*words, user=one.user, script=script)
        except subprocess.TimeoutExpired:
            return None, "qsub got no answer", None
        if answer.rc != 0:
            return None, answer.err or answer.out, None
        has = {}
        with contextlib.suppress(subprocess.TimeoutExpired):  # the server may be down again
            has = self.cluster.qstat(answer.out)
        return answer.out, has.get("Resource_List.libra_info", ""), has.get("Resource_List.libra_terms")

    def command(self, *words, user=None):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.cluster.run(*words, user=user, timeout=60).rc
        return 124

    def cancel(self, task, user, dice):
        return self.command("qdel", *(["-W", "force"] if dice.random() < 0.1 and not user else []), task.name, user=user)

    def requeue(self, task, _user, _dice):
        return self.command("qrerun", task.name)

    def suspend(self, task, _user, dice):
        rc = self.command("qsig", "-s", "suspend", task.name)
        self.resume_later.append((time.monotonic() + dice.uniform(1, 15), task.name))
        return rc

    def hold(self, task, user, _dice):
        return self.command("qhold", task.name.split("[")[0] + "[]" if "[" in task.name else task.name, user=user)

    def release(self, task, _user, _dice):
        return self.command("qrls", "-h", "uos", task.name)

    def alter(self, task, user, dice):
        """Its user may change what Libra has nothing to do with, and nothing that was committed."""
        change = dice.choice([("-p", "5"), ("-r", "y"), ("-l", "walltime=5"), ("-l", "deadline=100000"), ("-l", "libra_terms=x"), ("-l", "select=1:ncpus=2")])
        return self.command("qalter", *change, task.name, user=user)

    def later(self):
        """What was suspended goes on."""
        for name in self.due(self.resume_later):
            self.command("qsig", "-s", "resume", name)

    # ---- what there is

    def records(self):
        """{id: attributes} of all jobs and subjobs that have not ended."""
        answer = self.cluster.run("qstat", "-f", "-w", "-t")
        if answer.rc != 0 and not answer.out:
            raise client.CommandFailed(f"qstat -f -w -t: exit {answer.rc}: {answer.err.strip()}")
        return client.attributes(answer.out)

    def tasks(self):
        """All jobs that have not ended."""
        found = []
        for name, has in self.records().items():
            state = has.get("job_state")
            if "[]" in name or state in "FMX":
                continue  # an array holds nothing itself
            line = commitment(has.get("Resource_List.libra_terms"))
            begun, runs = has.get("substate") in (client.STARTED, "43", "45"), state == "R"
            if state == "E" or (state == "R" and not begun) or state in "TU":
                state = "moving"
            elif state in "RS":
                state = "runs"
            elif state in "HW" or has.get("Hold_Types", "n") != "n" or (line and eligible(has) > float(line["submitted"]) + AT_ONCE):
                state = "rests"
            else:
                state = "waits"
            nodes = tuple(dict.fromkeys(re.findall(r"\((n\d+-\d+)", has.get("exec_vnode", "")))) if state == "runs" else ()
            # What its mom has not told the server of stays in state R for ever where the mom was killed just then (client.STARTED).
            found.append(Task(name, name, has.get("Job_Name", ""), state, line, nodes, 1, runs or state == "runs",
                              " ".join(f"{key}={has.get(key)}" for key in ("job_state", "substate", "run_count", "Hold_Types", "etime", "stime", "comment", "exec_vnode", "Resource_List.libra_terms"))))
        return found

    def show(self, job):
        """What PBS has of it."""
        return self.cluster.run("qstat", "-x", "-f", "-w", job).out[:3000]

    def ended(self):
        """{job's name: how}, of all that PBS's accounting has ended: E ended, D deleted. An array's own record, for an array."""
        found = {}
        for at, kind, job, rest in re.findall(r"^(.*?);([ED]);(\d+(?:\[\d*\])?)[^;]*;(.*)$", self.cluster.log("accounting"), re.MULTILINE):
            name = re.search(r"\bjobname=(s\d+)", rest)
            name = name[1] if name else self.names.get(job.split("[")[0])
            if name:
                found[name] = f"{kind} {at}"
        return found

    @property
    def names(self):
        """{number: job's name} as the soak knows it: a record of a deletion has no name."""
        return {one.job.split(".")[0].split("[")[0]: one.name for one in self.truth.submissions.values() if one.job}

    def logs(self):
        return sorted((self.cluster.home / "server_logs").iterdir())

    def all_logs(self):
        pbs = self.cluster
        return [*self.logs(), *sorted((pbs.home / "server_priv/accounting").iterdir()), *sorted((pbs.home / "sched_logs").iterdir()),
                *(file for host in self.nodes for file in sorted((pbs.directory / host / "mom_logs").iterdir())), *pbs.own.glob("*.log"), pbs.directory / "daemons.out"]

    def registered(self):
        """{(host, job)} of what the registries have as alive."""
        found = set()
        for host in self.nodes:
            for file in (self.cluster.own / host).glob("jobs/*.json"):
                with contextlib.suppress(FileNotFoundError):
                    if json.loads(file.read_text())["phase"] != "ended":
                        found.add((host, file.stem if "[" not in file.name else file.name.removesuffix(".json")))
        return found

    def groups(self):
        return {tuple(one.split(" job-", 1)) for one in self.cluster.cgroups()}

    def group(self, node, host_name):
        return self.cluster.cgroup(node, host_name)

    def metrics_now(self):
        """The hooks' metrics, written after now: at an event, so there is one of a job without terms."""
        files = exposition.Files(self.metrics, "pbs")
        time.sleep(1.1)
        now = time.time()

        def written():
            job = self.cluster.qsub("-h", "-N", "event").out
            if job:
                self.cluster.qdel("-Wforce", job)
            return files.written() > now
        self.cluster.wait("metrics written", written)
        return files

    def drained(self):
        """{host: state} of those that were taken out of service."""
        states = {host: self.cluster.node(host).get("state", "") for host in self.nodes}
        return {host: state for host, state in states.items() if "offline" in state}

    def repair(self, tasks):
        """What is PBS's own: a job in state R whose host has never begun it, or has forgotten it. It is begun anew by force."""
        for task in self.phantoms(tasks):
            self.truth.count("runs-without-a-process", task.name, task.submission, self.show(task.name).replace("\n", " ")[:1500])
            self.command("qrerun", "-W", "force", task.name)

    # ---- daemons

    def daemons(self):
        """{name: process number} of what is measured."""
        pbs = self.cluster
        found = {"pbs_server": pbs.server_pid(), "pbs_sched": pbs.lock_pid(pbs.home / "sched_priv/sched.lock"), "pbs_comm": pbs.lock_pid(pbs.home / "server_priv/comm.lock"),
                 **{f"pbs_mom {host}": pbs.mom_pid(host) for host in self.nodes},
                 **{f"agent {host}": agent.pid for host, agent in pbs.agents.items()}, "account serve": self.service.pid if self.service else None}
        return {name: pid for name, pid in found.items() if pid and machine.alive(pid)}

    def resident(self, pid):
        return int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])

    def kill_controller(self, dice):
        self.cluster.kill_server()
        self.truth.count("kill-controller")
        time.sleep(dice.choice([0, 0.5, 2, 6]))
        self.cluster.start_server()

    def stop_controller(self, _dice):
        self.cluster.must("qterm", "-t", "quick")
        self.cluster.wait("the server has ended", lambda: self.cluster.server_pid() is None)
        self.truth.count("stop-controller")
        self.cluster.start_server()

    def reread(self, _dice):
        self.truth.count("reconfigure")
        self.cluster.signal_scheduler()

    def kill_host(self, dice, spared=(), preserve=True):
        """A mom; with `preserve` its jobs go on, else they are ended and run again."""
        host = dice.choice([host for host in self.nodes if host not in spared])
        if self.cluster.mom_pid(host):
            self.cluster.kill_mom(host)
        self.truth.count("kill-mom" if preserve else "kill-mom-jobs-anew", host)
        time.sleep(dice.choice([0, 0, 1, 5]))
        self.cluster.start_mom(host, preserve=preserve)

    def kill_host_and_jobs(self, dice, spared=()):
        self.kill_host(dice, spared, preserve=False)

    def power_off(self, dice, spared=()):
        """Everything on a host is gone at once, what it had in memory as well."""
        pbs, host = self.cluster, dice.choice([host for host in self.nodes if host not in spared])
        self.truth.count("power-off", host)
        if pbs.mom_pid(host):
            pbs.kill_mom(host)
        if host in pbs.agents:
            pbs.kill_agent(host)
        self.end_everything(host, self.processes(host))
        self.forget(pbs.own / host, pbs.cgroup_roots(host))
        time.sleep(dice.choice([1, 5, 35]))
        pbs.start_mom(host)
        pbs.start_agent(host)

    def processes(self, host):
        """All of the host's jobs: their environment says whose settings they have."""
        mark, found = f"PBS_CONF_FILE={self.cluster.host_conf(host)}".encode(), set()
        for pid in machine.marked_processes(self.cluster.directory):
            with contextlib.suppress(OSError):
                if mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.add(pid)
        return found

    def kill_agent(self, dice, spared=()):
        host = dice.choice([host for host in self.nodes if host not in spared])
        if host in self.cluster.agents:
            self.cluster.kill_agent(host)
        self.truth.count("kill-agent", host)
        time.sleep(dice.choice([0, 3]))
        self.cluster.start_agent(host)

    def all_up(self):
        """Every daemon runs, and PBS has heard of all hosts."""
        pbs = self.cluster
        if pbs.server_pid() is None:
            pbs.start_server()
        for host in self.nodes:
            if host not in pbs.agents:
                pbs.start_agent(host)
        self.moms_answer(preserve=True)
        pbs.wait("all hosts are up", self.moms_answer)
        pbs.cycle()

    def moms_answer(self, preserve=False):
        """Are all hosts up? pbs_mom 23.06 ends with a segmentation fault now and then when it takes over jobs (-p): then it has to do without."""
        for host in self.nodes:
            if self.cluster.mom_pid(host) is None:
                self.truth.count("mom-not-there", host)
                self.cluster.start_mom(host, preserve)
        return not [1 for host in self.nodes if re.search("down|unknown", self.cluster.node(host).get("state", "down"))]

    def clear(self):
        """All jobs are deleted and gone."""
        self.cluster.wait("all jobs gone", self.cancel_all, 240)

    def cancel_all(self):
        names = {re.sub(r"\[\d+\]", "[]", name) for name in self.records()}
        if names:
            self.cluster.qdel("-W", "force", *names)
            time.sleep(2)
        return not names


def eligible(has):
    """Since when PBS could run it, Unix time; 0 where it could not."""
    try:
        return time.mktime(time.strptime(has["etime"]))
    except (KeyError, ValueError):
        return 0.0


__all__ = ["OnOpenPBS", "indices_of"]
