"""Owns the words of asking: what can be asked of an extension, what answers it, and how that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from zotd.protocol.frames import (
    CommandInvoked,
    CommandResponse,
    EventIntercept,
    InterceptResponse,
    ToolCallFrame,
    ToolResultFrame,
)

Question: TypeAlias = CommandInvoked | ToolCallFrame | EventIntercept
Answer: TypeAlias = CommandResponse | ToolResultFrame | InterceptResponse
AnyAnswer = TypeVar("AnyAnswer", CommandResponse, ToolResultFrame, InterceptResponse)


class AskFailed(Exception):
    """An extension did not answer as it should; the message is for the person who waits."""


class ExtensionGone(AskFailed):
    """Its process is not there, or ended while somebody waited."""


class NotReading(AskFailed):
    """Too much waits to be read by it already."""


class NoAnswer(AskFailed):
    """The time for an answer is over."""


class WrongAnswer(AskFailed):
    """It answered, but not with what was asked for."""


class RunningCalls:
    """How many tool calls of one extension run, and the wait for the last of them."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()

    @contextmanager
    def counting(self, question: Question) -> Iterator[None]:
        """Count it as running for as long as this lasts, if it is the call of a tool."""
        if not isinstance(question, ToolCallFrame):
            yield
            return
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def ended(self) -> None:
        """Until none runs."""
        while self._count:
            self._none.clear()
            await self._none.wait()
