"""Owns the question whether the program on disk is still the one that runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator


class Installation:
    """What was imported by now of ours and of the libraries beside it, by the identity of each file.

    An installer replaces files, so that a look at those is enough: whatever is imported later would be of
    another version than what runs.
    """

    def __init__(self, again_s: float) -> None:
        """again_s: so long a look counts for: hundreds of clients may come in a second."""
        self._again_s = again_s
        self._files = {path: _identity(path) for path in _imported()}
        self._looked = -again_s

    def loaded(self) -> None:
        """More was imported: a look is at that too from here."""
        for path in _imported():
            if path not in self._files:
                self._files[path] = _identity(path)

    def changed(self) -> bool:
        """Whether one of them was replaced, changed or removed. A look takes less than a millisecond."""
        now = time.monotonic()
        if now - self._looked < self._again_s:
            return False
        self._looked = now
        return any(_identity(path) != before for path, before in self._files.items())


def _imported() -> Iterator[str]:
    """Modules that do not come with Python, and Python itself."""
    yield sys.executable
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name.partition(".")[0] not in sys.stdlib_module_names:
            yield path


def _identity(path: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
