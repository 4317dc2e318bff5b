"""The alerts and the dashboard that are installed with Libra, in a Prometheus that reads a plain host's agent. Called by check.py."""

import json
import math
import os
import pathlib
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import yaml
from support import Host, check, end, free_port, wait

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging/prometheus/libra.rules.yml"
RULES_TEST = ROOT / "tests/metrics/rules.test.yml"
DASHBOARD = ROOT / "packaging/grafana/libra.json"
PROVISIONING = ROOT / "packaging/grafana/provisioning/dashboards/libra.yaml"
# What has nothing to show on a host alone, whatever has happened there: it has no accounts.
EMPTY_ON_A_HOST = {"Holds"}


class Prometheus:
    def __init__(self, directory, port):
        self.port = free_port()
        config = directory / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "libra", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}],
        }))
        self.process = subprocess.Popen(
            [f"{os.environ['PROMETHEUS']}/prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=300) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                raise ConnectionError("it is about to start") from None
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from None

    def query(self, expression):
        """The values, without labels."""
        return [float(one["value"][1]) for one in self.get("query", query=expression)["result"]]

    def has(self, expression):
        try:
            return bool(self.query(expression))
        except OSError:
            return False

    def alerts(self, state):
        return {alert["labels"]["alertname"]: alert for alert in self.get("alerts")["alerts"] if alert["state"] == state}


def rules():
    """The file by itself: Prometheus's own tests of it, and that none is left out there."""
    promtool = f"{os.environ['PROMETHEUS']}/promtool"
    for command in (["check", "rules", RULES], ["test", "rules", RULES_TEST]):
        done = subprocess.run([promtool, *command], capture_output=True, text=True)
        check(f"promtool {' '.join(command[:2])}", done.returncode == 0, done.stdout + done.stderr)
    alerts = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    tested = RULES_TEST.read_text()
    for rule in alerts:
        name = rule["alert"]
        check(f"{name} is seen to fire in the tests", f'alertname="{name}", alertstate="firing"' in tested)
        check(f"{name} is graded", rule["labels"]["severity"] in ("critical", "warning"), rule["labels"])
        said = rule["annotations"]
        check(f"{name} says what to do", set(said) == {"summary", "description", "action"} and all(len(text) > 20 for text in said.values()), said)


def panels():
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        expressions = [target["expr"].replace("$system", ".*").replace("$__rate_interval", "10m") for target in panel["targets"]]
        yield panel, expressions


def look(prometheus, when, empty):
    """Every query is understood and brings numbers, on all panels but `empty`; what is empty says why."""
    for panel, expressions in panels():
        title = panel["title"]
        found = [value for expression in expressions for value in prometheus.query(expression)]
        check(f"{when}: '{title}' has numbers", all(math.isfinite(value) for value in found), found)
        why = panel["fieldConfig"]["defaults"].get("noValue", "")
        check(f"{when}: '{title}' has something to show" if title not in empty else f"{when}: '{title}' says why not", bool(found) if title not in empty else (found or len(why) > 20), expressions)


def provisioning():
    """What Grafana reads at its start: the dashboard's directory, and no datasource."""
    text = PROVISIONING.read_text()
    read = yaml.safe_load(text.replace("@PREFIX@", "/usr"))
    check("one provider of dashboards", read["apiVersion"] == 1 and [one["type"] for one in read["providers"]] == ["file"], read)
    check("it names the dashboard's directory", read["providers"][0]["options"]["path"] == "/usr/share/libra/grafana", read)
    dashboard = DASHBOARD.read_text()
    named = set(re.findall(r'"uid": "([^"]*)"', dashboard))
    check("the dashboard names no datasource of one site", named == {"libra", "${datasource}"}, named)


def main(directory):
    rules()
    provisioning()
    host = Host(directory)
    agent = host.start()
    prometheus = Prometheus(directory, host.port)
    try:
        wait("Prometheus reads the agent", lambda: prometheus.has("sum_over_time(libra_host_leads[1m]) > 2"))
        # Nobody has submitted anything yet.
        look(prometheus, "at first", EMPTY_ON_A_HOST | {"Met their deadline, last 24 h", "Time of a verdict", "Refusals by reason"})
        check("no alert at first", not prometheus.alerts("firing"), prometheus.alerts("firing"))
        check("a job is in time", host.run("deadline=30000,budget=9900,estimate=1000", "true").returncode == 0)
        check("a job is late", "missed its deadline" in host.run("deadline=0.4,budget=10,estimate=0.2", "sleep", "1").stderr)
        check("a job is refused", host.run("deadline=9,budget=1,estimate=1", "true").returncode == 3)
        wait("Prometheus has seen them", lambda: prometheus.has('sum(increase(libra_submissions_refused_total[10m])) > 0 and sum(increase(libra_jobs_ended_total[10m])) > 1'))
        look(prometheus, "with jobs", EMPTY_ON_A_HOST)
        wait("an alert says that a job was late", lambda: "LibraPromiseMissed" in prometheus.alerts("firing"))
        firing = prometheus.alerts("firing")
        check("and it is the only one", set(firing) == {"LibraPromiseMissed"}, firing)
        said = firing.get("LibraPromiseMissed", {}).get("annotations", {})
        check("it says who admitted", "admitted by local" in said.get("summary", ""), said)
        health = {rule["name"]: rule["health"] for group in prometheus.get("rules")["groups"] for rule in group["rules"]}
        check("every rule is evaluated", len(health) > 10 and set(health.values()) == {"ok"}, health)
        end(agent)
        wait("an agent that has ended is noticed", lambda: "LibraAgentSilent" in prometheus.alerts("pending"))
    finally:
        if agent.poll() is None:
            end(agent)
        said = end(prometheus.process)
    check("Prometheus complains of nothing", "level=error" not in said, said)
