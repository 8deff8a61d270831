"""Nothing gets away: not from the end of a scope, nor from the end of the process that had it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.children import children, descendants, ends
from zotd.base.limits import Limits
from zotd.process.kept import KEEPER
from zotd.process.spawn import Child, Scope, SpawnError

HERE = Path(__file__).parent
ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
ESCAPED = 3
"""Processes that `escapes.py` starts."""


async def run(scope: Scope, *argv: str) -> Child:
    return await scope.spawn(argv, cwd=Path("/"), env=ENV, stdin="null", stderr="merge")


async def escape(scope: Scope, mode: str) -> tuple[Child, list[int]]:
    """Run `escapes.py`: the program and the processes that it started."""
    child = await run(scope, sys.executable, "-S", str(HERE / "escapes.py"), mode)
    said = b""
    async with asyncio.timeout(10):
        while said.count(b"\n") < (1 if mode == "storm" else ESCAPED):
            said += await child.read()
    return child, [int(line) for line in said.split()]


async def sub_keeper_of(scope: Scope) -> int:
    before = set(children(KEEPER.pid))
    child = await run(scope, "true")
    await child.exited
    child.close()
    (new,) = set(children(KEEPER.pid)) - before
    return new


def all_end(pids: list[int] | set[int], within_s: float) -> bool:
    end = time.monotonic() + within_s
    return all(ends(pid, max(0.0, end - time.monotonic())) for pid in pids)


@pytest.mark.parametrize("mode", ["wait", "leave"])
async def test_closing_a_scope_ends_what_left_its_group_session_and_parent(scope: Scope, mode: str) -> None:
    child, pids = await escape(scope, mode)
    if mode == "leave":
        assert await child.exited == 3
    assert not any(ends(pid, 0) for pid in pids)
    began = time.monotonic()
    await scope.close()
    assert time.monotonic() - began < 2.0
    assert all_end(pids, 0)
    assert await child.exited == (3 if mode == "leave" else -signal.SIGKILL)
    child.close()


async def test_scopes_end_apart() -> None:
    one, other = Scope(Limits()), Scope(Limits())
    first, pids_of_one = await escape(one, "wait")
    second, pids_of_other = await escape(other, "wait")
    await one.close()
    assert all_end(pids_of_one, 0)
    assert not any(ends(pid, 0) for pid in pids_of_other)
    await other.close()
    assert all_end(pids_of_other, 0)
    for child in (first, second):
        child.close()


async def test_a_storm_of_forks_is_over_within_two_seconds(scope: Scope) -> None:
    child, _ = await escape(scope, "storm")
    keeper = KEEPER.pid
    while len(descendants(keeper)) < 30:  # noqa: ASYNC110 - nobody announces a fork
        await asyncio.sleep(0)
    began = time.monotonic()
    await scope.close()
    assert time.monotonic() - began < 2.0
    assert all_end(descendants(keeper), 0.2)
    assert descendants(keeper) == set()
    child.close()


async def test_three_hundred_children_at_once_end_with_their_scope(scope: Scope) -> None:
    sleepers = await asyncio.gather(*(run(scope, "sleep", "1000") for _ in range(300)))
    began = time.monotonic()
    await scope.close()
    assert time.monotonic() - began < 2.0
    assert [await child.exited for child in sleepers] == [-signal.SIGKILL] * 300
    for child in sleepers:
        child.close()


async def test_what_is_adopted_is_collected_as_soon_as_it_ends(scope: Scope) -> None:
    sub_keeper = await sub_keeper_of(scope)
    child, pids = await escape(scope, "leave")
    assert await child.exited == 3
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(5):
        while children(sub_keeper):  # noqa: ASYNC110 - it is nobody's child of ours
            await asyncio.sleep(0)
    child.close()


@contextmanager
def holder(loop: str, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, str(HERE / "holder.py"), loop, mode]
    environ = {**ENV, "PYTHONPATH": str(HERE.parent.parent)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_end_of_a_process_by_signal_ends_all_it_had_started(loop: str, number: int) -> None:
    with holder(loop, "wait") as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(ESCAPED)]
        below = descendants(process.pid)
        assert below > set(pids)
        process.send_signal(number)
        process.wait(5)
        assert all_end(below, 2.0)


@pytest.mark.parametrize("interpreter", ["/bin/false", "/no/such/python"])
def test_without_a_keeper_programs_run_all_the_same(interpreter: str) -> None:
    with holder("asyncio", interpreter) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"good day\n"


async def test_a_sub_keeper_that_is_killed_takes_its_programs_along(scope: Scope) -> None:
    sub_keeper = await sub_keeper_of(scope)
    child, pids = await escape(scope, "wait")
    os.kill(sub_keeper, signal.SIGKILL)
    assert await asyncio.wait_for(child.exited, 5) == -signal.SIGKILL
    assert all_end([child.pid, *pids], 2.0)
    child.close()
    again = await run(scope, "echo", "again")
    assert await again.read() == b"again\n"
    again.close()


async def test_a_keeper_that_is_killed_leaves_the_scopes_it_made_in_order(scope: Scope) -> None:
    child, pids = await escape(scope, "wait")
    os.kill(KEEPER.pid, signal.SIGKILL)
    assert ends(KEEPER.pid)
    old = KEEPER.pid
    other = Scope(Limits())
    for place in (scope, other):
        echo = await run(place, "echo", "hi")
        assert await echo.read() == b"hi\n"
        assert await echo.exited == 0
        echo.close()
    assert KEEPER.pid not in (0, old)
    await scope.close()
    assert all_end([child.pid, *pids], 0)
    await other.close()
    child.close()


async def test_the_keeper_outlives_the_signals_of_a_terminal(scope: Scope) -> None:
    keeper = KEEPER.pid
    assert os.getsid(keeper) == keeper
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(keeper, number)
    child = await run(scope, "true")
    assert await child.exited == 0
    assert KEEPER.pid == keeper
    child.close()


async def test_a_program_has_three_descriptors_and_the_signals_of_a_fresh_one(scope: Scope) -> None:
    child = await run(scope, "bash", "-c", "ls -l /proc/$$/fd; grep -E 'Sig(Blk|Ign)' /proc/$$/status")
    said = b""
    while data := await child.read():
        said += data
    lines = said.decode().splitlines()
    links = [line for line in lines if " -> " in line]
    # bash itself keeps no other open while a command runs
    assert [line.split(" -> ")[0].split()[-1] for line in links] == ["0", "1", "2"]
    # 32 and 33 belong to the C library, which lets nobody set them
    masks = [int(line.split()[1], 16) & ~(3 << 31) for line in lines if line.startswith("Sig")]
    assert masks == [0, 0]
    child.close()


async def test_a_program_starts_with_the_mask_and_limits_of_its_process(scope: Scope) -> None:
    status = Path("/proc/self/status").read_text()
    mask = next(line for line in status.splitlines() if line.startswith("Umask"))
    child = await run(scope, "bash", "-c", "grep Umask /proc/self/status; cat /proc/self/limits")
    said = b""
    while data := await child.read():
        said += data
    assert said.decode() == f"{mask}\n{Path('/proc/self/limits').read_text()}"
    child.close()


async def test_a_spawn_that_is_cancelled_leaves_nothing(scope: Scope, tmp_path: Path) -> None:
    sub_keeper = await sub_keeper_of(scope)
    starting = asyncio.create_task(run(scope, "sleep", "1000"))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert children(sub_keeper) == {}


async def test_a_closed_scope_starts_nothing(scope: Scope) -> None:
    await scope.close()
    with pytest.raises(SpawnError, match="cannot start true"):
        await run(scope, "true")
    await scope.close()


async def test_a_close_while_programs_start_leaves_none_of_them(scope: Scope) -> None:
    scope.warm()
    starting = [asyncio.create_task(run(scope, "sleep", "1000")) for _ in range(50)]
    await asyncio.sleep(0)
    await scope.close()
    for outcome in await asyncio.gather(*starting, return_exceptions=True):
        if isinstance(outcome, Child):
            assert await outcome.exited == -signal.SIGKILL
            outcome.close()
        else:
            assert isinstance(outcome, SpawnError)
