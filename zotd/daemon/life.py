"""Owns how the process comes to its end: told to, with nothing left to do, or replaced by a newer one."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zotd.base.limits import Limits
from zotd.base.log import log
from zotd.base.tasks import Tasks
from zotd.daemon.supervisor import Supervisor

if TYPE_CHECKING:
    from zotd.daemon.connection import Connection
    from zotd.protocol.daemon_methods import Transport


class Work(Protocol):
    """What the process does for its clients. busy: whether a turn or command runs or waits.

    drain: from now on no new ones are taken. settled: until those that were are done.
    """

    @property
    def busy(self) -> bool: ...
    def drain(self) -> None: ...
    async def settled(self) -> None: ...


class Life:
    """Three ages: it serves, it drains, it stops. There is no way back.

    connections: how each client has come. listening: addresses for more of them.
    """

    def __init__(self, work: Work, limits: Limits, tasks: Tasks, home: Path, supervisor: Supervisor) -> None:
        self.started, self.running_since = time.time(), time.monotonic()
        self.home = home
        self.tasks = tasks
        self.listening: list[str] = []
        self.connections: dict[Connection, Transport] = {}
        self.idle_exit_s: float | None = None
        self.draining = False
        self.supervisor = supervisor
        self.stopping = asyncio.Event()
        self.code = 0
        self._work = work
        self._limits = limits
        self._upgraded: Callable[[], bool] = lambda: False
        self._beside: list[asyncio.Task[None]] = []

    def serving(
        self, idle_exit_s: float, upgraded: Callable[[], bool], lost: Callable[[], bool] | None = None
    ) -> None:
        """Clients can come. idle_exit_s: 0 for never. upgraded: whether the installation has changed. lost:
        whether nobody can come any more; None where that is not for us to see to.
        """
        self._upgraded = upgraded
        self.supervisor.tell("READY=1")
        self.supervisor.show(self._status())
        self.supervisor.beat(self._status)
        if lost is not None:
            self.beside(self._watch_place(lost), "place")
        if idle_exit_s:
            self.idle_exit_s = idle_exit_s
            self.beside(self._watch_idleness(idle_exit_s), "idle exit")

    def beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Have something done that the end does not wait for."""
        self._beside.append(self.tasks.create_task(work, name=name))

    def arrived(self) -> None:
        """A client has come: a look whether another installation should serve it."""
        if not self.draining and not self.stopping.is_set() and self._upgraded():
            log("installation changed", "warn")
            self.drain()

    def stop(self, code: int = 0) -> None:
        """End the process, with an exit code: turns are aborted and saved. Once begun it takes seconds."""
        self.code = self.code or code
        if self.stopping.is_set():
            return
        self.stopping.set()
        for task in self._beside:
            task.cancel()
        log("stopping")
        self.supervisor.tell("STOPPING=1", "STATUS=stopping")

    def drain(self) -> None:
        """Take no new turns and no new clients, and end the process once what runs or waits is done."""
        if self.draining or self.stopping.is_set():
            return
        self.draining = True
        log("draining")
        self._work.drain()
        self.close_doors()
        self.supervisor.show("draining: the turns that run are finished")
        self.tasks.create_task(self._drained(), name="drain")

    def close_doors(self) -> None:
        """Let in who waits outside, and then nobody any more; others can listen in our place."""

    async def _drained(self) -> None:
        try:
            async with asyncio.timeout(self._limits.drain_turns_s):
                await self._work.settled()
        except TimeoutError:
            log("turns did not end", "warn", seconds=self._limits.drain_turns_s)
        if self.connections:  # who came last has to be told where to go
            await asyncio.sleep(self._limits.exit_grace_s)
        self.stop()

    async def _watch_place(self, lost: Callable[[], bool]) -> None:
        """Whoever comes next starts another daemon: two would stand in each other's way."""
        while not (self.draining or self.stopping.is_set()):
            await asyncio.sleep(self._limits.place_s)
            if lost():
                log("socket removed", "warn")
                self.drain()

    async def _watch_idleness(self, idle_exit_s: float) -> None:
        """No client, and nothing that runs or waits, for so many seconds. Seldom looks: a laptop sleeps."""
        since = time.monotonic()
        while not (self.draining or self.stopping.is_set()):
            await asyncio.sleep(idle_exit_s / 10)
            if self.connections or self._work.busy:
                since = time.monotonic()
            elif time.monotonic() - since >= idle_exit_s:
                log("idle", seconds=idle_exit_s)
                self.drain()  # and not at once: somebody may have come this very moment

    def _status(self) -> str:
        if self.draining or self.stopping.is_set():
            return "draining: the turns that run are finished"
        return f"clients: {len(self.connections)}{', working' if self._work.busy else ''}"


def leave_after(seconds: float, code: int) -> None:
    """End the process then, whatever still holds it: a thread sees to it, should the loop itself be stuck.

    What it has started ends with it, as after a SIGKILL.
    """
    last = threading.Timer(seconds, os._exit, [code])
    last.daemon = True
    with suppress(RuntimeError):  # no thread can be had
        last.start()
