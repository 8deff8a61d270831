"""Owns one open session file: who may write it, and that what was written is whole.

A row is one write to the end of the file and with the kernel when the call returns: a process that is killed
loses nothing it announced. What a full disk cut off is taken back, and written first the next time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from zotd.agent.ports import NotKept
from zotd.base.files import append, make_private, open_regular
from zotd.base.limits import Limits
from zotd.protocol.content import Message, ToolResult, Usage
from zotd.store import rows
from zotd.store.errors import BadSessionFile, NoSession, SessionLocked
from zotd.store.lock import lock
from zotd.store.saved import Saved
from zotd.wire.codec import encode

_PIECE = 1 << 20
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


class SessionLog:
    """The file of one session, made with its first message. It is locked from then on, or from `open` on,
    against every other process that would write it.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path
        self._limits = limits
        self._handle = -1
        self._size = 0  # bytes of the file when it was last looked at
        self._over = False
        self._removed = False
        self._writable = True
        self._torn = b""  # what is to be kept of bytes behind the last row
        self._torn_size = 0
        self._lone_end = False  # the last row has no line end
        self._pending: list[bytes] = []
        self._model: tuple[str, str, str] | None = None
        self._empty = True

    @classmethod
    def new(
        cls, path: Path, meta: dict[str, Any], reasoning: str = "", limits: Limits | None = None
    ) -> SessionLog:
        """A session that has no file yet. `meta`: the fields of its first row, `model` among them."""
        log = cls(path, limits or Limits())
        log._pending.append(_line(rows.meta_row(meta)))
        log._model = (meta["provider"], meta["model"], "")
        log.use_later(*log._model[:2], reasoning)
        return log

    @classmethod
    def open(cls, path: Path, limits: Limits) -> tuple[SessionLog, Saved]:
        """Go on with a file. Bytes of a last line that was cut off go to `<path>.torn`.

        Raises NoSession, SessionLocked and BadSessionFile.
        """
        log = cls(path, limits)
        log._take()
        try:
            with _reading(os.dup(log._handle), path, limits) as file:
                saved = rows.read_rows(file, path, limits.row_bytes)
            log._size = os.fstat(log._handle).st_size
            ended = os.pread(log._handle, 1, log._size - 1) == b"\n"
        except BaseException:
            log.close()
            raise
        log._empty = False
        log._model = (saved.provider, saved.model, saved.reasoning)
        log._torn, log._torn_size = saved.torn, saved.torn_size
        log._lone_end = not saved.torn_size and not ended
        with suppress(OSError):  # the next row tries again
            log._mend()
        return log, saved

    @property
    def saved(self) -> bool:
        """Whether there is a file."""
        return self._handle >= 0

    # What a conversation is recorded with

    def message(self, message: Message) -> None:
        self._put(rows.message_row(message))

    def result(self, result: ToolResult) -> None:
        self._put(rows.result_row(result))

    def usage(self, usage: Usage, cumulative: Usage) -> None:
        self._put(rows.usage_row(usage, cumulative))

    def compaction(self, messages: Sequence[Message], *, or_never: bool = False) -> None:
        self._put(rows.compaction_row(messages), or_never=or_never)

    def rename(self, title: str) -> None:
        """Raises NotKept, and then the title is never written."""
        self._put(rows.rename_row(title), or_never=True)

    def use(self, provider: str, model: str, reasoning: str) -> None:
        """What answers from now on, unless the file says so. Raises NotKept, and then it is never written."""
        if self._model != (provider, model, reasoning):
            self._put(rows.model_row(provider, model, reasoning), or_never=True)
            self._model = (provider, model, reasoning)

    def use_later(self, provider: str, model: str, reasoning: str) -> None:
        """As `use`, with a row that is written with the next one."""
        if self._model != (provider, model, reasoning):
            self._model = (provider, model, reasoning)
            self._pending.append(_line(rows.model_row(provider, model, reasoning)))

    def later(self, message: Message) -> None:
        """A row that is written with the next one."""
        self._pending.append(_line(rows.message_row(message)))

    def flush(self) -> None:
        """Write what waits, if there is a file. Raises NotKept."""
        if self.saved and self._pending:
            self._flush()

    def check_place(self) -> None:
        """Raises NotKept where the path leads to another file by now, or to none."""
        try:
            if self.saved:
                self._check_place()
        except OSError as error:
            raise NotKept(self.path, error.strerror or str(error)) from None

    def close(self) -> None:
        """Let others have the file. What could not be written is tried once more. Raises nothing.

        From now on nothing is written: what comes all the same raises NotKept.
        """
        self._over = True
        if self._handle >= 0:
            with suppress(NotKept):
                self.flush()
            os.close(self._handle)
            self._handle = -1

    @property
    def removed(self) -> bool:
        """Whether `remove` has taken the file away."""
        return self._removed

    def remove(self) -> None:
        """Take the file away, if there is one. Raises NotKept, and then all stays as it was; so does a file
        that somebody put in its place.

        What comes from now on is to be nowhere, and is dropped. What belongs to the file stays for
        `remove_beside`.
        """
        if self._handle >= 0:
            try:
                with suppress(FileNotFoundError):
                    self._check_place()
                    self.path.resolve().unlink()
            except (OSError, RuntimeError) as error:
                raise NotKept(self.path, getattr(error, "strerror", None) or str(error)) from None
        self._removed = True
        self._pending.clear()

    # Disk

    def _put(self, row: dict[str, Any], *, or_never: bool = False) -> None:
        if self._removed:
            return
        if self._over:
            raise NotKept(self.path, "the session was closed")
        self._pending.append(_line(row))
        if self._empty and row["type"] != "message":
            return  # a conversation without a word leaves no file
        try:
            self._flush()
        except NotKept:
            if or_never:
                self._pending.pop()
            raise

    def _flush(self) -> None:
        try:
            if self._handle < 0:
                self._make()
            if not self._writable:
                self._reopen()
            self._check_place()
            self._check_size()
            self._mend()
            self._append(self._pending)
        except OSError as error:
            if self._empty and self._handle >= 0:
                self._unmake()
            raise NotKept(self.path, error.strerror or str(error)) from None
        except (NoSession, SessionLocked) as taken:
            raise NotKept(self.path, str(taken)) from None
        self._pending.clear()
        self._empty = False

    def _check_place(self) -> None:
        """Whether the path still leads to what was written. Raises OSError."""
        mine = os.fstat(self._handle)
        try:
            there = self.path.stat()
        except FileNotFoundError as gone:
            raise OSError(errno.ENOENT, "it was removed while the session had it open") from gone
        if (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            raise OSError(errno.ESTALE, "another file was put in its place while the session had it open")

    def _check_size(self) -> None:
        """Whether all that was written is still there. Raises OSError."""
        if (size := os.fstat(self._handle).st_size) < self._size:
            raise OSError(
                errno.ESTALE,
                f"another program has cut it from {self._size} bytes to {size} while the session had it open",
            )

    def _append(self, lines: list[bytes]) -> None:
        """What could not be read again is not written. Raises OSError."""
        longest, size = max(map(len, lines)), self._size + sum(map(len, lines))
        for most, got, what in (
            (self._limits.row_bytes, longest, "one row"),
            (self._limits.session_bytes, size, "a session"),
        ):
            if got > most:
                raise OSError(errno.EFBIG, f"{what} has at most {most} bytes, this would have {got}")
        self._size = append(self._handle, b"".join(lines))

    def _make(self) -> None:
        make_private(self.path.parent)
        self._take(os.O_CREAT)
        if os.fstat(self._handle).st_size:
            os.close(self._handle)
            self._handle = -1
            raise OSError(errno.EEXIST, "somebody else has made it meanwhile")

    def _unmake(self) -> None:
        """Nothing of the session could be written: leave no empty file."""
        with suppress(OSError):
            if not os.fstat(self._handle).st_size:
                self.path.unlink()
        os.close(self._handle)
        self._handle = -1

    def _take(self, create: int = 0) -> None:
        """Open the file and lock it for good."""
        try:
            self._handle = open_regular(self.path, os.O_RDWR | os.O_APPEND | create)
        except OSError as error:
            if create:
                raise
            if error.errno not in _UNWRITABLE:
                raise _missing(self.path, error) from None
            self._writable = False
            try:
                self._handle = open_regular(self.path)
            except OSError as still:
                raise _missing(self.path, still) from None
        except ValueError as wrong:
            raise NoSession(f"{self.path}: {wrong}") from None
        try:
            lock(self._handle, self.path)
        except BaseException:
            os.close(self._handle)
            self._handle = -1
            raise

    def _reopen(self) -> None:
        """A file that could only be read may have become writable."""
        handle = open_regular(self.path, os.O_RDWR | os.O_APPEND)
        # The lock belongs to the descriptor: it goes over to the same file, opened anew.
        os.close(self._handle)
        self._handle = handle
        lock(handle, self.path)
        self._writable = True

    def _mend(self) -> None:
        """Set aside what is behind the last whole row, so that the next one begins a line."""
        if not self._writable or not (self._torn_size or self._lone_end):
            return
        if self._torn_size:
            aside = torn_path(self.path)
            handle = open_regular(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                append(handle, self._torn + b"\n")
            finally:
                os.close(handle)
            self._size = os.fstat(self._handle).st_size - self._torn_size
            os.ftruncate(self._handle, self._size)
            self._torn, self._torn_size = b"", 0
        if self._lone_end:
            self._size = append(self._handle, b"\n")
            self._lone_end = False


def torn_path(path: Path) -> Path:
    """Where bytes of a line that was cut off are set aside."""
    return path.with_name(path.name + ".torn")


def undo_path(path: Path) -> Path:
    """The directory of what files held before the session's tools changed them."""
    return path.with_name(path.name.removesuffix(".jsonl") + ".undo")


def remove_beside(path: Path) -> None:
    """Take away what belongs to a session's file that is gone. Raises OSError."""
    torn_path(path).unlink(missing_ok=True)
    undo = undo_path(path)
    if undo.is_symlink():  # what it points to is not ours
        undo.unlink()
    elif undo.exists():
        from shutil import rmtree

        rmtree(undo)
    with suppress(OSError):  # others may be in there
        path.parent.rmdir()


def read_saved(path: Path, limits: Limits) -> Saved:
    """What a file says, whoever has it open. Raises NoSession, BadSessionFile."""
    with opened(path, limits) as file:
        return rows.read_rows(file, path, limits.row_bytes)


@contextmanager
def opened(path: Path, limits: Limits) -> Iterator[BinaryIO]:
    """A session's file for reading, whoever has it open. Raises NoSession, BadSessionFile."""
    try:
        handle = open_regular(path)
    except (OSError, ValueError) as error:
        raise _missing(path, error) from None
    with _reading(handle, path, limits) as file:
        yield file


@contextmanager
def _reading(handle: int, path: Path, limits: Limits) -> Iterator[BinaryIO]:
    """The file of a descriptor, which is closed then. Raises BadSessionFile, also for its block."""
    with os.fdopen(handle, "rb", _PIECE) as file:
        try:
            if (there := os.fstat(handle).st_size) > limits.session_bytes:
                raise BadSessionFile(path, 0, f"expected at most {limits.session_bytes} bytes, got {there}")
            yield file
        except OSError as error:
            raise _missing(path, error) from None


def real_path(path: Path) -> Path:
    """Where a session's file is, whatever links lead to it. Raises NoSession, BadSessionFile."""
    try:
        return path.resolve()
    except (OSError, ValueError) as error:
        raise _missing(path, error) from None
    except RuntimeError:  # what Python makes of links in a circle
        raise BadSessionFile(path, 0, "its symbolic links lead in a circle") from None


def _line(row: dict[str, Any]) -> bytes:
    return encode(row) + b"\n"


def _missing(path: Path, error: OSError | ValueError) -> NoSession | BadSessionFile:
    if isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.ENOTDIR):
        return BadSessionFile(path, 0, f"cannot be read: {error.strerror}")
    return NoSession(f"there is no session file {path}")
