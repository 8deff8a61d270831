"""JSON in and out, and what is said about frames that cannot be used."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.protocol.frames import (
    FROM_EXTENSION,
    CommandResponse,
    Notify,
    PanelSpec,
    RegisterTool,
    ToolCallFrame,
)
from zotd.wire.codec import (
    BadField,
    FrameDecoder,
    Malformed,
    UnknownType,
    decode,
    encode,
    encode_frame,
    from_wire,
    to_wire,
)

FRAMES = FrameDecoder(FROM_EXTENSION)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert decode(encode(value)) == value


@given(st.text(alphabet=st.characters()) | st.text(alphabet='\ud83d\ude00\u2028\u2029\x00\n"\\'))
def test_any_text_can_be_written_and_never_ends_a_line(text: str) -> None:
    payload = encode({"text": text})
    assert not {"\u2028", "\u2029", "\n", "\r", "\x85"} & set(payload.decode()) - ({"\x85"} & set(text))
    decode(payload)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\utrnd8', max_size=30).map(str.encode))
def test_any_bytes_are_a_value_or_malformed(payload: bytes) -> None:
    try:
        decode(payload)
    except Malformed as error:
        assert error.message.startswith("malformed json: ")
        assert " at byte " in error.message


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b'{"a":1', "malformed json: unexpected end of data at byte 6"),
        ('["é", x]'.encode(), "malformed json: unexpected character, expected a JSON value at byte 7"),
        (b'{"a":"\xff"}', "malformed json: invalid UTF-8 at byte 6"),
        (b"[" * 1100 + b"]" * 1100, "malformed json: nested too deeply"),
        (b"[" * 1000, "malformed json: nested too deeply"),
    ],
)
def test_a_malformed_value_is_located_in_bytes(payload: bytes, message: str) -> None:
    with pytest.raises(Malformed) as caught:
        decode(payload)
    assert str(caught.value) == message


def test_lone_surrogate_escapes_are_mended_and_pairs_are_kept() -> None:
    assert decode(rb'["\ud83d", "\ud83d\ude00", "\ude00x", "\\ud83d"]') == [
        "\ufffd",
        "😀",
        "\ufffdx",
        "\\ud83d",
    ]


def test_numbers_and_depths_that_json_writers_refuse_are_written_all_the_same() -> None:
    deep = orjson.loads(b"[" * 1000 + b"]" * 1000)
    assert decode(encode({"big": 1 << 70})) == {"big": float(1 << 70)}
    assert b"nested too deeply" in encode(deep)


def test_structs_are_written_with_their_tag() -> None:
    frame = Notify(message="hi")
    assert decode(encode(frame)) == to_wire(frame) == {"type": "notify", "message": "hi"}
    assert decode(encode({"frame": frame})) == {"frame": to_wire(frame)}


def test_what_has_no_place_in_json_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not JSON serializable: object"):
        encode({"thing": object()})


def test_null_members_count_as_absent_but_null_stays_data_inside_other_objects() -> None:
    payload = b'{"type":"command_response","id":"1","error":null,"open_panel":{"id":"p","lines":null}}'
    assert FRAMES.decode(payload) == CommandResponse(id="1", open_panel=PanelSpec(id="p"))
    tool = FRAMES.decode(b'{"type":"register_tool","name":"t","schema":{"default":null}}')
    assert tool == RegisterTool(name="t", schema={"default": None})


@pytest.mark.parametrize("identity", ["7", 7, 0])
def test_errors_carry_the_id_of_the_frame(identity: str | int) -> None:
    said = orjson.dumps(identity)
    with pytest.raises(Malformed) as malformed:
        FRAMES.decode(b'{"type":"tool_result","id":' + said + b',"content":[}')
    with pytest.raises(UnknownType) as unknown:
        FRAMES.decode(b'{"type":"nope","id":' + said + b"}")
    with pytest.raises(BadField) as bad:
        FRAMES.decode(b'{"type":"tool_result","content":[3],"id":' + said + b"}")
    assert malformed.value.id == unknown.value.id == bad.value.id == identity


def test_a_bad_field_is_named_by_its_path() -> None:
    with pytest.raises(BadField) as wrong:
        FRAMES.decode(b'{"type":"panel_render","panel_id":"p","lines":["a",2]}')
    assert wrong.value.path == "$.lines[1]"
    assert str(wrong.value) == "panel_render: Expected `str`, got `int` at $.lines[1]"
    with pytest.raises(BadField, match="missing required field `message`"):
        FRAMES.decode(b'{"type":"notify"}')


@pytest.mark.parametrize(
    ("payload", "said"),
    [(b"{}", "no `type`"), (b'{"type":3}', "no `type`"), (b'{"type":"x"}', "unknown type 'x'")],
)
def test_an_unknown_type_says_what_it_was(payload: bytes, said: str) -> None:
    with pytest.raises(UnknownType, match=said):
        FRAMES.decode(payload)


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (b"[]", "an array"),
        (b"null", "null"),
        (b"true", "a boolean"),
        (b'"x"', "a string"),
        (b"3", "a number"),
    ],
)
def test_a_frame_that_is_no_object_is_malformed(payload: bytes, name: str) -> None:
    with pytest.raises(Malformed, match=f"this is {name}"):
        FRAMES.decode(payload)


@given(
    st.sampled_from(["notify", "event_intercept_response", "register_tool", "nope"]),
    st.dictionaries(
        st.sampled_from(["id", "message", "level", "name", "schema", "modified_args", "block", "more"]),
        json_values,
    ),
)
def test_a_frame_means_the_same_whether_or_not_it_is_read_at_once(kind: str, members: dict[str, Any]) -> None:
    def outcome(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (BadField, UnknownType) as error:
            return type(error), error.message, error.id

    value = {**members, "type": kind}
    assert outcome(lambda: FRAMES.decode(encode(value))) == outcome(lambda: from_wire(value, FROM_EXTENSION))


@pytest.mark.parametrize("member", ["message", "nobody_reads_this"])
def test_invalid_utf_8_is_refused_wherever_it_stands(member: str) -> None:
    payload = b'{"type":"notify","message":"a","' + member.encode() + b'":"\xff"}'
    with pytest.raises(Malformed, match="invalid UTF-8"):
        FRAMES.decode(payload)


@given(json_values)
def test_a_frame_is_written_as_any_other_value(value: Any) -> None:
    frame = ToolCallFrame(id="1", name="t", args={"value": value})
    line = encode_frame(frame)
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert decode(line) == decode(encode(frame))


def test_a_frame_with_half_a_character_or_too_many_levels_is_written_all_the_same() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    for value in ("\ud800", deep):
        assert decode(encode_frame(ToolCallFrame(id="1", name="t", args={"value": value})))["id"] == "1"
