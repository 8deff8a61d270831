"""Owns the words of asking: what can be asked of an extension, what answers it, and how that fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from functools import partial
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
        self._deadlines: dict[str, Deadline] = {}
        self._paused = False

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
            self._deadlines[number] = deadline = Deadline(within, partial(self._give_up, number, within))
            if not self._paused:
                deadline.go()
        try:
            got = await waiter
        except (NoAnswer, asyncio.CancelledError) as over:
            if isinstance(over, NoAnswer):
                self._remark(f"no answer to {tag(question)} {number} within {within:g} s")
            if call_off:
                with suppress(AskFailed):
                    self._send(ToolCancel(id=number, session_id=question.session_id))
            raise
        finally:
            self.heard(number)
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
        if (deadline := self._deadlines.pop(number, None)) is not None:
            deadline.stop()

    def pause(self) -> None:
        """Nothing is read from the extension: that time does not count against it."""
        self._paused = True
        for deadline in self._deadlines.values():
            deadline.stop()

    def resume(self) -> None:
        """It is heard again."""
        self._paused = False
        for deadline in self._deadlines.values():
            deadline.go()

    def fail(self, why: str) -> None:
        """No answer will come any more: everybody who waits is told at once."""
        for number in tuple(self._waiting):
            self.answered(number, ExtensionGone(why))

    def _give_up(self, number: str, within: float) -> None:
        self.answered(number, NoAnswer(f"extension {self._extension} did not answer within {within:g} s"))


class Deadline:
    """Seconds for an answer. They count only while this process listens, whatever keeps it from doing so.

    They are counted in ticks: one that comes late shows that the event loop was held up, so that an answer
    may lie unread, and does not count.
    """

    TICK_S = 0.25

    def __init__(self, seconds: float, over: Callable[[], None]) -> None:
        """over: called once the time is up. It is not counted before `go`."""
        self._left = seconds
        self._over = over
        self._tick: asyncio.TimerHandle | None = None

    def go(self) -> None:
        """Count on."""
        if self._tick is None:
            step = min(self._left, self.TICK_S)
            self._tick = asyncio.get_running_loop().call_later(step, self._passed, step)

    def stop(self) -> None:
        """Count no further. The tick that has begun is forgotten."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None

    def _passed(self, step: float) -> None:
        assert self._tick is not None
        late = asyncio.get_running_loop().time() - self._tick.when()
        self._tick = None
        if late < self.TICK_S:
            self._left -= step
        if self._left > 0:
            self.go()
        else:
            self._over()


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
