"""Owns `zotd service`: having the system's service manager start the daemon, and no longer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from zotd.base.files import BadFile, is_there, read_whole
from zotd.base.limits import Limits
from zotd.base.paths import absolute, daemon_log, user_home, zot_home
from zotd.cli import units
from zotd.cli.console import complain, put
from zotd.cli.flags import Parser, UsageError

_ABOUT = """\
install has systemd (launchd on macOS) start the user's daemon as soon as a client comes, and again when it
crashes or hangs; uninstall takes that back. Both can be repeated. What they do is in docs/daemon.md.
"""
_HOMES = ("ZOT_HOME", "XDG_STATE_HOME")
"""What decides where the daemon's files are: it must be told, for it does not get a shell's environment."""
_MEND = "see what is there, who owns it, and whether its disk is full or read-only"
_UNIT_BYTES = 65_536  # more than any of ours has


class NotOurs(Exception):
    """A file is in the way that zotd has not written."""


class NoManager(Exception):
    """No service manager of this user answers; the message is its own."""


def main(argv: list[str]) -> int:
    """Run the command in `argv` (after `service`). Returns 0, 1 when it failed, 2 for wrong usage."""
    parser = _parser()
    try:
        known = parser.parse_args(argv)
        if not (known.what or known.help):
            raise UsageError("expected install or uninstall (zotd service --help)")
    except (UsageError, argparse.ArgumentError) as wrong:
        complain(f"service: {wrong}")
        return 2
    if known.help:
        put(parser.format_help())
        return 0
    try:
        manager = manager_of(os.environ)
        if known.what == "install":
            return _install(manager, force=known.force, start=not known.no_start)
        return _uninstall(manager, force=known.force)
    except NotOurs as wrong:
        complain(f"service {known.what}: {wrong}")
    except OSError as wrong:
        where = wrong.filename2 or wrong.filename
        fault = f"{where}: {wrong.strerror}; {_MEND}" if where else str(wrong)
        complain(f"service {known.what}: {fault}")
    return 1


def _parser() -> Parser:
    parser = Parser(
        prog="zotd service",
        description=_ABOUT,
    )
    add = parser.add_argument
    add(
        "what", nargs="?", choices=("install", "uninstall"), metavar="install|uninstall", help="which of both"
    )
    add("--no-start", action="store_true", help="write the files and start nothing")
    add("--force", action="store_true", help="replace or remove files of that name that zotd has not written")
    add("-h", "--help", action="store_true", help="show this and exit")
    return parser


def program() -> list[str]:
    """How this very program is started again: by its absolute path, links followed where they lead to it."""
    started = Path(sys.argv[0]).absolute()
    if started.name != "__main__.py" and is_there(started) and os.access(started, os.X_OK):
        return [str(started)]
    return [str(Path(sys.executable).absolute()), "-m", "zotd"]


def _told(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Variables that are paths, as they are understood here: a service is run in another folder."""
    return {name: str(absolute(environ[name], name)) for name in names if environ.get(name)}


class Systemd:
    """The user's own systemd."""

    def __init__(self, environ: Mapping[str, str], home: Path) -> None:
        folder = units.systemd_folder(environ)
        given = _told(environ, _HOMES)
        self.files = {
            folder / units.SOCKET: units.socket_unit(),
            folder / units.SERVICE: units.service_unit(program(), given),
        }
        self.by_hand = [
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {units.SOCKET}",
        ]
        self.start = [["daemon-reload"], ["enable", "--now", units.SOCKET]]
        self.stop = [["disable", "--now", units.SOCKET], ["stop", units.SERVICE]]
        self.forget = [["daemon-reload"]]
        self.home = home
        self.environ = environ
        self.notes = []
        if not environ.get("XDG_RUNTIME_DIR"):
            self.notes.append(
                "XDG_RUNTIME_DIR is not set here: clients started so look elsewhere for the daemon"
            )

    def answers(self) -> bool:
        """Whether there is a manager to talk to."""
        return self.run(["show", "--property=Version"]) == ""

    def run(self, words: list[str]) -> str:
        """What went wrong with a command of `systemctl --user`, "" for nothing."""
        return _ran(["systemctl", "--user", *words])

    def serves(self) -> bool:
        """Whether it listens on the daemon's socket already."""
        return self.run(["is-active", "--quiet", units.SOCKET]) == ""

    def lacks(self, seconds: float) -> str:
        """Why it does not start the daemon, "" where it does. Raises NoManager, after `seconds` at most."""
        words = ["show", "--property=ActiveState,UnitFileState", units.SOCKET]
        return lacking(_answer(["systemctl", "--user", *words], seconds))


class Launchd:
    """launchd, for the user who is logged in."""

    def __init__(self, environ: Mapping[str, str], home: Path) -> None:
        file = user_home(environ) / "Library" / "LaunchAgents" / f"{units.AGENT}.plist"
        given = _told(environ, (*_HOMES, "XDG_RUNTIME_DIR"))
        self.files = {file: units.launch_agent(program(), given, str(daemon_log(home)))}
        target = f"gui/{os.getuid()}"
        self.by_hand = [f"launchctl bootstrap {target} {file}"]
        self.start = [] if self.serves() else [["bootstrap", target, str(file)]]
        self.stop = [["bootout", f"{target}/{units.AGENT}"]]
        self.forget: list[list[str]] = []
        self.home = home
        self.environ = environ
        self.notes: list[str] = []

    def answers(self) -> bool:
        return self.run(["print", f"gui/{os.getuid()}"]) == ""

    def run(self, words: list[str]) -> str:
        return _ran(["launchctl", *words])

    def serves(self) -> bool:
        return self.run(["print", f"gui/{os.getuid()}/{units.AGENT}"]) == ""

    def lacks(self, seconds: float) -> str:
        _answer(["launchctl", "print", f"gui/{os.getuid()}"], seconds)
        return "" if self.serves() else f"{units.AGENT} is not loaded"


def lacking(properties: str) -> str:
    """Why a socket unit starts nothing, or not for long, "" where it does: of what `systemctl show` says."""
    said = dict(line.partition("=")[::2] for line in properties.splitlines())
    state, enabled = said.get("ActiveState"), said.get("UnitFileState") == "enabled"
    if state == "active":
        return "" if enabled else f"{units.SOCKET} is active, but not after the next login"
    return f"{units.SOCKET} is {f'enabled, but {state}' if enabled else 'neither enabled nor active'}"


def manager_of(environ: Mapping[str, str]) -> Systemd | Launchd:
    """What manages the user's services here. Raises OSError where nothing does that we know."""
    home = zot_home(environ)
    platform: str = sys.platform
    if platform == "darwin":
        return Launchd(environ, home)
    if platform == "linux":
        return Systemd(environ, home)
    raise OSError(f"there are no service files for {platform}: have its service manager run zotd daemon run")


def _install(manager: Systemd | Launchd, *, force: bool, start: bool) -> int:
    changed = _write(manager.files, force=force)
    for path in manager.files:
        put(f"{'wrote' if path in changed else 'unchanged:'} {path}\n")
    for note in manager.notes:
        put(f"note: {note}\n")
    if not start or not manager.answers():
        why = "No service manager of this user answers here. Where one does, run:"
        if not start:
            why = "Nothing was started. To do it, run:"
        put(f"{why}\n" + "".join(f"  {line}\n" for line in manager.by_hand))
        return 0
    before = manager.serves()
    if not before:
        _make_room(manager)
    for words in manager.start:
        if fault := manager.run(words):
            complain(f"service install: the files are written, but: {fault}")
            return 1
    if before and changed:
        put("What has changed counts from the daemon's next start: zotd daemon restart\n")
    put("The daemon starts as soon as a client comes: zotd rpc --connect auto\n")
    return 0


def _uninstall(manager: Systemd | Launchd, *, force: bool) -> int:
    there = [path for path in manager.files if os.path.lexists(path)]
    if not there:
        put("There is no service of zotd.\n")
        return 0
    _check(there, force=force)
    answers = manager.answers()
    for words in manager.stop if answers else []:
        if fault := manager.run(words):
            complain(f"service uninstall: {fault}")
    for path in there:
        path.unlink(missing_ok=True)
        put(f"removed {path}\n")
    for words in manager.forget if answers else []:
        manager.run(words)
    return 0


def _check(paths: list[Path], *, force: bool) -> None:
    """Raises NotOurs for a file that zotd has not written."""
    for path in paths:
        if force or not os.path.lexists(path):
            continue
        try:
            ours = not path.is_symlink() and units.MARK in (read_whole(path, _UNIT_BYTES) or "")
        except BadFile:
            ours = False
        if not ours:
            raise NotOurs(f"{path} was not written by zotd: move it away, or give --force")


def _write(files: Mapping[Path, str], *, force: bool) -> list[Path]:
    """Write what is not there yet. Returns what was written. Nothing is when one of them is not ours."""
    from zotd.base.files import stage

    _check([*files], force=force)
    changed = []
    for path, text in files.items():
        with suppress(BadFile):
            if not path.is_symlink() and read_whole(path, _UNIT_BYTES) == text:
                continue
        path.parent.mkdir(parents=True, exist_ok=True)
        stage(path, text.encode(), 0o644).commit()
        changed.append(path)
    return changed


def _make_room(manager: Systemd | Launchd) -> None:
    """A daemon that somebody has started is in the way: it leaves its place, and ends with its turns."""
    from zotd.cli.daemon_call import Line, NotDone, Silent
    from zotd.cli.rendezvous import Gone, NoDaemon

    try:
        with Line(manager.environ, str(manager.home), Limits()) as line:
            line.ask("daemon/stop", drain=True)
        put("The daemon that was running finishes its turns and ends.\n")
    except (Gone, ConnectionError):
        return
    except (NoDaemon, Silent, NotDone) as problem:
        raise OSError(f"a daemon is in the way: {problem}") from None


def _ran(argv: list[str]) -> str:
    """What went wrong with a command, "" for nothing."""
    try:
        _answer(argv, Limits().manager_s)
    except NoManager as fault:
        return str(fault)
    return ""


def _answer(argv: list[str], seconds: float) -> str:
    """What a command prints. Raises NoManager, whose message says what went wrong."""
    import subprocess

    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise NoManager(f"there is no program {argv[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NoManager(str(problem)) from None
    if done.returncode:
        raise NoManager(f"{' '.join(argv)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout
