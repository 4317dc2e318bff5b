# Every half minute: what PBS has, for the library to compare with what it has. This runs in a process of
# its own, beside the server; the library reads the file at the next event.

import subprocess

# PBS has no event of a hold, nor of a deadline that passes, so owners are told from here.
HELD = "held: its share is given back, and is asked for anew when it is released"
LAPSED = "its deadline passed before it could start: nothing is promised to it any more, and nothing set aside; delete it and submit it anew"
MOST_TOLD = 50
SOON = 5


def write(event):
    directory = settings()["state"]
    os.makedirs(directory, mode=0o700, exist_ok=True)
    # The kernel counts in ticks, and a job may just then have been on its way into the server.
    taken = time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - split_off()) - 1
    path = os.path.join(directory, "records.json")
    found = records()
    with open(path + ".new", "w") as file:
        json.dump(dict(found, taken=taken), file)
    os.replace(path + ".new", path)
    tell_held(found["jobs"])
    tell_lapsed(found["jobs"])


def tell_held(jobs):
    """Held jobs say so themselves: in qstat -f, as libra_info. One that runs has its share, and PBS alters nothing of it: its hold is for later.
    One that starts in a moment is not held."""
    def is_held(job):
        return job["held"] or job["state"] == "H" or (job["state"] == "W" and (job["start"] or 0) > time.time() + SOON)

    tell_owners(HELD, "held jobs", [job["id"] for job in jobs if job["commitment"] and not is_deferred(job["commitment"]) and is_held(job)
                             and job["state"] not in "RSUE" and job["info"] != HELD])


def tell_lapsed(jobs):
    """Jobs whose promises were deferred for longer than their deadlines."""
    def has_lapsed(line):
        terms = dict(pair.partition("=")[::2] for pair in line.split(":"))
        return float(terms["submitted"]) + float(terms["deadline"]) < time.time()

    tell_owners(LAPSED, "jobs past their deadlines", [job["id"] for job in jobs if is_deferred(job["commitment"]) and job["state"] not in "RSUEB"
                                               and job["info"] != LAPSED and has_lapsed(job["commitment"])])


def tell_owners(text, whom, ids):
    if ids:
        qalter = os.path.join(pbs.get_pbs_conf()["PBS_EXEC"], "bin/qalter")
        done = subprocess.run([qalter, "-l", 'libra_info="%s"' % text, *ids[:MOST_TOLD]], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                              check=False)
        if done.returncode:
            log("%s are not told so: %s" % (whom, done.stderr))


run(write)
