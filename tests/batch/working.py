"""Jobs that use all the processor time that they get, and say how much that is: to see who has a processor, whatever else the machine does."""

import pathlib
import time

WORKER = """import os, sys, time
enough, file = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
while not os.path.exists(enough):
    again = time.monotonic() + 0.2
    while time.monotonic() < again:
        pass
    os.write(file, f"{os.getpid()} {time.process_time():.3f}\\n".encode())
"""


class Working:
    """directory: where the job's user may write. enough: the file that ends it."""

    def __init__(self, directory, name, enough):
        self.said, self.enough = pathlib.Path(directory) / f"{name}.said", enough

    def script(self, processes):
        """Of a job with so many processes that work. The last one is waited for."""
        worker = f"python3 -S -c '{WORKER}' {self.enough} {self.said}"
        return f"{worker} &\n" * (processes - 1) + f"{worker}\n"

    def used(self):
        """Seconds of processor time, of all its processes."""
        if not self.said.exists():
            return 0.0
        last = dict(line.split() for line in self.said.read_text().splitlines())
        return sum(map(float, last.values()))


def gained(works, other, wait, seconds=6.0):
    """What each of two that work has used while the first one used so many seconds. wait: the cluster's."""
    wait("it works", lambda: works.used() > 0)
    # What was used before the other one came is said a moment later.
    time.sleep(0.5)
    before, others = works.used(), other.used()
    wait("it gets on", lambda: works.used() > before + seconds)
    return works.used() - before, other.used() - others
