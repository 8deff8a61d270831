"""Owns how clients come in over a listening Unix socket, also when no descriptors are left.

The loop's own servers accept and hang up without a word when descriptors run out, know nothing of uids, and
cannot stop accepting without closing a socket that belongs to a service manager.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from zotd.base.files import MORE_DESCRIPTORS
from zotd.base.limits import Limits
from zotd.base.log import log
from zotd.base.tasks import Tasks
from zotd.daemon.peer_uid import may_connect

_NONE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Door:
    """One listening socket. A client that cannot be let in gets one error line that says why."""

    def __init__(
        self,
        listening: socket.socket,
        limits: Limits,
        tasks: Tasks,
        client: Callable[[], asyncio.Protocol],
    ) -> None:
        """listening: not blocking. client: makes the protocol of one connection."""
        self._listening = listening
        self._limits = limits
        self._tasks = tasks
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._reserve = _any_descriptor()
        self._short = False
        self._closing = False
        self._again: asyncio.TimerHandle | None = None
        self._loop.add_reader(listening.fileno(), self._some)

    def close(self, *, let_in: bool = False) -> None:
        """Nobody comes in any more. let_in: whoever waits outside already does."""
        if self._listening.fileno() < 0:
            return
        self._closing = True
        self._loop.remove_reader(self._listening.fileno())
        if self._again is not None:
            self._again.cancel()
        while let_in and self._one():
            pass
        self._listening.close()
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _some(self) -> None:
        """A few at a time: those that are in have to be served too."""
        for _ in range(self._limits.accepted_at_once):
            if not self._one():
                return

    def _one(self) -> bool:
        """Let one in, or tell it why not. False when nobody waits, or nobody can be let in now."""
        try:
            connected, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionError:  # it has gone meanwhile
            return True
        except OSError as problem:
            if problem.errno in _NONE_LEFT:
                return self._turn_away()
            log("cannot accept", "error", fault=problem.strerror)
            return self._wait()
        # The lowest free number is given out: so many are in use, and the rest is for those that are in.
        if connected.fileno() >= _descriptors() - self._limits.spare_descriptors:
            self._too_many(connected)
            return True
        self._enough()
        allowed, uid = may_connect(connected)
        if not allowed:
            log("client refused", "warn", uid=uid)
            message = f"this zotd serves uid {os.geteuid()} and root, not uid {uid}"
            _refuse(connected, -32000, message, "auth", "start your own: zotd daemon start")
            return True
        connected.setblocking(False)
        self._tasks.create_task(self._let_in(connected), name="a new connection")
        return True

    async def _let_in(self, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._client, connected)
        except OSError:  # it has gone meanwhile
            connected.close()

    def _turn_away(self) -> bool:
        """Use the last descriptor to tell one client. False when even that is impossible."""
        self._tell_shortage()
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
            with suppress(OSError):
                connected, _ = self._listening.accept()
                self._too_many(connected)
                self._reserve = _any_descriptor()
                return self._reserve >= 0 or self._wait()
        return self._wait()

    def _too_many(self, connected: socket.socket) -> None:
        self._tell_shortage()
        message = "zotd has no file descriptors left for another client"
        _refuse(connected, -32001, message, "overloaded", MORE_DESCRIPTORS, self._limits.accept_again_s)

    def _wait(self) -> bool:
        """Look again later: who waits outside makes the socket readable all the time."""
        if self._closing:
            return False
        self._loop.remove_reader(self._listening.fileno())
        self._again = self._loop.call_later(self._limits.accept_again_s, self._resume)
        return False

    def _resume(self) -> None:
        self._again = None
        if self._reserve < 0:
            self._reserve = _any_descriptor()
        self._loop.add_reader(self._listening.fileno(), self._some)
        self._some()

    def _tell_shortage(self) -> None:
        if not self._short:
            self._short = True
            log("no descriptors left", "error", limit=_descriptors())

    def _enough(self) -> None:
        if self._short:
            self._short = False
            log("descriptors again", limit=_descriptors())


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _any_descriptor() -> int:
    """One that can be given up when it is needed; -1 when there is none."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _refuse(
    connected: socket.socket, code: int, message: str, kind: str, hint: str, again_s: float = 0.0
) -> None:
    """One line and the end. No dialect is known yet: JSON-RPC has a shape for that."""
    from zotd.wire.codec import encode
    from zotd.wire.peer import error, problem

    more = {"retry_after_ms": int(again_s * 1000)} if again_s else {}
    with connected, suppress(OSError):
        connected.setblocking(False)
        connected.send(encode(error(None, code, message, problem(kind, hint, **more))) + b"\n")
