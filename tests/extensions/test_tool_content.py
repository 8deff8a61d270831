"""What the blocks of a tool's answer become."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from zotd.agent.ports import ToolOutcome
from zotd.base.limits import Limits
from zotd.extensions.tool_content import NO_CONTENT, outcome_of
from zotd.protocol.content import Image, Text
from zotd.protocol.frames import ToolResultFrame

SMALL = replace(Limits(), image_bytes=30)
PNG = base64.b64encode(b"\x89PNG, nearly").decode()


def read(*blocks: dict[str, Any], is_error: bool = False) -> ToolOutcome:
    return outcome_of(ToolResultFrame(id="1", content=list(blocks), is_error=is_error), SMALL)


def picture(**members: Any) -> dict[str, Any]:
    return {"type": "image", "mime_type": "image/png", "data": PNG, **members}


@pytest.mark.promise("S25")
def test_text_and_pictures_keep_their_order() -> None:
    outcome = read({"type": "text", "text": "one"}, picture(), {"type": "text", "text": "two"})
    assert outcome.content == [Text("one"), Image("image/png", PNG), Text("two")]
    assert not outcome.is_error


@pytest.mark.promise("S25")
@pytest.mark.parametrize("is_error", [True, False])
def test_an_answer_can_say_that_the_call_failed(is_error: bool) -> None:
    assert read({"type": "text", "text": "no such city"}, is_error=is_error).is_error is is_error


@pytest.mark.parametrize("blocks", [[], [{"type": "text", "text": ""}], [{"type": "text"}]])
def test_no_content_is_said_in_a_text(blocks: list[dict[str, Any]]) -> None:
    assert read(*blocks) == ToolOutcome([Text("(extension returned no content)")])
    assert read(*blocks, is_error=True) == ToolOutcome([Text(NO_CONTENT)], is_error=True)


def test_empty_text_blocks_are_dropped() -> None:
    blocks = [{"type": "text", "text": text} for text in ("", "here", "")]
    assert read(*blocks, {"type": "text", "text": None}).content == [Text("here")]


def test_white_space_is_content() -> None:
    assert read({"type": "text", "text": "\n"}).content == [Text("\n")]


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "audio", "data": "x"}, "type 'audio'"),
        ({"text": "no type"}, "type None"),
        ({"type": ["text"]}, "type ['text']"),
        ({"type": "text", "text": 7}, "whose text is no string: 7"),
    ],
)
def test_a_block_that_is_not_known_becomes_a_text_that_says_so(block: dict[str, Any], shown: str) -> None:
    outcome = read(block, {"type": "text", "text": "the rest"})
    said, rest = outcome.content
    assert isinstance(said, Text)
    assert shown in said.text
    assert rest == Text("the rest")
    assert not outcome.is_error


@pytest.mark.parametrize(
    ("members", "shown"),
    [
        ({"data": "no base64!"}, "data is not base64"),
        ({"data": "QUJ"}, "data is not base64"),
        ({"data": f"data:image/png;base64,{PNG}"}, "data is not base64"),
        ({"data": "ünicode"}, "data is not base64"),
        ({"data": ""}, "data is missing"),
        ({"data": None}, "data is missing"),
        ({"data": 5}, "data is missing"),
        ({"mime_type": None}, "mime_type is missing"),
        ({"mime_type": ""}, "mime_type is missing"),
        ({"mime_type": ["image/png"]}, "mime_type is missing"),
    ],
)
def test_a_picture_that_cannot_be_read_makes_the_result_an_error_that_says_why(
    members: dict[str, Any], shown: str
) -> None:
    outcome = read({"type": "text", "text": "a map"}, picture(**members))
    assert outcome.is_error
    kept, said = outcome.content
    assert kept == Text("a map")
    assert isinstance(said, Text)
    assert shown in said.text


def test_base64_may_be_broken_into_lines() -> None:
    assert read(picture(data=f"{PNG[:4]}\r\n{PNG[4:]}\n")).content == [Image("image/png", PNG)]


def test_a_picture_that_is_too_large_is_left_out_and_a_text_says_so() -> None:
    for size in (28, 29, 30):
        data = base64.b64encode(bytes(size)).decode()
        assert read(picture(data=data)).content == [Image("image/png", data)]
    outcome = read(picture(data=base64.b64encode(bytes(31)).decode()))
    assert outcome == ToolOutcome(
        [Text("(a picture of 31 bytes was left out; at most 30 can be shown)")], is_error=False
    )


def test_a_picture_of_a_type_that_no_model_takes_is_left_out_and_a_text_says_so() -> None:
    outcome = read(picture(mime_type="image/svg+xml"))
    (said,) = outcome.content
    assert isinstance(said, Text)
    assert "image/svg+xml was left out" in said.text
    assert not outcome.is_error


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["abcdefgh"], ["abcdefgh"]),
        (["abcdefghi"], ["abcdefgh\n(cut here: the extension sent 9 characters)"]),
        (["abcdef", "ghi"], ["abcdef", "gh\n(cut here: the extension sent 3 characters)"]),
        (["abcdefgéx"], ["abcdefg\n(cut here: the extension sent 9 characters)"]),
    ],
)
def test_more_text_than_a_model_takes_is_cut_and_says_so(texts: list[str], shown: list[str]) -> None:
    blocks = [{"type": "text", "text": text} for text in texts]
    limits = replace(Limits(), tool_text_bytes=8)
    outcome = outcome_of(ToolResultFrame(id="1", content=blocks), limits)
    assert outcome.content == [Text(text) for text in shown]
