"""A host of its own with an agent, and what is found there, counted."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "batch"))

import processes  # noqa: E402

LIBRA = os.environ["LIBRA"]
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
results = {"ok": 0, "FAILED": 0}


def check(what, holds, found=""):
    verdict = "ok" if holds else "FAILED"
    results[verdict] += 1
    print(f"{verdict} {what}" + ("" if holds else f": {found}"))


def is_free(port):
    with contextlib.closing(socket.socket()) as listener, contextlib.suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        return True
    return False


def free_port():
    """Below those that the kernel gives away and those of clusters, and another one each time: an agent that is started again has the same."""
    with processes.lock("metrics"):
        port = next(port for port in processes.in_turn("metrics", range(8000, 10000)) if is_free(port))
        processes.taken("metrics", port)
    return port


def wait(what, condition, patience=300):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            check(what, False, f"not within {patience} s")
            return
        time.sleep(0.05)


class Host:
    def __init__(self, directory):
        self.directory, self.metrics, self.port, self.agents = directory, directory / "metrics", free_port(), 0
        self.metrics.mkdir()
        self.config = directory / "libra.toml"
        self.config.write_text(f"[cgroup]\nroot = 'libra-metrics-{os.getpid()}'\n[registry]\ndirectory = '{directory}/registry'\n[agent]\ninterval = '100ms'\n"
                               f"[metrics]\nlisten = '127.0.0.1:{self.port}'\ndirectory = '{self.metrics}'\ninterval = '1s'\n")

    def start(self, *more):
        """An agent; what it says is in its `log`."""
        self.agents += 1
        log = self.directory / f"agent-{self.agents}"
        with log.open("w") as said:
            agent = subprocess.Popen([LIBRA, "--config", self.config, "-v", "agent", *more], stdin=subprocess.DEVNULL, stderr=said)
        agent.log = log
        return agent

    def leader(self):
        """Number of the process that runs the control loop."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int((self.directory / "registry/leader").read_text())
        return None

    def run(self, terms, *command):
        return subprocess.run([LIBRA, "--config", self.config, "run", "-W", terms, "--", *command], capture_output=True, text=True)

    def get(self, accept, path="/metrics"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def up(self):
        with contextlib.suppress(OSError):
            return self.get("*/*")
        return None


def end(process):
    """What it has said."""
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=300)[1]
    log = getattr(process, "log", None)
    return log.read_text() if log else said
