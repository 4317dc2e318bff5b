"""The server's directory (PBS_HOME) of a throw-away cluster as pbs_habitat makes it, kept for the next clusters: to make it takes half of the time until one
is up, its copy half a second.

Where it was made stands in PBS's database, as the server's name and as the directory; in a copy both are replaced. Where that does not go, as with a PostgreSQL
elsewhere than in Debian or a PBS with other tables, this is said, and pbs_habitat makes each cluster's directory.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
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
        print(f"pbs_habitat's work is not kept: {error}", file=sys.stderr)
        new.unlink(missing_ok=True)
    note.unlink(missing_ok=True)


def copied(home, names, pbs_exec):
    """Make `home` a copy of the kept one, if there is one of this OpenPBS; whether it is."""
    try:
        with tarfile.open(KEPT) as archive:
            note = json.load(archive.extractfile(archive.next()))
    except FileNotFoundError:
        return False
    except (OSError, tarfile.TarError, ValueError, AttributeError) as error:
        print(f"{KEPT} is made anew: {error}", file=sys.stderr)
        return False
    if note["made of"] != made_of(pbs_exec):
        return False
    # It is of a directory of that name.
    unpacked = home.parent / "unpacked"
    unpacked.mkdir()
    try:
        subprocess.run(["tar", "--extract", "--preserve-permissions", "--numeric-owner", f"--file={KEPT}", f"--directory={unpacked}", f"--exclude={NOTE}"], check=True)
        (unpacked / "server").rename(home)
        rename(home / "datastore", note["names"], names)
        return True
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        print(f"{KEPT} cannot be copied: {error}", file=sys.stderr)
        shutil.rmtree(home, ignore_errors=True)
        return False
    finally:
        shutil.rmtree(unpacked)


def rename(store, before, after):
    """Replace the names in the database, by a PostgreSQL that nobody else can speak to. A value there is a number, a dot and its text: a server's name is all of
    that, a directory its beginning, so that neither is found within the other."""
    version = (store / "PG_VERSION").read_text().strip()
    owner = store.stat()
    value = "attributes::text"
    for old, new, end in zip(before, after, ('"', "/")):
        value = f"replace({value}, '.{old}{end}', '.{new}{end}')"
    statements = "".join(f"update pbs.{table} set attributes = ({value})::public.hstore\n" for table in ("server", "scheduler"))
    done = subprocess.run([f"/usr/lib/postgresql/{version}/bin/postgres", "--single", "-D", store, "pbs_datastore"], input=statements, text=True, capture_output=True,
                          user=owner.st_uid, group=owner.st_gid, extra_groups=[], cwd="/", env={**os.environ, "LC_ALL": "C"}, timeout=120, check=False)
    # It ends well whatever became of a statement.
    wrong = [line for line in done.stderr.splitlines() if "ERROR" in line or "FATAL" in line]
    if done.returncode != 0 or wrong:
        raise RuntimeError(f"postgres --single: exit {done.returncode}: {' '.join(wrong) or done.stderr[-500:]}")
