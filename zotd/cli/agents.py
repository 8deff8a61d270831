"""Owns what every way in shares: sessions that load late, and signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from zotd.base.limits import Limits
from zotd.base.tasks import Tasks
from zotd.cli.flags import Flags

if TYPE_CHECKING:
    from zotd.daemon.sessions import Sessions


CANNOT_ASK = (
    "nobody can be asked here: calls of tools are denied, but for those that were allowed for good; "
    "--approval rules goes by permissions.json, --approval auto runs all"
)
"""What a person is told where `--no-yolo` or `--approval ask` leaves little to run."""


class Agents:
    """Sessions, loaded when the first one is opened: a health check never pays for the agent."""

    def __init__(self, flags: Flags, limits: Limits, tasks: Tasks) -> None:
        self._flags = flags
        self._limits = limits
        self._tasks = tasks
        self._sessions: Sessions | None = None

    @property
    def sessions(self) -> Sessions:
        if self._sessions is None:
            from zotd.daemon.sessions import Sessions
            from zotd.providers.registry import Providers

            providers = Providers(
                self._limits, insecure=self._flags.insecure, temperature=self._flags.temperature
            )
            self._sessions = Sessions(self._limits, self._tasks, providers)
        return self._sessions

    # Work of a daemon

    @property
    def busy(self) -> bool:
        return self._sessions is not None and self._sessions.busy

    def drain(self) -> None:
        self.sessions.drain()

    async def settled(self) -> None:
        if self._sessions is not None:
            await self._sessions.settled()

    async def close(self) -> None:
        if self._sessions is not None:
            await self._sessions.close_all()


def on_signals(callback: Callable[[], None], *, ignored: bool = False) -> None:
    """SIGTERM, SIGINT and SIGHUP call `callback` on the running loop.

    ignored: whether SIGHUP does nothing: a daemon outlives the terminal it was started from.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, callback)
    if ignored:
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
