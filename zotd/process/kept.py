"""Owns this process's keeper and the conversation with its sub-keepers; see `keeper.py` for the other end."""

from __future__ import annotations

import asyncio
import errno
import itertools
import marshal
import os
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zotd.process.last_resort import end_keeper, end_known, start_of

_LENGTH = struct.Struct("<I")
_AT_ONCE = 65536
_CANNOT = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOSYS, errno.ENOEXEC}  # and never will
_SEND_S = 1.0  # to a keeper that was stopped by somebody; one that runs takes it in microseconds


_FORCE_S = 0.5  # SIGKILL to the end of what a keeper that does not answer has left


class Lost(Exception):
    """The keeper has ended: killed, or unable to run on this system."""


class Unanswered(Exception):
    """The keeper does not answer: somebody has stopped it, or the system is too busy."""


class Keeper:
    """This process's keeper, started when first needed. It ends by itself, after this process.

    usable: whether programs can be started through one, as far as is known.
    """

    def __init__(self) -> None:
        self.usable = sys.platform == "linux"
        self._proven = False
        self._pid = 0
        self._ending: set[int] = set()
        self._socket: socket.socket | None = None

    @property
    def pid(self) -> int:
        """0 when none was started, or when it has ended and that was noticed."""
        return self._pid

    def new_sub_keeper(self, seconds: float) -> socket.socket:
        """Our end of the socket of a new sub-keeper, which may take `seconds` to end what it has started.

        Raises OSError when none can be made, and Lost when none ever can.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                try:
                    self._send(theirs, seconds)
                except (BrokenPipeError, ConnectionResetError):
                    self._forget()
                    self._send_to_new(theirs, seconds)
            ours.setblocking(False)
        except BaseException:
            ours.close()
            raise
        return ours

    def works(self) -> None:
        """A program was started through it."""
        self._proven = True

    def failed(self) -> bool:
        """It did not do what it was asked. Whether to try again: not if none ever worked on this system."""
        self.usable = self._proven
        self.collect()
        return self.usable

    def collect(self) -> None:
        """Take note of its end, should it have ended. Unlike its sub-keepers it is our child."""
        for pid in (*self._ending, self._pid):
            if pid and _collected(pid):
                self._ending.discard(pid)
                if pid == self._pid:
                    self._forget()
                    self._ending.discard(pid)

    def resume(self) -> None:
        """Let it go on, should somebody have stopped it."""
        self._signal(signal.SIGCONT)

    def abandon(self) -> None:
        """Kill it, since it does not do what it is there for. Its sub-keepers go on without it."""
        self._signal(signal.SIGKILL)
        self._forget()

    def _signal(self, number: int) -> None:
        if self._pid:  # a child that we have not collected: nobody else has its number
            os.kill(self._pid, number)

    def _forget(self) -> None:
        """Use it no more. It ends by itself when it has not ended yet."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._ending.add(self._pid)
        self._ending.discard(0)
        self._pid = 0

    def _send(self, theirs: socket.socket, seconds: float) -> None:
        if self._socket is None:
            self._socket = self._start(seconds)
        socket.send_fds(self._socket, [b"\0"], [theirs.fileno()])

    def _send_to_new(self, theirs: socket.socket, seconds: float) -> None:
        try:
            self._send(theirs, seconds)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Lost from error

    def _start(self, seconds: float) -> socket.socket:
        ours, theirs = socket.socketpair()
        # From its compiled form, which a script named on the command line has not.
        program = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import keeper; keeper.main()"
        environ = {name: value for name, value in os.environ.items() if name.startswith("LD_")}
        try:
            with theirs:
                self._pid = os.posix_spawn(
                    sys.executable,
                    [sys.executable, "-I", "-S", "-c", program, str(seconds)],
                    environ,
                    file_actions=[
                        (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                    ],
                    setsid=True,
                    # It is not to be ended by what is sent to all of a terminal or of a user.
                    setsigmask=signal.valid_signals() - {signal.SIGCHLD},
                    setsigdef=[signal.SIGCHLD],
                )
        except NotImplementedError as error:
            ours.close()
            raise Lost from error
        except OSError as error:
            ours.close()
            if error.errno in _CANNOT:
                raise Lost from error
            raise
        ours.settimeout(_SEND_S)
        return ours


def _collected(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


KEEPER = Keeper()
"""One for the process, whose children these are. None is started before a program is."""


class SubKeeper:
    """The programs of one scope, as the sub-keeper that starts them reports them.

    lost: whether it has ended, by our wish or another's.
    """

    def __init__(self, seconds: float) -> None:
        """Asks for a sub-keeper. Raises OSError and Lost as `Keeper.new_sub_keeper`."""
        self.lost = False
        self._loop = asyncio.get_running_loop()
        self._socket = KEEPER.new_sub_keeper(seconds)
        self._pid = 0
        self._began = -1
        self._refused = 0  # errno, where the system had no room for it
        self._numbers = itertools.count()
        self._pings: dict[int, asyncio.Future[None]] = {}
        self._starting: dict[int, asyncio.Future[tuple[int, asyncio.Future[int]]]] = {}
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._starts: dict[int, int] = {}
        self._received = bytearray()
        self._outgoing: deque[tuple[bytes, list[int]]] = deque()
        self._over = asyncio.Event()
        self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def spawn(
        self, argv: Sequence[bytes], cwd: bytes, env: Mapping[bytes, bytes], fds: Sequence[int]
    ) -> asyncio.Future[tuple[int, asyncio.Future[int]]]:
        """Start a program with `fds` as its standard input, output and error. Its pid, and its exit, to come.

        The descriptors may be closed when this returns. Cancelling the result kills the program, should it
        have started. The result raises OSError when the program cannot be started, and Lost.

        Raises OSError when there are no descriptors left, and Lost.
        """
        if self.lost:
            raise Lost
        copies = _copies(fds)
        number = next(self._numbers)
        waiter: asyncio.Future[tuple[int, asyncio.Future[int]]] = self._loop.create_future()
        self._starting[number] = waiter
        self._send(("spawn", number, list(argv), cwd, dict(env)), copies)
        return waiter

    def signal(self, group: int, number: int) -> None:
        """Signal a group that was started here; the sub-keeper knows whether it is still the same."""
        if not self.lost:
            self._send(("signal", group, int(number)))

    async def answers(self, within: float) -> bool:
        """Whether it answers in so many seconds. What has ended has nothing left to do: that is one."""
        if self.lost:
            return True
        number = next(self._numbers)
        pong = self._pings[number] = self._loop.create_future()
        self._send(("ping", number))
        await asyncio.wait([pong], timeout=within)
        return pong.done()

    def not_started(self) -> None:
        """A spawn went unanswered. If nothing ever was answered, the keeper is to blame: have another."""
        if not self._pid and not self.lost:
            KEEPER.abandon()
            self._lose()

    async def close(self, seconds: float) -> None:
        """End all and wait for it, at most `seconds`, and a little more for what has to be forced."""
        try:
            if not self.lost:
                self._socket.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(seconds):
                    await self._over.wait()
        except (TimeoutError, OSError):
            await self.force()
        finally:
            self._lose()

    async def force(self) -> None:
        """End all though it does not answer. What is left is stuck in the kernel, or another user's."""
        if self.lost:
            return
        if self._pid:
            await end_keeper(self._pid, self._began, _FORCE_S)
        else:
            KEEPER.abandon()
        self._lose()

    def _send(self, frame: tuple[Any, ...], fds: Sequence[int] = ()) -> None:
        """Queue a frame; its descriptors are closed once they are on their way."""
        data = marshal.dumps(frame)
        self._outgoing.append((_LENGTH.pack(len(data)) + data, list(fds)))
        if len(self._outgoing) == 1:
            self._flush()
            if self._outgoing and not self.lost:
                self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        self._flush()
        if not self._outgoing and not self.lost:
            self._loop.remove_writer(self._socket.fileno())

    def _flush(self) -> None:
        try:
            while self._outgoing:
                data, fds = self._outgoing[0]
                rights = struct.pack(f"{len(fds)}i", *fds)
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if fds else []
                count = self._socket.sendmsg([data], ancillary)
                _close_all(fds)
                self._outgoing.popleft()
                if count < len(data):
                    self._outgoing.appendleft((data[count:], []))
        except BlockingIOError:
            pass
        except OSError:
            self._on_readable()  # it may have said why
            self._lose()

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self._received += data
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            kind, key, *rest = marshal.loads(self._received[_LENGTH.size : end])
            del self._received[:end]
            self._take(kind, key, *rest)

    def _take(self, kind: str, key: int, value: int) -> None:
        if kind == "serving":
            self._pid, self._began = key, start_of(key)
            return
        if kind == "refused":
            self._refused = key
            self._lose()  # now: uvloop tells the end of a socket no second time
            return
        KEEPER.works()
        if kind == "pong":
            _answer(self._pings.pop(key))
            return
        if kind == "exited":
            exited = self._exits.pop(key)
            self._starts.pop(key, None)
            if not exited.done():
                exited.set_result(value)
            return
        waiter = self._starting.pop(key)
        if kind == "started":
            exited = self._exits[value] = self._loop.create_future()
            self._starts[value] = start_of(value)
            if waiter.done():  # cancelled: nobody wants it any more
                self.signal(value, signal.SIGKILL)
            else:
                waiter.set_result((value, exited))
        elif not waiter.done():
            waiter.set_exception(OSError(value, os.strerror(value)))

    def _lose(self) -> None:
        """It has ended, and what it kept has been killed, or is being killed by the keeper."""
        if self.lost:
            return
        self.lost = True
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        for _, fds in self._outgoing:
            _close_all(fds)
        self._outgoing.clear()
        for waiter in self._starting.values():
            if not waiter.done():
                why = OSError(self._refused, os.strerror(self._refused)) if self._refused else Lost()
                waiter.set_exception(why)
        self._starting.clear()
        for pong in self._pings.values():
            _answer(pong)
        self._pings.clear()
        if self._starts:  # the keeper would end them, but it may be gone as well
            end_known(self._starts)
            self._starts.clear()
        for exited in self._exits.values():
            if not exited.done():
                exited.set_result(-signal.SIGKILL)
        self._exits.clear()
        KEEPER.resume()
        KEEPER.collect()
        self._over.set()


def _answer(pong: asyncio.Future[None]) -> None:
    if not pong.done():
        pong.set_result(None)


def _copies(fds: Sequence[int]) -> list[int]:
    """Duplicates of all of them, or of none. Raises OSError."""
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))  # noqa: PERF401 - those made before a failure are to be closed
    except OSError:
        _close_all(copies)
        raise
    return copies


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
