"""Owns reading a small text file that somebody else wrote: bounded, never waiting, one clear complaint."""

from __future__ import annotations

import os
import stat
from pathlib import Path

BOM = b"\xef\xbb\xbf"


class BadFile(Exception):
    """A file that cannot be used: `str()` of it names the file and what is wrong."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


def read_start(path: Path, size: int) -> tuple[str, int] | None:
    """At most `size` bytes of a text, and how many the file has; None where there is no such file.

    Line ends become newlines, a byte order mark goes, bytes that are no UTF-8 become replacement characters.
    Raises BadFile.
    """
    try:
        # Without waiting: a pipe that nobody writes to would hold the session for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if not path.is_symlink():
            return None
        raise BadFile(path, "is a symbolic link to nothing") from None
    except (OSError, ValueError) as error:
        raise BadFile(path, f"cannot be read: {_why(error)}") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise BadFile(path, "cannot be read: expected a regular file")
        data = os.read(handle, size + len(BOM)).removeprefix(BOM)[:size]
    except OSError as error:
        raise BadFile(path, f"cannot be read: {_why(error)}") from None
    finally:
        os.close(handle)
    text = data.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n"), status.st_size


def read_whole(path: Path, size: int) -> str | None:
    """The text of a file of at most `size` bytes, None where there is none. Raises BadFile."""
    start = read_start(path, size)
    if start is None:
        return None
    text, there = start
    if there > size + len(BOM):
        raise BadFile(path, f"expected at most {size} bytes, got {there}")
    return text


def _why(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
