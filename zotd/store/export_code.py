"""Owns source code as HTML: which language it is in, and the classes of its words."""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import PurePosixPath
from typing import Any

# Languages by pygments' name for them, with the ends of file names. No others: what a model writes chooses
# the language, and the grammars that few people use are those whose patterns take for ever on odd input.
_LANGUAGES: dict[str, tuple[str, ...]] = {
    "bash": ("sh", "zsh", "bashrc", "shell", "ksh", "console"),
    "c": ("h",),
    "cpp": ("cc", "cxx", "hpp", "hh", "c++"),
    "csharp": ("cs", "c#"),
    "css": ("scss",),
    "diff": ("patch", "udiff"),
    "docker": ("dockerfile",),
    "elixir": ("ex", "exs"),
    "go": ("golang",),
    "haskell": ("hs",),
    "html": ("htm", "xhtml", "vue"),
    "ini": ("cfg", "conf", "editorconfig", "service"),
    "java": (),
    "javascript": ("js", "mjs", "cjs", "jsx"),
    "json": ("jsonl", "json5", "jsonc"),
    "kotlin": ("kt", "kts"),
    "lua": (),
    "make": ("makefile", "mk", "gnumakefile"),
    "nix": (),
    "perl": ("pl", "pm"),
    "php": (),
    "python": ("py", "pyi", "python3", "pyw"),
    "r": (),
    "ruby": ("rb", "gemfile", "rakefile"),
    "rust": ("rs",),
    "scala": ("sbt",),
    "sql": (),
    "swift": (),
    "toml": (),
    "typescript": ("ts", "tsx", "mts", "cts"),
    "vim": ("vimrc",),
    "xml": ("svg", "xsl", "plist"),
    "yaml": ("yml",),
    "zig": (),
}
_NAMED = {name: language for language, others in _LANGUAGES.items() for name in (language, *others)}


def language(name: str) -> str:
    """The language that the word behind a fence means, "" for one that is not known."""
    return _NAMED.get(name.lower(), "")


def language_of_file(path: str) -> str:
    """The language of a file by its name."""
    file = PurePosixPath(path)
    return language(file.suffix[1:] or file.name.lstrip("."))


class Highlighter:
    """Code as HTML lines, coloured while there is time for it.

    block: characters of one text that are coloured; longer ones stay plain.
    total: characters of all texts together.
    """

    def __init__(self, block: int, total: int) -> None:
        self._block = block
        self._left = total

    def lines(self, code: str, language: str) -> list[str]:
        """Every line of `code`, escaped, each with its own elements closed."""
        if language and 0 < len(code) <= min(self._block, self._left):
            self._left -= len(code)
            coloured = _coloured(code, language)
            if coloured is not None:
                return coloured
        return escape(code).split("\n")


def _coloured(code: str, language: str) -> list[str] | None:
    """None where the lexer does not give the text back as it was."""
    lexer, names = _lexer(language)
    lines: list[list[str]] = [[]]
    length = 0
    # Patterns of some languages want the end of a line, which the last one may lack.
    for kind, value in lexer.get_tokens(code + "\n"):
        length += len(value)
        first, *more = value.split("\n")
        name = _class(kind, names)
        lines[-1].append(_span(first, name))
        lines += [[_span(line, name)] for line in more]
    behind = lines.pop()
    return ["".join(line) for line in lines] if length == len(code) + 1 and not any(behind) else None


def _span(text: str, name: str) -> str:
    return f'<span class="{name}">{escape(text)}</span>' if name and text.strip() else escape(text)


def _class(kind: Any, names: Any) -> str:
    while kind not in names:
        kind = kind.parent
    name: str = names[kind]
    return "" if name in _PLAIN else name


_PLAIN = {"", "n", "p", "w", "err"}


@cache
def _lexer(language: str) -> tuple[Any, Any]:
    from pygments.lexers import get_lexer_by_name
    from pygments.token import STANDARD_TYPES

    return get_lexer_by_name(language, stripnl=False, ensurenl=False), STANDARD_TYPES
