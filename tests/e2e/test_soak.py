"""A daemon that is used for a long time, by clients that come and go: it does not grow, and stays as quick.

SOAK_S, seconds, is how long; twenty minutes by default.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

from tests.clients import ROOT, Frame, Machine
from tests.lines import MIB, Line, descriptors, resident

SESSIONS = 50
EXTENSIONS = 10
TURNS = 8
"""Prompts of one session until it is closed and another takes its place."""
WINDOWS = 20
"""Times at which memory and latency are looked at."""
PINGS = 100

SCRIPT: list[Frame] = [
    {
        "match": "^tool",
        "times": 0,
        "reply": [
            {"text": "let me see " * 10, "delay_ms": 50},
            {"tool_call": {"name": "bash", "args": {"command": "seq 50"}}},
            {"tool_call": {"name": "write", "args": {"path": "notes.txt", "content": "one\ntwo\n"}}},
        ],
    },
    {"times": 0, "reply": [{"thinking": "hm " * 5}, {"text": "word " * 40, "delay_ms": 50}]},
]


@dataclass
class Record:
    """What was seen: at each window the bytes of memory and the median time of a ping, in seconds."""

    turns: int = 0
    cuts: int = 0
    memory: list[int] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    pings: list[float] = field(default_factory=list)


def install(machine: Machine) -> None:
    """Extensions that are shared by all sessions of the folder, observe all and say something."""
    for number in range(EXTENSIONS):
        folder = machine.home / "extensions" / f"watcher{number}"
        folder.mkdir(parents=True)
        manifest = {
            "name": f"watcher{number}",
            "exec": sys.executable,
            "args": [str(ROOT / "tests" / "e2e" / "watcher.py")],
            "instances": "workspace",
        }
        (folder / "extension.json").write_text(json.dumps(manifest))


class Worker:
    """One seat: a session at a time, whose client loses its connection now and then."""

    def __init__(self, path: Path, seat: int, record: Record) -> None:
        self.path, self.seat, self.record = path, seat, record
        self.chance = random.Random(seat)
        self.seen = 0

    async def run(self, until: float) -> None:
        clock = asyncio.get_running_loop()
        while clock.time() < until:
            line = await Line.open(self.path)
            session = (await line.call("session/new", ephemeral=self.seat % 2 == 0))["session"]
            self.seen = 0
            for turn in range(TURNS):
                line = await self._turn(line, session, turn)
            await line.call("session/close" if self.seat % 2 == 0 else "session/delete", **this(session))
            await line.close()

    async def _turn(self, line: Line, session: Frame, turn: int) -> Line:
        """One prompt to its `done`, over one connection or two. Every event is seen once."""
        kind = "tool" if self.chance.random() < 0.2 else "plain"
        accepted = await line.call("turn/start", **this(session), text=f"{kind} {turn}", key=str(turn))
        cut_at = self.seen + self.chance.randrange(5, 120)
        while not self._over(line, accepted["turn_id"]):
            if self.seen > cut_at:
                cut_at = 1 << 40
                line.cut()
                self.record.cuts += 1
                line = await Line.open(self.path)
                since = {"epoch": session["epoch"], "since": self.seen}
                await line.call("session/attach", **this(session), **since)
            else:
                await line.take()
        self.record.turns += 1
        return line

    def _over(self, line: Line, turn_id: str) -> bool:
        events, line.events = line.events, []
        for event in events:
            assert event["seq"] == self.seen + 1, (event, self.seen)
            self.seen = event["seq"]
        return any(event["type"] == "done" and event["turn_id"] == turn_id for event in events)


def this(session: Frame) -> Frame:
    return {"session_id": session["session_id"]}


async def watch(path: Path, pid: int, record: Record, until: float) -> None:
    """Look at the daemon in even distances; pings go on all the time."""
    clock = asyncio.get_running_loop()
    line = await Line.open(path)
    begin = clock.time()
    for window in range(1, WINDOWS + 1):
        times: list[float] = []
        while clock.time() < begin + (until - begin) * window / WINDOWS or len(times) < PINGS:
            asked = clock.time()
            await line.call("ping")
            times.append(clock.time() - asked)
            await asyncio.wait([clock.create_future()], timeout=0.02)
        record.memory.append(resident(pid))
        record.opened.append(descriptors(pid))
        record.pings.append(median(times))
    await line.close()


async def soak(machine: Machine, seconds: float) -> None:
    install(machine)
    daemon, path = machine.listen(*machine.script(*SCRIPT), "--max-steps", "2")
    pid = daemon.popen.pid
    record = Record()
    until = asyncio.get_running_loop().time() + seconds
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch(path, pid, record, until))
        for seat in range(SESSIONS):
            tasks.create_task(Worker(path, seat, record).run(until))
    print(f"{record.turns} turns, {record.cuts} connections cut in {seconds:g} s")
    print("MiB:", *(f"{size / MIB:.1f}" for size in record.memory))
    print("descriptors:", *record.opened)
    print("ms of a ping:", *(f"{1000 * time:.2f}" for time in record.pings))
    assert record.turns > seconds
    assert record.cuts > seconds / 10
    quarter = WINDOWS // 4
    early, late = slice(quarter, 2 * quarter), slice(-quarter, None)
    assert median(record.memory[late]) < 1.1 * max(record.memory[early]) + 4 * MIB
    assert median(record.opened[late]) < 1.1 * max(record.opened[early]) + 10
    # A machine that does other things too can be slower for a while: what is looked for is what grows.
    assert median(record.pings[late]) < 2 * max(record.pings[early]) + 0.002
    last = await Line.open(path)
    assert (await last.call("session/list"))["sessions"] == []
    await last.close()
    assert daemon.stderr == ""


@pytest.mark.long
async def test_memory_descriptors_and_latency_stay_flat_for_a_long_time(machine: Machine) -> None:
    await soak(machine, float(os.environ.get("SOAK_S", "1200")))
