"""Owns what zotd alone has made on a machine, beside the user's own files: naming it, and taking it away.

No symbolic link is followed on the way: what one leads to is somebody's who did not mean it to be removed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

RUN_FILES = ("zotd.sock", "start.lock", "zotd.lock", "zotd.pid")
UNDO = ".undo"
_LOG = re.compile(r"zotd\.log(\.\d+)?")
"""Names of logs that zotd makes: what a person has put beside them is not to go."""
FOLDERS = ("logs", "models")
"""Those that zotd makes for its own files; others may put theirs there."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Leftover(NamedTuple):
    """A file, or a directory with all that is in it. root: the directory from which no link is followed.

    emptied: it is a directory, which goes when those named before it were all that is in it.
    """

    root: Path
    names: tuple[str, ...]
    size: int
    emptied: bool = False

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.names)


def made_by_zotd(home: Path) -> list[Leftover]:
    """What lies under `$ZOT_HOME` that neither the user nor zot has made."""
    from zotd.daemon.permission_file import PERMISSIONS
    from zotd.project.trust import TRUSTED
    from zotd.providers.weights import KNOWN

    names: list[tuple[str, ...]] = [
        (name,) for name in (PERMISSIONS, f"{PERMISSIONS}.lock", TRUSTED, f"{TRUSTED}.lock")
    ]
    names += [("logs", name) for name in _inside(home, "logs") if _LOG.fullmatch(name)]
    names += [weights.path(home).relative_to(home).parts for weights in KNOWN]
    for folder in _inside(home, "sessions"):
        there = _inside(home, "sessions", folder)
        kept = [
            name for name in there if name.endswith(UNDO) and (home / "sessions" / folder / name).is_dir()
        ]
        names += [("sessions", folder, name) for name in kept]
    return [*_there(home, names), *_emptied(home, names)]


def run_files(place: Path) -> list[Leftover]:
    """What daemons, and who starts them, have made in the run directory; then itself, if no more is there."""
    there = _inside(place.parent, place.name)
    ours = [(place.name, name) for name in there if name in RUN_FILES]
    itself: list[tuple[str, ...]] = [(place.name,)] if len(there) == len(ours) else []
    return list(_there(place.parent, [*ours, *itself]))


def size_of_all(leftovers: Iterable[Leftover]) -> int:
    return sum(one.size for one in leftovers)


def remove(one: Leftover) -> None:
    """Take it away. Raises OSError, with what could not be removed left."""
    from shutil import rmtree

    with _opened(one.root, one.names[:-1]) as folder:
        name = one.names[-1]
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            if name.endswith(UNDO):
                rmtree(name, dir_fd=folder)
            else:  # what somebody has put into it meanwhile keeps it there
                os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def _there(root: Path, names: Iterable[tuple[str, ...]]) -> Iterator[Leftover]:
    for each in names:
        with suppress(OSError), _opened(root, each[:-1]) as folder:
            yield Leftover(root, each, _size(folder, each[-1]))


def _emptied(root: Path, names: Iterable[tuple[str, ...]]) -> Iterator[Leftover]:
    """The folders in which nothing is but files of those names."""
    ours = set(names)
    for folder in FOLDERS:
        with suppress(OSError), _opened(root, (folder,)):
            if all((folder, name) in ours for name in _inside(root, folder)):
                yield Leftover(root, (folder,), 0, emptied=True)


def _inside(root: Path, *folders: str) -> list[str]:
    """Names in a directory; none where there is no such thing, or a link on the way."""
    try:
        with _opened(root, folders) as folder:
            return sorted(os.listdir(folder))  # noqa: PTH208 - of a descriptor
    except OSError:
        return []


def _size(folder: int, name: str) -> int:
    """Bytes of a file, or of all files in a directory. Raises OSError where there is none."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size
    total = 0
    for _, _, files, inner in os.fwalk(name, dir_fd=folder):
        total += sum(os.stat(file, dir_fd=inner, follow_symlinks=False).st_size for file in files)
    return total


@contextmanager
def _opened(root: Path, folders: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of a directory below `root`, reached without a link below it. Raises OSError."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in folders:
            inner = os.open(name, _DIRECTORY, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)
