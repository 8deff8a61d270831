"""Owns a running program: what goes in and out of it, and how it ends.

Works the same on asyncio's own loop and on uvloop: plain pipes and readiness callbacks. The end of a
process is learnt from whoever started it, never from its pipes, which a grandchild may hold open for hours.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

from zotd.process.group import group_exists, members_run

READ_BYTES = 65536  # what a pipe holds on Linux: one call takes it all
_REAP_S = 1.0  # SIGKILL to exit: only a process stuck in the kernel takes longer, and waiting helps nobody
_GROUP_POLL_S = 0.005  # a group has no descriptor to wait on, so its members are looked for, ever less often
_READS_IN_A_ROW = 4  # then other tasks get their turn, however fast the child writes


class Writer:
    """A child's standard input: takes any amount at once and writes it as the child reads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._waiting = bytearray()
        self._closing = False

    @property
    def buffered(self) -> int:
        """Bytes taken and not yet handed to the system: what the child is behind by."""
        return len(self._waiting)

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written: `close()` was called or the child closed its end."""
        return self._fd < 0 or self._closing

    def write(self, data: bytes) -> None:
        """Take `data`; never blocks. A child that has closed its end swallows it: its exit tells why."""
        if self.closed or not data:
            return
        if not self._waiting:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                pass
            except OSError:
                self.abandon()
                return
            if not data:
                return
            self._loop.add_writer(self._fd, self._on_writable)
        self._waiting += data

    def close(self) -> None:
        """End the input once everything taken has been written."""
        self._closing = True
        if not self._waiting:
            self.abandon()

    def abandon(self) -> None:
        """End the input now and forget what was not written."""
        self._closing = True
        if self._fd >= 0:
            if self._waiting:
                self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
        self._waiting.clear()

    def _on_writable(self) -> None:
        try:
            del self._waiting[: os.write(self._fd, self._waiting)]
        except BlockingIOError:
            return
        except OSError:
            self.abandon()
            return
        if not self._waiting:
            self._loop.remove_writer(self._fd)
            if self._closing:
                self.abandon()


class Child:
    """A running program, leader of its own session and process group.

    pid: also the id of the group.
    stdin: where to write, None when the child's input is null.
    exited: return code of the process itself, negative for a signal; set though its pipes are still held.
    """

    def __init__(
        self,
        pid: int,
        exited: asyncio.Future[int],
        stdin: Writer | None,
        stdout: int,
        send: Callable[[int], None],
    ) -> None:
        """stdout: the reading end of its output. send: signals its group, never a stranger's."""
        self.pid = pid
        self.stdin = stdin
        self.exited = exited
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._stdout = stdout
        self._reader: asyncio.Future[bytes] | None = None
        self._wanted = READ_BYTES
        self._take: Callable[[bytes], None] | None = None
        self._watched = False  # whether the loop tells us when there is output
        self._eager = 0

    async def read(self, n: int = READ_BYTES) -> bytes:
        """The next bytes of output, at most `n`; b"" at its end or after `close()`. One reader at a time."""
        if self._reader is not None:
            raise RuntimeError(f"two readers of the output of process {self.pid}")
        if self._eager >= _READS_IN_A_ROW:
            self._eager = 0
            await asyncio.sleep(0)
        # What is watched was read empty a moment ago: to look again would cost a call and find nothing.
        if not self._watched and (data := self.read_now(n)) is not None:
            return data
        return await self._readable(n)

    def read_now(self, n: int = READ_BYTES) -> bytes | None:
        """What has already arrived, at most `n` bytes; b"" at the end of output, None when nothing waits."""
        if self._stdout < 0:
            return b""
        try:
            data = os.read(self._stdout, n)
        except BlockingIOError:
            self._eager = 0
            return None
        self._eager += 1
        return data

    async def _readable(self, n: int) -> bytes:
        self._reader, self._wanted = self._loop.create_future(), n
        self.resume()
        try:
            return await self._reader
        finally:
            self._reader = None

    def listen(self, take: Callable[[bytes], None]) -> None:
        """From now on `take` gets output the moment it is there, b"" at its end, instead of `read`."""
        self._take = take
        self.resume()

    def pause(self) -> None:
        """Leave output where it is, so that the program has to wait."""
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._stdout)

    def resume(self) -> None:
        """Take output again."""
        if not self._watched and self._stdout >= 0:
            self._watched = True
            self._loop.add_reader(self._stdout, self._on_readable)

    def _on_readable(self) -> None:
        if self._take is not None:
            if (data := self.read_now()) is not None:
                self._take(data)
        elif self._reader is None or self._reader.done():
            self.pause()  # nobody wants it yet, and the loop would call again and again
        elif (data := self.read_now(self._wanted)) is not None:
            self._reader.set_result(data)

    def group_alive(self) -> bool:
        """Whether the process or anything it left in its group still runs."""
        return not self.exited.done() or (group_exists(self.pid) and members_run(self.pid))

    def signal_group(self, sig: int) -> None:
        """Send `sig` to the process and everything in its group; nothing happens when all are gone."""
        self._send(sig)

    async def stop(self, grace_s: float) -> None:
        """End the whole group: SIGTERM, up to `grace_s` seconds, SIGKILL. Returns when all of it is gone.

        Bounded: at most `grace_s` and one second more. Cancelled in between, it sends SIGKILL at once.
        """
        try:
            self.signal_group(signal.SIGTERM)
            await self._gone_within(grace_s)
        finally:
            self.signal_group(signal.SIGKILL)
        await self._gone_within(_REAP_S)

    async def _gone_within(self, seconds: float) -> None:
        deadline = self._loop.time() + seconds
        await asyncio.wait([self.exited], timeout=seconds)
        pause = _GROUP_POLL_S
        while self.group_alive() and self._loop.time() < deadline:
            await asyncio.sleep(pause)
            pause *= 1.5

    def close(self) -> None:
        """Release both pipes; a `read` that waits returns b"". The exit is still watched and collected."""
        if self.stdin is not None:
            self.stdin.abandon()
        if self._stdout >= 0:
            self.pause()
            os.close(self._stdout)
            self._stdout = -1
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(b"")
