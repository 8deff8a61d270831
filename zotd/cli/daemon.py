"""Owns `zotd daemon`: starting, stopping and looking at the daemon that all front ends of a user share."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zotd.base.limits import Limits
from zotd.base.paths import daemon_log, zot_home
from zotd.base.places import daemon_socket, run_directory
from zotd.cli.console import complain, put, put_json, unbroken
from zotd.cli.daemon_call import Line, NotDone, Silent
from zotd.cli.flags import Parser, UsageError, seconds
from zotd.cli.rendezvous import Absent, Gone, NoDaemon
from zotd.cli.starting import start_daemon

_NONE_RUNS = 3
_UNKNOWN = 4
"""Exit codes of `status`, as service scripts have them."""
_ABOUT = """\
The daemon that the editors and shells of a user share. `zotd rpc --connect auto` starts it when it is needed;
these commands start, stop and look at it by hand.
"""


def main(argv: list[str]) -> int:
    """Run the command in `argv` (after `daemon`). Returns the exit code: 1 for what failed, 2 for usage."""
    parser, commands = _parsers()
    if not argv or "--help" in argv or "-h" in argv:
        put(commands.get(argv[0] if argv else "", parser).format_help())
        return 0
    try:
        known = parser.parse_args(argv)
        errand = _Errand(known)
    except (UsageError, argparse.ArgumentError, OSError) as wrong:
        complain(f"daemon: {wrong}")
        return 2
    try:
        return unbroken(lambda: known.run(errand))
    except (NoDaemon, Gone, NotDone, Silent, ConnectionError) as failure:
        complain(str(failure))
        return 1
    except KeyboardInterrupt:
        return 130


class _Errand:
    """What every command works with."""

    def __init__(self, known: argparse.Namespace) -> None:
        self.known = known
        self.limits = Limits()
        self.home = str(zot_home().absolute())
        self.path = daemon_socket(os.environ, self.home)
        self.place = Path(run_directory(os.environ, self.home))

    def line(self) -> Line:
        return Line(os.environ, self.home, self.limits)

    def finishing(self) -> list[int]:
        """Process ids of daemons that drain."""
        from zotd.cli.draining import finishing

        return finishing(self.place)

    def status(self) -> dict[str, Any]:
        return self.looked_at()[0]

    def looked_at(self) -> tuple[dict[str, Any], bool]:
        """What the daemon says of itself, and whether a service manager listens for it."""
        with self.line() as line:
            told: dict[str, Any] = line.ask("daemon/status")
            return told, line.pid not in (0, told["pid"])


def _start(errand: _Errand) -> int:
    return _have_one(errand, met="runs already")


def _have_one(errand: _Errand, *, met: str) -> int:
    """Start the daemon unless there is one, of which `met` is said."""
    began = time.monotonic()
    started = start_daemon(
        errand.path, os.environ, errand.home, errand.limits, idle_s=errand.known.idle_timeout
    )
    status, of_service = errand.looked_at()
    if of_service and status["uptime_s"] < time.monotonic() - began:  # our coming was what it waited for
        met = "started by the service"
    put(f"{'started' if started else met}: process {status['pid']}, socket {errand.path}\n")
    if started:
        from zotd.base.settings import of_process

        for fault in of_process(os.environ, Path(errand.home)).faults:
            complain(f"{fault}; the daemon does without")
    elif status.get("idle_exit_s", 0) != errand.known.idle_timeout:
        from zotd.cli.daemon_status import when_idle

        put(f"This command did not start it: it {when_idle(status)}.\n")
    return 0


def _stop(errand: _Errand) -> int:
    from zotd.cli.stopping import stop

    pid = stop(errand.line, errand.limits, drain=errand.known.drain)
    ended = [pid] if pid else []
    if not errand.known.drain:
        from zotd.cli.draining import end

        ended += end(errand.place, errand.limits)
    put("".join(f"stopped: process {one}\n" for one in ended) or "no daemon runs\n")
    return 0


def _restart(errand: _Errand) -> int:
    _stop(errand)
    return _have_one(errand, met="started")  # by a client or the service manager, who were quicker


def _status(errand: _Errand) -> int:
    try:
        status = errand.status()
    except Absent as none:
        if errand.known.json:
            put_json({"running": False, "socket": errand.path, "finishing": errand.finishing()})
        else:
            put(f"no daemon runs ({none})\n")
            _tell_of_finishing(errand)
        return _NONE_RUNS
    except (Silent, Gone, NoDaemon, ConnectionError) as unknown:
        complain(str(unknown))
        return _UNKNOWN
    if errand.known.json:
        put_json(status)
    else:
        from zotd.cli.daemon_status import text_of

        put(text_of(status))
        _tell_of_finishing(errand)
    return 0


def _tell_of_finishing(errand: _Errand) -> None:
    for pid in errand.finishing():
        put(f"process {pid} finishes its turns and then ends; zotd daemon stop ends it now\n")


def _logs(errand: _Errand) -> int:
    from zotd.cli.daemon_logs import show
    from zotd.cli.units import SERVICE, systemd_folder

    if (systemd_folder(os.environ) / SERVICE).exists():
        complain(f"what systemd starts logs to its journal, not here: journalctl --user -u {SERVICE}")
    path = daemon_log(Path(errand.home))
    return show(path, errand.known.lines, follow=errand.known.follow, limits=errand.limits)


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    """The parser of all, and those of its commands by name."""
    parser = _parser("zotd daemon", _ABOUT)
    parser.add_argument("-h", "--help", action="store_true", help="show this; after a command, its flags")
    several = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    commands: dict[str, Parser] = {}

    def command(name: str, what: str, run: Callable[[_Errand], int]) -> Parser:
        added = several.add_parser(
            name,
            help=what,
            description=what,
        )
        added.set_defaults(run=run)
        commands[name] = added
        return added

    def may_end(of: Parser) -> None:
        about = "end after S idle seconds; else it stays"
        of.add_argument("--idle-timeout", type=seconds, default=0.0, metavar="S", help=about)

    drain = "let turns that run and those that wait end first, for an hour at most"
    may_end(command("start", "start it, unless it runs already", _start))
    command("stop", "end it: turns are aborted and saved", _stop).add_argument(
        "--drain", action="store_true", help=drain
    )
    restart = command("restart", "stop it, then start it", _restart)
    restart.add_argument("--drain", action="store_true", help=drain)
    may_end(restart)
    command("status", "what it does and holds; exit code 3 when none runs", _status).add_argument(
        "--json", action="store_true", help="print the result of daemon/status"
    )
    logs = command("logs", "print the end of its log", _logs)
    logs.add_argument("-f", "--follow", action="store_true", help="and what is added, until interrupted")
    logs.add_argument("-n", "--lines", type=_count, default=50, metavar="N", help="lines (50)")
    # It is for service managers, and looks at what is handed down to it before all else.
    several.add_parser("run", help="be the daemon, here in the foreground")
    return parser, commands


def _parser(prog: str, about: str) -> Parser:
    return Parser(
        prog=prog,
        description=about,
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)
