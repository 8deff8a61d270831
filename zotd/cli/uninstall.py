"""Owns `zotd uninstall`: ending what runs, and taking away what zotd has made beside the user's data."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from zotd.base.limits import Limits
from zotd.base.paths import run_directory, user_home, zot_home
from zotd.cli.console import complain, escaped, put, size, unbroken
from zotd.cli.flags import Parser, UsageError
from zotd.cli.leftovers import Leftover, made_by_zotd, remove, run_files, size_of_all

_ABOUT = """\
Stops the daemon, removes its service and its run directory, and says how to remove the program itself.
ZOT_HOME stays as it is. --purge also removes what zotd alone has made there: its log, its rules and trusted
folders, the models it has fetched, and what it kept to undo changes. Sessions, extensions, skills, themes,
keys and configuration stay, since they are yours, and zot works with them too.
"""
_WORD = "purge"


def main(argv: list[str]) -> int:
    """Run the command in `argv` (after `uninstall`). Returns 0, 1 if something stayed, 2 for usage."""
    parser = _parser()
    try:
        known = parser.parse_args(argv)
        home = zot_home(os.environ).absolute()
        if not known.help:
            _check_home(home)
            if not known.yes and not _is_terminal():
                raise UsageError("nobody can be asked here: --yes goes ahead without; nothing was removed")
    except (UsageError, argparse.ArgumentError, OSError) as wrong:
        complain(f"uninstall: {wrong}")
        return 2
    if known.help:
        put(parser.format_help())
        return 0
    return unbroken(lambda: _uninstall(home, purge=known.purge, sure=known.yes))


def _parser() -> Parser:
    parser = Parser(
        prog="zotd uninstall",
        description=_ABOUT,
    )
    add = parser.add_argument
    add("--purge", action="store_true", help="also what zotd alone has made in ZOT_HOME; it is listed first")
    add("--yes", action="store_true", help="do not ask")
    add("-h", "--help", action="store_true", help="show this and exit")
    return parser


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _check_home(home: Path) -> None:
    """Raises UsageError for a ZOT_HOME in which nothing may be removed."""
    real, user = Path(os.path.realpath(home)), Path(os.path.realpath(user_home(os.environ)))
    if real == user or real in user.parents:
        raise UsageError(f"ZOT_HOME is {home}, which holds your whole home: set it to the directory of zot")


def _uninstall(home: Path, *, purge: bool, sure: bool) -> int:
    place = run_directory(os.environ, home)
    left = made_by_zotd(home) if purge else []
    put("This stops the daemon, and removes:\n")
    put(f"  its service, if there is one\n  {escaped(str(place), '')}, if it is there\n")
    for one in left:
        what = "which is empty then" if one.emptied else size(one.size)
        put(f"  {escaped(str(one.path), '')}, {what}\n")
    if purge:
        put(f"In all {size(size_of_all(left))} of {escaped(str(home), '')}; whatever is not listed stays.\n")
    if not sure and not _agreed(purge):
        put("Nothing was removed.\n")
        return 1
    service, daemon = _end_service(), _end_daemon(home)
    if not daemon:  # what it has open is not to be taken away
        return 1
    stayed = [*_removed(run_files(place)), *_removed(left)]
    for text in stayed:
        complain(f"uninstall: {text}")
    put(f"To remove the program: {_by_hand()}\n")
    if not purge:
        put(f"Your data is in {escaped(str(home), '')} and stays.\n")
    return 0 if service and not stayed else 1


def _agreed(purge: bool) -> bool:
    wanted = _WORD if purge else "yes"
    put(f"Type {wanted} to go on: ")
    sys.stdout.flush()
    return sys.stdin.readline().strip() == wanted


def _end_service() -> bool:
    """First of all: its socket would start the daemon again. Whether nothing of it is left."""
    from zotd.cli.service import main as service

    return sys.platform not in ("linux", "darwin") or service(["uninstall"]) == 0


def _end_daemon(home: Path) -> bool:
    """Whether none runs any more."""
    from zotd.cli.daemon_call import Line, NotDone, Silent
    from zotd.cli.draining import end
    from zotd.cli.rendezvous import Gone, NoDaemon
    from zotd.cli.stopping import stop

    limits = Limits()
    try:
        pid = stop(lambda: Line(os.environ, str(home), limits), limits, drain=False)
        drained = end(run_directory(os.environ, home), limits)
    except Gone:
        return True
    except (NoDaemon, NotDone, Silent, OSError) as wrong:
        complain(f"uninstall: the daemon was not stopped, and no file was removed: {wrong}")
        return False
    for one in [pid, *drained] if pid else drained:
        put(f"stopped: process {one}\n")
    return True


def _removed(leftovers: list[Leftover]) -> Iterator[str]:
    """Take them away; says what stayed."""
    for one in leftovers:
        try:
            remove(one)
            put(f"removed {escaped(str(one.path), '')}\n")
        except FileNotFoundError:
            continue
        except OSError as error:
            if one.emptied and error.errno == errno.ENOTEMPTY:  # somebody has come to need it
                continue
            yield f"{one.path} stays: {error.strerror or error}"


def _by_hand() -> str:
    """The command that removes the program, as it was installed."""
    prefix = Path(sys.prefix)
    if "pipx" in prefix.parts:
        return "pipx uninstall zotd"
    if prefix.parent.name == "tools" and "uv" in prefix.parts:
        return "uv tool uninstall zotd"
    from shlex import quote

    return f"{quote(sys.executable)} -m pip uninstall zotd"
