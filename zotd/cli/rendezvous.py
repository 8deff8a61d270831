"""Owns meeting a daemon: connecting to its socket, and the preface with its answer.

Imports next to nothing: to a running daemon that is all the work there is. See `starting` for the rest.
"""

from __future__ import annotations

import _socket
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zotd.base.limits import Limits

_AT_ONCE_S = 0.25
"""An answer takes a millisecond. How long it may take is looked up only when it takes longer than this."""
_PIECE = 65536


class NoDaemon(Exception):
    """No daemon was met. The message is a line that says why and what to do."""


class Unwelcome(NoDaemon):
    """The daemon refuses this caller, and will again."""


class Gone(Exception):
    """The daemon that was there ends, or has ended: another one may be met in a moment."""


class Absent(Gone):
    """Nobody listens. `stale` when a socket is left of somebody."""

    def __init__(self, why: str, *, stale: bool = False) -> None:
        super().__init__(why)
        self.stale = stale


class Met:
    """A daemon that took the preface. `socket` is blocking; `early` came with the answer, usually nothing.

    pid: of whoever began to listen there, which with socket activation is the service manager; 0 if unknown.
    """

    def __init__(self, met: _socket.socket, early: bytes, pid: int) -> None:
        self.socket = met
        self.early = early
        self.pid = pid


def meet(address: str, environ: Mapping[str, str], home: str, line: bytes) -> Met:
    """Join the daemon at `address`, a socket's path, or `auto` for the user's, which is started if needed.

    home: absolute path of the ZOT_HOME that the daemon is to have.
    line: the preface, see `connect.preface`.

    Blocks for at most `Limits.join_s`. Raises NoDaemon.
    """
    if address != "auto":
        path = address
        if address.startswith("~"):
            path = os.path.expanduser(address)  # noqa: PTH111
    else:
        from zotd.base.places import daemon_socket, run_directory

        path = daemon_socket(environ, home)
        place = run_directory(environ, home)
        if os.path.lexists(place):
            check_place(place)
    try:
        return greet(path, line)
    except Gone as gone:
        from zotd.cli.starting import join

        return join(path, line, environ, home, gone, start=address == "auto")


def check_place(place: str) -> None:
    """Raises NoDaemon unless a directory is one that only its owner, who we are, can put something into."""
    found = os.lstat(place)
    if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no directory"
        raise NoDaemon(f"{place} is {what}: remove it, so that it can be made anew")
    if found.st_uid != os.getuid():
        raise NoDaemon(f"{place} belongs to another user (uid {found.st_uid}): a daemon there is not yours")
    if found.st_mode & 0o077:
        raise NoDaemon(
            f"{place} is open to other users: look for strange files in it, then chmod 700 {place}"
        )


def greet(path: str, line: bytes, limits: Limits | None = None) -> Met:
    """Connect and have a preface taken. Raises Gone, and NoDaemon for what waiting does not mend."""
    met = dial(path)
    try:
        pid = own_peer(met, path)
        answer, early = _exchange(met, path, line, pid, limits)
        _judge(answer, path, line)
    except BaseException:
        met.close()
        raise
    met.settimeout(None)
    return Met(met, early, pid)


def dial(path: str) -> _socket.socket:
    """A connection to the socket at `path`. Raises Gone, and NoDaemon for what waiting does not mend."""
    met = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    met.settimeout(_AT_ONCE_S)
    try:
        try:
            met.connect(path)
        except BlockingIOError:  # its queue of callers is full
            raise Gone(f"{path}: the daemon takes no more connections at the moment") from None
    except BaseException as wrong:
        met.close()
        if isinstance(wrong, OSError | ValueError):
            raise _explained(path, wrong) from None
        raise
    return met


def _explained(path: str, wrong: OSError | ValueError) -> Gone | NoDaemon:
    """Why nobody was reached at `path`."""
    if isinstance(wrong, FileNotFoundError):
        return Absent(f"{path}: there is no socket")
    if isinstance(wrong, ConnectionRefusedError):
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116
        except OSError:
            return Absent(f"{path}: there is no socket")
        if not stat.S_ISSOCK(mode):
            return NoDaemon(f"{path} is not a socket: remove it, or choose another path")
        return Absent(f"{path}: a socket is there, but nobody listens any more", stale=True)
    if isinstance(wrong, PermissionError):
        return NoDaemon(f"{path}: you may not connect there: it is another user's, or its folder is closed")
    if isinstance(wrong, TimeoutError):
        return Gone(f"{path}: the daemon takes no more connections at the moment")
    if isinstance(wrong, OSError) and wrong.errno is None:  # how Python says it
        size = len(os.fsencode(path))
        return NoDaemon(
            f"{path}: {size} bytes are too long for a socket's path: set XDG_RUNTIME_DIR to a shorter one"
        )
    return NoDaemon(f"{path!r}: cannot connect: {getattr(wrong, 'strerror', None) or wrong}")


def own_peer(met: _socket.socket, path: str) -> int:
    """The process that began to listen at the other end, 0 if unknown. Raises Unwelcome for another's."""
    pid, uid = _peer(met)
    if uid not in (os.getuid(), -1):
        raise Unwelcome(f"{path}: the daemon there runs as another user (uid {uid})")
    return pid


def _peer(met: _socket.socket) -> tuple[int, int]:
    """Process and user that began to listen at the other end; 0 and -1 where the system does not tell."""
    platform: str = sys.platform
    if platform == "linux":
        told = met.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        return int.from_bytes(told[:4], sys.byteorder), int.from_bytes(told[4:8], sys.byteorder)
    try:  # LOCAL_PEERCRED and LOCAL_PEERPID, which Python has no names for
        told = met.getsockopt(0, 1, 76)
        return met.getsockopt(0, 2), int.from_bytes(told[4:8], sys.byteorder)
    except OSError:
        return 0, -1


def _exchange(
    met: _socket.socket, path: str, line: bytes, pid: int, limits: Limits | None
) -> tuple[bytes, bytes]:
    """Send a preface; its answer, and what came behind that. Raises Gone, NoDaemon."""
    patience = _Patience(met, path, pid, limits)
    rest = memoryview(line)
    answer = b""
    try:
        while rest:
            rest = rest[patience.through(met.send, rest) :]
    except (BrokenPipeError, ConnectionResetError):
        pass  # it may have said why before it hung up
    try:
        while b"\n" not in answer:
            piece: bytes = patience.through(met.recv, _PIECE)
            if not piece:
                raise Gone(f"{path}: the daemon hung up before it answered")
            answer += piece
            if len(answer) > _PIECE:
                raise NoDaemon(f"{path}: what answers there is no zotd")
    except ConnectionResetError:
        raise Gone(f"{path}: the daemon hung up before it answered") from None
    first, _, early = answer.partition(b"\n")
    return first, early


class _Patience:
    """The bound on all that is waited for in one meeting."""

    def __init__(self, met: _socket.socket, path: str, pid: int, limits: Limits | None) -> None:
        self._met = met
        self._path = path
        self._pid = pid
        self._limits = limits
        self._waiting = False

    def through(self, step: Any, given: Any) -> Any:
        """What a step on the socket gives. Raises NoDaemon when it takes too long."""
        try:
            return step(given)
        except TimeoutError:
            return self._longer(step, given)

    def _longer(self, step: Any, given: Any) -> Any:
        from zotd.base.limits import Limits

        seconds = (self._limits or Limits()).preface_s
        if not self._waiting:
            self._waiting = True
            self._met.settimeout(max(seconds - _AT_ONCE_S, 0.001))
            try:
                return step(given)
            except TimeoutError:
                pass
        raise NoDaemon(silent(self._path, self._pid, seconds))


def silent(path: str, pid: int, seconds: float) -> str:
    """What is wrong with a daemon that accepts connections and says nothing, and what to do."""
    who = f"the daemon (process {pid})" if pid else "the daemon"
    wake = f"; if it was stopped: kill -CONT {pid}" if pid else ""
    return f"{path}: {who} did not answer within {seconds:g} s{wake}; otherwise end it with: zotd daemon stop"


def _judge(answer: bytes, path: str, line: bytes) -> None:
    """Raises Gone or Unwelcome unless an answer says that the preface was taken."""
    if answer.startswith(b'{"zotd":1,') and b'"draining"' not in answer:
        return
    import json

    try:
        said = json.loads(answer)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise NoDaemon(f"{path}: what answers there is no zotd")
    if "zotd" in said:
        if said.get("draining") is True:
            raise Gone(f"{path}: the daemon is ending, as soon as its turns are done")
        return
    error = said.get("error")
    data = error.get("data") if isinstance(error, dict) else None
    kind = data.get("kind") if isinstance(data, dict) else None
    words = error.get("message") if isinstance(error, dict) else error
    if kind in ("draining", "overloaded"):
        raise Gone(f"{path}: {words}")
    hint = data.get("hint") if isinstance(data, dict) else None
    raise Unwelcome(f"the daemon refuses: {words or 'it does not say why'}{f'; {hint}' if hint else ''}")
