"""Owns the methods about the daemon itself."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from zotd.protocol.params import Params
from zotd.protocol.session import Approval, ExtensionState

Transport: TypeAlias = Literal["unix", "websocket", "stdio"]
Dialect: TypeAlias = Literal["", "jsonrpc", "zot"]


class DaemonStatus(Params, frozen=True, kw_only=True):
    """Asks what the daemon is doing and what it holds.

    Example: {}
    """


class ExtensionProcess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An extension of an open session.

    name: from its manifest.
    state: where it is in its life.
    queued_frames: that wait for it to read them.
    dropped_events: that it did not read in time.

    Example: {"name":"weather","state":"ready","queued_frames":0,"dropped_events":0}
    """

    name: str
    state: ExtensionState
    queued_frames: int
    dropped_events: int


class SessionStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An open session.

    session_id: opaque and unique.
    title: given by somebody.
    cwd: absolute path of the directory it works in.
    provider: id of the model's provider.
    model: id of the model.
    approval: `auto`, `ask` or `rules`.
    busy: whether a turn runs.
    clients: attached.
    queue: prompts that wait.
    pending_approvals: questions that wait for an answer.
    replay_bytes: of events kept for clients that come back.
    extensions: its own.

    Example: {"session_id":"8f37d5f6","cwd":"/home/user/project","provider":"scripted","model":"scripted","approval":"auto","busy":false,"clients":1,"queue":0,"pending_approvals":0,"replay_bytes":9120,"extensions":[]}
    """  # noqa: E501

    session_id: str
    title: str | None = None
    cwd: str
    provider: str
    model: str
    approval: Approval
    busy: bool
    clients: int
    queue: int
    pending_approvals: int
    replay_bytes: int
    extensions: list[ExtensionProcess]


class ClientStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A connection.

    name: as the client calls itself; empty before it did.
    version: its own.
    transport: how it came: `unix`, `websocket` or `stdio`.
    dialect: what it speaks: `jsonrpc`, `zot`, or empty while nothing tells.
    sessions: ids of those it is attached to.
    requests: of it that have no answer yet.
    queued_bytes: that wait for it to read them.
    lagging: whether it has to be brought up to date with a `resync`.

    Example: {"name":"nvim","version":"0.11","transport":"unix","dialect":"jsonrpc","sessions":["8f37d5f6"],"requests":1,"queued_bytes":0,"lagging":false}
    """  # noqa: E501

    name: str
    version: str
    transport: Transport
    dialect: Dialect
    sessions: list[str]
    requests: int
    queued_bytes: int
    lagging: bool


class MemoryUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the daemon holds of the machine.

    resident_bytes: of the daemon; 0 where the system does not tell.
    keeper_bytes: the same of the process that starts and ends all others; absent while there is none.
    replay_bytes: of events kept for clients that come back.
    descriptors: open files, sockets and pipes.
    descriptors_limit: how many there may be.

    Example: {"resident_bytes":48234496,"keeper_bytes":9437184,"replay_bytes":9120,"descriptors":14,"descriptors_limit":1024}
    """  # noqa: E501

    resident_bytes: int
    keeper_bytes: int | None = None
    replay_bytes: int
    descriptors: int
    descriptors_limit: int


class DaemonState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answers `daemon/status`.

    version: of zotd.
    pid: process id.
    started: RFC 3339 UTC.
    uptime_s: seconds since.
    home: absolute path of its `ZOT_HOME`.
    listening: addresses that clients can come to.
    idle_exit_s: seconds without anything to do after which it ends; absent when it stays.
    draining: whether it ends as soon as the turns that run are done, and takes no new ones.
    sessions: open ones.
    clients: connections.
    memory: what it holds.

    Example: {"version":"0.1.0","pid":4711,"started":"2026-11-30T03:43:15.576Z","uptime_s":3600.5,"home":"/home/user/.local/state/zot","listening":["unix:/run/user/1000/zotd/zotd.sock"],"draining":false,"sessions":[],"clients":[],"memory":{"resident_bytes":48234496,"replay_bytes":9120,"descriptors":14,"descriptors_limit":1024}}
    """  # noqa: E501

    version: str
    pid: int
    started: str
    uptime_s: float
    home: str
    listening: list[str]
    idle_exit_s: float | None = None
    draining: bool
    sessions: list[SessionStatus]
    clients: list[ClientStatus]
    memory: MemoryUse


class DaemonStop(Params, frozen=True, kw_only=True):
    """Ends the daemon for everyone: turns are aborted and saved, extensions stopped.

    drain: whether the turns that run and those that wait are done first; new ones are refused meanwhile.

    Example: {"drain":true}
    """

    drain: bool = False
