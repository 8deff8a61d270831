"""Owns what becomes of a task that fails where nobody looks: it is told of, and nothing else ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, TypeVar

from zotd.base.log import mistake

T = TypeVar("T")


class Tasks(Protocol):
    """Whatever owns tasks. `Independent` is the real one; where a mistake should end all, a TaskGroup."""

    def create_task(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run `coro` until it ends or its owner does."""
        ...


class Independent:
    """Tasks that end together, and not for each other's sake: as a TaskGroup, but for failures.

    A failure is ours, since tasks deal with all that can go wrong outside. Its traceback goes to standard
    error, whoever awaits the task gets it as well, and the others run on.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Independent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all; cancel them first when the block failed, or when the wait is cancelled."""
        if error is not None:
            self._cancel()
        cancelled: asyncio.CancelledError | None = None
        while self._tasks:
            try:
                await asyncio.wait(self._tasks)
            except asyncio.CancelledError as stop:
                cancelled = stop
                self._cancel()
        if cancelled is not None and error is None:
            raise cancelled

    def create_task(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """As `Tasks`."""
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def end(self, within_s: float) -> None:
        """Cancel what still runs after so many seconds: nobody needs it any more."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)
        self._cancel()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if (bug := failure_of(task)) is not None:
            mistake(task.get_name(), bug)


class Watched:
    """Tasks of another owner whose failures somebody is told of, besides."""

    def __init__(self, tasks: Tasks, report: Callable[[str, BaseException], None]) -> None:
        """report: gets a task's name and what was raised in it."""
        self._tasks = tasks
        self._report = report

    def create_task(self, coro: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """As `Tasks`."""
        task = self._tasks.create_task(coro, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if (bug := failure_of(task)) is not None:
            self._report(task.get_name(), bug)


def failure_of(task: asyncio.Task[Any]) -> BaseException | None:
    """What was raised in a task that has ended; None where it was cancelled."""
    return None if task.cancelled() else task.exception()
