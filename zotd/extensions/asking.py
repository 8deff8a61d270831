"""Owns the words of asking: what can be asked of an extension, what answers it, and how that fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from zotd.protocol.frames import (
    CommandInvoked,
    CommandResponse,
    EventIntercept,
    FromExtension,
    FromHost,
    InterceptResponse,
    ToolCallFrame,
    ToolCancel,
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


class Questions:
    """What one extension was asked and has not answered yet. Ids are unique among its questions."""

    def __init__(
        self, extension: str, send: Callable[[FromHost], None], remark: Callable[[str], None]
    ) -> None:
        """send: raises ExtensionGone or NotReading. remark: a line in the extension's log."""
        self._extension = extension
        self._send = send
        self._remark = remark
        self._ids = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._deadlines = Deadlines(self._give_up)

    async def ask(
        self, question: Question, within: float | None, answer: type[AnyAnswer], *, call_off: bool
    ) -> AnyAnswer:
        """As `Extension.ask`. call_off: whether to tell it when nobody waits for the answer any more."""
        loop = asyncio.get_running_loop()
        number = str(next(self._ids))
        waiter: asyncio.Future[Answer] = loop.create_future()
        self._send(replace(question, id=number))
        self._waiting[number] = waiter
        if within is not None:
            self._deadlines.start(number, within)
        try:
            got = await waiter
        except (NoAnswer, asyncio.CancelledError) as over:
            if isinstance(over, NoAnswer):
                self._remark(f"no answer to {tag(question)} {number} within {within:g} s")
                over = NoAnswer(f"extension {self._extension} did not answer within {within:g} s")
            if call_off:
                with suppress(AskFailed):
                    self._send(ToolCancel(id=number, session_id=question.session_id))
            raise over from None
        finally:
            self._deadlines.stop(number)
            self._waiting.pop(number, None)
        if not isinstance(got, answer):
            raise WrongAnswer(f"extension {self._extension} answered with {tag(got)}")
        return got

    def answered(self, number: str, answer: Answer | AskFailed) -> bool:
        """Hand an answer to who waits for it; whether anybody did."""
        waiter = self._waiting.get(number)
        if waiter is None or waiter.done():
            return False
        if isinstance(answer, AskFailed):
            waiter.set_exception(answer)
        else:
            waiter.set_result(answer)
        return True

    def heard(self, number: str) -> None:
        """The answer has come, though nobody was handed it yet: its time is no longer counted."""
        self._deadlines.stop(number)

    def pause(self) -> None:
        """Nothing is read from the extension: that time does not count against it."""
        self._deadlines.pause()

    def resume(self) -> None:
        """It is heard again."""
        self._deadlines.resume()

    def fail(self, why: str) -> None:
        """No answer will come any more: everybody who waits is told at once."""
        for number in tuple(self._waiting):
            self.answered(number, ExtensionGone(why))

    def _give_up(self, number: str) -> None:
        self.answered(number, NoAnswer(f"extension {self._extension} did not answer"))


class Deadlines:
    """Seconds that answers may take. They count only while this process listens, whatever keeps it from that.

    One alarm serves all of them, and rings at least every `TICK_S`: when it comes late, the event loop was
    held up, so that answers may lie unread, and that time does not count. A question whose answer comes
    before the next ring costs no timer.
    """

    TICK_S = 0.25

    def __init__(self, over: Callable[[str], None]) -> None:
        """over: called with the number whose time is up."""
        self._over = over
        self._at: dict[str, float] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._paused: float | None = None

    def start(self, number: str, seconds: float) -> None:
        """Count from now on."""
        now = asyncio.get_running_loop().time()
        self._at[number] = at = now + seconds if self._paused is None else self._paused + seconds
        if self._paused is None and (self._alarm is None or at < self._alarm.when()):
            self._arm(now, at)

    def stop(self, number: str) -> None:
        """Its time does not matter any more."""
        self._at.pop(number, None)

    def pause(self) -> None:
        """Nobody listens: no time counts."""
        self._paused = asyncio.get_running_loop().time()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def resume(self) -> None:
        """Count on."""
        now = asyncio.get_running_loop().time()
        if self._paused is not None:
            self._shift(now - self._paused)
        self._paused = None
        if self._at:
            self._arm(now, min(self._at.values()))

    def _arm(self, now: float, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        when = min(at, now + self.TICK_S)
        self._alarm = asyncio.get_running_loop().call_at(when, self._ring, when)

    def _ring(self, when: float) -> None:
        self._alarm = None
        now = asyncio.get_running_loop().time()
        if now - when >= self.TICK_S:
            self._shift(now - when)
        for number in [number for number, at in self._at.items() if at <= now]:
            del self._at[number]
            self._over(number)
        if self._at:
            self._arm(now, min(self._at.values()))

    def _shift(self, seconds: float) -> None:
        self._at = {number: at + seconds for number, at in self._at.items()}


def tag(frame: FromExtension | FromHost) -> str:
    """The `type` of a frame."""
    return str(frame.__struct_config__.tag)


class RunningCalls:
    """How many tool calls of one extension run, and the wait for the last of them."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self._none.set()

    async def ended(self) -> None:
        """Until none runs."""
        while self._count:
            self._none.clear()
            await self._none.wait()
