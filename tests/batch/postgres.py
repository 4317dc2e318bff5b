"""A PostgreSQL server for tests, in a temporary directory and at a socket there alone (tests/postgres.sh): it ends with whoever began it."""

import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

WATCH = pathlib.Path(__file__).resolve().parents[1] / "postgres.sh"
PATIENCE = 300.0


def programs():
    """Where the programs are, the newest; None if there are none."""
    found = [path.parent for path in pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb") if re.fullmatch(r"\d+", path.parent.parent.name)]
    return max(found, key=lambda path: int(path.parent.name), default=None)


class Server:
    """`string` leads to its one database."""

    def __init__(self):
        self.bin = programs()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="libra-pg-", dir="/tmp"))
        self.directory.chmod(0o755)
        command = ["bash"]
        if os.geteuid() == 0:
            # initdb does not work as root.
            user = next(entry for entry in map(lookup, ("postgres", "nobody")) if entry)
            shutil.chown(self.directory, user.pw_uid, user.pw_gid)
            command = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "bash"]
        self.watch = subprocess.Popen([*command, "-c", WATCH.read_text(), "watch", self.directory, self.bin], cwd="/", env={**os.environ, "LC_ALL": "C"},
                                      stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
        self.string = f"host={self.directory} user=libra dbname=postgres"
        self.wait(self.answers)

    def wait(self, seen):
        deadline = time.monotonic() + PATIENCE
        while not seen():
            if self.watch.poll() is not None:
                raise RuntimeError("no database: see what initdb says")
            if time.monotonic() > deadline:
                raise TimeoutError(f"no database: {(self.directory / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def sql(self, statement):
        """What a statement brings; None if the server does not answer."""
        done = subprocess.run([self.bin / "psql", "-XAtq", "-d", self.string, "-c", statement], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def answers(self):
        return self.sql("SELECT 1") == "1"

    def pid(self):
        return int((self.directory / "server").read_text())

    def kill(self):
        """All of its processes at once."""
        server = self.pid()
        children = pathlib.Path(f"/proc/{server}/task/{server}/children")
        for pid in [server, *map(int, children.read_text().split() if children.exists() else [])]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def begin_again(self):
        """After it was killed. One that comes while the last process of the one before is still there ends, and is begun once more."""
        def begun():
            before = self.pid()
            self.watch.stdin.write(b"begin\n")
            self.watch.stdin.flush()
            self.wait(lambda: self.pid() != before)
            self.wait(lambda: self.answers() or not pathlib.Path(f"/proc/{self.pid()}/cmdline").exists())
            return self.answers()
        self.wait(begun)

    def end(self):
        self.watch.stdin.close()
        self.watch.wait()


def lookup(name):
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
