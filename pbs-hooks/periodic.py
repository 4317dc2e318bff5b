# Every half minute: what PBS has, for the library to compare with what it has. This runs in a process of
# its own, beside the server; the library reads the file at the next event.


def write(event):
    directory = settings()["state"]
    os.makedirs(directory, mode=0o700, exist_ok=True)
    taken = time.time()
    path = os.path.join(directory, "records.json")
    with open(path + ".new", "w") as file:
        json.dump(dict(records(), taken=taken), file)
    os.replace(path + ".new", path)


run(write)
