"""OpenPBS's commands, as methods: what a test says to a cluster and asks of it.

`Commands` expects of its user: `exec` (PBS_EXEC), `home` (the server's PBS_HOME), `conf` (the server's pbs.conf),
`host_names`, `users`, `mom_pid`. Every command returns `Result(rc, out, err)`; attributes of jobs and nodes are strings, as OpenPBS prints them.
"""

import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "batch"))

import commands  # noqa: E402
from commands import CommandFailed, Result  # noqa: E402, F401

STARTED = "42"  # the substate of a job whose first process its mom has heard of; before that it is 41


def plain_environment(conf):
    """This process's environment without anything that concerns PBS, and then this cluster's."""
    return commands.environment_without("PBS_") | {"PBS_CONF_FILE": str(conf)}


def attributes(text):
    """The records of `qstat -f -w` or `pbsnodes`: {name: {attribute: value}}."""
    records, record, last = {}, {}, None
    for line in text.splitlines():
        pair = re.match(r"^ +(\S+) = ?(.*)$", line)
        if pair:
            last = pair[1]
            record[last] = pair[2]
        elif line and not line[0].isspace():
            record, last = {}, None
            records[line.removeprefix("Job Id: ").strip()] = record
        elif line.strip() and last:
            record[last] += "\n" + line.strip()  # a value with line breaks of its own
    return records


class Commands(commands.Programs):
    """The commands of one cluster."""

    def environment(self):
        """To speak to this cluster; PBS's own directories come first in PATH."""
        return {**plain_environment(self.conf), "PATH": f"{self.exec}/bin:{self.exec}/sbin:{os.environ['PATH']}"}

    def run(self, *argv, timeout=180.0, **options):
        for _ in range(3):
            done = super().run(*argv, timeout=timeout, **options)
            # Now and then, when many commands follow each other: a port is used again before the server has forgotten it. Nothing was done then.
            if "Invalid credential" not in done.err:
                break
            time.sleep(0.2)
        return done

    def qmgr(self, *commands, check=True):
        """Commands for qmgr, as root; with `check`, the first that fails is an exception."""
        result = self.run("qmgr", stdin="".join(command + "\n" for command in commands))
        if check and (result.rc != 0 or "obj=" in result.err or "qmgr: Error" in result.err):
            raise CommandFailed(f"qmgr {commands}: exit {result.rc}: {result.err.strip()}")
        return result

    def qsub(self, *args, user=None, script="sleep 1000\n", environment=None, program="qsub"):
        """Submit `script` (its text) as an ordinary user; `out` holds the job's id without a line break."""
        result = self.run(program, *args, user=user or self.users[0], stdin=script, environment=environment)
        return result._replace(out=result.out.strip())

    def submit(self, *args, **options):
        """`qsub` that must be accepted: the job's id."""
        result = self.qsub(*args, **options)
        if result.rc != 0:
            raise CommandFailed(f"qsub {' '.join(args)}: exit {result.rc}: {result.err.strip()}")
        return result.out

    def jobs(self, *ids, subjobs=False):
        """{id: attributes} of the jobs the server knows, finished ones included. Without ids it is asked until it lists them: no answer does not mean that
        there are none."""
        result = None

        def listed():
            nonlocal result
            result = self.run("qstat", "-x", "-f", "-w", *(["-t"] if subjobs else []), *ids)
            return ids or result.rc == 0

        try:
            self.wait("the server lists its jobs", listed)
        except TimeoutError as late:
            raise TimeoutError(f"{late}: exit {result.rc}: {result.err.strip()}") from None
        return attributes(result.out)

    def qstat(self, job):
        """A job's attributes, {} if the server does not know it."""
        return self.jobs(job).get(job, {})

    def node(self, name):
        """A node's attributes."""
        result = self.run("pbsnodes", "-v", name)
        if result.rc != 0:
            raise CommandFailed(f"pbsnodes -v {name}: exit {result.rc}: {result.err.strip()}")
        return attributes(result.out).get(name, {})

    def qdel(self, *args, user=None):
        """An array is deleted by a command of its own: on a slow machine pbs_server 23.06 was seen to end where arrays were among several jobs of one (in its
        reply_send, for a request that was gone)."""
        options, jobs = ([word for word in args if word[:1].isdigit() == is_job] for is_job in (False, True))
        arrays = [job for job in jobs if "[" in job]
        plain = [job for job in jobs if job not in arrays]
        # Each command has its limit, and a busy server takes seconds for some jobs.
        some_each = [plain[at:at + 50] for at in range(0, len(plain), 50)]
        done = [self.run("qdel", *options, *some, user=user) for some in (*some_each, *([array] for array in arrays))]
        return next((one for one in done if one.rc != 0), done[-1])

    def cycle(self):
        """Ask for a scheduling cycle now."""
        self.qmgr("set server scheduling = true")

    def wait_job(self, job, what, is_so, patience=180.0):
        """Wait until something is so of the job's attributes; its attributes."""
        def reached():
            found = self.qstat(job)
            return found if is_so(found) else None
        try:
            return self.wait(f"job {job} {what}", reached, patience)
        except TimeoutError as late:
            found = self.qstat(job)
            nodes = {host: self.node(host).get("state") for host in self.host_names}
            raise TimeoutError(f"{late}: it is in state {found.get('job_state')}, substate {found.get('substate')}, exit status {found.get('Exit_status')}, "
                               f"comment {found.get('comment')!r}, nodes {nodes}") from None

    def wait_state(self, job, states, patience=180.0):
        """Wait until the job's state is one of the letters in `states`; its attributes. State R does not say that anything runs yet: see wait_started."""
        return self.wait_job(job, f"in state {states}", lambda found: found.get("job_state", "?") in states, patience)

    def wait_started(self, job, patience=180.0, runs=1):
        """Wait until the job's processes run, for the `runs`th time at least, and its host has told the server so; its attributes.

        A job is in state R as soon as the server sends it, and its first process is there a little before its mom has heard of it and written
        that down. Meanwhile PBS loses things: a mom that is killed then knows of no process of this job afterwards, and the job stays in state R
        for ever; a qdel's signal is sent to nobody, and the next one much later; a server that is killed then starts the job again."""
        def started(found):
            if found.get("job_state") == "F":
                raise CommandFailed(f"job {job} has ended before it was seen to run: exit status {found.get('Exit_status')}, comment {found.get('comment')!r}")
            return found.get("job_state") == "R" and found.get("substate") == STARTED and int(found["run_count"]) >= runs
        return self.wait_job(job, "started", started, patience)

    def hook(self, name, event, source, config=None, **settings):
        """Create (or replace) hook `name` for `event` with the Python text `source` and the text `config`; wait until hosts have it."""
        file = pathlib.Path(self.directory) / f"{name}.hook.py"
        file.write_text(source)
        if f"Hook {name}\n" not in self.qmgr("list hook", check=False).out:
            self.qmgr(f"create hook {name}", f"set hook {name} enabled = false", f"set hook {name} event = {event}")
        commands = [f"import hook {name} application/x-python default {file}"]
        if config is not None:
            text = pathlib.Path(self.directory) / f"{name}.hook.config"
            text.write_text(config)
            commands.append(f"import hook {name} application/x-config default {text}")
        commands += [f"set hook {name} {key} = {value}" for key, value in settings.items()]
        self.qmgr(*commands, f"set hook {name} enabled = true")
        if event.startswith("exec"):
            self.wait(f"hook {name} on all hosts", lambda: all(self.has_hook(host, name, source, config) for host in self.host_names if self.mom_pid(host)))

    def has_hook(self, host, name, source, config):
        """Whether the server has sent this version of a hook to a host; that takes it a second or two."""
        directory = pathlib.Path(self.directory) / host / "mom_priv/hooks"
        try:
            return ((directory / f"{name}.PY").read_text() == source and "enabled=false" not in (directory / f"{name}.HK").read_text()
                    and (config is None or (directory / f"{name}.CF").read_text() == config))
        except FileNotFoundError:
            return False

    def delete_hook(self, name):
        self.qmgr(f"set hook {name} enabled = false", f"delete hook {name}")

    def schedule_by(self, *resources):
        """Put resources on the `resources:` line of sched_config; the scheduler reads it again."""
        file = self.home / "sched_priv/sched_config"
        added = ", ".join(resources)
        file.write_text(re.sub(r'^(resources: *")([^"]*)"', rf'\1\2, {added}"', file.read_text(), flags=re.MULTILINE))
        self.signal_scheduler()

    def log(self, what="server"):
        """The text of a log: `server`, `sched`, `accounting`, or a host's name for its mom's."""
        if what in self.host_names:
            directory = pathlib.Path(self.directory) / what / "mom_logs"
        else:
            directory = self.home / {"accounting": "server_priv/accounting"}.get(what, f"{what}_logs")
        return "".join(file.read_text(errors="replace") for file in sorted(directory.iterdir()))
