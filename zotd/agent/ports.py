"""Owns the small protocols through which the loop meets models and tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from zotd.protocol.content import Image, Message, StopReason, Text, ToolCall, ToolResult, Usage
from zotd.protocol.events import TextDelta, ThinkingDelta, ToolUseArgs, ToolUseEnd, ToolUseStart


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool hands back: blocks for the model, and `details` (JSON values) for front ends.

    activate: names of deferred tools that the model is told about from now on.
    """

    content: list[Text | Image]
    is_error: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    activate: tuple[str, ...] = ()


class ToolFailed(Exception):
    """A tool could not do its work; the message is written for the model."""


class Tool(Protocol):
    """Something the model can call. `schema` is a JSON Schema object for the arguments."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> dict[str, Any]: ...

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolOutcome:
        """Do it. `progress` shows output while it runs. Cancelling the awaiting task aborts the call.

        Raises ToolFailed, or anything else, to make an error result of the exception's text.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. `reasoning` is a level of `--reasoning`, empty for off."""

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[Tool]
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a model's message: why it stopped and what it cost."""

    stop: StopReason
    usage: Usage


ProviderEvent: TypeAlias = TextDelta | ThinkingDelta | ToolUseStart | ToolUseArgs | ToolUseEnd | Finish


class Provider(Protocol):
    """A model behind an API. Calls of one message are told apart by their id; `Finish` comes last, once."""

    @property
    def id(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """The answer as it arrives. Raises ProviderError."""
        ...

    async def close(self) -> None:
        """Give back connections and processes."""
        ...


class ProviderError(Exception):
    """The model's side failed. `kind` is a stable word for programs, `hint` tells a person what to do.

    quotes: the message holds words that came in the middle of an answer, which may be the model's.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "provider_error",
        hint: str = "",
        status: int = 0,
        quotes: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint
        self.status = status
        self.quotes = quotes


@dataclass(frozen=True, slots=True)
class Allowed:
    """Go on. `args` are those of a tool call as they are to be used, `text` a message as it is to be shown;
    whichever was judged is set. `by` names who changed it, in order; empty when nobody did.
    """

    args: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Do not. `reason` is for the model (a tool call) or the user; `by` is who says so."""

    reason: str
    by: str


class Denied(Refused):
    """The user, a rule of the user's, or nobody who could be asked: a call was not approved."""

    __slots__ = ()


Verdict: TypeAlias = Allowed | Refused


class NotKept(Exception):
    """What has to last could not be written. `path` is the file, `reason` what is wrong."""

    kind = "storage"

    def __init__(self, path: Path, reason: str) -> None:
        from zotd.base.files import MAKE_ROOM

        super().__init__(f"{path} cannot be written: {reason}")
        self.path = path
        self.reason = reason
        self.hint = f"{MAKE_ROOM}; the next prompt writes what is missing"


class Record(Protocol):
    """Where a conversation is written down. Each call returns once a crash of this process loses nothing.

    All raise NotKept. What could not be written then is written first the next time.
    """

    def message(self, message: Message) -> None:
        """A row was added."""
        ...

    def result(self, result: ToolResult) -> None:
        """A tool answered. The row of its whole batch, which has it too, is still to come."""
        ...

    def usage(self, usage: Usage, cumulative: Usage) -> None:
        """A model was paid."""
        ...

    def compaction(self, messages: Sequence[Message], *, or_never: bool = False) -> None:
        """These messages stand in place of all that came before.

        or_never: what cannot be written now is not written later either.
        """
        ...


class Hooks(Protocol):
    """Who may stop or change what the loop is about to do. Each answers within a bound of its own."""

    def withholding(self) -> list[str]:
        """Who has to approve the next assistant message before a character of it is shown."""
        ...

    async def turn_start(self, step: int) -> Verdict:
        """Before the model is called for step `step`, from 1."""
        ...

    async def tool_call(self, call: ToolCall) -> Verdict:
        """Before a tool runs."""
        ...

    async def assistant_message(self, text: str) -> Verdict:
        """Before a message with this text, which is not empty, is shown."""
        ...
