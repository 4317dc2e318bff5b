"""AccaSim's FIFO and EASY and ours on one log: jobs a second, and the waiting times job by job.

Called by benches/accasim/run. Python 3.10 or newer, with accasim 1.1.3 installed.
"""

import collections
import collections.abc
import contextlib
import csv
import gzip
import io
import json
import os
import subprocess
import sys
import time

# Python 3.10 took these names away from where AccaSim 1.1.3 looks for them.
for name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable"):
    if not hasattr(collections, name):
        setattr(collections, name, getattr(collections.abc, name))

from accasim.base.allocator_class import FirstFit  # noqa: E402
from accasim.base.additional_data import AdditionalData  # noqa: E402
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402

# AccaSim takes a time of 0 for no time.
OFFSET = 86_400


def prepare(log, jobs, prepared):
    """Writes the jobs that ran, with only what both simulators use. Returns jobs and processors."""
    opened = gzip.open if log.endswith(".gz") else open
    processors = count = 0
    with opened(log, "rt") as source, open(prepared, "w") as out:
        lines = []
        for line in source:
            if line.startswith(";"):
                key, _, value = line[1:].partition(":")
                if key.strip() in ("MaxProcs", "MaxNodes"):
                    processors = max(processors, int(value.split()[0]))
                continue
            fields = line.split()
            if not fields:
                continue
            run_time, asked = int(float(fields[3])), int(fields[7])
            width = asked if asked > 0 else int(fields[4])
            if run_time <= 0 or width <= 0 or (processors and width > processors):
                continue
            estimate = int(float(fields[8]))
            number, submit = int(fields[0]), int(float(fields[1]))
            estimate = estimate if estimate > 0 else run_time
            lines.append(
                f"{number} {submit} -1 {run_time} {width} -1 -1 {width} {estimate} -1 1 1 1 1 1 1 -1 -1\n"
            )
            count += 1
            if count == jobs:
                break
        out.write(f"; MaxNodes: {processors}\n; MaxProcs: {processors}\n")
        out.writelines(lines)
    if not processors:
        sys.exit(f"{log}: the header has neither MaxProcs nor MaxNodes")
    return count, processors


class Starts(AdditionalData):
    """Notes when each job starts. AccaSim takes the class, not an object."""

    starts = {}

    def exec_after_completion(self, removed_jobs):
        for job in removed_jobs:
            Starts.starts[int(job.id)] = job.start_time - OFFSET

    def exec_before_dispatching(self, job_dict, queued_jobs):
        pass

    def exec_after_dispatching(self, job_dict, to_dispatch_jobs, rejected_jobs):
        pass

    def exec_before_submission(self, *args, **kwargs):
        pass

    def exec_after_submission(self, **kwargs):
        pass

    def exec_before_completion(self, **kwargs):
        pass

    def stop(self):
        pass


class TextbookEasy(EASYBackfilling):
    """EASY as Mu'alem and Feitelson (2001) have it, in AccaSim and on nodes of one processor.

    AccaSim's own makes the head's reservation once and does not start the head before that time,
    and lets every waiting job that fits pass the head: the allocator is told of no reserved nodes.
    """

    name = "textbook EASY"

    def scheduling_method(self, now, queue, jobs):
        allocator = self.nonauto_allocator
        if not self.allocator_rm_set:
            allocator.set_resource_manager(self.resource_manager)
            self.allocator_rm_set = True
        allocator.set_resources(self.resource_manager.current_availability)
        plan = []
        ends = [
            (max(now, jobs[job].start_time + jobs[job].expected_duration), len(nodes))
            for job, nodes in self.resource_manager.current_allocations.items()
        ]

        def start(job):
            placed = allocator.allocating_method(job, now)
            if placed[-1]:
                ends.append((now + job.expected_duration, job.requested_nodes))
            plan.append(placed)
            return bool(placed[-1])

        while queue and start(queue[0]):
            queue = queue[1:]
        if not queue:
            return plan, []
        head, queue = queue[0], queue[1:]
        free = len(allocator.sorted_keys)
        at, extra = None, free - head.requested_nodes
        for end, processors in sorted(ends):
            if at is not None and end > at:
                break
            extra += processors
            if extra >= 0:
                at = end
        for job in queue:
            wanted = job.requested_nodes
            in_time = now + job.expected_duration <= at
            if wanted <= free and (in_time or wanted <= extra) and start(job):
                free -= wanted
                extra -= 0 if in_time else wanted
            elif not plan or plan[-1][1] != job.id:
                plan.append((None, job.id, []))
        return plan, []


def accasim(scheduler, prepared, processors, directory):
    """Seconds of processor time of a run, reading the log included, and the start of each job."""
    system = os.path.join(directory, "system.json")
    with open(system, "w") as out:
        json.dump(
            {
                "groups": {"node": {"core": 1}},
                "resources": {"node": processors},
                "equivalence": {"processor": {"core": 1}},
                "start_time": OFFSET,
            },
            out,
        )
    Starts.starts = {}
    # It logs its settings.
    with contextlib.redirect_stderr(io.StringIO()):
        simulator = Simulator(
            prepared,
            system,
            scheduler,
            additional_data=[Starts],
            scheduling_output=False,
            statistics_output=False,
            show_statistics=False,
            RESULTS_FOLDER_PATH=directory,
        )
        begin = time.process_time()
        simulator.start_simulation()
        seconds = time.process_time() - begin
    return seconds, Starts.starts


def libra(program, prepared, directory):
    """By scheduler: seconds with and without reading the log, and the start of each job."""
    table = os.path.join(directory, "libra.csv")
    told = subprocess.run([program, prepared, table], check=True, capture_output=True, text=True)
    times = {}
    for line in told.stdout.splitlines():
        name, reading, simulating = line.split()
        times[name] = (float(reading) + float(simulating), float(simulating))
    starts = {name: {} for name in times}
    with open(table) as source:
        for row in csv.DictReader(source):
            for name in times:
                starts[name][int(row["job"])] = float(row[name])
    return times, starts


def main():
    log, jobs, program, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    prepared = os.path.join(directory, "prepared.swf")
    count, processors = prepare(log, jobs, prepared)
    submits = {}
    with open(prepared) as source:
        for line in source:
            if not line.startswith(";"):
                fields = line.split()
                submits[int(fields[0])] = int(fields[1])
    first = min(submits.values())
    print(f"{log}: {count} jobs that ran, {processors} nodes of one processor")
    times, ours = libra(program, prepared, directory)

    def mean(starts):
        return sum(starts[job] - submits[job] for job in starts) / len(starts)

    print(f"{'':24} {'jobs/s':>12} {'without reading':>16} {'mean wait':>12}")
    for name, (seconds, simulating) in times.items():
        for job in ours[name]:
            ours[name][job] += first
        print(
            f"{'libra ' + name:24} {count / seconds:>12.0f} {count / simulating:>16.0f} {mean(ours[name]):>10.0f} s",
            flush=True,
        )
    for title, scheduler, name in (
        ("accasim FIFO", FirstInFirstOut(FirstFit()), "fifo"),
        ("accasim EASY", EASYBackfilling(FirstFit()), "easy"),
        ("textbook EASY in accasim", TextbookEasy(FirstFit()), "easy"),
    ):
        seconds, theirs = accasim(scheduler, prepared, processors, directory)
        if len(theirs) != count:
            print(f"{title}: {count - len(theirs)} jobs never started")
        same = sum(theirs[job] == ours[name][job] for job in theirs)
        ratio = seconds / times[name][0]
        print(f"{title:24} {count / seconds:>12.0f} {'':>16} {mean(theirs):>10.0f} s", end="  ")
        print(f"same start as libra {name}: {same} of {count}; libra is {ratio:.0f} times as fast", flush=True)
        if same != count:
            job = min((j for j in theirs if theirs[j] != ours[name][j]), key=lambda j: min(theirs[j], ours[name][j]))
            print(
                f"  first difference: job {job}, submitted {submits[job]}, starts at "
                f"{theirs[job]} there and at {ours[name][job]:.0f} here"
            )


if __name__ == "__main__":
    main()
