"""The life of an extension, told by its bytes."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.base.limits import Limits
from zotd.protocol.frames import (
    FrameBase,
    Hello,
    HelloAck,
    Notify,
    Ready,
    RegisterCommand,
    Shutdown,
    ToolCallFrame,
    ToolCancel,
)
from zotd.wire.link import (
    TRANSITIONS,
    BadAnswer,
    ExtensionLink,
    Failed,
    Greeted,
    Input,
    LocalError,
    Output,
    Remark,
    State,
    diagram,
)

LIMITS = Limits(frame_bytes=1000, banner_lines=3, log_chars=20)
HELLO = b'{"type":"hello","name":"x"}\n'
REGISTER = b'{"type":"register_command","name":"c"}\n'
READY = b'{"type":"ready"}\n'
ACK = HelloAck(
    protocol_version=1,
    zot_version="0.0.7",
    provider="p",
    model="m",
    cwd="/c",
    extension_dir="/e",
    data_dir="/e",
)


def registering() -> ExtensionLink:
    link = ExtensionLink(LIMITS)
    link.receive(HELLO)
    link.acknowledge(ACK)
    return link


def running() -> ExtensionLink:
    link = registering()
    link.receive(READY)
    return link


def state_of(link: ExtensionLink) -> State:
    """Asked through a function, since a type checker takes an attribute for unchanged across calls."""
    return link.state


def sent(data: bytes) -> Any:
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    return orjson.loads(data)


def test_the_canonical_start_leads_to_running() -> None:
    link = ExtensionLink(LIMITS)
    assert link.receive(HELLO) == [Greeted(Hello(name="x"))]
    assert state_of(link) is State.GREETED
    assert sent(link.acknowledge(ACK))["type"] == "hello_ack"
    assert link.receive(REGISTER + READY) == [RegisterCommand(name="c"), Ready()]
    assert state_of(link) is State.RUNNING


def test_frames_before_the_acknowledgement_come_out_after_it() -> None:
    link = ExtensionLink(LIMITS)
    assert link.receive(HELLO + REGISTER) == [Greeted(Hello(name="x"))]
    assert link.receive(READY) == []
    link.acknowledge(ACK)
    assert state_of(link) is State.REGISTERING
    assert link.receive(b"") == [RegisterCommand(name="c"), Ready()]
    assert state_of(link) is State.RUNNING


def test_silence_counts_as_ready_and_a_late_ready_does_no_harm() -> None:
    link = registering()
    link.ready()
    assert state_of(link) is State.RUNNING
    assert link.receive(READY + REGISTER) == [Ready(), RegisterCommand(name="c")]
    assert state_of(link) is State.RUNNING


def test_banners_before_hello_are_remarks() -> None:
    link = ExtensionLink(LIMITS)
    out = link.receive(b"Debugger listening on ws://127.0.0.1\n[]\n\xff\xfe\n" + HELLO)
    assert [type(item) for item in out] == [Remark, Remark, Remark, Greeted]
    assert out[0] == Remark("skipped a line before hello that is no frame: Debugger listening o")


def test_too_many_banners_fail() -> None:
    link = ExtensionLink(LIMITS)
    assert link.receive(b"x\n" * 4 + HELLO)[-1] == Failed(
        "failed: more than 3 lines before hello that are no frames"
    )
    assert state_of(link) is State.GONE


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (REGISTER, "failed: its first frame was register_command, not hello"),
        (b'{"type":"hello"}\n', "missing required field `name`"),
        (b'{"type":"hello","name":""}\n', "length >= 1 at $.name"),
        (b'{"type":"greetings"}\n', "unknown type 'greetings'"),
        (b'{"level":"info"}\n', "no `type`"),
    ],
)
def test_a_first_frame_that_is_not_hello_fails_and_is_named(line: bytes, said: str) -> None:
    link = ExtensionLink(LIMITS)
    (failed,) = link.receive(line + HELLO)
    assert isinstance(failed, Failed)
    assert said in failed.reason
    assert link.receive(HELLO) == []


def test_a_second_hello_is_only_remarked() -> None:
    assert running().receive(HELLO) == [Remark("ignored a second hello")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"oops", "malformed json"),
        (b"[1]", "a frame is a JSON object, this is an array"),
        (b'{"type":"nope"}', "unknown type 'nope'"),
        (b'{"type":"notify","message":3}', "at $.message"),
        (b'{"type":"notify","message":"\xff"}', "invalid UTF-8"),
        (b"x" * 2000, "larger than 1000 bytes"),
    ],
)
def test_a_bad_frame_is_remarked_and_the_next_one_is_read(line: bytes, said: str) -> None:
    remark, frame = running().receive(line + b'\n{"type":"notify","message":"ok"}\n')
    assert isinstance(remark, Remark)
    assert said in remark.text
    quoted = remark.text.rpartition(": ")[2]
    assert quoted == line.decode("utf-8", "replace")[:20].rpartition(": ")[2]
    assert frame == Notify(message="ok")


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"tool_result","id":"7","content":3}',
        b'{"type":"tool_reslut","id":"7"}',
        b'{"type":"tool_result","id":"7","content":[',
        b'{"type":"tool_result","id":"7","content":[{"text":"\xff"}]}',
        b'{"type":"tool_result","id":"7","content":[{"text":"' + b"x" * 2000 + b'"}]}',
    ],
)
def test_a_bad_answer_names_the_request_that_must_fail(line: bytes) -> None:
    remark, answer = running().receive(line + b"\n")
    assert isinstance(remark, Remark)
    assert isinstance(answer, BadAnswer)
    assert answer.id == "7"


def test_frames_are_refused_where_the_extension_cannot_expect_them() -> None:
    call = ToolCallFrame(id="1", name="t", args={})
    link = ExtensionLink(LIMITS)
    with pytest.raises(LocalError, match="not possible while the extension is spawned"):
        link.send(call)
    link.receive(HELLO)
    with pytest.raises(LocalError, match="greeted"):
        link.send(call)
    link.acknowledge(ACK)
    assert sent(link.send(call)) == {"type": "tool_call", "id": "1", "name": "t", "args": {}}
    with pytest.raises(LocalError, match="method of its own"):
        link.send(Shutdown())
    with pytest.raises(LocalError, match="method of its own"):
        link.send(ACK)
    link.stop()
    with pytest.raises(LocalError, match="stopping"):
        link.send(ToolCancel(id="1"))


def test_stop_tells_only_an_extension_that_was_greeted_back_and_only_once() -> None:
    link = running()
    assert sent(link.stop()) == {"type": "shutdown"}
    assert link.stop() == b""
    assert link.receive(b'{"type":"notify","message":"bye"}\n' + READY) == [Notify(message="bye"), Ready()]
    assert state_of(link) is State.STOPPING
    assert ExtensionLink(LIMITS).stop() == b""


def test_the_last_line_needs_no_end_and_nothing_is_read_after_the_exit() -> None:
    link = running()
    assert link.receive(b'{"type":"notify","message":"last"}') == []
    assert link.gone("exited with status 0") == [Notify(message="last")]
    assert link.receive(REGISTER) == []
    assert link.gone("exited with status 0") == []
    assert link.stop() == b""


def test_an_exit_before_hello_fails_with_how_it_ended() -> None:
    assert ExtensionLink(LIMITS).gone("exited with status 7") == [Failed("exited with status 7 before hello")]


def test_every_state_can_end_and_the_diagram_shows_every_move() -> None:
    assert {was for was, event in TRANSITIONS if event is Input.EXIT} == set(State)
    assert diagram().splitlines()[0] == "stateDiagram-v2"
    for (was, event), to in TRANSITIONS.items():
        assert f"    {was.name} --> {to.name}: {event.value}" in diagram().splitlines()


lines = st.sampled_from([HELLO, REGISTER, READY, b"junk\n", b'{"type":"submit","text":1}\n', b'{"id":"3"}\n'])
damage = st.binary(max_size=60).map(lambda data: data + b"\n")


@given(st.lists(lines | damage, max_size=12), st.integers(1, 50))
def test_any_bytes_after_the_start_are_outputs_and_the_next_is_read(parts: list[bytes], size: int) -> None:
    link = running()
    data = b"".join(parts) + b'{"type":"notify","message":"ok"}\n'
    out: list[Output] = []
    for at in range(0, len(data), size):
        out += link.receive(data[at : at + size])
    assert out[-1] == Notify(message="ok")
    assert all(isinstance(item, FrameBase | Remark | BadAnswer) for item in out)


@given(st.lists(lines | damage, max_size=12), st.integers(1, 50))
def test_any_bytes_at_the_start_greet_or_fail_or_wait(parts: list[bytes], size: int) -> None:
    link = ExtensionLink(LIMITS)
    data = b"".join(parts)
    out: list[Output] = []
    for at in range(0, len(data), size):
        out += link.receive(data[at : at + size])
    if link.state is State.SPAWNED:
        assert all(isinstance(item, Remark) for item in out)
    else:
        assert isinstance(out[-1], Greeted if link.state is State.GREETED else Failed)


def test_the_picture_in_the_docs_is_the_table() -> None:
    page = Path("docs/extension-life.md")
    text = (Path(__file__).parents[2] / page).read_text("utf-8")
    assert diagram().strip() in text, f"{page} is stale: print diagram() into it"
