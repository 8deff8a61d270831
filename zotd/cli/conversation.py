"""Owns how a saved session reads on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from zotd.agent.transcript import shown, summary_in
from zotd.base.limits import Limits
from zotd.cli.console import escaped, local_time
from zotd.protocol.content import Block, Image, Text, Thinking, ToolCall, ToolResult
from zotd.protocol.session_methods import SessionRow
from zotd.store.export import visible
from zotd.store.saved import Saved
from zotd.wire.codec import encode
from zotd.wire.dialect import decoded_size


def conversation(saved: Saved, row: SessionRow, limits: Limits) -> Iterator[str]:
    """The session as lines, each message under its id, which `zotd sessions fork` takes.

    What a terminal would act upon is shown or gone. Long results of tools are cut.
    """
    yield escaped(visible(row.title or row.first_prompt or "no prompt yet"), "")
    for name, value in _facts(saved, row):
        yield f"  {name:<8} {escaped(visible(value), '')}"
    if saved.first_id > 1:
        yield f"\nmessages 1 to {saved.first_id - 1} were replaced by what follows"
    for number, message in enumerate(saved.messages, saved.first_id):
        summary = summary_in(message)
        role = message.role if summary is None else "summary"
        yield f"\n[{number}] {role}, {local_time(message.time)}"
        before: Block | None = None
        for block in shown(message).content if summary is None else (Text(summary),):
            if isinstance(block, Text) and isinstance(before, Text):
                yield ""  # what an editor added to a prompt stands apart from it
            yield from _lines(block, limits)
            before = block


def _facts(saved: Saved, row: SessionRow) -> Iterator[tuple[str, str]]:
    usage = saved.usage
    yield "session", row.session_id
    yield "folder", row.cwd
    yield "file", row.path or ""
    yield "model", f"{saved.provider}/{saved.model}" + (f", {saved.reasoning}" if saved.reasoning else "")
    yield "begun", local_time(row.created)
    if row.parent:
        yield "fork of", f"{row.parent}" + (f", message {row.fork_point}" if row.fork_point else "")
    cached = f", {usage.cache_read} from the cache" if usage.cache_read else ""
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    yield "tokens", f"{usage.input} in, {usage.output} out{cached}{cost}"


def _lines(block: Block, limits: Limits) -> Iterator[str]:
    match block:
        case Text(text=text):
            yield from visible(text).strip("\n").split("\n")
        case Thinking(text=text):
            yield from ("  thinking: " + line for line in visible(text).strip("\n").split("\n"))
        case ToolCall():
            args = block.raw_args or encode(block.args).decode()
            yield f"  {visible(block.name)} {visible(args)}"
        case ToolResult():
            if block.is_error:
                yield "  failed:"
            for part in block.content:
                yield from _indented(part, limits.shown_result_lines)
        case Image():
            yield _picture(block)


def _indented(part: Text | Image, most: int) -> Iterator[str]:
    if isinstance(part, Image):
        yield f"  | {_picture(part)}"
        return
    lines = visible(part.text).strip("\n").split("\n")
    yield from (f"  | {line}" for line in lines[:most])
    if len(lines) > most:
        yield f"  | … {len(lines) - most} more lines"


def _picture(image: Image) -> str:
    return f"[{visible(image.mime_type)}, {decoded_size(image.data)} bytes]"
