"""Owns the first millisecond: `--version` answers before anything else is imported."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enums, which take longer
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

COMMANDS = ("daemon", "doctor", "model", "service", "sessions", "trust", "uninstall")
"""Words that begin a command line of their own. Each is a module here, whose `main` gets the rest."""
_YOUNG_OBJECTS = 3_000
"""New objects between two looks for garbage: with the usual 700, start-up looks a hundred times in vain."""


def main() -> int:
    """Entry point of the `zotd` program. Returns its exit code."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        from zotd.cli.streams import occupy

        occupy()
    argv = sys.argv[1:]
    if argv == ["--version"]:
        from zotd import __version__

        sys.stdout.write(f"zotd {__version__}\n")
        return 0
    gc.set_threshold(_YOUNG_OBJECTS)
    try:
        return _run(argv)
    except KeyboardInterrupt:  # what Python would say of it is no news
        _leave()
    finally:
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # what is left takes no longer than dying of it
        gc.freeze()  # everything goes with the process: nothing has to be looked through once more


def _leave(*_: object) -> NoReturn:
    """Interrupted, before a run began that would tell of it."""
    os._exit(130)


def _run(argv: list[str]) -> int:
    """Do what a command line says. Returns the exit code."""
    if argv[:2] == ["daemon", "run"]:
        from zotd.cli.run_daemon import run as run_daemon

        return run_daemon(argv[2:])
    if argv and argv[0] in COMMANDS:
        from importlib import import_module

        done: int = import_module(f"zotd.cli.{argv[0]}").main(argv[1:])
        return done
    if "--connect" in argv:
        from zotd.cli.connect import quick

        if (code := quick(argv)) is not None:
            return code
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        # Nothing is to be cleaned up until a run has a handler of its own.
        _signal.signal(_signal.SIGINT, _leave)
    from zotd.cli.flags import Flags, UsageError, parse

    try:
        flags: Flags = parse(argv)
    except UsageError as wrong:
        sys.stderr.write(f"zotd: {wrong}\n")
        return 2
    if flags.help_text:
        sys.stdout.write(flags.help_text)
        return 0
    if flags.connect and flags.mode == "rpc":
        from zotd.cli.connect import forward

        return forward(flags)
    from zotd.cli.app import run

    return run(flags)
