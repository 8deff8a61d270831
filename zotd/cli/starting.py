"""Owns the start of the user's daemon: one, however many ask for it at once, and nothing of theirs in it."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from zotd.base.files import MAKE_ROOM, make_private
from zotd.base.limits import Limits
from zotd.base.log_file import open_log
from zotd.base.paths import daemon_log
from zotd.base.places import run_directory
from zotd.cli.rendezvous import Absent, Gone, Met, NoDaemon, check_place, greet

if TYPE_CHECKING:
    from subprocess import Popen

_LOOK_AGAIN_S = 0.02
"""Between two looks whether a daemon is there: a start takes some ten of them."""
_PASSED_ON = ("HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "LANGUAGE", "TMPDIR", "TZ")
_PASSED_ON_BY_PREFIX = ("LC_", "XDG_", "PYTHONPATH", "PYTHONHOME")
"""Of the caller's environment, what a daemon gets. Keys are the caller's own, and come by preface."""
_LAST_LINES = 5
_LAST_BYTES = 4096


def join(
    path: str,
    line: bytes,
    environ: Mapping[str, str],
    home: str,
    gone: Gone,
    *,
    start: bool,
    limits: Limits | None = None,
) -> Met:
    """Join a daemon that was not met at the first try.

    gone: why not. start: whether to start one when nobody listens.

    Blocks for at most `Limits.join_s`, and a little. Raises NoDaemon.
    """
    limits = limits or Limits()
    if isinstance(gone, Absent) and not start:
        raise NoDaemon(f"{gone}; zotd daemon start starts the one that --connect auto joins")
    deadline = time.monotonic() + limits.join_s
    while True:
        try:
            if start and isinstance(gone, Absent):
                start_daemon(path, environ, home, limits, idle_s=_idle_s(environ, home, limits))
            return greet(path, line, limits)
        except Gone as again:
            gone = again
        if time.monotonic() > deadline:
            raise NoDaemon(f"{gone}; tried for {limits.join_s:g} s: try again later")
        time.sleep(_LOOK_AGAIN_S)


def _idle_s(environ: Mapping[str, str], home: str, limits: Limits) -> float:
    """After how long with nothing to do one ends that nobody has started by hand: as the user configured."""
    from zotd.base.settings import of_process

    return float(of_process(environ, Path(home)).values.get("idle_timeout", limits.idle_exit_s))


def start_daemon(
    path: str, environ: Mapping[str, str], home: str, limits: Limits, *, idle_s: float = 0.0
) -> bool:
    """See to it that somebody listens at `path`, the user's socket; whether that took a start.

    idle_s: seconds with nothing to do after which the daemon ends; 0: as the user configured, else never.

    Raises NoDaemon.
    """
    place = run_directory(environ, home)
    make_place(place)
    deadline = time.monotonic() + limits.daemon_start_s
    lock = f"{place}/start.lock"
    while not _listens(path):
        with _locked(lock) as ours:
            if ours:
                if _listens(path):
                    return False
                _start(path, environ, home, limits, deadline, idle_s)
                return True
        if time.monotonic() > deadline:
            raise NoDaemon(f"{lock}: another zotd has been starting the daemon for too long; end that one")
        time.sleep(_LOOK_AGAIN_S)
    return False


def make_place(place: str) -> None:
    """The directory of the daemon's socket, for its owner alone. Raises NoDaemon."""
    above = Path(place).parent
    try:
        if not above.is_dir():
            if os.environ.get("XDG_RUNTIME_DIR") == str(above):
                raise NoDaemon(
                    f"XDG_RUNTIME_DIR {above} is not a directory: make it with mode 0700, or unset it"
                )
            make_private(above)
        with suppress(FileExistsError):
            os.mkdir(place, 0o700)  # noqa: PTH102 - a Path would have to be made first
    except OSError as wrong:
        raise NoDaemon(f"{place}: no directory can be made there: {wrong.strerror}") from None
    check_place(place)


def _listens(path: str) -> bool:
    """Whether somebody does. Raises NoDaemon for what no start would mend."""
    from zotd.cli.rendezvous import dial

    try:
        dial(path).close()
    except Absent:
        return False
    except Gone:
        return True
    return True


@contextmanager
def _locked(path: str) -> Iterator[bool]:
    """Hold a lock file, never waiting for it; whether it was free. Raises NoDaemon for a strange one."""
    import fcntl

    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as wrong:
        if wrong.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise NoDaemon(f"{path} is no plain file: remove it") from None
        raise NoDaemon(f"{path}: {wrong.strerror}: no daemon can be started") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise NoDaemon(f"{path} is no plain file of yours: remove it")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _start(
    path: str, environ: Mapping[str, str], home: str, limits: Limits, deadline: float, idle_s: float
) -> None:
    """Start a daemon and wait until it listens. Raises NoDaemon with its last words when it does not."""
    log = daemon_log(Path(home))
    try:
        sink = open_log(log)  # as the daemon does: its first words must not end up in another file either
    except OSError as wrong:
        raise NoDaemon(
            f"the daemon has nowhere to write: {wrong}; {MAKE_ROOM}, or run it in the foreground: "
            "zotd daemon run"
        ) from None
    try:
        os.set_blocking(sink, True)
        before = os.fstat(sink).st_size
        daemon = _spawned(environ, home, idle_s, sink)
    finally:
        os.close(sink)
    while not _listens(path):
        if (code := daemon.poll()) is not None:
            if wait_until(lambda: _listens(path), limits.daemon_taken_s):  # by somebody else, who came first
                return
            raise NoDaemon(f"the daemon ended with {_ended(code)} as it started: {_last_words(log, before)}")
        if time.monotonic() > deadline:
            daemon.kill()
            daemon.wait()
            raise NoDaemon(f"the daemon did not listen in time: {_last_words(log, before)}")
        time.sleep(_LOOK_AGAIN_S)
    daemon.returncode = 0  # it is on its own from here: or Popen warns that it still runs


def _spawned(environ: Mapping[str, str], home: str, idle_s: float, sink: int) -> Popen[bytes]:
    import subprocess

    command = [sys.executable, "-P", "-m", "zotd", "daemon", "run", "--log", "auto"]
    if idle_s:
        command += ["--idle-timeout", f"{idle_s:g}"]
    # Files that its tools make are for others to read at most, and for the user in any case.
    caller = os.umask(0o077)
    os.umask(caller)
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=sink,
        cwd="/",
        env=_passed_on(environ, home),
        start_new_session=True,
        umask=(caller | 0o022) & 0o077,
    )


def _passed_on(environ: Mapping[str, str], home: str) -> dict[str, str]:
    from zotd.base.settings import OF_DAEMONS

    kept = {
        name: value
        for name, value in environ.items()
        if name in (*_PASSED_ON, *OF_DAEMONS) or name.startswith(_PASSED_ON_BY_PREFIX)
    }
    return {**kept, "ZOT_HOME": home}


def _ended(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _last_words(log: Path, since: int) -> str:
    """What was written to a log since it had a size: the last lines, on one."""
    with suppress(OSError), log.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(since, size - _LAST_BYTES))
        lines = file.read(_LAST_BYTES).decode("utf-8", "replace").split("\n")
        if said := [text.strip() for text in lines if text.strip()][-_LAST_LINES:]:
            return f"{' | '.join(said)} ({log})"
    return f"it wrote nothing to {log}"


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    """Whether something is so within seconds."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True
