"""Owns the zot dialect: commands in, responses and events out, in the shapes zot's own clients parse.

A command is `{"type": NAME, "id"?: …, …}`, its answer
`{"type":"response","command":NAME,"success":true|false,"id"?: same,"data"?: …|"error"?: text}`.
Events are those of JSON-RPC with one difference: a picture shows how many `bytes` it has, not its `data`.
"""

# No postponed annotations here: NamedTuple would compile each of them again at import.
from typing import Any, NamedTuple

_Type = type | tuple[type, ...]

COMMANDS: dict[str, dict[str, _Type]] = {
    "hello": {"token?": str, "capabilities?": (dict, list)},
    "prompt": {"message": str, "images?": list},
    "abort": {},
    "compact": {"instructions?": str},
    "get_state": {},
    "get_messages": {},
    "clear": {},
    "set_model": {"model": str},
    "set_reasoning": {"reasoning": str},
    "get_models": {},
    "ping": {},
    "attach": {"session_id": str, "epoch?": str, "since?": int},
    "get_commands": {},
    "run_command": {"name": str, "args?": str},
    "get_extensions": {},
    "reload_ext": {},
    "panel_key": {"extension": str, "panel_id": str, "key": str, "text?": str},
    "panel_resize": {"extension": str, "panel_id": str, "width": int, "height": int},
    "panel_close": {"extension": str, "panel_id": str},
}
"""Every command with the members it reads and their JSON types; `?` marks those that may be missing."""

_JSON_NAMES: dict[_Type, str] = {
    str: "a string",
    int: "an integer",
    dict: "an object",
    list: "an array",
    (dict, list): "an object or an array",
}
_PICTURE = b'"type":"image"'
_MALFORMED = "malformed json: "
_WITH_BLOCKS = frozenset({"user_message", "assistant_message", "tool_result"})


class Command(NamedTuple):
    """A command that can be run. `id` is as it came, None without one; `params` are its other members."""

    type: str
    id: Any
    params: dict[str, Any]


class Refusal(NamedTuple):
    """What was sent cannot be run; `response` is the answer to it."""

    response: dict[str, Any]


def parse(value: Any) -> Command | Refusal:
    """The command in a JSON value. A member that is `null` counts as absent."""
    if not isinstance(value, dict):
        return Refusal(malformed("malformed json: a command is a JSON object"))
    name, command_id = value.get("type", ""), value.get("id")
    if not isinstance(name, str):
        return Refusal(response("", command_id, error="malformed json: `type` is not a string"))
    fields = COMMANDS.get(name)
    if fields is None:
        return Refusal(response(name, command_id, error="unknown command"))
    params = {key: item for key, item in value.items() if key not in ("type", "id") and item is not None}
    problem = _problem(name, fields, params)
    if problem:
        return Refusal(response(name, command_id, error=problem))
    return Command(name, command_id, params)


def response(
    command: str,
    id: Any = None,  # noqa: A002
    data: dict[str, Any] | None = None,
    error: str | None = None,
) -> dict[str, Any]:
    """The answer to a command: a success unless there is an `error`; `id` is echoed as it came."""
    answer: dict[str, Any] = {"type": "response", "command": command, "success": error is None}
    if id is not None:
        answer["id"] = id
    if error is not None:
        answer["error"] = error
    elif data is not None:
        answer["data"] = data
    return answer


def malformed(message: str) -> dict[str, Any]:
    """The answer to bytes that hold no command: it begins with `malformed json: ` whatever was wrong."""
    return response("", error=message if message.startswith(_MALFORMED) else _MALFORMED + message)


def event(name: str, body: bytes) -> bytes:
    """An event as this dialect shows it: one JSON object, in which pictures are counts of bytes.

    body: the JSON object of all its members but `type`.
    """
    if name in _WITH_BLOCKS and _PICTURE in body:
        from zotd.wire.codec import decode, encode

        members = decode(body)
        body = encode({**members, "content": blocks(members["content"])})
    return b'{"type":"%b",%b' % (name.encode(), body[1:])


def message(row: dict[str, Any]) -> dict[str, Any]:
    """A message of the conversation, with the members that zot's clients know and no others."""
    return {"role": row["role"], "content": blocks(row["content"]), "time": row["time"]}


def blocks(content: list[Any]) -> list[Any]:
    """Content blocks, those nested in tool results too, with a count of `bytes` in place of `data`."""
    return [_block(block) for block in content]


def _block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "image":
        data = block.get("data", "")
        shown = {key: item for key, item in block.items() if key != "data"}
        return {**shown, "bytes": decoded_size(data)}
    if isinstance(block.get("content"), list):
        return {**block, "content": blocks(block["content"])}
    return block


def decoded_size(base64_text: str) -> int:
    """Bytes that base64 stands for, padded or not, without decoding it."""
    return len(base64_text.rstrip("=")) * 3 // 4


def _problem(name: str, fields: dict[str, _Type], params: dict[str, Any]) -> str:
    for field, expected in fields.items():
        key = field.rstrip("?")
        if key in params:
            if not isinstance(params[key], expected) or isinstance(params[key], bool):
                return f"{name}: `{key}` must be {_JSON_NAMES[expected]}"
        elif not field.endswith("?"):
            return f"{name}: `{key}` is missing, {_JSON_NAMES[expected]}"
    return ""
