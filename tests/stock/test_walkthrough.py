"""The walkthrough of the protocol is true: its lines are played against a real daemon."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.clients import Client, Frame, Machine

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocol-walkthrough.md"
MORE = "…"
LOST = "(the connection is lost)"
CWD = "/home/user/project"
SCRIPT = PAGE.parents[1] / "examples" / "scripts" / "walkthrough.yaml"


def lines() -> Iterator[tuple[str, Any]]:
    """Which way a line goes, and what it says; `…` becomes a member or an element of that name."""
    for line in re.findall(r"^    (.+)$", PAGE.read_text("utf-8"), re.MULTILINE):
        if line == LOST:
            yield LOST, None
            continue
        way, _, said = line.partition(" ")
        assert way in ("→", "←"), line
        text = said.replace(f"[{MORE}]", f'["{MORE}"]').replace(MORE + "}", f'"{MORE}":0}}')
        yield way, json.loads(text)


class Player:
    """Plays the client's lines. Names that the page made up stand for what the daemon says."""

    def __init__(self, machine: Machine, path: Path) -> None:
        self._machine = machine
        self._path = path
        self._names: dict[str, str] = {CWD: str(machine.cwd)}
        self._answers: dict[Any, Frame] = {}
        self._events: list[Frame] = []
        self.connect()

    def connect(self) -> None:
        self.client: Client = self._machine.connect(self._path)

    def said(self, value: Any) -> Any:
        """A line of the page with the daemon's names."""
        if isinstance(value, dict):
            return {key: self.said(item) for key, item in value.items()}
        return self._names.get(value, value) if isinstance(value, str) else value

    def send(self, line: Frame) -> None:
        self.client.send({"jsonrpc": "2.0", **self.said(line)})

    def expect(self, line: Frame) -> None:
        """The next answer of its id, or the next event: they come in their order, answers in between."""
        waiting = self._answers if "id" in line else self._events
        while not (line["id"] in self._answers if "id" in line else self._events):
            message = self.client.take()
            assert message.pop("jsonrpc") == "2.0"
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self._events.append(message)
        got = self._answers.pop(line["id"]) if waiting is self._answers else self._events.pop(0)
        self.compare(line, got, "$")

    def compare(self, said: Any, got: Any, place: str) -> None:
        """Fail unless the daemon said what stands on the page; `…` allows for more."""
        if isinstance(said, dict):
            assert said.keys() - {MORE} <= got.keys(), place
            assert MORE in said or said.keys() == got.keys(), (place, got)
            for key in said.keys() - {MORE}:
                self.compare(said[key], got[key], f"{place}.{key}")
        elif isinstance(said, list) and said != [MORE]:
            assert len(said) == len(got), (place, got)
            for at, (one, other) in enumerate(zip(said, got, strict=True)):
                self.compare(one, other, f"{place}[{at}]")
        elif place.endswith((".session_id", ".epoch", ".turn_id", ".active_turn", ".cwd")):
            assert self._names.setdefault(said, got) == got, place
        elif place.endswith(".time"):
            assert re.sub(r"\d", "0", said) == re.sub(r"\d", "0", got), place
        elif said != [MORE]:
            assert said == got, place


def test_the_walkthrough_happens_as_it_says(machine: Machine) -> None:
    notes = machine.cwd / "notes.txt"
    os.mkfifo(notes)  # so that the command runs until its output is due
    _, path = machine.listen("--provider", "scripted", "--script", str(SCRIPT))
    player = Player(machine, path)
    for way, line in lines():
        if way == LOST:
            player.client.hang_up()
            player.connect()
        elif way == "→":
            player.send(line)
        else:
            if line.get("method") == "tool_progress":
                notes.write_text("buy milk\n")
            player.expect(line)
    assert player.client.raw() is None


def test_it_is_a_hundred_lines_from_initialize_to_done() -> None:
    page = PAGE.read_text("utf-8").splitlines()
    said = list(lines())
    assert len(page) <= 100
    assert said[0][1]["method"] == "initialize"
    assert [line["method"] for _, line in said if line and "method" in line].count("done") == 2
