"""Every recorded line and every example of the protocol is read and written back without loss."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, get_args

import msgspec
import pytest

from zotd.protocol.content import Block, Message, Usage
from zotd.protocol.envelope import Envelope
from zotd.protocol.events import EVENTS
from zotd.protocol.frames import FROM_EXTENSION, FROM_HOST
from zotd.protocol.manifest import Manifest
from zotd.protocol.replies import Response, RunResult

Row: TypeAlias = dict[str, Any]
Structs: TypeAlias = Mapping[str, type[msgspec.Struct]]

VECTORS = Path(__file__).parent / "vectors"
SESSION_FILE = "zot-session-file.jsonl"
"""Recorded whole, and judged by who reads session files."""
ENVELOPE = {field.encode_name: field.type for field in msgspec.structs.fields(Envelope)}
MANIFEST = ""  # has no `type`
STRUCTS: dict[str, Structs] = {
    "from_extension": FROM_EXTENSION,
    "from_host": FROM_HOST,
    "manifest": {MANIFEST: Manifest},
    "block": {str(struct.__struct_config__.tag): struct for struct in get_args(Block)},
    "event": EVENTS,
    "published": EVENTS,
    "reply": {str(struct.__struct_config__.tag): struct for struct in (Response, RunResult)},
}
# All that an event of ours may have besides what zot's has, and where it may differ.
ADDED = {"usage": {"context"}, "tool_result": {"details"}, "done": {"turn_id", "stop"}}
DEPARTS = {"turn_end": {"stop"}}
PAYLOADS: dict[str, dict[str, Any]] = {
    "get_messages": {"messages": list[Message]},
    "get_state": {"usage": Usage},
}


def rows() -> list[Row]:
    return [
        {**json.loads(line), "at": f"{path.name}:{number}"}
        for path in sorted(VECTORS.glob("*.jsonl"))
        if path.name != SESSION_FILE
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        if line
    ]


ROWS = rows()
VALID = [row for row in ROWS if row["valid"]]


def where(row: Row) -> str:
    return str(row["at"])


def judged(row: Row) -> Any:
    """What is judged of a row: a line recorded from zot is completed to one of ours."""
    return (
        {**row["json"], **row.get("added", {}), **row.get("departs", {})}
        if "added" in row or "departs" in row
        else row["json"]
    )


def fault_of(row: Row, structs: Structs) -> str:
    """What is wrong with a row; empty if it is read and written back without loss."""
    value = judged(row)
    if not isinstance(value, dict):
        return "no object"
    kind = MANIFEST if MANIFEST in structs else value.get("type")
    struct = structs.get(kind) if isinstance(kind, str) else None
    if struct is None:
        return "unknown type"
    own = {key: item for key, item in value.items() if key not in row.get("ignored", ())}
    if structs is EVENTS:
        names = {field.encode_name for field in msgspec.structs.fields(struct)}
        wrapping = {
            key: own.pop(key) for key in ENVELOPE if key in own and (key == "session_id" or key not in names)
        }
        if problem := envelope_fault(wrapping, whole=row["direction"] == "published"):
            return problem
    try:
        read = msgspec.convert(own, struct)
    except msgspec.ValidationError as error:
        return str(error)
    return loss(own, read)


def envelope_fault(wrapping: dict[str, Any], whole: bool) -> str:
    filler = {} if whole else {"session_id": "s", "seq": 1, "time": "t"}
    try:
        read = msgspec.convert({**filler, **wrapping}, Envelope)
    except msgspec.ValidationError as error:
        return str(error)
    return loss({**filler, **wrapping}, read)


def loss(sent: dict[str, Any], read: msgspec.Struct) -> str:
    """How what was read differs from what was sent; members that have their default may be absent."""
    config = read.__struct_config__
    kept = {
        field.encode_name: msgspec.to_builtins(getattr(read, field.name))
        for field in msgspec.structs.fields(read)
    }
    if config.tag_field is not None:
        kept[config.tag_field] = config.tag
    for name, value in sent.items():
        if name not in kept:
            return f"`{name}` is lost"
        if as_text(kept[name]) != as_text(value):
            return f"`{name}` becomes {as_text(kept[name])}"
    invented = msgspec.to_builtins(read).keys() - sent.keys() if config.omit_defaults else set()
    return f"{sorted(invented)} are invented" if invented else ""


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("row", ROWS, ids=where)
def test_a_vector_is_judged_as_it_says(row: Row) -> None:
    fault = fault_of(row, STRUCTS[row["direction"]])
    assert (fault == "") is row["valid"], fault
    assert row.get("fault", "") in fault


def test_lines_of_zot_differ_from_ours_in_nothing_but_what_is_listed() -> None:
    for row in VALID:
        kind = row["json"].get("type")
        assert row.get("added", {}).keys() <= ADDED.get(kind, set()), where(row)
        assert row.get("departs", {}).keys() <= DEPARTS.get(kind, set()), where(row)
        assert not row.get("added", {}).keys() & row["json"].keys(), where(row)


@pytest.mark.parametrize("direction", ["from_extension", "from_host", "event", "block", "reply"])
def test_every_type_has_vectors_of_both_kinds(direction: str) -> None:
    kinds = defaultdict(set)
    for row in ROWS:
        if row["direction"] == direction and isinstance(row["json"], dict):
            kinds[row["valid"]].add(row["json"].get("type"))
    fields = {tag: msgspec.structs.fields(struct) for tag, struct in STRUCTS[direction].items()}
    with_fields = {tag for tag, members in fields.items() if members}
    if direction == "block":
        # The blocks of other frames are judged inside them.
        assert kinds[True] == {"text", "image"}
        return
    assert kinds[True] == set(fields)
    assert kinds[False] >= with_fields


def fields_to_lose() -> list[tuple[str, str, str]]:
    return [
        (direction, tag, field.encode_name)
        for direction, structs in STRUCTS.items()
        if direction not in ("published", "block")
        for tag, struct in structs.items()
        for field in msgspec.structs.fields(struct)
    ]


@pytest.mark.parametrize(("direction", "tag", "lost"), fields_to_lose())
def test_a_struct_that_lost_a_field_would_be_noticed(direction: str, tag: str, lost: str) -> None:
    struct = STRUCTS[direction][tag]
    poorer = msgspec.defstruct(
        struct.__name__,
        [(f.name, f.type, *defaults(f)) for f in msgspec.structs.fields(struct) if f.encode_name != lost],
        tag_field="type" if tag else None,
        tag=tag or None,
        kw_only=True,
        omit_defaults=True,
    )
    structs = {**STRUCTS[direction], tag: poorer}
    concerned = [row for row in VALID if row["direction"] == direction and row["json"].get("type", "") == tag]
    faults = [loss_of_own(row, structs) for row in concerned]
    assert f"`{lost}` is lost" in faults


def loss_of_own(row: Row, structs: Structs) -> str:
    """As `fault_of`, with the envelope taken off first: `structs` is not the table of events here."""
    own = judged(row)
    if row["direction"] == "event":
        names = {field.encode_name for field in msgspec.structs.fields(EVENTS[own["type"]])}
        own = {key: item for key, item in own.items() if key not in ENVELOPE or key in names}
    return fault_of({**row, "json": own, "added": {}, "departs": {}}, structs)


def defaults(field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    if field.default is not msgspec.NODEFAULT:
        return (field.default,)
    if field.default_factory is not msgspec.NODEFAULT:
        return (msgspec.field(default_factory=field.default_factory),)
    return ()


def test_recorded_answers_hold_messages_and_usage_of_ours() -> None:
    seen = set()
    for row in VALID:
        if row["direction"] != "reply" or row["json"]["type"] != "response":
            continue
        for name, kind in PAYLOADS.get(row["json"]["command"], {}).items():
            payload = row["json"]["data"][name]
            assert as_text(msgspec.to_builtins(msgspec.convert(payload, kind))) == as_text(payload)
            seen.add(name)
    assert seen == {"messages", "usage"}
