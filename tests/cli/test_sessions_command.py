"""`zotd sessions`: what people see of saved sessions and do with them."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.clients import LONG, Machine, fits
from zotd.agent.transcript import SUMMARY_HEADING

PARSER, LEXER, OTHER = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "abc")
NOON = "2026-11-30T12:00:0"


def said(role: str, second: int, *content: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": content, "time": f"{NOON}{second}.000Z"}


def prompt(text: str) -> dict[str, Any]:
    return said("user", 1, {"text": text})


OUTPUT = "".join(f"line {number}\n" for number in range(30))
TALK = [
    prompt("mend the parser"),
    said(
        "assistant", 2, {"text": "Looking."}, {"id": "t1", "name": "bash", "arguments": {"command": "make"}}
    ),
    said("tool", 3, {"call_id": "t1", "content": [{"text": OUTPUT}], "is_error": True}),
    said("assistant", 4, {"text": "Mended.\x1b[31m red \x07"}),
]


def save(
    machine: Machine,
    session_id: str,
    *talk: dict[str, Any],
    cwd: Path | None = None,
    age: int = 0,
    **meta: Any,
) -> Path:
    """Put a session file where zot has it. age: seconds since it was changed."""
    cwd = cwd or machine.cwd
    folder = machine.home / "sessions" / sha256(str(cwd).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "id": session_id,
        "cwd": str(cwd),
        "model": "scripted",
        "provider": "scripted",
        "started": f"{NOON}0.{9 - age:03d}Z",
        "version": "1",
        **meta,
    }
    path = folder / f"20261130-120000-{session_id[:8]}.jsonl"
    rows = [{"type": "meta", "meta": about}, *({"type": "message", "message": message} for message in talk)]
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    os.utime(path, (1_796_040_030 - age, 1_796_040_030 - age))
    return path


def lines(machine: Machine, *argv: str | Path) -> list[str]:
    done = machine.run("sessions", *argv, env={"TZ": "UTC"})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def value(machine: Machine, *argv: str | Path) -> Any:
    (line,) = lines(machine, *argv, "--json")
    return json.loads(line)


def failed(machine: Machine, code: int, *argv: str | Path) -> str:
    done = machine.run("sessions", *argv)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("zotd: sessions: ")
    assert "Traceback" not in done.stderr
    return done.stderr.removeprefix("zotd: sessions: ")


# Looking


def test_the_list_has_the_sessions_of_the_folder_the_last_changed_first(machine: Machine) -> None:
    elsewhere = machine.root / "elsewhere"
    save(machine, PARSER, *TALK, age=2)
    save(machine, LEXER, prompt("hi\nthere"), title="a \x1b[31mtitle\u202e", age=1)
    save(machine, OTHER, prompt("x"), cwd=elsewhere)
    assert lines(machine, "list") == [
        "id        changed           messages  model     title or first prompt",
        "bbbbbbbb  2026-11-30 12:00  1         scripted  a \\x1b[31mtitle\\u202e",
        "aaaaaaaa  2026-11-30 12:00  4         scripted  mend the parser",
    ]
    assert [row.split()[0] for row in lines(machine, "list", "--all")[1:]] == [
        "cccccccc",
        "bbbbbbbb",
        "aaaaaaaa",
    ]
    assert lines(machine, "list", "--cwd", elsewhere)[1].startswith("cccccccc")
    listed = value(machine, "list")
    fits(listed, "SessionRows")
    assert [row["session_id"] for row in listed["sessions"]] == [LEXER, PARSER]


def test_an_empty_list_says_where_to_look(machine: Machine) -> None:
    told = f"no session of {machine.cwd} is saved; --all lists those of every folder"
    assert lines(machine, "list") == lines(machine, "tree") == [told]
    assert lines(machine, "list", "--all") == ["no session is saved"]
    assert value(machine, "list") == {"sessions": []}


def test_a_conversation_is_shown_with_the_numbers_that_fork_takes(machine: Machine) -> None:
    path = save(machine, PARSER, *TALK, title="the parser", parent=LEXER, fork_point=2)
    shown = lines(machine, "show", "aaaa")
    assert shown[:8] == [
        "the parser",
        f"  session  {PARSER}",
        f"  folder   {machine.cwd}",
        f"  file     {path}",
        "  model    scripted/scripted",
        "  begun    2026-11-30 12:00",
        f"  fork of  {LEXER}, message 2",
        "  tokens   0 in, 0 out",
    ]
    assert shown[9:15] == [
        "[1] user, 2026-11-30 12:00",
        "mend the parser",
        "",
        "[2] assistant, 2026-11-30 12:00",
        "Looking.",
        '  bash {"command":"make"}',
    ]
    assert shown[16:19] == ["[3] tool, 2026-11-30 12:00", "  failed:", "  | line 0"]
    assert "  | … 10 more lines" in shown
    assert shown[-1] == "Mended. red ␇"
    assert lines(machine, "show", path) == shown


def test_a_name_of_a_file_is_a_line_whatever_is_in_it(machine: Machine) -> None:
    path = save(machine, PARSER, *TALK).rename(machine.cwd / "a\nb.jsonl")
    assert f"  file     {machine.cwd}/a\\nb.jsonl" in lines(machine, "show", path)
    assert f"no session file {machine.cwd}/c\\nd.jsonl; " in failed(machine, 2, "rm", "./c\nd.jsonl", "--yes")


def test_json_of_a_conversation_has_the_shapes_of_the_methods(machine: Machine) -> None:
    save(machine, PARSER, *TALK)
    shown = value(machine, "show", PARSER)
    fits(shown["session"], "SessionRow")
    fits({"messages": shown["messages"]}, "Messages")
    assert [row["message_id"] for row in shown["messages"]] == [1, 2, 3, 4]


def test_a_summary_is_shown_as_one_and_names_no_session(machine: Machine) -> None:
    """It stands in a file of its own as the first row once a session was exported and imported again."""
    summary = {**prompt(f"{SUMMARY_HEADING}\n\nThe parser is mended."), "meta": {"summary": "1"}}
    picture = {"mime_type": "image/png", "data": "iVBORw=="}
    context = {"text": "Context from the user's editor:\n\nFile lexer.py"}
    turn = {**said("user", 2, {"text": "now the lexer"}, context, picture), "meta": {"turn_id": "b2c7"}}
    save(machine, PARSER, summary, turn)
    shown = lines(machine, "show", PARSER)
    assert shown[0] == "now the lexer"
    assert shown[-10:-8] == ["[1] summary, 2026-11-30 12:00", "The parser is mended."]
    assert shown[-6:-3] == ["now the lexer", "", "Context from the user's editor:"]
    assert shown[-1] == "[image/png, 4 bytes]"
    rows = value(machine, "show", PARSER)["messages"]
    assert [row.get("turn_id") for row in rows] == [None, "b2c7"]
    fits({"messages": rows}, "Messages")


def test_the_tree_draws_forks_below_what_they_began_as(machine: Machine) -> None:
    ids = [f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123456"]
    save(machine, ids[0], prompt("one"), age=6)
    save(machine, ids[1], prompt("two"), age=5, parent=ids[0], fork_point=1)
    save(machine, ids[2], prompt("three"), age=4, parent=ids[1], fork_point=2)
    save(machine, ids[3], prompt("four"), age=3, parent=ids[0], fork_point=3)
    save(machine, ids[4], prompt("five"), age=2, parent=OTHER, fork_point=1)
    save(machine, ids[5], prompt("six"), age=1, parent=ids[5], fork_point=1)
    assert lines(machine, "tree") == [
        "11111111  one  (1 message)",
        "├─ 22222222  two  (from message 1, 1 message)",
        "│  └─ 33333333  three  (from message 2, 1 message)",
        "└─ 44444444  four  (from message 3, 1 message)",
        "55555555  five  (from message 1, 1 message; its parent cccccccc is gone)",
        "66666666  six  (from message 1, 1 message)",
    ]
    drawn = value(machine, "tree")["sessions"]
    assert [row["depth"] for row in drawn] == [0, 1, 2, 1, 0, 0]


# Copying


def test_what_is_exported_can_be_imported_and_forked(machine: Machine) -> None:
    save(machine, PARSER, *TALK)
    page, text_file, rows = (machine.root / name for name in ("out.html", "out.md", "out.zotsession"))
    assert lines(machine, "export", "aaaa", "-o", page) == [str(page)]
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert value(machine, "export", "aaaa", "-o", text_file) == {"path": str(text_file)}
    assert "mend the parser" in text_file.read_text()
    printed = lines(machine, "export", "aaaa")
    assert [json.loads(line)["type"] for line in printed][:2] == ["meta", "message"]
    assert value(machine, "export", "aaaa", "--format", "markdown")["content"] == text_file.read_text()
    rows.write_text("\n".join(printed) + "\n")

    elsewhere = machine.root / "elsewhere"
    elsewhere.mkdir()
    made = value(machine, "import", rows, "--cwd", elsewhere)["session"]
    fits(made, "SessionRow")
    assert (made["cwd"], made["message_count"]) == (str(elsewhere), 4)
    (line,) = lines(machine, "fork", made["session_id"][:8], "2")
    short, path = line.split()
    assert Path(path).parent == Path(made["path"]).parent
    forked = value(machine, "show", short)["session"]
    assert (forked["parent"], forked["fork_point"]) == (made["session_id"], 2)
    whole = value(machine, "fork", PARSER)["session"]
    assert (whole["message_count"], whole["fork_point"]) == (4, 4)


def test_a_session_can_be_imported_from_standard_input(machine: Machine) -> None:
    data = save(machine, PARSER, *TALK).read_bytes()
    done = machine.run("sessions", "import", "-", "--json", stdin=data)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["session"]["message_count"] == 4


# Changing


def test_a_title_is_given_and_taken_away(machine: Machine) -> None:
    save(machine, PARSER, *TALK)
    assert lines(machine, "rename", "aaaa", "the parser") == ["aaaaaaaa  the parser"]
    assert value(machine, "rename", "aaaa", "")["session"].get("title") is None
    assert lines(machine, "list")[1].endswith("mend the parser")


def test_removing_wants_a_yes_and_removes_all_or_nothing(machine: Machine) -> None:
    parser, lexer = save(machine, PARSER, *TALK), save(machine, LEXER, *TALK)
    assert failed(machine, 2, "rm", "aaaa") == "rm asks before it removes, and here it cannot: add --yes\n"
    assert "no session 'zzzz' is saved" in failed(machine, 2, "rm", "--yes", "aaaa", "zzzz")
    assert parser.exists()
    assert lines(machine, "rm", "--yes", "aaaa", lexer) == ["removed aaaaaaaa", "removed bbbbbbbb"]
    assert not (parser.exists() or lexer.exists())


def test_what_was_removed_is_said_though_one_could_not_be_and_one_named_twice_goes_once(
    machine: Machine,
) -> None:
    parser, lexer = save(machine, PARSER, *TALK), save(machine, LEXER, *TALK)
    with lexer.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = machine.run("sessions", "rm", "aaaa", parser, "bbbb", "--yes")
    assert (done.returncode, done.stdout) == (1, "removed aaaaaaaa\n")
    assert done.stderr.startswith("zotd: sessions: process ")
    assert (parser.exists(), lexer.exists()) == (False, True)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1)])
def test_on_a_terminal_removing_asks(machine: Machine, answer: str, code: int) -> None:
    path = save(machine, PARSER, *TALK)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [machine.program, "sessions", "rm", "aaaa"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=machine.env,
        cwd=machine.cwd,
        text=True,
    ) as process:
        os.close(theirs)
        os.write(ours, answer.encode())
        _, errors = process.communicate(timeout=LONG)
    os.close(ours)
    assert process.returncode == code
    assert errors.startswith("aaaaaaaa  4 messages  mend the parser\nremove for good? [y/N] ")
    assert path.exists() is bool(code)


def test_on_a_terminal_a_row_is_a_line(machine: Machine) -> None:
    save(machine, PARSER, prompt("a long story 漢字 " * 12))
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 64, 0, 0))
    command = [str(machine.program), "sessions", "list"]
    done = subprocess.run(command, stdout=theirs, env=machine.env, cwd=machine.cwd, timeout=LONG, check=True)
    os.close(theirs)
    rows = os.read(ours, 1 << 16).decode().splitlines()
    os.close(ours)
    assert done.returncode == 0
    assert len(rows) == 2
    assert rows[1].endswith("…")
    assert len(re.sub("[漢字]", "xx", rows[1])) <= 64


# What goes wrong


def test_a_session_that_is_not_there_exits_2_and_names_those_that_are(machine: Machine) -> None:
    save(machine, PARSER, *TALK)
    save(machine, PARSER[:-1] + "1", *TALK, cwd=machine.root / "x")
    said = failed(machine, 2, "show", "dddd")
    assert said.startswith("no session 'dddd' is saved; the newest are: aaaaaaaa (mend the parser), ")
    assert said.endswith("; a file is named with a slash, as in ./dddd\n")
    assert "several sessions begin with 'aaaa': " in failed(machine, 2, "show", "aaaa")
    assert "there is no session file" in failed(machine, 2, "show", "./gone.jsonl")
    assert "at least 4 characters" in failed(machine, 2, "show", "a")
    assert failed(machine, 2, "fork", PARSER, "9").endswith(
        "has no message 9; its last is 4; `zotd sessions show` has their numbers in brackets\n"
    )
    assert failed(machine, 2, "import", "gone.jsonl") == f"there is no file {machine.cwd}/gone.jsonl\n"


def test_what_cannot_be_done_exits_1_and_says_what_to_do(machine: Machine) -> None:
    path = save(machine, PARSER, *TALK)
    (machine.cwd / "notes.txt").write_text("precious")
    (machine.cwd / "bad.jsonl").write_text("precious\n")
    said = failed(machine, 1, "export", "aaaa", "-o", "notes.txt")
    assert "notes.txt cannot be made: File exists; name a file that does not exist" in said
    assert (machine.cwd / "notes.txt").read_text() == "precious"
    assert failed(machine, 1, "import", "bad.jsonl") == (
        f"{machine.cwd}/bad.jsonl, line 1: malformed json: unexpected character, expected a JSON value at "
        "byte 0; "
        "a session has JSON lines, as zot and zotd write them\n"
    )
    (machine.cwd / "bad.jsonl").write_text("{}\n")
    assert "line 1: expected the row `meta`, got a row without a `type`; " in failed(
        machine, 1, "import", "bad.jsonl"
    )
    assert "bad.jsonl" in failed(machine, 1, "show", "bad.jsonl")
    with path.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for argv in (["rename", "aaaa", "x"], ["rm", "--yes", "aaaa"]):
            assert f"has the session open: {path}; end that process first" in failed(machine, 1, *argv)
    assert path.exists()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["lst"], "invalid choice: 'lst' (choose from"),
        (["list", "--al"], "unrecognized arguments: --al"),
        (["list", "--api-key", "planted", "--token=planted"], "unrecognized arguments: --api-key\n"),
        (["list", "--cwd", "~nobody-of-that-name"], "there is no such user's home"),
        (["show"], "the following arguments are required: SESSION"),
        (["fork", "aaaa", "two"], "MESSAGE: two is no number of a message; `show` has them in brackets"),
        (["export", "aaaa", "--format", "pdf"], "--format: pdf is none of jsonl, markdown, html"),
        (["import", "x", "--cwd", "gone"], "gone is not a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_exits_2_and_names_what_is_wrong(
    machine: Machine, argv: list[str], said: str
) -> None:
    assert said in failed(machine, 2, *argv)


def test_help_of_all_and_of_one_command(machine: Machine) -> None:
    every = lines(machine)
    assert every == lines(machine, "--help")
    assert {line.split()[0] for line in every if line.startswith("    ")} == {
        "list", "tree", "show", "export", "import", "fork", "rename", "rm",
    }  # fmt: skip
    assert "usage: zotd sessions export" in lines(machine, "export", "--help")[0]


def test_a_reader_who_has_seen_enough_may_hang_up(machine: Machine) -> None:
    save(machine, PARSER, *TALK * 2000)
    command = f"{machine.program} sessions show aaaa | head -1"
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, env=machine.env, timeout=LONG, check=True
    )
    assert (done.stdout, done.stderr) == (b"mend the parser\n", b"")
