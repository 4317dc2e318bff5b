"""Puts a page into frames of several widths, with the script that looks at it."""

import html
import pathlib
import sys

page = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
script = pathlib.Path(__file__).with_name("check.js").read_text(encoding="utf-8")
frames = "".join(
    f'<iframe width="{width}" height="900" style="border:0;color-scheme:light dark" '
    f'srcdoc="{html.escape(page)}"></iframe>\n'
    for width in (360, 720, 1280)
)
print(
    "<!DOCTYPE html><meta charset=utf-8><meta name=color-scheme content='light dark'>"
    f"<body>{frames}<pre id=result></pre>\n<script>{script}</script>"
)
