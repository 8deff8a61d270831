"""Prompts beside a running turn: what steers it, what waits for it, and what is sent twice."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from tests.clients import Client, Frame, Machine, Process, types

GATE = "until [ -e open ]; do sleep 0.01; done"
"""A tool that runs until the test opens the gate."""

SCRIPT: list[Frame] = [
    {"match": "^gate$", "reply": [{"tool_call": {"name": "bash", "args": {"command": GATE}}}]},
    {"match": "^slow$", "reply": [{"text": "a b", "delay_ms": 60_000}], "times": 0},
    {"match": "(.*)", "reply": [{"text": "ok"}], "times": 0},
]


class Desk:
    """A session with one client."""

    def __init__(self, machine: Machine, client: Client | None = None, **session: Any) -> None:
        self.machine = machine
        self.client = client or machine.rpc(*machine.script(*SCRIPT)).greet()
        self.id = self.client.session(**session)

    def start(self, text: str, **params: Any) -> Frame:
        answer: Frame = self.call("turn/start", text=text, **params)
        return answer

    def call(self, method: str, **params: Any) -> Any:
        return self.client.call(method, session_id=self.id, **params)

    def wait(self, turn_id: str) -> Frame:
        ended: Frame = self.call("turn/wait", turn_id=turn_id)
        return ended

    def until(self, kind: str, **members: Any) -> Frame:
        """Take events until one has these members; all stay in `client.events`."""
        at = 0
        while True:
            while at == len(self.client.events):
                self.client.take()
            event = self.client.events[at]
            if event["type"] == kind and members.items() <= event.items():
                return event
            at += 1

    def rows(self) -> list[tuple[str, str]]:
        """Who said what, tools in short."""
        messages = self.call("session/messages")["messages"]
        return [
            (message["role"], next((b["text"] for b in message["content"] if "text" in b), "-"))
            for message in messages
        ]

    def gate(self) -> str:
        """Start a turn whose tool waits at the gate."""
        turn: str = self.start("gate")["turn_id"]
        self.until("tool_call")
        return turn

    def open(self) -> None:
        (self.machine.cwd / "open").touch()

    def dones(self) -> list[tuple[str, str]]:
        return [(e["turn_id"], e["stop"]) for e in self.client.events if e["type"] == "done"]

    def queue(self) -> list[str]:
        return [turn["text"] for turn in self.call("turn/queue")["turns"]]


def test_what_steers_is_seen_after_the_running_tool_and_before_the_next_call(machine: Machine) -> None:
    desk = Desk(machine)
    turn = desk.gate()
    later = desk.start("later")
    steers = [desk.start(text, if_busy="steer") for text in ("left", "right")]
    assert [answer["state"] for answer in (later, *steers)] == ["queued", "steered", "steered"]
    assert [(row["text"], row.get("steer", False)) for row in desk.call("turn/queue")["turns"]] == [
        ("left", True),
        ("right", True),
        ("later", False),
    ]
    desk.open()
    assert [desk.wait(answer["turn_id"])["stop"] for answer in steers] == ["end_turn"] * 2
    assert desk.wait(steers[0]["turn_id"])["text"] == "ok"
    desk.wait(later["turn_id"])
    assert desk.rows() == [
        ("user", "gate"),
        ("assistant", "-"),
        ("tool", "-"),
        ("user", "left"),
        ("user", "right"),
        ("assistant", "ok"),
        ("user", "later"),
        ("assistant", "ok"),
    ]
    said = [event for event in desk.client.events if event["type"] == "user_message"]
    assert [event["turn_id"] for event in said] == [turn, turn, turn, later["turn_id"]]
    order = types(desk.client.events)
    assert order.index("tool_result") < order.index("user_message", 5) < order.index("turn_start", 5)
    assert desk.dones() == [(each, "end_turn") for each in (turn, *(s["turn_id"] for s in steers))] + [
        (later["turn_id"], "end_turn")
    ]


def test_what_steers_an_idle_session_is_a_turn_and_what_comes_too_late_is_the_next(machine: Machine) -> None:
    desk = Desk(machine)
    alone = desk.start("alone", if_busy="steer")
    assert alone["state"] == "started"
    desk.wait(alone["turn_id"])
    last = desk.start("slow")["turn_id"]
    desk.until("assistant_start", turn_id=last)
    queued = desk.start("queued")
    late = desk.start("late", if_busy="steer")
    assert late["state"] == "steered"
    assert desk.call("turn/abort") == {"aborted": True, "unqueued": []}
    assert [desk.wait(turn)["stop"] for turn in (last, late["turn_id"], queued["turn_id"])] == [
        "aborted",
        "end_turn",
        "end_turn",
    ]
    assert [text for role, text in desk.rows() if role == "user"] == ["alone", "slow", "late", "queued"]
    assert len(desk.dones()) == len(dict(desk.dones())) == 4


def test_an_abort_can_give_back_what_waits_and_one_prompt_can_be_taken_out(machine: Machine) -> None:
    desk = Desk(machine)
    turn = desk.gate()
    waiting = {
        text: desk.start(text, if_busy=how)["turn_id"]
        for text, how in (("q1", "queue"), ("s1", "steer"), ("q2", "queue"), ("s2", "steer"))
    }
    assert desk.queue() == ["s1", "s2", "q1", "q2"]
    left = desk.call("turn/unqueue", turn_id=waiting["s1"])["turns"]
    assert [row["text"] for row in left] == ["s2", "q1", "q2"]
    assert desk.wait(waiting["s1"])["stop"] == "aborted"
    refused = desk.client.error("turn/unqueue", session_id=desk.id, turn_id=waiting["s1"])
    assert refused["data"]["kind"] == "turn_not_found"
    assert desk.call("turn/abort", clear_queue=True) == {"aborted": True, "unqueued": ["s2", "q1", "q2"]}
    assert [desk.wait(each)["stop"] for each in (turn, *waiting.values())] == ["aborted"] * 5
    assert desk.queue() == []
    assert [text for role, text in desk.rows() if role == "user"] == ["gate"]
    assert sorted(desk.dones()) == sorted((each, "aborted") for each in (turn, *waiting.values()))
    assert desk.call("session/state")["session"].get("queue", []) == []


def test_who_would_rather_not_wait_is_refused_while_a_turn_runs(machine: Machine) -> None:
    desk = Desk(machine)
    desk.gate()
    error = desk.client.error("turn/start", session_id=desk.id, text="no", if_busy="reject", key="k")
    assert error["data"]["kind"] == "busy"
    desk.open()
    desk.until("done")
    again = desk.start("yes", if_busy="reject", key="k")
    assert again["state"] == "started"
    desk.wait(again["turn_id"])
    assert [text for role, text in desk.rows() if role == "user"] == ["gate", "yes"]


@pytest.mark.parametrize("how", ["queue", "steer"])
def test_a_key_makes_a_prompt_one_prompt_at_once_later_and_after_a_restart(
    machine: Machine, how: str
) -> None:
    script = machine.script(*SCRIPT)
    process: Process = machine.rpc(*script)
    desk = Desk(machine, process.greet())
    desk.gate()
    asked = {"session_id": desk.id, "text": "once", "key": "k1", "if_busy": how}
    numbers = [process.request("turn/start", **asked) for _ in range(5)]
    answers = [process.reply(number)["result"] for number in numbers]
    assert all(answer == answers[0] for answer in answers)
    desk.open()
    once = answers[0]["turn_id"]
    assert desk.wait(once)["text"] == "ok"
    assert desk.start("something else", key="k1")["turn_id"] == once
    other = desk.start("once", key="k2")["turn_id"]
    assert other != once
    desk.wait(other)
    assert [text for role, text in desk.rows() if role == "user"] == ["gate", "once", "once"]
    process.signal(signal.SIGKILL)
    process.exit_code()

    client = machine.rpc(*script).greet()
    client.call("session/load", session_id=desk.id)
    for key, turn in (("k1", once), ("k2", other)):
        again = client.call("turn/start", session_id=desk.id, text="once", key=key)
        assert again["turn_id"] == turn, key
        assert client.call("turn/wait", session_id=desk.id, turn_id=turn)["text"] == "ok"
    rows = client.call("session/messages", session_id=desk.id)["messages"]
    assert len(rows) == {"queue": 8, "steer": 7}[how]


@pytest.mark.parametrize("method", ["session/compact", "session/clear"])
def test_a_key_is_known_when_its_prompt_is_no_row_of_the_conversation_any_more(
    machine: Machine, method: str
) -> None:
    process = machine.rpc(*(script := machine.script(*SCRIPT)))
    desk = Desk(machine, process.greet())
    keyed = {key: desk.start(f"text of {key}", key=key)["turn_id"] for key in ("k1", "k2", "k3")}
    desk.wait(keyed["k3"])
    if method == "session/compact":
        assert desk.wait(desk.call(method)["turn_id"])["text"] == "ok"
    else:
        desk.call(method)
        desk.wait(desk.start("anew")["turn_id"])
    before = desk.rows()
    assert ("user", "text of k1") not in before
    assert [desk.start("again", key=key)["turn_id"] for key in keyed] == [*keyed.values()]
    process.signal(signal.SIGKILL)
    process.exit_code()

    client = machine.rpc(*script).greet()
    client.call("session/load", session_id=desk.id)
    desk.client = client
    assert [desk.start("again", key=key)["turn_id"] for key in keyed] == [*keyed.values()]
    assert [desk.wait(turn)["text"] for turn in keyed.values()] == ["ok"] * 3
    assert desk.rows() == before


def test_two_clients_see_the_same_events_in_the_same_order(machine: Machine) -> None:
    daemon, path = machine.listen(*machine.script(*SCRIPT))
    one, two = (machine.connect(path).greet() for _ in range(2))
    desk = Desk(machine, one)
    first = one.call("session/attach", session_id=desk.id)["next_seq"]
    assert two.call("session/attach", session_id=desk.id)["next_seq"] == first
    desk.gate()

    def ask(client: Client, name: str) -> None:
        for number in range(20):
            how = ("queue", "steer")[number % 2]
            client.call("turn/start", session_id=desk.id, text=f"{name}{number}", if_busy=how)

    threads = [threading.Thread(target=ask, args=pair) for pair in ((one, "one "), (two, "two "))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desk.open()
    for client in (one, two):
        while sum(event["type"] == "done" for event in client.events) < 41:
            client.take()
    assert one.events == two.events
    assert [event["seq"] for event in one.events] == list(range(1, len(one.events) + 1))
    said = [event["content"][0]["text"] for event in one.events if event["type"] == "user_message"]
    for name in ("one", "two"):
        for parity in (0, 1):
            mine = [text for text in said if text in {f"{name} {n}" for n in range(parity, 20, 2)}]
            assert mine == [f"{name} {n}" for n in range(parity, 20, 2)]
    assert len(said) == len(set(said)) == 41
    assert daemon.stderr == ""


def together(desk: Desk, *requests: tuple[str, Frame]) -> list[Frame]:
    """The answers to a batch, in the order of its requests."""
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": {"session_id": desk.id, **params}}
        for number, (method, params) in enumerate(requests)
    ]
    desk.client.send(batch)
    while not isinstance(message := desk.client.raw(), list):
        desk.client.events.append({"type": message["method"], **message["params"]})
    return sorted(message, key=lambda answer: answer["id"])


def test_what_a_batch_is_answered_is_what_becomes_of_it(machine: Machine) -> None:
    desk = Desk(machine)
    prompt, steer = ("turn/start", {"text": "one"}), ("turn/start", {"text": "st", "if_busy": "steer"})

    taken, refused = together(desk, prompt, ("session/clear", {}))
    assert taken["result"]["state"] == "started"
    assert refused["error"]["data"]["kind"] == "busy"
    desk.wait(taken["result"]["turn_id"])
    assert desk.rows() == [("user", "one"), ("assistant", "ok")]

    cleared, taken = together(desk, ("session/clear", {}), ("turn/start", {"text": "two"}))
    assert (cleared["result"], taken["result"]["state"]) == ({}, "started")
    desk.wait(taken["result"]["turn_id"])
    assert desk.rows() == [("user", "two"), ("assistant", "ok")]

    taken, refused = together(desk, prompt, ("turn/start", {"text": "no", "if_busy": "reject"}))
    assert refused["error"]["data"]["kind"] == "busy"
    desk.wait(taken["result"]["turn_id"])

    taken, aborted = together(desk, prompt, ("turn/abort", {}))
    assert aborted["result"] == {"aborted": True, "unqueued": []}
    assert desk.wait(taken["result"]["turn_id"])["stop"] == "aborted"

    desk.gate()
    taken, aborted = together(desk, steer, ("turn/abort", {"clear_queue": True}))
    assert taken["result"]["state"] == "steered"
    assert aborted["result"] == {"aborted": True, "unqueued": ["st"]}
    assert desk.wait(taken["result"]["turn_id"])["stop"] == "aborted"
    desk.wait(desk.start("after")["turn_id"])
    assert ("user", "st") not in desk.rows()

    taken, closed = together(desk, prompt, ("session/close", {}))
    assert (taken["result"]["state"], closed["result"]) == ("started", {})
    rows = desk.client.call("session/load", session_id=desk.id)["session"]["message_count"]
    assert desk.rows()[-2:] == [("user", "after"), ("assistant", "ok")]
    assert rows == len(desk.rows())
