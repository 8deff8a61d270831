"""Owns the rows of session files: our messages to zot's spelling and back, and what all rows together say.

A row is an object with a `type`. `meta`, `message`, `usage`, `compaction` and `rename` are zot's. Two are
ours: `model`, the provider, model and reasoning in use from there on, and `result`, what one tool answered
while others of its batch still run; the message that follows has it too. zot ignores what it does not know,
rows and fields alike, and so do we; but no row that is there is ever taken out of a file.

Blocks have no `type`: which one it is is told by its fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from msgspec.structs import replace

from zotd.base.files import BOM
from zotd.protocol.content import Block, Image, Message, Text, Thinking, ToolCall, ToolResult, Usage
from zotd.store.errors import BadSessionFile
from zotd.store.saved import Saved
from zotd.wire.codec import Malformed, decode, json_name

_ROLES = ("user", "assistant", "tool")
_SIGNED = ("signature", "encrypted_content", "reasoning")
"""Fields that tell a thought with a `text` from words that were said."""

_TOKENS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache_read",
    "cache_write_tokens": "cache_write",
    "cost_usd": "cost_usd",
}

_UNBOUNDED = 1 << 60
_PIECE = 1 << 20  # bytes of a line that is not kept, at a time

INTERRUPTED = "interrupted"
"""The result of a call that has none of its own: the process ended while it ran."""


# Writing


def message_row(message: Message) -> dict[str, Any]:
    return {"type": "message", "message": _message_to(message)}


def usage_row(usage: Usage, cumulative: Usage) -> dict[str, Any]:
    return {"type": "usage", "usage": _usage_to(usage), "cumulative": _usage_to(cumulative)}


def compaction_row(messages: Iterable[Message]) -> dict[str, Any]:
    return {"type": "compaction", "messages": [_message_to(message) for message in messages]}


def rename_row(title: str) -> dict[str, Any]:
    return {"type": "rename", "title": title}


def model_row(provider: str, model: str, reasoning: str) -> dict[str, Any]:
    """A type of row that zot does not have, and skips."""
    return {"type": "model", "provider": provider, "model": model, "reasoning": reasoning}


def result_row(result: ToolResult) -> dict[str, Any]:
    """Another type that zot skips: to it the call has no result, as to itself after a crash."""
    return {"type": "result", "result": _block_to(result)}


def meta_row(meta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "meta", "meta": meta}


def _message_to(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {
        "role": message.role,
        "content": [_block_to(block) for block in message.content],
        "time": message.time,
    }
    if message.meta:
        row["meta"] = message.meta
    if message.added_tool_names:
        row["added_tool_names"] = message.added_tool_names
    return row


def _block_to(block: Block) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"text": text}
        case Image(mime_type=mime_type, data=data):
            return {"mime_type": mime_type, "data": data}
        case Thinking(text=text):
            return {"thinking": text}
        case ToolCall():
            call = {"id": block.id, "name": block.name, "arguments": block.args}
            return {**call, "raw_args": block.raw_args} if block.raw_args else call
        case ToolResult():
            content = [_block_to(inner) for inner in block.content]
            return {"call_id": block.call_id, "content": content, "is_error": block.is_error}


def _usage_to(usage: Usage) -> dict[str, Any]:
    return {theirs: getattr(usage, ours) for theirs, ours in _TOKENS.items()}


# Reading


def row_of(line: bytes) -> dict[str, Any]:
    """The row in a line. Raises ValueError with what is wrong."""
    try:
        row = decode(line)
    except Malformed as wrong:
        raise ValueError(wrong.message) from None
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {json_name(row)}")
    return row


class Line(NamedTuple):
    """A line of a file, from 1.

    data: its bytes without the end; of one that is too long its beginning. size: all its bytes with the end.
    whole: whether it has an end. wrong: empty unless it is too long.
    """

    number: int
    data: bytes
    size: int
    whole: bool
    wrong: str


def lines_of(source: bytes | BinaryIO, most: int = _UNBOUNDED) -> Iterator[Line]:
    """The lines of a file that are not blank. most: bytes of one; no longer one is ever in memory."""
    file = BytesIO(source) if isinstance(source, bytes) else source
    number = 0
    while data := file.readline(most + 1):
        number += 1
        size, end = len(data), data[-1:]
        if number == 1:
            data = data.removeprefix(BOM)
        while end != b"\n" and (more := file.readline(_PIECE)):
            size, end = size + len(more), more[-1:]
        long = size - (end == b"\n") > most
        wrong = f"expected at most {most} bytes, got {size}" if long else ""
        if data and (wrong or not data.isspace()):
            yield Line(number, data[:most].removesuffix(b"\n"), size, end == b"\n", wrong)


def rows_of(source: bytes | BinaryIO, most: int = _UNBOUNDED) -> Iterator[tuple[Line, dict[str, Any] | str]]:
    """Each line with its row, or with what is wrong with it.

    A last line without an end that is a row all the same is whole: some editors leave it so.
    """
    for line in lines_of(source, most):
        try:
            row = row_of(line.data) if not line.wrong else line.wrong
        except ValueError as wrong:
            yield line, str(wrong)
        else:
            yield line._replace(whole=not line.wrong or line.whole), row


def read_rows(source: bytes | BinaryIO, path: Path | None = None, most: int = _UNBOUNDED) -> Saved:
    """What a file says. Lines that are no rows, or have more than `most` bytes, are skipped, and named in the
    result. Raises BadSessionFile.

    Calls that never got their result are given one, or become words: no model takes them as they are. Those
    of the last message stay, since their tools may run at this moment.
    """
    fold: Fold | None = None
    skipped: list[tuple[int, str]] = []
    torn, torn_size = b"", 0
    for line, row in rows_of(source, most):
        if not line.whole:
            torn, torn_size = line.data, line.size
        elif isinstance(row, str):
            if fold is None:
                raise BadSessionFile(path, line.number, row)
            skipped.append((line.number, row))
        elif fold is None:
            fold = Fold(Saved(path, _meta_of(row, path, line.number)))
        elif (fault := fold.take(row)) is not None:
            skipped.append((line.number, fault))
    if fold is None:
        raise BadSessionFile(path, 0, "has no whole row; the first of a session is its `meta`")
    saved = fold.saved
    saved.skipped, saved.torn, saved.torn_size = skipped, torn, torn_size
    saved.messages = _answered(saved.messages)
    return saved


class Fold:
    """Takes in the rows behind the first one, and keeps in `saved` what they say together."""

    def __init__(self, saved: Saved) -> None:
        self.saved = saved
        self._request = 0  # tokens of a request whose answer is the next row
        saved.provider, saved.model = _text(saved.meta, "provider"), _text(saved.meta, "model")
        saved.title = _text(saved.meta, "title")

    def take(self, row: dict[str, Any]) -> str | None:
        """What is wrong with a row that is known and cannot be used; None otherwise."""
        saved = self.saved
        match row.get("type"):
            case "message":
                return self._message(row.get("message"))
            case "usage":
                saved.usage = usage_of(row.get("cumulative"))
                self._request = usage_of(row.get("usage")).tokens
            case "compaction":
                return self._compaction(compacted(row))
            case "rename":
                inner = row.get("rename")
                saved.title = _text(inner if isinstance(inner, dict) else row, "title")
            case "result":
                result = _block_of(row.get("result"))
                if isinstance(result, ToolResult):
                    saved.results[result.call_id] = result
            case "model":
                saved.provider = _text(row, "provider") or saved.provider
                saved.model = _text(row, "model") or saved.model
                saved.reasoning = _text(row, "reasoning")
            case _:
                pass
        return None

    def _message(self, value: Any) -> str | None:
        if (message := message_of(value)) is None:
            return "expected a message with `role` and `content`"
        # zot writes down what a whole turn took, behind its last message: that is no one request.
        if message.role == "assistant" and self._request:
            self.saved.used = self._request
        self._request = 0
        self.saved.messages.append(message)
        self.saved.results.clear()
        self._added([message])
        return None

    def _compaction(self, value: list[Any] | None) -> str | None:
        messages = [message_of(item) for item in value or ()]
        kept = [message for message in messages if message is not None]
        if value is None or len(kept) < len(messages):
            return "expected a compaction with `messages`"
        replaced = self.saved.messages
        keyed = {message.meta.get("turn_id", "") for message in replaced if "key" in message.meta} - {""}
        self.saved.replaced += [message for message in replaced if message.meta.get("turn_id") in keyed]
        self.saved.first_id = self.saved.last_id + 1
        self.saved.messages = kept
        self.saved.used = self._request = 0
        self._added(kept)
        return None

    def _added(self, messages: Iterable[Message]) -> None:
        known = {*self.saved.added_tools}
        for message in messages:
            self.saved.added_tools += [name for name in message.added_tool_names if name not in known]
            known.update(message.added_tool_names)


def compacted(row: dict[str, Any]) -> list[Any] | None:
    """The messages of a compaction, as they stand; None where there is no list of them."""
    inner = row.get("compaction")
    value = (inner if isinstance(inner, dict) else row).get("messages")
    return value if isinstance(value, list) else None


def drop_keys(row: dict[str, Any]) -> bool:
    """Take the keys of prompts out of a row, which is a copy's: nobody sends those again to it. Whether there
    were any.
    """
    message = row.get("message")
    found = False
    for item in (compacted(row) or []) if row.get("type") == "compaction" else [message]:
        meta = item.get("meta") if isinstance(item, dict) else None
        if isinstance(meta, dict) and meta.pop("key", None) is not None:
            found = True
    return found


def message_of(value: Any) -> Message | None:
    """The message that an object in a file is, without blocks we do not know; None when it is none."""
    if not isinstance(value, dict) or value.get("role") not in _ROLES:
        return None
    content = value.get("content")
    if not isinstance(content, list):
        return None
    meta, added = value.get("meta"), value.get("added_tool_names")
    said = meta.items() if isinstance(meta, dict) else ()
    return Message(
        role=value["role"],
        content=[block for item in content if (block := _block_of(item)) is not None],
        time=_text(value, "time"),
        meta={key: item for key, item in said if isinstance(item, str)},
        added_tool_names=[name for name in added if isinstance(name, str)] if isinstance(added, list) else [],
    )


def usage_of(value: Any) -> Usage:
    """What a file says of tokens and money; what is missing counts as nothing."""
    if not isinstance(value, dict):
        return Usage()
    numbers = {ours: _number(value.get(theirs)) for theirs, ours in _TOKENS.items()}
    cost = numbers.pop("cost_usd")
    return Usage(**{name: int(number) for name, number in numbers.items()}, cost_usd=float(cost))


def missing_results(saved: Saved) -> list[Block]:
    """What the calls of the last message answered before the process ended, or that they did not."""
    calls = _calls(saved.messages[-1]) if saved.messages else []
    return [saved.results.get(call.id) or _interrupted(call) for call in calls]


def _block_of(value: Any) -> Block | None:
    if not isinstance(value, dict):
        return None
    if not isinstance(call_id := value.get("call_id"), str):
        return _word_of(value)
    # What nests in a result is no result again, whatever a file says: words and pictures only.
    inner = value.get("content")
    blocks = [_word_of(item) for item in inner if isinstance(item, dict)] if isinstance(inner, list) else []
    content = [block for block in blocks if isinstance(block, Text | Image)]
    return ToolResult(call_id=call_id, is_error=value.get("is_error") is True, content=content)


def _word_of(value: dict[str, Any]) -> Block | None:
    if isinstance(name := value.get("name"), str) and "arguments" in value:
        args = value["arguments"]
        raw = _text(value, "raw_args")
        return ToolCall(_text(value, "id"), name, args if isinstance(args, dict) else {}, raw)
    if isinstance(mime_type := value.get("mime_type"), str) and isinstance(value.get("data"), str):
        return Image(mime_type, value["data"])
    if isinstance(thought := value.get("thinking"), str):
        return Thinking(thought)
    if isinstance(text := value.get("text"), str):
        return Thinking(text) if any(name in value for name in _SIGNED) else Text(text)
    return None


def _meta_of(row: dict[str, Any], path: Path | None, number: int) -> dict[str, Any]:
    meta = row.get("meta")
    if row.get("type") != "meta" or not isinstance(meta, dict):
        got = f"`{kind}`" if (kind := row.get("type")) else "a row without a `type`"
        raise BadSessionFile(path, number, f"expected the row `meta`, got {got}")
    if not _text(meta, "id"):
        raise BadSessionFile(path, number, "`meta` has no `id`")
    return meta


def _answered(messages: list[Message]) -> list[Message]:
    """The same rows, as models take them: every call before the last message has exactly one result.

    No row is added or taken away, so that each keeps its id.
    """
    rows = [*messages]
    for place, message in enumerate(messages):
        calls = _calls(messages[place - 1]) if place else []
        if message.role == "tool":
            rows[place] = _results(message, calls)
        elif calls:
            rows[place - 1] = _in_words(rows[place - 1])
    return rows


def _interrupted(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, is_error=True, content=[Text(INTERRUPTED)])


def _results(message: Message, calls: Sequence[ToolCall]) -> Message:
    """A row of results with one for each of these calls, and none besides."""
    found = {block.call_id: block for block in message.content if isinstance(block, ToolResult)}
    content = [found.get(call.id) or _interrupted(call) for call in calls]
    return message if content == message.content else replace(message, content=content)


def _in_words(message: Message) -> Message:
    content = [
        Text(f"(a call of {block.name} was interrupted)") if isinstance(block, ToolCall) else block
        for block in message.content
    ]
    return replace(message, content=content)


def _calls(message: Message) -> list[ToolCall]:
    return [block for block in message.content if isinstance(block, ToolCall)]


def _text(value: dict[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
