"""Programs of a batch system, run as root or as ordinary users, and waiting for what they bring about."""

import collections
import os
import pwd
import subprocess
import time

# Seconds between two questions to a batch system: at first, and after some seconds.
SOON, LATE = 0.1, 1.0

Result = collections.namedtuple("Result", "rc out err")


class CommandFailed(RuntimeError):
    """A command that was expected to work has not; the message says which, and what it printed."""


def environment_without(*prefixes):
    """This process's environment without the variables that begin so: those of a batch system."""
    return {key: value for key, value in os.environ.items() if not key.startswith(prefixes)}


def where_the_day_is_young():
    """TZ of a place in which it is after three in the morning: who asks there for the movements of this month does not do so in the first minutes of one, for
    what was done in the last ones of another."""
    return f"<YOUNG>{time.gmtime().tm_hour - 3}"


def there(directory, pattern):
    """What there is below a directory, also where it is removed in this moment, as control groups are."""
    try:
        return list(directory.glob(pattern))
    except FileNotFoundError:
        return []


class Programs:
    """What the commands of every cluster are made of. Expects `environment()`: what a program needs to speak to this cluster."""

    def run(self, *argv, user=None, stdin="", environment=None, timeout=180.0):
        """Run a program as root or as `user`, in the user's home. The batch system's own directories come first in PATH."""
        environment = {**self.environment(), **(environment or {})}
        environment.setdefault("LANG", "C.UTF-8")
        options = {"cwd": "/"}
        if user:
            entry = pwd.getpwnam(user)
            environment |= {"HOME": entry.pw_dir, "USER": user, "LOGNAME": user}
            options = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "cwd": entry.pw_dir}
        done = subprocess.run([str(a) for a in argv], env=environment, input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout, check=False, **options)
        return Result(done.returncode, done.stdout, done.stderr)

    def must(self, *argv, **options):
        """`run`, but a failure is an exception. The answer is what was printed."""
        result = self.run(*argv, **options)
        if result.rc != 0:
            raise CommandFailed(f"{' '.join(map(str, argv))}: exit {result.rc}: {(result.err or result.out).strip()} {options.get('stdin', '')}")
        return result.out

    def wait(self, what, question, patience=180.0):
        """Ask until the answer is true; the answer. `what` is for the message if it never is. Patience costs nothing where the answer comes: what has
        not come soon is asked for less often, as each question is a program of the batch system or more."""
        began = time.monotonic()
        while True:
            answer = question()
            if answer:
                return answer
            waited = time.monotonic() - began
            if waited > patience:
                raise TimeoutError(f"after {patience:.0f} s still not: {what}")
            time.sleep(min(max(SOON, waited / 4), LATE))

    def wait_none(self, what, left, patience=180.0):
        """Ask what is left until it is nothing; patient anew each time that it is less than ever, or that as many are in another state, as on a busy
        machine many jobs take minutes to end."""
        found = left()
        least = len(found)

        def comes_closer():
            nonlocal found, least
            before, found = found, left()
            closer = len(found) < least or (len(found) == least and found != before)
            least = min(least, len(found))
            return closer

        while found:
            try:
                self.wait(what, comes_closer, patience)
            except TimeoutError as late:
                raise TimeoutError(f"{late}; there is {found}") from None

    @staticmethod
    def in_time(what, attempt, times=(10, 60, 150)):
        """For a time that must not have passed before something is looked at, and is waited for afterwards: `attempt` with so many seconds, and with more
        of them where it had passed by then, which a false answer says. The answer."""
        for seconds in times:
            if answer := attempt(seconds):
                return answer
        raise TimeoutError(f"{what}: over before it can be looked at, in {times[-1]} s too")
