"""What batch systems load of Libra, built so that it panics when a test asks for it (the feature test-faults)."""

import pathlib
import re
import subprocess

import limits

TOP = pathlib.Path(__file__).resolve().parents[2]
# One place for all, as they are made of the same crates.
TARGET = TOP / "target/faults"


def built(package, file):
    """The library of a package; `file`: what cargo calls it. Nothing of it is optimised, and it has no accounts: nobody pays for what panics."""
    optimised = re.findall(r"^\[(profile\.dev\.package\.[\w-]+)\]$", (TOP / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    with limits.paused():
        subprocess.run([TOP / "scripts/cargo", "build", "--locked", "--package", package, "--lib", "--no-default-features", "--features", "test-faults",
                        "--target-dir", TARGET, *(f"--config={profile}.opt-level=0" for profile in optimised)],
                       check=True, capture_output=True, timeout=3600)
    return TARGET / "debug" / file
