"""Owns the file that a daemon in the background writes to: private, bounded, never another file."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from zotd.base.files import append, close_folder, make_private


class LogFile:
    """A file that is added to, and put aside when it is full. Standard output and error land there too."""

    def __init__(self, path: Path, most: int, kept: int) -> None:
        """path: made with mode 0600, its directory with 0700. most: bytes of one; kept: older ones beside it.

        Raises OSError with a sentence that names the path.
        """
        self.path = path
        self._most = most
        self._kept = kept
        self._fd = open_log(path)

    def take_standard_streams(self) -> None:
        """What the interpreter and libraries print goes there from now on."""
        for stream in (1, 2):
            os.dup2(self._fd, stream)

    def write(self, data: bytes) -> bool:
        """Add whole lines; whether they are in. What finds no room is left out, not half written."""
        with suppress(OSError):
            there = os.fstat(self._fd)
            full = there.st_size + len(data) > self._most
            if full or not self._in_place(there):
                try:
                    self._renew(put_aside=self._in_place(there))
                except OSError:
                    if full or not there.st_nlink:
                        return False  # one that somebody has only moved away can be added to all the same
                there = os.fstat(self._fd)
            if there.st_size + len(data) <= self._most or not there.st_size:
                append(self._fd, data)
                return True
        return False

    def close(self) -> None:
        """Standard output and error stay where they are."""
        os.close(self._fd)

    def _in_place(self, there: os.stat_result) -> bool:
        """Whether the path still leads to our file. It does not when that was put aside and no new one could
        be made: to put the others aside once more would lose the oldest.
        """
        try:
            return os.path.samestat(there, self.path.lstat())
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _renew(self, *, put_aside: bool) -> None:
        """A new file in its place, with the old ones moved on by one and the oldest gone."""
        if put_aside:
            for number in range(self._kept, 0, -1):
                older = self.path if number == 1 else self._beside(number - 1)
                with suppress(FileNotFoundError):
                    older.replace(self._beside(number))
        fresh = open_log(self.path)
        for stream in (1, 2):
            if os.path.sameopenfile(stream, self._fd):
                os.dup2(fresh, stream)
        os.dup2(fresh, self._fd, inheritable=False)
        os.close(fresh)

    def _beside(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def open_log(path: Path) -> int:
    """A descriptor of a log that is added to, made private. Raises OSError that names the path.

    A link, a pipe and a file that has another name too are refused.
    """
    try:
        make_private(path.parent)
        _check_directory(path.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        handle = os.open(path, flags | os.O_NOCTTY, 0o600)
    except OSError as wrong:
        if wrong.errno in (errno.ELOOP, errno.EMLINK):
            raise OSError(f"{path}: the log is a symbolic link: remove it, or name its target") from None
        if wrong.errno is None:
            raise
        raise OSError(f"{wrong.filename or path}: the log cannot be written: {wrong.strerror}") from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise OSError(f"{path}: the log is no regular file: remove it, or name another")
    if found.st_uid != os.geteuid() or found.st_nlink > 1:
        os.close(handle)
        raise OSError(f"{path}: the log is somebody else's file too: remove it, or name another")
    os.fchmod(handle, 0o600)
    return handle


def _check_directory(directory: Path) -> None:
    """Who else may write there could have us write anywhere: nobody else may, from now on."""
    found = directory.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise OSError(f"{directory}: the directory of the log is a symbolic link: name the real one")
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(f"{directory}: expected a directory for the log")
    if found.st_mode & stat.S_ISVTX or (found.st_uid == 0 != os.geteuid()):
        return
    if found.st_uid != os.geteuid():
        raise OSError(f"{directory}: the directory of the log is somebody else's: name another")
    if found.st_mode & 0o022:
        close_folder(directory, stat.S_IMODE(found.st_mode) & ~0o022)
