"""Owns the conversation as models see it, and the message that is being assembled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import Any, Final, overload

from msgspec.structs import replace

from zotd.agent.ports import ProviderEvent, Record
from zotd.protocol.content import Block, Message, Role, Text, Thinking, ToolCall, ToolResult, Usage
from zotd.protocol.events import TextDelta, ThinkingDelta, ToolUseArgs, ToolUseStart

MAX_DEPTH = 200
"""Levels of a tool call's arguments. Deeper ones could not be shown whole to those who decide on the call."""

SUMMARY_MARK: Final = "summary"
"""Member of `Message.meta` that tells a summary from a prompt."""

SUMMARY_HEADING: Final = (
    "[The earlier part of this conversation was replaced by this summary of it. The messages after it are "
    "the conversation itself.]"
)
"""What models read ahead of a summary."""


class Transcript:
    """Messages in order. After every finished turn each tool call has exactly one result.

    `clock` gives the time of a message, RFC 3339 UTC. What changes is written to `record`, where there is
    one, before the call returns: whoever announces it afterwards announces what will still be there. When
    that fails the call raises NotKept, and the change stands all the same.
    """

    def __init__(self, clock: Callable[[], str]) -> None:
        self.messages: list[Message] = []
        self.usage = Usage()
        self.used = 0
        """Tokens of the last request with its answer; 0 while no request has held these messages."""
        self.first_id = 1
        """The ordinal of the first message. It grows past all that were there when they are replaced."""
        self.record: Record | None = None
        self.turn_id = ""
        """The turn that adds rows; each says so in its `meta`."""
        self._clock = clock

    def restore(self, messages: Sequence[Message], first_id: int, usage: Usage, used: int = 0) -> None:
        """Go on from what was written down once; nothing of it is written again."""
        self.messages = list(messages)
        self.first_id = first_id
        self.usage = usage
        self.used = used

    def append(
        self,
        role: Role,
        content: Sequence[Block],
        added_tools: Sequence[str] = (),
        *,
        shown: str | None = None,
        meta: Mapping[str, str] | None = None,
    ) -> Message:
        """Add a row; `added_tools` names the tools that the model is told about from it on.

        shown: what was approved in place of the text; None when all is shown as it is.
        meta: what else is to be known of the row. Raises NotKept.
        """
        told = {"turn_id": self.turn_id} if self.turn_id else {}
        if shown is not None:
            told["shown"] = shown
        message = Message(
            role=role,
            content=list(content),
            time=self._clock(),
            meta={**told, **(meta or {})},
            added_tool_names=list(added_tools),
        )
        self.messages.append(message)
        if self.record is not None:
            self.record.message(message)
        return message

    def early(self, result: ToolResult) -> None:
        """One result of a batch whose row is still to come. Raises NotKept."""
        if self.record is not None:
            self.record.result(result)

    def account(self, usage: Usage) -> None:
        """A model call cost this. Raises NotKept."""
        self.usage += usage
        if self.record is not None:
            self.record.usage(usage, self.usage)

    def rows(self) -> Sequence[Message]:
        """The messages as they are now, however many follow. It costs the same for any number of them."""
        return _Rows(self.messages, len(self.messages))

    @property
    def last_id(self) -> int:
        """The ordinal of the last message that there is or was."""
        return self.first_id + len(self.messages) - 1

    def now(self) -> str:
        """The time a message would get."""
        return self._clock()

    def clear(self) -> None:
        """Forget the messages; what they cost stays counted. Raises NotKept, and then all stays as it was."""
        self.compact([])

    def compact(self, messages: Sequence[Message]) -> None:
        """Put these rows, which get new ordinals, in place of all there are.

        Raises NotKept, and then all stays as it was.
        """
        if self.record is not None:
            self.record.compaction(messages, or_never=True)
        self._replace(messages)

    def _replace(self, messages: Sequence[Message]) -> None:
        self.first_id += len(self.messages)
        self.messages = list(messages)
        self.used = 0


class _Rows(Sequence[Message]):
    """The first `count` of a list that only grows: whoever replaces messages makes another list."""

    def __init__(self, messages: list[Message], count: int) -> None:
        self._messages = messages
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        if isinstance(at, slice):
            return self._messages[: self._count][at]
        return self._messages[range(self._count)[at]]

    def __iter__(self) -> Iterator[Message]:
        return islice(self._messages, self._count)


def shown(message: Message) -> Message:
    """A message as people may see it; the same one unless extensions had to approve its text.

    Then it has the approved text where the first text was, its calls, and no thinking.
    """
    approved = message.meta.get("shown")
    if approved is None:
        return message
    content: list[Block] = []
    for block in message.content:
        if isinstance(block, Text):
            if approved:
                content.append(Text(approved))
            approved = ""
        elif not isinstance(block, Thinking):
            content.append(block)
    return replace(message, content=content, meta={})


def summary_in(message: Message) -> str | None:
    """The summary that a row is, as people read it; None for a row that was said."""
    if SUMMARY_MARK not in message.meta:
        return None
    return message.text.removeprefix(SUMMARY_HEADING).strip()


def is_prompt(message: Message) -> bool:
    """Whether the user said it."""
    return message.role == "user" and SUMMARY_MARK not in message.meta


def typed(message: Message) -> str:
    """The words of a prompt: its first text. What an editor adds as context is another one."""
    return next((block.text for block in message.content if isinstance(block, Text)), "")


class Draft:
    """An assistant message while it streams. Text and thoughts keep the order in which they came."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._calls: dict[str, _Part] = {}

    def add(self, event: ProviderEvent) -> None:
        """Take in one event of the stream; ends of calls and of the stream change nothing."""
        match event:
            case TextDelta(delta=delta):
                self._tail("text").pieces.append(delta)
            case ThinkingDelta(delta=delta):
                self._tail("thinking").pieces.append(delta)
            case ToolUseStart(id=call_id, name=name):
                self._calls[call_id] = part = _Part("call", call_id, name)
                self._parts.append(part)
            case ToolUseArgs(id=call_id, delta=delta):
                self._calls[call_id].pieces.append(delta)
            case _:
                pass

    def blocks(self) -> list[Block]:
        """The whole message."""
        return [block for part in self._parts if (block := part.block()) is not None]

    def text(self) -> str:
        """The words, without thoughts and calls."""
        return "".join(block.text for block in self.blocks() if isinstance(block, Text))

    def spoken(self) -> list[Block]:
        """The message without tool calls: what is kept of one that was cut off."""
        return [block for block in self.blocks() if not isinstance(block, ToolCall)]

    def _tail(self, kind: str) -> _Part:
        if not self._parts or self._parts[-1].kind != kind:
            self._parts.append(_Part(kind))
        return self._parts[-1]


class _Part:
    __slots__ = ("call_id", "kind", "name", "pieces")

    def __init__(self, kind: str, call_id: str = "", name: str = "") -> None:
        self.kind = kind
        self.call_id = call_id
        self.name = name
        self.pieces: list[str] = []

    def block(self) -> Block | None:
        joined = "".join(self.pieces)
        if self.kind == "call":
            return _tool_call(self.call_id, self.name, joined)
        if not joined:
            return None
        return Text(joined) if self.kind == "text" else Thinking(joined)


def _tool_call(call_id: str, name: str, raw: str) -> ToolCall:
    args = _json_object(raw or "{}")
    if args is not None:
        return ToolCall(id=call_id, name=name, args=args)
    return ToolCall(id=call_id, name=name, args={}, raw_args=raw)


def _json_object(raw: str) -> dict[str, Any] | None:
    """The object in `raw`; None for anything else, and for what not everybody who is to see it could read."""
    try:
        value = json.loads(raw, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or (raw.count("[") + raw.count("{") > MAX_DEPTH and _deep(value)):
        return None
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is no number in JSON")
    return number


def _deep(value: Any) -> bool:
    """Whether it has more than `MAX_DEPTH` levels; counted without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [item for items in level for item in (items.values() if isinstance(items, dict) else items)]
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return False
    return True
