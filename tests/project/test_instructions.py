"""Which files tell the model how to work in a project, in which order, and how much of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.project.conftest import Folders
from zotd.base.files import BadFile
from zotd.project.instructions import find_instructions, read_system


def texts(folders: Folders, size: int = 10_000) -> list[str]:
    return list(find_instructions(folders.cwd, folders.user_home, size).texts.values())


def complaints(folders: Folders, size: int = 10_000) -> list[str]:
    return [str(bad) for bad in find_instructions(folders.cwd, folders.user_home, size).complaints]


def test_without_a_repository_all_up_to_the_home_is_read_outermost_first(folders: Folders) -> None:
    (folders.user_home.parent / "AGENTS.md").write_text("above home")
    (folders.user_home / "AGENTS.md").write_text("home")
    (folders.cwd.parent / "AGENTS.md").write_text("code")
    (folders.cwd / "AGENTS.md").write_text("project\n")
    found = find_instructions(folders.cwd, folders.user_home, 10_000)
    assert found.texts == {
        folders.user_home / "AGENTS.md": "home",
        folders.cwd.parent / "AGENTS.md": "code",
        folders.cwd / "AGENTS.md": "project",
    }
    assert found.complaints == []


@pytest.mark.parametrize("worktree", [False, True])
def test_the_root_of_the_repository_is_the_last(folders: Folders, worktree: bool) -> None:
    inner = folders.cwd / "a" / "b"
    inner.mkdir(parents=True)
    (folders.cwd / ".git").write_text("gitdir: x") if worktree else (folders.cwd / ".git").mkdir()
    (folders.cwd.parent / "AGENTS.md").write_text("outside")
    (folders.cwd / "AGENTS.md").write_text("root")
    (inner / "AGENTS.md").write_text("inner")
    assert list(find_instructions(inner, folders.user_home, 10_000).texts.values()) == ["root", "inner"]


def test_outside_of_the_home_all_up_to_the_top_is_read(folders: Folders) -> None:
    (folders.user_home.parent / "AGENTS.md").write_text("above home")
    found = find_instructions(folders.cwd, folders.user_home / "elsewhere", 10_000)
    assert list(found.texts.values()) == ["above home"]


def test_of_one_directory_agents_md_counts_and_claude_md_stands_in(folders: Folders) -> None:
    (folders.cwd / "AGENTS.md").write_text("agents")
    (folders.cwd / "CLAUDE.md").write_text("claude")
    (folders.cwd.parent / "CLAUDE.md").write_text("only claude")
    assert texts(folders) == ["only claude", "agents"]


def test_line_ends_and_a_byte_order_mark_are_cleared_and_blank_files_left_out(folders: Folders) -> None:
    (folders.cwd / "AGENTS.md").write_bytes(b"\xef\xbb\xbf\r\na\r\nb\xff\r\n")
    (folders.cwd.parent / "AGENTS.md").write_text(" \n")
    assert texts(folders) == ["a\nb\ufffd"]


def test_what_is_too_long_is_cut_at_a_line_and_the_nearest_counts_first(folders: Folders) -> None:
    (folders.cwd / "AGENTS.md").write_text("123456\n")
    (folders.cwd.parent / "AGENTS.md").write_text("one\ntwo\n")
    (folders.user_home / "AGENTS.md").write_text("home\n")
    assert texts(folders, 20) == ["home", "one\ntwo", "123456"]
    assert complaints(folders, 20) == []
    assert texts(folders, 14) == ["one", "123456"]
    assert complaints(folders, 14) == [
        f"{folders.cwd.parent}/AGENTS.md: has 8 bytes, of which 4 are used: instructions get 14 together",
        f"{folders.user_home}/AGENTS.md: has 5 bytes, of which 0 are used: instructions get 14 together",
    ]


def test_what_cannot_be_read_is_told_of_and_nothing_waits(folders: Folders) -> None:
    os.mkfifo(folders.cwd / "AGENTS.md")
    (folders.cwd.parent / "CLAUDE.md").symlink_to("nowhere")
    (folders.user_home / "AGENTS.md").write_text("home")
    assert texts(folders) == ["home"]
    assert complaints(folders) == [
        f"{folders.cwd}/AGENTS.md: cannot be read: expected a regular file",
        f"{folders.cwd.parent}/CLAUDE.md: is a symbolic link to nothing",
    ]


def test_a_system_prompt_of_the_user_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    assert read_system(tmp_path, 100) == ""
    (tmp_path / "SYSTEM.md").write_text("\nBe brief.\n")
    assert read_system(tmp_path, 100) == "Be brief."
    with pytest.raises(BadFile, match=r"SYSTEM\.md: expected at most 5 bytes, got 11"):
        read_system(tmp_path, 5)
