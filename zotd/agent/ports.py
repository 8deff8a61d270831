"""Owns the small protocols through which the loop meets models and tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from zotd.protocol.content import Image, Message, StopReason, Text, ToolCall, Usage
from zotd.protocol.events import TextDelta, ThinkingDelta, ToolUseArgs, ToolUseEnd, ToolUseStart


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool hands back: blocks for the model, and `details` (JSON values) for front ends."""

    content: list[Text | Image]
    is_error: bool = False
    details: dict[str, Any] = field(default_factory=dict)


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
    """The model's side failed. `kind` is a stable word for programs, `hint` tells a person what to do."""

    def __init__(
        self, message: str, *, kind: str = "provider_error", hint: str = "", status: int = 0
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint
        self.status = status
