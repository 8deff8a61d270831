"""Text of panels: colours come through, and nothing that could command a terminal."""

from __future__ import annotations

import time

import pytest

from zotd.base.limits import Limits
from zotd.extensions.panel_text import one_row, paragraphs, rows


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    "text",
    [
        "plain □ ✓ 日本 e\u0301 👩\u200d🚀",
        "\x1b[31mred\x1b[0m",
        "\x1b[m\x1b[1;38;2;255;0;10mtrue colour\x1b[39m",
        "\x1b[4:3munderlined by a curl",
    ],
)
def test_characters_and_colours_stay(text: str) -> None:
    assert one_row(text) == text


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]52;c;ZXZpbA==\x1b\\b", "ab"),
        ("a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        ("a\x9d0;title\x9cb", "ab"),
        ("a\x1b]0;never ends", "a"),
        ("a\x1bPq#0;2\x1b\\b", "ab"),
        ("a\x90dcs\x9cb", "ab"),
        ("a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"),
        ("a\x1b[2J\x1b[1;1Hb", "ab"),
        ("a\x9b2Jb", "ab"),
        ("a\x9b31mb", "ab"),
        ("a\x1b[?1049hb", "ab"),
        ("a\x1b[>4;2mb", "ab"),
        ("a\x1b[?25mb", "ab"),
        ("a\x1b[0 mb", "ab"),
        ("a\x1b[31", "a"),
        ("a\x1b", "a"),
        ("a\x1bcb", "ab"),
        ("a\x1b(0b", "ab"),
        ("a\x1b[" + "1;" * 99 + "mb", "ab"),
        ("a\x00b\x07c\x08d\x7fe\x84f\x9cg", "abcdefg"),
        ("\x1b\x1b[31mred", "\x1b[31mred"),
        ("\x1b\x00[2Jx", "[2Jx"),
        ("\x1b[3\x071mx", "1mx"),
        ("a\tb", "a b"),
        ("a\nb\r\nc\rd", "a b c d"),
        ("a\u2028b\x85c", "a b c"),
    ],
)
def test_other_control_sequences_are_stripped(hostile: str, harmless: str) -> None:
    assert one_row(hostile) == harmless


@pytest.mark.promise("S36")
def test_a_line_with_breaks_is_as_many_rows() -> None:
    assert rows(["a\nb\r\n\x1b[32mc", "", "d\x1b]0;x\n\x07e"], 6, 6) == (
        ["a", "b", "\x1b[32mc", "", "d", "e"],
        False,
    )


@pytest.mark.promise("S36")
@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["1\n2\n3", "4\n5"], ["1", "2", "3", "4"]),
        (["1", "2", "3", "4", "\x1b[2J"], ["1", "2", "3", "4"]),
        (["1\r\n2\r\n3\r\n4\r\n"], ["1", "2", "3", "4"]),
        (["\n" * 9], [""] * 4),
        (["abcdef", "b\x1b[2Jcd"], ["abcde", "b"]),
        (["a" * 100 + "\nb"], ["aaaaa"]),
    ],
)
def test_rows_beyond_the_bound_and_what_is_too_long_are_left_out(lines: list[str], kept: list[str]) -> None:
    assert rows(lines, 4, 5) == (kept, True)


@pytest.mark.parametrize("line", ["\n", "\x1b[m", "\x00a", "\u2028\x9d", "a"])
def test_the_largest_frame_of_any_text_is_drawn_before_anybody_has_to_wait(line: str) -> None:
    bound = Limits()
    began = time.process_time()
    drawn, cut = rows([line * (bound.frame_bytes // len(line))], bound.panel_rows, bound.panel_row_chars)
    assert time.process_time() - began < 1.0
    assert cut
    assert len(drawn) <= bound.panel_rows


def test_a_megabyte_of_openings_that_never_end_is_read_once() -> None:
    assert one_row("\x1b]" * 500_000 + "\x1b[" * 500_000) == ""


def test_text_to_print_keeps_its_lines_and_tabs() -> None:
    assert paragraphs("a\tb\n\x1b[1mc\x1b[0m\x1b[2J\r\n\x07d\n") == "a\tb\n\x1b[1mc\x1b[0m\nd\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]0;never ends\nb\tc", "a\nb\tc"),
        ("a\x1bPnever ends\tb", "a\tb"),
        ("a\x1b[31\nb", "a\nb"),
        ("a\x1b\nb", "a\nb"),
        ("a\u2028b\u2029c 日本 e\u0301 👩\u200d🚀", "a\u2028b\u2029c 日本 e\u0301 👩\u200d🚀"),
        ("\x1b[1;38;2;255;0;10mtrue\n\tcolour\x1b[39m", "\x1b[1;38;2;255;0;10mtrue\n\tcolour\x1b[39m"),
    ],
)
def test_text_is_unharmed_and_a_sequence_that_does_not_end_takes_nothing_of_the_next_line_or_cell(
    text: str, shown: str
) -> None:
    assert paragraphs(text) == shown


def test_a_megabyte_of_short_lines_is_shown_at_once() -> None:
    text = "a\t\n" * 300_000
    began = time.process_time()
    assert paragraphs(text) == text
    assert time.process_time() - began < 0.5
