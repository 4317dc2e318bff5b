"""A real MPI job for the tests on batch systems: exchange.c, built with MPICH's compiler, and how far it is."""

import contextlib
import pathlib
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent / "exchange.c"


def build(directory):
    """The program, in a directory that all users can read. Its test is not run where two processes of one host do not find each other: that is so with the
    MPICH of Ubuntu 24.04 (4.2.0)."""
    program, enough = directory / "exchange", directory / "enough-at-once"
    subprocess.run(["mpicc.mpich", "-O1", "-Wall", "-Werror", "-o", program, SOURCE], check=True)
    enough.touch()
    done = subprocess.run(["mpiexec.hydra", "-launcher", "fork", "-n", "2", program, "/dev/null", enough], capture_output=True, text=True, timeout=180, check=False)
    if "1 ranks:" in done.stdout:
        raise unittest.SkipTest(f"this system's MPICH does not work: each of two processes is alone ({done.stdout.strip()!r})")
    if done.stdout != "2 ranks: right\n":
        raise RuntimeError(f"two processes on one host ended with {done.returncode}: {(done.stdout + done.stderr).strip()}")
    return program


class Exchange:
    """One run of it: `progress`, `enough`, and `printed` are its files, which its user may write."""

    def __init__(self, directory, name):
        self.progress, self.enough, self.printed = (directory / f"{name}.{what}" for what in ("progress", "enough", "printed"))
        for file in (self.progress, self.printed):
            file.touch()
            file.chmod(0o666)

    def command(self, program, *launcher):
        """The line of a script that runs it by MPICH's launcher with these words."""
        return f"exec mpiexec.hydra {' '.join(map(str, launcher))} {program} {self.progress} {self.enough} >{self.printed}\n"

    def rounds(self):
        """Rounds that it has done."""
        with contextlib.suppress(ValueError):
            return int(self.progress.read_text())
        return 0


def states(processes):
    """The states of processes that are still there, as /proc has them: T for one that was stopped. One that has ended is not there."""
    found = set()
    for pid in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.add(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
    return found - {"Z"}


def ranks(program, processes):
    """Those of these processes that run it."""
    found = []
    for pid in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode() == str(program):
                found.append(pid)
    return found
