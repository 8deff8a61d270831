"""Owns the `write` tool, and the way this program replaces a file: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from zotd.agent.ports import ToolFailed, ToolOutcome
from zotd.base.limits import Limits
from zotd.protocol.content import Text
from zotd.tools.typed import FileTool, quoted


class WriteArguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str, Meta(description="File to write: absolute, from ~, or relative to the working directory")
    ]
    content: Annotated[str, Meta(description="The whole new content of the file")]


class WriteTool(FileTool[WriteArguments]):
    """Makes or replaces a file for the model."""

    name = "write"
    description = (
        "Write a file, making it and the directories above it, or replacing its whole content. "
        "To change parts of a file, use edit."
    )
    arguments = WriteArguments

    def __init__(self, cwd: Path, env: Mapping[str, str], limits: Limits) -> None:
        super().__init__(cwd, env.get("HOME", ""), limits.off_loop_bytes)

    async def work(self, arguments: WriteArguments, progress: Callable[[str], None]) -> ToolOutcome:
        path = self.locate(arguments.path)
        try:
            data = arguments.content.encode()
        except UnicodeEncodeError as error:
            raise ToolFailed(f"$.content: it is no text: half a surrogate pair at {error.start}") from error
        made = await self.on_file(path, len(data), replace_file, path, data)
        return ToolOutcome([Text(f"{'made' if made else 'replaced'} {path} ({len(data)} bytes)")])


def replace_file(path: Path, data: bytes) -> bool:
    """Put `data` into the file at `path`, at once; whether it is a new file.

    Parents are made, a link is followed, mode and owner are kept. Whoever reads sees the old content or the
    new. Raises ToolFailed for what is no regular file, OSError.
    """
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
        sibling.replace(target)
    except BaseException:
        sibling.unlink(missing_ok=True)
        raise
    return old is None


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
