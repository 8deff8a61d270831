"""The zot dialect: the shapes that zot's own clients send and parse."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.wire.dialect import COMMANDS, Command, Refusal, blocks, event, malformed, message, parse, response

BARE = sorted(name for name, fields in COMMANDS.items() if all(field.endswith("?") for field in fields))


@pytest.mark.parametrize("name", BARE)
def test_a_command_needs_only_its_type(name: str) -> None:
    assert parse({"type": name}) == Command(name, None, {})


def test_a_prompt_carries_text_and_pictures() -> None:
    images = [{"mime_type": "image/png", "data": "AA=="}]
    value = {"type": "prompt", "id": "1", "message": "hi", "images": images, "_meta": {}}
    assert parse(value) == Command("prompt", "1", {"message": "hi", "images": images, "_meta": {}})
    assert parse({"type": "prompt", "message": "hi", "images": None}) == Command(
        "prompt", None, {"message": "hi"}
    )


@pytest.mark.parametrize("identity", ["0", 0, 7, "", 1.5])
def test_ids_are_echoed_as_they_came(identity: Any) -> None:
    command = parse({"type": "ping", "id": identity})
    assert isinstance(command, Command)
    assert response("ping", command.id, {"pong": True}) == {
        "type": "response",
        "command": "ping",
        "success": True,
        "id": identity,
        "data": {"pong": True},
    }


def test_without_an_id_there_is_none_in_the_answer() -> None:
    assert response("abort") == {"type": "response", "command": "abort", "success": True}
    assert parse({"type": "nope"}) == Refusal(
        {"type": "response", "command": "nope", "success": False, "error": "unknown command"}
    )


@pytest.mark.parametrize(
    "message", ["malformed json: frame larger than 9 bytes", "frame larger than 9 bytes"]
)
def test_malformed_json_names_no_command_and_no_id(message: str) -> None:
    assert malformed(message) == {
        "type": "response",
        "command": "",
        "success": False,
        "error": "malformed json: frame larger than 9 bytes",
    }


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (3, "malformed json: a command is a JSON object"),
        ({"type": 3}, "malformed json: `type` is not a string"),
        ({"id": "1"}, "unknown command"),
        ({"type": "prompt"}, "prompt: `message` is missing, a string"),
        ({"type": "prompt", "message": ["x"]}, "prompt: `message` must be a string"),
        ({"type": "prompt", "message": "x", "images": {}}, "prompt: `images` must be an array"),
        ({"type": "set_model", "model": None}, "set_model: `model` is missing, a string"),
        ({"type": "hello", "token": 1}, "hello: `token` must be a string"),
        ({"type": "hello", "capabilities": "x"}, "hello: `capabilities` must be an object or an array"),
        (
            {"type": "panel_resize", "extension": "e", "panel_id": "p", "width": True, "height": 1},
            "panel_resize: `width` must be an integer",
        ),
    ],
)
def test_what_cannot_be_run_says_why(value: Any, error: str) -> None:
    refusal = parse(value)
    assert isinstance(refusal, Refusal)
    assert refusal.response["success"] is False
    assert refusal.response["error"] == error


def test_pictures_are_shown_as_a_count_of_bytes_at_any_depth() -> None:
    image = {"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="}
    shown = {"type": "image", "mime_type": "image/png", "bytes": 8}
    text = {"type": "text", "text": "data"}
    result = {"type": "tool_result", "call_id": "1", "is_error": False, "content": [text, image]}
    assert blocks([text, image, result]) == [text, shown, {**result, "content": [text, shown]}]
    said = json.dumps({"content": [image]}, separators=(",", ":")).encode()
    assert json.loads(event("user_message", said)) == {"type": "user_message", "content": [shown]}


def test_an_event_without_pictures_stays_as_it_was_encoded() -> None:
    assert event("text_delta", b'{"delta":"hi"}') == b'{"type":"text_delta","delta":"hi"}'
    text = b'{"content": [{"type":"text","text":"hi"}]}'
    assert event("user_message", text) == b'{"type":"user_message",' + text[1:]


@given(st.binary(max_size=40))
def test_the_count_is_that_of_the_decoded_picture(data: bytes) -> None:
    import base64

    image = {"type": "image", "mime_type": "image/png", "data": base64.b64encode(data).decode()}
    assert blocks([image])[0]["bytes"] == len(data)


scraps: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
scraps |= st.just([]) | st.just({})
near_commands = st.dictionaries(
    st.sampled_from(["type", "id", "message", "images", "model", "name"]),
    scraps | st.sampled_from(sorted(COMMANDS)),
    max_size=5,
)


@given(scraps | near_commands)
def test_any_value_is_a_command_or_an_answer(value: Any) -> None:
    found = parse(value)
    if isinstance(found, Command):
        assert found.type in COMMANDS
    else:
        assert found.response["type"] == "response"
        assert found.response["error"]


def test_a_message_has_the_members_that_zot_s_clients_know_and_no_others() -> None:
    row = {"role": "assistant", "content": [], "time": "t", "meta": {"shown": "x"}, "added_tool_names": ["a"]}
    assert message(row) == {"role": "assistant", "content": [], "time": "t"}
