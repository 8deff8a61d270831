from __future__ import annotations

import os
import stat
from typing import Any

import pytest

from zotd.tools.replace import replace_file


async def test_a_new_file_is_made_with_its_parents_and_the_usual_mode(session: Any) -> None:
    text = await session.text("write", path="deep/er/a.txt", content="grüß\r\n")
    assert text == f"made {session.cwd}/deep/er/a.txt (8 bytes)"
    assert (session.cwd / "deep/er/a.txt").read_bytes() == "grüß\r\n".encode()
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((session.cwd / "deep/er/a.txt").stat().st_mode) == 0o666 & ~mask


async def test_a_file_is_replaced_whole_and_keeps_its_mode(session: Any) -> None:
    path = session.cwd / "run.sh"
    path.write_text("old and longer\n")
    path.chmod(0o754)
    before = path.stat().st_ino
    with path.open() as reader:
        assert await session.text("write", path="run.sh", content="new\n") == f"replaced {path} (4 bytes)"
        assert reader.read() == "old and longer\n"
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert path.stat().st_ino != before
    assert [entry.name for entry in session.cwd.iterdir()] == ["run.sh"]


async def test_a_link_stays_and_its_target_changes(session: Any) -> None:
    (session.home / "real").write_text("old")
    (session.cwd / "link").symlink_to("../home/real")
    (session.cwd / "dangling").symlink_to("../home/later")
    await session.call("write", path="link", content="new")
    await session.call("write", path="dangling", content="made")
    assert (session.cwd / "link").is_symlink()
    assert (session.home / "real").read_text() == "new"
    assert (session.home / "later").read_text() == "made"


async def test_home_is_the_session_s(session: Any) -> None:
    await session.call("write", path="~/note", content="x")
    assert (session.home / "note").read_text() == "x"


async def test_names_as_long_as_a_name_can_be_and_large_contents_are_written(session: Any) -> None:
    name = "n" * 255
    await session.call("write", path=name, content="y" * 1_000_000)
    assert (session.cwd / name).stat().st_size == 1_000_000


async def test_what_is_no_regular_file_is_left_alone(session: Any) -> None:
    os.mkfifo(session.cwd / "pipe")
    assert "is not a regular file" in await session.fault("write", path="pipe", content="x")
    assert "is not a regular file" in await session.fault("write", path="/dev/null", content="x")
    assert "is a directory; name a file inside it" in await session.fault("write", path=".", content="x")
    (session.cwd / "file").touch()
    assert "file is a file, not a directory" in await session.fault("write", path="file/x", content="x")


async def test_a_failure_leaves_the_old_content_and_no_litter(session: Any) -> None:
    path = session.cwd / "kept"
    path.write_text("old")
    assert "half a surrogate pair" in await session.fault("write", path="kept", content="\ud800")
    with pytest.raises(TypeError):
        replace_file(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert [entry.name for entry in session.cwd.iterdir()] == ["kept"]


async def test_a_read_only_file_is_refused_with_the_way_to_change_that(session: Any) -> None:
    path = session.cwd / "locked"
    path.write_text("old")
    path.chmod(0o444)
    message = await session.fault("write", path="locked", content="x")
    assert message == f"{path} is read-only (mode 0444); change that first: chmod u+w {path}"
    assert path.read_text() == "old"


async def test_bad_arguments_are_named(session: Any) -> None:
    assert "$.content: is required and missing" in await session.fault("write", path="a")
    assert "$.path: " in await session.fault("write", path="", content="x")


async def test_the_schema_is_one_plain_object(session: Any) -> None:
    schema = session.tools["write"].schema
    assert schema["type"] == "object"
    assert schema["required"] == ["path", "content"]
    assert schema["properties"]["content"]["type"] == "string"
