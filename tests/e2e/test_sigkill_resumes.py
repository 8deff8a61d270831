"""zotd is killed at random points of its turns: what was announced is there when the session goes on."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Frame, Machine, Process, gone

KEPT = ("user_message", "assistant_message", "tool_result")
SUMMARY: Frame = {"match": "^Summarise", "reply": [{"text": "in short", "delay_ms": 10}], "times": 0}
ROUND: list[Frame] = [
    {
        "reply": [
            {"thinking": "hm"},
            {"text": "two at once", "delay_ms": 3},
            {"tool_call": {"name": "bash", "args": {"command": "echo one"}}},
            {"tool_call": {"name": "bash", "args": {"command": "sleep 0.02; echo two"}}},
        ]
    },
    {"reply": [{"tool_call": {"name": "write", "args": {"path": "a.txt", "content": "x" * 9_000}}}]},
    {"reply": [{"tool_call": {"name": "read", "args": {"path": "a.txt"}}}, {"tool_call": {"name": "none"}}]},
    {"reply": [{"text": "all is done", "delay_ms": 3}]},
]


class Lives:
    """One saved session that many processes have had, each of which was killed."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.dice = random.Random(seed)
        self.script = machine.script(SUMMARY, *ROUND * 4)
        self.session = self.epoch = ""
        self.announced: dict[int, list[Frame]] = {}
        self.said = 0

    def live(self) -> None:
        """Resume, check what is there, start turns, be killed."""
        process = self.machine.rpc(*self.script)
        process.greet()
        if self.announced:
            self.resume(process)
        else:  # one in which nothing was said leaves nothing
            new = process.call("session/new")["session"]
            self.session, self.epoch = new["session_id"], new["epoch"]
        for _ in range(self.dice.randrange(1, 4)):
            self.said += 1
            how = self.dice.choice(("queue", "steer"))
            process.request("turn/start", session_id=self.session, text=f"go {self.said}", if_busy=how)
            if self.dice.random() < 0.2:
                process.request("session/compact", session_id=self.session)
        if self.dice.random() < 0.5:
            for _ in range(self.dice.randrange(1, 60)):
                process.take()
        else:
            gone(process.popen.pid, self.dice.random() * 0.4)
        process.signal(signal.SIGKILL)
        process.exit_code()
        for message in left(process):
            if "method" in message:
                process.events.append({"type": message["method"], **message["params"]})
        for event in process.events:
            if event["type"] in KEPT:
                self.announced.setdefault(event["message_id"], []).append(event)

    def resume(self, process: Process) -> None:
        if self.dice.random() < 0.5:
            session = process.call("session/load", session_id=self.session)["session"]
        else:
            asked = {"session_id": self.session, "epoch": self.epoch, "since": self.dice.randrange(99)}
            session = process.call("session/attach", **asked)["session"]
            resync = process.event("resync")
            assert resync["seq"] == resync["session"]["next_seq"] - 1
            assert resync["session"]["last_message_id"] == session["last_message_id"]
        assert session["epoch"] != self.epoch
        self.epoch = session["epoch"]
        process.events.clear()
        rows = process.call("session/messages", session_id=self.session, limit=1_000)["messages"]
        assert session["message_count"] == len(rows)
        if rows:
            first, last = rows[0]["message_id"], session["last_message_id"]
            assert [row["message_id"] for row in rows] == list(range(first, last + 1))
            file = [json.loads(line) for line in Path(session["path"]).read_bytes().splitlines()]
            self.holds({row["message_id"]: row for row in rows}, first, file)
        well_formed(rows)

    def holds(self, rows: dict[int, Frame], first: int, file: list[Frame]) -> None:
        """What was announced is a row still, or, where a summary stands for it, one of the file."""
        words, calls = in_file(file)
        for number, events in self.announced.items():
            for event in events:
                if number < first:
                    texts = {block["text"] for block in event["content"] if block["type"] == "text"}
                    assert texts <= words
                    assert event.get("id") is None or event["id"] in calls
                    continue
                assert number in rows, f"row {number} is lost: {event}"
                row = rows[number]
                if event["type"] == "tool_result":
                    results = {block["call_id"]: block for block in row["content"]}
                    result = results[event["id"]]
                    assert result["content"] == event["content"]
                    assert result.get("is_error", False) == event["is_error"]
                else:
                    assert row["role"] == event["type"].removesuffix("_message")
                    assert row["content"] == event["content"]


def in_file(file: list[Frame]) -> tuple[set[str], set[str]]:
    """All texts in rows of a session file, and the calls that have a result there."""
    words, calls = set(), set()
    for row in file:
        for block in row["message"]["content"] if row["type"] == "message" else [row.get("result", {})]:
            if "call_id" in block:
                calls.add(block["call_id"])
            words |= {part["text"] for part in [block, *block.get("content", [])] if "text" in part}
    return words, calls


def left(process: Process) -> list[Any]:
    """What it had written before it died. A last frame may be cut off."""
    messages: list[Any] = []
    while True:
        try:
            message = process.raw()
        except json.JSONDecodeError:
            continue
        if message is None:
            return messages
        messages.append(message)


def well_formed(rows: list[Frame]) -> None:
    """Every call has exactly one result, in the row after it; nothing else has one."""
    for at, row in enumerate(rows):
        calls = [block["id"] for block in row["content"] if block["type"] == "tool_call"]
        if calls:
            assert row["role"] == "assistant"
            assert rows[at + 1]["role"] == "tool"
        if row["role"] == "tool":
            asked = [block["id"] for block in rows[at - 1]["content"] if block["type"] == "tool_call"]
            assert sorted(asked) == sorted(block["call_id"] for block in row["content"])


def kill(machine: Machine, seed: int, times: int) -> None:
    lives = Lives(machine, seed)
    for number in range(times):
        try:
            lives.live()
        except BaseException:
            print(f"seed {seed}, life {number}")
            raise
    assert lives.announced
    after = machine.run("-c", "-p", "--provider", "scripted", "are you there?")
    assert after.stdout == "You said: are you there?\n", after.stderr
    last = machine.rpc("--provider", "scripted")
    last.greet()
    lives.resume(last)


def test_what_was_announced_before_a_kill_is_there_after_it(machine: Machine) -> None:
    kill(machine, random.randrange(1 << 32), 8)


@pytest.mark.long
@pytest.mark.parametrize("_", range(5))
def test_what_was_announced_before_twenty_kills_is_there_after_them(machine: Machine, _: int) -> None:
    kill(machine, random.randrange(1 << 32), 20)
