"""Owns `zotd rpc`: one client on standard input and output, or any number on sockets."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from zotd.base.limits import Limits
from zotd.base.paths import absolute
from zotd.base.tasks import Independent, Tasks
from zotd.cli.agents import Agents, on_signals
from zotd.cli.desk import Desk
from zotd.cli.flags import Flags
from zotd.daemon.connection import Connection, Frames, Outlet
from zotd.daemon.server import SocketInUse, listen_unix, serve_stdio
from zotd.daemon.spec import SessionSpec

if TYPE_CHECKING:
    from zotd.protocol.daemon_methods import Transport


async def serve(flags: Flags, spec: SessionSpec, limits: Limits, token: str) -> int:
    """Serve until the client has left (stdio) or a signal (sockets). Returns the exit code."""
    async with Independent() as tasks:
        agents = Agents(flags, limits, tasks)
        server = Server(agents, spec, limits, token, tasks, private=not flags.listen)
        on_signals(server.stop)
        try:
            code = await (server.sockets(flags.listen) if flags.listen else server.stdio())
        finally:
            await agents.close()
            await tasks.end(limits.threads_end_s)  # what waits for a disk would hold up the end
    return code


class Server:
    """The ways in, and the end of it all.

    private: there is one client, and all that it started ends with it.
    """

    def __init__(
        self, agents: Agents, spec: SessionSpec, limits: Limits, token: str, tasks: Tasks, *, private: bool
    ) -> None:
        self.agents = agents
        self.spec = spec
        self.token = token
        self.tasks = tasks
        self.private = private
        self.started, self.running_since = time.time(), time.monotonic()
        self.home = spec.home
        self.listening: list[str] = []
        self.idle_exit_s: float | None = None
        self.draining = False
        self.connections: dict[Connection, Transport] = {}
        self._limits = limits
        self._ended = asyncio.Event()
        self._stopping = asyncio.Event()
        self._code = 0

    # Ways in

    async def stdio(self) -> int:
        """One client. At EOF what was accepted is finished; when the client's end breaks, it is aborted."""
        connection = await serve_stdio(self._limits, self._connect, self.stop)
        stopped = self.tasks.create_task(self._stopping.wait())
        drained = self.tasks.create_task(self._finish(connection))
        await asyncio.wait([stopped, drained], return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()
        stopped.cancel()
        if connection.front is not None:
            await connection.front.closed()
        connection.close()
        with suppress(TimeoutError):  # who was told to stop waits less for a reader that has stopped reading
            async with asyncio.timeout(self._limits.private_exit_s if self._stopping.is_set() else None):
                await connection.outlet.ended()
        return self._code

    async def sockets(self, addresses: tuple[str, ...]) -> int:
        """Any number of clients, until a signal."""
        paths: list[Path] = []
        servers: list[asyncio.AbstractServer] = []
        try:
            for address in addresses:
                if address.startswith("ws://"):
                    servers.append(await self._listen_for_websockets(address))
                else:
                    path = absolute(address.removeprefix("unix:"), "unix path")
                    servers.append(await listen_unix(path, self._limits, self._connect, self._gone))
                    paths.append(path)
                    self.listening.append(f"unix:{path}")
            await self._stopping.wait()
        except (SocketInUse, OSError) as problem:
            sys.stderr.write(f"zotd: --listen: {problem}\n")
            return 2
        finally:
            for server in servers:
                server.close()
            for path in paths:
                path.unlink(missing_ok=True)
        return self._code

    async def _listen_for_websockets(self, address: str) -> asyncio.AbstractServer:
        from zotd.daemon.websocket import listen_websocket

        if not self.token:
            raise OSError(
                f"{address}: any local program can connect there, so it needs a token: set ZOTD_TOKEN to one"
            )
        server, chosen = await listen_websocket(address, self._limits, self._connect, self._gone)
        self.listening.append(chosen)
        sys.stderr.write(f"zotd: listening on {chosen}\n")
        return server

    def stop(self, code: int = 0) -> None:
        """End the process, with an exit code."""
        self._code = self._code or code
        self._stopping.set()

    def drain(self) -> None:
        """Take no new turns, and end the process once those that run or wait are done."""
        if self.draining:
            return
        self.draining = True
        if self.private:
            self._ended.set()
        else:
            self.tasks.create_task(self._drained(), name="drain")

    async def _drained(self) -> None:
        for session in self.agents.sessions.all():
            await session.settled()
        self.stop()

    def input_over(self, connection: Connection) -> None:
        """A client has said its last word: it is heard out, and then its connection ends."""
        if self.private:
            self._ended.set()
        else:
            self.tasks.create_task(self._hear_out(connection), name="end of a connection")

    def _connect(self, outlet: Outlet, frames: Frames | None) -> Connection:
        # Frames that are known from the start are those of a WebSocket.
        connection = Connection(outlet, self._limits, Desk(self, guarded=frames is not None), frames)
        self.connections[connection] = "stdio" if self.private else "unix" if frames is None else "websocket"
        return connection

    def _gone(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.tasks.create_task(self._closed(connection))

    async def _closed(self, connection: Connection) -> None:
        """One client's end must not be everyone's, whatever goes wrong in it."""
        await connection.settled()
        try:
            if connection.front is not None:
                await connection.front.closed()
        except Exception as bug:
            sys.stderr.write(f"zotd: a connection ended badly: {type(bug).__name__}: {bug}\n")

    async def _finish(self, connection: Connection) -> None:
        await self._ended.wait()
        connection.end()
        await connection.settled()
        if connection.front is not None:
            await connection.front.finished()

    async def _hear_out(self, connection: Connection) -> None:
        connection.end()
        try:
            async with asyncio.timeout(self._limits.heard_out_s):
                await connection.settled()
                if connection.front is not None:
                    await connection.front.finished()
        except TimeoutError:
            pass
        finally:
            connection.close()
