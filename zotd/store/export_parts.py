"""Owns what pages for readers have in common: who says what, which result is whose, what an edit changed."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from zotd.agent.transcript import summary_in
from zotd.protocol.content import Image, Message, Role, Text, Thinking, ToolCall, ToolResult, Usage
from zotd.store.saved import Saved
from zotd.wire.dialect import decoded_size

TITLE_CHARS = 80  # a line of a heading
_SUBJECTS = ("command", "path", "file_path", "name", "pattern", "query", "url")
_LINES_COMPARED = 2_000  # of each side: what difflib compares in milliseconds
_PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, slots=True)
class Called:
    """A call and its result, None where the session ended before it."""

    call: ToolCall
    result: ToolResult | None

    @property
    def state(self) -> Literal["no result", "failed", "done"]:
        if self.result is None:
            return "no result"
        return "failed" if self.result.is_error else "done"


Piece: TypeAlias = Text | Image | Thinking | Called | ToolResult


@dataclass(frozen=True, slots=True)
class Said:
    """What one side says, and where the model calls tools, their results with the calls; or a summary of what
    was said before.

    prompt: the prompt's number, from 1; 0 for what is none.
    begins: whether another side spoke before.
    """

    role: Role | Literal["summary"]
    time: str
    pieces: list[Piece]
    prompt: int = 0
    begins: bool = True

    @property
    def text(self) -> str:
        return "\n\n".join(piece.text for piece in self.pieces if isinstance(piece, Text))


def said(messages: Sequence[Message]) -> list[Said]:
    """The conversation in order. A result whose call is not there stands where it came."""
    results: defaultdict[str, deque[ToolResult]] = defaultdict(deque)
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolResult):
                results[block.call_id].append(block)
    taken: set[int] = set()
    rows: list[Said] = []
    prompts = 0
    for message in messages:
        if (summary := summary_in(message)) is not None:
            rows.append(Said("summary", message.time, [Text(summary)]))
            continue
        pieces: list[Piece] = []
        for block in message.content:
            if isinstance(block, ToolCall):
                waiting = results[block.id]
                result = waiting.popleft() if waiting else None
                taken.add(id(result))
                pieces.append(Called(block, result))
            elif not isinstance(block, ToolResult) or id(block) not in taken:
                pieces.append(block)
        if pieces:
            prompts += message.role == "user"
            number = prompts if message.role == "user" else 0
            begins = bool(number) or not rows or rows[-1].role != message.role
            rows.append(Said(message.role, message.time, pieces, number, begins))
    return rows


def title_of(session: Saved, rows: Sequence[Said]) -> str:
    """The title, or the beginning of the first prompt, or the id: one line."""
    prompt = next((row.text for row in rows if row.prompt), "").strip().split("\n")[0]
    return (
        one_line(session.title, TITLE_CHARS)
        or one_line(prompt, TITLE_CHARS)
        or f"Session {session.session_id}"
    )


def one_line(text: str, chars: int) -> str:
    """`text` on one line of at most `chars`."""
    line = " ".join(text[: chars * 4].split())
    if len(line) <= chars:
        return line
    words, space, _ = line[:chars].rpartition(" ")
    return (words if space and 2 * len(words) > chars else line[: chars - 1]) + " …"[not space :]


def facts(session: Saved, rows: Sequence[Said]) -> list[tuple[str, str]]:
    """What is to be known of the session, by name."""
    prompts = sum(bool(row.prompt) for row in rows)
    calls = sum(isinstance(piece, Called) for row in rows for piece in row.pieces)
    model = "/".join(part for part in (session.provider, session.model) if part)
    if session.reasoning:
        model += f", reasoning {session.reasoning}"
    named = [
        ("Model", model),
        ("Started", when(session.started)),
        ("Prompts", f"{prompts:,}"),
        ("Tool calls", f"{calls:,}"),
        ("Cost", dollars(session.usage.cost_usd)),
    ]
    return [(name, value) for name, value in named if value]


def figures(usage: Usage) -> list[tuple[str, str]]:
    """Tokens and money, by name; nothing where none were counted."""
    counts = [
        ("Input tokens", usage.input),
        ("Output tokens", usage.output),
        ("Read from cache", usage.cache_read),
        ("Written to cache", usage.cache_write),
    ]
    if not any(count for _, count in counts) and not usage.cost_usd:
        return []
    return [*((name, f"{count:,}") for name, count in counts), ("Cost", dollars(usage.cost_usd) or "unknown")]


def dollars(cost: float) -> str:
    """`$0.0123`; "" where no price was known."""
    return "" if cost <= 0 else f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"


def when(time: str) -> str:
    """`2026-11-30 03:43 UTC` for RFC 3339, anything else as it is."""
    if len(time) >= 20 and time[10] == "T" and time.endswith("Z"):
        return f"{time[:10]} {time[11:16]} UTC"
    return time


def size(count: int) -> str:
    """Bytes as people read them."""
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def image_size(image: Image) -> str:
    """Bytes of the picture itself, as people read them."""
    return size(decoded_size(image.data))


def data_url(image: Image) -> str | None:
    """The picture as an address; None where browsers would not show it."""
    if image.mime_type not in _PICTURES or not _BASE64.fullmatch(image.data):
        return None
    return f"data:{image.mime_type};base64,{image.data}"


def subject(call: ToolCall) -> str:
    """What the call is about, on one line: its command, its path."""
    for name in _SUBJECTS:
        if isinstance(value := call.args.get(name), str) and value.strip():
            return one_line(value, 2 * TITLE_CHARS)
    return ""


@dataclass(frozen=True, slots=True)
class Changed:
    """What a call changes in one place of a file: `old` becomes `new`, both whole lines or parts of them."""

    old: str
    new: str


def changes(call: ToolCall) -> list[Changed]:
    """What `edit` or `write` changes, from the call's arguments; nothing for other tools."""
    if call.name == "write" and isinstance(content := call.args.get("content"), str):
        return [Changed("", content)]
    edits = call.args.get("edits")
    if call.name != "edit" or not isinstance(edits, list):
        return []
    return [
        Changed(old, new)
        for edit in edits
        if isinstance(edit, dict)
        and isinstance(old := edit.get("oldText"), str)
        and isinstance(new := edit.get("newText"), str)
    ]


DiffRow: TypeAlias = tuple[Literal[" ", "-", "+"], int]
"""Its mark, and which line it is: of the old text for `-`, of the new one otherwise."""


def diff(changed: Changed) -> list[DiffRow]:
    """The lines of both sides in the order of a diff."""
    old, new = lines(changed.old), lines(changed.new)
    if not old or not new or max(len(old), len(new)) > _LINES_COMPARED:
        return [*(("-", at) for at in range(len(old))), *(("+", at) for at in range(len(new)))]
    from difflib import SequenceMatcher

    rows: list[DiffRow] = []
    for kind, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            rows += [(" ", at) for at in range(new_from, new_to)]
        else:
            rows += [("-", at) for at in range(old_from, old_to)]
            rows += [("+", at) for at in range(new_from, new_to)]
    return rows


def lines(text: str) -> list[str]:
    """Lines without their newline; only that ends one."""
    return text.removesuffix("\n").split("\n") if text else []
