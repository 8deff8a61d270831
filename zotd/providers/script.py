"""Owns the format of scripts for the scripted model: what a file may say, and what is wrong with one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from zotd.protocol.content import Usage
from zotd.providers.catalog import BadChoice

Stop: TypeAlias = Literal["end_turn", "tool_use", "length", "refusal"]
_STOPS: Final[tuple[Stop, ...]] = ("end_turn", "tool_use", "length", "refusal")
_ENTRY_KEYS: Final = ("match", "times", "reply", "stop", "usage", "error", "cut")
_PIECE_KEYS: Final = ("thinking", "text", "tool_call", "delta_chars", "delay_ms")
_CALL_KEYS: Final = ("name", "args", "raw")
_COUNTS: Final = ("input", "output", "cache_read", "cache_write")


class ScriptError(BadChoice):
    """A script cannot be used. The message names the file, the entry, the key and what was expected."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a reply. `text` is thoughts, words or argument text; `name` is the tool of a call.

    delta_chars: characters of one delta, 0 for words. delay_s: seconds between two deltas.
    """

    kind: Literal["thinking", "text", "tool_call"]
    text: str
    name: str = ""
    delta_chars: int = 0
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer that is an HTTP error."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer of a script. `times` 0 means always; `stop` None means by content."""

    match: re.Pattern[str] | None = None
    times: int = 1
    reply: tuple[Piece, ...] = ()
    stop: Stop | None = None
    usage: Usage | None = None
    error: Failure | None = None
    cut: bool = False


def load_script(path: Path) -> list[Entry]:
    """The entries in a file: JSON, or YAML when its name ends in .yaml or .yml. Raises ScriptError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"{path}: cannot be read: {error}") from error
    loaded = _yaml(path, text) if path.suffix.lower() in (".yaml", ".yml") else _json(path, text)
    if not isinstance(loaded, list):
        raise ScriptError(f"{path}: expected a list of entries, got {_shown(loaded)}")
    return parse_script(loaded, str(path))


def parse_script(entries: Sequence[object], source: str) -> list[Entry]:
    """Entries as values, checked; those that are parsed already are kept. Raises ScriptError.

    source: names them in messages.
    """
    if not entries:
        raise ScriptError(f"{source}: expected at least one entry, got an empty list")
    return [
        entry if isinstance(entry, Entry) else _entry(Reader(f"{source}: entry {number}", entry))
        for number, entry in enumerate(entries, 1)
    ]


class Reader:
    """One object of a script; takes its keys with their types and says where a wrong one stands."""

    def __init__(self, where: str, value: object) -> None:
        self.where = where
        if not isinstance(value, Mapping):
            raise ScriptError(f"{where}: expected an object, got {_shown(value)}")
        self._values: Mapping[Any, Any] = value

    def only(self, allowed: Sequence[str]) -> None:
        """Refuse keys that the format does not have: a mistyped one would be ignored in silence."""
        for key in self._values:
            if key not in allowed:
                raise ScriptError(f"{self.where}: unknown key {key!r}; expected one of {', '.join(allowed)}")

    def has(self, key: str) -> bool:
        return key in self._values

    def fail(self, key: str, expected: str) -> ScriptError:
        return ScriptError(f"{self.where}: {key}: expected {expected}, got {_shown(self._values.get(key))}")

    def raw(self, key: str) -> Any:
        return self._values.get(key)

    def text(self, key: str) -> str:
        value = self._values.get(key)
        if not isinstance(value, str):
            raise self.fail(key, "text")
        return value

    def count(self, key: str, default: int, least: int = 0) -> int:
        value = self._values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.fail(key, f"a whole number, at least {least}")
        return value

    def flag(self, key: str) -> bool:
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def inside(self, key: str) -> Reader:
        return Reader(f"{self.where}: {key}", self._values.get(key))


def _entry(reader: Reader) -> Entry:
    reader.only(_ENTRY_KEYS)
    if reader.has("error") == reader.has("reply"):
        raise ScriptError(f"{reader.where}: expected either reply or error")
    pieces = reader.raw("reply") if reader.has("reply") else []
    if not isinstance(pieces, list):
        raise reader.fail("reply", "a list of thinking, text and tool_call")
    return Entry(
        match=_pattern(reader) if reader.has("match") else None,
        times=reader.count("times", 1),
        reply=tuple(_piece(Reader(f"{reader.where}: reply {i}", piece)) for i, piece in enumerate(pieces, 1)),
        stop=_stop(reader) if reader.has("stop") else None,
        usage=_usage(reader.inside("usage")) if reader.has("usage") else None,
        error=_failure(reader.inside("error")) if reader.has("error") else None,
        cut=reader.flag("cut"),
    )


def _piece(reader: Reader) -> Piece:
    reader.only(_PIECE_KEYS)
    chars = reader.count("delta_chars", 0, 1) if reader.has("delta_chars") else 0
    delay_s = _milliseconds(reader) / 1000
    match [key for key in ("thinking", "text", "tool_call") if reader.has(key)]:
        case ["thinking"]:
            return Piece("thinking", reader.text("thinking"), "", chars, delay_s)
        case ["text"]:
            return Piece("text", reader.text("text"), "", chars, delay_s)
        case ["tool_call"]:
            call = reader.inside("tool_call")
            call.only(_CALL_KEYS)
            return Piece("tool_call", _arguments(call), call.text("name"), chars, delay_s)
        case _:
            raise ScriptError(f"{reader.where}: expected exactly one of thinking, text and tool_call")


def _arguments(call: Reader) -> str:
    if call.has("raw"):
        if call.has("args"):
            raise call.fail("raw", "either args or raw")
        return call.text("raw")
    args = call.raw("args") if call.has("args") else {}
    try:
        if isinstance(args, dict):
            return json.dumps(args, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):  # YAML has dates and infinities, JSON has none
        pass
    raise call.fail("args", "an object of JSON values")


def _pattern(reader: Reader) -> re.Pattern[str]:
    text = reader.text("match")
    try:
        return re.compile(text)
    except re.error as error:
        raise reader.fail("match", f"a regular expression ({error})") from error


def _stop(reader: Reader) -> Stop:
    for stop in _STOPS:
        if stop == reader.raw("stop"):
            return stop
    raise reader.fail("stop", f"one of {', '.join(_STOPS)}")


def _usage(reader: Reader) -> Usage:
    reader.only((*_COUNTS, "cost_usd"))
    cost = reader.raw("cost_usd") if reader.has("cost_usd") else 0
    if not isinstance(cost, int | float) or isinstance(cost, bool) or not cost >= 0:
        raise reader.fail("cost_usd", "a number, at least 0")
    read, written, cached, kept = (reader.count(key, 0) for key in _COUNTS)
    return Usage(read, written, cached, kept, float(cost))


def _failure(reader: Reader) -> Failure:
    reader.only(("status", "message"))
    status = reader.count("status", 500, 400)
    return Failure(status, reader.text("message") if reader.has("message") else "error")


def _milliseconds(reader: Reader) -> float:
    value = reader.raw("delay_ms") if reader.has("delay_ms") else 0
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise reader.fail("delay_ms", "milliseconds, at least 0")
    return float(value)


def _json(path: Path, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ScriptError(
            f"{path}: expected JSON: {error}; a YAML file's name ends in .yaml or .yml"
        ) from error


def _yaml(path: Path, text: str) -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScriptError(f"{path}: expected YAML: {' '.join(str(error).split())}") from error


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
