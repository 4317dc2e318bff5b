#!/usr/bin/env python3
"""Soak: throw-away clusters under random work and random kills for hours, audited at quiet points. tests/soak/run calls it.

    soak.py [--seconds 7200] [--seed N] [--systems slurm,openpbs] [--directory DIR]

Each system is a process with a cluster of its own, and a line a minute. In the second half, but for its last twentieth, those daemons are spared whose
memory is measured: who admits, the first node's, the accounts' service. The exit status is 0 only when no rule is broken.
"""

import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "batch")]

import limits  # noqa: E402
import report  # noqa: E402
from audit import Audit  # noqa: E402
from truth import Truth  # noqa: E402
from work import Work  # noqa: E402

# Seconds between two of a kind, in the mean; on short runs less, so that each kind comes.
KILLS = {"kill_controller": 240, "stop_controller": 900, "kill_host": 100, "kill_host_and_jobs": 300, "kill_agent": 120, "kill_service": 150, "power_off": 420,
         "deposit_killed": 150, "reread": 600}
USUAL = 1800
QUIET, SUBMITTERS, THINK, ACT = 300, 2, 2.6, 2.5
MOST_TROUBLES = 20


class Soak:
    """One system's run."""

    def __init__(self, site, seconds, seed, directory):
        self.site, self.seconds, self.seed = site, seconds, seed
        directory.mkdir(parents=True, exist_ok=True)
        self.log = open(directory / "events", "w", encoding="utf-8")  # pylint: disable=consider-using-with
        self.truth = site.truth = Truth(site.system, self.log)
        self.truth.path = directory / "events"
        self.audit, self.evidence = Audit(site, self.truth), report.Evidence(directory)
        self.dice = random.Random(seed)
        self.go, self.over = threading.Event(), threading.Event()
        self.busy, self.turn = 0, threading.Condition()
        self.samples, self.quiet_points, self.troubles = [], [], []

    # ---- threads

    def worker(self, what, think, seed):
        """Does something again and again, but not at quiet points."""
        dice = random.Random(seed)
        while not self.over.is_set():
            self.go.wait(1)
            with self.turn:
                if not self.go.is_set():
                    continue
                self.busy += 1
            try:
                what()
            except Exception:  # pylint: disable=broad-except
                # While a daemon is down its commands fail; what comes of that is for the audit.
                self.truth.count("command-failed", traceback.format_exc(limit=-2).replace("\n", " | ")[-600:])
            finally:
                with self.turn:
                    self.busy -= 1
                    self.turn.notify_all()
            time.sleep(min(dice.expovariate(1 / think), 10 * think))

    def ticker(self):
        """A line a minute, and the memory of all daemons."""
        while not self.over.wait(60 if self.seconds > 900 else 20):
            try:
                self.sample()
                self.say("")
            except Exception:  # pylint: disable=broad-except
                self.trouble()

    def sample(self):
        daemons = {}
        for name, pid in self.site.daemons().items():
            try:
                daemons[name] = (pid, self.site.resident(pid))
            except (OSError, TypeError):
                continue  # it has just ended
        self.samples.append((self.passed(), daemons, self.truth.counts["accepted"] + self.truth.counts["plain"]))

    def say(self, text):
        counts = self.truth.counts
        kills = sum(count for what, count in counts.items() if what.startswith(("kill-", "power", "stop")) and not what.startswith("kill-process"))
        print(f"[{self.site.name} {self.passed():5.0f} s] {text or 'submitted ' + str(len(self.truth.submissions))}, accepted {counts['accepted']}, refused {counts['refused']}, "
              f"no answer {counts['failed']}, kills {kills}, quiet points {len(self.quiet_points)}, broken {len(self.evidence.known)}", flush=True)

    def passed(self):
        return time.time() - self.truth.began

    def trouble(self):
        """The soak itself has failed somewhere."""
        text = traceback.format_exc()
        self.truth.note("trouble", text.replace("\n", " | "))
        self.troubles.append(f"at {self.passed():.0f} s: {text}")
        if len(self.troubles) > MOST_TROUBLES:
            raise RuntimeError("too many troubles of the soak itself")

    # ---- the run

    def run(self):
        with self.site:
            first = Work(self.site, self.truth, self.seed)
            first.open_accounts()
            self.site.begin()
            self.truth.began = time.time()
            workers = [Work(self.site, self.truth, f"{self.seed}-{number}") for number in range(SUBMITTERS + 1)]
            threads = [threading.Thread(target=self.worker, args=(work.submit, THINK, number), daemon=True) for number, work in enumerate(workers[:-1])]
            threads += [threading.Thread(target=self.worker, args=(lambda: (self.site.later(), workers[-1].act()), ACT, "act"), daemon=True), threading.Thread(target=self.ticker, daemon=True)]
            for thread in threads:
                thread.start()
            try:
                self.kill_until_the_end(first)
                self.finish()
            finally:
                self.over.set()
                for thread in threads:
                    thread.join(200)
            return report.figures(self)

    def kill_until_the_end(self, work):
        """Kills in their turn, and quiet points between them."""
        scale = max(0.12, min(1, self.seconds / USUAL))
        means = {what: mean * scale for what, mean in KILLS.items() if getattr(self.site, what, None) or what == "deposit_killed"}
        due = {what: self.dice.expovariate(1 / mean) for what, mean in means.items()}
        every = min(QUIET, self.seconds / 4)
        quiet = every
        self.go.set()
        while self.passed() < self.seconds:
            what = min(due, key=due.get)
            at = min(due[what], quiet, self.seconds)
            time.sleep(max(0, at - self.passed()))
            if at == quiet:
                self.quiet_point(f"quiet point {len(self.quiet_points) + 1}")
                quiet = self.passed() + every
            elif at == due[what]:
                due[what] = self.passed() + self.dice.expovariate(1 / means[what])
                self.kill(what, work)

    def kill(self, what, work):
        measuring = self.seconds / 2 < self.passed() < 0.95 * self.seconds
        if measuring and what in ("kill_controller", "stop_controller", "kill_service"):
            return
        try:
            if what == "deposit_killed":
                work.deposit_killed()
            elif what in ("kill_host", "kill_host_and_jobs", "kill_agent", "power_off"):
                getattr(self.site, what)(self.dice, self.site.nodes[:1] if measuring else ())
            else:
                getattr(self.site, what)(self.dice)
        except Exception:  # pylint: disable=broad-except
            self.trouble()

    def quiet_point(self, name):
        """Nobody does anything, all daemons run: audit."""
        self.go.clear()
        with self.turn:
            if not self.turn.wait_for(lambda: self.busy == 0, 400):
                self.troubles.append(f"at {self.passed():.0f} s: somebody has not come back from a command for 400 s")
        try:
            self.site.all_up()
            broken, took = self.audit.converge(self.evidence.known)
            self.quiet_points.append({"at": round(self.passed()), "seconds": round(took, 1), "jobs": len(self.audit.tasks), "broken": len(broken)})
            self.evidence.keep(broken, self.site, self.truth, self.audit)
            self.evidence.keep_odd(self.site, self.truth, self.audit)
            self.sample()
            self.say(f"{name}: {len(self.audit.tasks)} jobs there, sound after {took:.0f} s" if not broken else f"{name}: {len(broken)} BROKEN: " + "; ".join(map(str, broken))[:1500])
        except Exception:  # pylint: disable=broad-except
            self.trouble()
        if self.passed() < self.seconds:
            self.go.set()

    def finish(self):
        """Once as it is, and once with all jobs gone: then nothing may be left."""
        self.quiet_point("the end")
        self.go.clear()
        try:
            self.site.clear()
        except Exception:  # pylint: disable=broad-except
            self.trouble()
        self.quiet_point("all jobs gone")
        self.go.clear()


def one_system(name, options):
    """The run of one system, in this process."""
    # The cluster has a way of its own to end by it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if name == "slurm":
        from on_slurm import OnSlurm as Site  # pylint: disable=import-outside-toplevel
    else:
        from on_openpbs import OnOpenPBS as Site  # pylint: disable=import-outside-toplevel
    directory = pathlib.Path(options.directory) / name
    soak = Soak(Site(), options.seconds, options.seed, directory)
    report.write(soak.run(), directory / "report.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=7200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--systems", default="slurm,openpbs")
    parser.add_argument("--directory", default=None)
    parser.add_argument("--system", help="only for soak.py itself")
    options = parser.parse_args()
    limits.default_signals()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    options.directory = options.directory or str(HERE.parents[1] / "target/soak" / time.strftime("%Y%m%d-%H%M%S"))
    if options.system:
        one_system(options.system, options)
        return True
    systems = options.systems.split(",")
    print(f"soak of {' and '.join(systems)} for {options.seconds} s, seed {options.seed}; what it leaves is in {options.directory}", flush=True)
    children = {system: subprocess.Popen([sys.executable, __file__, "--system", system, f"--seconds={options.seconds}", f"--seed={options.seed}", f"--directory={options.directory}"],
                                         stdin=subprocess.DEVNULL) for system in systems}
    deadline = time.monotonic() + options.seconds + 3600
    try:
        for child in children.values():
            child.wait(max(1, deadline - time.monotonic()))
    finally:
        for child in children.values():
            if child.poll() is None:
                child.terminate()  # it takes its cluster down
                child.wait(900)
    sound, found = True, {}
    for system, child in children.items():
        file = pathlib.Path(options.directory) / system / "report.json"
        if child.returncode != 0 or not file.exists():
            print(f"== {system}: the soak itself has ended with {child.returncode}")
            sound = False
            continue
        found[system] = json.loads(file.read_text())
        print(report.table(found[system]), flush=True)
        sound &= report.is_sound(found[system])
    directory = pathlib.Path(options.directory)
    directory.mkdir(parents=True, exist_ok=True)
    report.write(found, directory / "report.json")
    (directory / "report.txt").write_text("\n".join(report.table(one) for one in found.values()) + "\n")
    return sound


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
