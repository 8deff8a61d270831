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
        self.script = machine.script(*ROUND * 4)
        self.session = ""
        self.announced: dict[int, list[Frame]] = {}
        self.said = 0

    def live(self) -> None:
        """Resume, check what is there, start turns, be killed."""
        process = self.machine.rpc(*self.script)
        process.greet()
        if self.session:
            self.resume(process)
        else:
            self.session = process.session()
        process.events.clear()
        for _ in range(self.dice.randrange(1, 4)):
            self.said += 1
            how = self.dice.choice(("queue", "steer"))
            process.request("turn/start", session_id=self.session, text=f"go {self.said}", if_busy=how)
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
        session = process.call("session/load", session_id=self.session)["session"]
        rows = process.call("session/messages", session_id=self.session)["messages"]
        assert session["message_count"] == len(rows)
        assert [row["message_id"] for row in rows] == list(range(1, len(rows) + 1))
        self.holds(rows)
        well_formed(rows)
        for line in Path(session["path"]).read_bytes().splitlines() if rows else []:
            assert isinstance(json.loads(line), dict)

    def holds(self, rows: list[Frame]) -> None:
        by_id = {row["message_id"]: row for row in rows}
        for number, events in self.announced.items():
            assert number in by_id, f"row {number} is lost: {events}"
            row = by_id[number]
            for event in events:
                if event["type"] == "tool_result":
                    results = {block["call_id"]: block for block in row["content"]}
                    result = results[event["id"]]
                    assert result["content"] == event["content"]
                    assert result.get("is_error", False) == event["is_error"]
                else:
                    assert row["role"] == event["type"].removesuffix("_message")
                    assert row["content"] == event["content"]


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
