"""Owns the reading of a struct's docstring: its meaning, a line for each field, an example."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec

_FIELD = re.compile(r"^([\w-]+): (.+)$")
_EXAMPLE = "Example: "


class DocumentationError(Exception):
    """A struct whose docstring does not tell all; the message names the struct and what is missing."""


@dataclass(frozen=True, slots=True)
class Documentation:
    """What a docstring says. `fields` maps each field, by its name on the wire, to its meaning."""

    meaning: str
    fields: dict[str, str]
    example: dict[str, Any]


def documentation(struct: type[msgspec.Struct]) -> Documentation:
    """Reads the docstring of a struct. A field that it inherits may have its line there.

    Raises DocumentationError when a field has no line, a line no field, or there is no example in JSON.
    """
    name = struct.__name__
    lines = (inspect.getdoc(struct) or "").splitlines()
    if not lines or not lines[-1].startswith(_EXAMPLE):
        raise DocumentationError(f"{name}: the last line of its docstring is no `{_EXAMPLE}{{…}}`")
    try:
        example = json.loads(lines[-1].removeprefix(_EXAMPLE))
    except json.JSONDecodeError as error:
        raise DocumentationError(f"{name}: its example is no JSON: {error}") from None
    meaning, fields = _split(lines[:-1])
    known = {field.encode_name for field in msgspec.structs.fields(struct)}
    for parent in struct.__mro__[1:]:
        _, inherited = _split((inspect.getdoc(parent) or "").splitlines())
        fields |= {field: words for field, words in inherited.items() if field in known - fields.keys()}
    for missing in sorted(known - fields.keys()):
        raise DocumentationError(f"{name}: its docstring has no line for the field `{missing}`")
    for extra in sorted(fields.keys() - known):
        raise DocumentationError(f"{name}: its docstring has a line for `{extra}`, which is no field")
    return Documentation(meaning, fields, example)


def _split(lines: list[str]) -> tuple[str, dict[str, str]]:
    """The words before the first field line, and the field lines with their indented continuations."""
    words: list[str] = []
    fields: dict[str, str] = {}
    current = ""
    for line in lines:
        if found := _FIELD.match(line):
            current = found[1]
            fields[current] = found[2]
        elif current and line.startswith("  "):
            fields[current] += " " + line.strip()
        elif line:
            words.append(line)
    return " ".join(words), fields
