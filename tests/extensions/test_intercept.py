"""Who observes and who decides: the rules with scripted extensions, and what real processes do to them."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from tests.extensions.conftest import World
from zotd.agent.ports import Allowed, Refused
from zotd.base.limits import Limits
from zotd.extensions.asking import AskFailed, ExtensionGone, NoAnswer, NotReading, WrongAnswer
from zotd.extensions.intercept import Interception
from zotd.protocol.content import Text, Thinking, ToolCall
from zotd.protocol.events import (
    AssistantMessage,
    Event,
    ExtNotify,
    TextDelta,
    ToolCalled,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from zotd.protocol.frames import EventFrame, EventIntercept, InterceptResponse, Subscribe

CALL = ToolCall(id="t1", name="bash", args={"command": "ls"})


class Scripted:
    """An extension that answers what it is told to, and keeps what it gets. `full`: it reads nothing."""

    def __init__(self, name: str, rank: int = 0, *answers: dict[str, Any] | AskFailed) -> None:
        self.name = name
        self.session_id = "session"
        self.rank = rank
        self.gone = False
        self.ended = ""
        self.dismissed = False
        self.full = False
        self.answers = deque(answers)
        self.asked: list[EventIntercept] = []
        self.within: list[float] = []
        self.told: list[EventFrame] = []
        self.remarks: list[str] = []

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def send(self, frame: EventFrame) -> None:
        if self.gone:
            raise ExtensionGone(f"extension {self.name} is not running")
        if self.full:
            raise NotReading(f"extension {self.name} is not reading")
        self.told.append(frame)

    async def ask(self, question: EventIntercept, within: float, answer: type) -> InterceptResponse:
        assert answer is InterceptResponse
        self.asked.append(question)
        self.within.append(within)
        said = self.answers.popleft() if self.answers else {}
        if isinstance(said, AskFailed):
            raise said
        return InterceptResponse(id=question.id, **said)

    def heard(self) -> list[str]:
        return [frame.event for frame in self.told]


class Stage:
    """Interception with scripted extensions; they are typed as anything, for they are not real."""

    def __init__(self, *extensions: Any, events: Sequence[str] = (), intercept: Sequence[str] = ()) -> None:
        self.events: list[Event] = []
        surface: Any = self
        self.rules: Any = Interception(surface, Limits())
        for extension in extensions:
            self.rules.subscribe(extension, Subscribe(events=[*events], intercept=[*intercept]))
            self.rules.started(extension)

    def publish(self, event: Event, turn_id: str = "") -> None:
        self.events.append(event)

    def warnings(self) -> list[tuple[str, str, str]]:
        notes = [event for event in self.events if isinstance(event, ExtNotify)]
        return [(note.extension, note.level, note.message) for note in notes]


# Subscriptions


@pytest.mark.promise("S26")
def test_subscriptions_add_up_and_unknown_names_go_to_the_log() -> None:
    one = Scripted("one")
    stage = Stage(one, events=["turn_start"])
    stage.rules.subscribe(
        one,
        Subscribe(events=["turn_end", "moonrise"], intercept=["turn_end", "assistant_message"]),
    )
    stage.rules.observe(TurnStart(step=1))
    stage.rules.observe(TurnEnd(stop="end_turn"))
    assert one.heard() == ["turn_start", "turn_end"]
    assert stage.rules.withholding() == ["one"]
    events, intercept = one.remarks
    assert events.startswith("subscribe.events: 'moonrise' was ignored; expected one of: session_start, ")
    assert intercept == (
        "subscribe.intercept: 'turn_end' was ignored; "
        "expected one of: tool_call, turn_start, assistant_message"
    )


def test_subscribing_twice_to_the_same_event_tells_it_once() -> None:
    one = Scripted("one")
    stage = Stage(one, events=["turn_start", "turn_start"])
    stage.rules.subscribe(one, Subscribe(events=["turn_start"]))
    stage.rules.observe(TurnStart(step=1))
    assert one.heard() == ["turn_start"]


@pytest.mark.promise("S26")
def test_session_start_comes_first_and_once_also_to_a_late_subscriber() -> None:
    early, late, never = Scripted("early"), Scripted("late"), Scripted("never")
    stage = Stage()
    everything = Subscribe(events=["session_start", "turn_start"])
    stage.rules.subscribe(early, everything)
    stage.rules.observe(TurnStart(step=1))  # it is not ready: the session has not begun for it
    stage.rules.started(early)
    stage.rules.started(late)
    stage.rules.started(never)
    stage.rules.subscribe(late, everything)
    stage.rules.subscribe(late, everything)
    stage.rules.observe(TurnStart(step=2))
    assert early.told == [EventFrame(event="session_start"), EventFrame(event="turn_start", step=2)]
    assert late.told == early.told
    assert never.told == []


async def test_one_that_is_gone_is_neither_told_nor_asked() -> None:
    one = Scripted("one", 0, {"block": True})
    stage = Stage(one, events=["turn_start"], intercept=["tool_call", "assistant_message"])
    one.gone = True
    stage.rules.release(one)
    stage.rules.subscribe(one, Subscribe(intercept=["tool_call"]))
    stage.rules.observe(TurnStart(step=1))
    assert await stage.rules.tool_call(CALL) == Allowed(args=CALL.args)
    assert stage.rules.withholding() == []
    assert (one.told, one.asked, stage.events) == ([], [], [])


# Observing


@pytest.mark.promise("S47")
def test_observers_get_each_event_with_its_members() -> None:
    one = Scripted("one")
    stage = Stage(one, events=["turn_start", "turn_end", "tool_call", "assistant_message"])
    for event in (
        UserMessage(content=[Text("go")]),
        TurnStart(step=3),
        TextDelta(delta="hi"),
        AssistantMessage(content=[Thinking("hm"), Text("hi "), CALL, Text("there")]),
        AssistantMessage(content=[CALL]),
        ToolCalled(id="t1", name="bash", args={"command": "ls"}),
        TurnEnd(stop="tool_use"),
        TurnEnd(stop="error", error="overloaded"),
    ):
        stage.rules.observe(event)
    assert one.told == [
        EventFrame(event="turn_start", step=3),
        EventFrame(event="assistant_message", text="hi there"),
        EventFrame(event="tool_call", tool_id="t1", tool_name="bash", tool_args={"command": "ls"}),
        EventFrame(event="turn_end", stop="tool_use"),
        EventFrame(event="turn_end", stop="error", error="overloaded"),
    ]


def test_one_that_does_not_read_misses_events_which_are_counted_and_delays_nobody() -> None:
    stuck, fine = Scripted("stuck"), Scripted("fine", 1)
    stage = Stage(stuck, fine, events=["turn_start"])
    stuck.full = True
    for step in range(1, 4):
        stage.rules.observe(TurnStart(step=step))
    assert stuck.remarks == ["it does not read: events are dropped from here on"]
    stuck.full = False
    stage.rules.observe(TurnStart(step=4))
    assert stuck.remarks[1:] == ["it reads again: 3 events were dropped"]
    assert [frame.step for frame in stuck.told] == [4]
    assert [frame.step for frame in fine.told] == [1, 2, 3, 4]
    stuck.full = True
    stage.rules.observe(TurnStart(step=5))
    stage.rules.release(stuck)
    assert stuck.remarks[2:] == [
        "it does not read: events are dropped from here on",
        "1 events were dropped because it did not read",
    ]


# Deciding


@pytest.mark.promise("S48")
async def test_interceptors_get_what_is_about_to_happen_and_five_seconds() -> None:
    one = Scripted("one")
    stage = Stage(one, intercept=["tool_call", "turn_start", "assistant_message"])
    await stage.rules.turn_start(3)
    await stage.rules.tool_call(CALL)
    await stage.rules.assistant_message("hi")
    assert one.asked == [
        EventIntercept(id="", event="turn_start", step=3),
        EventIntercept(id="", event="tool_call", tool_id="t1", tool_name="bash", tool_args={"command": "ls"}),
        EventIntercept(id="", event="assistant_message", text="hi"),
    ]
    assert one.within == [5.0, 5.0, 5.0]


@pytest.mark.promise("S30")
async def test_an_answer_with_nothing_set_lets_everything_pass_as_it_is() -> None:
    stage = Stage(Scripted("one"), intercept=["tool_call", "turn_start", "assistant_message"])
    assert await stage.rules.turn_start(1) == Allowed()
    assert await stage.rules.tool_call(CALL) == Allowed(args=CALL.args)
    assert await stage.rules.assistant_message("hi") == Allowed(text="hi")
    assert stage.events == []


@pytest.mark.promise("S32")
async def test_rewrites_chain_in_load_order_whatever_the_order_of_subscription() -> None:
    last = Scripted("last", 2, {"modified_args": {"command": "ls; b"}}, {"replace_text": "c"})
    first = Scripted("first", 1, {"modified_args": {"command": "ls; a"}}, {"replace_text": "b"})
    stage = Stage(last, first, intercept=["tool_call", "assistant_message"])
    assert stage.rules.withholding() == ["first", "last"]
    verdict = await stage.rules.tool_call(CALL)
    assert verdict == Allowed(args={"command": "ls; b"}, by=("first", "last"))
    assert last.asked[0].tool_args == {"command": "ls; a"}
    assert await stage.rules.assistant_message("a") == Allowed(text="c", by=("first", "last"))
    assert last.asked[1].text == "b"
    assert CALL.args == {"command": "ls"}


@pytest.mark.promise("S32")
async def test_the_first_block_wins_and_those_behind_are_not_asked() -> None:
    first = Scripted("first", 1, {"modified_args": {"x": 1}})
    second = Scripted("second", 2, {"block": True, "reason": "no", "modified_args": {"x": 2}})
    third = Scripted("third", 3)
    stage = Stage(first, second, third, intercept=["tool_call"])
    assert await stage.rules.tool_call(CALL) == Refused("no", "second")
    assert third.asked == []


@pytest.mark.promise("S28", "S29")
async def test_the_user_is_told_why_a_turn_or_a_message_was_blocked_and_the_model_why_a_call_was() -> None:
    block = {"block": True, "reason": "no"}
    stage = Stage(
        Scripted("x", 0, block, block, block), intercept=["turn_start", "assistant_message", "tool_call"]
    )
    assert await stage.rules.turn_start(1) == Refused("no", "x")
    assert await stage.rules.assistant_message("hi") == Refused("no", "x")
    assert await stage.rules.tool_call(CALL) == Refused("no", "x")
    assert stage.warnings() == [("x", "warn", "no"), ("x", "warn", "no")]


async def test_a_block_without_a_reason_gets_one() -> None:
    block = {"block": True, "reason": " "}
    stage = Stage(
        Scripted("x", 0, block, block, block), intercept=["turn_start", "assistant_message", "tool_call"]
    )
    assert await stage.rules.turn_start(1) == Refused("turn blocked by extension x", "x")
    assert await stage.rules.assistant_message("hi") == Refused("message withheld by extension x", "x")
    assert await stage.rules.tool_call(CALL) == Refused("tool call refused by extension x", "x")


@pytest.mark.promise("S30")
@pytest.mark.parametrize("args", [[], "ls", 7, False], ids=repr)
async def test_modified_args_that_are_no_object_change_nothing_and_are_logged(args: object) -> None:
    one = Scripted("one", 0, {"modified_args": args})
    stage = Stage(one, intercept=["tool_call"])
    assert await stage.rules.tool_call(CALL) == Allowed(args=CALL.args)
    assert one.remarks == ["modified_args was ignored: expected a JSON object"]


@pytest.mark.promise("S30")
async def test_what_is_ignored_besides_a_block_or_where_it_has_no_meaning() -> None:
    rewrite = {"modified_args": {"x": 1}, "replace_text": "other"}
    one = Scripted("one", 0, {**rewrite, "block": True, "reason": "no"}, rewrite, rewrite, rewrite)
    stage = Stage(one, intercept=["turn_start", "tool_call", "assistant_message"])
    assert await stage.rules.tool_call(CALL) == Refused("no", "one")
    assert await stage.rules.turn_start(1) == Allowed()
    assert await stage.rules.tool_call(CALL) == Allowed(args={"x": 1}, by=("one",))
    assert await stage.rules.assistant_message("hi") == Allowed(text="other", by=("one",))


async def test_the_same_again_is_no_change_but_another_json_value_is() -> None:
    same = {"modified_args": {"command": "ls"}, "replace_text": "hi"}
    stage = Stage(
        Scripted("x", 0, same, same, {"modified_args": {"n": True}}),
        intercept=["tool_call", "assistant_message"],
    )
    assert await stage.rules.tool_call(CALL) == Allowed(args=CALL.args)
    assert await stage.rules.assistant_message("hi") == Allowed(text="hi")
    call = ToolCall(id="t2", name="bash", args={"n": 1})
    verdict = await stage.rules.tool_call(call)
    assert isinstance(verdict, Allowed)
    assert (verdict.by, verdict.args["n"] is True) == (("x",), True)


async def test_an_empty_replacement_changes_nothing() -> None:
    stage = Stage(Scripted("x", 0, {"replace_text": ""}), intercept=["assistant_message"])
    assert await stage.rules.assistant_message("hi") == Allowed(text="hi")


async def test_a_reason_without_a_block_is_logged() -> None:
    one = Scripted("one", 0, {"reason": "looks fine"})
    stage = Stage(one, intercept=["tool_call"])
    await stage.rules.tool_call(CALL)
    assert one.remarks == ["let a tool_call pass: looks fine"]
    assert stage.events == []


@pytest.mark.promise("S31")
@pytest.mark.parametrize("failure", [ExtensionGone, NotReading, NoAnswer, WrongAnswer])
async def test_no_usable_answer_is_leave_with_a_warning_and_the_next_one_is_asked(
    failure: type[AskFailed],
) -> None:
    bad = Scripted("bad", 0, *[failure("extension bad is bad")] * 3)
    good = Scripted("good", 1, {}, {"modified_args": {}}, {"replace_text": "b"})
    stage = Stage(bad, good, intercept=["turn_start", "tool_call", "assistant_message"])
    assert await stage.rules.turn_start(1) == Allowed()
    assert await stage.rules.tool_call(CALL) == Allowed(args={}, by=("good",))
    assert await stage.rules.assistant_message("a") == Allowed(text="b", by=("good",))
    assert stage.warnings() == [
        ("bad", "warn", f"extension bad is bad: the {event} was allowed")
        for event in ("turn_start", "tool_call", "assistant_message")
    ]


async def test_a_withheld_message_whose_judges_have_all_died_is_shown() -> None:
    one = Scripted("one")
    stage = Stage(one, intercept=["assistant_message"])
    assert stage.rules.withholding() == ["one"]
    stage.rules.release(one)
    assert await stage.rules.assistant_message("hi") == Allowed(text="hi")


# Real processes


def plan(world: World, name: str, **what: Any) -> None:
    (world.add("decides", name) / "plan.json").write_text(json.dumps(what))


@pytest.mark.promise("S26", "S47")
async def test_a_process_hears_what_it_subscribed_to_in_order(world: World) -> None:
    plan(world, "ear", events=["session_start", "turn_start", "tool_call"])
    async with world.running() as host:
        host.interception.observe(TurnStart(step=1))
        host.interception.observe(ToolCalled(id="t1", name="bash", args={"command": "ls"}))
        host.interception.observe(TurnStart(step=2))
        await world.event(ExtNotify, message='{"type": "event", "event": "turn_start", "step": 2}')
    heard = [json.loads(note.message) for note in world.seen(ExtNotify)]
    assert heard[:3] == [
        {"type": "event", "event": "session_start"},
        {"type": "event", "event": "turn_start", "step": 1},
        {
            "type": "event",
            "event": "tool_call",
            "tool_id": "t1",
            "tool_name": "bash",
            "tool_args": {"command": "ls"},
        },
    ]


@pytest.mark.promise("S27", "S30", "S32")
async def test_processes_rewrite_one_after_the_other_and_block(world: World) -> None:
    plan(world, "a", intercept=["tool_call"], answers={"tool_call": {"modified_args": {"command": "echo a"}}})
    plan(world, "b", intercept=["tool_call"], answers={"tool_call": {}})
    plan(world, "c", intercept=["turn_start"], answers={"turn_start": {"block": True}})
    async with world.running() as host:
        assert await host.interception.tool_call(CALL) == Allowed(args={"command": "echo a"}, by=("a",))
        assert await host.interception.turn_start(1) == Refused("turn blocked by extension c", "c")
    asked = [json.loads(note.message) for note in world.seen(ExtNotify) if note.extension == "b"]
    assert asked[0]["tool_args"] == {"command": "echo a"}


@pytest.mark.promise("S31")
async def test_one_that_never_answers_one_that_dies_and_one_that_answers_nonsense_let_it_pass(
    world: World,
) -> None:
    plan(world, "a-hangs", intercept=["tool_call"], answers={"tool_call": "hang"})
    plan(world, "b-dies", intercept=["tool_call"], answers={"tool_call": "die"})
    plan(world, "c-odd", intercept=["tool_call"], answers={"tool_call": {"block": "yes"}})
    plan(world, "d-last", intercept=["tool_call"], answers={"tool_call": {"modified_args": {"x": 1}}})
    async with world.running(intercept_s=0.2) as host:
        assert await host.interception.tool_call(CALL) == Allowed(args={"x": 1}, by=("d-last",))
    warned = {note.extension: note.message for note in world.seen(ExtNotify) if note.level == "warn"}
    assert warned["a-hangs"] == "extension a-hangs did not answer within 0.2 s: the tool_call was allowed"
    assert warned["b-dies"] == "extension b-dies exited: exit status 9: the tool_call was allowed"
    assert warned["c-odd"].startswith("extension c-odd: event_intercept_response: ")
    assert warned["c-odd"].endswith("at $.block: the tool_call was allowed")


async def test_waiting_for_an_interceptor_ends_at_once_when_the_turn_is_aborted(world: World) -> None:
    plan(world, "hangs", intercept=["tool_call"], answers={"tool_call": "hang"})
    async with world.running(intercept_s=60.0) as host:
        asking = asyncio.create_task(host.interception.tool_call(CALL))
        await world.event(ExtNotify, extension="hangs")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_events_for_a_process_that_reads_nothing_are_dropped_and_counted_in_its_log(
    world: World,
) -> None:
    world.add("deaf")
    async with world.running(outgoing_frames=4, shutdown_s=0.05) as host:
        for number in range(8):  # the pipe takes the first in part, the queue four
            big = ToolCalled(id=f"t{number}", name="bash", args={"command": "x" * 300_000})
            host.interception.observe(big)
        assert await host.interception.tool_call(CALL) == Allowed(args=CALL.args)
    await world.event(
        ExtNotify, level="warn", message="extension deaf is not reading: the tool_call was allowed"
    )
    log = world.log("deaf")
    assert log.count("it does not read: events are dropped from here on") == 1
    assert log.count("4 events were dropped because it did not read") == 1
