"""A task that fails is told of, and nothing else ends with it."""

from __future__ import annotations

import asyncio

import pytest

from zotd.base.tasks import Independent, Watched


async def _say(words: str) -> str:
    return words


async def fail() -> None:
    raise LookupError("nothing is there")


async def test_one_that_fails_ends_no_other_and_its_traceback_is_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    go_on = asyncio.Event()
    async with Independent() as tasks:
        other = tasks.create_task(go_on.wait())
        failed = tasks.create_task(fail(), name="the search")
        await asyncio.wait([failed])
        go_on.set()
    assert other.result()
    told = capfd.readouterr().err
    assert told.startswith("zotd: a mistake of ours ended: the search\nTraceback")
    assert told.endswith("LookupError: nothing is there\n")


async def test_who_awaits_one_that_fails_gets_what_it_raised(capfd: pytest.CaptureFixture[str]) -> None:
    async with Independent() as tasks:
        with pytest.raises(LookupError, match="nothing is there"):
            await tasks.create_task(fail())
    assert capfd.readouterr().err.count("Traceback") == 1


async def test_the_end_waits_for_all_and_for_what_they_start() -> None:
    done: list[str] = []

    async def second() -> None:
        done.append("second")

    async def first() -> None:
        tasks.create_task(second())
        done.append("first")

    async with Independent() as tasks:
        tasks.create_task(first())
    assert done == ["first", "second"]


async def test_all_are_cancelled_when_the_block_fails_or_is_cancelled() -> None:
    never = asyncio.Event()
    with pytest.raises(LookupError):
        async with Independent() as tasks:
            forsaken = tasks.create_task(never.wait())
            raise LookupError
    assert forsaken.cancelled()

    begun = asyncio.Event()
    left: list[asyncio.Task[bool]] = []

    async def wait_for_it() -> None:
        async with Independent() as tasks:
            left.append(tasks.create_task(never.wait()))
            begun.set()

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(wait_for_it())
        await begun.wait()
        waiting.cancel()
    assert waiting.cancelled()
    assert left[0].cancelled()


async def test_whoever_watches_is_told_which_one_failed_and_of_no_cancellation(
    capfd: pytest.CaptureFixture[str],
) -> None:
    told: list[tuple[str, str]] = []
    async with Independent() as tasks:
        watched = Watched(tasks, lambda name, bug: told.append((name, repr(bug))))
        watched.create_task(fail(), name="the search")
        watched.create_task(asyncio.Event().wait(), name="the wait").cancel()
    assert told == [("the search", "LookupError('nothing is there')")]
    assert "the search" in capfd.readouterr().err


async def test_at_the_end_what_needs_a_moment_gets_it_and_what_never_ends_is_cancelled() -> None:
    async with Independent() as tasks:
        quick = tasks.create_task(_say("done"))
        stuck = tasks.create_task(asyncio.Event().wait())
        await tasks.end(0.05)
    assert quick.result() == "done"
    assert stuck.cancelled()
    await tasks.end(0.05)
