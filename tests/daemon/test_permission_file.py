"""The file of rules: what may stand in it, what a bad one does, and who changes it meanwhile."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zotd.base.files import BadFile
from zotd.base.limits import Limits
from zotd.daemon.permission_file import PermissionFile, WrittenRule
from zotd.daemon.permissions import Rules, Whereabouts, answered, judge, subject_of


@pytest.fixture
def file(tmp_path: Path) -> PermissionFile:
    return PermissionFile(tmp_path, Limits())


def shown(rules: Rules) -> list[str]:
    return [f"{rule.decision} {rule}" for rule in rules.rules]


def answers(*commands: str, folder: Path = Path("/w")) -> list[Any]:
    where = Whereabouts(folder, "/h", "/h")
    return [
        rule
        for command in commands
        for rule in answered(subject_of("bash", {"command": command}, where), "allow")
    ]


def test_no_file_is_no_rule_and_an_empty_object_neither(file: PermissionFile) -> None:
    assert file.rules() == Rules()
    file.path.write_text("{}")
    assert file.rules() == Rules()


def test_a_change_counts_at_once_whoever_makes_it(file: PermissionFile) -> None:
    assert shown(file.rules()) == []
    file.path.write_text('{"rules": [{"tool": "bash", "pattern": "git *", "decision": "allow"}]}')
    assert shown(file.rules()) == ["allow bash git *"]
    assert file.rules() is file.rules()
    file.path.write_text('{"rules": [{"tool": "bash", "pattern": "git *", "decision": "deny" }]}')
    assert shown(file.rules()) == ["deny bash git *"]
    file.path.unlink()
    assert file.rules() == Rules()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "expected JSON: "),
        (b"\xff", "expected JSON: "),
        (b"[" * 100_000, "expected JSON: it is nested too deeply"),
        (b"[]", "$: expected an object"),
        (b'{"rules": {}}', "$.rules: expected a list, got an object"),
        (b'{"rules": [1]}', "$.rules[0]: expected an object, got a number"),
        (b'{"rules": [], "rules": []}', "expected JSON: the key 'rules' is there twice"),
        (b'{"rules": [{"decision": "allow"}]}', "$.rules[0].tool: is required and missing"),
        (b'{"rules": [{"tool": "x"}]}', "$.rules[0].decision: is required and missing"),
        (b'{"rules": [{"tool": "", "decision": "deny"}]}', "$.rules[0].tool: expected the name of a tool"),
        (
            b'{"rules": [{"tool": "x", "decision": "ask"}]}',
            "$.rules[0].decision: expected 'allow' or 'deny', got 'ask'",
        ),
        (
            b'{"rules": [{"tool": "bash", "pattern": "git $x", "decision": "deny"}]}',
            "$.rules[0].pattern: expected plain or quoted words and *",
        ),
        (
            b'{"rules": [{"tool": "read", "pattern": "../x", "decision": "deny"}]}',
            "$.rules[0].pattern: expected a path without ..",
        ),
        (
            b'{"rules": [{"tool": "read", "pattern": "~you/x", "decision": "deny"}]}',
            "$.rules[0].pattern: expected a path that is absolute, relative or begins with ~/",
        ),
        (
            b'{"rules": [{"tool": "weather", "pattern": "x", "decision": "deny"}]}',
            "$.rules[0].pattern: expected none: only bash, read, write, edit have one",
        ),
        (
            b'{"rules": [{"tool": "bash", "pattern": "x", "exact": "x", "decision": "deny"}]}',
            "$.rules[0].exact: expected pattern or exact, not both",
        ),
        (
            b'{"rules": [{"tool": "x", "folder": "src", "decision": "deny"}]}',
            "$.rules[0].folder: expected an absolute path",
        ),
        (
            b'{"rules": [{"tool": "x", "folder": "/a\\u0000", "decision": "deny"}]}',
            "$.rules[0].folder: expected an absolute path",
        ),
        (
            b'{"rules": [{"tool": "read", "pattern": "a\\u0000", "decision": "deny"}]}',
            "$.rules[0].pattern: expected a path",
        ),
        (b" " * (1 << 18) + b"    {}", "expected at most 262144 bytes, got 262150"),
    ],
    ids=lambda value: str(value[:60]),
)
def test_a_bad_file_is_named_lets_nothing_run_and_is_left_alone(
    file: PermissionFile, content: bytes, fault: str
) -> None:
    file.path.write_bytes(content)
    rules = file.rules()
    assert rules.broken
    assert rules.rules == ()
    assert [complaint.startswith(f"{file.path}: {fault}") for complaint in rules.complaints] == [True]
    with pytest.raises(BadFile) as caught:
        file.add(answers("ls"))
    assert str(caught.value).startswith(f"{file.path}: {fault}")
    assert file.path.read_bytes() == content
    file.path.write_text("{}")
    assert file.rules() == Rules()


def test_a_file_that_is_a_pipe_or_a_link_to_nothing_holds_nobody_and_lets_nothing_run(
    file: PermissionFile,
) -> None:
    os.mkfifo(file.path)
    assert "expected a regular file" in file.rules().complaints[0]
    file.path.unlink()
    assert file.rules() == Rules()
    file.path.symlink_to("nothing")
    assert "is a symbolic link to nothing" in file.rules().complaints[0]


def test_a_key_that_is_not_known_takes_its_force_from_a_rule_that_allows(file: PermissionFile) -> None:
    file.path.write_text(
        json.dumps(
            {
                "_note": "mine",
                "rule": [{"tool": "*", "decision": "deny"}],
                "rules": [
                    {"tool": "bash", "patern": "git *", "decision": "allow"},
                    {"tool": "weather", "until": "noon", "decision": "deny"},
                    {"tool": "bash", "pattern": "ls", "decision": "allow", "_meta": {"why": "harmless"}},
                ],
            }
        )
    )
    rules = file.rules()
    assert shown(rules) == ["deny weather", "allow bash ls"]
    assert rules.complaints == (
        f"{file.path}: $.rule: is no key of this file, which has only `rules`; it counts for nothing",
        f"{file.path}: $.rules[0].patern: is no key of a rule; the rule allows nothing",
    )
    assert not rules.broken


def test_the_page_for_users_shows_a_file_that_works_and_names_every_key(file: PermissionFile) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "approvals.md").read_text("utf-8")
    file.path.write_text(page.split("```json\n")[1].split("```")[0])
    rules = file.rules()
    assert len(rules.rules) == 5
    assert rules.complaints == ()
    assert [key for key in WrittenRule.__struct_fields__ if f"\n| `{key}` | " not in page] == []


def test_an_answer_is_added_behind_what_is_there_and_marked(file: PermissionFile) -> None:
    by_hand = {"tool": "bash", "pattern": "git *", "decision": "allow", "_meta": 1}
    file.path.write_text(json.dumps({"version": 3, "rules": [by_hand]}))
    file.path.chmod(0o644)
    file.add(answers("make -k && echo 'a *'"))
    file.add(answers("make -k"))
    assert json.loads(file.path.read_text()) == {
        "version": 3,
        "rules": [
            by_hand,
            {"tool": "bash", "pattern": "echo 'a *'", "folder": "/w", "decision": "allow", "answered": True},
            {"tool": "bash", "pattern": "make -k", "folder": "/w", "decision": "allow", "answered": True},
        ],
    }
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert shown(file.rules()) == ["allow bash git *", "allow bash echo 'a *'", "allow bash make -k"]


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("bash", {"command": "make 'a b' \"it's\" '*'"}),
        ("bash", {"command": "for x in *; do echo $x\n done"}),
        ("bash", {"command": "cd a && make | tee b"}),
        ("write", {"path": "src/a*.py", "content": ""}),
        ("weather", {"city": "x"}),
    ],
    ids=str,
)
def test_what_was_answered_is_the_same_after_it_was_read_again(
    file: PermissionFile, tool: str, args: dict[str, Any]
) -> None:
    where = Whereabouts(file.path.parent, "/h", "/h")
    subject = subject_of(tool, args, where)
    left = answered(subject, "deny", "because")
    file.add(left)
    assert file.rules().rules == left
    file.path.unlink()
    file.add(answered(subject, "allow"))
    said = judge("ask", file.rules(), Rules(), subject)
    assert type(said).__name__ == "Allow"


def test_a_home_that_is_not_there_is_made_and_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    fresh = PermissionFile(tmp_path / "a" / "zot", Limits())
    fresh.add(answers("ls"))
    assert shown(fresh.rules()) == ["allow bash ls"]
    linked = PermissionFile(tmp_path, Limits())
    (tmp_path / "dotfiles.json").write_text("{}")
    linked.path.symlink_to("dotfiles.json")
    linked.add(answers("ls"))
    assert linked.path.is_symlink()
    assert shown(linked.rules()) == ["allow bash ls"]


def test_a_file_that_would_grow_too_long_stays_as_it_is(tmp_path: Path) -> None:
    file = PermissionFile(tmp_path, replace(Limits(), permissions_bytes=200))
    file.add(answers("ls"))
    with pytest.raises(BadFile, match="would have more than 200 bytes"):
        file.add(answers("x" * 200))
    assert shown(file.rules()) == ["allow bash ls"]


def test_one_who_holds_the_lock_for_long_is_not_waited_for_beyond_a_bound(tmp_path: Path) -> None:
    import fcntl

    file = PermissionFile(tmp_path, replace(Limits(), permissions_lock_s=0.02))
    with (tmp_path / "permissions.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another process holds it"):
            file.add(answers("ls"))
    file.add(answers("ls"))


def test_names_of_folders_that_are_no_utf_8_are_remembered(file: PermissionFile, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    odd.mkdir()
    file.add(answers("ls", folder=odd))
    assert [rule.folder for rule in file.rules().rules] == [str(odd)]


def test_two_that_remember_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from zotd.base.limits import Limits; from zotd.daemon.permission_file import PermissionFile\n"
        "from zotd.daemon.permissions import Rule\n"
        "home, name = sys.argv[1:]\n"
        "for number in range(20):\n"
        "  PermissionFile(Path(home), Limits()).add([Rule(name + str(number), 'allow')])"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in ("a", "b")]
    assert [process.wait(30) for process in both] == [0, 0]
    found = [rule.tool for rule in PermissionFile(tmp_path, Limits()).rules().rules]
    assert sorted(found) == sorted(f"{name}{number}" for name in ("a", "b") for number in range(20))
    assert {path.name for path in tmp_path.iterdir()} == {"permissions.json", "permissions.json.lock"}
