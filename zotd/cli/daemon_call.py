"""Owns one question to a running daemon, asked and answered over its socket without any loop."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from zotd import __version__
from zotd.base.limits import Limits
from zotd.base.places import daemon_socket, run_directory
from zotd.cli.rendezvous import NoDaemon, check_place, dial, own_peer, silent
from zotd.daemon.spec import TOKEN_VARIABLES
from zotd.protocol.version import PROTOCOL_VERSION

CALLER = "zotd daemon"
"""What such a client calls itself."""


class Silent(Exception):
    """The daemon did not answer in time. pid: of who listens there, 0 where that is not known."""

    def __init__(self, message: str, pid: int) -> None:
        super().__init__(message)
        self.pid = pid


class NotDone(Exception):
    """The daemon answered with an error; the message is its own, with what to do."""


class Full(NotDone):
    """The daemon can let nobody in. pid: as `Silent` has it."""

    def __init__(self, message: str, pid: int) -> None:
        super().__init__(message)
        self.pid = pid


class Line:
    """A connection to the user's daemon, for a few questions. Close it.

    pid: of who began to listen there, which with socket activation is the service manager; 0 if unknown.
    """

    def __init__(self, environ: Mapping[str, str], home: str, limits: Limits) -> None:
        """Raises Absent, Gone, NoDaemon of `rendezvous`, and Silent."""
        self.path = daemon_socket(environ, home)
        place = run_directory(environ, home)
        if os.path.lexists(place):
            check_place(place)
        self._seconds = limits.daemon_answer_s
        self._most = limits.frame_bytes
        self._rest = b""
        dialled = dial(self.path)
        try:
            self.pid = own_peer(dialled, self.path)
        except NoDaemon:
            dialled.close()
            raise
        self._socket = socket.socket(fileno=dialled.detach())
        self._socket.settimeout(self._seconds)
        self._token = next((environ[name] for name in TOKEN_VARIABLES if environ.get(name)), "")

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a method, after an introduction. Raises Silent, NotDone, ConnectionError."""
        hello: dict[str, Any] = {
            "protocol_version": PROTOCOL_VERSION,
            "client": {"name": CALLER, "version": __version__},
        }
        if self._token:
            hello["token"] = self._token
        try:
            for number, (name, what) in enumerate((("initialize", hello), (method, params))):
                message = {"jsonrpc": "2.0", "id": number, "method": name, "params": what}
                with suppress(BrokenPipeError):  # it may have said why before it hung up
                    self._socket.sendall(json.dumps(message).encode() + b"\n")
                answer = self._answer(number)
        except TimeoutError:
            raise Silent(silent(self.path, self.pid, self._seconds), self.pid) from None
        return answer

    def _answer(self, number: int) -> Any:
        """The result to the request of that number, events let pass, within the time there is."""
        end = time.monotonic() + self._seconds
        while True:
            said = self._frame(end)
            if error := said.get("error"):
                self._refused(said.get("id"), error)
            if said.get("id") == number and "result" in said:
                return said["result"]

    def _refused(self, number: Any, error: Any) -> NoReturn:
        from zotd.wire.peer import OVERLOADED

        error = error if isinstance(error, dict) else {"message": error}
        data = error.get("data")
        hint = data.get("hint") if isinstance(data, dict) else None
        words = f"{error.get('message')}{f'; {hint}' if hint else ''}"
        if number is None and error.get("code") == OVERLOADED:  # said as we came
            raise Full(words, self.pid)
        raise NotDone(words)

    def _frame(self, end: float) -> dict[str, Any]:
        """The next JSON object. Raises TimeoutError, and NotDone where something else is said."""
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            piece = self._socket.recv(65536)
            if not piece:
                raise ConnectionResetError(f"{self.path}: the daemon hung up")
            self._rest += piece
            if len(self._rest) > self._most:
                break
        line, _, self._rest = self._rest.partition(b"\n")
        if time.monotonic() > end:  # somebody who never ceases to talk
            raise TimeoutError
        with suppress(ValueError, RecursionError):
            if isinstance(said := json.loads(line), dict):
                return said
        raise NotDone(f"{self.path}: what answers there is no zotd")
