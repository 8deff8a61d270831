from __future__ import annotations

import asyncio
import os
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.agent.ports import ToolFailed
from zotd.tools.diff import apply
from zotd.tools.edit import Edit, plan


def edit(old: str, new: str) -> dict[str, str]:
    return {"oldText": old, "newText": new}


async def test_edits_are_matched_against_the_original_and_shown_as_a_diff(session: Any) -> None:
    path = session.cwd / "a.py"
    path.write_text("one\ntwo\nthree\n")
    path.chmod(0o640)
    outcome = await session.call("edit", path="a.py", edits=[edit("three", "two"), edit("two", "three")])
    assert path.read_text() == "one\nthree\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert outcome.content[0].text == f"edited {path} in 2 places"
    assert outcome.details["diff"] == (
        "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+three\n-three\n+two\n"
    )


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (
            [edit("two", "2"), edit("four", "4")],
            "$.edits[1].oldText: it is not in {path}; nothing was changed",
        ),
        (
            [edit("one\n", "1\n"), edit("o", "0")],
            "$.edits[1].oldText: it is in {path} 2 times (lines 1, 2); add lines around it",
        ),
        (
            [edit("two\nthr", "x"), edit("three", "y")],
            "$.edits[1]: it overlaps edit 0; make one edit of them",
        ),
        ([edit("two", "two")], "$.edits[0]: oldText and newText are the same; nothing to change"),
        ([edit("", "x")], "$.edits[0].oldText: it is empty; give the text to replace"),
        ([], "$.edits: "),
        ([{"oldText": "two"}], "$.edits[0].newText: is required and missing"),
        ([edit("two", "\ud800")], "half a surrogate pair"),
    ],
)
async def test_one_bad_edit_leaves_the_file_alone_and_is_named(
    session: Any, edits: list[dict[str, str]], message: str
) -> None:
    path = session.cwd / "a"
    path.write_text("one\ntwo\nthree\n")
    before = path.stat()
    assert message.format(path=path) in await session.fault("edit", path="a", edits=edits)
    assert path.read_text() == "one\ntwo\nthree\n"
    assert path.stat().st_ino == before.st_ino


async def test_places_that_touch_are_two_edits_and_places_that_overlap_themselves_count(session: Any) -> None:
    (session.cwd / "a").write_text("abcd aaa")
    await session.call("edit", path="a", edits=[edit("cd", "CD"), edit("ab", "AB")])
    assert (session.cwd / "a").read_text() == "ABCD aaa"
    assert "2 times (lines 1, 1)" in await session.fault("edit", path="a", edits=[edit("aa", "b")])


async def test_line_endings_and_byte_order_mark_are_kept(session: Any) -> None:
    path = session.cwd / "win.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    await session.call(
        "edit", path="win.txt", edits=[edit("one\ntwo\n", "1\n2\n2b\n"), edit("three\r\n", "3\r\n")]
    )
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\n3\r\n"
    path = session.cwd / "unix.txt"
    path.write_bytes(b"one\ntwo\n")
    await session.call("edit", path="unix.txt", edits=[edit("one\r\ntwo", "1\r\n2")])
    assert path.read_bytes() == b"1\n2\n"


async def test_bytes_that_are_no_text_go_through_unharmed(session: Any) -> None:
    path = session.cwd / "latin"
    path.write_bytes(b"caf\xe9\r\nbar\n")
    outcome = await session.call("edit", path="latin", edits=[edit("bar", "baz")])
    assert path.read_bytes() == b"caf\xe9\r\nbaz\n"
    assert " caf\ufffd\r\n" in outcome.details["diff"]
    outcome.details["diff"].encode()
    assert "caf\ufffd" in await session.fault("edit", path="latin", edits=[edit("cafe bar", "x")])


async def test_a_miss_shows_the_nearest_lines(session: Any) -> None:
    (session.cwd / "m.py").write_text(
        "import os\n\ndef greet(name):\n    message = f'hello {name}'\n"
        "    return message\n\ndef other():\n    pass\n"
    )
    near = await session.fault(
        "edit", path="m.py", edits=[edit("    mesage = f'hello {nam}'\n    return mesage", "x")]
    )
    assert "the nearest is lines 4-5 (" in near
    assert "% alike):\n    message = f'hello {name}'\n    return message" in near
    spaces = await session.fault(
        "edit", path="m.py", edits=[edit("def greet(name):\n\tmessage = f'hello {name}'", "x")]
    )
    assert "the nearest is lines 3-4 (the same but for white space):\ndef greet(name):" in spaces
    assert "nothing in the file is like it" in await session.fault(
        "edit", path="m.py", edits=[edit("@@@@@@@@", "x")]
    )


async def test_looking_for_the_nearest_lines_is_bounded_and_off_the_loop(session: Any) -> None:
    lines = [f"    value_{n % 977} = compute(value_{n}, {n * 7919})" for n in range(6000)]
    (session.cwd / "big.py").write_text("\n".join(lines))
    wanted = "\n".join([*lines[3000:3200], "missing"])
    turns = 0
    task = asyncio.create_task(session.fault("edit", path="big.py", edits=[edit(wanted, "x")]))
    async with asyncio.timeout(8):
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
    assert "the nearest is lines 3001-3201" in await task
    assert turns > 10
    (session.cwd / "min.js").write_text("x=1;" * 100_000)
    async with asyncio.timeout(5):
        assert "does not" not in await session.fault(
            "edit", path="min.js", edits=[edit("y=2;" * 20_000, "z")]
        )


async def test_what_is_no_text_file_is_refused_by_name(session: Any) -> None:
    (session.cwd / "b").write_bytes(b"a\0b")
    os.mkfifo(session.cwd / "pipe")
    assert f"{session.cwd}/b is a binary file" in await session.fault(
        "edit", path="b", edits=[edit("a", "c")]
    )
    assert "pipe is not a regular file" in await session.fault("edit", path="pipe", edits=[edit("a", "c")])
    assert "is a directory" in await session.fault("edit", path=".", edits=[edit("a", "c")])
    assert "gone does not exist" in await session.fault("edit", path="gone", edits=[edit("a", "c")])


async def test_a_link_is_followed(session: Any) -> None:
    (session.home / "real").write_text("old")
    (session.cwd / "link").symlink_to(session.home / "real")
    await session.call("edit", path="link", edits=[edit("old", "new")])
    assert (session.home / "real").read_text() == "new"
    assert (session.cwd / "link").is_symlink()


async def test_the_schema_speaks_of_old_and_new_text_without_references(session: Any) -> None:
    items = session.tools["edit"].schema["properties"]["edits"]["items"]
    assert items["required"] == ["oldText", "newText"]


PIECES = st.lists(st.text("ab\u00fc\n", min_size=1, max_size=4), min_size=1, max_size=8)


@given(
    text=st.text("abc\n", max_size=30),
    crlf=st.booleans(),
    edits=st.lists(st.tuples(PIECES, PIECES), max_size=3),
)
def test_edits_apply_all_or_none_as_a_plain_reading_of_the_rule_says(
    text: str, crlf: bool, edits: list[tuple[list[str], list[str]]]
) -> None:
    asked = [Edit(old_text="".join(old)[:3], new_text="".join(new)) for old, new in edits]
    places = [
        (at, at + len(one.old_text), one.new_text)
        for one in asked
        for at in range(len(text))
        if text.startswith(one.old_text, at)
    ]
    places.sort()
    fits = (
        len(places) == len(asked)
        and len({one.old_text for one in asked}) == len(asked)
        and all(text.count(one.old_text) == 1 for one in asked)
        and all(one.old_text != one.new_text for one in asked)
        and all(before[1] <= after[0] for before, after in pairwise(places))
    )
    given_text = text.replace("\n", "\r\n") if crlf else text
    try:
        changes = plan(Path("f"), given_text, asked)
    except ToolFailed:
        assert not fits
        return
    assert fits
    expected = text
    for start, end, new in reversed(places):
        expected = expected[:start] + new + expected[end:]
    got = apply(given_text, changes)
    assert got.replace("\r\n", "\n") == expected
    if crlf and "\n" in text:
        assert got.count("\n") == got.count("\r\n")


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.sampled_from(["\n", "\r\n", "\r"])), max_size=12))
def test_everything_outside_the_edit_keeps_its_bytes_whatever_the_line_endings(
    lines: list[tuple[str, str]],
) -> None:
    before = "".join(line + end for line, end in lines)
    text = f"{before}needle\r\npin\n{before}"
    changes = plan(Path("f"), text, [Edit(old_text="needle\npin", new_text="thread")])
    assert apply(text, changes) == f"{before}thread\n{before}"
