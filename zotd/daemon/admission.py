"""Owns how much extensions may still submit once nobody who is attached asks for more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zotd.protocol.events import Event, ExtNotify


class Admission:
    """Without it, a command that submits itself would keep a run alive that has said all it had to say."""

    def __init__(self, most: int, publish: Callable[[Event], None]) -> None:
        """most: what is still taken then. publish: how it is told that something was not."""
        self._most = most
        self._publish = publish
        self._ending = 0
        self._left = 0

    @contextmanager
    def ending(self) -> Iterator[None]:
        """While a client asks for nothing more, and waits."""
        self._ending += 1
        self._left = self._most
        try:
            yield
        finally:
            self._ending -= 1

    def takes(self, extension: str, clients: int) -> bool:
        """Whether what an extension submits counts. clients: how many are attached."""
        if self._ending < max(1, clients):
            return True
        self._left -= 1
        if self._left == -1:
            message = f"what extension {extension} submits is ignored: the run is ending"
            self._publish(ExtNotify(extension="zotd", level="warn", message=message))
        return self._left >= 0
