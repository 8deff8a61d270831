"""Owns taking keys out of text: those that this process holds, and whatever looks like one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, TypeAlias

from zotd.base.secret import known, standing

MASK = "***"

LEAST_CHARS = 8
"""Of a key that is masked wherever its text turns up. A shorter one may be a word, or a part of many."""

_NAME = (
    r"(?:api[_-]?key|(?<=[a-z0-9])[_-]key|secret|token|passw(?:or)?d|passphrase|credentials?|authorization"
    r"|cookie)(?:[_-]?\d{1,3}|[_-](?:id|value))?"
)
_SCHEME = r"(?:Bearer|Basic|Digest|Token)"


def redact(text: str) -> str:
    """`text` with every key masked: the registered ones, and what has the form of one."""
    return (_masked_word if len(text) <= _WORD_CHARS else _masked)(text, standing())


_WORD_CHARS = 48
"""Names and ids come again and again: what such a text becomes is remembered."""


def _masked(text: str, keys: tuple[int, int]) -> str:
    for spelling in _spellings(keys):
        if spelling in text:
            text = text.replace(spelling, MASK)
    folded = text.lower()  # each pattern costs microseconds, looking whether it can fit costs less
    for hints, pattern, by in _patterns():
        if any(hint in folded for hint in hints):
            text = pattern.sub(by, text)
    return text


_masked_word = lru_cache(2048)(_masked)


def redacted(value: Any) -> Any:
    """The same of a value of strings, numbers, lists and objects; members named like a key lose their value.

    Anything else is shown as its `str()` is.
    """
    if isinstance(value, str):
        return redact(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {
            redact(str(name)): MASK if isinstance(each, str) and names_a_key(str(name)) else redacted(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [redacted(each) for each in value]
    return redact(str(value))


def bare_url(url: str) -> str:
    """An address, or what was meant as one, without user, password and query."""
    before, scheme, rest = url.rpartition("://")
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{before}{scheme}{authority.rpartition('@')[2]}{slash}{path}"


@lru_cache(1024)
def names_a_key(name: str) -> bool:
    """Whether a variable or member of such a name holds a key, going by what people call them."""
    return _name_pattern().fullmatch(name) is not None


@cache
def _name_pattern() -> re.Pattern[str]:
    return re.compile(rf"[\w.-]{{0,128}}{_NAME}", re.IGNORECASE)


_Pattern: TypeAlias = tuple[tuple[str, ...], re.Pattern[str], str | Callable[[re.Match[str]], str]]
"""Lower-case texts of which one is in whatever fits, what is looked for, and what comes in its place."""


@cache
def _patterns() -> tuple[_Pattern, ...]:
    """Compiled when first needed: it takes longer than most processes have."""
    words = ("key", "secret", "token", "passw", "passphrase", "credential", "authorization", "cookie")
    user = re.compile(r"([a-z0-9+.-]://)[^\s/@\"'<>]+@", re.IGNORECASE)
    scheme = re.compile(
        rf"\b(Bearer|{_SCHEME}(?=(?:\s|%20)+\S*[\d=]))((?:\s|%20)+)[\w.~+/=-]{{8,}}", re.IGNORECASE
    )
    return (
        (tuple(hint for hint, _ in _FORMS), re.compile("|".join(form for _, form in _FORMS)), MASK),
        (words, _members(), _masked_member),
        (("bearer", "basic", "digest", "token"), scheme, rf"\1\2{MASK}"),
        (("@",), user, rf"\1{MASK}@"),
    )


_FORMS = (
    ("sk-", r"\bsk-[\w-]{8,}"),  # OpenAI, Anthropic, OpenRouter and those who copied them
    ("aiza", r"\bAIza[\w-]{20,}"),  # Google
    ("gh", r"\bgh[opusr]_\w{10,}"),
    ("github_pat_", r"\bgithub_pat_\w{10,}"),
    ("glpat-", r"\bglpat-[\w-]{10,}"),
    ("xox", r"\bxox[a-z]-[\w-]{8,}"),  # Slack
    ("akia", r"\bAKIA[A-Z0-9]{12,}"),  # Amazon
    ("asia", r"\bASIA[A-Z0-9]{12,}"),
    ("hf_", r"\bhf_\w{16,}"),
    ("gsk_", r"\bgsk_\w{16,}"),
    ("pplx-", r"\bpplx-\w{16,}"),
    ("xai-", r"\bxai-[\w-]{16,}"),
    ("nvapi-", r"\bnvapi-[\w-]{16,}"),
    ("npm_", r"\bnpm_\w{16,}"),
    ("pypi-", r"\bpypi-[\w-]{16,}"),
    ("eyj", r"\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"),  # a JSON web token
    (
        "-----begin",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    ),
)
"""Keys that are known by how they begin, each behind a part of it in lower case."""


def _members() -> re.Pattern[str]:
    """What a name says is a key: `api_key=…`, `"token": "…"`, `Authorization: Bearer …`, cut off or not."""
    quoted = r"(?P<quote>\\?[\"'])(?:(?!(?P=quote))(?:\\.|[^\\]))+(?:(?P=quote)|$)"
    bare = rf"(?:{_SCHEME}\s+)?[^\s\"',;&}}{{\])\\]+"
    name = rf"{_NAME}(?:\\?[\"'])?\s*(?:=|:|%3D)\s*"
    return re.compile(rf"({name})(?!\*\*\*)(?:{quoted}|{bare})", re.IGNORECASE | re.DOTALL)


def _masked_member(found: re.Match[str]) -> str:
    quote = found["quote"] or ""
    return f"{found[1]}{quote}{MASK}{quote}"


@lru_cache(1)
def _spellings(keys: tuple[int, int]) -> list[str]:
    """How the registered keys may be written, longest first so that none hides a part of another."""
    spelled = {each for text in known() if len(text) >= LEAST_CHARS for each in _written(text)}
    return sorted(spelled, key=len, reverse=True)


def _written(text: str) -> Iterable[str]:
    from json import dumps
    from urllib.parse import quote, quote_plus

    yield text
    yield text.strip()
    yield from _in_base64(text.strip().encode("utf-8", "surrogateescape"))
    if not text.isalnum():
        yield from {quote(text), quote(text, safe=""), quote_plus(text)}
        yield dumps(text)[1:-1]
        yield dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]


def _in_base64(data: bytes) -> Iterable[str]:
    """What is always there of it in base64, whatever is encoded in front of it and behind."""
    from base64 import b64encode, urlsafe_b64encode

    for before in range(3):
        whole = bytes(before) + data
        first, last = -(-before * 4 // 3), len(whole) * 4 // 3
        yield from {each(whole).decode()[first:last] for each in (b64encode, urlsafe_b64encode)}
