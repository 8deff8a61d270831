"""Owns messages and the blocks they are made of, shared by models, tools, extensions and clients."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

StopReason: TypeAlias = Literal["end_turn", "tool_use", "length", "error", "aborted"]
Role: TypeAlias = Literal["user", "assistant", "tool"]


class Text(Struct, frozen=True, tag_field="type", tag="text"):
    """Words.

    text: UTF-8 text; empty is legal.

    Example: {"type":"text","text":"hello"}
    """

    text: str


class Image(Struct, frozen=True, tag_field="type", tag="image"):
    """A picture. The zot dialect shows `bytes`, a count, in place of `data`.

    mime_type: such as `image/png`.
    data: the picture, base64.

    Example: {"type":"image","mime_type":"image/png","data":"iVBORw0KGgo="}
    """

    mime_type: str
    data: str


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking"):
    """What a reasoning model thought before it answered.

    text: the model's own words.

    Example: {"type":"thinking","text":"The file is short; read it whole."}
    """

    text: str


class ToolCall(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_call"):
    """A tool the model wants run.

    id: correlates the call with its result; unique in the transcript.
    name: of the tool.
    args: the parsed arguments, `{}` when the model's text was no JSON object.
    raw_args: that text, set only when it was no JSON object; such a call is answered with an error.

    Example: {"type":"tool_call","id":"toolu_1","name":"bash","args":{"command":"echo hi"}}
    """

    id: str
    name: str
    args: dict[str, Any]
    raw_args: str = ""


class ToolResult(Struct, frozen=True, tag_field="type", tag="tool_result"):
    """What a tool answered.

    call_id: the `id` of the call.
    is_error: whether the call failed.
    content: text and images.

    Example: {"type":"tool_result","call_id":"toolu_1","is_error":false,"content":[{"type":"text","text":"hi"}]}
    """  # noqa: E501

    call_id: str
    is_error: bool
    content: list[Text | Image]


Block: TypeAlias = Text | Image | Thinking | ToolCall | ToolResult


class Message(Struct, frozen=True, omit_defaults=True):
    """One row of a conversation.

    role: `user`, `assistant`, or `tool` for the results of one batch of calls.
    content: its blocks, as the model knows them.
    time: when it was complete, RFC 3339 UTC.
    meta: `shown`: the text that was shown instead of the text blocks, empty when none was.
    added_tool_names: deferred tools that the model is told about from this row on.

    Example: {"role":"user","content":[{"type":"text","text":"hello"}],"time":"2026-11-30T03:43:15.576Z"}
    """

    role: Role
    content: list[Block]
    time: str
    meta: dict[str, str] = field(default_factory=dict)
    added_tool_names: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text blocks joined, as a reader would see them."""
        return "".join(block.text for block in self.content if isinstance(block, Text))


class Usage(Struct, frozen=True):
    """Tokens and money spent.

    input: prompt tokens billed at full price.
    output: tokens the model wrote.
    cache_read: prompt tokens served from the provider's cache.
    cache_write: prompt tokens written to it.
    cost_usd: US dollars, 0 where no price is known.

    Example: {"input":10,"output":7,"cache_read":2,"cache_write":3,"cost_usd":0.00014685}
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cost_usd + other.cost_usd,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.input - other.input,
            self.output - other.output,
            self.cache_read - other.cache_read,
            self.cache_write - other.cache_write,
            self.cost_usd - other.cost_usd,
        )

    @property
    def tokens(self) -> int:
        """Of all kinds together: how much of the model's window a request and its answer fill."""
        return self.input + self.output + self.cache_read + self.cache_write


class ContextUse(Struct, frozen=True):
    """How full the model's window is.

    used: tokens of the last request and its answer.
    window: tokens the model can hold, 0 when unknown.

    Example: {"used":2048,"window":8192}
    """

    used: int = 0
    window: int = 0


class ToolCallInfo(Struct, frozen=True):
    """A call as it is shown when somebody is asked about it.

    id: of the call.
    name: of the tool.
    args: the arguments that would run.

    Example: {"id":"toolu_1","name":"bash","args":{"command":"make"}}
    """

    id: str
    name: str
    args: dict[str, Any] = field(default_factory=dict)
