"""Owns writing a session down for people and for other programs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import msgspec

from zotd.base.limits import Limits
from zotd.protocol.content import Block, Text, Thinking, ToolCall, ToolResult
from zotd.store.rows import message_row, meta_row, model_row, usage_row
from zotd.store.saved import Saved
from zotd.wire.codec import DEEPEST, encode

Format: TypeAlias = Literal["jsonl", "markdown", "html"]


def export(session: Saved, form: Format, home: str, limits: Limits) -> str:
    """`session` in one of three forms, without the directory it worked in.

    session: with messages as people may see them; they are written as they are.
    home: absolute path that becomes `~` wherever it stands; "" for none.

    `jsonl` has the rows of a session file. The other two are for readers: what a terminal or a browser would
    act upon is shown or gone. It takes seconds where a session is large, and belongs into a thread.
    """
    tilde = without_home(home)
    if form == "jsonl":
        return _jsonl(each_text(session, tilde))
    readable = each_text(session, lambda text: visible(tilde(text)))
    if form == "markdown":
        from zotd.store.export_markdown import markdown

        return markdown(readable, limits)
    from zotd.store.export_html import html

    return html(readable, limits)


def _jsonl(session: Saved) -> str:
    meta = {**session.meta, "provider": session.provider, "model": session.model}
    if session.title:
        meta["title"] = session.title
    rows = [
        meta_row(meta),
        *([model_row(session.provider, session.model, session.reasoning)] if session.reasoning else ()),
        *map(message_row, session.messages),
        usage_row(session.usage, session.usage),
    ]
    return "".join(encode(row).decode() + "\n" for row in rows)


def without_home(home: str) -> Callable[[str], str]:
    """Puts `~` where a text names `home` or what is inside it, also in `-I/home/x`."""
    homes = {place for place in (home.rstrip("/"), os.path.realpath(home).rstrip("/")) if home and place}
    if not homes:
        return str
    # JSON may write \/ for a slash. `/home/xavier` is not in `/home/x`, and `/home/x.` ends a sentence.
    places = "|".join(
        r"\\?/".join(map(re.escape, place.split("/"))) for place in sorted(homes, key=len)[::-1]
    )
    pattern = re.compile(f"(?:{places})(?![\\w-]|\\.\\w)")
    return lambda text: pattern.sub("~", text)


_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]"
)
_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SHOWN: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"},
    0x7F: "\u2421",
    **dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\ufffd"),
    **{code: f"⟨U+{code:04X}⟩" for code in _DIRECTIONS},
}


def visible(text: str) -> str:
    """`text` without the sequences a terminal obeys; other control characters become signs that show them.

    So do those that turn the direction of writing round, which make a text read as what it is not.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCES.sub("", text.replace("\r\n", "\n")).replace("\r", "\n")
    return text.translate(_SHOWN)


def each_text(session: Saved, change: Callable[[str], str]) -> Saved:
    """`session` with `change` made to every text in it."""
    return replace(
        session,
        meta={name: _value(value, change) for name, value in session.meta.items() if name != "cwd"},
        title=change(session.title),
        provider=change(session.provider),
        model=change(session.model),
        messages=[
            msgspec.structs.replace(
                message,
                content=[_block(block, change) for block in message.content],
                time=change(message.time),
                meta={name: change(text) for name, text in message.meta.items()},
            )
            for message in session.messages
        ],
    )


def _block(block: Block, change: Callable[[str], str]) -> Block:
    match block:
        case Text(text=text):
            return Text(change(text))
        case Thinking(text=text):
            return msgspec.structs.replace(block, text=change(text))
        case ToolCall():
            return ToolCall(
                id=change(block.id),
                name=change(block.name),
                args=_value(block.args, change),
                raw_args=change(block.raw_args),
            )
        case ToolResult():
            content = [Text(change(part.text)) if isinstance(part, Text) else part for part in block.content]
            return ToolResult(call_id=change(block.call_id), is_error=block.is_error, content=content)
        case _:
            return block


def _value(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """A value of JSON, down to where JSON can be written again."""
    if depth > DEEPEST:
        return "(nested too deeply)"
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _value(inner, change, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, change, depth + 1) for inner in value]
    return value
