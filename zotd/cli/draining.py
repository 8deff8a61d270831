"""Owns what can be known of daemons that drain: nobody meets them any more, but each keeps a file locked."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from contextlib import suppress
from pathlib import Path

from zotd.base.limits import Limits
from zotd.cli.rendezvous import NoDaemon
from zotd.cli.starting import wait_until
from zotd.cli.stopping import send_to, watched
from zotd.daemon.place import DRAINING


def finishing(place: Path) -> list[int]:
    """Process ids of the daemons that finish their turns. place: the run directory, seen to be ours alone.

    What a daemon has left that was killed meanwhile is removed.
    """
    try:
        names = sorted(each.name for each in place.iterdir() if each.name.startswith(DRAINING))
    except OSError:
        return []
    numbers = [(name, name.removeprefix(DRAINING)) for name in names]
    return [
        int(number)
        for name, number in numbers
        if number.isascii() and number.isdigit() and _is_held(place / name)
    ]


def end(place: Path, limits: Limits) -> list[int]:
    """Have them abort and save their turns, and wait until they are gone; their process ids.

    Raises NoDaemon for one that does not end.
    """
    ended = []
    for pid in finishing(place):
        with suppress(ProcessLookupError):
            gone = watched(pid)
            send_to(pid)(signal.SIGTERM)
            if not wait_until(gone, limits.drain_s + limits.contained_s):
                raise NoDaemon(f"the daemon that drains (process {pid}) does not end: kill -KILL {pid}")
            ended.append(pid)
    return ended


def _is_held(path: Path) -> bool:
    """Whether a process has the file locked, which ends with that process; one that nobody has is removed."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return False
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(handle)
    return False
