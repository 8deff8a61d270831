"""What is remembered of folders, and which word counts for a folder."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.conftest import Folders
from zotd.base.files import BadFile
from zotd.project.trust import decisions, is_trusted, trust


def record(folders: Folders) -> Path:
    return folders.zot_home / "trusted.json"


def test_a_folder_of_which_nothing_was_said_is_not_trusted(folders: Folders) -> None:
    assert not is_trusted(folders.zot_home, folders.cwd)
    record(folders).write_text("{}")
    assert not is_trusted(folders.zot_home, folders.cwd)


def test_what_was_said_holds_for_folders_below_and_the_nearest_word_counts(folders: Folders) -> None:
    home, code = folders.zot_home, folders.cwd.parent
    below = folders.cwd / "src" / "deep"
    trust(home, code, True)
    assert is_trusted(home, code)
    assert is_trusted(home, below)
    assert not is_trusted(home, below / "a\0b")
    assert not is_trusted(home, code.parent)
    assert not is_trusted(home, code.with_name("codes"))
    trust(home, folders.cwd, False)
    assert not is_trusted(home, below)
    assert is_trusted(home, code / "other")
    trust(home, below, True)
    assert is_trusted(home, below)
    assert decisions(home) == {code: True, folders.cwd: False, below: True}


def test_symbolic_links_are_resolved_when_it_is_said_and_when_it_is_asked(folders: Folders) -> None:
    link = folders.user_home / "link"
    link.symlink_to(folders.cwd)
    assert trust(folders.zot_home, link, True) == folders.cwd
    assert is_trusted(folders.zot_home, folders.cwd)
    assert is_trusted(folders.zot_home, link)

    stranger = folders.user_home / "stranger"
    stranger.mkdir()
    (folders.cwd / "door").symlink_to(stranger)
    assert not is_trusted(folders.zot_home, folders.cwd / "door")


def test_the_record_is_the_user_s_alone_and_keeps_what_it_does_not_know(folders: Folders) -> None:
    record(folders).write_text('{"later": [1], "folders": {"/x": true}}')
    record(folders).chmod(0o644)
    trust(folders.zot_home, folders.cwd, True)
    assert stat.S_IMODE(record(folders).stat().st_mode) == 0o600
    kept = json.loads(record(folders).read_text())
    assert kept == {"later": [1], "folders": {"/x": True, str(folders.cwd): True}}


def test_a_home_that_is_not_there_yet_is_made_and_a_linked_record_stays_a_link(folders: Folders) -> None:
    fresh = folders.user_home / "fresh" / "zot"
    trust(fresh, folders.cwd, True)
    assert is_trusted(fresh, folders.cwd)
    kept = folders.user_home / "dotfiles.json"
    record(folders).symlink_to(kept)
    kept.write_text("{}")
    trust(folders.zot_home, folders.cwd, True)
    assert record(folders).is_symlink()
    assert json.loads(kept.read_text()) == {"folders": {str(folders.cwd): True}}


def test_names_of_folders_that_are_no_utf_8_are_remembered(folders: Folders) -> None:
    odd = Path(os.fsdecode(os.fsencode(folders.cwd) + b"/caf\xe9"))
    odd.mkdir()
    trust(folders.zot_home, odd, True)
    assert is_trusted(folders.zot_home, odd)
    assert not is_trusted(folders.zot_home, folders.cwd / "caf\ufffd")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "expected JSON: "),
        (b"\xff", "expected JSON: "),
        (b"[" * 100_000, "expected JSON: it is nested too deeply"),
        (b"[]", "expected a JSON object"),
        (b'{"folders": []}', "folders: expected an object"),
        (b'{"folders": {"/x": "yes"}}', 'folders["/x"]: expected true or false'),
        (b" " * (1 << 20) + b"    {}", "expected at most 1048576 bytes, got 1048582"),
    ],
    ids=lambda value: str(value[:24]),
)
def test_a_broken_record_is_named_counts_for_nothing_and_is_left_alone(
    folders: Folders, content: bytes, fault: str
) -> None:
    record(folders).write_bytes(content)
    for act in (is_trusted, lambda home, cwd: trust(home, cwd, True)):
        with pytest.raises(BadFile) as caught:
            act(folders.zot_home, folders.cwd)
        assert str(caught.value).startswith(f"{record(folders)}: {fault}")
    assert record(folders).read_bytes() == content


def test_a_record_that_is_a_pipe_holds_nobody(folders: Folders) -> None:
    os.mkfifo(record(folders))
    with pytest.raises(BadFile, match="expected a regular file"):
        is_trusted(folders.zot_home, folders.cwd)


def test_two_that_remember_at_once_lose_nothing(folders: Folders) -> None:
    code = (
        "import sys; from pathlib import Path; from zotd.project.trust import trust\n"
        "home, name = sys.argv[1:]\n"
        "for number in range(40): trust(Path(home), Path(f'/{name}/{number}'), True)"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(folders.zot_home), name]) for name in ("a", "b")
    ]
    assert [process.wait(30) for process in both] == [0, 0]
    expected = {Path(f"/{name}/{number}") for name in ("a", "b") for number in range(40)}
    assert set(decisions(folders.zot_home)) == expected
    assert {path.name for path in folders.zot_home.iterdir()} == {"trusted.json", "trusted.json.lock"}
