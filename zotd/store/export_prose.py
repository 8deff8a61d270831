"""Owns Markdown that somebody else wrote as HTML: no markup of its own, links to the web and to mail only."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from zotd.store.export_code import Highlighter, language

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_LINKS = ("http://", "https://", "mailto:")


class Prose:
    """Renders texts; those of more than `chars` stay plain, since odd ones take time that grows faster."""

    def __init__(self, code: Highlighter, chars: int) -> None:
        self._code = code
        self._chars = chars
        self._parser = self._make()

    def html(self, text: str) -> str:
        """The text as HTML, its headings below those of the page."""
        if len(text) > self._chars:
            return f'<pre class="plain" tabindex="0">{escape(text)}</pre>'
        rendered: str = self._parser.render(text)
        return rendered

    def _make(self) -> MarkdownIt:
        from markdown_it import MarkdownIt

        parser = MarkdownIt("commonmark", {"html": False})
        parser.enable(["table", "strikethrough"])
        vars(parser)["validateLink"] = lambda url: url.strip().lower().startswith(_LINKS)
        rules: dict[str, Any] = vars(parser.renderer)["rules"]
        rules["heading_open"] = rules["heading_close"] = _heading
        rules["link_open"] = _link
        rules["image"] = _picture
        rules["fence"] = rules["code_block"] = self._block
        rules["th_open"] = rules["td_open"] = _cell
        rules["table_open"] = _table
        rules["table_close"] = lambda *_: "</table></div>\n"
        return parser

    def _block(self, tokens: Sequence[Any], at: int, *_: Any) -> str:
        token = tokens[at]
        name = token.info.strip().split(" ")[0]
        body = "\n".join(self._code.lines(token.content.removesuffix("\n"), language(name)))
        return f'<pre class="code" tabindex="0"><code>{body}</code></pre>\n'


def _heading(tokens: Sequence[Any], at: int, *_: Any) -> str:
    token = tokens[at]
    level = min(6, int(token.tag[1:]) + 3)
    return f"<h{level}>" if token.nesting > 0 else f"</h{level}>\n"


def _link(tokens: Sequence[Any], at: int, *_: Any) -> str:
    href = escape(str(tokens[at].attrs.get("href", "")))
    return f'<a href="{href}" rel="noopener noreferrer nofollow" target="_blank">'


def _picture(tokens: Sequence[Any], at: int, *_: Any) -> str:
    """A link: pictures elsewhere are not fetched when a page is read."""
    token = tokens[at]
    source = str(token.attrs.get("src", ""))
    words = escape(token.content or source)
    return f'<a href="{escape(source)}" rel="noopener noreferrer nofollow" target="_blank">Image: {words}</a>'


def _cell(tokens: Sequence[Any], at: int, *_: Any) -> str:
    """Its alignment as a class, since styles of elements have no effect in the page."""
    token = tokens[at]
    side = str(token.attrs.get("style", "")).removeprefix("text-align:")
    return f'<{token.tag} class="{side}">' if side in ("left", "center", "right") else f"<{token.tag}>"


def _table(*_: Any) -> str:
    return '<div class="wide" tabindex="0"><table>\n'
