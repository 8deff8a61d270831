"""Many sessions at once in one daemon: each has its own story whole, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.clients import LONG, Machine, gone
from tests.lines import MIB, Line, descriptors, resident


async def story(path: Path, name: str, turns: int, *, ephemeral: bool) -> None:
    """One session from its beginning to its end; all its prompts are sent at once."""
    line = await Line.open(path)
    session = (await line.call("session/new", ephemeral=ephemeral))["session"]
    this = {"session_id": session["session_id"]}
    prompts = [f"{name} turn {number}: {'word ' * 20}" for number in range(turns)]
    accepted = [(await line.call("turn/start", **this, text=text))["turn_id"] for text in prompts]
    done = 0
    while done < turns:
        done = sum(event["type"] == "done" for event in line.events)
        if done < turns:
            await line.take()
    assert {event["session_id"] for event in line.events} == {this["session_id"]}
    assert [event["seq"] for event in line.events] == list(range(1, len(line.events) + 1))
    ends = [event["turn_id"] for event in line.events if event["type"] == "done"]
    assert ends == accepted
    for turn, text in zip(accepted, prompts, strict=True):
        mine = [event for event in line.events if event.get("turn_id") == turn]
        order = [event["type"] for event in mine if event["type"] not in ("text_delta", "queue")]
        assert order == [
            "user_message",
            "turn_start",
            "assistant_start",
            "usage",
            "assistant_message",
            "turn_end",
            "done",
        ]
        spoken = "".join(event["delta"] for event in mine if event["type"] == "text_delta")
        assert spoken == f"You said: {text}"
    rows = (await line.call("session/messages", **this, limit=2 * turns))["messages"]
    assert [row["content"][0]["text"] for row in rows] == [
        said for text in prompts for said in (text, f"You said: {text}")
    ]
    await line.call("session/close" if ephemeral else "session/delete", **this)
    await line.close()


async def together(path: Path, name: str, sessions: int, turns: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(sessions):
            tasks.create_task(story(path, f"{name}{number}", turns, ephemeral=number % 2 == 0))


async def settles(pid: int, most: int, most_open: int) -> int:
    """Bytes of memory once they are few enough, and connections that were closed here are closed there."""
    for _ in range(int(LONG / 0.05)):
        if (now := resident(pid)) <= most and descriptors(pid) <= most_open:
            return now
        assert not await asyncio.to_thread(gone, pid, 0.05)
    raise AssertionError(f"{resident(pid) / MIB:.1f} of {most / MIB:.1f} MiB, {descriptors(pid)} descriptors")


async def crowd(machine: Machine, sessions: int, turns: int) -> None:
    daemon, path = machine.listen()
    pid = daemon.popen.pid
    witness = await Line.open(path)
    await together(path, "early", 2, 2)  # loads what is loaded once
    before, open_before = await settles(pid, 1 << 40, descriptors(pid)), descriptors(pid)
    # Python's own allocator gives whole MiB back only, and one long-lived object keeps each: what a session
    # leaves is less than what an open one may take.
    room = before + 3 * MIB + sessions * MIB // 8
    await together(path, "first", sessions, turns)
    peak = resident(pid)
    first = await settles(pid, room, open_before)
    await together(path, "second", sessions, turns)
    # Whatever grows with sessions that are over grows again.
    second = await settles(pid, first + 3 * MIB, open_before)
    sizes = (f"{size / MIB:.1f}" for size in (before, peak, first, second))
    print("MiB before, with a crowd, after it, after another:", *sizes, f"; {open_before} descriptors")
    assert (await witness.call("session/list"))["sessions"] == []
    await witness.close()
    assert daemon.stderr == ""


async def test_ten_sessions_in_parallel_lose_nothing_and_leave_nothing(machine: Machine) -> None:
    await crowd(machine, 10, 8)


@pytest.mark.long
async def test_a_hundred_sessions_in_parallel_lose_nothing_and_leave_nothing(machine: Machine) -> None:
    await crowd(machine, 100, 20)
