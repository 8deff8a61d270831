"""A turn in which somebody has a say: before a model call, before a tool runs, before a text is seen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_loop import Echo, Recorder, Script, Step, call, finish
from zotd.agent.loop import Loop, Model, Outcome
from zotd.agent.ports import (
    Allowed,
    ModelRequest,
    ProviderError,
    ProviderEvent,
    Refused,
    ToolOutcome,
    Verdict,
)
from zotd.agent.toolbox import Toolbox
from zotd.agent.transcript import Transcript, shown
from zotd.protocol.content import Block, Message, Text, Thinking, ToolCall, ToolResult
from zotd.protocol.events import TextDelta, ThinkingDelta
from zotd.wire.codec import encode

SECRET = "\u2603"
"""A character that only unapproved text has."""


class Judge:
    """Hooks that say what they were given, allow the rest, and remember what they were asked."""

    def __init__(
        self,
        *,
        withheld: Sequence[str] = (),
        turns: Sequence[Verdict] = (),
        calls: Sequence[Verdict] = (),
        texts: Sequence[Verdict] = (),
    ) -> None:
        self.withheld = [*withheld]
        self.asked: list[tuple[str, object]] = []
        self.abort: Callable[[], object] = lambda: None
        self.aborts_at = ""
        self.on_ask: Callable[[str], object] = lambda what: None
        self._turns = [*turns]
        self._calls = [*calls]
        self._texts = [*texts]

    def withholding(self) -> list[str]:
        return self.withheld

    async def turn_start(self, step: int) -> Verdict:
        await self._asked("turn_start", step)
        return self._turns.pop(0) if self._turns else Allowed()

    async def tool_call(self, call: ToolCall) -> Verdict:
        await self._asked("tool_call", call)
        return self._calls.pop(0) if self._calls else Allowed(args=call.args)

    async def assistant_message(self, text: str) -> Verdict:
        await self._asked("assistant_message", text)
        return self._texts.pop(0) if self._texts else Allowed(text=text)

    async def _asked(self, what: str, about: object) -> None:
        self.asked.append((what, about))
        self.on_ask(what)
        if self.aborts_at == what:
            self.abort()
            await asyncio.Event().wait()


class Abort(Exception):
    """In a step: the user aborts here."""


class Player(Script):
    """The script, with aborts."""

    def __init__(self, *steps: Step) -> None:
        super().__init__(*steps)
        self.abort: Callable[[], object] = lambda: None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        async with aclosing(super().stream(request)) as events:
            try:
                async for event in events:
                    yield event
            except Abort:
                self.abort()
                await asyncio.Event().wait()


class Run:
    """One turn with hooks, and everything that can be seen of it."""

    def __init__(self, judge: Judge, *steps: Step) -> None:
        self.judge = judge
        self.script = Player(*steps)
        self.sink = Recorder()
        self.transcript = Transcript(lambda: "2026-11-30T00:00:00.000Z")
        self.toolbox = Toolbox({"echo": Echo()})
        self.outcome = Outcome("error")

    async def turn(self) -> Run:
        loop = Loop(self.transcript, self.toolbox, self.sink, 10)
        loop.hooks = self.judge
        task = asyncio.create_task(loop.run("turn", [Text("go")], Model(self.script, "m")))
        self.judge.abort = self.script.abort = task.cancel
        async with asyncio.timeout(10):
            self.outcome = await task
        return self

    @property
    def visible(self) -> str:
        """All that a person could read of it, in whatever way."""
        events = [encode(event).decode() for event in self.sink.events]
        rows = [encode(shown(message)).decode() for message in self.transcript.messages]
        return json.dumps([*events, *rows, self.outcome.text], ensure_ascii=False)

    @property
    def said(self) -> Message:
        return next(message for message in self.transcript.messages if message.role == "assistant")


def text(*deltas: str) -> Step:
    return [TextDelta(delta=delta) for delta in deltas]


# A turn


@pytest.mark.promise("S28")
async def test_a_blocked_turn_ends_before_the_model_is_called_and_is_no_error_event() -> None:
    run = await Run(Judge(turns=[Refused("after hours", "gate")])).turn()
    assert run.sink.names() == ["user_message", "turn_start", "turn_end", "done"]
    assert (run.sink.of("turn_end")[0].stop, run.sink.of("turn_end")[0].error) == ("error", "after hours")
    assert (run.outcome.stop, run.outcome.error, run.outcome.kind) == ("error", "after hours", "turn_blocked")
    assert run.script.requests == []


async def test_the_prompt_of_a_blocked_turn_stays_in_the_transcript() -> None:
    run = await Run(Judge(turns=[Refused("no", "gate")])).turn()
    assert [(message.role, message.text) for message in run.transcript.messages] == [("user", "go")]


@pytest.mark.promise("S28")
async def test_a_later_step_can_be_blocked_and_what_was_said_before_stands() -> None:
    steps = ([*text("looking"), *call("echo", "{}"), finish("tool_use")],)
    run = await Run(Judge(turns=[Allowed(), Refused("enough", "gate")]), *steps).turn()
    assert [event.step for event in run.sink.of("turn_start")] == [1, 2]
    assert [event.stop for event in run.sink.of("turn_end")] == ["tool_use", "error"]
    assert run.sink.of("error") == []
    assert (run.outcome.kind, run.outcome.text) == ("turn_blocked", "looking")
    assert [message.role for message in run.transcript.messages] == ["user", "assistant", "tool"]


async def test_a_turn_is_asked_about_after_it_was_announced() -> None:
    judge = Judge()
    run = Run(judge, [*text("hi"), finish()])
    at_ask: list[list[str]] = []
    run.sink.at = lambda event: at_ask.append([what for what, _ in judge.asked])
    await run.turn()
    assert run.sink.names()[:3] == ["user_message", "turn_start", "assistant_start"]
    assert at_ask[:3] == [[], [], ["turn_start"]]


# A tool call


@pytest.mark.promise("S27")
async def test_a_refused_call_is_an_error_the_model_reads_and_the_turn_goes_on() -> None:
    steps = ([*call("echo", '{"a":1}'), finish("tool_use")], [*text("as you wish"), finish()])
    run = await Run(Judge(calls=[Refused("matches rm -rf", "guard")]), *steps).turn()
    (result,) = run.sink.of("tool_result")
    assert (result.is_error, result.content, result.details) == (
        True,
        [Text("matches rm -rf")],
        {"tool": "echo", "refused_by": "guard"},
    )
    assert run.script.requests[1].messages[-1].content == [
        ToolResult(call_id="t1", is_error=True, content=[Text("matches rm -rf")])
    ]
    assert run.sink.of("tool_progress") == []
    assert (run.outcome.stop, run.outcome.error, run.outcome.text) == ("end_turn", None, "as you wish")


@pytest.mark.promise("S27")
async def test_changed_arguments_are_for_the_tool_only_and_the_result_names_who_changed_them() -> None:
    steps = ([*call("echo", '{"a":1}'), finish("tool_use")], [*text("ok"), finish()])
    changed = Allowed(args={"a": 2}, by=("guard", "log"))
    run = await Run(Judge(calls=[changed]), *steps).turn()
    (result,) = run.sink.of("tool_result")
    assert result.content == [Text("{'a': 2}")]
    assert result.details == {"tool": "echo", "modified_by": ["guard", "log"]}
    assert run.sink.of("tool_call")[0].args == {"a": 1}
    assert [block.args for block in run.said.content if isinstance(block, ToolCall)] == [{"a": 1}]


async def test_an_untouched_call_names_nobody() -> None:
    steps = ([*call("echo", '{"a":1}'), finish("tool_use")], [*text("ok"), finish()])
    run = await Run(Judge(), *steps).turn()
    assert run.sink.of("tool_result")[0].details == {"tool": "echo"}


async def test_every_call_of_a_batch_is_announced_first_and_asked_about_directly_before_it_runs() -> None:
    judge = Judge(calls=[Refused("no", "guard")])
    both: Step = [*call("echo", "{}", "t1"), *call("echo", "{}", "t2"), finish("tool_use")]
    run = Run(judge, both, [finish()])
    order: list[str] = []
    run.sink.at = lambda event: order.append(str(event.__struct_config__.tag))
    judge.on_ask = lambda what: order.append(f"ask {what}")
    await run.turn()
    start = order.index("tool_call")
    assert order[start : start + 8] == [
        "tool_call",
        "tool_call",
        "turn_end",
        "ask tool_call",
        "tool_result",
        "ask tool_call",
        "tool_progress",
        "tool_result",
    ]


@pytest.mark.parametrize(("name", "raw"), [("echo", "{broken"), ("echo", "[1]"), ("unknown", "{}")])
async def test_nobody_is_asked_about_arguments_that_are_no_object_or_a_tool_that_is_not_there(
    name: str, raw: str
) -> None:
    judge = Judge()
    run = await Run(judge, [*call(name, raw), finish("tool_use")], [*text("ok"), finish()]).turn()
    assert [what for what, _ in judge.asked] == ["turn_start", "turn_start"]
    assert run.sink.of("tool_result")[0].is_error


class Other(Echo):
    """The same tool, registered again."""

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolOutcome:
        return ToolOutcome([Text("the new one")])


async def test_a_tool_that_is_registered_anew_during_a_decision_is_the_one_that_runs() -> None:
    judge = Judge()
    run = Run(judge, [*call("echo", "{}"), finish("tool_use")], [*text("ok"), finish()])

    def replaced(what: str) -> None:
        if what == "tool_call":
            run.toolbox.add(Other(), owner="a")

    judge.on_ask = replaced
    await run.turn()
    assert run.sink.of("tool_result")[0].content == [Text("the new one")]


async def test_an_abort_while_a_call_is_judged_works_at_once_and_the_call_gets_a_result() -> None:
    judge = Judge()
    judge.aborts_at = "tool_call"
    run = await Run(judge, [*call("echo", "{}"), finish("tool_use")]).turn()
    assert run.outcome.stop == "aborted"
    assert run.sink.of("tool_result")[0].content == [Text("aborted")]
    assert run.sink.names()[-2:] == ["turn_end", "done"]


async def test_an_abort_while_a_turn_is_judged_works_at_once() -> None:
    judge = Judge()
    judge.aborts_at = "turn_start"
    run = await Run(judge).turn()
    assert run.sink.names() == ["user_message", "turn_start", "turn_end", "done"]
    assert run.outcome.stop == "aborted"


# A message


@pytest.mark.promise("S29")
async def test_a_withheld_message_is_announced_as_such_and_shown_in_one_piece_ahead_of_its_cost() -> None:
    judge = Judge(withheld=["redactor"], texts=[Allowed(text="a [redacted]", by=("redactor",))])
    think: Step = [ThinkingDelta(delta="it is x")]
    run = await Run(judge, [*think, *text("a ", "key"), finish()]).turn()
    assert run.sink.names() == [
        *("user_message", "turn_start", "assistant_start", "text_delta", "usage", "assistant_message"),
        *("turn_end", "done"),
    ]
    assert run.sink.of("assistant_start")[0].withheld_by == ["redactor"]
    assert run.sink.of("text_delta")[0].delta == "a [redacted]"
    assert run.sink.of("assistant_message")[0].content == [Text("a [redacted]")]
    assert run.outcome.text == "a [redacted]"
    assert judge.asked[-1] == ("assistant_message", "a key")


async def test_without_a_subscription_text_streams_and_nobody_is_asked() -> None:
    judge = Judge()
    run = await Run(judge, [*text("a ", "b"), finish()]).turn()
    assert [event.delta for event in run.sink.of("text_delta")] == ["a ", "b"]
    assert run.sink.of("assistant_start")[0].withheld_by is None
    assert [what for what, _ in judge.asked] == ["turn_start"]
    assert "shown" not in run.said.meta


@pytest.mark.promise("S29")
async def test_the_model_keeps_its_own_words_in_later_requests() -> None:
    judge = Judge(withheld=["redactor"], texts=[Allowed(text="[x]", by=("redactor",)), Refused("no", "r")])
    steps = ([*text("key"), *call("echo", "{}"), finish("tool_use")], [*text("done"), finish()])
    run = await Run(judge, *steps).turn()
    assert run.script.requests[1].messages[1].text == "key"
    assert [message.meta.get("shown") for message in run.transcript.messages] == [None, "[x]", None, ""]


@pytest.mark.promise("S29")
async def test_a_blocked_message_shows_no_text_and_its_calls_run() -> None:
    judge = Judge(withheld=["r"], texts=[Refused("not that", "r"), Refused("nor that", "r")])
    steps = ([*text("key"), *call("echo", "{}"), finish("tool_use")], [*text("key"), finish()])
    run = await Run(judge, *steps).turn()
    assert run.sink.of("text_delta") == []
    first, second = run.sink.of("assistant_message")
    assert first.content == [ToolCall(id="t1", name="echo", args={})]
    assert second.content == []
    assert run.sink.of("tool_result")[0].content == [Text("{}")]
    assert (run.outcome.stop, run.outcome.text, run.outcome.error) == ("end_turn", "", None)


async def test_a_withheld_message_without_words_is_nobodys_to_judge() -> None:
    judge = Judge(withheld=["r"])
    steps = (
        [ThinkingDelta(delta="hm"), *call("echo", "{}"), finish("tool_use")],
        [*text("ok"), finish()],
    )
    run = await Run(judge, *steps).turn()
    assert [about for what, about in judge.asked if what == "assistant_message"] == ["ok"]
    assert run.sink.of("thinking_delta") == []
    assert run.sink.of("assistant_message")[0].content == [ToolCall(id="t1", name="echo", args={})]


async def test_an_abort_before_approval_shows_nothing_but_counts_what_it_cost() -> None:
    judge = Judge(withheld=["r"])
    judge.aborts_at = "assistant_message"
    run = await Run(judge, [*text(SECRET), finish()]).turn()
    assert run.sink.names()[2:] == ["assistant_start", "usage", "turn_end", "done"]
    assert run.outcome.stop == "aborted"
    assert run.outcome.usage.output == 5
    assert SECRET not in run.visible
    assert run.said.text == SECRET


async def test_a_provider_error_in_mid_stream_shows_nothing_of_a_withheld_message() -> None:
    judge = Judge(withheld=["r"])
    run = await Run(judge, [*text(SECRET), ProviderError("cut")]).turn()
    assert run.outcome.error == "cut"
    assert [what for what, _ in judge.asked] == ["turn_start"]
    assert SECRET not in run.visible
    assert run.said.text == SECRET


async def test_an_error_that_quotes_the_provider_in_mid_stream_is_told_without_its_words() -> None:
    judge = Judge(withheld=["r"])
    failure = ProviderError(f"content filtered: {SECRET}", kind="provider_error", quotes=True)
    run = await Run(judge, [*text(SECRET), failure]).turn()
    assert run.outcome.error == "the answer was cut off by an error of the provider, withheld with it for r"
    assert SECRET not in run.visible


async def test_where_nobody_approves_messages_the_words_of_the_provider_are_told() -> None:
    failure = ProviderError("content filtered: x", quotes=True)
    run = await Run(Judge(), [*text("x"), failure]).turn()
    assert run.outcome.error == "content filtered: x"


async def test_who_subscribes_while_a_message_streams_gets_the_next_one() -> None:
    judge = Judge()
    run = Run(judge, [*text("a"), *call("echo", "{}"), finish("tool_use")], [*text("b"), finish()])

    def subscribe(event: object) -> None:
        if isinstance(event, TextDelta):
            judge.withheld = ["late"]

    run.sink.at = subscribe
    await run.turn()
    assert [about for what, about in judge.asked if what == "assistant_message"] == ["b"]
    assert [event.withheld_by for event in run.sink.of("assistant_start")] == [None, ["late"]]


# What people see


def test_the_approved_text_stands_where_the_first_words_were() -> None:
    one = ToolCall(id="t1", name="echo", args={})
    content: list[Block] = [Thinking("hm"), one, Text("a"), Text("b")]
    message = Message(role="assistant", content=content, time="", meta={"shown": "ok"})
    assert shown(message).content == [one, Text("ok")]
    assert shown(message).meta == {}
    blocked = Message(role="assistant", content=content, time="", meta={"shown": ""})
    assert shown(blocked).content == [one]
    plain = Message(role="assistant", content=content, time="")
    assert shown(plain) is plain


words = st.text(alphabet=f"ab{SECRET}", min_size=1, max_size=6)
pieces = st.one_of(
    words.map(lambda word: [TextDelta(delta=word)]),
    words.map(lambda word: [ThinkingDelta(delta=word)]),
    st.just("call"),
)
verdicts = st.one_of(
    st.builds(Refused, reason=st.just("no"), by=st.just("r")),
    st.builds(Allowed, text=st.text(alphabet="xyz", min_size=1, max_size=4), by=st.just(("r",))),
)
ENDS: dict[str, ProviderEvent | Exception] = {
    "finish": finish(),
    "length": finish("length"),
    "error": ProviderError("cut"),
    "abort": Abort(),
    "abort while judged": finish(),
}
ends = st.sampled_from([*ENDS])


@pytest.mark.promise("S29")
@given(st.lists(st.tuples(st.lists(pieces, max_size=5), verdicts), min_size=1, max_size=3), ends)
async def test_no_character_of_an_unapproved_text_is_ever_seen(
    drawn: list[tuple[list[Any], Verdict]], end: str
) -> None:
    ids = (f"t{number}" for number in range(100))
    steps: list[Step] = []
    for number, (parts, _) in enumerate(drawn):
        step = [
            event for part in parts for event in (call("echo", "{}", next(ids)) if part == "call" else part)
        ]
        if number < len(drawn) - 1:
            step += [*call("echo", "{}", next(ids)), finish("tool_use")]
        else:
            step.append(ENDS[end])
        steps.append(step)
    steps.append([finish()])  # in case that the last step called a tool
    asked = [verdict for parts, verdict in drawn if any(isinstance(p[0], TextDelta) for p in parts)]
    judge = Judge(withheld=["r"], texts=asked)
    judge.aborts_at = "assistant_message" if end == "abort while judged" else ""
    run = await Run(judge, *steps).turn()
    assert run.sink.names()[-1] == "done"
    assert SECRET not in run.visible
