"""Owns `zotd rpc --connect`: a forwarder between standard input and output and a daemon's socket.

Imports next to nothing, for an editor waits: a line as editors write it is understood here, any other by
`flags`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # see main
import _socket
import _thread
import os
import time
from _json import encode_basestring as _quoted  # `json` would cost more than all else here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    from zotd.cli.flags import Flags
    from zotd.cli.rendezvous import Met

_PIECE = 65536
_TAIL = 256
"""Bytes of the last words of a client that are looked at: more than a goodbye takes."""

_TEXTS = {
    "--provider": "provider",
    "--model": "model",
    "--api-key": "api_key",
    "--base-url": "base_url",
    "--system-prompt": "system_prompt",
}
_LISTS = {"--append-system-prompt": "append_system_prompt"}
_PATHS = {"--ext": "ext", "-e": "ext"}
_SWITCHES = {
    "--no-tools": "no_tools",
    "--no-ext": "no_ext",
    "--no-extensions": "no_ext",
    "--no-skill": "no_skill",
    "--no-skills": "no_skill",
    "--no-session": "no_session",
    "-c": "continue",
    "--continue": "continue",
    "-r": "continue",
    "--resume": "continue",
}
"""Flags of a session by their names in a preface; those that need to be looked into are for `flags`."""


class Call:
    """Whom to connect to, and what the preface says: the folder, absolute, and the flags."""

    def __init__(self, address: str, cwd: str, flags: dict[str, Any]) -> None:
        self.address = address
        self.cwd = cwd
        self.flags = flags


def quick(argv: list[str]) -> int | None:
    """Do what a plain command line with `--connect` says; the exit code. None for one that is not plain."""
    call = plain(argv)
    return None if call is None else _forward(call)


def forward(flags: Flags) -> int:
    """The same for a command line that was parsed."""
    from zotd.cli.preface import Unsendable, call_of

    try:
        call = call_of(flags)
    except (Unsendable, OSError) as wrong:
        return _complain(str(wrong), 2)
    return _forward(call)


def preface(call: Call, home: str, environ: Mapping[str, str], mode: str = "rpc") -> bytes:
    """The first line to a daemon. Variables that are no UTF-8 are left out: JSON has no room for them."""
    said = {"zotd": 1, "version": _version(), "mode": mode, "cwd": call.cwd, "home": home}
    try:
        return (_json({**said, "env": dict(environ), "flags": call.flags}) + "\n").encode()
    except UnicodeEncodeError:
        env = {name: value for name, value in environ.items() if _is_text(name) and _is_text(value)}
        return (_json({**said, "env": env, "flags": call.flags}) + "\n").encode()


def plain(argv: list[str]) -> Call | None:
    """The call of a command line, or None for one that a parser has to look at."""
    flags: dict[str, Any] = {}
    address = cwd = ""
    rpc = False
    words = iter(argv)
    for word in words:
        if word in ("rpc", "--rpc"):
            rpc = True
        elif (name := _SWITCHES.get(word)) is not None:
            flags[name] = True
        else:
            value = next(words, "")
            if not value.strip() or value[0] in "-~":
                return None
            if word == "--mode" and value == "rpc":
                rpc = True
            elif word == "--connect":
                address = value
            elif word == "--cwd":
                cwd = value
            elif (name := _TEXTS.get(word)) is not None:
                flags[name] = value
            elif (name := _LISTS.get(word)) is not None:
                flags.setdefault(name, []).append(value)
            elif (name := _PATHS.get(word)) is not None:
                flags.setdefault(name, []).append(_absolute(value))
            else:
                return None
    cwd = _absolute(cwd)
    if not rpc or not address or not os.path.isdir(cwd) or {"continue", "no_session"} <= flags.keys():  # noqa: PTH112
        return None
    return Call(address, cwd, flags)


def _forward(call: Call) -> int:
    """Meet the daemon and copy until either end has no more to say. Returns the exit code."""
    from zotd.base.places import zot_home
    from zotd.cli.rendezvous import NoDaemon, Unwelcome, meet

    for number, code in ((_signal.SIGINT, 130), (_signal.SIGTERM, 143)):
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            _signal.signal(number, lambda *_, code=code: os._exit(code))
    try:
        home = zot_home(os.environ)
        line = preface(call, home, os.environ)

        def again() -> Met:
            return meet(call.address, os.environ, home, line)

        met = again()
    except UnicodeEncodeError:
        return _complain("a path or flag is no UTF-8: no daemon can be told of it", 2)
    except Unwelcome as no:
        return _complain(str(no), 2)
    except (NoDaemon, OSError) as wrong:
        return _complain(str(wrong), 1)
    return _Relay(met, again, asks=call.flags.get("approval") == "ask").run()


class _Relay:
    """Both directions have a thread, so that a reader who is slow holds up no writer.

    again: meets the next daemon. asks: calls of tools need somebody who can be asked, which clients of the
    zot dialect cannot.
    """

    def __init__(self, met: Met, again: Callable[[], Met], *, asks: bool) -> None:
        self._again = again
        self._changing = _thread.allocate_lock()
        self._said = False
        self._met = 1
        self._since = time.monotonic()
        self._asks = asks
        self._socket = met.socket
        self._early = met.early
        self._input_over = False
        self._tail = b""

    def run(self) -> NoReturn:
        """Ends the process: a thread that waits for input cannot be told to end."""
        _signal.signal(
            _signal.SIGCHLD, _signal.SIG_IGN
        )  # a daemon that this process has started leaves no zombie
        _thread.start_new_thread(self._send_all, ())
        try:
            while not self._copy() and self._next():
                pass
        except BrokenPipeError:  # whoever read has left
            os._exit(0)
        except OSError as wrong:
            os._exit(_complain(f"standard output: {wrong.strerror}", 1))
        if self._input_over or self._said_goodbye():
            os._exit(0)
        os._exit(_complain("the daemon ended this connection; zotd daemon logs may tell why", 1))

    def _copy(self) -> bool:
        """Show what the daemon says until it has no more to say; whether it has said anything."""
        self._show(self._early)
        some = bool(self._early)
        while data := self._heard():
            some = True
            self._show(data)
        return some

    def _heard(self) -> bytes:
        try:
            return self._socket.recv(_PIECE)
        except ConnectionResetError:
            return b""

    def _next(self) -> bool:
        """Go to the next daemon when one hangs up right behind the preface, for it was just ending; whether
        that can be: not once anything was said to it.
        """
        from zotd.cli.rendezvous import NoDaemon

        with self._changing:
            if self._said:
                return False
            from zotd.base.limits import Limits

            limits, since = Limits(), time.monotonic() - self._since
            if self._met == limits.daemons_tried or since > limits.daemon_parts_s:
                return False
            self._met += 1
            self._socket.close()
            try:
                met = self._again()
            except NoDaemon as wrong:
                os._exit(_complain(str(wrong), 1))
            self._socket, self._early, self._since = met.socket, met.early, time.monotonic()
            return True

    def _send_all(self) -> None:
        """Hand on what comes in, and then that nothing more does: answers to it may still be on their way."""
        try:
            while data := self._read():
                if self._asks:
                    self._asks = False
                    _say_who_is_asked(data)
                self._tail = (self._tail + data)[-_TAIL:]
                self._current().sendall(data)
            self._input_over = True
            self._current().shutdown(_socket.SHUT_WR)
        except OSError:  # the daemon is gone, which the other direction notices too
            return

    def _current(self) -> _socket.socket:
        """Whom to say something to: from then on it is this daemon and no other."""
        with self._changing:
            self._said = True
            return self._socket

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(0, _PIECE)
            except BlockingIOError:  # whoever shares it does not want to be held up; we have to be
                _wait_for(0, "in")
            except OSError:  # a terminal that was hung up
                return b""

    def _show(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(1, view) :]
            except BlockingIOError:
                _wait_for(1, "out")

    def _said_goodbye(self) -> bool:
        """Whether the client has asked for the end of its connection, which is no fault then."""
        tail = self._tail.replace(b" ", b"")
        return b'"method":"exit"' in tail or b'"method":"shutdown"' in tail


def _say_who_is_asked(beginning: bytes) -> None:
    """To a client of the zot dialect, as far as its first bytes tell: a person started it with that flag."""
    if b'"type"' in beginning and b'"jsonrpc"' not in beginning:
        from zotd.cli.agents import CANNOT_ASK

        _complain(CANNOT_ASK, 0)


def _wait_for(fd: int, what: str) -> None:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN if what == "in" else select.POLLOUT)
    poll.poll()


def _json(value: Any) -> str:
    """JSON of what a preface is made of."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join([f"{_quoted(name)}:{_json(item)}" for name, item in value.items()]) + "}"
    return "[" + ",".join([_json(item) for item in value]) + "]"


def _absolute(path: str) -> str:
    here = os.getcwd()  # noqa: PTH109
    return os.path.join(here, path) if path else here  # noqa: PTH118


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _version() -> str:
    from zotd import __version__

    return __version__


def _complain(message: str, code: int) -> int:
    from zotd.cli.console import complain

    complain(message)
    return code
