"""A host of its own with an agent, and what is found there, counted."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request

LIBRA = os.environ["LIBRA"]
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
results = {"ok": 0, "FAILED": 0}


def check(what, holds, found=""):
    verdict = "ok" if holds else "FAILED"
    results[verdict] += 1
    print(f"{verdict} {what}" + ("" if holds else f": {found}"))


def free_port():
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait(what, condition, patience=180):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            check(what, False, f"not within {patience} s")
            return
        time.sleep(0.05)


class Host:
    def __init__(self, directory):
        self.directory, self.metrics, self.port = directory, directory / "metrics", free_port()
        self.metrics.mkdir()
        self.config = directory / "libra.toml"
        self.config.write_text(f"[cgroup]\nroot = 'libra-metrics-{os.getpid()}'\n[registry]\ndirectory = '{directory}/registry'\n[agent]\ninterval = '100ms'\n"
                               f"[metrics]\nlisten = '127.0.0.1:{self.port}'\ndirectory = '{self.metrics}'\ninterval = '1s'\n")

    def start(self, *more):
        return subprocess.Popen([LIBRA, "--config", self.config, "-v", "agent", *more], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def run(self, terms, *command):
        return subprocess.run([LIBRA, "--config", self.config, "run", "-W", terms, "--", *command], capture_output=True, text=True)

    def get(self, accept, path="/metrics"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def up(self):
        with contextlib.suppress(OSError):
            return self.get("*/*")
        return None


def end(agent):
    """What it has said."""
    agent.send_signal(signal.SIGTERM)
    return agent.communicate(timeout=180)[1]
