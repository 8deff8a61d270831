"""Owns `zotd daemon logs`: the end of the daemon's log, and what is added to it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from zotd.base.files import open_regular
from zotd.base.limits import Limits
from zotd.cli.console import complain, escaped, put

_PIECE = 65536


def show(path: Path, lines: int, *, follow: bool, limits: Limits) -> int:
    """Print the last lines of a log; then, if it is followed, all that comes, until interrupted.

    Returns the exit code: 1 where there is no log.
    """
    try:
        with _opened(path) as file:
            for line in _last(file.fileno(), lines):
                put(_shown(line))
            if not follow:
                return 0
            reached, known = file.tell(), _identity(path)
    except FileNotFoundError:
        complain(f"{path}: there is no log yet: the daemon has not been started with it")
        return 1
    except OSError as wrong:
        complain(f"{path}: {wrong.strerror}")
        return 1
    _follow(path, reached, known, limits)
    return 0


def _opened(path: Path) -> BinaryIO:
    """The log, which is a file: a pipe in its place would be waited for."""
    return os.fdopen(open_regular(path), "rb")


def _last(fd: int, lines: int) -> list[bytes]:
    """The last lines of a file, read from its end; the offset is left at the end of what was read."""
    end = at = os.lseek(fd, 0, os.SEEK_END)
    held = b""
    while at > 0 and held.count(b"\n") <= lines:
        size = min(_PIECE, at)
        at -= size
        held = os.pread(fd, size, at) + held
    os.lseek(fd, end, os.SEEK_SET)
    return held.splitlines(keepends=True)[-lines:] if lines else []


def _follow(path: Path, reached: int, known: tuple[int, int] | None, limits: Limits) -> None:
    """Print what is added, in a file that takes the place of the first too."""
    import sys

    partial = b""
    handle = _opened(path)
    handle.seek(reached)
    while True:
        for piece in _pieces(handle.fileno()):
            *whole, partial = (partial + piece).split(b"\n")
            for line in whole:
                put(_shown(line))
        sys.stdout.flush()
        now = _identity(path)
        if now is not None and (now != known or path.stat().st_size < handle.tell()):
            for piece in _pieces(handle.fileno()):  # what was added to the old one meanwhile
                partial += piece
            for line in partial.splitlines():
                put(_shown(line))
            partial = b""
            handle.close()
            handle, known = _opened(path), now
            continue
        time.sleep(limits.log_looks_s)


def _pieces(fd: int) -> Iterator[bytes]:
    while piece := os.read(fd, _PIECE):
        yield piece


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def _shown(line: bytes) -> str:
    """A line without anything that a terminal would act upon."""
    return escaped(line.decode("utf-8", "replace").rstrip("\r\n"), "\t") + "\n"
