"""Owns the notes of a session: what extensions show beside the conversation until somebody clears it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from zotd.protocol.events import Event, ExtClearNotes, ExtDisplay, ExtNotify


class Notes:
    """The fold of a session's notes. A failure stands through prompts, until it is cleared expressly."""

    def __init__(self, publish: Callable[[Event], None], kept: int, most: int) -> None:
        """publish: how an event leaves the session. kept: notes that can stand at once. most: their bytes."""
        self._publish = publish
        self._kept = kept
        self._most = most
        self._bytes = 0
        self._rows: deque[tuple[dict[str, Any], ExtNotify | ExtDisplay, int]] = deque()
        self._failures: list[ExtNotify] = []

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The events that made the notes which stand, oldest first, for somebody who comes later."""
        return [wire for wire, _, _ in self._rows]

    def fail(self, extension: str, message: str) -> None:
        """Show a failure that stands until `clear`."""
        failure = ExtNotify(extension=extension, level="error", message=message)
        self._failures.append(failure)
        del self._failures[: -self._kept]
        self._publish(failure)

    def prompted(self) -> None:
        """The user went on: every note goes, failures stay."""
        self._clear([event.extension for _, event, _ in self._rows if event not in self._failures])

    def renewed(self) -> None:
        """What failed is tried again: failures go, and with them the other notes of their owners."""
        owners = [failure.extension for failure in self._failures]
        self._failures.clear()
        self._clear(owners)

    def clear(self) -> None:
        """Everything goes."""
        self._failures.clear()
        self._clear([event.extension for _, event, _ in self._rows])

    def fold(self, event: Event, wire: dict[str, Any]) -> list[Event]:
        """Take an event that is about to leave. Returns what has to be published right after it.

        That is what a client which clears all notes of an extension has to be shown again.
        """
        if isinstance(event, ExtNotify | ExtDisplay):
            size = _size(event)
            self._rows.append((wire, event, size))
            self._bytes += size
            while len(self._rows) > self._kept or self._bytes > self._most:
                self._drop_oldest()
        elif isinstance(event, ExtClearNotes):
            self._rows = deque(row for row in self._rows if row[1].extension != event.extension)
            self._bytes = sum(size for _, _, size in self._rows)
            return [failure for failure in self._failures if failure.extension == event.extension]
        return []

    def _drop_oldest(self) -> None:
        """Failures last."""
        at = 0
        if self._failures:
            passing = (at for at, (_, row, _) in enumerate(self._rows) if row not in self._failures)
            at = next(passing, 0)
        self._bytes -= self._rows[at][2]
        del self._rows[at]

    def _clear(self, owners: list[str]) -> None:
        for extension in dict.fromkeys(owners):
            self._publish(ExtClearNotes(extension=extension))


def _size(event: ExtNotify | ExtDisplay) -> int:
    text = event.message if isinstance(event, ExtNotify) else event.text
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
