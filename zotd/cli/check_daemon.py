"""Owns the checks of the user's daemon: where it is met, what it says of itself, what it is started by."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zotd import __version__
from zotd.base.files import is_file
from zotd.base.paths import daemon_log, daemon_socket, run_directory
from zotd.cli.checks import Check, Finding, Site, error, ok, warn

_RESTART = "zotd daemon restart"


class NoAnswer(Exception):
    """Nobody answered. stale: whether a socket is left of a daemon that is no more."""

    def __init__(self, why: str, *, stale: bool = False) -> None:
        super().__init__(why)
        self.stale = stale


def run_files(site: Site) -> Iterator[Finding]:
    from zotd.cli.rendezvous import NoDaemon, check_place
    from zotd.daemon.place import SOCKET_PATH_BYTES

    place = run_directory(site.environ, site.home)
    if (long := len(os.fsencode(daemon_socket(site.environ, site.home)))) > SOCKET_PATH_BYTES:
        mend = "set XDG_RUNTIME_DIR, or a shorter ZOT_HOME"
        yield error(f"its path has {long} bytes; a socket's has {SOCKET_PATH_BYTES} at most", mend)
    if not os.path.lexists(place):
        yield ok("it is not there; the first daemon makes it")
        return
    try:
        check_place(str(place))
    except NoDaemon as wrong:
        yield error(str(wrong), "no daemon is joined or started until that is done")
        return
    path = daemon_socket(site.environ, site.home)
    if not os.path.lexists(path):
        yield ok("nobody listens there")
        return
    status = path.lstat()
    if not stat.S_ISSOCK(status.st_mode):
        yield error(f"{path} is no socket", "remove it")
    elif status.st_uid != os.geteuid():
        yield error(f"{path} belongs to uid {status.st_uid}", "look who made it, then remove it")
    elif status.st_mode & 0o077:
        yield warn(f"{path} has mode {stat.S_IMODE(status.st_mode):04o}, not 0600", _RESTART)
    else:
        yield ok(f"{path} is yours alone")


def daemon(site: Site) -> Iterator[Finding]:
    try:
        state = status_of(site)
    except NoAnswer as wrong:
        if wrong.stale:
            yield warn(str(wrong), "nothing is to be done: whoever starts the next daemon takes its place")
        elif os.path.lexists(daemon_socket(site.environ, site.home)):
            yield error(f"the daemon does not answer: {wrong}", _RESTART)
        else:
            yield ok("none runs; zotd daemon start, or --connect auto, starts one")
        return
    yield from judged(site, state)


def judged(site: Site, state: dict[str, Any]) -> Iterator[Finding]:
    """What a result of `daemon/status` means for whoever would join that daemon."""
    if state["version"] != __version__:
        mend = f"{_RESTART}: it ends what it does, and its clients come back"
        yield warn(f"version {state['version']} runs, {__version__} is installed", mend)
    if os.path.realpath(state["home"]) != os.path.realpath(site.home):
        mend = "give both the same ZOT_HOME, or end that daemon: zotd daemon stop"
        yield error(f"its ZOT_HOME is {state['home']}, yours is {site.home}: it refuses you", mend)
    if state["draining"]:
        yield warn(
            "it ends as soon as its turns are done", "nothing is to be done: the next caller starts one"
        )
    from zotd.cli.daemon_status import others

    memory = state["memory"]
    held, most = memory.get("descriptors", 0), memory.get("descriptors_limit", 0)
    if most and held > most * 0.8:
        yield warn(
            f"it has {held} of {most} files open", f"close sessions, or {_RESTART} with a higher limit"
        )
    yield ok(
        f"version {state['version']}, pid {state['pid']}, up for {state['uptime_s']:.0f} s, "
        f"sessions: {len(state['sessions'])}, other clients: {len(others(state))}"
    )


def status_of(site: Site) -> dict[str, Any]:
    """What the user's daemon says of itself. Raises NoAnswer. It is only asked: nothing of it changes."""
    from dataclasses import replace

    from zotd.cli.daemon_call import Line, NotDone, Silent
    from zotd.cli.rendezvous import Absent, Gone, NoDaemon

    limits = replace(site.limits, daemon_answer_s=site.limits.check_answer_s)
    try:
        with Line(site.environ, str(site.home), limits) as line:
            state: dict[str, Any] = line.ask("daemon/status")
            return state
    except Absent as none:
        raise NoAnswer(str(none), stale=none.stale) from None
    except (Gone, NoDaemon, NotDone, Silent, OSError, ValueError, LookupError) as wrong:
        raise NoAnswer(str(wrong)) from None


def log(site: Site) -> Iterator[Finding]:
    path = daemon_log(site.home)
    folder = path.parent
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
        yield error(f"{folder} is not a directory: no daemon is started", f"move {folder} away")
    elif not os.path.lexists(path):
        yield ok("there is none yet")
    elif path.is_symlink() or not is_file(path) or not os.access(path, os.R_OK | os.W_OK):
        mend = f"move {path} away"
        yield error(f"{path} is not a file that can be read and written", mend)
    elif path.stat().st_nlink > 1:
        yield error(f"{path} has another name too: no daemon is started", f"move {path} away")
    elif path.stat().st_mode & 0o077:
        yield warn(f"other users can read {path}", f"chmod 600 {path}")
    else:
        yield ok(f"{path}, {path.stat().st_size} bytes")


def units(site: Site) -> list[Path]:
    """Where the service's files may be, for systemd and launchd."""
    from zotd.cli.units import systemd_folder

    folder = systemd_folder(site.environ)
    agents = site.user_home / "Library" / "LaunchAgents"
    return [folder / "zotd.service", folder / "zotd.socket", *sorted(agents.glob("*zotd*.plist"))]


def service(site: Site) -> Iterator[Finding]:
    installed = [path for path in units(site) if is_file(path)]
    if not installed:
        yield ok("it is not installed; zotd service install does that")
        return
    for path in installed:
        if path.suffix == ".socket":
            continue
        program = started_by(path)
        if program is None:
            yield error(f"{path} names no program", "zotd service install writes it anew")
        elif not is_file(program) or not os.access(program, os.X_OK):
            mend = "zotd service install writes it anew, with the path of this zotd"
            yield error(f"{path} starts {program}, which is not there or cannot be run", mend)
        else:
            yield ok(f"{path} starts {program}")
    yield from _managed(site)


def _managed(site: Site) -> Iterator[Finding]:
    """Whether anybody acts on the files."""
    from zotd.cli.service import NoManager, manager_of

    try:
        lacks = manager_of(site.environ).lacks(site.limits.check_answer_s)
    except NoManager as why:
        mend = "log in anew, or see to XDG_RUNTIME_DIR; until then --connect auto starts the daemon itself"
        yield warn(f"no service manager of this user answers here: {why}", mend)
        return
    if lacks:
        yield warn(f"it starts no daemon: {lacks}", "zotd service install")
    else:
        yield ok("the service manager starts the daemon when a client comes")


def started_by(unit: Path) -> Path | None:
    """The program that a unit or a property list starts."""
    if unit.suffix == ".plist":
        import plistlib

        try:
            words = plistlib.loads(unit.read_bytes()).get("ProgramArguments") or [""]
        except (OSError, ValueError, plistlib.InvalidFileException):
            return None
        return Path(words[0]) if words[0] else None
    from zotd.cli.units import started_by as named_in

    name = named_in(unit.read_text("utf-8", "replace"))
    return Path(name) if name else None


def containment(site: Site) -> Iterator[Finding]:
    """Starts a program as sessions do, and waits for its end."""
    import asyncio

    from zotd.process.kept import KEEPER

    try:
        code = asyncio.run(_started(site))
    except (OSError, TimeoutError) as wrong:
        yield error(
            f"no program can be started: {str(wrong) or 'it took too long'}", "see the limits: ulimit -a"
        )
        return
    if code != 7:
        yield error(
            f"a program that was to end with 7 ended with {code}", "report it, with zotd doctor --json"
        )
    elif not KEEPER.pid:
        mend = "nothing is to be done; elsewhere than on Linux that is so"
        yield warn("programs start; one that leaves its process group outlives its session", mend)
    else:
        yield ok("programs start, and end with their session, whatever becomes of zotd")


async def _started(site: Site) -> int:
    import asyncio

    from zotd.process.spawn import Scope, SpawnError

    scope = Scope(site.limits)
    try:
        async with asyncio.timeout(site.limits.check_answer_s):
            argv = ["/bin/sh", "-c", "exit 7"]
            child = await scope.spawn(
                argv, cwd=Path("/"), env={"PATH": "/usr/bin:/bin"}, stdin="null", stderr="null"
            )
            return await child.exited
    except SpawnError as wrong:
        raise OSError(str(wrong)) from None
    finally:
        await scope.close()


DAEMON_CHECKS = (
    Check("run directory", lambda site: str(run_directory(site.environ, site.home)), run_files),
    Check("daemon", lambda site: str(daemon_socket(site.environ, site.home)), daemon),
    Check("log", lambda site: str(daemon_log(site.home)), log),
    Check("service", lambda site: ", ".join(map(str, units(site))), service),
    Check("containment", lambda site: "a program that is started and ends", containment),
)
