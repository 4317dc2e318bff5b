"""The server's directory (PBS_HOME) of a throw-away cluster as pbs_habitat makes it, kept for the next clusters: to make it is half of what it costs to bring
one up, and its copy a twentieth.

Where it was made stands in two places of PBS's database, as the server's name and as the directory; in a copy they are replaced there. Whatever does not go as
it is written here makes no copy, and the cluster's directory is made by pbs_habitat.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

KEPT = pathlib.Path(__file__).resolve().parents[2] / "target/openpbs-home.tar"
# What is inside the archive, beside the directory.
NOTE = "made-of.json"
# What it says of its own beginning is not the next cluster's.
LOGS = ("server_logs", "sched_logs", "comm_logs", "mom_logs", "server_priv/accounting", "datastore/log")


def made_of(pbs_exec):
    """What a kept one must have been made of: this OpenPBS and this PostgreSQL."""
    programs = [pbs_exec / "sbin/pbs_server.bin", pbs_exec / "libexec/pbs_habitat", *sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))]
    return [[str(program), program.stat().st_mtime_ns, program.stat().st_size] for program in programs]


def keep(home, names, pbs_exec):
    """Keep this one, whose daemons have ended, for `copied`. `names`: the server's name and the cluster's directory. Under a lock of the caller's. Where it cannot
    be kept, as on a full disk, the next cluster is made like this one."""
    if (home / "datastore/postmaster.pid").exists():
        return
    note, new = home.parent / NOTE, KEPT.with_suffix(".new")
    try:
        note.write_text(json.dumps({"made of": made_of(pbs_exec), "names": names}))
        KEPT.parent.mkdir(exist_ok=True)
        subprocess.run(["tar", "--create", "--sparse", "--numeric-owner", f"--file={new}", f"--directory={home.parent}",
                        *(f"--exclude={home.name}/{logs}/*" for logs in LOGS), NOTE, home.name], check=True)
        new.rename(KEPT)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"pbs_habitat's work is not kept: {error}")
        new.unlink(missing_ok=True)
    note.unlink(missing_ok=True)


def copied(home, names, pbs_exec):
    """Make `home` a copy of the kept one, if there is one of this OpenPBS; whether it is."""
    try:
        with tarfile.open(KEPT) as archive:
            note = json.load(archive.extractfile(archive.next()))
    except (OSError, tarfile.TarError, ValueError, AttributeError):
        return False
    if note["made of"] != made_of(pbs_exec):
        return False
    # It is of a directory of that name.
    unpacked = home.parent / "unpacked"
    unpacked.mkdir()
    try:
        subprocess.run(["tar", "--extract", "--preserve-permissions", "--numeric-owner", f"--file={KEPT}", f"--directory={unpacked}", f"--exclude={NOTE}"], check=True)
        (unpacked / "server").rename(home)
        if renamed(home / "datastore", dict(zip(note["names"], names))):
            return True
    except (OSError, subprocess.CalledProcessError):
        pass
    finally:
        shutil.rmtree(unpacked)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(home)
    return False


def renamed(store, names):
    """Replace these names in the database, by a PostgreSQL that nobody else can speak to; whether all went well."""
    version = (store / "PG_VERSION").read_text().strip()
    owner = store.stat()
    value = "attributes::text"
    for old, new in names.items():
        value = f"replace({value}, '{old}', '{new}')"
    statements = "".join(f"update pbs.{table} set attributes = ({value})::public.hstore\n" for table in ("server", "scheduler"))
    done = subprocess.run([f"/usr/lib/postgresql/{version}/bin/postgres", "--single", "-D", store, "pbs_datastore"], input=statements, text=True, capture_output=True,
                          user=owner.st_uid, group=owner.st_gid, extra_groups=[], cwd="/", env={**os.environ, "LC_ALL": "C"}, timeout=120, check=False)
    return done.returncode == 0 and "ERROR" not in done.stderr and "FATAL" not in done.stderr
