"""Owns the `bash` tool: one command in the session's folder, bounded in time and output."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from zotd.agent.ports import ToolFailed, ToolOutcome
from zotd.base.limits import Limits
from zotd.process.spawn import READ_BYTES, Child, Scope, SpawnError
from zotd.protocol.content import Text
from zotd.tools.output import Kept, Live
from zotd.tools.typed import TypedTool


class BashArguments(Struct, frozen=True, kw_only=True):
    command: Annotated[str, Meta(description="Command for bash")]
    timeout: Annotated[float, Meta(gt=0, description="Seconds after which the command is stopped")] | None = (
        None
    )


class BashTool(TypedTool[BashArguments]):
    """Runs commands for the model, and owns what they leave running in the background."""

    name = "bash"
    description = (
        "Run a command with bash in the working directory; standard input is empty. The answer has the "
        "output, standard error included, and the exit code; of long output it has the end, and names a "
        "file with all of it. Background processes (cmd &) keep running until the session ends."
    )
    arguments = BashArguments

    def __init__(self, cwd: Path, env: Mapping[str, str], limits: Limits) -> None:
        self._cwd = cwd
        self._env = env
        self._limits = limits
        self._scope = Scope(limits)
        self._left: dict[Child, asyncio.Task[None]] = {}

    async def work(self, arguments: BashArguments, progress: Callable[[str], None]) -> ToolOutcome:
        seconds = self._seconds(arguments.timeout)
        self._forget_ended()
        began = time.monotonic()
        try:
            argv = [_shell(self._env), "-c", arguments.command]
            child = await self._scope.spawn(argv, cwd=self._cwd, env=self._env, stdin="null", stderr="merge")
        except SpawnError as error:
            raise ToolFailed(str(error)) from error
        run = _Run(child, self._scope, progress, self._env.get("TMPDIR"), self._limits)
        try:
            note = await run.follow(seconds)
        finally:
            self._release(child, run)
        return _outcome(arguments.command, run.output, note, run.code, time.monotonic() - began)

    async def close(self) -> None:
        """End everything that commands of this session left running, wherever it has gone. Bounded.

        What is still in a command's group gets SIGTERM and `Limits.bash_kill_s` first.
        """
        left, self._left = self._left, {}
        try:
            stops = [child.stop(self._limits.bash_kill_s) for child in left]
            await asyncio.gather(self._scope.unstick(), *stops)
        finally:
            for child, draining in left.items():
                child.close()
                draining.cancel()
            await self._scope.close()
        if left:
            await asyncio.wait(left.values())

    def _seconds(self, timeout: float | None) -> float:
        if timeout is None:
            return self._limits.bash_s
        if timeout > self._limits.bash_max_s:
            raise ToolFailed(
                f"bad arguments for bash: $.timeout: expected seconds, at most {self._limits.bash_max_s:g}, "
                f"got {timeout:g}"
            )
        return timeout

    def _release(self, child: Child, run: _Run) -> None:
        """Give back what the command held, unless something of it lives on in the background."""
        if run.stopped or (run.over and not child.group_alive()):
            child.close()
        else:
            # Its output is read on and dropped: a pipe nobody reads would stop or kill it.
            self._left[child] = asyncio.create_task(_drain(child), name=f"background of {child.pid}")

    def _forget_ended(self) -> None:
        for child, draining in list(self._left.items()):
            if draining.done() and not child.group_alive():
                child.close()
                del self._left[child]


class _Run:
    """One command from its start to its end.

    stopped: whether we ended it, with all it had started. over: whether nobody can write to its output any
    more. output: the text for the model, once `follow` has returned.
    """

    def __init__(
        self,
        child: Child,
        scope: Scope,
        progress: Callable[[str], None],
        folder: str | None,
        limits: Limits,
    ) -> None:
        self.stopped = True
        self.over = False
        self.output = ""
        self._child = child
        self._scope = scope
        self._kept = Kept(limits, folder)
        self._live = Live(progress, limits)
        self._limits = limits

    @property
    def code(self) -> int:
        """The exit code, negative for a signal. What the kernel does not let go counts as killed."""
        return self._child.exited.result() if self._child.exited.done() else -signal.SIGKILL

    async def follow(self, seconds: float) -> str:
        """Take output until the command ends; a note when it was ended by us, else "".

        When it is stopped, be it by cancellation, the whole group has ended before this returns.
        """
        try:
            await self._run_to_end(seconds)
            self._take_rest()
            self._live.end()
            self.output = self._kept.end()
        finally:
            self._live.cancel()
            self._kept.close()
        if not self.stopped:
            return ""
        if self._too_much:
            return f"[stopped: more than {self._limits.bash_file_bytes} bytes of output]"
        return f"[timed out after {seconds:g} s: the command and everything it started were stopped]"

    async def _run_to_end(self, seconds: float) -> None:
        pump = asyncio.create_task(self._pump())
        try:
            await self._until_exit(pump, seconds)
            self.stopped = not self._child.exited.done()
        finally:
            pump.cancel()
            if self.stopped:
                await asyncio.gather(self._scope.unstick(), self._child.stop(self._limits.bash_kill_s))
            await asyncio.wait([pump])

    @property
    def _too_much(self) -> bool:
        return self._kept.size > self._limits.bash_file_bytes

    async def _until_exit(self, pump: asyncio.Task[None], seconds: float) -> None:
        """Returns at the command's exit, after `seconds`, or when there is too much output."""
        deadline = time.monotonic() + seconds
        exited = self._child.exited
        either: list[asyncio.Future[Any]] = [pump, exited]
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if pump.done() and not self._too_much:
            # It closed its output and goes on.
            await asyncio.wait([exited], timeout=max(0.0, deadline - time.monotonic()))

    async def _pump(self) -> None:
        while not self._too_much and (data := await self._child.read()):
            self._take(data)

    def _take_rest(self) -> None:
        """What was written before the exit: no more than a pipe holds, though children may write on."""
        rest = READ_BYTES
        while rest > 0 and (data := self._child.read_now(rest)):
            self._take(data)
            rest -= len(data)
        self.over = rest > 0 and data == b""

    def _take(self, data: bytes) -> None:
        self._kept.feed(data)
        self._live.feed(data)


async def _drain(child: Child) -> None:
    while await child.read():
        pass


def _shell(env: Mapping[str, str]) -> str:
    """`bash` by the session's PATH, else where it usually is, else `sh`."""
    folders = [*os.get_exec_path(dict(env)), "/bin", "/usr/bin"]
    for name in ("bash", "sh"):
        for folder in folders:
            path = f"{folder}/{name}"
            if folder.startswith("/") and os.access(path, os.X_OK):
                return path
    return "sh"


def _outcome(command: str, output: str, note: str, code: int, seconds: float) -> ToolOutcome:
    parts = [f"$ {command.rstrip()}\n\n"]
    if code < 0:
        # As shells report it, so that the number means the same wherever the model learnt it.
        note = note or f"[killed by {_signal_name(-code)}]"
        code = 128 - code
    parts += [part.removesuffix("\n") + "\n\n" for part in (output, note) if part]
    parts.append(f"[exit {code}]  Took {seconds:.1f}s")
    return ToolOutcome([Text("".join(parts))], is_error=code != 0 or bool(note))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
