"""The rows that a model is given: a picture of the conversation that costs the same however long it is."""

from __future__ import annotations

from zotd.agent.transcript import Transcript
from zotd.protocol.content import Text


def transcript_of(*texts: str) -> Transcript:
    transcript = Transcript(lambda: "2026-11-30T03:43:15.576Z")
    for text in texts:
        transcript.append("user", [Text(text)])
    return transcript


def test_rows_stay_what_they_were_when_the_conversation_goes_on() -> None:
    transcript = transcript_of("one", "two")
    rows = transcript.rows()
    transcript.append("user", [Text("three")])
    assert [row.text for row in rows] == ["one", "two"]
    assert [row.text for row in reversed(rows)] == ["two", "one"]
    assert (len(rows), rows[-1].text, rows[0].text) == (2, "two", "one")
    assert [row.text for row in rows[1:]] == ["two"]


def test_rows_stay_what_they_were_when_the_conversation_is_replaced() -> None:
    transcript = transcript_of("one", "two")
    before, messages = transcript.rows(), list(transcript.messages)
    transcript.compact(messages[1:])
    compacted = transcript.rows()
    transcript.clear()
    assert [row.text for row in before] == ["one", "two"]
    assert [row.text for row in compacted] == ["two"]
    assert not transcript.rows()
