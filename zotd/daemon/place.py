"""Owns the place on disk where a daemon is met: its directory, lock, socket and file with its pid.

Whoever holds the lock may take a stale socket away and listen; it is held as long as somebody can be met. So
of many that start at once one is left, and a live socket is never taken over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path

from zotd.base.files import close_folder, make_private, stage

SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""What fits into the kernel's address of a Unix socket; no setting of ours could change it."""

DRAINING = "zotd.draining."
"""With a process id behind it the name of what a daemon has locked while it drains."""


class SocketInUse(Exception):
    """Another process answers on the socket, or is about to."""


class Place:
    """A Unix socket that this process listens on, mode 0600. `leave` gives the place up."""

    def __init__(self, path: Path, backlog: int, *, pid_file: bool = False) -> None:
        """Listen there. backlog: clients that may wait to be accepted. pid_file: whether to leave our pid.

        Raises SocketInUse, or OSError where the path is too long, something else is there, or its directory
        is missing or cannot be written.
        """
        self.path = path
        _check(path)
        self._lock_path = path.with_suffix(".lock") if pid_file else path.with_name(path.name + ".lock")
        self._lock = _locked(self._lock_path, path)
        self._pid_path = path.with_suffix(".pid") if pid_file else None
        try:
            self.socket = _listening(path, backlog)
        except BaseException:
            self._unlock()
            raise
        self._identity = _identity(path)
        self._left = False
        try:
            if self._pid_path is not None:
                write_pid(self._pid_path)
        except BaseException:
            self.socket.close()
            self.leave()
            raise

    def lost(self) -> bool:
        """Whether somebody else has taken the socket away: nobody can come there any more."""
        try:
            return _identity(self.path) != self._identity
        except OSError as problem:
            return problem.errno in (errno.ENOENT, errno.ENOTDIR)

    def leave(self, *, drains: bool = False) -> None:
        """Take the socket away, so that another daemon can come here. Who is connected stays so.

        drains: turns go on; a file that is locked until the next call tells the user of this process.
        """
        if self._lock < 0:
            return
        if not self._left:
            self._left = True
            with suppress(OSError):
                if _identity(self.path) == self._identity:  # not one that a service manager put here since
                    self.path.unlink()
            if self._pid_path is not None:
                remove_pid(self._pid_path)
                if drains and self._rename_lock():
                    return
        self._unlock()

    def _rename_lock(self) -> bool:
        """Whoever comes next makes a lock of his own."""
        named = self.path.with_name(f"{DRAINING}{os.getpid()}")
        with suppress(OSError):
            if not self._has_lock():
                return False
            self._lock_path.rename(named)
            self._lock_path = named
            return True
        return False

    def _has_lock(self) -> bool:
        """Whether the lock file is still ours: where all was removed, another daemon has made a new one."""
        return os.path.samestat(os.fstat(self._lock), self._lock_path.lstat())

    def _unlock(self) -> None:
        with suppress(OSError):
            if self._has_lock():
                self._lock_path.unlink()
        os.close(self._lock)
        self._lock = -1


def private_directory(path: Path) -> None:
    """Make a directory for its owner alone, or see that it is one. Raises OSError that says what is wrong."""
    make_private(path.parent)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise OSError(f"{path}: is a symbolic link; remove it, so that a directory can be made there")
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(f"{path}: is no directory; remove it, so that one can be made there")
    if found.st_uid != os.geteuid():
        raise OSError(f"{path}: belongs to uid {found.st_uid}, not to uid {os.geteuid()}; remove it")
    if stat.S_IMODE(found.st_mode) & 0o077:
        close_folder(path, 0o700)


def write_pid(path: Path) -> None:
    """Our pid in a file that is there as a whole or not at all; a link in its place is replaced."""
    stage(path, b"%d\n" % os.getpid()).commit()


def remove_pid(path: Path) -> None:
    """Take the file away if it is ours."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            ours = os.read(fd, 32) == b"%d\n" % os.getpid()
        finally:
            os.close(fd)
        if ours:
            path.unlink()


def _check(path: Path) -> None:
    if (size := len(os.fsencode(path))) > SOCKET_PATH_BYTES:
        raise OSError(f"{path}: {size} bytes are too long for a socket's path; at most {SOCKET_PATH_BYTES}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no directory {path.parent}; make it first")
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise FileExistsError(f"{path}: is a symbolic link; remove it or choose another path")
        if not stat.S_ISSOCK(mode):
            raise FileExistsError(f"{path}: exists and is not a socket; choose another path")


def _locked(path: Path, meant: Path) -> int:
    """An open file that is locked until it is closed. It is removed by who held it: hence the second look."""
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            if problem.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise OSError(f"{path}: is no plain file; remove it") from None
            raise
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                raise OSError(f"{path}: is no plain file of uid {os.geteuid()}; remove it")
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(found, path):
                return fd
        except BlockingIOError:
            os.close(fd)
            if not _is_at(found, path):  # who has it drains, and has moved it out of the way
                continue
            raise SocketInUse(
                f"{meant}: another zotd is listening there or about to; stop it or choose another path"
            ) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _is_at(found: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(found, path.lstat())
    except FileNotFoundError:
        return False


def _listening(path: Path, backlog: int) -> socket.socket:
    """Under the lock. A stale socket is replaced, a live one never."""
    if os.path.lexists(path):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            answer = probe.connect_ex(os.fsencode(path))
        # A program that is busy or stopped has clients wait (EAGAIN): it lives.
        if answer in (0, errno.EAGAIN):
            raise SocketInUse(f"{path}: another program is listening there; stop it or choose another path")
        if answer not in (errno.ECONNREFUSED, errno.ENOENT):
            raise OSError(f"{path}: {os.strerror(answer)}; remove it or choose another path")
        path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        made.bind(os.fsencode(path))
    except OSError as problem:
        made.close()
        raise OSError(f"{path}: {problem.strerror}") from None
    finally:
        os.umask(before)
    made.listen(backlog)
    made.setblocking(False)
    return made


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino
