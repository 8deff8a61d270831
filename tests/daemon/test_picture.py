"""A session as clients draw it from its events, at random points of random stories."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from tests.clients import Client, Frame, Machine
from tests.daemon.puppets import PANEL, flags, panel, response, words
from zotd.base.limits import Limits
from zotd.protocol.events import EVENTS
from zotd.protocol.session import SessionInfo
from zotd.store.view import SessionView

LOOK: list[Frame] = [
    {
        "match": "^tool",
        "reply": [{"text": "I look."}, {"tool_call": {"name": "bash", "args": {"command": "echo hi"}}}],
        "usage": {"input": 7, "output": 3},
    },
    {"match": "^tool", "reply": [{"text": "I see."}]},
]
"""A call, and what is said of its result: the text that the model goes by stays the same."""
SCRIPT: list[Frame] = [
    *LOOK * 20,
    {"match": "^tool", "reply": [{"text": "I know."}], "times": 0},
    {"match": "^slow", "reply": [{"text": "one two three four", "delay_ms": 15}], "times": 0},
    {"match": "^think", "reply": [{"thinking": "hm"}, {"text": "é\u2028\ud83d"}], "times": 0},
    {"match": "^fail", "error": {"status": 400, "message": "no"}, "times": 0},
    {"match": "^cut", "reply": [{"text": "half"}], "cut": True, "times": 0},
    {"reply": [{"text": "well"}], "usage": {"input": 5, "output": 2}, "times": 0},
]
TEXTS = ("tool", "slow", "slow", "think", "fail", "cut", "plain")


def folded(picture: Frame, events: list[Frame]) -> Frame:
    """What a client knows that has a picture and the events after it."""
    view = SessionView(msgspec.convert(picture, SessionInfo), Limits())
    number: int = picture["next_seq"]
    for event in events:
        if event["type"] != "resync":  # that stands in for whatever is missing up to its number
            assert event.get("first_seq", event["seq"]) == number, (event, number)
        number = event["seq"] + 1
        told: Any = msgspec.convert(event, EVENTS[event["type"]])
        view.fold(told, event["time"], event.get("turn_id"))
    whole: Frame = msgspec.to_builtins(view.info(number))
    return whole


class Story:
    """One session, one client that tells it what to do, others that come and go."""

    def __init__(self, machine: Machine, daemon: Client, path: Any, seed: int) -> None:
        self._machine, self._path = machine, path
        self.dice = random.Random(seed)
        self.client = daemon
        self.first: Frame = daemon.call("session/new", ephemeral=self.dice.random() < 0.5)["session"]
        self.id = self.first["session_id"]
        self.turns: list[str] = []
        self.visitors: list[tuple[Frame, Client]] = []

    def ask(self, method: str, **params: Any) -> Frame:
        """A request that may be refused."""
        return self.client.reply(self.client.request(method, session_id=self.id, **params))

    def events(self, client: Client) -> list[Frame]:
        return [event for event in client.events if event["session_id"] == self.id]

    def act(self) -> None:
        act = self.dice.choice(
            (*[self.prompt] * 5, *[self.puppet] * 4, self.abort, self.unqueue, self.change, self.tidy)
        )
        act()
        if self.dice.random() < 0.2:
            now = self.client.call("session/state", session_id=self.id)["session"]
            # Events may overtake the answer.
            known = [event for event in self.events(self.client) if event["seq"] < now["next_seq"]]
            assert folded(self.first, known) == now
        if self.dice.random() < 0.15:
            self.visit()
        if self.turns and self.dice.random() < 0.2:
            self.ask("turn/wait", turn_id=self.dice.choice(self.turns))

    def prompt(self) -> None:
        busy = self.dice.choice(("queue", "queue", "steer", "steer", "reject"))
        answer = self.ask("turn/start", text=self.dice.choice(TEXTS), if_busy=busy)
        self.accepted(answer)

    def accepted(self, answer: Frame) -> None:
        if "result" in answer:
            self.turns.append(answer["result"]["turn_id"])

    def puppet(self) -> None:
        word = str(self.dice.randrange(99))
        frames = self.dice.choice(
            (
                [{"type": "notify", "level": "error", "message": word}],
                [{"type": "notify", "message": word}, {"type": "display", "text": word}],
                [{"type": "clear_notes"}, {"type": "notify", "message": "\ud800"}],
                [response("open_panel", open_panel={**PANEL, "title": word})],
                [panel(title=word)],
                [{"type": "panel_render", "panel_id": "p1", "title": "T", "lines": [word], "footer": ""}],
                [{"type": "panel_close", "panel_id": "p1"}],
                [response("prompt", prompt="plain")],
                [{"type": "submit", "text": "slow"}],
                [{"type": "register_command", "name": f"c{word}", "description": "d"}],
                ["exit"] if word < "2" else [],
            )
        )
        self.accepted(self.ask("turn/start", text=words(self.dice.choice(("pup", "pup", "pip")), *frames)))

    def abort(self) -> None:
        self.ask("turn/abort", clear_queue=self.dice.random() < 0.5)

    def unqueue(self) -> None:
        if waiting := self.ask("turn/queue")["result"]["turns"]:
            self.ask("turn/unqueue", turn_id=self.dice.choice(waiting)["turn_id"])

    def change(self) -> None:
        method, params = self.dice.choice(
            (
                ("session/rename", {"title": f"title {self.dice.randrange(9)}"}),
                ("session/set", {"reasoning": self.dice.choice(("low", "high", "off"))}),
                ("notes/clear", {}),
                ("panel/close", {"extension": "pup", "panel_id": "p1"}),
                ("session/set", {"model": self.dice.choice(("scripted", "another"))}),
            )
        )
        self.ask(method, **params)

    def tidy(self) -> None:
        """What changes much."""
        method = self.dice.choice(("session/clear", "session/compact", "session/compact", "extension/reload"))
        answer = self.ask(method)
        if method == "session/compact":
            self.accepted(answer)

    def visit(self) -> None:
        visitor = self._machine.connect(self._path).greet()
        self.visitors.append((visitor.call("session/attach", session_id=self.id)["session"], visitor))

    def end(self) -> Frame:
        """The picture once nothing happens any more, also of what extensions do outside of turns."""
        for puppet in ("pup", "pip"):  # what it was sent before is answered before this
            self.accepted(self.ask("turn/start", text=words(puppet)))
        return self.settled()

    def settled(self) -> Frame:
        while True:
            for turn in self.turns:
                self.ask("turn/wait", turn_id=turn)
            now: Frame = self.client.call("session/state", session_id=self.id)["session"]
            waits = now.get("queue") or now["busy"]
            if not waits and self.client.events[-1]["seq"] == now["next_seq"] - 1:
                return now
            if waits:
                self.client.take()


def check(machine: Machine, seeds: range, acts: int) -> None:
    daemon, path = machine.listen(*flags(machine, "pup", "pip", script=SCRIPT))
    for seed in seeds:
        client = machine.connect(path).greet(capabilities={"panels": True, "submit": True})
        story = Story(machine, client, path, seed)
        for _ in range(acts):
            story.act()
        state, whole = story.end(), story.events(client)
        assert folded(story.first, whole) == state, f"seed {seed}"
        for picture, visitor in story.visitors:
            visitor.call("session/detach", session_id=story.id)
            seen = story.events(visitor)
            assert seen == [event for event in whole if event["seq"] >= picture["next_seq"]], f"seed {seed}"
            assert folded(picture, seen) == state, f"seed {seed}"
            visitor.hang_up()
        as_it_is(client, story.id, state)
        client.call("session/close", session_id=story.id)
        client.hang_up()
    assert daemon.stderr == ""


def as_it_is(client: Client, session_id: str, state: Frame) -> None:
    """The picture agrees with what other methods say."""
    messages = client.call("session/messages", session_id=session_id)["messages"]
    assert state["message_count"] == len(messages)
    if messages:
        assert state["last_message_id"] == messages[-1]["message_id"]
    assert client.call("extension/list", session_id=session_id)["extensions"] == state["extensions"]
    assert client.call("turn/queue", session_id=session_id)["turns"] == []
    fresh = client.call("session/state", session_id=session_id)["session"]
    assert fresh == state


def test_the_picture_of_a_session_is_what_its_events_told(machine: Machine) -> None:
    check(machine, range(3), 20)


@pytest.mark.long
def test_the_picture_of_a_session_is_what_its_events_told_in_long_stories(machine: Machine) -> None:
    check(machine, range(100, 125), 60)


def test_who_is_attached_and_attaches_again_sees_no_event_twice(machine: Machine) -> None:
    script = machine.script({"reply": [{"text": "x" * 20_000, "delta_chars": 1}]})
    client = machine.rpc(*script).greet()
    this = {"session_id": client.session()}
    turn = client.call("turn/start", **this, text="go")["turn_id"]
    asked = [client.request("session/attach", **this) for _ in range(30)]
    pictures = [client.reply(number)["result"] for number in asked]
    assert client.call("turn/wait", **this, turn_id=turn)["stop"] == "end_turn"
    while client.events[-1]["type"] != "done":
        client.take()
    assert [event["seq"] for event in client.events] == list(range(1, len(client.events) + 1))
    assert any(1 < picture["next_seq"] < len(client.events) for picture in pictures)


def test_who_loads_a_session_that_runs_misses_nothing_after_the_picture(machine: Machine) -> None:
    script = machine.script({"reply": [{"text": "x" * 60_000, "delta_chars": 1}]})
    _, path = machine.listen(*script)
    first = machine.connect(path).greet()
    this = {"session_id": first.session()}
    guests = [machine.connect(path).greet() for _ in range(2)]
    turn = first.call("turn/start", **this, text="go")["turn_id"]
    first.call("session/detach", **this)
    pictures = []
    for guest in guests * 3:
        guest.events.clear()
        pictures.append(guest.call("session/load", **this)["session"])
        guest.call("session/detach", **this)
        seen = [event["seq"] for event in guest.events]
        assert seen == list(range(pictures[-1]["next_seq"], pictures[-1]["next_seq"] + len(seen)))
    assert pictures[0]["busy"]
    first.call("turn/abort", **this)
    assert first.call("turn/wait", **this, turn_id=turn)["stop"] in ("aborted", "end_turn")


def test_who_leaves_and_comes_back_at_once_is_there(machine: Machine) -> None:
    client = machine.rpc().greet()
    this = {"session_id": client.session()}
    asked = [
        client.request(method, **this) for method in ("session/detach", "session/attach", "session/load") * 5
    ]
    for number in asked:
        client.reply(number)
    turn = client.call("turn/start", **this, text="go")["turn_id"]
    assert client.call("turn/wait", **this, turn_id=turn)["text"] == "You said: go"
    assert client.event("done")["turn_id"] == turn
