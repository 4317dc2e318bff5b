#!/usr/bin/env python3
"""Runs the tests on a batch system, clusters beside each other: `suite.py DIRECTORY [FILE or CLASS ...]`, as tests/openpbs/run, tests/slurm/run and tests/gridengine/run call it.

Each test class is a process and has a cluster of its own. First those that measure nothing, several at a time, while the
clusters of the others come up; then those that do, as many as do not disturb each other (`measures`, in case.py of the directory), nor another
suite (tests/batch/turns.py). One line per test; what a failed one said, and its jobs and the daemons' logs about them (`evidence` of the directory).
Each test has a limit (tests/batch/limits.py); a class that is not done in LIMIT seconds all the same is ended with its cluster.
When the suite is ended, by whatever signal, its classes are, and take down what they have.
"""

import concurrent.futures
import contextlib
import faulthandler
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DIRECTORY = pathlib.Path(sys.argv[1]).resolve()
sys.path[:0] = [str(DIRECTORY), str(pathlib.Path(__file__).resolve().parent)]

import cluster  # noqa: E402
import limits  # noqa: E402
import processes  # noqa: E402
import turns  # noqa: E402
from evidence import evidence  # noqa: E402

# Of a class, with its waiting for quiet.
LIMIT = turns.PATIENCE + 3600
RUNNING = set()
# Of a class that is being ended, with its cluster and its browser.
PATIENCE = 240


class Lines(unittest.TestResult):
    """One line for each test."""

    def __init__(self):
        super().__init__()
        self.counts, self.began = {"ok": 0, "FAILED": 0, "not run": 0}, {}
        # What comes after a test is the next one, or the end of the class.
        self.after_a_test = False

    def startTest(self, test):
        super().startTest(test)
        self.after_a_test = False
        self.began[test] = time.monotonic()
        limits.begin(test.id(), getattr(test, "seconds", limits.SECONDS))

    def stopTest(self, test):
        super().stopTest(test)
        self.after_a_test = True
        limits.begin(f"what comes after {test.id()}")

    def note(self, verdict, test, text=""):
        took = f" ({time.monotonic() - self.began[test]:.1f} s)" if test in self.began else ""
        name = test.id().removeprefix("__main__.")
        self.counts[verdict] += 1
        print(f"{verdict} {name}{took}" + ("\n" + text.rstrip() if text else ""), flush=True)

    def addSuccess(self, test):
        self.note("ok", test)

    def addFailure(self, test, error):
        self.fail(test, test, error)

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.fail(subtest, test, error)

    def fail(self, failed, test, error):
        """The test still has its cluster: its jobs and the daemons' logs say what the failure itself does not."""
        text = self._exc_info_to_string(error, test)
        cluster = next((found for name in ("pbs", "slurm", "cell") if (found := getattr(test, name, None))), None)
        self.note("FAILED", failed, text + (evidence(cluster, text) if cluster and not self.shouldStop else ""))

    def addSkip(self, test, reason):
        self.note("not run", test, reason)

    def end(self, *_):
        """For a signal: what is waited for in a test, or before the first, is waited for no longer; no other test begins, and the class gives
        back what it has. A test's framework takes an exit for that test's failure and goes on to the last test, or for that of one
        of its parts (`subTest`), and goes on to the last part."""
        if self.shouldStop:
            return
        self.stop()
        self.failfast = True
        if not self.after_a_test:
            sys.exit(143)


def run_class(module, name, suite):
    """One class, in this process; the lines are printed to standard output."""
    # Whoever ends it wants to know what it waited for.
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    result = Lines()
    signal.signal(signal.SIGTERM, result.end)
    # The suite may be killed: nobody is left then who could end its classes.
    processes.end_with_parent(int(suite))
    limits.begin(f"what {name} needs before its first test")
    unittest.defaultTestLoader.loadTestsFromTestCase(getattr(importlib.import_module(module), name)).run(result)
    print("counts", *result.counts.values())


def in_process(module, name):
    """One class in a process of its own; its counts. What it printed is printed at its end."""
    # A file, not a pipe: what the class leaves running would keep a pipe open.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen([sys.executable, __file__, DIRECTORY, "--class", module, name, str(os.getpid())], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        RUNNING.add(process)
        try:
            status = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            end([process])
            status = f"not done after {LIMIT} s; what it waited for is above"
        RUNNING.discard(process)
        output.seek(0)
        text = output.read()
    lines = text.splitlines()
    if status == 0 and lines and lines[-1].startswith("counts "):
        print("\n".join(lines[:-1]), flush=True)
        return [int(number) for number in lines[-1].split()[1:]]
    print(f"{text}\nFAILED {module}.{name}: exit status {status}", flush=True)
    return [0, 1, 0]


def end(classes):
    """End the processes of classes, which take their clusters down, or are followed by somebody who does."""
    for process in classes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGUSR1)
    time.sleep(1)
    for process in classes:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    deadline = time.monotonic() + PATIENCE
    for process in classes:
        try:
            process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    cluster.remove_leftovers()


def main(wanted):
    classes = []
    for file in sorted(DIRECTORY.glob("test_*.py")):
        module = importlib.import_module(file.stem)
        for name, found in sorted(vars(module).items()):
            if not (isinstance(found, type) and issubclass(found, unittest.TestCase) and found.__module__ == file.stem):
                continue
            tests = unittest.defaultTestLoader.getTestCaseNames(found)
            if tests and (not wanted or {file.stem, file.name, name} & set(wanted)):
                classes.append((file.stem, name, getattr(found, "measures", 0), (getattr(found, "seconds", limits.SECONDS), len(tests))))
    if not classes:
        sys.exit(f"no test class is called {' or '.join(wanted)}")
    began, totals = time.monotonic(), []

    def run(found):
        waited = time.monotonic() - began
        counts = in_process(found[0], found[1])
        print(f"-- {found[0]}.{found[1]}: from {waited:.0f} to {time.monotonic() - began:.0f} s of this suite", flush=True)
        return counts

    def in_place(found):
        with turns.place():
            return run(found)

    # Those whose tests may take long first, then those with the most tests, so that none is left to run alone at the end.
    classes.sort(key=lambda found: found[3], reverse=True)
    quiet, measuring = ([found for found in classes if bool(found[2]) == measures] for measures in (False, True))
    with concurrent.futures.ThreadPoolExecutor(len(turns.PLACES)) as pool, concurrent.futures.ThreadPoolExecutor(8) as others:
        try:
            with turns.noise():
                later = [others.submit(run, found) for found in measuring]
                totals += pool.map(in_place, quiet)
            totals += [one.result() for one in later]
        except BaseException:  # Ctrl-C too: nothing is left behind
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: None)  # once is enough
            turns.ENDING.set()
            for executor in (pool, others):
                executor.shutdown(wait=False, cancel_futures=True)
            end(list(RUNNING))
            raise
    ok, failed, not_run = (sum(numbers) for numbers in zip(*totals))
    print(f"{ok} passed, {failed} failed" + (f", {not_run} not run" if not_run else "") + f", in {time.monotonic() - began:.0f} s")
    return failed == 0


if __name__ == "__main__":
    limits.default_signals()
    if sys.argv[2:3] == ["--class"]:
        run_class(*sys.argv[3:6])
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        sys.exit(0 if main(sys.argv[2:]) else 1)
