"""A turn, with a scripted model and small tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from zotd.agent.loop import Loop, Model, Outcome
from zotd.agent.ports import Finish, ModelRequest, ProviderError, ProviderEvent, ToolFailed, ToolOutcome
from zotd.agent.toolbox import Toolbox
from zotd.agent.transcript import Transcript
from zotd.protocol.content import Message, StopReason, Text, ToolCall, ToolResult, Usage
from zotd.protocol.events import Event, TextDelta, ToolUseArgs, ToolUseEnd, ToolUseStart

Step = list[ProviderEvent | Exception]


class Recorder:
    """A sink that keeps everything, and calls back at each event."""

    full = False

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.at: Callable[[Event], None] = lambda event: None

    def publish(self, event: Event) -> None:
        self.events.append(event)
        self.at(event)

    async def drained(self) -> None:
        return

    def names(self) -> list[str]:
        return [str(event.__struct_config__.tag) for event in self.events]

    def of(self, name: str) -> list[Any]:
        return [event for event in self.events if event.__struct_config__.tag == name]


class Script:
    """A provider that plays its steps; a step may raise, and an empty one waits until it is aborted."""

    id = "script"

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        self.requests.append(request)
        step = self.steps.pop(0)
        for event in step:
            if isinstance(event, Exception):
                raise event
            yield event
        if not any(isinstance(event, Finish) for event in step):
            await asyncio.Event().wait()

    async def close(self) -> None:
        return


class Echo:
    name = "echo"
    description = "says it back"
    schema: dict[str, Any] = {"type": "object"}  # noqa: RUF012

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolOutcome:
        progress("working")
        match call.args:
            case {"fail": str(reason)}:
                raise ToolFailed(reason)
            case {"crash": True}:
                raise ZeroDivisionError("by zero")
            case {"hang": True}:
                await asyncio.Event().wait()
        return ToolOutcome([Text(str(call.args))])


def finish(stop: StopReason = "end_turn") -> Finish:
    return Finish(stop, Usage(input=10, output=5))


def call(name: str, raw: str, call_id: str = "t1") -> Step:
    return [ToolUseStart(id=call_id, name=name), ToolUseArgs(id=call_id, delta=raw), ToolUseEnd(id=call_id)]


async def run(
    provider: Script,
    sink: Recorder,
    max_steps: int = 10,
    at: Callable[[Event, asyncio.Task[Outcome]], None] | None = None,
) -> tuple[Outcome, Transcript]:
    transcript = Transcript(lambda: "2026-11-30T00:00:00.000Z")
    loop = Loop(transcript, Toolbox({"echo": Echo()}), sink, max_steps)
    task = asyncio.create_task(loop.run("turn", [Text("go")], Model(provider, "m")))
    if at is not None:
        sink.at = lambda event: at(event, task)
    async with asyncio.timeout(10):
        return await task, transcript


def aborting_at(name: str, count: int = 1) -> Callable[[Event, asyncio.Task[Outcome]], None]:
    seen = [0]

    def at(event: Event, task: asyncio.Task[Outcome]) -> None:
        if event.__struct_config__.tag == name:
            seen[0] += 1
            if seen[0] == count:
                task.cancel()

    return at


def assert_whole(messages: list[Message]) -> None:
    """Every call is answered exactly once, in the message right after it."""
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        asked = [block.id for block in message.content if isinstance(block, ToolCall)]
        if asked:
            assert following is not None
            assert following.role == "tool"
            assert [b.call_id for b in following.content if isinstance(b, ToolResult)] == asked


async def test_events_come_in_the_order_that_clients_know() -> None:
    sink = Recorder()
    provider = Script(
        [TextDelta(delta="calling"), *call("echo", '{"a": 1}'), finish("tool_use")],
        [TextDelta(delta="done"), finish()],
    )
    outcome, transcript = await run(provider, sink)
    assert sink.names() == [
        "user_message", "turn_start", "assistant_start", "text_delta", "tool_use_start", "tool_use_args",
        "tool_use_end", "usage", "assistant_message", "tool_call", "turn_end", "tool_progress", "tool_result",
        "turn_start", "assistant_start", "text_delta", "usage", "assistant_message", "turn_end", "done",
    ]  # fmt: skip
    assert (outcome.stop, outcome.text, outcome.usage.input) == ("end_turn", "done", 20)
    assert [message.role for message in transcript.messages] == ["user", "assistant", "tool", "assistant"]
    assert_whole(transcript.messages)


async def test_the_next_request_carries_the_whole_conversation() -> None:
    provider = Script([*call("echo", "{}"), finish("tool_use")], [TextDelta(delta="ok"), finish()])
    await run(provider, Recorder())
    assert [message.role for message in provider.requests[1].messages] == ["user", "assistant", "tool"]


def nested(levels: int) -> str:
    return '{"a": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"fail": "no such city"}', "no such city"),
        ('{"crash": true}', "echo failed: ZeroDivisionError: by zero"),
        ("{bad", "arguments must be one JSON object; got: {bad"),
        ("[1]", "arguments must be one JSON object; got: [1]"),
        ('{"a": NaN}', 'arguments must be one JSON object; got: {"a": NaN}'),
        ('{"a": -Infinity}', 'arguments must be one JSON object; got: {"a": -Infinity}'),
        ('{"a": [-1e999]}', 'arguments must be one JSON object; got: {"a": [-1e999]}'),
        (nested(201), "arguments must be one JSON object; got: " + nested(201)[:200]),
        (nested(990), "arguments must be one JSON object; got: " + nested(990)[:200]),
        (nested(100_000), "arguments must be one JSON object; got: " + nested(100_000)[:200]),
    ],
)
async def test_a_call_that_cannot_be_done_is_an_error_result_and_the_model_goes_on(
    raw: str, expected: str
) -> None:
    sink = Recorder()
    outcome, transcript = await run(
        Script([*call("echo", raw), finish("tool_use")], [TextDelta(delta="ok"), finish()]), sink
    )
    (result,) = sink.of("tool_result")
    assert (result.is_error, result.content) == (True, [Text(expected)])
    assert outcome.stop == "end_turn"
    assert_whole(transcript.messages)


@pytest.mark.parametrize("raw", [nested(200), '{"a": "' + "[" * 1_000 + '"}', '{"a": 1e308}'])
async def test_arguments_that_everybody_can_read_reach_the_tool(raw: str) -> None:
    sink = Recorder()
    await run(Script([*call("echo", raw), finish("tool_use")], [TextDelta(delta="ok"), finish()]), sink)
    (result,) = sink.of("tool_result")
    assert (result.is_error, result.content) == (False, [Text(str(json.loads(raw)))])


async def test_an_unknown_tool_is_answered_with_the_names_of_those_there_are() -> None:
    sink = Recorder()
    await run(Script([*call("nope", "{}"), finish("tool_use")], [finish()]), sink)
    assert sink.of("tool_result")[0].content == [Text("no tool is named 'nope'; there are: echo")]


async def test_a_failed_model_ends_the_turn_with_one_error_directly_before_done() -> None:
    sink = Recorder()
    outcome, transcript = await run(Script([TextDelta(delta="half"), ProviderError("529 overloaded")]), sink)
    assert sink.names()[-3:] == ["turn_end", "error", "done"]
    assert (outcome.stop, outcome.error, outcome.kind) == ("error", "529 overloaded", "provider_error")
    assert transcript.messages[-1].text == "half"


async def test_too_many_steps_end_the_turn_with_its_own_kind() -> None:
    sink = Recorder()
    steps: list[Step] = [[*call("echo", "{}", f"t{n}"), finish("tool_use")] for n in range(3)]
    outcome, transcript = await run(Script(*steps), sink, max_steps=2)
    assert (outcome.stop, outcome.kind) == ("error", "limit_steps")
    assert_whole(transcript.messages)


async def test_calls_of_an_answer_cut_at_its_length_are_refused_and_the_turn_ends() -> None:
    outcome, transcript = await run(Script([*call("echo", '{"a": '), finish("length")]), Recorder())
    assert outcome.stop == "length"
    assert_whole(transcript.messages)


EVENTS = [
    "user_message",
    "turn_start",
    "text_delta",
    "tool_use_args",
    "usage",
    "tool_call",
    "turn_end",
    "tool_progress",
]


@pytest.mark.parametrize("name", EVENTS)
async def test_an_abort_at_any_point_leaves_a_whole_transcript_and_exactly_one_done(name: str) -> None:
    sink = Recorder()
    provider = Script(
        [
            TextDelta(delta="two calls"),
            *call("echo", '{"hang": true}', "t1"),
            *call("echo", "{}", "t2"),
            finish("tool_use"),
        ],
        [],
    )
    outcome, transcript = await run(provider, sink, at=aborting_at(name))
    assert outcome.stop == "aborted"
    assert sink.names().count("done") == 1
    assert sink.names()[-2:] == ["turn_end", "done"]
    assert (sink.of("turn_end")[-1].stop, sink.of("done")[0].stop) == ("aborted", "aborted")
    assert sink.of("error") == []
    assert_whole(transcript.messages)


async def test_the_rest_of_an_aborted_batch_does_not_run() -> None:
    sink = Recorder()
    provider = Script([*call("echo", '{"hang": true}', "t1"), *call("echo", "{}", "t2"), finish("tool_use")])
    await run(provider, sink, at=aborting_at("tool_progress"))
    assert [progress.id for progress in sink.of("tool_progress")] == ["t1"]
    assert [(result.id, result.is_error) for result in sink.of("tool_result")] == [("t1", True), ("t2", True)]


async def test_another_model_answers_from_the_next_call_on() -> None:
    first, second = (
        Script([*call("echo", "{}"), finish("tool_use")]),
        Script([TextDelta(delta="hi"), finish()]),
    )
    sink = Recorder()
    loop = Loop(Transcript(lambda: ""), Toolbox({"echo": Echo()}), sink, 10)
    models = iter([None, Model(second, "other", reasoning="low")])
    loop.another_model = lambda: next(models)
    outcome = await loop.run("turn", [Text("go")], Model(first, "m"))
    assert (outcome.stop, outcome.text) == ("end_turn", "hi")
    assert [request.model for request in (*first.requests, *second.requests)] == ["m", "other"]
    assert second.requests[0].reasoning == "low"
