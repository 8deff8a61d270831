"""Owns the way this program replaces a file: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from functools import partial
from pathlib import Path

from zotd.agent.ports import ToolFailed
from zotd.base.files import Staged, stage
from zotd.tools.typed import quoted


def replace_file(path: Path, data: bytes) -> bool:
    """Put `data` into the file at `path`, at once; whether it is a new file.

    Parents are made, a link is followed, mode and owner are kept. Whoever reads sees the old content or the
    new. Raises ToolFailed for what is no regular file, OSError.
    """
    staged, new = _staged(path, data)
    staged.commit()
    return new


def stage_file(path: Path, data: bytes) -> Staged:
    """Write `data` beside the file at `path`, which is not touched yet. Raises as `replace_file`."""
    return _staged(path, data)[0]


def _staged(path: Path, data: bytes) -> tuple[Staged, bool]:
    target = Path(os.path.realpath(path))
    old = _status(target)
    if old is None:
        target.parent.mkdir(parents=True, exist_ok=True)
    else:
        _refuse_unwritable(path, target, old)
    keep = None if old is None else partial(_keep, old)
    return stage(target, data, 0o666, prepare=keep), old is None


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _refuse_unwritable(path: Path, target: Path, old: os.stat_result) -> None:
    if stat.S_ISDIR(old.st_mode):
        raise ToolFailed(f"{path} is a directory; name a file inside it")
    if not stat.S_ISREG(old.st_mode):
        raise ToolFailed(f"{path} is not a regular file; use bash for devices and pipes")
    # The superuser may write anywhere, but whoever took every write bit away meant it.
    if not old.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise ToolFailed(
            f"{path} is read-only (mode {stat.S_IMODE(old.st_mode):04o}); "
            f"change that first: chmod u+w {quoted(path)}"
        )


def _keep(old: os.stat_result, fd: int) -> None:
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):  # not ours to give away; the content matters more
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, stat.S_IMODE(old.st_mode))
