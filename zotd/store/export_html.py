"""Owns the page a session becomes: one file that loads nothing and runs nothing."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path

from zotd.base.limits import Limits
from zotd.protocol.content import Image, Text, Thinking, ToolCall, ToolResult
from zotd.store.export_code import Highlighter, language_of_file
from zotd.store.export_parts import (
    TITLE_CHARS,
    Called,
    Changed,
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
from zotd.store.export_prose import Prose
from zotd.store.saved import Saved


def html(session: Saved, limits: Limits) -> str:
    """The page. Every text in `session` is one that can be shown."""
    return "".join(_Page(limits).parts(session))


_NAMES = {"assistant": "<h3>Assistant</h3>", "tool": "<h3>Tools</h3>", "summary": "<h2>Summary</h2>"}


class _Page:
    def __init__(self, limits: Limits) -> None:
        self._code = Highlighter(limits.export_code_chars, limits.export_coloured_chars)
        self._prose = Prose(self._code, limits.export_prose_chars)
        self._pictures = 0

    def parts(self, session: Saved) -> Iterator[str]:
        rows = said(session.messages)
        title = title_of(session, rows)
        yield _head(title)
        yield f'<header class="top"><h1 dir="auto">{escape(title)}</h1>{_facts(session, rows)}</header>\n'
        yield '<div class="columns">\n'
        yield _contents(rows)
        yield '<main id="conversation" tabindex="-1">\n'
        for row in rows:
            yield self._row(row)
        if not rows:
            yield '<p class="empty">Nothing was said in this session.</p>\n'
        yield f"</main>\n</div>\n{_footer(session)}</body>\n</html>\n"

    def _row(self, row: Said) -> str:
        body = "".join(map(self._piece, row.pieces))
        if row.prompt:
            anchor = f"prompt-{row.prompt}"
            start = f'<article class="user" id="{anchor}"><header><h2><a href="#{anchor}">You</a></h2>'
        else:
            if not row.begins:
                return f'<article class="{row.role} more">{body}</article>\n'
            start = f'<article class="{row.role}"><header>{_NAMES[row.role]}'
        return f"{start}{_time(row.time)}</header>{body}</article>\n"

    def _piece(self, piece: Piece) -> str:
        match piece:
            case Text(text=text):
                return (
                    f'<div class="prose" dir="auto">{self._prose.html(text)}</div>\n' if text.strip() else ""
                )
            case Thinking(text=text):
                return self._thinking(text)
            case Image():
                return self._image(piece)
            case ToolResult():
                return f'<div class="lone">{self._result(piece, "")}</div>\n'
            case _:
                return self._called(piece)

    def _thinking(self, text: str) -> str:
        if not text.strip():
            return ""
        return (
            '<details class="thinking"><summary><span class="name">Thinking</span> '
            f'<span class="subject">{escape(one_line(text, TITLE_CHARS))}</span></summary>'
            f'<div class="prose" dir="auto">{self._prose.html(text)}</div></details>\n'
        )

    def _image(self, image: Image) -> str:
        self._pictures += 1
        about = f"Image {self._pictures}, {escape(image.mime_type)}, {image_size(image)}"
        if (source := data_url(image)) is None:
            return f'<p class="missing">{about}: cannot be shown</p>\n'
        return f'<figure><img src="{source}" alt="{about}"><figcaption>{about}</figcaption></figure>\n'

    def _called(self, called: Called) -> str:
        call, result, state = called.call, called.result, called.state
        changed = changes(call)
        rows = [(change, diff(change)) for change in changed]
        counts = ""
        if changed:
            added, removed = (sum(row[0] == mark for _, diff in rows for row in diff) for mark in "+-")
            counts += f' <span class="plus">+{added}</span>' if added else ""
            counts += f' <span class="minus">−{removed}</span>' if removed else ""
        status = f'<span class="state {state.replace(" ", "-")}">{state}</span>'
        summary = (
            f'<summary><span class="name">{escape(call.name)}</span> '
            f'<span class="subject" dir="auto">{escape(subject(call))}</span>{counts} {status}</summary>'
        )
        path = call.args.get("path")
        name = language_of_file(path) if isinstance(path, str) else ""
        body = "".join(self._diff(change, diff, name) for change, diff in rows) or self._arguments(call)
        answer = self._result(result, name if call.name == "read" else "") if result is not None else ""
        return f'<details class="tool {state.replace(" ", "-")}">{summary}{body}{answer}</details>\n'

    def _arguments(self, call: ToolCall) -> str:
        if call.raw_args:
            return _pre("Arguments, which are no JSON", escape(call.raw_args))
        if not call.args:
            return ""
        command = call.args.get("command")
        if call.name == "bash" and isinstance(command, str):
            rest = {name: value for name, value in call.args.items() if name != "command"}
            shown = _pre("Command", "\n".join(self._code.lines(command, "bash")))
            return shown + (self._json(rest) if rest else "")
        return self._json(call.args)

    def _json(self, value: object) -> str:
        return _pre(
            "Arguments", "\n".join(self._code.lines(json.dumps(value, indent=2, ensure_ascii=False), "json"))
        )

    def _result(self, result: ToolResult, name: str) -> str:
        label = "Error" if result.is_error else "Result"
        parts = [
            _pre(label, "\n".join(self._code.lines(part.text.rstrip("\n"), "" if result.is_error else name)))
            if isinstance(part, Text)
            else self._image(part)
            for part in result.content
            if not isinstance(part, Text) or part.text.strip()
        ]
        return "".join(parts) or f'<p class="label">{label}: empty</p>\n'

    def _diff(self, changed: Changed, rows: Sequence[tuple[str, int]], name: str) -> str:
        old = self._code.lines("\n".join(lines(changed.old)), name)
        new = self._code.lines("\n".join(lines(changed.new)), name)
        kinds = {"+": "add", "-": "del", " ": "same"}
        # A line is an element of its own, so that its colour reaches from edge to edge.
        body = "".join(
            f'<span class="{kinds[mark]}"><b>{mark}</b>{(old if mark == "-" else new)[at]}\n</span>'
            for mark, at in rows
        )
        return f'<pre class="code diff" tabindex="0"><code>{body}</code></pre>\n'


def _pre(label: str, body: str) -> str:
    return f'<p class="label">{label}</p><pre class="code" tabindex="0"><code>{body}</code></pre>\n'


def _time(time: str) -> str:
    return f'<time datetime="{escape(time)}">{escape(when(time))}</time>' if time else ""


def _facts(session: Saved, rows: Sequence[Said]) -> str:
    pairs = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts(session, rows)
    )
    return f'<dl class="facts">{pairs}</dl>'


def _contents(rows: Sequence[Said]) -> str:
    links = "".join(
        f'<li><a href="#prompt-{row.prompt}" dir="auto">{escape(_heading(row))}</a></li>\n'
        for row in rows
        if row.prompt
    )
    if not links:
        return ""
    return (
        '<nav aria-label="Prompts"><details open><summary>Prompts</summary>'
        f'<ol tabindex="0">\n{links}</ol></details></nav>\n'
    )


def _heading(row: Said) -> str:
    return one_line(row.text, TITLE_CHARS) or f"Prompt {row.prompt}"


def _footer(session: Saved) -> str:
    pairs = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in figures(session.usage)
    )
    about = f"<p>Session <code>{escape(session.session_id)}</code>, exported by zotd.</p>"
    usage = f'<h2>Usage</h2><dl class="facts">{pairs}</dl>' if pairs else ""
    return f'<footer class="bottom">{usage}{about}</footer>\n'


def _head(title: str) -> str:
    style = Path(__file__).with_name("export.css").read_text(encoding="utf-8")
    # The hash lets in this style and no other: a `style` attribute has no effect, wherever it may come from.
    allowed = b64encode(sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{allowed}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="color-scheme" content="light dark">\n'
        # An empty picture, so that browsers do not ask a server for one.
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#conversation">Skip to the conversation</a>\n'
    )
