"""Clients that come and go by the thousand: all are served, nobody waits for them, nothing of them stays."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from tests.clients import LONG, gone
from tests.daemons import Shared
from tests.lines import MIB, Line, descriptors, resident


async def come_and_go(shared: Shared, seconds: float) -> int:
    """A program with 500 connections a second; how many were answered well."""
    program = [sys.executable, str(Path(__file__).with_name("visitors.py"))]
    about = [str(shared.socket), str(shared.machine.home), str(seconds), "500"]
    process = await asyncio.create_subprocess_exec(*program, *about, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    return int(said)


async def warm(shared: Shared, pid: int) -> int:
    """Bytes of memory once all is there that is loaded once: a daemon loads on for a while at its start."""
    sizes = [0, 1 << 30, resident(pid)]
    while abs(sizes[-1] - sizes[-2]) > MIB // 8 or abs(sizes[-2] - sizes[-3]) > MIB // 8:
        await come_and_go(shared, 0.5)
        sizes.append(resident(pid))
        assert len(sizes) < 20
    return sizes[-1]


async def settles(pid: int, most: int, most_open: int) -> tuple[int, int]:
    """Bytes of memory and open files, once they are few enough."""
    for _ in range(int(LONG / 0.05)):
        now = resident(pid), descriptors(pid)
        if now[0] <= most and now[1] <= most_open:
            return now
        assert not await asyncio.to_thread(gone, pid, 0.05)
    raise AssertionError(f"{now[0] / MIB:.1f} of {most / MIB:.1f} MiB, {now[1]} of {most_open} descriptors")


async def crowd(shared: Shared, seconds: float) -> None:
    """Two programs with 500 connections a second each, and somebody who looks on."""
    pid = shared.started()
    witness = await Line.open(shared.socket)
    session = (await witness.call("session/new", ephemeral=True))["session"]["session_id"]
    await witness.call("session/close", session_id=session)
    before, opened = await warm(shared, pid), descriptors(pid)
    began = time.monotonic()
    runs = [asyncio.create_task(come_and_go(shared, seconds)) for _ in range(2)]
    pings: list[float] = []
    while not all(run.done() for run in runs):
        asked = time.monotonic()
        await witness.call("ping")
        pings.append(time.monotonic() - asked)
        await asyncio.wait(runs, timeout=0.005)
    took = time.monotonic() - began
    served = sum([await run for run in runs])
    assert served == 2 * int(seconds * 500)
    assert len(pings) > 10
    assert max(pings) < 1
    after, left = await settles(pid, before + 3 * MIB, opened)
    status = await witness.call("daemon/status")
    assert len(status["clients"]) <= 1
    await witness.close()
    pings.sort()
    print(
        f"{served} served in {took:.1f} s; a witness's ping: {1000 * pings[len(pings) // 2]:.2f} ms, "
        f"at most {1000 * pings[-1]:.1f}; "
        f"MiB {before / MIB:.1f} and then {after / MIB:.1f}; {left} descriptors"
    )


async def test_a_thousand_that_come_and_go_leave_nothing(shared: Shared) -> None:
    await crowd(shared, 1.0)


@pytest.mark.long
async def test_a_thousand_a_second_that_come_and_go_leave_nothing(shared: Shared) -> None:
    await crowd(shared, 10.0)
