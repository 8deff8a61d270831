"""Owns `zotd trust`: saying whose extensions may run in the sessions of editors."""

from __future__ import annotations

import argparse
from pathlib import Path

from zotd.base.files import BadFile
from zotd.base.paths import absolute, zot_home
from zotd.cli.console import complain, escaped, put, put_json, put_table, unbroken
from zotd.cli.flags import Parser, UsageError
from zotd.project.trust import decisions, trust

_ABOUT = """\
Extensions in DIR/.zot/extensions run for JSON-RPC clients, such as editors, only once DIR or a folder
above it is trusted. Print mode, JSON mode and zot clients start them anyway, as zot does.
"""


def main(argv: list[str]) -> int:
    """Run the command in `argv` (after `trust`). Returns 0, 1 when nothing was changed, 2 for wrong usage."""
    parser = _parser()
    try:
        known = parser.parse_args(argv)
        if known.list and known.remove:
            raise UsageError("--list changes nothing: give it without --remove")
        if known.list and known.dir is not None:
            raise UsageError("--list takes no folder")
        home = zot_home()
        folder = absolute("." if known.dir is None else known.dir, "folder")
        if not (known.list or known.remove or folder.is_dir()):
            raise NotADirectoryError(f"{folder} is not a directory")
    except (UsageError, argparse.ArgumentError, OSError) as wrong:
        complain(f"trust: {wrong}")
        return 2
    if known.help:
        put(parser.format_help())
        return 0
    try:
        return unbroken(lambda: _list(home, known.json) if known.list else _say(home, folder, known))
    except BadFile as bad:
        complain(f"{bad}; mend the file or remove it: until then no folder is trusted")
    except OSError as error:
        complain(f"nothing was changed: {error}")
    return 1


def _parser() -> Parser:
    parser = Parser(
        prog="zotd trust",
        description=_ABOUT,
    )
    add = parser.add_argument
    add("dir", nargs="?", metavar="DIR", help="folder to trust, with all below it; this one by default")
    add("--remove", action="store_true", help="trust it no longer, nor what is below it")
    add("--list", action="store_true", help="list what was said of folders; the nearest one counts")
    add("--json", action="store_true", help="print the same as JSON")
    add("-h", "--help", action="store_true", help="show this and exit")
    return parser


def _say(home: Path, folder: Path, known: argparse.Namespace) -> int:
    trusted = not known.remove
    real = trust(home, folder, trusted)
    if known.json:
        put_json({"folder": str(real), "trusted": trusted})
    else:
        put(f"{'trusted' if trusted else 'not trusted'}: {escaped(str(real), '')}\n")
    return 0


def _list(home: Path, as_json: bool) -> int:
    said = sorted(decisions(home).items())
    if as_json:
        put_json({"folders": [{"folder": str(folder), "trusted": trusted} for folder, trusted in said]})
    elif said:
        rows = [("yes" if trusted else "no", str(folder)) for folder, trusted in said]
        put_table(("trusted", "folder"), rows)
    else:
        put("no folder is trusted; zotd trust DIR trusts one\n")
    return 0
