"""Owns JSON: bytes to values and back, and what is said when that fails.

Reading never raises anything but the errors below. Writing never fails on odd text (lone surrogates of file
names) and never lets a raw U+2028 or U+2029 out, which some readers take for line ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

import orjson

FrameId: TypeAlias = str | int | float

DEEPEST = 240
"""Levels of arrays and objects that are written; orjson reads 1,024 but writes only 254."""

_TOO_DEEP = ("depth limit exceeded", "failed to allocate memory")
"""What orjson says of brackets within brackets: it keeps room for so many only, in a short text for fewer."""

# Patterns are compiled when something is wrong, not at import: start-up is counted in milliseconds.
_ID = rb'"id"\s*:\s*(?:"((?:[^"\\]|\\.){1,200})"|(-?\d{1,18})\b)'
_ESCAPE = (
    rb"(?s)\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)

_PANELS = ("open_panel", "panel")
"""Members that are objects of our own vocabulary; in all other objects `null` is data."""

DECISIVE = frozenset({"block", "is_error", "content", "action", "open_panel", "error"})
"""Optional members that make an answer another one when they are left out: with a bad one it is none."""


class WireError(Exception):
    """A frame that cannot be used. `id` is the frame's own, None when it had none that could be read."""

    def __init__(self, message: str, id: FrameId | None = None) -> None:  # noqa: A002
        super().__init__(message)
        self.message = message
        self.id = id


class Malformed(WireError):
    """Not JSON, not UTF-8, or not an object where one was due. The message says where."""


class UnknownType(WireError):
    """An object whose `type` names no frame; `type` is what it said, or None when it said nothing usable."""

    def __init__(self, type: str | None, id: FrameId | None = None) -> None:  # noqa: A002
        said = "has no `type` that is a string" if type is None else f"has the unknown type {type!r}"
        super().__init__(f"frame {said}", id)
        self.type = type


class BadField(WireError):
    """A field with a wrong type, or one that is missing. `path` is a JSON path such as `$.name`."""

    def __init__(self, type: str, path: str, what: str, id: FrameId | None = None) -> None:  # noqa: A002
        super().__init__(f"{type}: {what} at {path}", id)
        self.type = type
        self.path = path


def decode(payload: bytes) -> Any:
    """The JSON value in `payload`. Lone surrogate escapes, which JavaScript writes, become U+FFFD.

    Raises Malformed with a message such as `malformed json: unexpected character at byte 7`.
    """
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        return _decode_again(payload, error)


def encode(value: Any) -> bytes:
    """One line of JSON for a value of plain types and structs, without a line end.

    What nests deeper than `DEEPEST` is written as a text that says so. Raises TypeError for what JSON cannot
    hold, which is a mistake of the caller.
    """
    try:
        payload = orjson.dumps(value, default=to_wire)
    except (orjson.JSONEncodeError, RecursionError):
        payload = orjson.dumps(_representable(value))
    return _without_line_separators(payload)


def encode_to_keep(value: Any) -> bytes:
    """As `encode`, for bytes that stay in memory: the encoder's own hold all the room it worked in, 4 KiB for
    one word.
    """
    return memoryview(encode(value)).tobytes()


def _without_line_separators(payload: bytes) -> bytes:
    if b"\xe2\x80" in payload:
        payload = payload.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return payload


def to_wire(struct: Any) -> Any:
    """The plain dict, tag included, of a msgspec struct. Raises TypeError for anything that is no struct."""
    if not hasattr(struct, "__struct_config__"):
        raise TypeError(f"{type(struct).__name__} has no place in JSON")
    import msgspec

    return msgspec.to_builtins(struct)


class FrameDecoder:
    """Bytes to structs; `frames` maps each `type` to its struct.

    What is as it should be takes one step in C. Whatever that step refuses is looked at again, by slower
    means that mend what is harmless and can say what is wrong.
    """

    def __init__(self, frames: Mapping[str, type]) -> None:
        import msgspec

        self._frames = frames
        self._at_once: Any = msgspec.json.Decoder(reduce(or_, frames.values()))

    def decode(self, payload: bytes, ignored: list[str] | None = None) -> Any:
        """The struct that `payload` holds. `ignored` as for `from_wire`.

        Raises Malformed, UnknownType or BadField, each with the frame's `id` if it had one.
        """
        try:
            if not payload.isascii():
                payload.decode()  # the decoder looks at no text that it skips
            return self._at_once.decode(payload)
        except (ValueError, RecursionError):
            pass
        value = decode(payload)
        if not isinstance(value, dict):
            raise Malformed(f"a frame is a JSON object, this is {json_name(value)}")
        return from_wire(value, self._frames, ignored)


def encode_frame(frame: Any) -> bytes:
    """A line of JSON, line end included, for a struct: as `encode`, in one step where nothing is odd."""
    import msgspec

    try:
        payload = msgspec.json.encode(frame)
    except (ValueError, RecursionError):  # lone surrogates, or too deep
        return encode(frame) + b"\n"
    return _without_line_separators(payload) + b"\n"


def from_wire(value: Mapping[str, Any], frames: Mapping[str, type], ignored: list[str] | None = None) -> Any:
    """The struct for an object that is parsed already. Raises UnknownType or BadField.

    ignored: where given, an optional member of a wrong type counts as absent, and what is wrong with it is
    added here.
    """
    import msgspec

    kind, frame_id = value.get("type"), _id_of(value)
    struct = frames.get(kind) if isinstance(kind, str) else None
    if struct is None:
        raise UnknownType(kind if isinstance(kind, str) else None, frame_id)
    value = _without_nulls(value)
    while True:
        try:
            return msgspec.convert(value, struct)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at `")
            path = where.rstrip("`") or "$"
            mended = (
                None if ignored is None else _without(value, struct, path.partition("[")[0].split(".")[1:])
            )
            if mended is None or ignored is None:
                raise BadField(str(kind), path, what, frame_id) from None
            ignored.append(f"{kind}: {what} at {path}")
            value = mended


def _without(value: Mapping[str, Any], struct: type, path: list[str]) -> Mapping[str, Any] | None:
    """The object without the innermost optional member on a path; None when every one is needed."""
    from msgspec import structs

    if not path:
        return None
    name, *inner = path
    if name in _PANELS and inner:
        from zotd.protocol.frame_parts import PanelSpec

        if (panel := _without(value[name], PanelSpec, inner)) is not None:
            return {**value, name: panel}
    if name in DECISIVE or any(
        field.required and field.encode_name == name for field in structs.fields(struct)
    ):
        return None
    return {key: item for key, item in value.items() if key != name}


def _without_nulls(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A member that is `null` counts as absent: many languages write their empty values so."""
    if None in value.values() or any(isinstance(value.get(name), dict) for name in _PANELS):
        return {
            key: _without_nulls(item) if key in _PANELS and isinstance(item, dict) else item
            for key, item in value.items()
            if item is not None
        }
    return value


def near_id(head: bytes) -> FrameId | None:
    """The first `id` in text that is no JSON, as far as it can be read; None if there is none."""
    import re

    found = re.search(_ID, head)
    if found is None:
        return None
    if found[2] is not None:
        return int(found[2])
    try:
        text = orjson.loads(b'"' + found[1] + b'"')
    except orjson.JSONDecodeError:
        return None
    return str(text)


def json_name(value: Any) -> str:
    """What JSON calls a value, with its article: `an array`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return "a string" if isinstance(value, str) else "a number"


def _id_of(value: Mapping[str, Any]) -> FrameId | None:
    found = value.get("id")
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def _decode_again(payload: bytes, error: orjson.JSONDecodeError) -> Any:
    """Mends lone surrogate escapes, the one fault that is common and harmless; else says what is wrong."""
    if "surrogate" in error.msg:
        import re

        mended = re.sub(_ESCAPE, lambda found: rb"\ufffd" if found[1] else found[0], payload)
        try:
            return orjson.loads(mended)
        except orjson.JSONDecodeError as still:
            error = still
    raise Malformed(f"malformed json: {_reason(payload, error)}", near_id(payload)) from None


def _reason(payload: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        text = payload.decode()
    except UnicodeDecodeError as bad:
        return f"invalid UTF-8 at byte {bad.start}"
    said = error.msg.split(": line")[0]
    if said in _TOO_DEEP:
        return "nested too deeply"
    # orjson counts characters; a person looks for bytes in a log.
    return f"{said} at byte {len(text[: error.pos].encode())}"


def _representable(value: Any, depth: int = 0) -> Any:
    """The same value with text that is valid Unicode, numbers that fit 64 bits, a depth orjson writes."""
    if depth > DEEPEST:
        return "(nested too deeply)"
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 64:
        return float(value)
    if isinstance(value, dict):
        return {_representable(key): _representable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_representable(item, depth + 1) for item in value]
    if hasattr(value, "__struct_config__"):
        from msgspec import structs

        fields = {name: _representable(field, depth + 1) for name, field in structs.asdict(value).items()}
        return to_wire(structs.replace(value, **fields))
    return value
