"""Owns the wait for those who decided before a reload and have not come back from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping


class Absent:
    """Who took part in decisions before the extensions were stopped, until it is back or will never be.

    Whoever has failed since then is not waited for. It stays absent nevertheless: people are to know that
    nobody stands where somebody stood.
    """

    def __init__(
        self, within: float, coming: Callable[[str], bool], warn: Callable[[str, str], None]
    ) -> None:
        """within: seconds that one decision waits. coming: whether an extension may come back by itself.

        warn: tells whoever is attached, of an extension, a sentence.
        """
        self._within = within
        self._coming = coming
        self._warn = warn
        self._decided: dict[str, set[str]] = {}
        self._fallen: dict[str, set[str]] = {}
        self._warned: set[tuple[str, str]] = set()
        self._stirred = asyncio.Event()

    def __bool__(self) -> bool:
        """Whether anybody is absent, which is so only for a while after a reload."""
        return bool(self._decided)

    def fell(self, extension: str, events: Iterable[str]) -> None:
        """It ended by itself, which people were told; the next reload is to bring it back."""
        if events := set(events):
            self._fallen[extension] = events

    def remember(self, decided: Mapping[str, Iterable[str]]) -> None:
        """These extensions, which decide on these kinds of events, are stopped for a reload."""
        for extension, events in (*self._fallen.items(), *decided.items()):
            self._decided.setdefault(extension, set()).update(events)
        self._fallen.clear()

    def expect(self, extensions: Container[str]) -> None:
        """Whoever is not among these was taken away by the user, and is not missed."""
        for extension in [extension for extension in self._decided if extension not in extensions]:
            self.back(extension)

    def back(self, extension: str) -> None:
        """It is up again: from now on its subscriptions say what it decides on."""
        self._decided.pop(extension, None)
        self._warned = {(whose, event) for whose, event in self._warned if whose != extension}
        self._stirred.set()

    def changed(self) -> None:
        """An extension came to another state."""
        self._stirred.set()

    def withholding(self) -> list[str]:
        """Whose approval of the next message is waited for, or will be missed for the first time."""
        event = "assistant_message"
        return [
            extension
            for extension in self._missing(event)
            if self._coming(extension) or (extension, event) not in self._warned
        ]

    async def wait(self, event: str) -> None:
        """Until all who used to decide on this kind of event are back or have failed, within the bound."""
        try:
            async with asyncio.timeout(self._within):
                while any(self._coming(extension) for extension in self._missing(event)):
                    self._stirred.clear()
                    await self._stirred.wait()
        except TimeoutError:
            return

    def allowed(self, event: str) -> None:
        """It was decided without those who are absent. That is told once for each kind of event."""
        for extension in self._missing(event):
            if (extension, event) not in self._warned:
                self._warned.add((extension, event))
                self._warn(
                    extension,
                    f"extension {extension} has not come back from a reload: the {event} was allowed",
                )

    def _missing(self, event: str) -> list[str]:
        return [extension for extension, events in self._decided.items() if event in events]
