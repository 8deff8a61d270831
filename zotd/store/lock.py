"""Owns that one process writes a session file, and which one that is."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from zotd.store.errors import NoSession, SessionLocked


def lock(handle: int, path: Path) -> None:
    """Keep every other process from writing, for as long as `handle` is open.

    Raises SessionLocked, and NoSession for a file that was removed meanwhile.
    """
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SessionLocked(path, _holder(handle)) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP):  # a file system without locks
            raise
    if not os.fstat(handle).st_nlink:
        raise NoSession(f"{path} was removed")


def _holder(handle: int) -> int:
    """The process that has the lock, as Linux tells it; 0 where that is not known."""
    inode = os.fstat(handle).st_ino
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and int(fields[5].rpartition(":")[2]) == inode:
                return max(0, int(fields[4]))
    return 0
