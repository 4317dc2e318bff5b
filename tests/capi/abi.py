#!/usr/bin/env python3
"""The C interface as programs see it, against the baseline tests/capi/abi.txt: what is exported, how structures are laid out,
what constants are.

tests/capi/abi.py LIBRARY [PLUGINS]            prints 'ok …' or 'FAILED …', a line each, and exits 1 where something changed
tests/capi/abi.py --renew LIBRARY [PLUGINS]    writes the list anew

LIBRARY is liblibra.so, PLUGINS the directory that scripts/slurm-plugins makes. Without it the plugins' part is taken from the baseline. Layouts
are asked of the C compiler; they are those of 64-bit Linux.
"""

import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BASELINE = ROOT / "tests/capi/abi.txt"
HEAD = "# What programs that use Libra's C interface rely on; made by tests/capi/abi.py --renew, compared in the step 'capi'."
MEANT = """If that is meant: what was there and is gone or different breaks programs that were built before, and needs a new soname (SONAME in
build.rs, soname in scripts/stage and tests/capi/run) and a new minor version; what was added needs neither. Both need a line in
CHANGELOG.md. Then renew the list: tests/capi/abi.py --renew LIBRARY PLUGINS (scripts/lib and scripts/slurm-plugins print them)."""


class Problem(Exception):
    """What keeps this from being looked at."""


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Problem(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def declarations():
    """The header as functions, structures with their fields, names of constants, and texts of initialisers."""
    text = re.sub(r"/\*.*?\*/", " ", (ROOT / "include/libra.h").read_text(), flags=re.S).replace("\\\n", " ")
    macros = dict(re.findall(r"^#define (LIBRA_(?!H\b)\w+)[ \t]+(.+)$", text, flags=re.M))
    text = re.sub(r'^\s*#.*$|extern "C" \{', "", text, flags=re.M)
    constants, structures, functions = [], {}, []
    for body in re.findall(r"\benum\s*\{(.*?)\}", text, flags=re.S):
        constants += re.findall(r"\b(LIBRA_\w+)\s*=", body)
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, flags=re.S):
        structures[name] = [" ".join(field.split()) for field in body.split(";") if field.strip()]
    text = re.sub(r"typedef struct \w+ \{.*?\} \w+;|\benum\s*\{.*?\};", "", text, flags=re.S)
    for statement in text.split(";"):
        statement = " ".join(statement.split())
        if "(" in statement:
            functions.append(statement)
    initialisers = {name: " ".join(value.split()) for name, value in macros.items() if name.endswith("_INIT")}
    constants += [name for name in macros if name not in initialisers]
    if not (constants and structures and functions and initialisers):
        raise Problem("include/libra.h is not written as this program expects it; it has to learn the new way")
    return functions, structures, constants, initialisers


def measured(structures, constants):
    """Lines on structures and constants, from the compiler."""
    lines = []
    for name, fields in structures.items():
        lines.append(f'printf("struct {name}: %zu bytes, aligned to %zu\\n", sizeof({name}), _Alignof({name}));')
        for field in fields:
            member = re.search(r"(\w+)(\[\w+\])?$", field)[1]
            lines.append(f'printf("struct {name}: {field}: at %zu, %zu bytes\\n", offsetof({name}, {member}), sizeof((({name} *)0)->{member}));')
    for name in constants:
        if name == "LIBRA_UNLIMITED":
            lines.append(f'printf("constant {name} = %g\\n", {name});')
        else:
            lines.append(f'printf("constant {name} = %s%llu\\n", {name} < 0 ? "-" : "", (unsigned long long)({name} < 0 ? -({name}) : {name}));')
    source = '#include "libra.h"\n#include <stdio.h>\nint main(void) {\n' + "\n".join(lines) + "\nreturn 0;\n}\n"
    with tempfile.TemporaryDirectory() as directory:
        program = f"{directory}/layout"
        pathlib.Path(program + ".c").write_text(source)
        output("cc", "-std=c11", "-w", "-I", ROOT / "include", "-o", program, program + ".c")
        return output(program).splitlines()


def exported(path, called):
    if not pathlib.Path(path).is_file():
        raise Problem(f"there is no {path}")
    names = {line.split()[2].split("@")[0] for line in output("nm", "-D", "--defined-only", path).splitlines()}
    return [f"{called} exports {name}" for name in sorted(names)]


def main(arguments):
    renew = arguments[:1] == ["--renew"]
    arguments = arguments[renew:]
    if len(arguments) not in (1, 2):
        raise Problem("usage: tests/capi/abi.py [--renew] LIBRARY [PLUGINS]")
    baseline = [line for line in BASELINE.read_text().splitlines() if not line.startswith("#")] if BASELINE.exists() else []
    functions, structures, constants, initialisers = declarations()
    now = [f"function {function}" for function in sorted(functions)]
    now += measured(structures, constants)
    now += [f"initialiser {name} = {value}" for name, value in sorted(initialisers.items())]
    now += exported(arguments[0], "liblibra.so")
    plugins = ("job_submit_libra.so", "libra_spank.so")
    if len(arguments) == 2:
        for name in plugins:
            now += exported(f"{arguments[1]}/{name}", name)
    else:
        now += [line for line in baseline if line.startswith(plugins)]
    if renew:
        BASELINE.write_text("\n".join([HEAD, *now]) + "\n")
        print(f"{BASELINE.relative_to(ROOT)} has {len(now)} lines now")
        return 0
    if now == baseline:
        print(f"ok the C interface is the baseline ({len(now)} lines of tests/capi/abi.txt)")
        return 0
    changes = [line for line in difflib.unified_diff(baseline, now, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")]
    print("\n".join(changes or ["the order of include/libra.h changed, nothing else"]))
    print(MEANT)
    print("FAILED the C interface is not the baseline (-: tests/capi/abi.txt, +: now)")
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Problem as problem:
        print(f"FAILED {problem}")
        sys.exit(1)
