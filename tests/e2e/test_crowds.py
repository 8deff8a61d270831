"""Clients that come and go by the thousand: all are served, nobody waits for them, nothing of them stays."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import select
import socket
import time

import pytest

from tests.clients import LONG, gone
from tests.daemons import Shared
from tests.lines import MIB, Line, descriptors, resident

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol_version":1}}\n'
PREFACE = b'{"zotd":1,"version":"1","cwd":"/","home":%b,"env":{"A":"b"},"flags":{}}\n'


def come_and_go(path: str, words: list[bytes], seconds: float, each_second: int) -> int:
    """Connect, say one of these, be answered and hang up, so often; how many were answered well."""
    served, start = 0, time.monotonic()
    for number in range(int(seconds * each_second)):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(LONG)
            client.connect(path)
            client.sendall(words[number % len(words)])
            answer = json.loads(client.recv(65536))
            served += "result" in answer or "zotd" in answer
        ahead = start + (number + 1) / each_second - time.monotonic()
        if ahead > 0:
            select.select([], [], [], ahead)
    return served


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
    path = str(shared.socket)
    words = [HELLO, PREFACE % json.dumps(str(shared.machine.home)).encode()]
    witness = await Line.open(shared.socket)
    session = (await witness.call("session/new", ephemeral=True))["session"]["session_id"]
    await witness.call("session/close", session_id=session)
    await asyncio.to_thread(come_and_go, path, words, 1.0, 500)  # what is loaded once is loaded by then
    before, opened = await settles(pid, 1 << 40, descriptors(pid))
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        began = time.monotonic()
        runs = [pool.apply_async(come_and_go, (path, words, seconds, 500)) for _ in range(2)]
        pings: list[float] = []
        while not all(run.ready() for run in runs):
            asked = time.monotonic()
            await witness.call("ping")
            pings.append(time.monotonic() - asked)
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.005)
        took = time.monotonic() - began
        served = sum(run.get() for run in runs)
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
