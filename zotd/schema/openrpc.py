"""Owns the OpenRPC document that `rpc.discover` answers with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from zotd.protocol.envelope import Envelope
from zotd.protocol.events import EVENTS
from zotd.protocol.methods import METHOD_TYPES, PROTOCOL_VERSION, SERVER_METHOD_TYPES
from zotd.protocol.rpc_errors import ERROR_KINDS, METHOD_ERRORS, OF_EVERY_METHOD
from zotd.schema.catalogue import StructType
from zotd.schema.definitions import schemas
from zotd.schema.docstrings import documentation
from zotd.schema.examples import answer_shown

SERVER_METHODS = "x-zotd-server-methods"
"""OpenRPC knows only what clients call. Here is what the daemon sends by itself, in the same form."""

_SCHEMAS = "#/components/schemas/"
_ENVELOPE_FIRST = ("session_id", "seq", "time")
_EMPTY = {"type": "object", "maxProperties": 0}


def openrpc() -> dict[str, Any]:
    """One entry for each method, request and notification, and the shapes and errors they use.

    Raises DocumentationError when a struct is not fully documented.
    """
    shapes = schemas(_SCHEMAS + "{name}")
    methods = [
        {**_method(name, *both, shapes), "errors": list(_errors((*OF_EVERY_METHOD, *METHOD_ERRORS[name])))}
        for name, both in METHOD_TYPES.items()
    ]
    from_us = [_method(name, *both, shapes) for name, both in SERVER_METHOD_TYPES.items()]
    from_us += [_event(struct, shapes) for struct in EVENTS.values()]
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": "zotd",
            "description": "A coding agent for editors, over JSON-RPC 2.0. Readers ignore members they do "
            "not know, and values of an enumeration may be added. `version` is the protocol's major version.",
            "version": str(PROTOCOL_VERSION),
        },
        "methods": methods,
        SERVER_METHODS: from_us,
        "components": {
            "schemas": _used([methods, from_us], shapes),
            "errors": {
                kind: {"code": code, "message": meaning, "data": {"kind": kind}}
                for kind, (code, meaning) in ERROR_KINDS.items()
            },
        },
    }


def _method(
    name: str, params: StructType, result: StructType | None, shapes: dict[str, Any]
) -> dict[str, Any]:
    words = documentation(params)
    return {
        "name": name,
        **_summary(words.meaning),
        "paramStructure": "by-name",
        "params": _members(shapes[params.__name__]),
        "result": {
            "name": result.__name__ if result is not None else "nothing",
            "schema": {"$ref": _SCHEMAS + result.__name__} if result is not None else _EMPTY,
        },
        "examples": [
            {
                "name": name,
                "params": [{"name": key, "value": value} for key, value in words.example.items()],
                "result": {"name": "result", "value": answer_shown(name)},
            }
        ],
    }


def _event(struct: StructType, shapes: dict[str, Any]) -> dict[str, Any]:
    """A notification: its params are the event without `type`, inside the envelope of all events."""
    words = documentation(struct)
    own = {item["name"]: item for item in _members(shapes[struct.__name__]) if item["name"] != "type"}
    # An event may have a member of the envelope as its own, and then as one that is always there.
    members = {item["name"]: item for item in _members(shapes[Envelope.__name__])} | own
    example = {**documentation(Envelope).example, **words.example}
    return {
        "name": example.pop("type"),
        **_summary(words.meaning),
        "paramStructure": "by-name",
        "params": sorted(
            members.values(), key=lambda item: (not item["required"], item["name"] not in _ENVELOPE_FIRST)
        ),
        "examples": [
            {
                "name": str(struct.__struct_config__.tag),
                "params": [{"name": key, "value": value} for key, value in example.items()],
            }
        ],
    }


def _summary(meaning: str) -> dict[str, str]:
    """The first sentence, and all of it where there is more."""
    first, _, rest = meaning.partition(". ")
    return {"summary": f"{first}.", "description": meaning} if rest else {"summary": meaning}


def _members(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The members of an object as content descriptors, needed ones first, which OpenRPC asks for."""
    required = schema.get("required", ())
    members = [
        {
            "name": name,
            **({"description": member["description"]} if "description" in member else {}),
            "required": name in required,
            "schema": {key: value for key, value in member.items() if key != "description"},
        }
        for name, member in schema["properties"].items()
    ]
    return sorted(members, key=lambda member: not member["required"])


def _errors(kinds: Iterable[str]) -> Iterator[dict[str, Any]]:
    """One entry for each code, as OpenRPC wants it; `data.kind` lists what shares a code."""
    by_code: dict[int, list[str]] = defaultdict(list)
    for kind in kinds:
        by_code[ERROR_KINDS[kind].code].append(kind)
    for code, sharing in by_code.items():
        if len(sharing) == 1:
            yield {"$ref": f"#/components/errors/{sharing[0]}"}
        else:
            meanings = "; ".join(f"{kind}: {ERROR_KINDS[kind].meaning}" for kind in sharing)
            yield {"code": code, "message": meanings, "data": {"kind": sharing}}


def _used(value: Any, shapes: dict[str, Any]) -> dict[str, Any]:
    """The shapes that a value refers to, directly or through others, in the catalogue's order."""
    found: set[str] = set()
    waiting = list(_references(value))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(shapes[name])
    return {name: shape for name, shape in shapes.items() if name in found}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        ref = value.get("$ref")
        if isinstance(ref, str) and ref.startswith(_SCHEMAS):
            yield ref.removeprefix(_SCHEMAS)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
