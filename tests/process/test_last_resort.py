"""Keepers that were stopped or killed by somebody: nothing waits for them for long, and nothing gets away."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.children import ends
from tests.process.test_keeper import ENV, all_end, escape, run, sub_keeper_of
from zotd.base.limits import Limits
from zotd.process.kept import KEEPER
from zotd.process.last_resort import end_known, start_of
from zotd.process.spawn import Scope, SpawnError

SHORT = replace(Limits(), spawn_s=0.3, answer_s=0.3, contained_s=0.3)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


async def test_a_stopped_keeper_fails_a_start_readably_and_is_replaced() -> None:
    scope = Scope(SHORT)
    old = KEEPER.pid
    os.kill(old, signal.SIGSTOP)
    with within(2), pytest.raises(SpawnError) as failure:
        await run(scope, "true")
    assert str(failure.value) == (
        "cannot start true: the process that starts programs did not answer within 0.3 s; try again"
    )
    assert ends(old)
    child = await run(scope, "echo", "again")
    assert await child.read() == b"again\n"
    assert KEEPER.pid not in (0, old)
    child.close()
    await scope.close()


async def test_a_stopped_sub_keeper_fails_a_start_and_what_ran_goes_on() -> None:
    scope = Scope(SHORT)
    sub_keeper = await sub_keeper_of(scope)
    child, pids = await escape(scope, "wait")
    os.kill(sub_keeper, signal.SIGSTOP)
    with within(2), pytest.raises(SpawnError, match="did not answer"):
        await run(scope, "true")
    assert not any(ends(pid, 0) for pid in (child.pid, *pids))
    os.kill(sub_keeper, signal.SIGCONT)
    late = await run(scope, "echo", "late")
    assert await late.read() == b"late\n"
    late.close()
    await scope.close()
    child.close()


@pytest.mark.parametrize("how", ["close", "unstick"])
@pytest.mark.parametrize("stopped", ["the sub-keeper", "both"])
async def test_all_of_a_scope_ends_though_who_should_end_it_was_stopped(stopped: str, how: str) -> None:
    scope = Scope(SHORT)
    sub_keeper = await sub_keeper_of(scope)
    child, pids = await escape(scope, "wait")
    for pid in (sub_keeper, *([KEEPER.pid] if stopped == "both" else [])):
        os.kill(pid, signal.SIGSTOP)
    with within(2):
        await (scope.close() if how == "close" else scope.unstick())
    assert all_end([child.pid, *pids, sub_keeper], 1.0)
    assert await child.exited == -signal.SIGKILL
    child.close()
    await scope.close()


async def test_a_scope_whose_sub_keeper_was_never_made_closes_in_time() -> None:
    scope = Scope(SHORT)
    old = KEEPER.pid
    os.kill(old, signal.SIGSTOP)
    starting = asyncio.create_task(run(scope, "sleep", "1000"))
    await asyncio.sleep(0)
    with within(2):
        await scope.close()
    with pytest.raises(SpawnError, match="cannot start sleep"):
        await starting
    assert ends(old)
    KEEPER.collect()
    other = Scope(SHORT)
    child = await run(other, "true")
    await child.exited
    child.close()
    await other.close()


async def test_nothing_is_forced_where_somebody_answers(scope: Scope) -> None:
    child = await run(scope, "sleep", "1000")
    await scope.unstick()
    assert not child.exited.done()
    echo = await run(scope, "echo", "hi")
    assert await echo.read() == b"hi\n"
    echo.close()
    await scope.close()
    child.close()


async def test_programs_end_when_their_keeper_and_sub_keeper_are_killed_together(scope: Scope) -> None:
    sub_keeper = await sub_keeper_of(scope)
    child, pids = await escape(scope, "wait")
    old = KEEPER.pid
    for pid in (old, sub_keeper):
        os.kill(pid, signal.SIGSTOP)
    for pid in (old, sub_keeper):
        os.kill(pid, signal.SIGKILL)
    assert await asyncio.wait_for(child.exited, 5) == -signal.SIGKILL
    assert all_end([child.pid], 2.0)
    child.close()
    for pid in pids:  # what had left its parent before nobody can find any more
        if not ends(pid, 0):
            os.kill(pid, signal.SIGKILL)
    assert ends(old)
    again = await run(scope, "echo", "again")
    assert await again.read() == b"again\n"
    again.close()


async def test_a_stranger_with_the_number_of_a_program_is_spared(scope: Scope) -> None:
    child = await run(scope, "sleep", "1000")
    start = start_of(child.pid)
    end_known({child.pid: start + 1, os.getpid(): start})
    assert not ends(child.pid, 0.05)
    end_known({child.pid: start})
    assert await asyncio.wait_for(child.exited, 5) == -signal.SIGKILL
    assert start_of(child.pid) == -1
    child.close()


async def test_running_out_of_descriptors_fails_starts_and_leaks_nothing() -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    first = Scope(Limits())  # loads what is loaded with the first program, and with the first failure
    with pytest.raises(SpawnError):
        await run(first, "/no/such/program")
    await first.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    started = 0
    for room in range(16):
        scope = Scope(Limits())
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + room, hard))
        try:
            child = await scope.spawn(["true"], cwd=Path("/"), env=ENV, stdin="pipe", stderr="null")
        except SpawnError as failure:
            assert "Too many open files" in str(failure)
        else:
            started += 1
            assert await child.exited == 0
            child.close()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await scope.close()
        probe = os.dup(0)
        os.close(probe)
        assert probe == free
    assert 0 < started < 16
    gc.collect()
    assert faults == []
