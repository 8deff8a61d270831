"""Owns the reference page of the JSON-RPC surface."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import fields

from zotd.protocol.events import EVENTS
from zotd.protocol.methods import METHOD_TYPES, PROTOCOL_VERSION, SERVER_METHOD_TYPES
from zotd.protocol.rpc_errors import ERROR_KINDS, METHOD_ERRORS, OF_EVERY_METHOD
from zotd.schema.catalogue import METHOD_SHAPES, StructType
from zotd.schema.docstrings import documentation
from zotd.schema.examples import answer_shown
from zotd.schema.reference import GENERATED, code, section, table

_HEAD = f"""# RPC

JSON-RPC 2.0, protocol version {PROTOCOL_VERSION}, over pipes, a Unix socket or a WebSocket:
[connecting.md](/connecting.md) tells how. The [walkthrough](/protocol-walkthrough.md) is one connection from its first line to its last;
[examples/rpc](/../examples/rpc/README.md) has small clients to copy. `rpc.discover` answers with all of this page
as an OpenRPC document; the JSON Schema of every shape is [schema.json](/reference/schema.json).

Both ends ignore members they do not know, `_meta` among them, and values of an enumeration may be added. A member
that is not required and not set is left out; `null` counts as absent. Params go by name, and may themselves be
absent, `null`, `{{}}` or `[]` where nothing is required. Ids are strings or numbers, 0 included, and come back as
they were. Batches are taken.

## Framing and dialect

The first bytes of a connection decide, so no bridge is needed between a client and the daemon:

| first bytes | framing | first object | dialect |
|---|---|---|---|
| `Content-Length:` | header, empty line, that many bytes, as language servers do | has `jsonrpc` | JSON-RPC 2.0 |
| `{{` or `[` | one JSON value a line, ended by LF | has `jsonrpc` | JSON-RPC 2.0 |
| `{{` | one JSON object a line, ended by LF | has `type` | [the zot dialect](/dialect.md) |

What is no JSON, or neither, is answered with an error, and the next frame decides. Frames of either direction hold
no raw U+2028 or U+2029; a frame that is [too large](/limits.md) is answered with an error and skipped.

## Life of a connection

1. `initialize` says who the client is and what it can show. `ping` and `rpc.discover` are answered before it too,
   unless the daemon wants a token: then nothing is until `initialize` brought it.
2. `session/new`, `session/load` or `session/attach` give a session, whose events come as notifications from then on.
   All clients of a session get the same events in the same order.
3. `turn/start` sends a prompt and is answered at once; the turn ends with exactly one `done` that carries its
   `turn_id`, whatever happens.
4. `$/cancelRequest {{"id": ...}}`, or `$/cancel_request`, gives up waiting for an answer: it comes as error -32800. It
   never aborts a turn; `turn/abort` does. What changes a file or a session step by step, as `session/close` or
   `workspace/trust` do, goes on to its end and is answered as usual, also when its client leaves.
5. A client that lost its connection attaches again with `epoch` and `since`, the `seq` of the last event it has:
   it gets every later one, once. Where they are not kept any more, one `resync` stands in for them.
6. `shutdown` and `exit` end the connection, never a shared daemon. [How](/connecting.md#leaving)."""  # noqa: E501
_ERRORS = """An error carries a code, a message for a person, and in `data` the member `kind`, the stable word
below, often `hint`, what to do next, and where a member of the params is wrong `path`, its JSON path. Any
method may answer with these:"""
_ASKED = """Requests of the daemon to its clients, with ids of its own. A client that answers with an
error, or does not know the method, is left out."""
_EVENTS = """A notification's method is the event's `type`, its params are the rest: the members below, and in
each `session_id`, `seq` (it grows by 1), `time`, and in those of a turn `turn_id`."""


def rpc_page() -> str:
    """`rpc.md`: framing, one section for each method, the events, then the shapes that methods share."""
    parts = [GENERATED, _HEAD, "## Errors", _ERRORS, _kinds(OF_EVERY_METHOD), "## Methods", _contents()]
    for number, name in enumerate(METHOD_TYPES, 1):
        parts += [*_method(name, number, *METHOD_TYPES[name]), "**Errors**", _errors_of(name)]
    parts += ["## What the daemon asks", _ASKED]
    for number, (name, both) in enumerate(SERVER_METHOD_TYPES.items(), 1):
        parts += _method(name, number, *both)
    parts += ["## Events", _EVENTS, _events(), *section("Shapes", METHOD_SHAPES)]
    return "\n\n".join(parts) + "\n"


def _contents() -> str:
    rows = [
        f"| [`{name}`](/rpc.md#{_anchor(name)}) | {_first(params)} |"
        for name, (params, _) in METHOD_TYPES.items()
    ]
    return "\n".join(["| method | meaning |", "|---|---|", *rows])


def _anchor(name: str) -> str:
    """The anchor that a Markdown viewer makes of a heading."""
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter in "-_")


def _events() -> str:
    rows = [
        f"| [`{name}`](/reference/events.md#{name}) | {_members(struct)} | {_first(struct)} |"
        for name, struct in EVENTS.items()
    ]
    return "\n".join(["| event | members (`?` optional) | meaning |", "|---|---|---|", *rows])


def _members(struct: StructType) -> str:
    return " ".join(f"`{field.encode_name}`{'' if field.required else '?'}" for field in fields(struct))


def _first(struct: StructType) -> str:
    """The first sentence of what a struct means."""
    return documentation(struct).meaning.partition(". ")[0].removesuffix(".").replace("|", "\\|") + "."


def _method(name: str, number: int, params: StructType, result: StructType | None) -> list[str]:
    """Meaning, params, result, example. `number` becomes the id in the example."""
    request = {"jsonrpc": "2.0", "id": number, "method": name, "params": documentation(params).example}
    return [
        f"## `{name}`",
        documentation(params).meaning,
        "**Params**",
        *(table(params) or ["None."]),
        "**Result**",
        *_result(result),
        "**Example**",
        code(request, {"jsonrpc": "2.0", "id": number, "result": answer_shown(name)}),
    ]


def _errors_of(name: str) -> str:
    own = METHOD_ERRORS[name]
    return _kinds(own) if own else "None of its own."


def _result(result: StructType | None) -> list[str]:
    return table(result) if result is not None else ["The empty object."]


def _kinds(names: Iterable[str]) -> str:
    rows = [f"| `{name}` | {ERROR_KINDS[name].code} | {ERROR_KINDS[name].meaning} |" for name in names]
    return "\n".join(["| kind | code | meaning |", "|---|---|---|", *rows])
