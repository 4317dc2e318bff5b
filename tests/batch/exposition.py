"""Reads what Libra writes for Prometheus, as far as its own tests need it."""

import json
import re

LINE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
OUTCOMES = ("met", "late", "cancelled", "unknown")


def samples(text):
    """{(name, label=value, ...): value} of a text; labels sorted."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = LINE.fullmatch(line).groups()
            key = (name, *sorted(f"{key}={value}" for key, value in LABEL.findall(labels or "")))
            assert key not in found, f"twice: {line}"
            found[key] = float(value)
    return found


class Files:
    """PREFIX.prom and PREFIX.json in a directory; `system` is the prefix."""

    def __init__(self, directory, system):
        self.prom, self.json, self.system = directory / f"{system}.prom", directory / f"{system}.json", system

    def written(self):
        """When the text was written, Unix time; 0 where it is not there."""
        return samples(self.prom.read_text())[("libra_written_timestamp_seconds", f"system={self.system}")] if self.prom.exists() else 0.0

    def gauges(self, name):
        """{other labels: value} of a metric of the system, for one other label its value alone."""
        own = f"system={self.system}"
        found = {}
        for (sample, *labels), value in samples(self.prom.read_text()).items():
            if sample == name and own in labels:
                rest = [label.split("=", 1)[1] for label in labels if label != own]
                found[rest[0] if len(rest) == 1 else tuple(rest)] = value
        return found

    def counts(self):
        """What was counted, without what is 0: accepted, withdrawn, outcomes, refused {reason: count}, and how many verdicts were timed."""
        counts = {"accepted": self.gauges("libra_jobs_accepted_total")[()], "withdrawn": self.gauges("libra_jobs_withdrawn_total")[()],
                  **self.gauges("libra_jobs_ended_total"), "verdicts": self.gauges("libra_decision_seconds_count")[()]}
        counts["refused"] = {reason: int(count) for reason, count in self.gauges("libra_submissions_refused_total").items() if count}
        return {key: value if isinstance(value, dict) else int(value) for key, value in counts.items() if value}

    def history(self):
        """The same of all hours together, without `verdicts`."""
        total = {"refused": {}}
        for hour in json.loads(self.json.read_text())["hours"]:
            assert hour["hour"] % 3600 == 0, hour
            for key, value in hour.items():
                if key == "refused":
                    for reason, count in value.items():
                        total["refused"][reason] = total["refused"].get(reason, 0) + count
                elif key != "hour":
                    total[key] = total.get(key, 0) + value
        return {key: value for key, value in total.items() if value}
