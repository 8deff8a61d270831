from __future__ import annotations

import asyncio
import base64
import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.protocol.content import Image, Text
from zotd.tools.read import TooFar, read_window
from zotd.tools.typed import why_not

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_a_short_file_is_shown_as_it_is(session: Any) -> None:
    (session.cwd / "a.txt").write_bytes("one\r\ntwo\u2028drei\n\n".encode())
    assert await session.text("read", path="a.txt") == "one\r\ntwo\u2028drei\n\n"
    (session.cwd / "empty").touch()
    assert await session.text("read", path="empty") == f"[{session.cwd}/empty is empty]"


async def test_paths_are_absolute_from_home_or_relative_to_the_session_folder(session: Any) -> None:
    (session.home / "notes").write_text("at home")
    for path in ("~/notes", "../home/notes", str(session.home / "notes")):
        assert await session.text("read", path=path) == "at home"


async def test_a_long_file_comes_in_parts_that_say_how_to_go_on(session: Any) -> None:
    (session.cwd / "long").write_text("".join(f"{n}\n" for n in range(1, 4501)))
    first = await session.text("read", path="long")
    assert first.startswith("1\n2\n")
    assert first.endswith("\n2000\n\n[lines 1-2000 of 4500 shown; go on with offset=2001]")
    second = await session.text("read", path="long", offset=2001)
    assert second.startswith("2001\n")
    assert second.endswith("\n4000\n\n[lines 2001-4000 of 4500 shown; go on with offset=4001]")
    assert (await session.text("read", path="long", offset=4001)).endswith("\n4500\n")
    assert await session.text("read", path="long", offset=7, limit=1) == (
        "7\n\n[lines 7-7 of 4500 shown; go on with offset=8]"
    )
    assert (await session.text("read", path="long", limit=9999)).endswith("go on with offset=2001]")


async def test_fifty_kibibytes_cut_before_two_thousand_lines(session: Any) -> None:
    (session.cwd / "wide").write_text(("x" * 1023 + "\n") * 100)
    text = await session.text("read", path="wide")
    assert text.endswith("x\n\n[lines 1-50 of 100 shown; go on with offset=51]")
    assert text.count("x") == 50 * 1023


async def test_a_line_too_long_is_shown_in_part_with_a_way_to_the_rest(session: Any) -> None:
    (session.cwd / "min.js").write_text("a\n" + "y" * 200_000 + "\nb\n")
    text = await session.text("read", path="min.js", offset=2)
    assert text.startswith("y" * 51200 + "\n\n[line 2")
    assert (
        f"[line 2 is too long: its first 51200 bytes are shown; for more use bash: sed -n 2p {session.cwd}"
        in text
    )
    assert text.endswith("[lines 2-2 of 3 shown; go on with offset=3]")


async def test_an_offset_past_the_end_says_how_long_the_file_is(session: Any) -> None:
    (session.cwd / "three").write_text("1\n2\n3")
    message = await session.fault("read", path="three", offset=4)
    assert message == f"$.offset: 4 is past the end of {session.cwd}/three, which has 3 lines"


async def test_a_file_too_large_to_count_is_read_all_the_same(session: Any) -> None:
    session.use(session.limits, read_count_bytes=1000, read_bytes=100)
    (session.cwd / "huge").write_text("123456789\n" * 1000)
    assert (await session.text("read", path="huge", offset=500)).endswith(
        "[lines 500-509 shown; go on with offset=510]"
    )
    assert await session.text("read", path="huge", offset=1000) == "123456789\n"
    assert "has 1000 lines" in await session.fault("read", path="huge", offset=1001)


async def test_a_large_file_leaves_the_loop_free(session: Any) -> None:
    (session.cwd / "big").write_text("line of text\n" * 4_000_000)
    turns = 0
    task = asyncio.create_task(session.text("read", path="big", offset=3_999_999))
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    assert await task == "line of text\n" * 2
    assert turns > 10


@pytest.mark.parametrize(
    ("head", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
        (b"GIF89a\1\0\1\0\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_pictures_are_known_by_their_bytes_and_come_as_blocks(
    session: Any, head: bytes, mime_type: str
) -> None:
    data = head + bytes(300_000)
    (session.cwd / "picture.txt").write_bytes(data)
    outcome = await session.call("read", path="picture.txt")
    assert outcome.content == [
        Text(f"{session.cwd}/picture.txt ({mime_type}, {len(data)} bytes)"),
        Image(mime_type, base64.b64encode(data).decode()),
    ]


async def test_a_picture_too_large_is_refused(session: Any) -> None:
    session.use(session.limits, image_bytes=50)
    (session.cwd / "p.png").write_bytes(PNG)
    assert f"is a picture of {len(PNG)} bytes; at most 50 can be shown" in await session.fault(
        "read", path="p.png"
    )


async def test_a_binary_file_is_refused_by_name(session: Any) -> None:
    for name, data in (("tool.bin", b"\x7fELF\0\0"), ("dense", bytes(range(1, 32)) * 20)):
        (session.cwd / name).write_bytes(data)
        assert f"{session.cwd}/{name} is a binary file ({len(data)} bytes)" in await session.fault(
            "read", path=name
        )


async def test_text_in_another_encoding_is_shown_with_replacements(session: Any) -> None:
    (session.cwd / "latin").write_bytes("gr\u00fc\u00df\n".encode("latin-1"))
    (session.cwd / "bom").write_bytes(b"\xef\xbb\xbfhello\n")
    assert await session.text("read", path="latin") == "gr\ufffd\ufffd\n"
    assert await session.text("read", path="bom") == "hello\n"


async def test_what_cannot_be_read_says_why_and_what_is_near(session: Any) -> None:
    (session.cwd / "README.md").touch()
    os.mkfifo(session.cwd / "pipe")
    assert f"{session.cwd} is a directory; list it with bash: ls -la" in await session.fault("read", path=".")
    assert "pipe is not a regular file" in await session.fault("read", path="pipe")
    assert "READMEE.md does not exist; near it are: README.md" in await session.fault(
        "read", path="READMEE.md"
    )
    assert f"nearest directory that does is {session.cwd}" in await session.fault("read", path="no/such/file")
    assert "README.md is a file, not a directory" in await session.fault("read", path="README.md/x")


async def test_commands_that_are_proposed_can_be_copied(session: Any) -> None:
    (session.cwd / "my data").write_bytes(b"\0")
    assert f"such as: xxd '{session.cwd}/my data' | head" in await session.fault("read", path="my data")


def test_a_permission_and_other_faults_name_the_path() -> None:
    assert why_not(Path("/p"), PermissionError(errno.EACCES, "x")) == "permission denied: /p"
    assert why_not(Path("/p"), OSError(errno.EIO, "Input/output error")) == "/p: Input/output error"


async def test_names_that_are_no_text_do_not_break_the_answer(session: Any) -> None:
    Path(os.fsdecode(bytes(session.cwd) + b"/caf\xe9.txt")).touch()
    assert "caf\ufffd.txt" in await session.fault("read", path="cafe.txt")


async def test_bad_arguments_are_named_by_their_path(session: Any) -> None:
    assert "$.path: is required and missing" in await session.fault("read")
    assert "$.offset: expected a whole number of at least 1" in await session.fault(
        "read", path="a", offset=0
    )
    assert "$.path: " in await session.fault("read", path=7)
    assert "$.path: " in await session.fault("read", path="a\0b")
    (session.cwd / "a").write_text("1\n2\n")
    assert await session.text("read", path="a", offset="2") == "2\n"


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")), max_size=30),
    ended=st.booleans(),
    offset=st.integers(1, 35),
    limit=st.integers(1, 10),
    size=st.integers(1, 40),
)
def test_windows_hold_whole_lines_of_the_file_and_lead_from_one_to_the_next(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    ended: bool,
    offset: int,
    limit: int,
    size: int,
) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    whole = io.BytesIO(data).readlines()
    path = tmp_path_factory.getbasetemp() / "window"
    path.write_bytes(data)
    with path.open("rb") as file:
        window = read_window(file, offset, limit, size, 1 << 20)
        file.seek(0)
        if offset > 1 and data:
            with pytest.raises(TooFar):
                read_window(file, offset, limit, size, 1 << 20, reach=len(data) - 1)
    assert window.total == len(whole)
    rest = whole[offset - 1 :]
    assert window.lines <= limit
    assert len(window.data) <= size
    if window.cut_line:
        assert (window.data, window.lines) == (rest[0][:size], 1)
        assert len(rest[0]) > size
    else:
        assert window.data == b"".join(rest[: window.lines])
        full = window.lines == min(limit, len(rest))
        assert full or len(window.data) + len(rest[window.lines]) > size
