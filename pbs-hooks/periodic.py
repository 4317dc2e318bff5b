# Every half minute: what PBS has, for the library to compare with what it has. This runs in a process of
# its own, beside the server; the library reads the file at the next event.


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
    with open(path + ".new", "w") as file:
        json.dump(dict(records(), taken=taken), file)
    os.replace(path + ".new", path)


run(write)
