"""Owns which shell commands can be understood without a shell: plain words joined by `&&`, `||`, `;`, `|`.

Whatever a shell might expand, redirect, assign, group or run in the background is left to a person. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# What no shell gives a meaning of its own, wherever it stands in a word. ASCII only: in some locales a
# byte of another letter is a blank.
_PLAIN = r"A-Za-z0-9_\-./:,+=@%^"
_QUOTED = r"'[^']*'|\"[^\"$`\\!]*\""
_TOKEN = re.compile(rf"[ \t]+|&&|\|\||;|\||(?:[{_PLAIN}]+|{_QUOTED})+")
_PATTERN_TOKEN = re.compile(rf"[ \t]+|(?:[{_PLAIN}*]+|{_QUOTED})+")
_PIECE = re.compile(rf"[{_PLAIN}]+|\*+|{_QUOTED}")
_JOINS = frozenset(("&&", "||", ";", "|"))
# The first word of a command. One with `=` would assign, `%` names a job, `-` could be a shell's option.
_COMMAND = re.compile(r"[A-Za-z0-9_./][^=]*")


def _words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RESERVED = _words_of("case coproc do done elif else esac fi for function if in select then time until while")
# Change what the rest of a line means, or the shell that runs it.
_LASTING = _words_of(
    ". alias bind builtin cd chdir command declare enable eval exec export getopts hash local mapfile popd "
    "pushd read readarray readonly set shift shopt source trap typeset ulimit umask unalias unset wait"
)
# Take names of variables: the index in one, `a[…]`, is computed by the shell, which can run any command.
_NAMING = _words_of(
    "builtin command declare export getopts local mapfile read readarray readonly test typeset unset wait"
)


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command: its words as the program gets them. fed: whether a pipe is its input."""

    words: tuple[str, ...]
    fed: bool = False


def split(command: str) -> tuple[Part, ...] | None:
    """The simple commands of a command line, in order; None when it is more than plain words and joins."""
    if not _is_one_printable_line(command):
        return None
    parts: list[Part] = []
    words: list[str] = []
    fed = False
    for token in (*_tokens(_TOKEN, command), ";"):
        if token == "":
            return None
        if token not in _JOINS:
            if not token.isspace():
                words.append(_unquoted(token))
            continue
        if not words or not _COMMAND.fullmatch(words[0]) or words[0] in _RESERVED:
            return None
        if _is_computed(*words):
            return None
        parts.append(Part((*words,), fed))
        words, fed = [], token == "|"
    return (*parts,)


def stand_alone(parts: tuple[Part, ...]) -> bool:
    """Whether each part does by itself what it does in its line."""
    return not any(part.fed for part in parts) and not interfere(parts)


def interfere(parts: tuple[Part, ...]) -> bool:
    """Whether one part may change what another one means: `cd`, `export` and the like."""
    return len(parts) > 1 and any(part.words[0] in _LASTING for part in parts)


class WordPattern:
    """Words with `*`: inside a word any characters of it, as the last word any further words or none.

    Quotes are as in a shell, and what is quoted stands for itself. Raises ValueError with what is expected.
    """

    __slots__ = ("_open", "_words")

    def __init__(self, text: str) -> None:
        tokens = [*_tokens(_PATTERN_TOKEN, text)] if _is_one_printable_line(text) else [""]
        if "" in tokens:
            raise ValueError("expected plain or quoted words and *")
        words = [token for token in tokens if not token.isspace()]
        if not words:
            raise ValueError("expected at least one word")
        self._open = not words[-1].strip("*")
        self._words = [[*_pieces(word)] for word in (words[:-1] if self._open else words)]

    def matches(self, words: tuple[str, ...]) -> bool:
        """Whether these are the words of the pattern."""
        count = len(self._words)
        if len(words) < count or (len(words) > count and not self._open):
            return False
        return all(fits(pieces, word) for pieces, word in zip(self._words, words, strict=False))


def exactly(words: tuple[str, ...]) -> str:
    """The pattern that matches these words and no others."""
    from shlex import join

    return join(words)


def fits(pieces: list[str], text: str) -> bool:
    """Whether a text is these pieces with anything between them. In time that grows with both, not more."""
    first, *others = pieces
    if not others:
        return text == first
    *middle, last = others
    end = len(text) - len(last)
    if not text.startswith(first) or not text.endswith(last) or end < len(first):
        return False
    at = len(first)
    for piece in middle:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def _is_computed(command: str, *words: str) -> bool:
    """Whether a shell's own command may expand words that were quoted."""
    if command == "printf":
        return words[:1] != () and words[0].startswith("-v")
    return command == "let" or (command in _NAMING and any("[" in word for word in words))


def _is_one_printable_line(text: str) -> bool:
    return text.replace("\t", " ").isprintable()


def _tokens(token: re.Pattern[str], text: str) -> Iterator[str]:
    """The tokens of a text; an empty one, and no more, where there is something else."""
    at = 0
    while at < len(text):
        found = token.match(text, at)
        if found is None:
            yield ""
            return
        yield found.group()
        at = found.end()


def _unquoted(word: str) -> str:
    return "".join(piece[1:-1] if piece[0] in "'\"" else piece for piece in _PIECE.findall(word))


def _pieces(word: str) -> Iterator[str]:
    """What stands for itself between the wildcards of a word."""
    literal = ""
    for piece in _PIECE.findall(word):
        if piece[0] == "*":
            yield literal
            literal = ""
        else:
            literal += _unquoted(piece)
    yield literal
