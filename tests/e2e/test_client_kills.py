"""Clients die at random points of a turn: those who stay, and those who come back, miss nothing."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.clients import LONG, Frame, Machine, judge_event

SCRIPT: list[Frame] = [
    {
        "match": "^tool",
        "times": 0,
        "reply": [
            {"text": "x" * 3_000, "delta_chars": 100},
            {"tool_call": {"name": "bash", "args": {"command": "seq 300"}}},
        ],
    },
    {"reply": [{"text": "y" * 3_000, "delta_chars": 100, "delay_ms": 1}], "times": 0},
]
# The model sees the same last text after a tool: each turn with a tool ends at the limit of its steps.
STEPS = 2


class Mortal:
    """A client that keeps what it understood, and whose connections do not last."""

    def __init__(self, path: Path, session: Frame) -> None:
        self.path = path
        self.session = session["session_id"]
        self.epoch = session["epoch"]
        self.seen = session["next_seq"] - 1
        self.events: list[Frame] = []
        self.answers: dict[int, Frame] = {}
        self.number = 0

    def connect(self) -> None:
        self.line = socket.socket(socket.AF_UNIX)
        self.line.settimeout(LONG)
        self.line.connect(str(self.path))
        self.held = b""
        since = {"session_id": self.session, "epoch": self.epoch, "since": self.seen}
        hello = self.request("initialize", protocol_version=1), self.request("session/attach", **since)
        self.line.sendall(b"".join(hello))

    def request(self, method: str, **params: Any) -> bytes:
        self.number += 1
        return (
            json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}).encode()
            + b"\n"
        )

    def prompt(self, text: str) -> bytes:
        return self.request("turn/start", session_id=self.session, text=text, key=text)

    def read(self, most: int) -> int:
        """Read some bytes, and take what is whole."""
        data = self.line.recv(most)
        assert data, "the daemon hung up"
        *lines, self.held = (self.held + data).split(b"\n")
        for line in lines:
            self.take(json.loads(line))
        return len(data)

    def take(self, message: Frame) -> None:
        if "method" not in message:
            assert "result" in message, message
            self.answers[message["id"]] = message["result"]
            return
        event = {"type": message["method"], **message["params"]}
        assert event["seq"] == self.seen + 1, (event, self.seen)
        self.seen = event["seq"]
        self.events.append(event)

    def over(self, text: str) -> bool:
        """Whether the turn of a prompt is known to have ended."""
        mine = [e["turn_id"] for e in self.events if e["type"] == "user_message" and said(e) == text]
        return bool(mine) and any(e["type"] == "done" and e["turn_id"] == mine[0] for e in self.events)

    def die(self) -> None:
        self.line.close()


def said(event: Frame) -> str:
    text: str = event["content"][0]["text"]
    return text


def kill(machine: Machine, times: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    daemon, path = machine.listen("--max-steps", str(STEPS), *machine.script(*SCRIPT))
    session = machine.connect(path).greet().call("session/new", cwd=str(machine.cwd))["session"]
    witness, mortal = Mortal(path, session), Mortal(path, session)
    witness.connect()
    prompts = [f"{dice.choice(('tool', 'talk'))} {number}" for number in range(times)]
    for text in prompts:
        mortal.connect()
        frame = mortal.prompt(text)
        match dice.choice(("while reading", "while reading", "while writing", "at once")):
            case "while reading":
                mortal.line.sendall(frame)
                size = dice.randrange(20_000)
                while size > 0 and not mortal.over(text):
                    size -= mortal.read(min(size, 700))
            case "while writing":
                mortal.line.sendall(frame[: dice.randrange(len(frame) - 1)])
            case _:
                mortal.line.sendall(frame)
        mortal.die()
        # It cannot know what arrived: it comes back and says the same again, which its key makes harmless.
        mortal.connect()
        again = mortal.prompt(text)
        mortal.line.sendall(again)
        if dice.random() < 0.5:
            while mortal.number not in mortal.answers:
                mortal.read(1 << 16)
            mortal.die()
        else:
            while not mortal.over(text):
                mortal.read(1 << 16)
            mortal.die()
        while witness.seen < mortal.seen:
            witness.read(1 << 16)
    mortal.connect()
    for client in (witness, mortal):
        while not all(client.over(text) for text in prompts[-3:]) or client.held:
            client.read(1 << 16)
    last = max(witness.seen, mortal.seen)
    for client in (witness, mortal):
        while client.seen < last:
            client.read(1 << 16)
        client.die()
    assert witness.events == mortal.events
    assert [e["seq"] for e in witness.events] == list(range(session["next_seq"], last + 1))
    for event in witness.events:
        judge_event(event)
    assert [said(e) for e in witness.events if e["type"] == "user_message"] == prompts
    done = [e["turn_id"] for e in witness.events if e["type"] == "done"]
    assert len(done) == len(set(done)) == times
    assert daemon.stderr == ""


def test_who_stays_and_who_comes_back_sees_every_event_once(machine: Machine) -> None:
    kill(machine, 20)


@pytest.mark.long
def test_who_stays_and_who_comes_back_sees_every_event_once_after_200_kills(machine: Machine) -> None:
    kill(machine, 200)
