"""What both sites (on_slurm.py, on_openpbs.py) have in common: accounts, their service, and nodes without power."""

import contextlib
import os
import pathlib
import pwd
import signal
import subprocess
import time

from processes import MARK, alive, marked_processes

# Seconds for which a batch system may have a job as one that runs before it has a process: its prolog, its hooks.
STUCK = 25


class Parts:
    """Expects `cluster`, `program`, `settings` (the configuration of who admits), `truth`."""

    def __init_subclass__(cls):
        cls.hurry, cls.resume_later, cls.odd, cls.without_process = [], [], [], {}

    service, truth = None, None

    # ---- accounts

    @staticmethod
    def rules(directory, metrics):
        """TOML: accounts, and metrics that are as new as can be."""
        books = directory / "accounts"
        return (f"[accounts]\nmode = 'on'\nledger = '{books}/ledger.sqlite'\nlive = '{books}/live'\nsocket = '{directory}/accounts.sock'\n"
                f"[metrics]\ndirectory = '{metrics}'\ninterval = '1s'\n")

    def account_words(self, *words):
        return [str(self.program), "--config", str(self.settings), "account", *words]

    def account_done(self, *words):
        """`libra account`, as root."""
        return subprocess.run(self.account_words(*words), capture_output=True, text=True, check=False, timeout=120)

    def account(self, *words):
        done = self.account_done(*words)
        if done.returncode != 0:
            raise RuntimeError(f"libra account {' '.join(words)}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def must_account(self, settings, *words):
        self.settings = settings
        return self.account(*words)

    def start_service(self, settings, log):
        """`libra account serve`."""
        self.service_log = log
        with open(log, "ab") as output:
            self.service = subprocess.Popen([str(self.program), "--config", str(settings), "account", "serve"], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            env={**os.environ, MARK: str(self.cluster.directory)}, start_new_session=True)

    def kill_service(self, dice):
        self.service.kill()
        self.service.wait()
        self.truth.count("kill-account-serve")
        time.sleep(dice.choice([0, 2]))
        self.start_service(self.settings, self.service_log)

    def reap(self):
        """It was ended with everything of this cluster."""
        if self.service:
            self.service.wait()

    def ask_service(self, user, *words):
        """`libra account` of a user."""
        entry = pwd.getpwnam(user)
        done = subprocess.run(self.account_words(*words), user=entry.pw_uid, group=entry.pw_gid, extra_groups=[], cwd="/", capture_output=True, text=True, check=False, timeout=150)
        return done.returncode

    # ---- jobs

    def kill_process(self, task, _user, dice):
        """SIGKILL to one of its processes, whichever."""
        node = dice.choice(task.nodes) if task.nodes else None
        with contextlib.suppress(OSError):
            pids = [int(pid) for pid in (self.group(node, task.host_name) / "cgroup.procs").read_text().split()] if node else []
            if pids:
                os.kill(dice.choice(pids), signal.SIGKILL)
                return 0
        return 1

    @staticmethod
    def due(queue):
        """What was to be done by now, taken out of the queue."""
        now = time.monotonic()
        found = [name for at, name in queue if at <= now]
        queue[:] = [(at, name) for at, name in queue if at > now]
        return found

    def processes_of(self, task):
        """Numbers of all living processes of a job, wherever they are: they have it in their environment."""
        mark, found = f"{self.job_variable}={task.host_name}".encode(), []
        for pid in marked_processes(self.cluster.directory):
            with contextlib.suppress(OSError):
                if mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(pid)
        return found

    def phantoms(self, tasks):
        """Jobs that run by the batch system's records, and have had no process for STUCK seconds. Each is told once."""
        now = time.monotonic()
        runs = {task.name: task for task in tasks if task.began and not self.processes_of(task)}
        self.without_process = {name: self.without_process.get(name, now) for name in runs}
        found = [task for name, task in runs.items() if now - self.without_process[name] > STUCK]
        for task in found:
            del self.without_process[task.name]
            self.odd.append((task, f"{task.name} runs by the batch system's records, and nowhere is a process of it: {task.text}"))
        return found

    # ---- nodes without power

    @staticmethod
    def end_everything(_node, pids):
        """SIGKILL to all of these, until none is left."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while [pid for pid in pids if alive(pid)]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"these do not end: {pids}")
            time.sleep(0.05)

    @staticmethod
    def forget(registry, roots):
        """What a boot takes away: the registry, which is in memory, and all cgroups, with whatever is still in them."""
        for root in roots:
            for where, _, _ in os.walk(root, topdown=False):
                deadline = time.monotonic() + 60
                while True:
                    try:
                        for pid in (pathlib.Path(where) / "cgroup.procs").read_text().split():
                            with contextlib.suppress(ProcessLookupError):
                                os.kill(int(pid), signal.SIGKILL)
                        os.rmdir(where)
                        break
                    except FileNotFoundError:
                        break
                    except OSError:
                        if time.monotonic() > deadline:
                            raise
                        time.sleep(0.05)
        for file in [*registry.glob("*/*"), *registry.glob("*")]:
            if file.is_file():
                file.unlink(missing_ok=True)


def indices_of(text):
    """[1, 2, 3, 5] of 1-3,5; what is behind % is of no matter."""
    found = []
    for part in text.split("%")[0].split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            last, _, step = last.partition(":")
            found += range(int(first), int(last or first) + 1, int(step or 1))
    return found
