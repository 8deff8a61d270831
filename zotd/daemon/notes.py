"""Owns the notes of a session: what extensions show beside the conversation until somebody clears it."""

from __future__ import annotations

from collections.abc import Callable

from zotd.protocol.events import Event, ExtClearNotes, ExtNotify
from zotd.protocol.session import Note
from zotd.store.view import NotesInView


class Notes:
    """When notes go. A failure stands through prompts, until it is cleared expressly."""

    def __init__(self, publish: Callable[[Event], None], standing: NotesInView, kept: int) -> None:
        """publish: how an event leaves the session. standing: the notes as its events tell them.
        kept: failures that can stand at once.
        """
        self._publish = publish
        self._standing = standing
        self._kept = kept
        self._failures: list[ExtNotify] = []

    def fail(self, extension: str, message: str) -> None:
        """Show a failure that stands until `clear`."""
        failure = ExtNotify(extension=extension, level="error", message=message)
        self._failures.append(failure)
        del self._failures[: -self._kept]
        self._publish(failure)

    def prompted(self) -> None:
        """The user went on: every note goes, failures stay."""
        failures = [
            Note(extension=each.extension, text=each.message, level="error") for each in self._failures
        ]
        self._clear([note.extension for note in self._standing.rows() if note not in failures])

    def renewed(self) -> None:
        """What failed is tried again: failures go, and with them the other notes of their owners."""
        owners = [failure.extension for failure in self._failures]
        self._failures.clear()
        self._clear(owners)

    def clear(self) -> None:
        """Everything goes."""
        self._failures.clear()
        self._clear([note.extension for note in self._standing.rows()])

    def follow(self, event: Event) -> list[Event]:
        """What has to be published right after an event: failures that a client cleared with other notes."""
        if not isinstance(event, ExtClearNotes):
            return []
        return [failure for failure in self._failures if failure.extension == event.extension]

    def _clear(self, owners: list[str]) -> None:
        for extension in dict.fromkeys(owners):
            self._publish(ExtClearNotes(extension=extension))
