# Every half minute: what PBS has, for the library to compare with what it has. This runs in a process of
# its own, beside the server; the library reads the file at the next event.

import subprocess

# PBS has no event of a hold, so its owner is told from here.
HELD = "held: its share is given back, and is asked for anew when it is released"
MOST_TOLD = 50


def born():
    """When this process was split off the server: what it sees is as of then, however late it comes to look."""
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    # The kernel counts in ticks, and a job may just then have been on its way into the server.
    return time.time() - age - 1


def write(event):
    directory = settings()["state"]
    os.makedirs(directory, mode=0o700, exist_ok=True)
    taken = born()
    path = os.path.join(directory, "records.json")
    found = records()
    with open(path + ".new", "w") as file:
        json.dump(dict(found, taken=taken), file)
    os.replace(path + ".new", path)
    tell_held(found["jobs"])


def tell_held(jobs):
    """Held jobs say so themselves: in qstat -f, as libra_info. One that runs has its share, and PBS alters nothing of it: its hold is for later."""
    untold = [job["id"] for job in jobs if (job["held"] or job["state"] in "HW") and job["state"] not in "RSUE" and job["info"] != HELD][:MOST_TOLD]
    if untold:
        qalter = os.path.join(pbs.get_pbs_conf()["PBS_EXEC"], "bin/qalter")
        done = subprocess.run([qalter, "-l", 'libra_info="%s"' % HELD, *untold], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                              check=False)
        if done.returncode:
            log("held jobs are not told so: %s" % done.stderr)


run(write)
