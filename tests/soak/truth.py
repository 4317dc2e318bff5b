"""What the soak itself knows: every submission with what was said to it, everything that was done, and what was broken.

This is what Libra, its accounts and the batch system are audited against; nothing in here is read from them afterwards, but for the
line of the commitment, which is read once, right after the submission.
"""

import collections
import dataclasses
import math
import re
import threading
import time

SAID = re.compile(r"for ([\d.]+) of [\d.]+ credits")
REASON = re.compile(r"refused \(([\w-]+)\)")


def commitment(line):
    """{key: value} of a line of the commitment; {} of anything else."""
    pairs = dict(pair.split("=", 1) for pair in (line or "").split(":") if "=" in pair)
    return pairs if "token" in pairs and "submitted" in pairs else {}


def micro(credits):
    """Money as accounts count it (crates/units/src/money.rs): whole micro-credits, a price rounded up, but for what is less than a thousandth of one."""
    return math.ceil(float(credits) * 1e6 - 1e-3)


@dataclasses.dataclass
class Submission:
    """One submission."""

    name: str  # the job's name in the batch system: each has its own
    user: str
    kind: str  # of what is submitted: see Work
    tasks: int = 1
    at: float = 0.0  # when it was asked
    verdict: str = ""  # accepted, refused, failed: the client says nothing of Libra's
    reason: str = ""
    job: str = ""  # the batch system's id
    answered: float = 0.0
    said: str = ""  # the price as its user was told it
    commitments: dict = dataclasses.field(default_factory=dict)  # {key of the hold: what is committed}: more than one after a hold
    over: str = ""  # how it was found to have ended
    done: list = dataclasses.field(default_factory=list)  # what was done to it


class Truth:
    """Of one batch system, `system`: slurm or pbs."""

    def __init__(self, system, log):
        self.system, self.log_file, self.began = system, log, time.time()
        self.submissions, self.deposits = {}, collections.Counter()
        self.counts, self.times = collections.Counter(), collections.defaultdict(list)
        self.lock = threading.Lock()

    def note(self, what, *about):
        """Something was done: a line in the log of events."""
        with self.lock:
            print(f"{time.time():.3f} {time.time() - self.began:8.1f}", what, *about, file=self.log_file, flush=True)

    def count(self, what, *about):
        """Something was done that is counted."""
        with self.lock:
            self.counts[what] += 1
            self.times[what].append(time.time())
        self.note(what, *about)

    def key(self, line):
        """Of the hold of what is committed, as crates/accounts/src/payments.rs makes it."""
        return f"{self.system}:{math.floor(float(line['submitted']) * 1e6 + 0.5)}-{line['token']}"

    def begins(self, kind, user, tasks):
        """A new submission, before it is asked."""
        with self.lock:
            one = Submission(f"s{len(self.submissions) + 1}", user, kind, tasks, at=time.time())
            self.submissions[one.name] = one
        return one

    def commit(self, submission, line):
        """This was committed to it."""
        found = commitment(line)
        if found:
            submission.commitments[self.key(found)] = found
        return bool(found)

    def accepted(self, submission, job, text, line):
        """`text`: what its user was told."""
        submission.job, submission.answered = job, time.time()
        submission.said = (SAID.findall(text or "") or [""])[-1]
        submission.verdict = "accepted" if submission.kind != "plain" else "plain"
        self.commit(submission, line)
        self.count(submission.verdict, submission.name, job, submission.kind, submission.user, (line or "")[:300])

    def refused(self, submission, text):
        """A client has failed, with this text."""
        submission.answered = time.time()
        found = REASON.search(text)
        # Without a reason in brackets it is a mistake in what was asked.
        mistake = "libra: " in text and "cannot answer" not in text and "unavailable" not in text
        submission.verdict, submission.reason = ("refused", found[1]) if found else ("refused", "mistake") if mistake else ("failed", " ".join(text.split())[:120])
        self.count(submission.verdict, submission.name, submission.kind, submission.reason)

    def since(self, what, moment):
        """The first time after `moment` at which this was done; None if it was not."""
        return next((at for at in self.times.get(what, ()) if at >= moment), None)

    def near(self, what, moment, before, after):
        """Was this done so many seconds around `moment`?"""
        return any(-before <= at - moment <= after for at in self.times.get(what, ()))
