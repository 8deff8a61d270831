"""A session with all that an export can meet, honest and hostile, and the pages made of it."""

from __future__ import annotations

from base64 import b64encode
from html.parser import HTMLParser
from typing import Any

from zotd.base.limits import Limits
from zotd.protocol.content import Block, Image, Message, Role, Text, Thinking, ToolCall, ToolResult, Usage
from zotd.store.export import Format, export
from zotd.store.saved import Saved

HOME = "/home/ada"
TIME = "2026-11-30T03:43:15.576Z"
# One red pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
HOSTILE = (
    '<script>alert(1)</script> <img src=x onerror="alert(1)"> </style></article></main></details> ]]> '
    "[a](javascript:alert(1)) [b](data:text/html,x) [c](//evil.example) [d](JavaScript&#58;alert(1)) "
    "![p](https://evil.example/p.png) <https://example.org/?a=1&b=%22>\n\n"
    "a\u202egnp.exe\x00 \x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \ud800 \x9b1mbold"
    "\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n# High\n\nalso high\n=====\n\n"
    "</details>\n\n<!-- open\n\n````` x\nopen fence"
)


def say(role: Role, *content: Block | str) -> Message:
    return Message(role, [Text(part) if isinstance(part, str) else part for part in content], TIME)


def answered(call: ToolCall, *content: Text | Image | str, is_error: bool = False) -> list[Message]:
    parts = [Text(part) if isinstance(part, str) else part for part in content]
    return [say("assistant", call), say("tool", ToolResult(call.id, is_error=is_error, content=parts))]


def conversation() -> list[Message]:
    edits = [{"oldText": "a = 1\nb = 2\n", "newText": "a = 1\nb = 3\nc = 4\n"}]
    return [
        say("user", f"Fix `{HOME}/app/x.py`, please.", Image("image/png", PNG)),
        say("assistant", Thinking("It is *short*."), "I look:\n\n```python\ndef f() -> int: ...\n```"),
        *answered(ToolCall("c1", "read", {"path": f"{HOME}/app/x.py"}), "a = 1\nb = 2\n"),
        *answered(ToolCall("c2", "edit", {"path": "x.py", "edits": edits}), f"edited {HOME}/app/x.py"),
        *answered(ToolCall("c3", "write", {"path": "y.py", "content": "import os\n"}), "made y.py"),
        *answered(ToolCall("c4", "bash", {"command": "make test"}), "````\nexit 2", is_error=True),
        say("assistant", ToolCall("c5", "look_up", {"query": "<b>", "deep": [HOSTILE]})),
        say("user", HOSTILE),
        say("assistant", Thinking(HOSTILE), HOSTILE),
        *answered(
            ToolCall(HOSTILE, HOSTILE, {"path": HOSTILE, HOSTILE: HOSTILE}),
            HOSTILE,
            Image('image/png" onerror="alert(1)', 'x" onerror="alert(1)'),
            Image("image/svg+xml", b64encode(b"<svg/>").decode()),
        ),
        say("assistant", ToolCall("c6", "bash", {}, raw_args=HOSTILE)),
        say("tool", ToolResult("nobody", is_error=False, content=[Text("lone result")])),
        say("assistant", "Done."),
    ]


def session(*messages: Message, **more: Any) -> Saved:
    meta = {"id": "8f37d5f6-0000", "cwd": f"{HOME}/app", "started": TIME, "version": "1", "parent": "77aa"}
    usage = Usage(1234, 56, 789, 12, 0.0421)
    given = {"provider": "anthropic", "model": "opus", "reasoning": "high", "usage": usage, **more}
    return Saved(None, meta, list(messages), **given)


def written(form: Format, *messages: Message, home: str = HOME, **more: Any) -> str:
    return export(session(*messages, **more), form, home, Limits())


_VOID = {"meta", "link", "img", "br", "hr"}


class Page(HTMLParser):
    """A page as elements. `faults` has what is not closed, or closed and never opened."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.faults: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.faults += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.texts.append((tuple(self._open), data))

    def all(self, tag: str, cls: str = "") -> list[dict[str, str | None]]:
        return [
            attrs
            for name, attrs in self.elements
            if name == tag and (not cls or cls in (attrs.get("class") or "").split())
        ]

    def pieces(self, *inside: str) -> list[str]:
        """The texts that stand in these elements, without those that are blank."""
        return [data.strip() for where, data in self.texts if set(inside) <= set(where) and data.strip()]

    def text(self, *inside: str) -> str:
        """All text that stands in these elements."""
        return "".join(data for where, data in self.texts if set(inside) <= set(where))
