"""Owns `zotd doctor`: everything that breaks for users is looked at, each with what to do about it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from zotd import __version__
from zotd.base.limits import Limits
from zotd.base.paths import absolute, user_home, zot_home
from zotd.cli.checks import Check, Level, Result, Site, run
from zotd.cli.console import complain, escaped, put, put_json, several, unbroken
from zotd.cli.flags import Parser, UsageError

_ABOUT = """\
Looks at everything that zotd needs: its installation, ZOT_HOME with all files in it, extensions, the daemon,
the service, keys and network settings. It changes nothing, and ends within seconds whatever hangs.
Exit code 1 when anything is an error.
"""
_COLOURS: dict[Level, str] = {"ok": "32", "warn": "33", "error": "31"}


def main(argv: list[str]) -> int:
    """Run the command in `argv` (after `doctor`). Returns 0, 1 for an error found, 2 for wrong usage."""
    parser = _parser()
    try:
        known = parser.parse_args(argv)
        if known.force and not known.bundle:
            raise UsageError("--force goes with --bundle")
        site = site_of(dict(os.environ))
        target = absolute(known.bundle, "--bundle") if known.bundle is not None else None
    except (UsageError, argparse.ArgumentError, OSError) as wrong:
        complain(f"doctor: {wrong}")
        return 2
    if known.help:
        put(parser.format_help())
        return 0
    results = run(all_checks(), site)
    if target is not None:
        from zotd.cli.bundle import CannotBundle, write

        try:
            path, names = write(target, site, report(results), force=known.force)
        except CannotBundle as wrong:
            complain(f"doctor: {wrong}")
            return 2
        return unbroken(lambda: _tell_bundle(path, names, results, known.json))
    return unbroken(lambda: _tell(results, known.json))


def site_of(environ: dict[str, str]) -> Site:
    """What a person's shell stands in. Raises OSError."""
    user = user_home(environ)
    return Site(zot_home(environ), user, Path.cwd(), environ, Limits())


def all_checks() -> tuple[Check, ...]:
    from zotd.cli.check_daemon import DAEMON_CHECKS
    from zotd.cli.check_extras import EXTRA_CHECKS
    from zotd.cli.check_files import FILE_CHECKS
    from zotd.cli.check_program import PROGRAM_CHECKS

    return (*PROGRAM_CHECKS, *FILE_CHECKS, *EXTRA_CHECKS, *DAEMON_CHECKS)


def report(results: list[Result]) -> dict[str, Any]:
    """`{version, level, checks: [{check, level, looked_at, findings}]}`."""
    return {
        "version": __version__,
        "level": worst(results),
        "checks": [result.told() for result in results],
    }


def worst(results: list[Result]) -> Level:
    levels = {result.level for result in results}
    return "error" if "error" in levels else "warn" if "warn" in levels else "ok"


def _parser() -> Parser:
    parser = Parser(
        prog="zotd doctor",
        description=_ABOUT,
    )
    add = parser.add_argument
    add("--json", action="store_true", help="print one JSON object")
    add("--bundle", metavar="FILE", help="write a .tar.gz for a bug report, without keys and conversations")
    add("--force", action="store_true", help="let it replace FILE")
    add("-h", "--help", action="store_true", help="show this and exit")
    return parser


def _tell(results: list[Result], as_json: bool) -> int:
    if as_json:
        put_json(report(results))
    else:
        coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        wide = max(len(result.name) for result in results)
        for result in results:
            for finding in sorted(result.findings, key=lambda one: list(_COLOURS).index(one.level)):
                level = f"{finding.level:<5}"
                if coloured:
                    level = f"\x1b[{_COLOURS[finding.level]}m{level}\x1b[0m"
                put(f"{level}  {result.name:<{wide}}  {escaped(finding.text, '')}\n")
                if finding.mend:
                    mend = escaped(finding.mend).replace("\n", "\n" + " " * (wide + 9))
                    put(f"{'':5}  {'':<{wide}}  -> {mend}\n")
        put(f"{_summary(results)}\n")
    return 1 if worst(results) == "error" else 0


def _summary(results: list[Result]) -> str:
    counted = {
        level: sum(finding.level == level for result in results for finding in result.findings)
        for level in ("error", "warn")
    }
    if not any(counted.values()):
        return "all is well"
    return f"{several(counted['error'], 'error')}, {several(counted['warn'], 'warning')}"


def _tell_bundle(path: Path, names: list[str], results: list[Result], as_json: bool) -> int:
    code = 1 if worst(results) == "error" else 0
    if as_json:
        put_json({"path": str(path), "files": names, "level": worst(results)})
        return code
    put(f"{escaped(str(path), '')} has:\n")
    for name in names:
        put(f"  {escaped(name, '')}\n")
    put(
        "Keys were taken out, and no prompt, answer or title is in it. Look at it before you send it: "
        f"tar -xzf {escaped(str(path), '')} -C some-empty-folder\n"
    )
    return code
