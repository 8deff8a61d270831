"""The rules about lines, frames, ids, queues, and about what an extension's death ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.extensions.conftest import Stage, run
from tests.peers import Frame, Peer
from zotd.base.limits import Limits
from zotd.extensions.host import ExtensionHost
from zotd.protocol.content import Text, ToolCall
from zotd.protocol.events import ExtNotify, ExtPanelClose, ExtPanelOpen, ExtRegistered, ExtState, TurnStart

COMMAND: Frame = {"type": "register_command", "name": "go"}
TOOL: Frame = {"type": "register_tool", "name": "dig"}
IN_STEP: Frame = {"type": "notify", "message": "in step"}


class Silent(Peer):
    """Answers nothing it is asked."""

    def invoked(self, frame: Frame) -> None:
        pass

    def called(self, frame: Frame) -> None:
        pass

    def asked(self, frame: Frame) -> None:
        pass


class Answers(Peer):
    """Answers a command with a line that the test gives; `ID` in it stands for the id."""

    def __init__(self, line: bytes, *offers: Frame) -> None:
        super().__init__(COMMAND, *offers)
        self.line = line

    def invoked(self, frame: Frame) -> None:
        self.say_bytes(self.line.replace(b"ID", json.dumps(frame["id"]).encode()))
        self.say(**IN_STEP)


def call(stage: Stage, name: str, **args: Any) -> asyncio.Task[Any]:
    tool = stage.toolbox.get(name)
    assert tool is not None
    return asyncio.ensure_future(tool.run(ToolCall("c1", name, args), lambda text: None))


async def in_step(stage: Stage) -> None:
    await stage.event(ExtNotify, message="in step")


# Lines


@pytest.mark.promise("S52")
@pytest.mark.parametrize("cut", [1, 7, 1000])
async def test_a_frame_is_one_line_wherever_its_bytes_are_cut(stage: Stage, cut: int) -> None:
    peer = stage.enter("a")
    async with stage.running():
        data = json.dumps({"type": "notify", "message": "caf\u00e9 \u2028 end"}, ensure_ascii=False).encode()
        data += b"\n" + json.dumps(IN_STEP).encode() + b"\n"
        for start in range(0, len(data), cut):
            peer.say_bytes(data[start : start + cut])
            await asyncio.sleep(0)
        await in_step(stage)
    assert [note.message for note in stage.seen(ExtNotify)] == ["caf\u00e9 \u2028 end", "in step"]


async def test_a_carriage_return_at_the_end_of_a_line_is_stripped(stage: Stage) -> None:
    peer = stage.enter("a")
    async with stage.running():
        peer.say_bytes(b'{"type":"notify","message":"crlf"}\r\n' + json.dumps(IN_STEP).encode() + b"\n")
        await in_step(stage)
    assert [note.message for note in stage.seen(ExtNotify)] == ["crlf", "in step"]
    assert "skipped" not in stage.log("a")


async def test_a_line_of_just_16_mib_is_read_and_a_longer_one_dropped_with_a_line_in_the_log(
    stage: Stage,
) -> None:
    peer = stage.enter("a")
    around = len(json.dumps({"type": "notify", "message": ""}))
    fits = Limits().frame_bytes - around
    assert Limits().frame_bytes == 16 << 20
    async with stage.running():
        peer.say(type="notify", message="y" * fits)
        peer.say(type="notify", message="x" * (fits + 1))
        peer.say(**IN_STEP)
        await in_step(stage)
    seen = [len(note.message) for note in stage.seen(ExtNotify)]
    assert seen == [Limits().note_bytes, len("in step")]  # what is shown has a bound of its own
    assert stage.log("a").count("larger than 16777216 bytes") == 1


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"notify","message":"\xff"}',
        b'{"type":"notify",',
        b"[1,2]",
        b'"text"',
        b"7",
        b"null",
        b'{"message":"no type"}',
        b'{"type":"teleport"}',
        b'{"type":"notify"}',
        b'{"type":"notify","message":7}',
        b'{"type":"notify","message":"m","padding":' + b"x" * 300,
    ],
)
async def test_what_cannot_be_used_is_logged_with_its_first_200_characters_and_skipped(
    stage: Stage, line: bytes
) -> None:
    peer = stage.enter("a")
    async with stage.running():
        peer.say_bytes(line + b"\n")
        peer.say(**IN_STEP)
        await in_step(stage)
    assert [note.message for note in stage.seen(ExtNotify)] == ["in step"]
    quoted = line.decode("utf-8", "replace")[:200]
    (remark,) = [text for text in stage.log("a").splitlines() if "skipped a frame: " in text]
    assert remark.endswith(f": {quoted}")


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"command_response","id":ID,"action":7}\n',
        b'{"type":"command_response","id":ID,"display":"\xff"}\n',
        b'{"type":"command_response","id":ID,"display":"cut\n',
        b'{"type":"command_answer","id":ID}\n',
        b'{"type":"command_response","id":ID,"action":"open_panel","open_panel":{"title":"no id"}}\n',
        b'{"type":"command_response","id":ID,"display":"' + b"x" * (16 << 20) + b'"}\n',
    ],
    ids=["wrong type", "utf-8", "json", "unknown type", "wrong panel", "too long"],
)
async def test_an_unusable_answer_fails_the_request_that_waits_for_it_at_once(
    stage: Stage, line: bytes
) -> None:
    stage.enter("a", Answers(line))
    async with stage.running() as host:
        before = asyncio.get_running_loop().time()
        answer = await run(host, "/go")
        assert str(answer.error).startswith("extension a: ")
        assert asyncio.get_running_loop().time() == before
        await in_step(stage)


# Where authors are lenient, so is the host


@pytest.mark.promise("S42")
@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ({}, "info"),
        ({"level": "loud"}, "info"),
        ({"level": None}, "info"),
        ({"level": "info"}, "info"),
        ({"level": "success"}, "success"),
        ({"level": "warn"}, "warn"),
        ({"level": "error"}, "error"),
    ],
)
async def test_an_unknown_or_missing_level_is_info(stage: Stage, level: Frame, shown: str) -> None:
    peer = stage.enter("a")
    async with stage.running():
        peer.say(type="notify", message="m", **level)
        assert (await stage.event(ExtNotify)).level == shown


@pytest.mark.promise("S37")
@pytest.mark.parametrize("action", [b"", b',"action":null', b',"action":"noop"', b',"action":""'])
async def test_a_missing_action_is_noop(stage: Stage, action: bytes) -> None:
    stage.enter("a", Answers(b'{"type":"command_response","id":ID' + action + b"}\n"))
    async with stage.running() as host:
        answer = await run(host, "/go")
        assert (answer.action, answer.text, answer.error) == ("noop", "", None)


async def test_an_unknown_action_is_an_error_of_the_command(stage: Stage) -> None:
    stage.enter("a", Answers(b'{"type":"command_response","id":ID,"action":"explode"}\n'))
    async with stage.running() as host:
        answer = await run(host, "/go")
        assert "command /go of extension a answered with 'explode'" in str(answer.error)
        assert answer.action == "noop"


@pytest.mark.promise("S22")
async def test_unknown_names_in_activate_tools_are_ignored(stage: Stage) -> None:
    class Opener(Peer):
        def called(self, frame: Frame) -> None:
            self.say(
                type="tool_result",
                id=frame["id"],
                content=[{"type": "text", "text": "open"}],
                activate_tools=["nobody", "deep", "dig"],
            )

    stage.enter("a", Opener(TOOL, {"type": "register_tool", "name": "deep", "deferred": True}))
    async with stage.running():
        assert stage.toolbox.names() == ["dig"]
        outcome = await call(stage, "dig")
        assert outcome.activate == ("deep",)
        assert not outcome.is_error


@pytest.mark.promise("S30")
@pytest.mark.parametrize("answer", [{}, {"replace_text": ""}, {"replace_text": None}, {"block": False}])
async def test_an_empty_replacement_changes_nothing(stage: Stage, answer: Frame) -> None:
    class Passive(Peer):
        def asked(self, frame: Frame) -> None:
            self.say(type="event_intercept_response", id=frame["id"], **answer)

    stage.enter("a", Passive({"type": "subscribe", "intercept": ["assistant_message"]}))
    async with stage.running() as host:
        verdict = await host.interception.assistant_message("as it was")
        assert (verdict.text, verdict.by) == ("as it was", ())  # type: ignore[union-attr]


@pytest.mark.promise("S30")
async def test_the_reason_of_one_that_lets_it_pass_is_logged(stage: Stage) -> None:
    class Chatty(Peer):
        def asked(self, frame: Frame) -> None:
            self.say(type="event_intercept_response", id=frame["id"], reason="looks harmless")

    stage.enter("a", Chatty({"type": "subscribe", "intercept": ["turn_start"]}))
    async with stage.running() as host:
        await host.interception.turn_start(1)
        assert stage.seen(ExtNotify) == []
    assert "looks harmless" in stage.log("a")


# Ids and order


@pytest.mark.promise("S52")
async def test_ids_are_unique_strings_and_answers_may_come_in_any_order(stage: Stage) -> None:
    peer = stage.enter("a", Silent(COMMAND, TOOL))
    async with stage.running() as host:
        commands = [asyncio.ensure_future(run(host, f"/go {n}")) for n in range(3)]
        tool = call(stage, "dig")
        asked = [await peer.next("command_invoked", n) for n in (1, 2, 3)]
        dig = await peer.next("tool_call")
        ids = [frame["id"] for frame in (*asked, dig)]
        assert len(set(ids)) == 4
        assert all(isinstance(number, str) and number for number in ids)
        peer.say(type="tool_result", id=dig["id"], content=[{"type": "text", "text": "dug"}])
        for frame in reversed(asked):
            peer.say(type="command_response", id=frame["id"], action="display", display=frame["args"])
        assert [(await command).text for command in commands] == ["0", "1", "2"]
        assert (await tool).content == [Text("dug")]


async def test_an_answer_to_an_unknown_id_and_a_second_answer_are_ignored_and_logged(stage: Stage) -> None:
    class Eager(Peer):
        def invoked(self, frame: Frame) -> None:
            self.say(type="command_response", id="nobody", action="display", display="wrong")
            super().invoked(frame)
            self.say(type="command_response", id=frame["id"], action="display", display="again")
            self.say(**IN_STEP)

    stage.enter("a", Eager(COMMAND))
    async with stage.running() as host:
        assert (await run(host, "/go")).text == "done"
        await in_step(stage)
    assert stage.log("a").count("which nobody waits for: ignored") == 2


@pytest.mark.promise("S47")
@pytest.mark.promise("S48")
async def test_events_and_questions_reach_an_extension_in_the_order_they_happened(stage: Stage) -> None:
    peer = stage.enter(
        "a", Peer({"type": "subscribe", "events": ["turn_start"], "intercept": ["turn_start"]})
    )
    async with stage.running() as host:
        for step in (1, 2, 3):
            host.interception.observe(TurnStart(step=step))
            await host.interception.turn_start(step)
    told = [(frame["type"], frame["step"]) for frame in peer.heard if "step" in frame]
    assert told == [(kind, step) for step in (1, 2, 3) for kind in ("event", "event_intercept")]


# Queues


async def fill(host: ExtensionHost, peer: Peer, frames: int) -> list[asyncio.Task[Any]]:
    """Ask a peer that does not read so many questions."""
    peer.reads = False
    asked = [asyncio.ensure_future(run(host, f"/go {n}")) for n in range(frames)]
    await asyncio.sleep(0)
    return asked


async def test_256_frames_may_wait_and_the_next_request_fails_at_once(stage: Stage) -> None:
    peer = stage.enter("a", Silent(COMMAND))
    async with stage.running() as host:
        asked = await fill(host, peer, Limits().outgoing_frames)
        assert Limits().outgoing_frames == 256
        before = asyncio.get_running_loop().time()
        assert (await run(host, "/go")).error == "extension a is not reading"
        assert asyncio.get_running_loop().time() == before
        answers = await asyncio.gather(*asked)
        assert {answer.error for answer in answers} == {"extension a did not answer within 30 s"}
    assert "command_invoked was not sent: 256 frames wait to be read" in stage.log("a")


async def test_16_mib_may_wait_and_an_empty_queue_takes_one_frame_of_any_size(stage: Stage) -> None:
    peer = stage.enter("a", Silent(COMMAND))
    assert Limits().outgoing_bytes == 16 << 20
    async with stage.running() as host:
        peer.reads = False
        first = asyncio.ensure_future(run(host, "/go " + "x" * (16 << 20)))
        await asyncio.sleep(0)
        assert peer.stdin.buffered > 16 << 20
        assert (await run(host, "/go")).error == "extension a is not reading"
        assert (await first).error == "extension a did not answer within 30 s"


async def test_events_for_one_that_does_not_read_are_dropped_and_counted(stage: Stage) -> None:
    peer = stage.enter("a", Silent(COMMAND, {"type": "subscribe", "events": ["turn_start"]}))
    async with stage.running() as host:
        await fill(host, peer, 256)
        for step in range(5):
            host.interception.observe(TurnStart(step=step))
        peer.exit(0)
        await stage.event(ExtState, state="failed")
    log = stage.log("a")
    assert log.count("it does not read: events are dropped from here on") == 1
    assert "5 events were dropped" in log


async def test_one_that_is_stuck_delays_nobody_else(stage: Stage) -> None:
    subscribe: Frame = {"type": "subscribe", "events": ["turn_start"]}
    stuck = stage.enter("stuck", Silent(COMMAND, subscribe))
    brisk = stage.enter("brisk", Peer({"type": "register_command", "name": "other"}, subscribe))
    async with stage.running() as host:
        asked = await fill(host, stuck, 256)
        before = asyncio.get_running_loop().time()
        host.interception.observe(TurnStart(step=1))
        assert (await run(host, "/other")).text == "done"
        assert [frame["step"] for frame in brisk.of("event")] == [1]
        assert asyncio.get_running_loop().time() == before
        await asyncio.gather(*asked)


# Death


@pytest.mark.promise("S16")
@pytest.mark.parametrize(
    ("code", "how"),
    [(7, "exited: exit status 7"), (0, "exited: exit status 0"), (-6, "exited: killed by SIGABRT")],
)
async def test_a_death_fails_everything_that_waits_at_once_and_takes_everything_along(
    stage: Stage, code: int, how: str
) -> None:
    stage.capabilities = {"panels"}
    peer = stage.enter("a", Silent(COMMAND, TOOL, {"type": "subscribe", "intercept": ["turn_start"]}))
    stage.enter("b", Peer({"type": "register_command", "name": "other"}))
    async with stage.running() as host:
        peer.say(type="open_panel", panel={"id": "p", "title": "T"})
        await stage.event(ExtPanelOpen)
        command = asyncio.ensure_future(run(host, "/go"))
        tool = call(stage, "dig")
        verdict = asyncio.ensure_future(host.interception.turn_start(1))
        await peer.next("event_intercept")
        before = asyncio.get_running_loop().time()
        peer.exit(code)
        assert (await command).error == f"extension a {how}"
        assert (await tool).content == [Text(f"extension a {how}")]
        await verdict
        assert asyncio.get_running_loop().time() == before
        assert host.find("/go") is None
        assert stage.toolbox.names() == []
        assert stage.seen(ExtPanelClose) == [ExtPanelClose(extension="a", panel_id="p")]
        assert stage.seen(ExtState)[-1].state == "failed"
        assert str(stage.seen(ExtState)[-1].error).startswith(f"extension a {how} (log: ")
        assert stage.seen(ExtRegistered)[-1] == ExtRegistered(extension="a", commands=[], tools=[])
        warning = await stage.event(ExtNotify, level="warn", extension="a")
        assert how in warning.message
        assert (await run(host, "/other")).text == "done"


async def test_a_closed_stdout_is_a_death_too(stage: Stage) -> None:
    peer = stage.enter("a", Silent(COMMAND))
    async with stage.running() as host:
        command = asyncio.ensure_future(run(host, "/go"))
        await peer.next("command_invoked")
        peer.end_output()
        assert (await command).error == "extension a closed its stdout"
        await stage.event(ExtState, state="failed")
