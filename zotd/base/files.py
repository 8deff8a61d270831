"""Owns files as such: reading what others wrote, bounded and never waiting, and replacing one whole."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BOM = b"\xef\xbb\xbf"
MAKE_ROOM = "free space on the disk or mend the file's permissions"
"""What to do about a file that cannot be written."""
MORE_DESCRIPTORS = "close clients or sessions, or raise the limit: ulimit -n, LimitNOFILE="
"""What to do where no file can be opened any more."""
_LOOK_AGAIN_S = 0.005  # whether a lock is free: who holds one needs about as long


class BadFile(Exception):
    """A file that cannot be used: `str()` of it names the file and what is wrong."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file, made with mode 0600 where `flags` say so. Raises OSError, ValueError.

    Without waiting: a pipe that nobody reads or writes would hold everybody for ever.
    """
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "expected a regular file", str(path))
    return handle


def make_private(path: Path) -> None:
    """A directory, and those above it, that only the user may enter where they have to be made.

    Raises OSError, also where something else is in its place.
    """
    missing = [folder for folder in (path, *path.parents) if not is_there(folder)]
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    if not is_folder(path):
        raise FileExistsError(errno.EEXIST, "expected a directory", str(path))


def close_folder(path: Path, mode: int) -> None:
    """Give a directory a mode, and never one that a link leads to by now. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def append(handle: int, data: bytes) -> int:
    """Put bytes at the end of a file: all of them, or none. Returns its size after that. Raises OSError."""
    before = os.fstat(handle)
    done = 0
    try:
        while done < len(data):
            done += os.write(handle, data[done:] if done else data)
    except OSError:
        # Another program may have written behind us: what is its own is not ours to take away.
        if done and os.fstat(handle).st_size == before.st_size + done:
            os.ftruncate(handle, before.st_size)
        raise
    return before.st_size + done


def none_left(error: BaseException) -> bool:
    """Whether something failed because there was no descriptor left for it."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class Staged:
    """A new content that lies beside its file. One of `commit` and `cancel` is called."""

    def __init__(self, beside: Path, target: Path) -> None:
        self._beside = beside
        self._target = target

    def commit(self) -> None:
        """Put it in the file's place. Raises OSError, with nothing left behind."""
        try:
            self._beside.replace(self._target)
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        self._beside.unlink(missing_ok=True)


def stage(
    target: Path,
    data: bytes,
    mode: int = 0o600,
    *,
    synced: bool = False,
    prepare: Callable[[int], None] | None = None,
) -> Staged:
    """Write `data` beside a file, which is not touched yet: who reads it sees the old content or the new.

    mode: of the new file, less the process's mask. synced: whether it must be on the disk before it counts.
    prepare: is given the new file's descriptor. Raises OSError that names the target, with nothing left
    behind.
    """
    # A short name of its own, since the target's may already be as long as a name can be.
    beside = target.with_name(f".zotd-{os.getpid()}-{os.urandom(6).hex()}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if prepare is not None:
                prepare(file.fileno())
            if synced:
                file.flush()
                os.fsync(file.fileno())
    except BaseException as wrong:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(wrong, OSError):
            wrong.filename = str(target)
        raise
    return Staged(beside, target)


@contextmanager
def alone(lock: Path, seconds: float) -> Iterator[None]:
    """Hold a lock file, made where there is none: two that change a file at once lose nothing.

    Blocks for so many seconds at most. Raises OSError.
    """
    import fcntl
    import time

    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    until = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise OSError(errno.EAGAIN, "another process holds it", str(lock)) from None
                time.sleep(_LOOK_AGAIN_S)
        yield
    finally:
        os.close(handle)


def is_empty_file(path: Path) -> bool:
    """Whether there is a regular file without a byte."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and not status.st_size


def is_there(path: Path) -> bool:
    """Whether there is anything, as far as one may know."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether there is a folder, as far as one may know."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # the one above it may be listed and not entered
        return False


def is_file(path: Path) -> bool:
    """Whether there is a regular file, as far as one may know."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, size: int) -> bytes | None:
    """The content of a file of at most `size` bytes, None where there is none. Raises BadFile."""
    start = _read(path, size, whole=True)
    return None if start is None else start[0]


def read_start(path: Path, size: int) -> tuple[str, int] | None:
    """At most `size` bytes of a text, and how many the file has; None where there is no such file.

    Line ends become newlines, a byte order mark goes, bytes that are no UTF-8 become replacement characters.
    Raises BadFile.
    """
    start = _read(path, size, whole=False)
    return None if start is None else (_text(start[0][:size]), start[1])


def read_whole(path: Path, size: int) -> str | None:
    """The text of a file of at most `size` bytes, None where there is none. Raises BadFile."""
    data = read_bytes(path, size)
    return None if data is None else _text(data)


def _read(path: Path, size: int, *, whole: bool) -> tuple[bytes, int] | None:
    """The first bytes of a file without its byte order mark, and its size."""
    try:
        handle = open_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        if not path.is_symlink():
            return None
        raise BadFile(path, "is a symbolic link to nothing") from None
    except (OSError, ValueError) as error:
        raise BadFile(path, f"cannot be read: {_why(error)}") from None
    try:
        there = os.fstat(handle).st_size
        if whole and there > size + len(BOM):
            raise BadFile(path, f"expected at most {size} bytes, got {there}")
        return os.read(handle, size + len(BOM)).removeprefix(BOM), there
    except OSError as error:
        raise BadFile(path, f"cannot be read: {_why(error)}") from None
    finally:
        os.close(handle)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _why(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
