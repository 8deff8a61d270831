"""Owns the reference page of the JSON-RPC methods."""

from __future__ import annotations

from collections.abc import Iterable

from zotd.protocol.methods import METHOD_TYPES, PROTOCOL_VERSION
from zotd.protocol.rpc_errors import ERROR_KINDS, METHOD_ERRORS, OF_EVERY_METHOD
from zotd.schema.catalogue import METHOD_SHAPES, StructType
from zotd.schema.docstrings import documentation
from zotd.schema.reference import GENERATED, code, section, table

_HEAD = f"""# Methods

JSON-RPC 2.0, as `Content-Length` frames or one object per line; protocol version {PROTOCOL_VERSION}. Both
ends ignore members they do not know. A member that is not required and not set is left out. What happens in a
session comes as notifications: see [events.md](events.md). The JSON Schema is [schema.json](schema.json)."""
_ERRORS = """An error carries a code, a message for a person, and in `data` the member `kind`, the stable word
below, and often `hint`, what to do next. Any method may answer with these:"""


def methods_page() -> str:
    """`methods.md`: one section for each method, then the shapes they share."""
    parts = [GENERATED, _HEAD, "## Errors", _ERRORS, _kinds(OF_EVERY_METHOD)]
    for number, name in enumerate(METHOD_TYPES, 1):
        parts += _method(name, number)
    parts += section("Shapes", METHOD_SHAPES)
    return "\n\n".join(parts) + "\n"


def _method(name: str, number: int) -> list[str]:
    """Meaning, params, result, example, errors. `number` becomes the id in the example."""
    params, result = METHOD_TYPES[name]
    request = {"jsonrpc": "2.0", "id": number, "method": name, "params": documentation(params).example}
    answer = documentation(result).example if result is not None else {}
    own = METHOD_ERRORS[name]
    return [
        f"## `{name}`",
        documentation(params).meaning,
        "**Params**",
        *(table(params) or ["None."]),
        "**Result**",
        *_result(result),
        "**Example**",
        code(request, {"jsonrpc": "2.0", "id": number, "result": answer}),
        "**Errors**",
        _kinds(own) if own else "None of its own.",
    ]


def _result(result: StructType | None) -> list[str]:
    return table(result) if result is not None else ["The empty object."]


def _kinds(names: Iterable[str]) -> str:
    rows = [f"| `{name}` | {ERROR_KINDS[name].code} | {ERROR_KINDS[name].meaning} |" for name in names]
    return "\n".join(["| kind | code | meaning |", "|---|---|---|", *rows])
