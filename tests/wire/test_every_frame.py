"""Every frame in every state of repair: as documented, minimal, missing a field, mistyped, with more in it.

The cases are made from the structs and their examples, so a new frame or a new field is tested once it
exists. What arrives goes through an `ExtensionLink`, as the bytes of an extension do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from zotd.base.limits import Limits
from zotd.protocol.frames import (
    FROM_EXTENSION,
    FROM_HOST,
    FrameBase,
    Hello,
    HelloAck,
    InterceptResponse,
    Notify,
    Shutdown,
)
from zotd.schema.docstrings import documentation
from zotd.wire.codec import DECISIVE, BadField, FrameDecoder, UnknownType
from zotd.wire.link import BadAnswer, ExtensionLink, Failed, Greeted, Output, Remark, State

Frame = dict[str, Any]

ALL = {**FROM_HOST, **FROM_EXTENSION}
NEXT = Notify(message="in step")
ACK = HelloAck(
    protocol_version=1,
    zot_version="0.0.7",
    provider="p",
    model="m",
    cwd="/c",
    extension_dir="/e",
    data_dir="/e",
)

OF_HOST = FrameDecoder(FROM_HOST)
WRONG: dict[type[msgspec.inspect.Type], list[Any]] = {
    msgspec.inspect.StrType: [7, True, ["text"], {"text": "text"}],
    msgspec.inspect.BoolType: ["yes", 1, []],
    msgspec.inspect.IntType: ["1", 1.5, True, []],
    msgspec.inspect.ListType: ["text", {"0": "text"}, 7, [[7]]],
    msgspec.inspect.DictType: [["a", 1], "text", 7],
    msgspec.inspect.StructType: [["a", 1], "text", 7, {}, {"id": 7, "name": 7}],
}
"""What is no value of a type."""


def example(struct: type[FrameBase]) -> Frame:
    return documentation(struct).example


def kind_of(field: msgspec.inspect.Field) -> msgspec.inspect.Type:
    """The type of a field without the `None` it may have beside it."""
    kind = field.type
    if isinstance(kind, msgspec.inspect.UnionType):
        (kind,) = (one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType))
    return kind


def fields(struct: type[FrameBase]) -> list[msgspec.inspect.Field]:
    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    return list(info.fields)


def minimal(struct: type[FrameBase]) -> Frame:
    """The example with nothing in it but what is required."""
    kept = {"type", *(field.encode_name for field in fields(struct) if field.required)}
    return {name: value for name, value in example(struct).items() if name in kept}


def without(frame: Frame, name: str) -> Frame:
    return {key: value for key, value in frame.items() if key != name}


def missing(structs: dict[str, type[FrameBase]]) -> Iterator[Any]:
    for tag, struct in structs.items():
        for field in fields(struct):
            if field.required:
                yield pytest.param(tag, field.encode_name, id=f"{tag}-{field.encode_name}")


def mistyped(structs: dict[str, type[FrameBase]], needed: bool | None = None) -> Iterator[Any]:
    """needed: only fields that are, or only those that are not; those that decide are."""
    for tag, struct in structs.items():
        for field in fields(struct):
            if needed not in (None, field.required or field.name in DECISIVE):
                continue
            for value in WRONG.get(type(kind_of(field)), []):
                case = f"{tag}-{field.encode_name}-{json.dumps(value)}"
                yield pytest.param(tag, field.encode_name, value, id=case)


def optional(structs: dict[str, type[FrameBase]]) -> Iterator[Any]:
    for tag, struct in structs.items():
        for field in fields(struct):
            if not field.required:
                yield pytest.param(tag, field.encode_name, id=f"{tag}-{field.encode_name}")


def heard(frame: Frame) -> list[Output]:
    """What the link makes of a frame, in the state it belongs to."""
    line = json.dumps(frame).encode() + b"\n"
    link = ExtensionLink(Limits())
    if frame["type"] == "hello":
        return link.receive(line)
    link.receive(b'{"type":"hello","name":"x"}\n')
    link.acknowledge(ACK)
    return link.receive(line + b'{"type":"notify","message":"in step"}\n')


def understood(frame: Frame) -> FrameBase:
    """The frame the link reads, with nothing said about it and the stream in step behind it."""
    out = heard(frame)
    if frame["type"] == "hello":
        (greeted,) = out
        assert isinstance(greeted, Greeted)
        return greeted.hello
    read, behind = out
    assert behind == NEXT
    assert isinstance(read, FrameBase)
    return read


def check_refusal(frame: Frame, said: str) -> None:
    """It is logged with a quote and skipped; who waits for its id hears of it; the next one is read."""
    out = heard(frame)
    if frame["type"] == "hello":
        (failed,) = out
        assert isinstance(failed, Failed)
        assert said in failed.reason
        return
    remark, *answers, behind = out
    assert behind == NEXT
    assert isinstance(remark, Remark)
    assert remark.text.startswith(f"skipped a frame: {frame['type']}: ")
    assert said in remark.text
    assert remark.text.endswith(json.dumps(frame)[: Limits().log_chars])
    number = frame.get("id")
    readable = isinstance(number, str | int | float) and not isinstance(number, bool)
    assert [type(answer) for answer in answers] == ([BadAnswer] if readable else [])
    for answer in answers:
        assert isinstance(answer, BadAnswer)
        assert answer.id == number
        assert said in answer.reason


def test_every_type_of_field_has_values_that_are_wrong_for_it() -> None:
    kinds = {type(kind_of(field)) for struct in ALL.values() for field in fields(struct)}
    assert kinds - set(WRONG) == {msgspec.inspect.AnyType}


@pytest.mark.promise("S52")
@pytest.mark.parametrize("tag", FROM_EXTENSION)
def test_a_frame_of_an_extension_is_read_as_documented(tag: str) -> None:
    struct, frame = FROM_EXTENSION[tag], example(FROM_EXTENSION[tag])
    read = understood(frame)
    assert type(read) is struct
    assert {name: value for name, value in msgspec.to_builtins(read).items() if name in frame} == frame


@pytest.mark.parametrize("tag", FROM_EXTENSION)
def test_a_frame_of_an_extension_needs_nothing_but_what_is_required(tag: str) -> None:
    struct = FROM_EXTENSION[tag]
    read = understood(minimal(struct))
    for field in fields(struct):
        if not field.required:
            assert getattr(read, field.name) == field.default or not getattr(read, field.name)


@pytest.mark.parametrize("tag", FROM_EXTENSION)
def test_members_nobody_knows_are_ignored(tag: str) -> None:
    frame = example(FROM_EXTENSION[tag])
    assert understood({**frame, "x-mine": {"deep": [None, 1]}, "Type": 7}) == understood(frame)


@pytest.mark.parametrize(("tag", "name"), [*missing(FROM_EXTENSION)])
def test_a_frame_of_an_extension_that_misses_a_required_field_is_logged_and_skipped(
    tag: str, name: str
) -> None:
    check_refusal(without(example(FROM_EXTENSION[tag]), name), f"missing required field `{name}`")


@pytest.mark.parametrize(("tag", "name"), [*missing(FROM_EXTENSION)])
def test_a_required_field_that_is_null_counts_as_missing(tag: str, name: str) -> None:
    check_refusal({**example(FROM_EXTENSION[tag]), name: None}, f"missing required field `{name}`")


@pytest.mark.parametrize(("tag", "name", "value"), [*mistyped(FROM_EXTENSION, needed=True)])
def test_a_wrong_typed_field_that_is_needed_is_logged_and_the_frame_skipped(
    tag: str, name: str, value: Any
) -> None:
    check_refusal({**example(FROM_EXTENSION[tag]), name: value}, f"at $.{name}")


@pytest.mark.parametrize(("tag", "name", "value"), [*mistyped(FROM_EXTENSION, needed=False)])
def test_a_wrong_typed_optional_field_is_logged_and_counts_as_absent(tag: str, name: str, value: Any) -> None:
    frame = example(FROM_EXTENSION[tag])
    remark, *read = heard({**frame, name: value})
    assert isinstance(remark, Remark)
    assert remark.text.startswith(f"took a member for absent: {tag}: ")
    assert f"at $.{name}" in remark.text
    assert remark.text.endswith(json.dumps({**frame, name: value})[: Limits().log_chars])
    assert read == heard(without(frame, name))


@pytest.mark.promise("S27")
@pytest.mark.parametrize(
    "wrong", [{"replace_text": 7}, {"reason": ["no"]}, {"session_id": 1}, {"replace_text": 7, "reason": {}}]
)
def test_a_refusal_is_one_whatever_else_is_wrong_in_it(wrong: Frame) -> None:
    frame = {"type": "event_intercept_response", "id": "1", "block": True, **wrong}
    remark, read, behind = heard(frame)
    assert isinstance(remark, Remark)
    assert all(f"at $.{name}" in remark.text for name in wrong)
    assert (read, behind) == (InterceptResponse(id="1", block=True), NEXT)


@pytest.mark.parametrize(
    ("panel", "kept"),
    [({"id": "p", "title": 7}, {"id": "p"}), ({"id": "p", "lines": ["a", 7], "footer": []}, {"id": "p"})],
)
def test_what_is_wrong_in_a_panel_costs_no_more_than_that(panel: Frame, kept: Frame) -> None:
    for frame in ({"type": "open_panel"}, {"type": "command_response", "id": "1"}):
        member = "panel" if frame["type"] == "open_panel" else "open_panel"
        remark, *read = heard({**frame, member: panel})
        assert isinstance(remark, Remark)
        assert read == heard({**frame, member: kept})
    check_refusal({"type": "open_panel", "panel": {"id": 7}}, "at $.panel.id")


@pytest.mark.parametrize(("tag", "name"), [*optional(FROM_EXTENSION)])
def test_an_optional_field_that_is_null_counts_as_absent(tag: str, name: str) -> None:
    frame = example(FROM_EXTENSION[tag])
    assert understood({**frame, name: None}) == understood(without(frame, name))


@pytest.mark.parametrize(
    ("frame", "name", "value"),
    [
        ({"type": "notify", "message": "m"}, "level", "info"),
        ({"type": "notify", "message": "m", "level": "loud"}, "level", "loud"),
        ({"type": "command_response", "id": "1"}, "action", "noop"),
        ({"type": "command_response", "id": "1", "action": "explode"}, "action", "explode"),
        ({"type": "event_intercept_response", "id": "1", "modified_args": [1]}, "modified_args", [1]),
        ({"type": "event_intercept_response", "id": "1", "modified_args": "{}"}, "modified_args", "{}"),
        ({"type": "event_intercept_response", "id": "1", "replace_text": None}, "replace_text", ""),
        ({"type": "tool_result", "id": "1", "activate_tools": ["nobody"]}, "activate_tools", ["nobody"]),
        ({"type": "tool_result", "id": "1", "content": [{"type": "odd"}]}, "content", [{"type": "odd"}]),
        ({"type": "subscribe", "events": ["eclipse"]}, "events", ["eclipse"]),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_what_authors_get_wrong_reaches_whoever_can_be_lenient_about_it(
    frame: Frame, name: str, value: Any
) -> None:
    assert getattr(understood(frame), name) == value


@pytest.mark.parametrize("tag", sorted(FROM_HOST.keys() - FROM_EXTENSION.keys()))
def test_a_frame_of_the_host_is_unknown_when_an_extension_sends_it(tag: str) -> None:
    remark, *answers, behind = heard(example(FROM_HOST[tag]))
    assert behind == NEXT
    assert isinstance(remark, Remark)
    assert remark.text.startswith(f"skipped a frame: frame has the unknown type '{tag}': ")
    assert len(answers) == ("id" in example(FROM_HOST[tag]))


# Frames to an extension: written by us, read here as an extension would read them.


def told(frame: FrameBase) -> Frame:
    """One frame as the extension gets it."""
    link = ExtensionLink(Limits())
    link.receive(b'{"type":"hello","name":"x"}\n')
    if isinstance(frame, HelloAck):
        line = link.acknowledge(frame)
    else:
        link.acknowledge(ACK)
        line = link.stop() if isinstance(frame, Shutdown) else link.send(frame)  # type: ignore[arg-type]
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    parsed: Frame = json.loads(line)
    return parsed


@pytest.mark.promise("S52")
@pytest.mark.parametrize("tag", FROM_HOST)
def test_a_frame_of_the_host_is_written_as_documented(tag: str) -> None:
    frame = example(FROM_HOST[tag])
    assert told(msgspec.convert(frame, FROM_HOST[tag])) == frame


@pytest.mark.parametrize("tag", FROM_HOST)
def test_a_frame_of_the_host_has_no_members_that_say_nothing(tag: str) -> None:
    frame = minimal(FROM_HOST[tag])
    assert told(msgspec.convert(frame, FROM_HOST[tag])) == frame


@pytest.mark.parametrize("tag", FROM_HOST)
def test_a_reader_of_frames_of_the_host_ignores_what_it_does_not_know(tag: str) -> None:
    frame = example(FROM_HOST[tag])
    read = OF_HOST.decode(json.dumps({**frame, "x-new": {"deep": None}}).encode())
    assert read == msgspec.convert(frame, FROM_HOST[tag])


@pytest.mark.parametrize(("tag", "name"), [*missing(FROM_HOST)])
def test_a_frame_of_the_host_cannot_be_made_or_read_without_a_required_field(tag: str, name: str) -> None:
    frame = without(example(FROM_HOST[tag]), name)
    with pytest.raises(BadField, match=f"missing required field `{name}`"):
        OF_HOST.decode(json.dumps(frame).encode())
    with pytest.raises(TypeError, match=f"Missing required argument '{name}'"):
        FROM_HOST[tag](**without(frame, "type"))


@pytest.mark.parametrize(("tag", "name", "value"), [*mistyped(FROM_HOST)])
def test_a_wrong_typed_field_of_the_host_is_noticed_by_a_reader(tag: str, name: str, value: Any) -> None:
    frame = {**example(FROM_HOST[tag]), name: value}
    with pytest.raises(BadField, match=rf"at \$\.{name}"):
        OF_HOST.decode(json.dumps(frame).encode())


@pytest.mark.parametrize("tag", sorted(FROM_EXTENSION.keys() - FROM_HOST.keys()))
def test_a_frame_of_an_extension_is_none_of_the_hosts(tag: str) -> None:
    with pytest.raises(UnknownType, match=tag):
        OF_HOST.decode(json.dumps(example(FROM_EXTENSION[tag])).encode())


def test_hello_is_the_only_frame_that_is_read_before_the_acknowledgement() -> None:
    for tag, struct in FROM_EXTENSION.items():
        link = ExtensionLink(Limits())
        (out,) = link.receive(json.dumps(example(struct)).encode() + b"\n")
        if tag == "hello":
            assert out == Greeted(msgspec.convert(example(Hello), Hello))
        else:
            assert out == Failed(f"failed: its first frame was {tag}, not hello")
            assert link.state is State.GONE
