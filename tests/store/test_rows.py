"""Messages as rows of zot's session files, and what all rows of a file say together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.protocol.content import Block, Image, Message, Text, Thinking, ToolCall, ToolResult, Usage
from zotd.store import rows
from zotd.store.errors import BadSessionFile
from zotd.wire.codec import decode, encode

VECTOR = Path(__file__).parents[1] / "protocol" / "vectors" / "zot-session-file.jsonl"
META = {"type": "meta", "meta": {"id": "abcdef", "cwd": "/p", "provider": "scripted", "model": "m"}}

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
shallow = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text
values = shallow | st.lists(shallow, max_size=3) | st.dictionaries(text, shallow, max_size=3)
words = st.builds(Text, text) | st.builds(Image, text, text)
blocks: st.SearchStrategy[Block] = (
    words
    | st.builds(Thinking, text)
    | st.builds(ToolCall, text, text, st.dictionaries(text, values, max_size=3), text)
    | st.builds(ToolResult, text, st.booleans(), st.lists(words, max_size=2))
)
messages = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool"]),
    content=st.lists(blocks, max_size=4),
    time=text,
    meta=st.dictionaries(text, text, max_size=2),
    added_tool_names=st.lists(text, max_size=2),
)


def file_of(*lines: dict[str, Any] | bytes) -> bytes:
    return b"".join((line if isinstance(line, bytes) else encode(line)) + b"\n" for line in (META, *lines))


def said(role: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": [*content], "time": "t", **more}}


@given(messages)
def test_a_message_comes_back_from_its_row_as_it_was(message: Message) -> None:
    line = encode(rows.message_row(message))
    assert b"\n" not in line
    assert rows.message_of(rows.row_of(line)["message"]) == message


@given(st.builds(Usage, *[st.integers(0, 2**53)] * 4, st.floats(0, 1e6)))
def test_usage_comes_back_from_its_row_as_it_was(usage: Usage) -> None:
    row = rows.row_of(encode(rows.usage_row(Usage(), usage)))
    assert rows.usage_of(row["cumulative"]) == usage


def test_messages_are_spelled_as_zot_spells_them() -> None:
    written = [decode(line) for line in VECTOR.read_bytes().splitlines()]
    saved = rows.read_rows(VECTOR.read_bytes())
    assert [rows.message_row(message) for message in saved.messages] == written[1:5]
    assert rows.usage_row(saved.usage, saved.usage) == written[5]
    assert saved.session_id == "8f37d5f6-56b2-4009-9483-54c62488e107"
    assert (saved.provider, saved.model) == ("anthropic", "claude-sonnet-4-5")
    assert (saved.first_id, saved.last_id) == (1, 4)


def test_what_zot_knows_and_we_do_not_is_passed_over() -> None:
    saved = rows.read_rows(
        file_of(
            {"type": "bookmark", "message": {"role": "user", "content": []}},
            said("user", {"text": "a", "cache": 1}, {"sound": "b"}, new=1),
            said("assistant", {"text": "hm", "signature": "x"}, {"text": "b"}),
        )
    )
    assert [message.content for message in saved.messages] == [[Text("a")], [Thinking("hm"), Text("b")]]
    assert saved.skipped == []


def test_a_line_that_is_no_row_is_named_and_the_rest_is_read() -> None:
    saved = rows.read_rows(
        file_of(said("user", {"text": "a"}), b'{"type":"mess', b"", b"[]", said("robot"), said("assistant"))
    )
    assert [message.role for message in saved.messages] == ["user", "assistant"]
    assert [number for number, _ in saved.skipped] == [3, 5, 6]
    assert saved.skipped[1][1] == "expected an object, got an array"


def test_a_last_line_that_was_cut_off_is_told_apart_from_one_without_a_line_end() -> None:
    whole = file_of(said("user", {"text": "a"}))
    torn = rows.read_rows(whole + b'{"type":"message","mess')
    assert (len(torn.messages), torn.torn) == (1, b'{"type":"message","mess')
    complete = rows.read_rows(b"\xef\xbb\xbf" + whole.removesuffix(b"\n"))
    assert (len(complete.messages), complete.torn) == (1, b"")


@pytest.mark.parametrize(
    ("data", "line", "why"),
    [
        (b"", 0, "no whole row"),
        (b'{"type":"meta","meta":{"id"', 0, "no whole row"),
        (b"\x00\x01\n", 1, "malformed json"),
        (b'\n{"type":"message"}\n', 2, "expected the row `meta`, got `message`"),
        (b'{"type":"meta","meta":{"cwd":"/p"}}\n', 1, "`meta` has no `id`"),
    ],
)
def test_a_file_that_does_not_begin_as_a_session_is_refused_with_the_line(
    data: bytes, line: int, why: str
) -> None:
    with pytest.raises(BadSessionFile, match=why) as refused:
        rows.read_rows(data)
    assert refused.value.line == line


def test_a_compaction_replaces_what_came_before_and_ids_go_on() -> None:
    kept = said("user", {"text": "summary"})["message"]
    saved = rows.read_rows(
        file_of(
            said("user", {"text": "a"}),
            said("assistant", {"text": "b"}, added_tool_names=["clock"]),
            {"type": "compaction", "messages": [kept]},
            said("user", {"text": "c"}),
        )
    )
    assert [message.text for message in saved.messages] == ["summary", "c"]
    assert (saved.first_id, saved.last_id) == (3, 4)
    assert saved.added_tools == ["clock"]
    cleared = rows.read_rows(file_of(said("user", {"text": "a"}), rows.compaction_row([])))
    assert (cleared.messages, cleared.first_id, cleared.last_id) == ([], 2, 1)


def test_the_title_and_the_model_are_those_said_last() -> None:
    saved = rows.read_rows(
        file_of(rows.rename_row("one"), rows.model_row("local", "small", "high"), rows.rename_row("two"))
    )
    assert (saved.title, saved.provider, saved.model, saved.reasoning) == ("two", "local", "small", "high")


def test_every_call_before_the_last_message_has_one_result_and_no_row_moves() -> None:
    call = {"id": "c1", "name": "bash", "arguments": {}}
    other = {"id": "c2", "name": "read", "arguments": {}}
    saved = rows.read_rows(
        file_of(
            said("assistant", {"text": "x"}, call, other),
            said(
                "tool", {"call_id": "c2", "content": [], "is_error": False}, {"call_id": "c9", "content": []}
            ),
            said("assistant", call),
            said("user", {"text": "on"}),
            said("assistant", other),
        )
    )
    results = saved.messages[1].content
    assert results == [
        ToolResult("c1", is_error=True, content=[Text(rows.INTERRUPTED)]),
        ToolResult("c2", is_error=False, content=[]),
    ]
    assert saved.messages[2].text == "(a call of bash was interrupted)"
    assert rows.missing_results(saved) == [ToolResult("c2", is_error=True, content=[Text("interrupted")])]
    assert len(saved.messages) == 5


def test_what_some_of_several_calls_answered_before_the_end_is_not_lost() -> None:
    calls: list[dict[str, Any]] = [{"id": name, "name": "bash", "arguments": {}} for name in ("c1", "c2")]
    answered = ToolResult("c1", is_error=False, content=[Text("done")])
    unfinished = file_of(said("assistant", *calls), rows.result_row(answered))
    results = rows.missing_results(rows.read_rows(unfinished))
    assert results == [answered, ToolResult("c2", is_error=True, content=[Text("interrupted")])]
    finished = rows.message_row(Message("tool", results, "t"))
    assert rows.missing_results(rows.read_rows(unfinished + encode(finished) + b"\n")) == []


def test_how_full_the_window_was_is_known_of_a_single_request_and_not_of_a_whole_turn() -> None:
    row = rows.usage_row(Usage(input=20, output=14, cache_read=4), Usage(input=99))
    ours = file_of(said("user"), row, said("assistant", {"text": "a"}))
    assert rows.read_rows(ours).used == 38
    zots = file_of(said("user"), said("assistant", {"text": "a"}), row, said("user"), said("assistant"))
    assert rows.read_rows(zots).used == 0
    assert rows.read_rows(ours + encode(rows.compaction_row([])) + b"\n").used == 0


def test_what_nests_in_a_result_is_no_result_again() -> None:
    nested = b'{"call_id":"a","content":[' * 490 + b'{"text":"x"}' + b"]}" * 490
    row = b'{"type":"message","message":{"role":"tool","content":[%s],"time":"t"}}\n' % nested
    saved = rows.read_rows(file_of(said("assistant", {"id": "a", "name": "n", "arguments": {}})) + row)
    assert saved.messages[1].content == [ToolResult("a", False, [])]


def test_a_row_that_is_too_long_is_skipped_and_no_more_of_it_is_kept() -> None:
    data = file_of(
        said("user", {"text": "one"}), said("user", {"text": "x" * 200}), said("user", {"text": "two"})
    )
    saved = rows.read_rows(data, None, 200)
    assert [message.text for message in saved.messages] == ["one", "two"]
    [(number, why)] = saved.skipped
    assert number == 3
    assert why.startswith("expected at most 200 bytes, got 2")
    exact = max(map(len, data.splitlines()))
    assert rows.read_rows(data, None, exact).skipped == []
    assert rows.read_rows(data + b"\n \n" + b"{" * 300, None, exact).torn == b"{" * exact
