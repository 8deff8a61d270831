"""Owns the JSON Schema of the protocol."""

from __future__ import annotations

from typing import Any

import msgspec

from zotd.schema.catalogue import STRUCTS, UNIONS, StructType
from zotd.schema.docstrings import documentation

_REF = "#/$defs/{name}"


def json_schema() -> dict[str, Any]:
    """One document with a definition for every struct and union, under `$defs`.

    `PublishedEvent` is an event with its envelope, as clients get it.
    Raises DocumentationError when a struct is not fully documented.
    """
    definitions = schemas(_REF)
    for name, union in UNIONS.items():
        definitions[name] = {"anyOf": [_reference(struct.__name__) for struct in union]}
    definitions["PublishedEvent"] = {
        "description": "An event as clients get it.",
        "allOf": [_reference("Envelope"), _reference("Event")],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The vocabulary of zotd",
        "$defs": definitions,
    }


def schemas(ref: str) -> dict[str, dict[str, Any]]:
    """The schema of every struct, by its name; they refer to each other by `ref` with `{name}` filled in.

    Raises DocumentationError when a struct is not fully documented.
    """
    _, generated = msgspec.json.schema_components(STRUCTS, ref_template=ref)
    found = {struct.__name__: _described(struct, generated[struct.__name__]) for struct in STRUCTS}
    if strange := sorted(generated.keys() - found.keys()):
        raise ValueError(f"structs that others use and the catalogue lacks: {', '.join(strange)}")
    return found


def _reference(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(name=name)}


def _described(struct: StructType, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a struct with what its docstring says put where JSON Schema has a place for it."""
    words = documentation(struct)
    described: dict[str, Any] = _plain(schema)
    described["description"] = words.meaning
    described["examples"] = [words.example]
    for name, meaning in words.fields.items():
        described["properties"][name]["description"] = meaning
    return described


def _plain(value: Any) -> Any:
    """The same schema without `discriminator`, which is OpenAPI's and which strict validators refuse."""
    if isinstance(value, dict):
        return {
            key: _plain(item)
            for key, item in value.items()
            if not (key == "discriminator" and "anyOf" in value)
        }
    return [_plain(item) for item in value] if isinstance(value, list) else value
