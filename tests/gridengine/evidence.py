"""What is needed to understand a test that failed: the queue, and what the daemons and Libra have written. Asked while the cell is still there."""

MOST_LINES = 15


def evidence(cell, _text):
    """What the cell can say; never an exception, since whatever failed may be the cell itself."""
    try:
        return "\n".join(said(cell))
    except Exception as fault:  # pylint: disable=broad-except
        return f"(nothing from the cell: {type(fault).__name__}: {fault})"


def said(cell):
    if cell.directory is None or not cell.directory.exists():
        return []
    lines = []
    for what, text in (("verifiers", cell.log()), ("shepherds", cell.shepherds_log())):
        lines += [f"---- log of the {what}", *text.splitlines()[-MOST_LINES:]]
    for file in [cell.root / "spool/qmaster/messages", *cell.root.glob("spool/execd/*/messages")]:
        if file.exists():
            lines += [f"---- {file.relative_to(cell.root)}", *file.read_text().splitlines()[-MOST_LINES:]]
    for user in cell.users:
        for file in sorted(cell.home(user).glob("*.*.out"))[-3:]:
            lines += [f"---- {file.name} of {user}", *file.read_text(errors="replace").splitlines()[-MOST_LINES:]]
    lines += ["---- qstat", *cell.run("qstat", "-u", "*", timeout=180).out.splitlines()]
    return lines
