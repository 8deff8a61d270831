"""Owns `zotd rpc`: one client on standard input and output, or any number on sockets."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotd import __version__
from zotd.base.limits import Limits
from zotd.base.log import log, mistake, say, wanted
from zotd.base.log_lines import LogLines, start_log
from zotd.base.paths import absolute, daemon_log, daemon_socket
from zotd.base.secret import Secret
from zotd.base.settings import Layer, of_environment, of_process
from zotd.base.tasks import Independent, Tasks
from zotd.cli.agents import Agents, on_signals
from zotd.cli.desk import Desk
from zotd.cli.flags import Flags
from zotd.daemon.connection import Connection, Frames
from zotd.daemon.life import Life, leave_after
from zotd.daemon.sending import Outlet
from zotd.daemon.server import serve_stdio
from zotd.daemon.spec import SessionSpec
from zotd.daemon.streams import SocketClient, StreamOutlet
from zotd.daemon.supervisor import Supervisor

if TYPE_CHECKING:
    from socket import socket

    from zotd.daemon.door import Door
    from zotd.daemon.place import Place
    from zotd.protocol.daemon_methods import Transport

_LOOK_AGAIN_S = 0.05
"""Between two tries to have the place of a daemon that is about to leave it."""


async def serve(flags: Flags, spec: SessionSpec, limits: Limits, token: str, supervisor: Supervisor) -> int:
    """Serve until the client has left (stdio) or the end is asked for (sockets). Returns the exit code."""
    on_sockets = bool(flags.daemon or flags.listen or supervisor.inherited)
    configured = of_process(spec.environ, spec.home) if flags.daemon else of_environment(spec.environ)
    try:
        lines = log_of(flags, spec, limits, configured)
    except OSError as wrong:
        sys.stderr.write(f"zotd: --log: {wrong}\n")
        return 2
    async with Independent() as tasks:
        agents = Agents(flags, limits, tasks)
        server = Server(agents, spec, limits, token, tasks, supervisor, private=not on_sockets)
        on_signals(server.stop, ignored=flags.daemon)
        try:
            code = await (server.sockets(flags, configured) if on_sockets else server.stdio())
        finally:
            await agents.close()
            await tasks.end(limits.threads_end_s)  # what waits for a disk would hold up the end
            if server.stopping.is_set():
                log("stopped", uptime_s=round(time.monotonic() - server.running_since, 3))
            lines.end()
    return code


def log_of(flags: Flags, spec: SessionSpec, limits: Limits, configured: Layer) -> LogLines:
    """What is written down of this process, and where. Raises OSError for a file that cannot be used."""
    level = flags.log_level or configured.values.get("log_level") or ("info" if flags.daemon else "warn")
    path = None
    if flags.log:
        path = daemon_log(spec.home) if flags.log == "auto" else absolute(flags.log, "--log")
    return start_log(str(level), limits, plain=not flags.daemon, path=path)


class Server(Life):
    """The ways in, and the end of it all.

    private: there is one client, and all that it started ends with it.
    """

    def __init__(
        self,
        agents: Agents,
        spec: SessionSpec,
        limits: Limits,
        token: str,
        tasks: Tasks,
        supervisor: Supervisor,
        *,
        private: bool,
    ) -> None:
        super().__init__(agents, limits, tasks, spec.home, supervisor)
        self.agents = agents
        self.spec = spec
        self.token = token
        self._known = Secret(token)  # so that it is masked, should it turn up in the log
        self.private = private
        self._ended = asyncio.Event()
        self._doors: list[Door] = []
        self._places: list[Place] = []
        self._websockets: list[asyncio.AbstractServer] = []

    # Ways in

    async def stdio(self) -> int:
        """One client. At EOF what was accepted is finished; when the client's end breaks, it is aborted."""
        connection = await serve_stdio(self._limits, self._connect, self.stop)
        stopped = self.tasks.create_task(self.stopping.wait())
        drained = self.tasks.create_task(self._finish(connection))
        await asyncio.wait([stopped, drained], return_when=asyncio.FIRST_COMPLETED)
        drained.cancel()
        stopped.cancel()
        if connection.front is not None:
            await connection.front.closed()
        connection.close()
        with suppress(TimeoutError):  # who was told to stop waits less for a reader that has stopped reading
            async with asyncio.timeout(self._limits.private_exit_s if self.stopping.is_set() else None):
                await connection.outlet.ended()
        return self.code

    async def sockets(self, flags: Flags, configured: Layer) -> int:
        """Any number of clients, until the end is asked for."""
        from zotd.daemon.place import SocketInUse

        try:
            await self._open(flags)
        except (SocketInUse, OSError) as problem:
            # Who has just started it reads this, whatever becomes of the log.
            print(f"zotd: cannot listen: {_said(problem)}", file=sys.__stderr__, flush=True)
            self.close_doors()
            return 2
        from zotd.base.threads import Threads
        from zotd.daemon.installation import Installation

        asyncio.get_running_loop().set_default_executor(Threads())
        installation = Installation(self._limits.installation_s) if flags.daemon else None
        if installation is not None:
            from zotd.daemon.preload import preload

            self.beside(preload(installation, self._limits.preload_s), "preload")
        log("listening", addresses=self.listening, pid=os.getpid(), version=__version__, home=str(self.home))
        idle_s = flags.idle_timeout or (_configured_idle_s(configured) if flags.daemon else 0.0)
        own = self._places[0] if flags.daemon and not self.supervisor.inherited else None
        self.serving(
            idle_s,
            installation.changed if installation else lambda: False,
            own.lost if own is not None else None,
        )
        await self.stopping.wait()
        leave_after(self._limits.drain_s - self._limits.drain_spare_s, self.code)
        self.close_doors()
        return self.code

    async def _open(self, flags: Flags) -> None:
        """Listen where the service manager does, or at the user's own place; and where flags say."""
        for inherited in self.supervisor.inherited:
            self._listen(inherited, os.fsdecode(inherited.getsockname()))
        if flags.daemon and not self.supervisor.inherited:
            await self._take_own(daemon_socket(self.spec.environ, self.home))
        for address in flags.listen:
            if address.startswith("ws://"):
                self._websockets.append(await self._listen_for_websockets(address))
            else:
                self._take(absolute(address.removeprefix("unix:"), "unix path"))

    async def _take_own(self, path: Path) -> None:
        """The user's own place. Whoever has it and misses the socket will leave: that is waited for."""
        from zotd.daemon.place import SocketInUse, private_directory

        private_directory(path.parent)
        end = time.monotonic() + 1.2 * self._limits.place_s
        while True:
            try:
                return self._take(path, pid_file=True)
            except SocketInUse:
                if os.path.lexists(path) or self.stopping.is_set() or time.monotonic() > end:
                    raise SocketInUse(_taken(path)) from None
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _take(self, path: Path, *, pid_file: bool = False) -> None:
        from zotd.daemon.place import Place

        place = Place(path, self._limits.backlog, pid_file=pid_file)
        self._places.append(place)
        self._listen(place.socket, str(path))

    def _listen(self, listening: socket, path: str) -> None:
        from zotd.daemon.door import Door

        self._doors.append(Door(listening, self._limits, self.tasks, self._client))
        self.listening.append(f"unix:{path}")

    def _client(self) -> asyncio.Protocol:
        return SocketClient(self._limits, self._connect, self._gone)

    def close_doors(self) -> None:
        """As `Life`. A socket that was inherited stays the service manager's: it is not accepted from."""
        for place in self._places:
            place.leave(drains=self.draining and not self.stopping.is_set())
        for door in self._doors:
            door.close(let_in=self.draining and not self.supervisor.inherited)
        for server in self._websockets:
            server.close()
        self.listening.clear()

    async def _listen_for_websockets(self, address: str) -> asyncio.AbstractServer:
        from zotd.daemon.websocket import listen_websocket

        if not self.token:
            raise OSError(
                f"{address}: any local program can connect there, so it needs a token: set ZOTD_TOKEN to one"
            )
        server, chosen = await listen_websocket(address, self._limits, self._connect, self._gone)
        self.listening.append(chosen)
        say(f"listening on {chosen}", "listening", "info", address=chosen)
        return server

    def input_over(self, connection: Connection) -> None:
        """A client has said its last word: it is heard out, and then its connection ends."""
        if self.private:
            self._ended.set()
        else:
            self.tasks.create_task(self._hear_out(connection), name="end of a connection")

    def _connect(self, outlet: Outlet, frames: Frames | None) -> Connection:
        # Frames that are known from the start are those of a WebSocket.
        self.arrived()
        connection = Connection(outlet, self._limits, Desk(self, guarded=frames is not None), frames)
        came_by = self.connections[connection] = _transport(frames, private=self.private)
        peer: dict[str, Any] = outlet.peer() if isinstance(outlet, StreamOutlet) and wanted() else {}
        log("connection opened", connection=connection.number, transport=came_by, **peer)
        return connection

    def _gone(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        about = connection.about()
        log("connection closed", connection=connection.number, client=about.name, dialect=about.dialect)
        self.tasks.create_task(self._closed(connection))

    async def _closed(self, connection: Connection) -> None:
        """One client's end must not be everyone's, whatever goes wrong in it."""
        await connection.settled()
        try:
            if connection.front is not None:
                await connection.front.closed()
        except Exception as bug:
            mistake("the end of a connection", bug)

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


def _configured_idle_s(configured: Layer) -> float:
    """After how long with nothing to do the user wants the daemon to end; 0 for never."""
    for fault in configured.faults:
        log("configuration", "warn", fault=str(fault))
    return float(configured.values.get("idle_timeout", 0.0))


def _said(problem: Exception) -> str:
    """What is wrong and what to do: in our own words, or those of the system about a file."""
    from zotd.base.files import MAKE_ROOM

    if isinstance(problem, OSError) and problem.errno and problem.filename:
        return f"{problem.filename}: {problem.strerror}; {MAKE_ROOM}"
    return str(problem)


def _taken(path: Path) -> str:
    """Who has the user's own place, and what to do: no other can be chosen."""
    from zotd.cli.rendezvous import Gone, NoDaemon, dial, own_peer

    pid = 0
    with suppress(Gone, NoDaemon, OSError), closing(dial(str(path))) as met:
        pid = own_peer(met, str(path))
    who = f"process {pid}" if pid else "another daemon"
    return (
        f"{path}: {who} serves there already; join it with --connect auto, or end it first: zotd daemon stop"
    )


def _transport(frames: Frames | None, *, private: bool) -> Transport:
    if private:
        return "stdio"
    return "unix" if frames is None else "websocket"
