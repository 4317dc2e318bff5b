"""Scripts of jobs that go on until a file is there: jobs that are looked at while they run, however long that takes.

A job of Libra has its processors before everything else on its host, and here all hosts are one machine with all the other tests on it. So a job takes all that
it is given only where that is what is looked at.
"""


def busy_until(file):
    """It takes all that it is given."""
    return f"python3 -c 'import os\nwhile not os.path.exists(\"{file}\"): pass'\n"


def works_until(file):
    """It gets on, and leaves most of its processor to others."""
    return (f"python3 -c 'import os, time\nwhile not os.path.exists(\"{file}\"):\n    end = time.process_time() + 0.01\n"
            "    while time.process_time() < end: pass\n    time.sleep(0.04)'\n")


def idle_until(file):
    """It does not work."""
    return f"while ! test -e {file}; do sleep 0.2; done\n"
