"""Owns `zotd rpc`: one client on standard input and output, or any number on sockets."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotd.base.limits import Limits
from zotd.base.paths import absolute
from zotd.base.tasks import Independent, Tasks
from zotd.cli.agents import Agents, on_signals
from zotd.cli.flags import Flags
from zotd.daemon.connection import Connection, Front, Outlet
from zotd.daemon.server import SocketInUse, listen_unix, serve_stdio
from zotd.daemon.spec import SessionSpec, chosen

if TYPE_CHECKING:
    from zotd.daemon.session import Client, Session


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
    return code


@dataclass
class Server:
    """What fronts ask of the process, and the two ways in."""

    agents: Agents
    spec: SessionSpec
    limits: Limits
    token: str
    tasks: Tasks
    private: bool

    def __post_init__(self) -> None:
        self._stopping = asyncio.Event()
        self._code = 0

    # Ways in

    async def stdio(self) -> int:
        """One client. At EOF what was accepted is finished; when the client's end breaks, it is aborted."""
        ended = asyncio.Event()
        connection = await serve_stdio(self.limits, self._connect, ended.set, self.stop)
        stopped = self.tasks.create_task(self._stopping.wait())
        drained = self.tasks.create_task(self._finish(connection, ended))
        await asyncio.wait([stopped, drained], return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()
        stopped.cancel()
        if connection.front is not None:
            await connection.front.closed()
        connection.close()
        with suppress(TimeoutError):  # who was told to stop waits less for a reader that has stopped reading
            async with asyncio.timeout(self.limits.private_exit_s if self._stopping.is_set() else None):
                await connection.outlet.ended()
        return self._code

    async def sockets(self, addresses: tuple[str, ...]) -> int:
        """Any number of clients, until a signal."""
        paths: list[Path] = []
        servers: list[asyncio.AbstractServer] = []
        try:
            paths += [absolute(address.removeprefix("unix:"), "unix path") for address in addresses]
            for path in paths:
                server = await listen_unix(path, self.limits, self._connect, self._gone)
                servers.append(server)
            await self._stopping.wait()
        except (SocketInUse, OSError) as problem:
            sys.stderr.write(f"zotd: --listen: {problem}\n")
            return 2
        finally:
            for server in servers:
                server.close()
            for path in paths[: len(servers)]:
                path.unlink(missing_ok=True)
        return self._code

    def stop(self) -> None:
        self._stopping.set()

    def _connect(self, outlet: Outlet) -> Connection:
        return Connection(outlet, self.limits, self._front)

    def _gone(self, connection: Connection) -> None:
        if connection.front is not None:
            self.tasks.create_task(self._closed(connection.front))

    async def _closed(self, front: Front) -> None:
        """One client's end must not be everyone's, whatever goes wrong in it."""
        try:
            await front.closed()
        except Exception as bug:
            sys.stderr.write(f"zotd: a connection ended badly: {type(bug).__name__}: {bug}\n")

    async def _finish(self, connection: Connection, ended: asyncio.Event) -> None:
        await ended.wait()
        connection.end()
        if connection.front is not None:
            await connection.front.finished()

    def _front(self, dialect: str, connection: Connection) -> Front:
        if dialect == "zot":
            from zotd.daemon.zot_front import ZotFront

            return ZotFront(connection, self)
        from zotd.daemon.rpc_front import RpcFront

        return RpcFront(connection, self.agents.sessions, self.spec, self.tasks, self.token, self.private)

    # What a zot client asks of the process

    def identity(self) -> tuple[str, str]:
        """Provider and model, without loading them. Raises when no credentials are found."""
        choice = chosen(self.spec)
        return choice.provider, choice.model

    def models(self) -> list[dict[str, Any]]:
        from zotd.providers.catalog import models

        return [
            {
                "id": choice.model,
                "provider": choice.provider,
                "context_window": choice.window,
                "max_output": choice.max_output,
                "reasoning": choice.reasoning,
            }
            for choice in models(self.spec.home)
        ]

    def open(self) -> Session:
        return self.agents.sessions.open(self.spec)

    def start(self, session: Session) -> None:
        self.agents.sessions.start(session)

    def set_model(self, session: Session, model: str) -> None:
        self.agents.sessions.set_model(session, model)

    async def leave(self, session: Session, client: Client) -> None:
        await self.agents.sessions.leave(session, client, private=self.private)

    def fatal(self, connection: Connection, message: str) -> None:
        """A client that cannot be served: on stdio the process says why and ends, on a socket it hangs up."""
        sys.stderr.write(f"zotd: {message}\n")
        if self.private:
            self._code = 1
            self.stop()
        else:
            connection.close()
