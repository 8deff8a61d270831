"""What a person is shown of a call before it runs."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from zotd.base.limits import Limits
from zotd.daemon.permissions import Whereabouts, subject_of
from zotd.daemon.preview import preview_of
from zotd.protocol.session import Preview
from zotd.tools.changes import Changes

ARGUMENTS = Preview(kind="args")
Look: TypeAlias = Callable[..., Awaitable[Preview]]


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def look(cwd: Path) -> Look:
    limits = replace(Limits(), preview_bytes=100)
    changes = Changes(cwd, limits)
    changes.begin("turn_1", ["dirty.txt"])

    async def look(tool: str, owner: str = "", /, **args: Any) -> Preview:
        subject = subject_of(tool, args, Whereabouts(cwd, str(cwd), str(cwd)), owner)
        return await preview_of(subject, args, limits, changes)

    return look


def diff(path: Path, old: str, new: str) -> Preview:
    return Preview(kind="diff", path=str(path), old_text=old, new_text=new)


async def test_a_command_is_shown_as_it_would_be_given_to_the_shell(look: Look) -> None:
    assert await look("bash", command="a |\nb") == Preview(kind="command", command="a |\nb")
    assert await look("bash", command="é" * 51) == ARGUMENTS
    assert await look("bash", command=3) == ARGUMENTS
    assert await look("bash", "evil", command="ls") == ARGUMENTS


async def test_a_file_is_shown_before_and_after(look: Look, cwd: Path) -> None:
    assert await look("write", path="new/a.txt", content="one\n") == diff(cwd / "new/a.txt", "", "one\n")
    (cwd / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert await look("write", path="~/a.txt", content="1") == diff(
        cwd / "a.txt", "\ufeffone\r\ntwo\r\n", "1"
    )
    edits = [{"oldText": "two\n", "newText": "2\n"}, {"oldText": "one", "newText": "1"}]
    assert await look("edit", path="a.txt", edits=edits) == diff(
        cwd / "a.txt", "\ufeffone\r\ntwo\r\n", "\ufeff1\r\n2\r\n"
    )
    (cwd / "link").symlink_to("a.txt")
    assert (await look("edit", path="link", edits=edits)).path == str(cwd / "a.txt")
    assert sorted(path.name for path in cwd.iterdir()) == ["a.txt", "link"]


async def test_what_a_tool_would_refuse_is_shown_as_its_arguments(look: Look, cwd: Path) -> None:
    edit = {"oldText": "one", "newText": "1"}
    (cwd / "twice").write_text("one one")
    (cwd / "binary").write_bytes(b"one\0")
    (cwd / "latin").write_bytes(b"one \xe9")
    (cwd / "long").write_text("one" + "x" * 99)
    (cwd / "dirty.txt").write_text("one")
    (cwd / "folder").mkdir()
    os.mkfifo(cwd / "pipe")
    for path in ("missing", "twice", "binary", "latin", "long", "dirty.txt", "folder", "pipe"):
        assert await look("edit", path=path, edits=[edit]) == ARGUMENTS, path
    for path in ("binary", "latin", "long", "dirty.txt", "folder", "pipe"):
        assert await look("write", path=path, content="1") == ARGUMENTS, path
    for args in (
        {"path": "a"},
        {"path": "a", "content": 3},
        {"path": "a", "content": "\ud800"},
        {"content": "a"},
    ):
        assert await look("write", **args) == ARGUMENTS, args
    (cwd / "good").write_text("one")
    assert (await look("edit", path="good", edits=[edit])).kind == "diff"
    bad: list[Any] = [None, [], [{}], [{"oldText": "one", "newText": "1" * 100}], [edit, edit]]
    for edits in bad:
        assert await look("edit", path="good", edits=edits) == ARGUMENTS, edits
    assert await look("write", path="a", content="x" * 101) == ARGUMENTS


async def test_other_calls_are_shown_as_their_arguments(look: Look, cwd: Path) -> None:
    (cwd / "a").write_text("one")
    assert await look("read", path="a") == ARGUMENTS
    assert await look("weather", "weather", path="a", command="ls") == ARGUMENTS
