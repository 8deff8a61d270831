"""Clients that read slower than they are told harm nobody, and are brought up to date."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import msgspec
import pytest

from tests.clients import LONG, Client, Frame, Machine, judge_event, types
from tests.daemon.puppets import flags, words
from tests.daemon.test_attach import session
from tests.daemon.test_picture import folded
from tests.lines import resident
from zotd.base.limits import Limits
from zotd.base.tasks import Independent
from zotd.daemon.sending import Sending
from zotd.daemon.session import Session
from zotd.protocol.events import (
    AssistantStart,
    Event,
    ExtNotify,
    ExtPanelOpen,
    QueueChanged,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)
from zotd.protocol.session import QueuedTurn
from zotd.store.ring import Published
from zotd.wire.peer import notification_of

MIB = 1 << 20


class Straw:
    """Where bytes go for a client that takes them a sip at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._roomy: Callable[[], None] = lambda: None
        self.written = bytearray()
        self.drunk = bytearray()

    @property
    def full(self) -> bool:
        return self.waiting > self._most

    @property
    def waiting(self) -> int:
        return len(self.written)

    def when_roomy(self, call: Callable[[], None]) -> None:
        self._roomy = call

    def write(self, data: bytes) -> None:
        self.written += data

    def sip(self, size: int) -> None:
        was_full = self.full
        self.drunk += self.written[:size]
        del self.written[:size]
        if was_full and not self.full:
            self._roomy()

    async def drained(self) -> None:
        """Nobody waits for it."""

    def close(self) -> None:
        """There is nothing to close."""

    async def ended(self) -> None:
        """It has."""


class Sipper:
    """A client behind a straw."""

    approver = None
    capabilities: frozenset[str] = frozenset()

    def __init__(self, session: Session, most: int) -> None:
        self._session = session
        self.straw = Straw(most // 8)
        limits = Limits(client_queue_bytes=most)
        self.sending = Sending(self.straw, limits, lambda payload: payload + b"\n")

    @property
    def full(self) -> bool:
        return self.sending.full

    async def drained(self) -> None:
        await self.sending.drained(LONG)

    def deliver(self, event: Published) -> None:
        self.sending.tell(event, self)

    def shown(self, event: Published) -> bytes:
        return notification_of(event.type, event.body)

    def resync(self, session_id: str) -> Published | None:
        assert session_id == self._session.id
        return self._session.audience.resync(self)

    async def drink(self) -> None:
        """All that there is for it."""
        while self.sending.queued_bytes:
            self.straw.sip(10_000)
            await asyncio.sleep(0)

    @property
    def events(self) -> list[Frame]:
        lines = [json.loads(line) for line in self.straw.drunk.splitlines()]
        return [{"type": line["method"], **line["params"]} for line in lines]


def anything(dice: random.Random) -> Event:
    text = dice.choice(("word ", '","session_id":"', "\u2028", "x" * 400)) * dice.randint(0, 3)
    kinds: list[Callable[[], Event]] = [
        lambda: TextDelta(delta=text),
        lambda: TextDelta(delta=text),
        lambda: ThinkingDelta(delta=text),
        lambda: ToolProgress(id=dice.choice("ab"), text=text),
        AssistantStart,
        lambda: ExtNotify(extension="pup", level="info", message=text),
        lambda: ExtPanelOpen(extension="pup", panel_id="p", title=text, lines=[text], footer=""),
        lambda: QueueChanged(turns=[QueuedTurn(turn_id="turn_9", text=text, client="c")]),
    ]
    return dice.choice(kinds)()


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 160))]
)
async def test_picture_and_later_events_are_the_whole_for_one_that_lags(seed: int) -> None:
    dice = random.Random(seed)
    async with Independent() as tasks:
        room = session(tasks)
        start: Frame = msgspec.to_builtins(room.info())
        sipper = Sipper(room, dice.choice((4_000, 20_000)))
        room.attach(sipper)
        for _ in range(600):
            for _ in range(dice.choice((1, 1, 5, 30))):
                room.publish(anything(dice))
            for _ in range(dice.choice((0, 0, 40))):
                room.publish(TextDelta(delta="word "))
            if dice.random() < 0.5:
                sipper.straw.sip(dice.choice((200, 2_000, 50_000)))
            if dice.random() < 0.5:
                await asyncio.sleep(0)
        await sipper.drink()
        assert not sipper.sending.lagging
        events = sipper.events
        for event in events:
            judge_event(event)
        assert "resync" in types(events)
        assert any("first_seq" in event for event in events)
        assert folded(start, events) == msgspec.to_builtins(room.info())


async def test_who_lagged_may_ask_for_what_it_was_not_sent() -> None:
    async with Independent() as tasks:
        room = session(tasks)
        sipper = Sipper(room, 1_000)
        room.attach(sipper)
        for number in range(1, 41):
            room.publish(ExtNotify(extension="pup", level="info", message=str(number)))
            await asyncio.sleep(0)
        assert sipper.sending.lagging
        await sipper.drink()
        last = sipper.events[-1]
        assert (last["type"], last["seq"]) == ("resync", 40)
        before = len(sipper.events)
        room.attach(sipper, since=38)
        await sipper.drink()
        assert [event["message"] for event in sipper.events[before:]] == ["39", "40"]


def large_notes(count: int) -> list[str]:
    """Commands that make the puppet `pup` say notes that cannot be merged, of 0.9 MiB each."""
    note = {"type": "notify", "level": "info", "message": "x" * 900_000}
    done = {"type": "command_response", "action": "noop"}
    return [words("pup", note, note, note, note, done) for _ in range(count // 4)]


def until_done(client: Client, turn_id: str) -> list[Frame]:
    """All events up to the end of a turn."""
    while not any(event["type"] == "done" and event["turn_id"] == turn_id for event in client.events[-3:]):
        client.take()
    return client.events


def test_a_paused_reader_costs_the_others_nothing_and_finds_everything_or_one_picture(
    machine: Machine,
) -> None:
    piece = "x" * 179 + " "
    answers = [{"text": "word " * 5_000}], [{"text": piece * 18_000}]
    script: list[Frame] = [{"reply": reply} for reply in answers]
    daemon, path = machine.listen(*flags(machine, "pup", script=script))
    reads = threading.Event()
    reads.set()
    reader, slow = machine.connect(path).greet(), machine.connect(path, reads=reads)
    this = {"session_id": reader.session()}
    picture = slow.greet().call("session/attach", **this)["session"]
    reads.clear()

    def run(text: str) -> list[Frame]:
        turn = reader.call("turn/start", **this, text=text)["turn_id"]
        return until_done(reader, turn)

    events = run("5,000 pieces: all of them wait")
    assert types(events).count("text_delta") == 5_000
    reads.set()
    assert until_done(slow, events[-1]["turn_id"])[0]["seq"] == picture["next_seq"]
    assert slow.events == [each for each in events if each["seq"] >= picture["next_seq"]]

    reads.clear()
    slow.events.clear()
    reader.events.clear()
    events = run("18,000 pieces: more than may wait")
    reads.set()
    merged = until_done(slow, events[-1]["turn_id"])
    assert "resync" not in types(merged)
    assert any("first_seq" in event for event in merged)
    assert len(merged) < 15_000
    text = "".join(event["delta"] for event in merged if event["type"] == "text_delta")
    assert text == piece * 18_000
    number = merged[0]["seq"]
    for event in merged:
        assert event.get("first_seq", event["seq"]) == number
        number = event["seq"] + 1

    reads.clear()
    slow.events.clear()
    reader.events.clear()
    for command in large_notes(20):
        events = run(command)
    assert types(events).count("ext_notify") == 20
    (row,) = [client for client in reader.call("daemon/status")["clients"] if client["lagging"]]
    assert row["queued_bytes"] < 10 * MIB
    reads.set()
    slow.event("resync")
    assert slow.events == []
    reader.events.clear()
    run("hello")
    assert until_done(slow, reader.events[-1]["turn_id"]) == reader.events
    assert daemon.stderr == ""


def test_a_paused_zot_client_of_a_shared_session_gets_every_end_and_a_picture(machine: Machine) -> None:
    daemon, path = machine.listen(*flags(machine, "pup"))
    reads = threading.Event()
    reads.set()
    reader, slow = machine.connect(path).greet(), machine.connect(path, reads=reads)
    this = {"session_id": reader.session()}
    assert slow.ask("attach", **this)["success"]
    reads.clear()
    turns = []
    for text in [*large_notes(16), "hello"]:
        turns.append(reader.call("turn/start", **this, text=text)["turn_id"])
        until_done(reader, turns[-1])
    reads.set()
    seen = slow.until("resync")
    assert seen[-1]["seq"] == reader.events[-1]["seq"]
    assert [frame["turn_id"] for frame in seen if frame["type"] == "done"] == [turns[-1]]
    assert slow.ask("prompt", message="go on")["success"]
    assert slow.until("done")[-1]["turn_id"] not in turns
    assert daemon.stderr == ""


async def test_a_wait_for_a_client_ends_when_it_reads_nothing_and_is_taken_up_when_it_does() -> None:
    async with Independent() as tasks:
        room = session(tasks)
        sipper = Sipper(room, 8_000)
        room.attach(sipper)
        for number in range(24):
            room.publish(ExtNotify(extension="pup", level="info", message=str(number)))
            await asyncio.sleep(0)
        full = [sipper.full]
        await asyncio.wait_for(sipper.sending.drained(0.01), LONG)
        full.append(sipper.full)
        assert sipper.sending.queued_bytes > 1_000
        await sipper.drink()
        assert types(sipper.events) == ["ext_notify"] * 24
        for number in range(24):
            room.publish(ExtNotify(extension="pup", level="info", message=str(number)))
            await asyncio.sleep(0)
        assert [*full, sipper.full] == [True, False, True]


READER = """
import json, socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
for number, (method, params) in enumerate(json.loads(sys.argv[2])):
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    client.sendall(line.encode() + b"\\n")
for line in client.makefile():
    frame = json.loads(line)
    if "method" in frame:
        print(frame["method"], frame["params"]["seq"], flush=True)
    elif frame["id"] == 1:
        print("attached", frame["result"]["next_seq"], flush=True)
"""


def test_a_process_that_was_stopped_goes_on_with_one_picture(machine: Machine) -> None:
    daemon, path = machine.listen(*flags(machine, "pup"))
    reader = machine.connect(path).greet()
    this = {"session_id": reader.session()}
    asked = json.dumps([("initialize", {"protocol_version": 1}), ("session/attach", this)])
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(path), asked], stdout=subprocess.PIPE, text=True
    ) as stopped:
        assert stopped.stdout is not None
        assert stopped.stdout.readline().startswith("attached")
        stopped.send_signal(signal.SIGSTOP)
        for command in large_notes(24):
            turn = reader.call("turn/start", **this, text=command)["turn_id"]
            until_done(reader, turn)
        assert [row["lagging"] for row in reader.call("daemon/status")["clients"]] == [False, True]
        stopped.send_signal(signal.SIGCONT)
        seen: list[tuple[str, int]] = []
        while not seen or seen[-1][0] != "resync":
            kind, seq = stopped.stdout.readline().split()
            seen.append((kind, int(seq)))
        assert seen[-1][1] == reader.events[-1]["seq"]
        reader.events.clear()
        until_done(reader, reader.call("turn/start", **this, text="hello")["turn_id"])
        for event in reader.events:
            assert stopped.stdout.readline().split() == [event["type"], str(event["seq"])]
        stopped.kill()
    assert daemon.stderr == ""


def test_answers_that_nobody_reads_take_no_more_memory_than_the_bound(machine: Machine) -> None:
    daemon, path = machine.listen(*machine.script({"reply": [{"text": "x" * 1_000_000}]}))
    reads = threading.Event()
    reads.set()
    slow = machine.connect(path, reads=reads)
    this = {"session_id": slow.greet().session()}
    until_done(slow, slow.call("turn/start", **this, text="go")["turn_id"])
    asked = slow.call("session/messages", **this)
    assert len(json.dumps(asked)) > 1_000_000
    before = resident(daemon.popen.pid)
    reads.clear()
    numbers = [slow.request("session/messages", **this) for _ in range(300)]
    other = machine.connect(path).greet()
    while other.call("daemon/status")["clients"][0]["queued_bytes"] < 8 * MIB:
        pass
    for _ in range(100):
        other.call("ping")
    assert resident(daemon.popen.pid) - before < 120 * MIB
    reads.set()
    answers = [slow.reply(number) for number in numbers]
    refused = [answer["error"] for answer in answers if "error" in answer]
    assert all(error["code"] == -32001 and error["data"]["retry_after_ms"] > 0 for error in refused)
    assert all(answer["result"] == asked for answer in answers if "result" in answer)
    assert len(refused) < 300
    assert daemon.stderr == ""


def test_a_replay_of_all_that_is_kept_comes_whole_to_a_client_that_does_not_read_at_once(
    machine: Machine,
) -> None:
    daemon, path = machine.listen(*flags(machine, "pup"))
    reader, reads = machine.connect(path).greet(), threading.Event()
    reads.set()
    this = {"session_id": reader.session()}
    for command in large_notes(16):
        events = until_done(reader, reader.call("turn/start", **this, text=command)["turn_id"])
    slow = machine.connect(path, reads=reads).greet()
    since = events[0]["seq"]
    before = resident(daemon.popen.pid)
    reads.clear()
    asked = [slow.request("session/attach", **this, since=since)]
    for _ in range(31):
        slow.request("session/detach", **this)
        asked.append(slow.request("session/attach", **this, since=since))
    while reader.call("daemon/status")["clients"][1]["queued_bytes"] < 14 * MIB:
        pass
    until_done(reader, reader.call("turn/start", **this, text="hello")["turn_id"])
    assert resident(daemon.popen.pid) - before < 120 * MIB
    reads.set()
    slow.reply(asked[0])
    until_done(slow, events[-1]["turn_id"])
    assert slow.events == events[1 : len(slow.events) + 1]
    assert "resync" not in types(slow.events)
    assert all("result" in slow.reply(number) for number in asked[1:4])
    assert daemon.stderr == ""


@pytest.mark.parametrize("dialect", ["jsonrpc", "zot"])
def test_of_many_large_answers_asked_for_at_once_few_are_made_ahead_of_reading(
    machine: Machine, dialect: str
) -> None:
    daemon, path = machine.listen(*machine.script({"reply": [{"text": "x" * 6_000_000}]}))
    reads = threading.Event()
    reads.set()
    slow, other = machine.connect(path, reads=reads), machine.connect(path).greet()
    if dialect == "zot":
        slow.ask("prompt", message="go")
        slow.until("done")
        asked: list[Frame] = [{"type": "get_messages"}] * 28
    else:
        this = {"session_id": slow.greet().session()}
        until_done(slow, slow.call("turn/start", **this, text="go")["turn_id"])
        head: Frame = {"jsonrpc": "2.0", "method": "session/messages", "params": this}
        asked = [{**head, "id": 1_000 + number} for number in range(28)]
    before = resident(daemon.popen.pid)
    reads.clear()
    slow.write(b"".join(json.dumps(each).encode() + b"\n" for each in asked))
    while other.call("daemon/status")["clients"][0]["queued_bytes"] < 8 * MIB:
        pass
    for _ in range(100):
        other.call("ping")
    assert resident(daemon.popen.pid) - before < 120 * MIB
    reads.set()
    answers = [slow.raw() for _ in asked]
    assert all("error" not in answer for answer in answers)
    assert daemon.stderr == ""


STUCK = """
import json, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(json.dumps({"type": "hello", "name": "stuck", "version": "1"}), flush=True)
print(json.dumps({"type": "ready"}), flush=True)
while True:
    signal.pause()
"""


@pytest.mark.parametrize("stuck", [True, False])
def test_who_lags_as_its_session_is_closed_hears_of_that_last(machine: Machine, stuck: bool) -> None:
    more = ["--ext", str(machine.extension("stuck", STUCK))] if stuck else []
    daemon, path = machine.listen(*flags(machine, "pup"), *more)
    reads = threading.Event()
    reads.set()
    reader, slow = machine.connect(path).greet(), machine.connect(path, reads=reads).greet()
    this = {"session_id": reader.session()}
    slow.call("session/attach", **this)
    reads.clear()
    for command in large_notes(16):
        until_done(reader, reader.call("turn/start", **this, text=command)["turn_id"])
    closing = reader.request("session/close", **this)
    if not stuck:
        reader.reply(closing)
    reads.set()  # where an extension does not end, it catches up before the session is closed
    while "session_closed" not in types(slow.events):
        slow.take()
    slow.call("ping")
    last = slow.events[-1]
    assert last["type"] == "session_closed"
    assert types(slow.events).count("session_closed") == 1
    if stuck:
        later = slow.events[types(slow.events).index("resync") :]
        assert [event["seq"] for event in later] == [*range(later[0]["seq"], last["seq"] + 1)]
    else:
        assert "resync" not in types(slow.events)
    assert "Traceback" not in daemon.stderr
