"""A host of its own with an agent and a few jobs; what is served and written, read by parsers that are not ours. Called by tests/metrics/run."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import urllib.error

import dashboard
from prometheus_client import parser as prometheus
from prometheus_client.openmetrics import parser as openmetrics
from support import OPENMETRICS, Host, check, end, results, wait


def values(families):
    """{(name, label=value, ...): value}"""
    return {(s.name, *sorted(f"{key}={value}" for key, value in s.labels.items())): s.value for family in families for s in family.samples}


def is_closed(connection):
    """By the other side, which has sent nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def rounds(host):
    return values(openmetrics.text_string_to_metric_families(host.get(OPENMETRICS)[1]))[("libra_host_round_seconds_count",)]


def main(directory):
    host = Host(directory)
    # What another process has written, and what is none of it.
    (host.metrics / "slurm.prom").write_text('libra_jobs{system="slurm",state="running"} 7\nlibra_jobs_accepted_total{system="slurm"} 3\n'
                                             'libra_jobs{system="local",state="running"} 99\nnode_load1 3\n')
    agent = host.start()
    try:
        wait("the agent answers", host.up)
        wait("it leads", lambda: host.leader() == agent.pid)
        # Runs for longer than its share allows at once, so that the kernel has to hold it: its share is small, as on a busy machine it gets little. Its deadline
        # is days away.
        busy = "import time\nwhile time.process_time() < 0.2: pass"
        met = host.run("deadline=1000000,budget=100000,estimate=50000", sys.executable, "-c", busy)
        check("a job is in time", met.returncode == 0, met.stderr)
        late = host.run("deadline=0.4,budget=10,estimate=0.2", "sleep", "1")
        check("a job is late", "missed its deadline" in late.stderr, late.stderr)
        check("a job does not start", host.run("deadline=90000,budget=10000,estimate=1000", "/nonexistent").returncode == 127)
        check("a job is refused", host.run("deadline=9,budget=1,estimate=1", "true").returncode == 3)
        own = "system=local"

        def counted():
            """A round has seen what there was, and that it is over."""
            seen = values(openmetrics.text_string_to_metric_families(host.get(OPENMETRICS)[1]))
            return seen.get(("libra_decision_seconds_count", own)) == 4 and seen.get(("libra_host_jobs", "state=running")) == 0 and seen[("libra_host_round_seconds_count",)] > 10

        wait("all of it is counted", counted)
        kind, text = host.get(OPENMETRICS)
        check("it is OpenMetrics", kind.startswith("application/openmetrics-text; version=1.0.0"), kind)
        found = values(openmetrics.text_string_to_metric_families(text))
        for key, value in {
            ("libra_jobs_accepted_total", own): 3, ("libra_jobs_ended_total", "outcome=met", own): 1, ("libra_jobs_ended_total", "outcome=late", own): 1,
            ("libra_jobs_ended_total", "outcome=failed", own): 1, ("libra_jobs_ended_total", "outcome=cancelled", own): 0, ("libra_submissions_refused_total", "reason=budget", own): 1,
            ("libra_decision_seconds_count", own): 4, ("libra_jobs", "state=running", own): 0, ("libra_host_jobs", "state=running"): 0,
            ("libra_host_leads",): 1, ("libra_host_enforced",): 1, ("libra_host_drifts_total",): 0, ("libra_host_rounds_failed_total",): 0,
            ("libra_jobs", "state=running", "system=slurm"): 7, ("libra_jobs_accepted_total", "system=slurm"): 3,
        }.items():
            check(" ".join(key), found.get(key) == value, f"{found.get(key)}, expected {value}")
        check("rounds are counted", found[("libra_host_round_seconds_count",)] > 10, found)
        check("throttled time is counted", found[("libra_host_throttled_seconds_total",)] > 0, found)
        check("others' metrics are not served", "node_load1" not in text and "99" not in text.split(), text)
        kind, older = host.get("text/plain")
        check("it is the older text", kind.startswith("text/plain; version=0.0.4"), kind)
        same = values(prometheus.text_string_to_metric_families(older))
        check("both say the same", same.keys() == found.keys(), same.keys() ^ found.keys())
        types = {family.name: family.type for family in prometheus.text_string_to_metric_families(older)}
        check("every metric has its type", "unknown" not in types.values() and "untyped" not in types.values(), types)
        for path in ("/", "/metrics/../etc/passwd", "/metrics/x"):
            try:
                host.get("*/*", path)
                check(f"nothing at {path}", False)
            except urllib.error.HTTPError as error:
                check(f"nothing at {path}", error.code == 404, error.code)

        def total():
            """What the history has; nothing while it is not there yet."""
            file = host.metrics / "local.json"
            hours = json.loads(file.read_text())["hours"] if file.exists() else []
            return {key: sum(hour.get(key, 0) for hour in hours) for key in ("accepted", "met", "late", "failed", "cancelled")}

        wanted = {"accepted": 3, "met": 1, "late": 1, "failed": 1, "cancelled": 0}
        wait("the files are written", lambda: (host.metrics / "local.prom").exists() and total() == wanted)
        values(prometheus.text_string_to_metric_families((host.metrics / "local.prom").read_text()))
        check("the history has it", total() == wanted, total())

        # Connections that say nothing take no others' place for long, and none of the agent's files.
        idle = [socket.create_connection(("127.0.0.1", host.port), timeout=300) for _ in range(64)]
        # The oldest give way to those that come: when so many are closed it has had them all.
        wait("it has taken them all and closed all but a few", lambda: sum(is_closed(connection) for connection in idle) >= 64 - 16)
        files = len(os.listdir(f"/proc/{agent.pid}/fd"))
        check("sixty-four idle connections take few files", files < 50, files)
        check("jobs go on", host.run("deadline=90000,budget=10000,estimate=1000", "true").returncode == 0)
        wait("it answers again when they were closed", host.up)
        for connection in idle:
            connection.close()

        wait("the history has that job, too", lambda: total()["accepted"] == 4)
        second = host.start("--metrics", f"127.0.0.1:{host.port}")
        wait("it has tried", lambda: "cannot listen" in second.log.read_text())
        wait("it goes through its rounds", lambda: "waiting to take over" in second.log.read_text())
        check("an agent whose port is taken goes on", second.poll() is None)
        said = end(second)
        check("and says so", f"cannot listen on 127.0.0.1:{host.port}: Address already in use" in said and "the agent goes on" in said, said)
    finally:
        end(agent)

    # The registry is gone, as after a reboot: the counts are not.
    subprocess.run(["rm", "-r", str(directory / "registry")], check=True)
    host.run("deadline=90000,budget=10000,estimate=1000", "true")
    agent = host.start()
    try:
        wait("it answers", host.up)
        wanted = 'libra_jobs_accepted_total{system="local"} 5\n'
        wait("it counts on", lambda: wanted in host.get(OPENMETRICS)[1])
        check("after a reboot it counts on", wanted in host.get(OPENMETRICS)[1])
    finally:
        end(agent)

    # Nowhere to write.
    (host.metrics / "local.prom").unlink()
    host.metrics.rename(directory / "away")
    agent = host.start()
    try:
        wait("it answers", host.up)
        wait("it has tried to write", lambda: "metrics are not written" in agent.log.read_text())
        # Every second it tries again, and ten times as often it goes through a round.
        before = rounds(host)
        wait("it has tried again", lambda: rounds(host) > before + 30)
        check("it goes on", agent.poll() is None)
    finally:
        said = end(agent)
    check("a directory that is not there costs one line", said.count("metrics are not written") == 1, said)


for scene in [main, *([dashboard.main] if os.environ.get("PROMETHEUS") else [])]:
    with tempfile.TemporaryDirectory() as temporary:
        scene(pathlib.Path(temporary))
print(f"{results['ok']} passed, {results['FAILED']} failed")
sys.exit(results["FAILED"] > 0)
