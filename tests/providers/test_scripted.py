"""The scripted model: every line of its format, and what it says about a wrong one."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from zotd.agent.ports import Finish, ModelRequest, ProviderError, ProviderEvent
from zotd.protocol.content import Message, Text, ToolCall, Usage
from zotd.protocol.events import TextDelta, ThinkingDelta, ToolUseArgs, ToolUseEnd, ToolUseStart
from zotd.providers.script import ScriptError
from zotd.providers.scripted import ScriptedProvider, load_script


def asking(*texts: str) -> ModelRequest:
    return ModelRequest("scripted", "", [Message("user", [Text(text)], "") for text in texts], ())


async def answer(provider: ScriptedProvider, *texts: str) -> list[ProviderEvent]:
    return [event async for event in provider.stream(asking(*(texts or ("hi",))))]


async def text_of(provider: ScriptedProvider, *texts: str) -> str:
    return "".join(e.delta for e in await answer(provider, *texts) if isinstance(e, TextDelta))


def saying(text: str, **keys: Any) -> dict[str, Any]:
    return {"reply": [{"text": text}], **keys}


def finish(events: list[ProviderEvent]) -> Finish:
    (last,) = [event for event in events if isinstance(event, Finish)]
    assert events[-1] is last
    return last


async def test_without_a_script_it_repeats_the_last_user_text() -> None:
    assert await text_of(ScriptedProvider(), "first", "and last") == "You said: and last"


async def test_an_entry_answers_once_and_then_the_last_without_match_repeats() -> None:
    provider = ScriptedProvider([saying("one"), saying("two"), saying("never", match="zzz")])
    assert [await text_of(provider) for _ in range(4)] == ["one", "two", "two", "two"]


async def test_times_says_how_often_and_zero_means_always() -> None:
    provider = ScriptedProvider([saying("a", times=2), saying("b", times=0), saying("c")])
    assert [await text_of(provider) for _ in range(5)] == ["a", "a", "b", "b", "b"]


async def test_the_first_entry_in_file_order_whose_match_fits_is_chosen() -> None:
    provider = ScriptedProvider([saying("fixing", match=r"fix the (\w+)"), saying("other", times=0)])
    assert await text_of(provider, "hello") == "other"
    assert await text_of(provider, "please fix the parser") == "fixing"
    assert await text_of(provider, "please fix the parser") == "other"


async def test_no_entry_left_is_an_error_that_quotes_the_prompt() -> None:
    with pytest.raises(ProviderError, match="no entry left for 'hello'"):
        await answer(ScriptedProvider([saying("x", match="zzz")]), "hello")


async def test_each_provider_uses_up_entries_by_itself() -> None:
    entries = [saying("one"), saying("two")]
    assert await text_of(ScriptedProvider(entries)) == "one"
    assert await text_of(ScriptedProvider(entries)) == "one"


async def test_thinking_and_text_stream_in_words_in_order() -> None:
    events = await answer(
        ScriptedProvider([{"reply": [{"thinking": "let me look"}, {"text": " Read it.\n"}]}])
    )
    assert events[:-1] == [
        *(ThinkingDelta(delta=word) for word in ("let", " me", " look")),
        *(TextDelta(delta=word) for word in (" Read", " it.\n")),
    ]
    assert finish(events).stop == "end_turn"


@pytest.mark.parametrize("text", ["", " ", "\n\n", "word", " a  b ", "a\u2028b \U0001f600\n\tc"])
async def test_no_character_is_lost_between_words(text: str) -> None:
    assert await text_of(ScriptedProvider([saying(text)])) == text


async def test_delta_chars_cuts_into_that_many_characters() -> None:
    events = await answer(ScriptedProvider([{"reply": [{"text": "abcdefgh", "delta_chars": 3}]}]))
    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["abc", "def", "gh"]


async def test_delay_ms_passes_between_deltas_and_not_around_them() -> None:
    provider = ScriptedProvider([{"reply": [{"text": "abc", "delta_chars": 1, "delay_ms": 30}]}])
    start = time.monotonic()
    await answer(provider)
    assert 0.06 <= time.monotonic() - start < 1


async def test_a_tool_call_streams_its_arguments_and_stops_for_the_tool() -> None:
    call = {"name": "read", "args": {"path": "a b.txt"}}
    events = await answer(ScriptedProvider([{"reply": [{"tool_call": call}]}]))
    start, *args, end, _ = events
    assert isinstance(start, ToolUseStart)
    assert start.name == "read"
    assert "".join(e.delta for e in args if isinstance(e, ToolUseArgs)) == '{"path": "a b.txt"}'
    assert end == ToolUseEnd(id=start.id)
    assert finish(events).stop == "tool_use"


async def test_parallel_calls_have_ids_that_nothing_in_the_conversation_has() -> None:
    provider = ScriptedProvider([{"reply": [{"tool_call": {"name": n}} for n in ("a", "b")], "times": 0}])
    first = [e.id for e in await answer(provider) if isinstance(e, ToolUseStart)]
    said = Message("assistant", [ToolCall(id=i, name="a", args={}) for i in first], "")
    request = ModelRequest("m", "", [Message("user", [Text("x")], ""), said], ())
    second = [e.id async for e in provider.stream(request) if isinstance(e, ToolUseStart)]
    assert len({*first, *second}) == 4


async def test_raw_sends_argument_text_as_it_is() -> None:
    events = await answer(ScriptedProvider([{"reply": [{"tool_call": {"name": "a", "raw": "{bad"}}]}]))
    assert [e.delta for e in events if isinstance(e, ToolUseArgs)] == ["{bad"]


@pytest.mark.parametrize("stop", ["end_turn", "tool_use", "length"])
async def test_stop_can_be_stated(stop: str) -> None:
    assert finish(await answer(ScriptedProvider([saying("x", stop=stop)]))).stop == stop


async def test_a_refusal_comes_after_its_text_as_an_error_of_its_own_kind() -> None:
    seen: list[ProviderEvent] = []
    with pytest.raises(ProviderError) as caught:
        async for event in ScriptedProvider([saying("I cannot.", stop="refusal")]).stream(asking("x")):
            seen.append(event)  # noqa: PERF401 - what came before the error is the point
    assert caught.value.kind == "refused"
    assert len(seen) == 2


async def test_usage_can_be_stated_and_is_estimated_otherwise() -> None:
    stated = saying("x", usage={"input": 10, "output": 5, "cache_read": 2})
    provider = ScriptedProvider([stated, saying("x" * 400)])
    assert finish(await answer(provider)).usage == Usage(input=10, output=5, cache_read=2)
    estimated = finish(await answer(provider, "y" * 40)).usage
    assert (estimated.input, estimated.output) == (10, 100)


@pytest.mark.parametrize(("status", "kind"), [(529, "provider_error"), (401, "provider_auth")])
async def test_an_error_is_raised_as_the_real_one_would_be(status: int, kind: str) -> None:
    entries = [{"error": {"status": status, "message": "overloaded"}}, saying("ok")]
    provider = ScriptedProvider(entries)
    with pytest.raises(ProviderError, match=rf"overloaded \({status}\)") as caught:
        await answer(provider)
    assert (caught.value.status, caught.value.kind) == (status, kind)
    assert await text_of(provider) == "ok"


async def test_cut_ends_the_stream_without_a_stop() -> None:
    seen: list[ProviderEvent] = []
    with pytest.raises(ProviderError, match="without a stop"):
        async for event in ScriptedProvider([saying("half", cut=True)]).stream(asking("x")):
            seen.append(event)  # noqa: PERF401 - what came before the error is the point
    assert seen == [TextDelta(delta="half")]


@pytest.mark.parametrize("name", ["s.json", "s.yaml", "s.yml"])
async def test_a_file_is_json_or_yaml_by_its_name(tmp_path: Path, name: str) -> None:
    json_text = '[{"match": "a\\\\w", "reply": [{"text": "matched"}]}, {"reply": [{"text": "other"}]}]'
    yaml_text = "- match: 'a\\w'\n  reply:\n    - text: matched\n- reply: [{text: other}]\n"
    (tmp_path / name).write_text(json_text if name.endswith("json") else yaml_text)
    provider = ScriptedProvider(load_script(tmp_path / name))
    assert [await text_of(provider, "ab"), await text_of(provider, "ab")] == ["matched", "other"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], "at least one entry"),
        (["x"], 'entry 1: expected an object, got "x"'),
        ([saying("a"), {}], "entry 2: expected either reply or error"),
        ([saying("a", error={})], "entry 1: expected either reply or error"),
        ([saying("a", tines=2)], "entry 1: unknown key 'tines'; expected one of match, times"),
        ([saying("a", times=-1)], "entry 1: times: expected a whole number, at least 0, got -1"),
        ([saying("a", times=True)], "entry 1: times: expected a whole number"),
        ([saying("a", match="(")], "entry 1: match: expected a regular expression"),
        ([saying("a", stop="done")], 'entry 1: stop: expected one of end_turn, .*got "done"'),
        ([saying("a", cut="yes")], "entry 1: cut: expected true or false"),
        ([saying("a", usage={"input": "1"})], "entry 1: usage: input: expected a whole number"),
        ([{"reply": "hi"}], 'entry 1: reply: expected a list of .*got "hi"'),
        ([{"reply": [{"text": 5}]}], "entry 1: reply 1: text: expected text, got 5"),
        ([{"reply": [{"text": "a", "thinking": "b"}]}], "entry 1: reply 1: expected exactly one of"),
        ([{"reply": [{"delay_ms": 5}]}], "entry 1: reply 1: expected exactly one of"),
        ([{"reply": [{"text": "a", "delay_ms": -5}]}], "reply 1: delay_ms: expected milliseconds"),
        (
            [{"reply": [{"text": "a", "delta_chars": 0}]}],
            "reply 1: delta_chars: expected a whole number, at least 1",
        ),
        ([{"reply": [{"tool_call": {"args": {}}}]}], "reply 1: tool_call: name: expected text, got nothing"),
        (
            [{"reply": [{"tool_call": {"name": "a", "args": []}}]}],
            "tool_call: args: expected an object of JSON",
        ),
        (
            [{"reply": [{"tool_call": {"name": "a", "args": {}, "raw": ""}}]}],
            "raw: expected either args or raw",
        ),
        ([{"error": {"status": 200}}], "entry 1: error: status: expected a whole number, at least 400"),
    ],
)
def test_a_wrong_script_is_named_by_entry_key_and_expectation(entries: list[object], expected: str) -> None:
    with pytest.raises(ScriptError, match=expected):
        ScriptedProvider(entries)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("s.json", "- reply: []", "s.json: expected JSON"),
        ("s.json", "{}", "s.json: expected a list of entries"),
        ("s.yaml", "a: [", "s.yaml: expected YAML"),
        ("s.yaml", "- reply: [{tool_call: {name: a, args: {day: 2026-01-01}}}]", "entry 1: .*args: expected"),
        ("s.json", '[{"reply": [{"txt": 1}]}]', "s.json: entry 1: reply 1: unknown key 'txt'"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, name: str, content: str, expected: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ScriptError, match=expected):
        load_script(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"nowhere\.json: cannot be read"):
        load_script(tmp_path / "nowhere.json")


async def test_an_abort_is_felt_in_the_middle_of_a_long_answer() -> None:
    provider = ScriptedProvider([{"reply": [{"text": "x" * 2_000_000, "delta_chars": 1}]}])
    task = asyncio.create_task(answer(provider))
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
