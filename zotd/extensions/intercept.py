"""Owns who observes and who decides: subscriptions of extensions, and the questions they are asked.

Interceptors are asked one after the other in load order; the first that blocks wins, and each sees what the
ones before it made of the arguments or the text. One that does not answer as it should lets the event pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from zotd.agent.ports import Allowed, Refused, Verdict
from zotd.base.limits import Limits
from zotd.base.log import log
from zotd.extensions.asking import AskFailed, ExtensionGone, NotReading
from zotd.extensions.panel_text import paragraphs
from zotd.extensions.text import within
from zotd.protocol.content import Text, ToolCall
from zotd.protocol.events import AssistantMessage, Event, ExtNotify, ToolCalled, TurnEnd, TurnStart
from zotd.protocol.frames import EventFrame, EventIntercept, InterceptResponse, Subscribe
from zotd.wire.codec import encode

if TYPE_CHECKING:
    from zotd.extensions.extension import Extension
    from zotd.extensions.surface import Surface


OBSERVABLE = ("session_start", "turn_start", "turn_end", "tool_call", "assistant_message")
INTERCEPTABLE = ("tool_call", "turn_start", "assistant_message")

_BLOCKED = {
    "tool_call": "tool call refused by extension {}",
    "turn_start": "turn blocked by extension {}",
    "assistant_message": "message withheld by extension {}",
}
"""What is said when an extension blocks without a reason."""


class Interception:
    """The subscriptions of one session. It is the loop's `Hooks`."""

    def __init__(self, surface: Surface, limits: Limits) -> None:
        self._surface = surface
        self._limits = limits
        self._observers: dict[str, list[Extension]] = {}
        self._interceptors: dict[str, list[Extension]] = {}
        self._started: dict[Extension, bool] = {}  # whether it was told that the session has started
        self._missed: dict[Extension, int] = {}
        self._dropped: dict[Extension, int] = {}

    # Subscriptions

    def subscribe(self, extension: Extension, frame: Subscribe) -> None:
        """Add to what `extension` observes and decides on; unknown names go to its log."""
        if extension.gone:
            return
        for wanted, known, of, what in (
            (frame.events, OBSERVABLE, self._observers, "events"),
            (frame.intercept, INTERCEPTABLE, self._interceptors, "intercept"),
        ):
            for name in dict.fromkeys(wanted):
                if name in known:
                    _enlist(of.setdefault(name, []), extension)
                else:
                    expected = ", ".join(known)
                    extension.remark(f"subscribe.{what}: {name!r} was ignored; expected one of: {expected}")
        if self._started.get(extension) is False:
            self._begin(extension)

    def release(self, extension: Extension) -> None:
        """It is gone: nobody asks it any more, and if it ended on its own, that is no secret."""
        decided = [name for name in INTERCEPTABLE if extension in self._interceptors.get(name, ())]
        if decided and extension.ended:
            self._warn(extension.name, f"{extension.ended}: it no longer decides on {', '.join(decided)}")
        for subscribed in (self._observers, self._interceptors):
            for name, extensions in [*subscribed.items()]:
                if extension in extensions:
                    extensions.remove(extension)
                if not extensions:
                    del subscribed[name]
        self._started.pop(extension, None)
        self._dropped.pop(extension, None)
        if missed := self._missed.pop(extension, 0):
            extension.remark(f"{missed} events were dropped because it did not read")

    def decisions(self) -> dict[str, list[str]]:
        """What each interceptor, by its name, decides on."""
        found: dict[str, list[str]] = {}
        for event, extensions in self._interceptors.items():
            for extension in extensions:
                found.setdefault(extension.name, []).append(event)
        return found

    # Observing

    def dropped(self, extension: Extension) -> int:
        """Events that it has missed so far because it did not read."""
        return self._dropped.get(extension, 0)

    def started(self, extension: Extension) -> None:
        """It is ready: tell it that the session has started, if it wants to know; more events follow."""
        self._started[extension] = False
        self._begin(extension)

    def observe(self, event: Event) -> None:
        """Hand an event to those who subscribed to it."""
        if not self._observers:
            return
        frame = _observed(event)
        if frame is not None:
            for extension in self._observers.get(frame.event, ()):
                if extension in self._started:
                    self._tell(extension, frame)

    def _begin(self, extension: Extension) -> None:
        if extension in self._observers.get("session_start", ()):
            self._started[extension] = True
            self._tell(extension, EventFrame(event="session_start"))

    def _tell(self, extension: Extension, frame: EventFrame) -> None:
        """Send an event; one that does not read misses it, which its log says once and then with a count."""
        missed = self._missed.get(extension, 0)
        try:
            extension.send(frame)
        except ExtensionGone:
            return
        except NotReading:
            if not missed:
                extension.remark("it does not read: events are dropped from here on")
                log("extension does not read", "warning", extension=extension.name)
            self._missed[extension] = missed + 1
            self._dropped[extension] = self.dropped(extension) + 1
        else:
            if missed:
                del self._missed[extension]
                extension.remark(f"it reads again: {missed} events were dropped")

    # Deciding

    def withholding(self) -> list[str]:
        """Who has to approve the next message."""
        return [extension.name for extension in self._interceptors.get("assistant_message", ())]

    async def turn_start(self, step: int) -> Verdict:
        """Before a model call. Whoever is attached is told why it was blocked."""
        if "turn_start" not in self._interceptors:
            return Allowed()
        said = await self._judge(EventIntercept(id="", event="turn_start", step=step))
        if isinstance(said, Refused):
            self._warn(said.by, said.reason)
            return said
        return Allowed()

    async def tool_call(self, call: ToolCall) -> Verdict:
        """Before a tool runs. The reason of a refusal is for the model."""
        if "tool_call" not in self._interceptors:
            return Allowed(args=call.args)
        said = await self._judge(
            EventIntercept(
                id="", event="tool_call", tool_id=call.id, tool_name=call.name, tool_args=call.args
            )
        )
        if isinstance(said, Refused):
            return said
        return Allowed(args=said.question.tool_args or {}, by=tuple(said.by))

    async def assistant_message(self, text: str) -> Verdict:
        """Before a text is shown. Whoever is attached is told why it was blocked."""
        said = await self._judge(EventIntercept(id="", event="assistant_message", text=text))
        if isinstance(said, Refused):
            self._warn(said.by, said.reason)
            return said
        return Allowed(text=said.question.text or "", by=tuple(said.by))

    async def _judge(self, question: EventIntercept) -> _Passed | Refused:
        """Ask one after the other, each about what the ones before it made of it."""
        passed = _Passed(question)
        for extension in tuple(self._interceptors.get(question.event, ())):
            answer = await self._answer(extension, passed.question)
            if answer is None:
                continue
            if answer.block:
                said = within(answer.reason, self._limits.note_bytes, extension.remark, "a reason")
                reason = paragraphs(said).strip() or _BLOCKED[question.event].format(extension.name)
                return Refused(reason, extension.name)
            if answer.reason:
                extension.remark(f"let a {question.event} pass: {answer.reason}")
            _rewrite(passed, extension, answer)
        return passed

    async def _answer(self, extension: Extension, question: EventIntercept) -> InterceptResponse | None:
        """What one extension says; None, of which whoever is attached is warned, when that is no answer.

        There is no warning about one that was told to end: it, or who comes in its place, is asked again.
        """
        try:
            return await extension.ask(question, self._limits.intercept_s, InterceptResponse)
        except AskFailed as failure:
            if not extension.dismissed:
                ids = {"session": extension.session_id, "extension": extension.name}
                log("interceptor gave no answer", "warning", **ids, on=question.event, reason=str(failure))
                self._warn(extension.name, f"{failure}: the {question.event} was allowed")
            return None

    def _warn(self, extension: str, message: str) -> None:
        self._surface.publish(ExtNotify(extension=extension, level="warn", message=message))


@dataclass(slots=True)
class _Passed:
    """What nobody refused so far, as it stands, and who changed it."""

    question: EventIntercept
    by: list[str] = field(default_factory=list)


def _rewrite(passed: _Passed, extension: Extension, answer: InterceptResponse) -> None:
    """Take over what an answer changes, where its event can be changed that way."""
    question = passed.question
    if question.event == "tool_call" and answer.modified_args is not None:
        if not isinstance(answer.modified_args, dict):
            extension.remark("modified_args was ignored: expected a JSON object")
        elif encode(answer.modified_args) != encode(
            question.tool_args
        ):  # in JSON, unlike here, 1 is not true
            passed.question = replace(question, tool_args=answer.modified_args)
            passed.by.append(extension.name)
    elif question.event == "assistant_message" and answer.replace_text not in ("", question.text):
        passed.question = replace(question, text=answer.replace_text)
        passed.by.append(extension.name)


def _enlist(extensions: list[Extension], extension: Extension) -> None:
    if extension not in extensions:
        extensions.append(extension)
        extensions.sort(key=lambda one: one.rank)


def _observed(event: Event) -> EventFrame | None:
    """What observers get for an event; None where there is nothing to tell, as of a message without words."""
    match event:
        case TurnStart(step=step):
            return EventFrame(event="turn_start", step=step)
        case TurnEnd(stop=stop, error=error):
            return EventFrame(event="turn_end", stop=stop, error=error)
        case ToolCalled(id=call_id, name=name, args=args):
            return EventFrame(event="tool_call", tool_id=call_id, tool_name=name, tool_args=args)
        case AssistantMessage(content=content):
            text = "".join(block.text for block in content if isinstance(block, Text))
            return EventFrame(event="assistant_message", text=text) if text else None
        case _:
            return None
