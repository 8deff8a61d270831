"""Owns the Markdown a session becomes. Nothing that was said ends the block that holds it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from zotd.base.limits import Limits
from zotd.protocol.content import Image, Text, Thinking, ToolCall, ToolResult
from zotd.store.export_code import language_of_file
from zotd.store.export_parts import (
    TITLE_CHARS,
    Called,
    Piece,
    Said,
    changes,
    data_url,
    diff,
    facts,
    figures,
    image_size,
    lines,
    one_line,
    said,
    subject,
    title_of,
    when,
)
from zotd.store.saved import Saved
from zotd.wire.dialect import decoded_size

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def markdown(session: Saved, limits: Limits) -> str:
    """The text. Every text in `session` is one that can be shown."""
    return "\n".join(_Text(limits).parts(session))


class _Text:
    def __init__(self, limits: Limits) -> None:
        from markdown_it import MarkdownIt

        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._limits = limits

    def parts(self, session: Saved) -> Iterator[str]:
        rows = said(session.messages)
        yield f"# {_words(title_of(session, rows))}\n"
        yield _table(facts(session, rows))
        for row in rows:
            if row.begins:
                mark = "##" if row.prompt or row.role == "summary" else "###"
                yield f"{mark} {row.role.capitalize()}{f' {row.prompt}' if row.prompt else ''}\n"
            if row.begins and row.time:
                yield f"<sub>{escape(one_line(when(row.time), TITLE_CHARS))}</sub>\n"
            for piece in row.pieces:
                yield from self._piece(piece, row)
        if counted := figures(session.usage):
            yield "---\n\n## Usage\n"
            yield _table(counted)

    def _piece(self, piece: Piece, row: Said) -> Iterator[str]:
        match piece:
            case Text(text=text):
                if text.strip():
                    yield self._prose(text, quoted=bool(row.prompt))
            case Thinking(text=text):
                if text.strip():
                    yield _folded("Thinking", self._prose(text))
            case Image():
                yield self._image(piece)
            case ToolResult():
                yield from self._result(piece, "")
            case _:
                yield self._called(piece)

    def _prose(self, text: str, *, quoted: bool = False) -> str:
        """Markdown that keeps to itself; what cannot be told to do so stands in a fence."""
        text = text.strip("\n")
        tame = tamed(self._parser, text) if len(text) <= self._limits.export_prose_chars else None
        if quoted:
            # A tab behind the mark of a quotation is narrower than it was, and may begin something else.
            shown = None if tame is None else _quoted(tame)
            return shown if shown is not None and _held(self._parser, shown) else _quoted(fenced(text))
        if tame is None:
            return fenced(text)
        # An indented line would belong to a list before it.
        return f"<!-- -->\n\n{tame}\n" if tame[:1] in (" ", "\t") else f"{tame}\n"

    def _image(self, image: Image) -> str:
        about = f"Image, {_words(image.mime_type)}, {image_size(image)}"
        small = decoded_size(image.data) <= self._limits.export_inline_bytes
        url = data_url(image) if small else None
        return f"*{about}*\n" if url is None else f"![{about}]({url})\n"

    def _called(self, called: Called) -> str:
        call, result = called.call, called.result
        about = f" <code>{escape(text)}</code>" if (text := subject(call)) else ""
        path = call.args.get("path")
        name = language_of_file(path) if isinstance(path, str) and call.name == "read" else ""
        parts = [*_arguments(call), *(self._result(result, name) if result is not None else ())]
        return _folded(
            f"<b>{escape(one_line(call.name, TITLE_CHARS))}</b>{about} ({called.state})", "\n".join(parts)
        )

    def _result(self, result: ToolResult, name: str) -> Iterator[str]:
        yield "Error:\n" if result.is_error else "Result:\n"
        for part in result.content:
            yield (
                fenced(part.text, "" if result.is_error else name)
                if isinstance(part, Text)
                else self._image(part)
            )


def _arguments(call: ToolCall) -> Iterator[str]:
    if changed := changes(call):
        for change in changed:
            old, new = lines(change.old), lines(change.new)
            yield fenced(
                "\n".join(mark + (old if mark == "-" else new)[at] for mark, at in diff(change)), "diff"
            )
    elif call.raw_args:
        yield fenced(call.raw_args)
    elif call.name == "bash" and list(call.args) == ["command"] and isinstance(call.args["command"], str):
        yield fenced(call.args["command"], "bash")
    elif call.args:
        yield fenced(json.dumps(call.args, indent=2, ensure_ascii=False), "json")


def fenced(text: str, language: str = "") -> str:
    """`text` in a fence that is longer than any run of backquotes in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}\n"


def tamed(parser: MarkdownIt, text: str) -> str | None:
    """Markdown whose headings are below ours, without HTML and without an open end; None where that fails."""
    if _held(parser, text):
        return text
    for change in (_demoted, _escaped, _closed):
        text = change(text, parser.parse(text))
    return text if _held(parser, text) else None


def _held(parser: MarkdownIt, text: str) -> bool:
    """Whether a heading behind the text is one, and nothing in it is HTML or a heading as high as ours."""
    tokens = parser.parse(f"{text}\n\n## end")
    ours = [(token.type, token.level) for token in tokens[-3:]][:1] == [("heading_open", 0)]
    return ours and not any(
        token.type == "html_block"
        or (token.type == "heading_open" and token.tag in ("h1", "h2", "h3"))
        or any(child.type == "html_inline" for child in token.children or ())
        for token in tokens[:-3]
    )


def _demoted(text: str, tokens: Sequence[Any]) -> str:
    rows = text.split("\n")
    for token in tokens:
        if token.type != "heading_open" or not token.map:
            continue
        first, last = token.map
        if token.markup.startswith("#"):
            marks = "#" * (min(6, len(token.markup) + 3) - len(token.markup))
            rows[first] = rows[first].replace("#", marks + "#", 1)
        elif last - first == 2:  # one line, and one that underlines it
            before = len(rows[first]) - len(rows[first].lstrip())
            rows[first] = f"{rows[first][:before]}#### {rows[first].lstrip()}"
            rows[first + 1] = ""
    return "\n".join(rows)


def _escaped(text: str, tokens: Sequence[Any]) -> str:
    rows = text.split("\n")
    for token in tokens:
        if not token.map:
            continue
        inline = {child.content for child in token.children or () if child.type == "html_inline"}
        for at in range(token.map[0], min(token.map[1], len(rows))):
            if token.type == "html_block":
                rows[at] = rows[at].replace("<", "&lt;")
            for tag in inline:
                rows[at] = rows[at].replace(tag, tag.replace("<", "&lt;"))
    return "\n".join(rows)


def _closed(text: str, tokens: Sequence[Any]) -> str:
    """A fence that is still open at the end is closed."""
    last = tokens[-1] if tokens else None
    if last is None or last.type != "fence":
        return text
    final = text.rsplit("\n", 1)[-1].strip()
    closed = final.startswith(last.markup) and not final.strip(last.markup[0])
    return text if closed and "\n" in text else f"{text}\n{last.markup}"


def _quoted(text: str) -> str:
    return "".join(f"> {line}".rstrip() + "\n" for line in text.rstrip("\n").split("\n"))


def _folded(summary: str, body: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n</details>\n"


def _words(text: str) -> str:
    """Text that is no markup, in a heading or a table."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&$])", r"\\\1", text.replace("\n", " "))


def _table(rows: Sequence[tuple[str, str]]) -> str:
    body = "".join(f"| {name} | {_words(value)} |\n" for name, value in rows)
    return f"| | |\n|---|---|\n{body}" if body else ""
