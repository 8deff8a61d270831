"""Owns what the process is to its clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zotd.daemon.connection import Connection
    from zotd.protocol.daemon_methods import Transport


class Daemon(Protocol):
    """The process, as far as its clients ask about it.

    started: seconds since 1970; running_since: the same moment on the monotonic clock.
    listening: addresses that clients can come to. idle_exit_s: None when it stays.
    draining: whether it ends once the turns that run and wait are done. connections: how each has come.
    stop: ends it as SIGTERM does; drain: once those turns are done.
    """

    started: float
    running_since: float

    @property
    def home(self) -> Path: ...
    @property
    def listening(self) -> Sequence[str]: ...
    @property
    def idle_exit_s(self) -> float | None: ...
    @property
    def draining(self) -> bool: ...
    @property
    def connections(self) -> Mapping[Connection, Transport]: ...
    def stop(self) -> None: ...
    def drain(self) -> None: ...
