"""Owns scopes, the sets of programs that end together: starts programs in them, and ends them whole.

On Linux a keeper starts the programs, so that nothing they start in turn gets away; elsewhere they are
children of this process, and what leaves their process groups does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from zotd.base.limits import Limits
from zotd.process.child import READ_BYTES, Child, Writer

if TYPE_CHECKING:
    from zotd.process.bare import Bare
    from zotd.process.kept import SubKeeper

__all__ = ["READ_BYTES", "Child", "Input", "Running", "Scope", "SpawnError", "Spawner", "Writer"]


_UNDO_S = 1.0  # for the keeper's word on a program that nobody wants any more


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

    def listen(self, take: Callable[[bytes], None]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

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
        self._closed = False
        self._bare: Bare | None = None
        self._sub_keeper: SubKeeper | None = None

    def warm(self) -> None:
        """Prepare for the first `spawn`, beside whatever else there is to do before it."""
        from zotd.process.kept import KEEPER, Lost

        if KEEPER.usable and not self._closed:
            try:
                self._kept()
            except (OSError, Lost):
                return  # `spawn` says what is wrong

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
        from zotd.process.explain import missing_env_program, why_not_started
        from zotd.process.kept import Lost, Unanswered

        if self._closed:
            raise SpawnError(f"cannot start {argv[0]}: what it belongs to has ended")
        if fault := missing_env_program(argv, cwd, env):
            raise SpawnError(fault)
        ours: list[int] = []
        theirs: list[int] = []
        try:
            child_in = _pipe(ours, theirs, child_reads=True) if stdin == "pipe" else _null(theirs)
            child_out = _pipe(ours, theirs, child_reads=False)
            child_err = child_out if stderr == "merge" else _null(theirs) if stderr == "null" else stderr
            child = await self._start(argv, cwd, env, (child_in, child_out, child_err), ours)
            ours = []
        except OSError as error:
            raise SpawnError(why_not_started(argv, cwd, env, error)) from error
        except ValueError as error:  # a NUL byte in an argument or the environment
            raise SpawnError(f"cannot start {argv[0]!r}: {error} in its arguments or environment") from error
        except Lost as error:
            raise SpawnError(
                f"cannot start {argv[0]}: the process that starts programs was ended; try again"
            ) from error
        except Unanswered as error:
            raise SpawnError(
                f"cannot start {argv[0]}: the process that starts programs did not answer within "
                f"{self._limits.spawn_s:g} s; try again"
            ) from error
        finally:
            _close_all(theirs)
            _close_all(ours)
        return child

    async def unstick(self) -> None:
        """End everything by force if nobody answers who could end it; else nothing happens.

        For whoever waits for the end of a program. Takes at most `Limits.answer_s` and a little.
        """
        kept = self._sub_keeper
        if kept is not None and not await kept.answers(self._limits.answer_s):
            await kept.force()

    async def close(self) -> None:
        """End everything that was ever started here, with all it started in turn.

        Returns when all is gone, usually within milliseconds and at most after `Limits.contained_s`.
        """
        self._closed = True
        if self._sub_keeper is not None:
            await self._sub_keeper.close(self._limits.contained_s)
        if self._bare is not None:
            await self._bare.close(self._limits.contained_s)

    async def _start(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        fds: tuple[int, int, int],
        ours: list[int],
    ) -> Child:
        from zotd.process.kept import KEEPER, Lost

        backend: SubKeeper | Bare
        if KEEPER.usable:
            request = [os.fsencode(word) for word in argv], os.fsencode(cwd), _encoded(argv, env), fds
            try:
                backend = self._kept()
                pid, exited = await _started(backend, self._limits.spawn_s, *request)
            except Lost:  # killed since it was last needed, or it cannot run here
                if self._closed:
                    raise
                if KEEPER.failed():
                    backend = self._kept()
                    pid, exited = await _started(backend, self._limits.spawn_s, *request)
                else:
                    backend, (pid, exited) = self._unkept(argv, cwd, env, fds)
        else:
            backend, (pid, exited) = self._unkept(argv, cwd, env, fds)
        writer = Writer(ours[0]) if len(ours) > 1 else None
        return Child(pid, exited, writer, ours[-1], lambda number: backend.signal(pid, number))

    def _kept(self) -> SubKeeper:
        from zotd.process.kept import Lost, SubKeeper

        if self._closed:
            raise Lost
        if self._sub_keeper is None or self._sub_keeper.lost:
            self._sub_keeper = SubKeeper(self._limits.contained_s)
        return self._sub_keeper

    def _unkept(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], fds: tuple[int, int, int]
    ) -> tuple[Bare, tuple[int, asyncio.Future[int]]]:
        from zotd.process.bare import Bare

        if self._bare is None:
            self._bare = Bare()
        return self._bare, self._bare.spawn(argv, cwd, env, fds)


async def _started(
    sub_keeper: SubKeeper,
    within: float,
    argv: list[bytes],
    cwd: bytes,
    env: dict[bytes, bytes],
    fds: tuple[int, int, int],
) -> tuple[int, asyncio.Future[int]]:
    """As `SubKeeper.spawn`. Cancelled, it returns when what it has started is gone.

    Raises Unanswered after `within` seconds; what is started later ends at once.
    """
    from zotd.process.kept import Unanswered

    starting = sub_keeper.spawn(argv, cwd, env, fds)
    try:
        await asyncio.wait([starting], timeout=within)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([starting], timeout=_UNDO_S)
            if starting.done() and starting.exception() is None:
                pid, exited = starting.result()
                await Child(pid, exited, None, -1, lambda number: sub_keeper.signal(pid, number)).stop(0)
        finally:
            starting.cancel()
        raise
    if not starting.done():
        starting.cancel()
        sub_keeper.not_started()
        raise Unanswered
    return starting.result()


def _encoded(argv: Sequence[str], env: Mapping[str, str]) -> dict[bytes, bytes]:
    """The environment as the system takes it. Raises ValueError for what no program can be given."""
    if any("\0" in word for word in (*argv, *env, *env.values())):
        raise ValueError("embedded null byte")
    if any(not name or "=" in name for name in env):
        raise ValueError("illegal environment variable name")
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}


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
