"""Owns what the methods about the daemon itself do."""

from __future__ import annotations

import asyncio
import os
import time
from typing import cast

from zotd import __version__
from zotd.base.clock import stamp
from zotd.base.memory import descriptors, resident_bytes
from zotd.daemon.audience import Client
from zotd.daemon.calls import Caller, Method, Then
from zotd.daemon.connection import Connection
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions
from zotd.protocol import daemon_methods as m


async def daemon_status(caller: Caller, params: m.DaemonStatus) -> m.DaemonState:
    daemon, sessions = caller.daemon, caller.sessions
    return m.DaemonState(
        version=__version__,
        pid=os.getpid(),
        started=stamp(int(daemon.started * 1e9)),
        uptime_s=round(time.monotonic() - daemon.running_since, 3),
        home=str(daemon.home),
        listening=list(daemon.listening),
        idle_exit_s=daemon.idle_exit_s,
        draining=daemon.draining,
        sessions=[_session(session) for session in sessions.all()],
        clients=[
            _client(connection, came_by, sessions) for connection, came_by in daemon.connections.items()
        ],
        memory=await _memory(sessions),
    )


async def daemon_stop(caller: Caller, params: m.DaemonStop) -> Then:
    daemon = caller.daemon
    return Then(None, daemon.drain if params.drain else daemon.stop)


DAEMON_METHODS: dict[str, Method] = {
    "daemon/status": daemon_status,
    "daemon/stop": daemon_stop,
}


def _session(session: Session) -> m.SessionStatus:
    info = session.info()
    return m.SessionStatus(
        session_id=session.id,
        title=session.title or None,
        cwd=str(session.cwd),
        provider=session.provider,
        model=session.model.id,
        approval=info.approval,
        busy=session.busy,
        clients=len(session.clients),
        queue=len(info.queue),
        pending_approvals=len(info.pending_approvals),
        replay_bytes=session.audience.replay_bytes,
        extensions=_extensions(session),
    )


def _extensions(session: Session) -> list[m.ExtensionProcess]:
    """One row for each that was found, in load order; what has no process has nothing waiting."""
    host = session.host
    if host is None:
        return []
    rows: list[m.ExtensionProcess] = []
    for row in host.states():
        extension = host.extensions.get(row.name)
        rows.append(
            m.ExtensionProcess(
                name=row.name,
                state=row.state,
                queued_frames=extension.queued if extension is not None else 0,
                dropped_events=host.interception.dropped(extension) if extension is not None else 0,
            )
        )
    return rows


def _client(connection: Connection, came_by: m.Transport, sessions: Sessions) -> m.ClientStatus:
    about, front = connection.about(), cast("Client | None", connection.front)
    return m.ClientStatus(
        name=about.name,
        version=about.version,
        transport=came_by,
        dialect=about.dialect,
        sessions=[session.id for session in sessions.all() if front in session.clients],
        requests=about.requests,
        queued_bytes=connection.queued_bytes,
        lagging=connection.lagging,
    )


async def _memory(sessions: Sessions) -> m.MemoryUse:
    from zotd.process.kept import KEEPER

    open_now, most = descriptors()
    return m.MemoryUse(
        resident_bytes=await asyncio.to_thread(resident_bytes, os.getpid()),
        keeper_bytes=await asyncio.to_thread(resident_bytes, KEEPER.pid) if KEEPER.pid else None,
        replay_bytes=sessions.replay_bytes,
        descriptors=open_now,
        descriptors_limit=most,
    )
