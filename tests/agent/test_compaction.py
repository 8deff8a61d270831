"""What a summary replaces, how the model is asked for it, and what goes wrong, with a scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.test_loop import Echo, Recorder, Script, Step, aborting_at, assert_whole, call
from zotd.agent.compaction import (
    abridged,
    older_rows,
    rendered,
    summary_request,
    summary_row,
)
from zotd.agent.loop import Loop, Model, Outcome
from zotd.agent.ports import Finish, ProviderError
from zotd.agent.toolbox import Toolbox
from zotd.agent.transcript import SUMMARY_HEADING, SUMMARY_MARK, Transcript
from zotd.base.limits import Limits
from zotd.protocol.content import Block, Image, Message, Text, Thinking, ToolCall, ToolResult, Usage
from zotd.protocol.events import TextDelta
from zotd.store.log import SessionLog, read_saved

LIMITS = Limits()
WINDOW = 1_000


def row(role: Any, *content: Block, **more: Any) -> Message:
    return Message(role, list(content), "2026-11-30T00:00:00.000Z", **more)


def user(text: str, **more: Any) -> Message:
    return row("user", Text(text), **more)


def asked(number: int) -> Message:
    return row("assistant", ToolCall(f"c{number}", "echo", {"n": number}))


def answered(number: int, text: str = "result") -> Message:
    return row("tool", ToolResult(f"c{number}", False, [Text(text)]))


def exchange(number: int) -> list[Message]:
    return [user(f"prompt {number}"), asked(number), answered(number), row("assistant", Text(f"a{number}"))]


def exchanges(count: int) -> list[Message]:
    return [message for number in range(count) for message in exchange(number)]


SUMMARY = summary_row("before", [], "2026-11-30T00:00:00.000Z")


# Which rows


@pytest.mark.parametrize(
    ("messages", "by_request", "in_the_last_turn"),
    [
        ([], 0, None),
        (exchanges(1), 4, 0),
        (exchanges(2), 4, 4),
        (exchanges(4), 4, 4),
        (exchanges(5), 4, 4),
        (exchanges(7), 12, 12),
        ([SUMMARY], 0, None),
        ([SUMMARY, *exchanges(1)], 5, 0),
        ([SUMMARY, *exchanges(4)], 5, 5),
        ([SUMMARY, *exchanges(5)], 5, 5),
        ([row("assistant", Text("hello")), *exchanges(1)], 5, 1),
        ([user("failed"), user("failed"), *exchanges(1)], 1, 1),
    ],
)
def test_the_last_four_exchanges_stay_and_of_fewer_all_but_the_oldest(
    messages: list[Message], by_request: int, in_the_last_turn: int | None
) -> None:
    assert older_rows(messages, 4) == by_request
    if in_the_last_turn is not None:
        running = next(m for m in reversed(messages) if m.role == "user")
        assert older_rows(messages, 4, running) == in_the_last_turn


def test_what_was_said_to_a_running_turn_begins_no_exchange() -> None:
    own = {"turn_id": "t1"}
    steered = [user("p", meta=own), asked(0), answered(0), user("and this", meta=own), asked(1), answered(1)]
    assert older_rows(steered, 4) == 6
    assert older_rows([*steered, user("q", meta={"turn_id": "t2"})], 4) == 6
    prompt = user("p")
    unmarked = [*exchanges(1), prompt, asked(1), answered(1), user("and this"), asked(2), answered(2)]
    assert older_rows(unmarked, 4, prompt) == 4


def test_words_between_a_call_and_its_result_part_the_two_nowhere() -> None:
    messages = [user("p"), asked(0), user("hurry"), answered(0), *exchanges(0), user("q"), asked(1)]
    assert older_rows(messages, 1) == 4
    assert older_rows([user("p"), asked(0), user("q")], 1) == 2


turns = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["call", "two calls", "steer", "steer inside", "cut"]), max_size=4),
        st.sampled_from(["answered", "failed"]),
    ),
    max_size=9,
)


def conversation(shape: list[tuple[list[str], str]]) -> list[Message]:
    messages: list[Message] = []
    calls = 0
    for number, (steps, end) in enumerate(shape):
        messages.append(user(f"prompt {number}"))
        for step in steps:
            if step == "steer":
                messages.append(user("steer"))
                continue
            if step == "cut":
                messages.append(row("assistant", Thinking("hm"), Text("half")))
                continue
            made = range(calls, calls := calls + 1 + (step == "two calls"))
            messages.append(row("assistant", *(ToolCall(f"c{n}", "echo", {}) for n in made)))
            if step == "steer inside":
                messages.append(user("steer"))
            results = [ToolResult(f"c{n}", False, [Text("r")]) for n in made]
            messages.append(row("tool", *results, added_tool_names=[f"tool{calls}"]))
        if end == "answered":
            messages.append(row("assistant", Text("done")))
    return messages


@given(turns, st.integers(1, 5), st.booleans(), st.booleans())
def test_whatever_was_said_the_new_conversation_is_a_valid_one(
    shape: list[tuple[list[str], str]], keep: int, summarised: bool, in_turn: bool
) -> None:
    messages = [*([SUMMARY] if summarised else []), *conversation(shape)]
    prompts = [m for m in messages if m.text.startswith("prompt")]
    running = prompts[-1] if in_turn and prompts else None
    cut = older_rows(messages, keep, running)
    if not cut:
        assert len(prompts) <= (running is not None)
        return
    older, kept = messages[:cut], messages[cut:]
    if running is not None:
        assert any(message is running for message in kept)
    assert kept == [] or kept[0].role == "user"
    calls = [b.id for m in kept for b in m.content if isinstance(b, ToolCall)]
    results = [b.call_id for m in kept for b in m.content if isinstance(b, ToolResult)]
    assert calls == results
    stays = sum(m.text.startswith(("prompt", "steer")) for m in kept)
    assert stays >= min(keep, len(prompts) - 1)
    new = summary_row("s", older, "t")
    assert new.added_tool_names == [name for m in older for name in m.added_tool_names]
    while again := older_rows([new, *kept], keep, running):  # it comes to an end, and the turn stays
        assert again > 1
        kept = kept[again - 1 :]
    assert running is None or kept[0] is running


# What the model is asked


def test_the_request_holds_what_was_shown_and_no_tool() -> None:
    secret = row("assistant", Thinking("plan"), Text("the secret"), ToolCall("c1", "bash", {"a": 1}))
    messages = [
        SUMMARY,
        row("user", Text("look"), Image("image/png", "AAAA")),
        Message(secret.role, secret.content, secret.time, {"shown": "the ***"}),
        row("tool", ToolResult("c1", True, [Text("x" * 5_000), Image("image/png", "BBBB")])),
        row("tool", ToolResult("c9", False, [])),
        Message("assistant", [Text("unapproved")], "", {"shown": ""}),
    ]
    request = summary_request(Model(Script(), "m"), messages, " names ", LIMITS, 2.0)
    (message,) = request.messages
    assert (request.model, request.tools, request.reasoning, message.role) == ("m", (), "", "user")
    cut = "x" * 1_333 + "\n[3,013 characters left out]\n" + "x" * 654 + "\n[a picture]"
    assert message.text == (
        "Summarise this conversation.\n\n<conversation>\nEarlier summary: before\n\n"
        'User: look\nUser: [a picture]\n\nAssistant: the ***\nCall of bash: {"a": 1}\n\n'
        f"Error of bash: {cut}\n\nResult of a tool: (no output)\n</conversation>\n\n"
        "The user asks you to look after this in the summary: names"
    )


@given(st.lists(st.integers(0, 5_000), max_size=60), st.integers(1_000, 20_000))
def test_a_request_for_a_summary_fits_into_the_room_there_is(sizes: list[int], room: int) -> None:
    messages = [user("u" * size) for size in sizes]
    text = rendered(messages, LIMITS, room)
    assert len(text) <= room + 60 * (len(sizes) + 2)
    if sum(sizes) + 6 * len(sizes) <= room:
        assert text == rendered(messages, LIMITS)


def test_the_longest_rows_are_abridged_first_and_then_the_oldest_but_one_left_out() -> None:
    text = rendered([user("short"), user("l" * 9_000), user("last")], LIMITS, 600)
    assert text.startswith("User: short\n\nUser: lll")
    assert text.endswith("\n\nUser: last")
    text = rendered([user(f"{number} " + "w" * 300) for number in range(100)], LIMITS, 2_000)
    assert "\n\n[90 messages left out]\n\nUser: 91 www" in text
    assert text.startswith("User: 0 www")
    assert abridged("abcdef", 6) == "abcdef"
    assert abridged("abcdefg", 3) == "ab\n[4 characters left out]\ng"


# In a turn


class Bench:
    """A loop whose last request filled the window so far, and what comes of its next turn."""

    def __init__(self, messages: list[Message], *steps: Step, used: int = 850, window: int = WINDOW) -> None:
        self.provider = Script(*steps)
        self.sink = Recorder()
        self.transcript = Transcript(lambda: "2026-11-30T00:00:01.000Z")
        self.transcript.messages = [*messages]
        self.transcript.used = used
        self.model = Model(self.provider, "m", window=window)
        self.loop = Loop(self.transcript, Toolbox({"echo": Echo()}), self.sink, 10)

    async def run(self, abort_at: str = "", *, compact: str | None = None) -> Outcome:
        work = (
            self.loop.run("turn", [Text("go")], self.model)
            if compact is None
            else self.loop.compact("turn", self.model, compact)
        )
        task = asyncio.create_task(work)
        if abort_at:
            stop = aborting_at(abort_at)
            self.sink.at = lambda event: stop(event, task)
        async with asyncio.timeout(10):
            return await task

    @property
    def names(self) -> list[str]:
        return self.sink.names()


def finish(used: int = 15) -> Finish:
    return Finish("end_turn", Usage(input=used - 5, output=5))


def says(text: str, used: int = 15) -> Step:
    return [TextDelta(delta=text), finish(used)]


async def test_a_nearly_full_window_is_made_room_in_before_the_model_is_called() -> None:
    before = [user("long " * 500), *exchanges(6)[1:]]
    bench = Bench(before, says("the gist"), says("ok"))
    outcome = await bench.run()
    assert bench.names == [
        "user_message", "compact_start", "usage", "compact_done",
        "turn_start", "assistant_start", "text_delta", "usage", "assistant_message", "turn_end", "done",
    ]  # fmt: skip
    messages = bench.transcript.messages
    assert messages[0].text == f"{SUMMARY_HEADING}\n\nthe gist"
    assert messages[0].meta == {SUMMARY_MARK: "1"}
    assert all(new is old for new, old in zip(messages[1:], before[12:], strict=False))
    assert [m.text for m in messages[13:]] == ["go", "ok"]
    assert list(bench.provider.requests[1].messages) == messages[:14]
    assert bench.provider.requests[0].tools == ()
    assert_whole(messages)
    (done,) = bench.sink.of("compact_done")
    assert (done.summary, done.message_count, done.last_message_id) == ("the gist", 14, 25 + 14)
    assert bench.transcript.first_id == 26
    summary, answer = bench.sink.of("usage")
    assert summary.cumulative == Usage(10, 5)
    assert 0 < summary.context.used < 400
    assert answer.context.used == 15
    assert (outcome.text, outcome.usage) == ("ok", Usage(20, 10))


@pytest.mark.parametrize(
    ("used", "window", "compacts"), [(849, WINDOW, 0), (850, WINDOW, 1), (10**9, 0, 0), (0, WINDOW, 0)]
)
async def test_the_share_of_the_window_decides(used: int, window: int, compacts: int) -> None:
    steps = [says("gist"), says("ok")][1 - compacts :]
    bench = Bench(exchanges(2), *steps, used=used, window=window)
    assert (await bench.run()).text == "ok"
    assert bench.names.count("compact_done") == compacts


async def test_a_long_turn_is_looked_after_between_its_steps_and_never_summarised_itself() -> None:
    def step(number: int) -> Step:
        return [*call("echo", "{}", f"n{number}"), Finish("tool_use", Usage(input=900))]

    steps = [step(1), says("gist 1"), step(2), says("gist 2"), step(3), step(4), says("ok")]
    bench = Bench(exchanges(2), *steps, used=10)
    assert (await bench.run()).text == "ok"
    assert bench.names.count("compact_start") == 2
    at = bench.names.index("compact_start")
    assert bench.names[at - 1 : at + 4] == [
        "tool_result", "compact_start", "usage", "compact_done", "turn_start",
    ]  # fmt: skip
    messages = bench.transcript.messages
    assert messages[0].text.endswith("gist 2")
    assert messages[1].text == "go"
    assert len(messages) == 2 + 2 * 4 + 1
    assert_whole(messages)


async def test_with_more_and_more_to_say_fewer_exchanges_stay() -> None:
    bench = Bench(exchanges(5), says("gist 1"), says("1", 900), says("gist 2"), says("2", 900))
    await bench.run()
    await bench.run()
    summaries = [m for m in bench.transcript.messages if SUMMARY_MARK in m.meta]
    assert [m.text.removeprefix(SUMMARY_HEADING).strip() for m in summaries] == ["gist 2"]
    assert "Earlier summary: gist 1" in bench.provider.requests[2].messages[0].text


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        ([ProviderError("overloaded (529)")], "overloaded (529)"),
        ([finish()], "the model answered the request for a summary with no text"),
        ([RuntimeError("odd")], "internal error: RuntimeError: odd"),
    ],
)
async def test_a_turn_goes_on_whole_when_no_summary_can_be_had(summary: Step, why: str) -> None:
    before = exchanges(3)
    more: Step = [*call("echo", "{}", "n1"), Finish("tool_use", Usage(input=900))]
    bench = Bench(before, summary, more, says("ok", 900))
    outcome = await bench.run()
    assert (outcome.stop, outcome.error, outcome.text) == ("end_turn", None, "ok")
    assert bench.transcript.messages[: len(before)] == before
    assert bench.transcript.first_id == 1
    (note,) = bench.sink.of("ext_notify")
    assert (note.extension, note.level) == ("zotd", "warn")
    assert note.message == f"the conversation could not be summarised and goes on whole: {why}"
    assert "error" not in bench.names
    assert bench.names.count("compact_start") == 1


@pytest.mark.parametrize("step", [[], [TextDelta(delta="half")]])
async def test_an_abort_while_it_is_summarised_leaves_everything_and_ends_the_turn(step: Step) -> None:
    bench = Bench(before := exchanges(3), step)
    outcome = await bench.run(abort_at="compact_start")
    assert outcome.stop == "aborted"
    assert bench.names == ["user_message", "compact_start", "turn_end", "done"]
    assert bench.transcript.messages[:-1] == before
    assert bench.transcript.used == 850


# By request


async def test_a_summary_that_was_asked_for_is_a_turn_of_its_own() -> None:
    bench = Bench(exchanges(5), says(" the gist\n"), used=0, window=0)
    outcome = await bench.run(compact="names of files")
    assert bench.names == ["compact_start", "usage", "compact_done", "done"]
    assert (outcome.stop, outcome.text, outcome.usage) == ("end_turn", "the gist", Usage(10, 5))
    assert [m.text for m in bench.transcript.messages][1] == "prompt 1"
    assert bench.provider.requests[0].messages[0].text.endswith(": names of files")
    (done,) = bench.sink.of("done")
    assert (done.turn_id, done.stop) == ("turn", "end_turn")


@pytest.mark.parametrize(
    ("messages", "step", "kind", "message", "started"),
    [
        ([], [], "nothing_to_compact", "nothing to compact", []),
        ([SUMMARY], [], "nothing_to_compact", "nothing to compact", []),
        (
            exchanges(1),
            [ProviderError("no key", kind="provider_auth")],
            "provider_auth",
            "no key",
            ["compact_start"],
        ),
        (exchanges(1), [KeyError("a")], "internal", "internal error: KeyError: 'a'", ["compact_start"]),
    ],
)
async def test_a_failure_is_told_directly_before_done(
    messages: list[Message], step: Step, kind: str, message: str, started: list[str]
) -> None:
    bench = Bench(messages, step)
    outcome = await bench.run(compact="")
    assert bench.names == [*started, "error", "done"]
    (error,) = bench.sink.of("error")
    assert (error.kind, error.message) == (kind, message)
    assert (outcome.stop, outcome.kind, outcome.error) == ("error", kind, message)
    assert bench.transcript.messages == messages


async def test_what_cannot_be_written_down_changes_nothing(tmp_path: Path) -> None:
    log = SessionLog.new(tmp_path / "s.jsonl", {"id": "abcdef", "provider": "p", "model": "m"})
    bench = Bench([], says("one"), says("gist"))
    bench.transcript.record = log
    await bench.run()
    before = [*bench.transcript.messages]
    log.path.unlink()
    outcome = await bench.run(compact="")
    log.close()
    assert (outcome.stop, outcome.kind) == ("error", "storage")
    assert bench.names[-3:] == ["compact_start", "error", "done"]
    assert bench.transcript.messages == before


async def test_the_file_keeps_what_was_summarised_and_goes_on_from_the_summary(tmp_path: Path) -> None:
    log = SessionLog.new(tmp_path / "s.jsonl", {"id": "abcdef", "provider": "p", "model": "m"})
    bench = Bench([], *(says(f"answer {number}") for number in range(6)), says("gist"))
    bench.transcript.record = log
    for _ in range(6):
        await bench.run()
    whole = log.path.read_bytes()
    assert read_saved(log.path, LIMITS).used == 15
    await bench.run(compact="")
    log.close()
    assert log.path.read_bytes().startswith(whole)
    saved = read_saved(log.path, LIMITS)
    assert saved.messages == bench.transcript.messages
    assert (saved.first_id, saved.last_id) == (13, bench.transcript.last_id)
    assert (saved.usage, saved.used) == (bench.transcript.usage, 0)


@pytest.mark.parametrize("step", [[], [TextDelta(delta="half")]])
async def test_what_was_asked_for_can_be_aborted(step: Step) -> None:
    bench = Bench(before := exchanges(1), step)
    assert (await bench.run(abort_at="compact_start", compact="")).stop == "aborted"
    assert bench.names == ["compact_start", "done"]
    assert bench.sink.of("done")[0].stop == "aborted"
    assert bench.transcript.messages == before


async def test_tools_that_were_activated_are_named_by_the_summary() -> None:
    messages = exchanges(5)
    messages[2] = replace_added(messages[2], "lookup", "paint")
    messages[14] = replace_added(messages[14], "sing")
    bench = Bench(messages, says("gist"))
    await bench.run(compact="")
    assert [m.added_tool_names for m in bench.transcript.messages if m.added_tool_names] == [
        ["lookup", "paint"],
        ["sing"],
    ]


def replace_added(message: Message, *names: str) -> Message:
    return Message(message.role, message.content, message.time, {}, [*names])
