"""Owns the reference pages of events and frames in Markdown, and how a struct looks on any page."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
from msgspec import inspect

from zotd.protocol.envelope import Envelope
from zotd.protocol.frames import FrameBase
from zotd.protocol.manifest import Manifest
from zotd.schema.catalogue import (
    EVENT_SHAPES,
    EVENTS,
    FRAME_SHAPES,
    FRAMES_FROM_EXTENSION,
    FRAMES_FROM_HOST,
    METHOD_SHAPES,
    REPLIES,
    StructType,
)
from zotd.schema.docstrings import documentation

GENERATED = "<!-- Written by `python -m zotd.schema` from zotd/protocol. Do not edit. -->"
_EVENTS_HEAD = """# Events

A session publishes events; every attached client gets the same ones in the same order. Over JSON-RPC an event
is a notification whose method is the event's `type` and whose params are the rest; the zot dialect and
`--json` print the object as it is.

Readers ignore members they do not know, and values of an enumeration may be added. A member that is not
required and not set is left out. The JSON Schema is [schema.json](/reference/schema.json), definition
`PublishedEvent`."""
_FRAMES_HEAD = """# Extension frames

One JSON object per line between the host and an extension, on the extension's stdin and stdout. The member
`type` names the frame; a member `id` correlates a request with its answer.

Both ends ignore members they do not know. A member that is not required and not set is left out; in a frame
from an extension `null` counts as absent. The JSON Schema is [schema.json](/reference/schema.json),
definitions `FromExtension` and `FromHost`."""

_HOME: dict[type, str] = {
    **dict.fromkeys(EVENT_SHAPES, "/reference/events.md"),
    **dict.fromkeys(FRAME_SHAPES, "/reference/extension-frames.md"),
    **dict.fromkeys(METHOD_SHAPES, "/rpc.md"),
}
"""The page that describes a shape, whichever page uses it; a `/` at the start stands for docs/."""


def events_page() -> str:
    """`events.md`: the envelope, every event, every shape they are made of."""
    parts = [
        GENERATED,
        _EVENTS_HEAD,
        "## The envelope",
        *_body(Envelope),
        *section("Every event", EVENTS),
        *section("Lines that are no events", REPLIES),
        *section("Shapes", EVENT_SHAPES),
    ]
    return "\n\n".join(parts) + "\n"


def frames_page() -> str:
    """`extension-frames.md`: every frame in both directions, and the manifest."""
    parts = [
        GENERATED,
        _FRAMES_HEAD,
        *section("From the extension to the host", FRAMES_FROM_EXTENSION),
        *section("From the host to the extension", FRAMES_FROM_HOST),
        *section("Shapes", FRAME_SHAPES),
        "## The manifest, `extension.json`",
        *_body(Manifest),
    ]
    return "\n\n".join(parts) + "\n"


def section(title: str, structs: Iterable[StructType]) -> list[str]:
    """A heading, and below it the description of each struct."""
    parts = [f"## {title}"]
    for struct in structs:
        tag = struct.__struct_config__.tag
        by_type = struct.__struct_config__.tag_field == "type"
        named_by_type = tag is not None and by_type and struct not in EVENT_SHAPES
        parts += [f"### `{tag}`" if named_by_type else f"### {struct.__name__}", *_body(struct)]
    return parts


def _body(struct: StructType) -> list[str]:
    """Meaning, table of members, example."""
    words = documentation(struct)
    return [words.meaning, *table(struct), code(words.example)]


def table(struct: StructType) -> list[str]:
    """The members of a struct as one table; nothing when it has none."""
    words = documentation(struct)
    rows = [_row(field, words.fields[field.encode_name]) for field in _fields(struct)]
    if struct in EVENT_SHAPES and (tag := struct.__struct_config__.tag):
        rows.insert(0, f"| `type` | `{json.dumps(tag)}` | yes | which block it is. |")
    if (config := struct.__struct_config__).tag_field == "mode":
        rows.insert(0, f"| `mode` | `{json.dumps(config.tag)}` | yes | which kind it is. |")
    return ["\n".join(["| member | type | required | meaning |", "|---|---|---|---|", *rows])] if rows else []


def code(*values: object) -> str:
    """A fence with one line of JSON for each value."""
    lines = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values]
    return "\n".join(["```json", *lines, "```"])


def _fields(struct: StructType) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    inherited = FrameBase.__struct_fields__ if issubclass(struct, FrameBase) else ()
    # What must be there comes first; what every frame has, last.
    return tuple(sorted(info.fields, key=lambda field: (not field.required, field.name in inherited)))


def _row(field: inspect.Field, meaning: str) -> str:
    required = "yes" if field.required else _default(field)
    cells = (f"`{field.encode_name}`", type_name(field.type), required, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: inspect.Field) -> str:
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return "no" if value is None else f"no, `{json.dumps(msgspec.to_builtins(value))}`"


def type_name(kind: inspect.Type) -> str:
    """A type in the words of JSON: `string`, `array of Text or Image`, `"allow"` or `"deny"`."""
    match kind:
        case inspect.UnionType(types=types):
            return " or ".join(type_name(each) for each in types if not isinstance(each, inspect.NoneType))
        case inspect.ListType(item_type=item):
            return f"array of {type_name(item)}"
        case inspect.StructType(cls=cls):
            return f"[{cls.__name__}]({_HOME[cls]}#{cls.__name__.lower()})"
        case inspect.LiteralType(values=values):
            return " or ".join(f"`{json.dumps(value)}`" for value in sorted(values, key=str))
        case inspect.Metadata(type=inner):
            return type_name(inner)
        case inspect.DictType():
            return "object"
        case _:
            return _PLAIN[type(kind)]


_PLAIN: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.AnyType: "any value",
}
