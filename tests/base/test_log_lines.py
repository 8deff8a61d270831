"""Lines of the log: what they look like, where they go, and that nothing waits for them."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zotd.base.limits import Limits
from zotd.base.log import log, say, wanted
from zotd.base.log_file import LogFile
from zotd.base.log_lines import LogLines, start_log
from zotd.base.secret import Secret

LIMITS = replace(Limits(), log_gather_s=0.0)


class Memory:
    """A sink that may be full or stuck."""

    def __init__(self) -> None:
        self.data = b""
        self.room = True
        self.go = threading.Event()
        self.go.set()
        self.asked = threading.Event()

    def write(self, data: bytes) -> bool:
        self.asked.set()
        self.go.wait()
        if self.room:
            self.data += data
        return self.room

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.data.splitlines()]


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def lines(memory: Memory) -> Iterator[LogLines]:
    made = LogLines(LIMITS, memory, pretty=False)
    yield made
    memory.go.set()
    made.end()


def test_a_line_begins_with_when_how_bad_and_what(memory: Memory, lines: LogLines) -> None:
    lines.put("request", "info", {"method": "ping", "request": 1, "duration_ms": 0.5})
    lines.end()
    (line,) = memory.lines
    assert [*line] == ["time", "level", "event", "method", "request", "duration_ms"]
    assert (line["level"], line["event"], line["method"]) == ("info", "request", "ping")
    assert line["time"].endswith("Z")


def test_no_text_can_begin_a_line_of_its_own(memory: Memory, lines: LogLines) -> None:
    lines.put("request", "info", {"client": 'x"}\n{"event":"forged"}\r\x1b[2J\u2028\ud800'})
    lines.end()
    assert len(memory.data.splitlines()) == 1
    assert [line["event"] for line in memory.lines] == ["request"]
    assert b"\x1b" not in memory.data


def test_no_key_gets_into_a_line(memory: Memory, lines: LogLines) -> None:
    held = Secret("a planted key/9")
    lines.put(
        "request",
        "warning",
        {
            "error": "bad a planted key/9 and sk-abcdefgh1234",
            "api_key": "other",
            "of": held,
            "more": [{"token": "t"}],
        },
    )
    lines.end()
    (line,) = memory.lines
    assert line["error"] == "bad *** and ***"
    assert (line["api_key"], line["of"], line["more"]) == ("***", "***", [{"token": "***"}])


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_a_field_that_cannot_be_shown_costs_its_line_and_no_other(memory: Memory, lines: LogLines) -> None:
    lines.put("first", "info", {"what": Unspeakable()})
    lines.put("second", "info", {"level of": 1})
    lines.end()
    assert [line["event"] for line in memory.lines][-1] == "second"


def test_a_long_value_is_cut_and_tells_its_length(memory: Memory, lines: LogLines) -> None:
    lines.put("request", "info", {"error": "x" * 100_000})
    lines.end()
    assert memory.lines[0]["error"].endswith("… (100000 characters)")
    assert len(memory.data) < 5_000


def test_lines_that_find_no_room_are_counted_and_told_of_once_there_is(
    memory: Memory, lines: LogLines
) -> None:
    memory.room = False
    lines.put("first", "info", {})
    memory.asked.wait()
    memory.room = True
    lines.put("second", "info", {})
    lines.end()
    assert [line["event"] for line in memory.lines] == ["log lines dropped", "second"]
    assert memory.lines[0]["count"] == 1


def test_nobody_waits_for_a_disk_that_is_stuck(memory: Memory) -> None:
    lines = LogLines(replace(LIMITS, log_lines_waiting=10), memory, pretty=False)
    memory.go.clear()
    lines.put("stuck", "info", {})
    memory.asked.wait()
    for number in range(15):
        lines.put("line", "info", {"number": number})
    memory.go.set()
    lines.put("after", "info", {})
    lines.end()
    events = [line["event"] for line in memory.lines]
    assert events[0] == "stuck"
    assert events.count("line") + sum(line.get("count", 0) for line in memory.lines) >= 15
    assert "log lines dropped" in events or events.count("line") == 15


def test_below_its_level_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    lines = start_log("warn", LIMITS)
    assert (wanted("info"), wanted("warning")) == (False, True)
    log("quiet")
    log("loud", "warning", session="s1")
    say("plain words", "said")
    lines.end()
    log("over", "error")
    out, err = capfd.readouterr()
    plain, line = sorted(err.splitlines(), key=lambda text: text[0] == "{")
    assert (out, plain) == ("", "zotd: plain words")
    assert json.loads(line)["session"] == "s1"


def test_on_a_terminal_lines_are_for_people_and_cannot_move_the_cursor() -> None:
    ours, terminal = pty.openpty()
    before = os.dup(2)
    os.dup2(terminal, 2)
    try:
        lines = start_log("info", LIMITS)
        log("request", method="ping", client="x\x1b[2J\nforged")
        lines.end()
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(terminal)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "request" in shown
    assert "ping" in shown
    assert shown.count("\n") == 1
    assert "\x1b[2J" not in shown
    assert "\\x1b[2J\\x0aforged" in shown


def test_a_daemon_in_the_background_prints_into_its_log(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "zotd.log"
    streams = [os.dup(1), os.dup(2)]
    printed = sys.stdout, sys.stderr
    try:
        lines = start_log("info", LIMITS, plain=False, path=path)
        say("plain", "said", detail=1)
        print("a library prints\nsk-abcdefgh1234", file=sys.stderr)
        lines.end()
        os.write(2, b"the interpreter ends\n")
    finally:
        sys.stdout, sys.stderr = printed
        for stream, saved in enumerate(streams, 1):
            os.dup2(saved, stream)
            os.close(saved)
    *told, last = path.read_text().splitlines()
    assert last == "the interpreter ends"
    assert [json.loads(line).get("text", "said") for line in told] == ["said", "a library prints", "***"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_full_file_is_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "zotd.log"
    file = LogFile(path, most=10, kept=2)
    for letter in b"abcd":
        assert file.write(bytes([letter]) * 7 + b"\n")
    file.close()
    assert sorted((each.name, each.read_text()[0]) for each in tmp_path.iterdir()) == [
        ("zotd.log", "d"),
        ("zotd.log.1", "c"),
        ("zotd.log.2", "b"),
    ]


def test_a_file_that_somebody_took_away_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "zotd.log"
    file = LogFile(path, most=100, kept=2)
    assert file.write(b"first\n")
    path.unlink()
    assert file.write(b"second\n")
    file.close()
    assert path.read_text() == "second\n"


FULL = """
import resource, sys
from pathlib import Path
from zotd.base.log_file import LogFile
file = LogFile(Path(sys.argv[1]), most=1 << 20, kept=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
print(file.write(b"first\\n"), file.write(b"too long\\n"), file.write(b"ok\\n"))
"""


def test_a_line_that_a_full_disk_cannot_hold_is_left_out_whole(tmp_path: Path) -> None:
    path = tmp_path / "zotd.log"
    done = subprocess.run(
        [sys.executable, "-c", FULL, path], capture_output=True, text=True, timeout=15, check=False
    )
    assert done.stdout == "True False True\n", done.stderr
    assert path.read_text() == "first\nok\n"


@pytest.mark.parametrize("what", ["link", "pipe", "second name", "linked directory", "no directory"])
def test_a_log_that_may_be_another_file_is_refused_by_name(tmp_path: Path, what: str) -> None:
    target, path = tmp_path / "precious", tmp_path / "logs" / "zotd.log"
    target.write_text("keep")
    if what == "linked directory":
        (tmp_path / "real").mkdir()
        path.parent.symlink_to(tmp_path / "real")
    elif what == "no directory":
        path.parent.write_text("")
    else:
        path.parent.mkdir()
        if what == "link":
            path.symlink_to(target)
        elif what == "pipe":
            os.mkfifo(path)
        else:
            path.hardlink_to(target)
    with pytest.raises(OSError, match="logs") as refused:
        LogFile(path, most=100, kept=1)
    assert "log" in str(refused.value)
    assert target.read_text() == "keep"
    assert not (tmp_path / "real" / "zotd.log").exists()


def test_a_directory_that_others_could_write_to_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    LogFile(tmp_path / "zotd.log", most=100, kept=1).close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
