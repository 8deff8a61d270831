"""Owns the words for a value of the wrong type: JSON's own, wherever the value came from."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_KINDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_GOT = {**_KINDS, "int": "a number", "bool": "a boolean"}
_EXPECTED = re.compile(r"Expected `(?P<kinds>[^`]*)`(?P<bound>[^,]*)(?:, got `(?P<got>[^`]*)`)?")
_MISSING = re.compile(r"missing required field `(?P<name>[^`]*)`")
_FREE = "[...]"  # how msgspec spells a name in an object whose names are free
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_CHOICE = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)


class Misfit(NamedTuple):
    """Where a value does not fit, as a JSON path that begins with `$`, and in which way."""

    path: str
    fault: str

    @property
    def key(self) -> str:
        """The path without `$`, as people name a key: `args[1]`; empty for the whole value."""
        return self.path.removeprefix("$").removeprefix(".")

    def __str__(self) -> str:
        return f"{self.path}: {self.fault}"


def misfit(error: Exception, wanted: Any, value: Any = None) -> Misfit:
    """What a ValidationError of msgspec means. `wanted`: the type that the value should have had.

    value: the value, in which the name is looked up that msgspec leaves out of a path where names are free.
    """
    text, _, where = str(error).partition(" - at `")
    path = _named(where.rstrip("`") or "$", value, wanted)
    if missing := _MISSING.search(text):
        return Misfit(f"{path}.{missing['name']}", "is required and missing")
    if choice := _CHOICE.fullmatch(text):
        return Misfit(path, f"expected {_choices(path, wanted)}, got {choice['value']}")
    if found := _EXPECTED.fullmatch(text):
        kinds = [_KINDS.get(kind, kind) for kind in found["kinds"].split(" | ") if kind != "null"]
        got = f", got {_GOT.get(found['got'], found['got'])}" if found["got"] else ""
        return Misfit(path, f"expected {' or '.join(kinds)}{_bound(found['bound'])}{got}")
    return Misfit(path, text[:1].lower() + text[1:].replace("`", ""))


def _named(path: str, value: Any, wanted: Any) -> str:
    """The path with the name that is wrong: alone in its object it is wrong too."""
    import msgspec

    before, free, after = path.partition(_FREE)
    place = [name or int(index) for name, index in _STEP.findall(before)]
    inside = value
    try:
        for step in place:
            inside = inside[step]
    except (TypeError, LookupError):
        return path
    for name in inside if free and isinstance(inside, dict) else ():
        try:
            msgspec.convert(_with(value, place, {name: inside[name]}), wanted)
        except msgspec.ValidationError:
            return f"{before}.{name}{after}"
    return path


def _with(value: Any, place: list[Any], replacement: Any) -> Any:
    """A value with another one at a place inside it."""
    if not place:
        return replacement
    step, *rest = place
    changed = _with(value[step], rest, replacement)
    if isinstance(value, dict):
        return {**value, step: changed}
    return [*value[:step], changed, *value[step + 1 :]]


def present(value: Any, wanted: Any) -> Any:
    """A value without those members of its objects that are null. Where names are free, null is a value."""
    from msgspec import inspect

    return _present(value, inspect.type_info(wanted))


def _present(value: Any, node: Any) -> Any:
    for kind in _members(node):
        if isinstance(value, dict) and (fields := getattr(kind, "fields", None)) is not None:
            types = {field.encode_name: field.type for field in fields}
            return {name: _present(item, types.get(name)) for name, item in value.items() if item is not None}
        if isinstance(value, list) and hasattr(kind, "item_type"):
            return [_present(item, kind.item_type) for item in value]
    return value


def _bound(text: str) -> str:
    """`>= 1` and `of length >= 1` in words."""
    for sign, words in _SIGNS.items():
        text = text.replace(f" of length {sign} ", f" whose length is {words} ").replace(
            f" {sign} ", f" of {words} "
        )
    return text


def _choices(path: str, wanted: Any) -> str:
    """The words that may stand at a path."""
    from msgspec import inspect

    node: Any = inspect.type_info(wanted)
    for part in re.findall(r"\.([^.\[]+)|\[", path):
        node = _inside(node, part)
    for choice in _members(node):
        if isinstance(choice, inspect.LiteralType):
            return " or ".join(repr(value) for value in choice.values)
    return "one of the words that exist"


def _inside(node: Any, name: str) -> Any:
    for member in _members(node):
        if name:
            for field in getattr(member, "fields", ()):
                if field.encode_name == name:
                    return field.type
        elif hasattr(member, "item_type"):
            return member.item_type
        elif hasattr(member, "value_type"):
            return member.value_type
    return None


def _members(node: Any) -> tuple[Any, ...]:
    return getattr(node, "types", (node,))
