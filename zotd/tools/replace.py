"""Owns the way this program replaces a file: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from zotd.agent.ports import ToolFailed
from zotd.tools.typed import quoted


def replace_file(path: Path, data: bytes) -> bool:
    """Put `data` into the file at `path`, at once; whether it is a new file.

    Parents are made, a link is followed, mode and owner are kept. Whoever reads sees the old content or the
    new. Raises ToolFailed for what is no regular file, OSError.
    """
    staged = stage(path, data)
    staged.commit()
    return staged.new


@dataclass(frozen=True, slots=True)
class Staged:
    """A new content that lies beside its file. One of `commit` and `cancel` is called.

    new: whether there was no such file.
    """

    beside: Path
    target: Path
    new: bool

    def commit(self) -> None:
        """Put it in the file's place. Raises OSError, with nothing left behind."""
        try:
            self.beside.replace(self.target)
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        self.beside.unlink(missing_ok=True)


def stage(path: Path, data: bytes) -> Staged:
    """Write `data` beside the file at `path`, which is not touched yet. Raises as `replace_file`."""
    target = Path(os.path.realpath(path))
    old = _status(target)
    if old is None:
        target.parent.mkdir(parents=True, exist_ok=True)
    else:
        _refuse_unwritable(path, target, old)
    # A short name of its own, since the target's may already be as long as a name can be.
    sibling = target.with_name(f".zotd-{os.getpid()}-{os.urandom(6).hex()}")
    try:
        with os.fdopen(
            os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb"
        ) as file:
            file.write(data)
            if old is not None:
                _keep(file.fileno(), old)
    except BaseException:
        sibling.unlink(missing_ok=True)
        raise
    return Staged(sibling, target, old is None)


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


def _keep(fd: int, old: os.stat_result) -> None:
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):  # not ours to give away; the content matters more
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, stat.S_IMODE(old.st_mode))
