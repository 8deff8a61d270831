"""Owns child processes: how they start, what goes in and out, and that they end.

Works the same on asyncio's own loop and on uvloop: plain pipes and readiness callbacks. The end of a
process is learnt from the process itself (a pidfd on Linux), never from its pipes, which a grandchild
may hold open for hours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from zotd.base.limits import Limits
from zotd.process.explain import missing_env_program, why_not_started
from zotd.process.group import members_run

if TYPE_CHECKING:
    from subprocess import Popen

READ_BYTES = 65536  # what a pipe holds on Linux: one call takes it all
_REAP_S = 1.0  # SIGKILL to exit: only a process stuck in the kernel takes longer, and waiting helps nobody
_GROUP_POLL_S = 0.005  # a group has no descriptor to wait on, so its members are looked for, ever less often
_READS_IN_A_ROW = 4  # then other tasks get their turn, however fast the child writes


class SpawnError(Exception):
    """A program did not start. The message is one line with the path at fault and the fix."""


class Input(Protocol):
    """What a program reads. `Writer` is the real one."""

    @property
    def buffered(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class Running(Protocol):
    """A program that runs, as its owner sees it. `Child` is the real one; tests may give another."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> Input | None: ...

    @property
    def exited(self) -> asyncio.Future[int]: ...

    async def read(self, n: int = READ_BYTES) -> bytes: ...

    def signal_group(self, sig: int) -> None: ...

    async def stop(self, grace_s: float) -> None: ...

    def close(self) -> None: ...


class Spawner(Protocol):
    """Whatever starts programs. `Scope` is the real one; tests may give one without processes."""

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: Literal["pipe", "null"],
        stderr: int | Literal["merge", "null"],
    ) -> Running:
        """As `Scope.spawn`. Raises SpawnError."""
        ...


class Scope:
    """Programs that end together. Made without effects; whoever made it closes it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def warm(self) -> None:
        """Prepare for the first `spawn`, beside whatever else there is to do before it."""

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: Literal["pipe", "null"],
        stderr: int | Literal["merge", "null"],
    ) -> Child:
        """Start `argv` in a session and process group of its own; its output is read with `Child.read`.

        stderr: a descriptor that the child writes to, or into the output, or nowhere.

        Raises SpawnError.
        """
        return await spawn(argv, cwd=cwd, env=env, stdin=stdin, stderr=stderr)

    async def close(self) -> None:
        """End everything that was ever started here, with all it started in turn. Bounded."""


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
        if self._waiting:
            self._waiting += data
            return
        self._waiting += data
        self._flush()
        if self._waiting:
            self._loop.add_writer(self._fd, self._on_writable)

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
        self._flush()
        if self._fd >= 0 and not self._waiting:
            self._loop.remove_writer(self._fd)
            if self._closing:
                self.abandon()

    def _flush(self) -> None:
        try:
            while self._waiting:
                count = os.write(self._fd, self._waiting)
                del self._waiting[:count]
        except BlockingIOError:
            pass
        except OSError:
            self._loop.remove_writer(self._fd)
            self._waiting.clear()
            self.abandon()


class Child:
    """A running program, leader of its own session and process group.

    pid: also the id of the group.
    stdin: where to write, None when the child's input is null.
    exited: return code of the process itself, negative for a signal; set though its pipes are still held.
    """

    def __init__(self, process: Popen[bytes], stdin: Writer | None, stdout: int) -> None:
        self.pid = process.pid
        self.stdin = stdin
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._process = process
        self._stdout = stdout
        self._reader: asyncio.Future[None] | None = None
        self._eager = 0

    async def read(self, n: int = READ_BYTES) -> bytes:
        """The next bytes of output, at most `n`; b"" at its end or after `close()`. One reader at a time."""
        if self._eager >= _READS_IN_A_ROW:
            self._eager = 0
            await asyncio.sleep(0)
        while (data := self.read_now(n)) is None:
            await self._readable()
        return data

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

    async def _readable(self) -> None:
        if self._reader is not None:
            raise RuntimeError(f"two readers of the output of process {self.pid}")
        self._reader = self._loop.create_future()
        self._loop.add_reader(self._stdout, _wake, self._reader)
        try:
            await self._reader
        finally:
            self._reader = None
            if self._stdout >= 0:
                self._loop.remove_reader(self._stdout)

    def group_alive(self) -> bool:
        """Whether the process or anything it left in its group still runs."""
        return not self.exited.done() or (self._group_is_ours() and members_run(self.pid))

    def _group_is_ours(self) -> bool:
        if not self.exited.done():
            return True
        # The number is free once the group is empty. A process that has it now is a stranger's, and the
        # proof that ours are gone: numbers of living groups are not given out.
        return not _exists(lambda: os.kill(self.pid, 0)) and _exists(lambda: os.killpg(self.pid, 0))

    def signal_group(self, sig: int) -> None:
        """Send `sig` to the process and everything in its group; nothing happens when all are gone."""
        if self._group_is_ours():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, sig)

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
            self._loop.remove_reader(self._stdout)
            os.close(self._stdout)
            self._stdout = -1
        if self._reader is not None:
            _wake(self._reader)

    def watch(self) -> None:
        """Begin to watch for the exit; `spawn` has called this already."""
        if hasattr(os, "pidfd_open"):
            pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(pidfd, self._on_pidfd, pidfd)
        else:
            import threading

            threading.Thread(target=self._wait_in_thread, name=f"wait-{self.pid}", daemon=True).start()

    def _on_pidfd(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._on_exit(self._process.wait())

    def _wait_in_thread(self) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop closed first: nobody waits any more
            self._loop.call_soon_threadsafe(self._on_exit, code)

    def _on_exit(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)


async def spawn(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: Literal["pipe", "null"],
    stderr: int | Literal["merge", "null"],
) -> Child:
    """Start `argv` in a session and process group of its own; its output is read with `Child.read`.

    stderr: a descriptor that the child writes to, or into the output, or nowhere.

    Raises SpawnError.
    """
    if fault := missing_env_program(argv, cwd, env):
        raise SpawnError(fault)
    ours: list[int] = []
    theirs: list[int] = []
    try:
        child_in = _pipe(ours, theirs, child_reads=True) if stdin == "pipe" else _null(theirs)
        child_out = _pipe(ours, theirs, child_reads=False)
        child_err = child_out if stderr == "merge" else _null(theirs) if stderr == "null" else stderr
        process = _start(argv, cwd, env, (child_in, child_out, child_err))
    except OSError as error:
        _close_all(ours)
        raise SpawnError(why_not_started(argv, cwd, env, error)) from error
    except ValueError as error:  # a NUL byte in an argument or the environment
        _close_all(ours)
        raise SpawnError(f"cannot start {argv[0]!r}: {error} in its arguments or environment") from error
    finally:
        _close_all(theirs)
    child = Child(process, Writer(ours[0]) if stdin == "pipe" else None, ours[-1])
    try:
        child.watch()
    except OSError as error:
        os.killpg(child.pid, signal.SIGKILL)
        process.wait()
        child.close()
        raise SpawnError(why_not_started(argv, cwd, env, error)) from error
    return child


def _start(argv: Sequence[str], cwd: Path, env: Mapping[str, str], fds: tuple[int, int, int]) -> Popen[bytes]:
    from subprocess import Popen

    child_in, child_out, child_err = fds
    return Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=child_in,
        stdout=child_out,
        stderr=child_err,
        start_new_session=True,
    )


def _pipe(ours: list[int], theirs: list[int], *, child_reads: bool) -> int:
    reading, writing = os.pipe()
    mine, other = (writing, reading) if child_reads else (reading, writing)
    os.set_blocking(mine, False)
    ours.append(mine)
    theirs.append(other)
    return other


def _null(theirs: list[int]) -> int:
    fd = os.open(os.devnull, os.O_RDWR)
    theirs.append(fd)
    return fd


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _exists(probe: Callable[[], None]) -> bool:
    try:
        probe()
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
