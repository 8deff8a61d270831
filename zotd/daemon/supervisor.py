"""Owns what a service manager says to the process and hears of it: sockets, readiness, signs of life.

The environment is read by hand, as `sd_listen_fds(3)` and `sd_notify(3)` describe it, so that no library is
needed for a few lines.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress

_FIRST_FD = 3
_SOCKETS = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")
_PULSE = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
VARIABLES = (*_SOCKETS, *_PULSE)
"""They are meant for this process: a child that inherits them could speak for it."""


class Supervisor:
    """The service manager, or nobody: then nothing is inherited, and what is told goes nowhere.

    inherited: listening sockets, theirs to be closed. watchdog_s: seconds without a sign of life after which
    the manager ends the process; 0 when it does not look.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """Takes all that is meant for this process out of its environment. Raises OSError for sockets that
        cannot be served.
        """
        said = {name: environ.pop(name) for name in VARIABLES if name in environ}
        self._address = said.get("NOTIFY_SOCKET", "")
        self._status = ""
        ours = said.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_s = _number(said.get("WATCHDOG_USEC", "")) / 1e6 if ours and self._address else 0.0
        here = said.get("LISTEN_PID") == str(os.getpid())
        self.inherited = _inherited(_number(said.get("LISTEN_FDS", ""))) if here else []

    def tell(self, *fields: str) -> None:
        """Send fields such as `READY=1`. A manager that does not listen is no reason to fail."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.setblocking(False)
            notify.sendto("\n".join(fields).encode(), address)

    def show(self, status: str) -> None:
        """One line for a person, as `systemctl status` shows it; nothing where it is no news."""
        if status != self._status:
            self._status = status
            self.tell(f"STATUS={status}")

    def beat(self, status: Callable[[], str]) -> None:
        """From now on show signs of life, from the running loop itself: one that hangs shows none."""
        if self.watchdog_s:
            self._beat(asyncio.get_running_loop(), status)

    def _beat(self, loop: asyncio.AbstractEventLoop, status: Callable[[], str]) -> None:
        self.tell("WATCHDOG=1")
        self.show(status())
        loop.call_later(self.watchdog_s / 2, self._beat, loop, status)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _inherited(count: int) -> list[socket.socket]:
    found: list[socket.socket] = []
    for fd in range(_FIRST_FD, _FIRST_FD + count):
        os.set_inheritable(fd, False)
        one = socket.socket(fileno=fd)
        found.append(one)
        if one.family != socket.AF_UNIX or not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise OSError(
                f"LISTEN_FDS: descriptor {fd} is no listening Unix socket; have the service manager listen "
                "on one (ListenStream=%t/zotd/zotd.sock), and give other addresses by --listen"
            )
        one.setblocking(False)
    return found
