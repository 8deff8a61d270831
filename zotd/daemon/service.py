"""Owns the table of the JSON-RPC methods, and those about a connection."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import replace
from pathlib import Path

import msgspec

from zotd import __version__
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of
from zotd.daemon.capabilities import declared
from zotd.daemon.daemon_service import DAEMON_METHODS
from zotd.daemon.export_service import EXPORT_METHODS
from zotd.daemon.extension_service import EXTENSION_METHODS
from zotd.daemon.model_service import MODEL_METHODS
from zotd.daemon.project_service import PROJECT_METHODS
from zotd.daemon.saved_service import SAVED_METHODS
from zotd.daemon.session_service import SESSION_METHODS
from zotd.daemon.surroundings import directory
from zotd.daemon.turn_service import TURN_METHODS
from zotd.daemon.view_service import VIEW_METHODS
from zotd.protocol import methods as m
from zotd.protocol.params import Params


async def ping(caller: Caller, params: Params) -> None:
    return


async def initialize(caller: Caller, params: m.Initialize) -> m.Initialized:
    if caller.token and not hmac.compare_digest(params.token.encode(), caller.token.encode()):
        hint = "pass the daemon's token as initialize.token; zotd itself takes it from ZOTD_TOKEN"
        raise Refused("invalid token", kind="auth", hint=hint, then=lambda: caller.hang_up("invalid token"))
    if params.protocol_version != m.PROTOCOL_VERSION:
        raise Refused(
            f"$.protocol_version: expected {m.PROTOCOL_VERSION}, got {params.protocol_version}",
            kind="protocol_version",
            hint="update the older of the two: pip install --upgrade zotd, or the editor's plugin",
        )
    if params.cwd is not None:
        caller.spec = replace(caller.spec, cwd=directory(params.cwd))
    caller.initialized = True
    caller.name, caller.client_version = params.client.name, params.client.version
    caller.capabilities = declared(msgspec.to_builtins(params.capabilities))
    caller.spec = replace(caller.spec, approves="approvals" in caller.capabilities)
    for session in caller.sessions.all():  # of one that introduces itself again
        if caller.sees(session):
            caller.attach(session)
    return m.Initialized(
        protocol_version=m.PROTOCOL_VERSION,
        server=m.ClientInfo(name="zotd", version=__version__),
        capabilities={"methods": sorted(METHODS)},
    )


async def discover(caller: Caller, params: m.Discover) -> m.OpenRpcDocument:
    # It lies beside the types it was generated from. Few ask for it, so it is not kept in memory.
    path = Path(m.__file__).with_name("openrpc.json")
    return msgspec.json.decode(await asyncio.to_thread(path.read_bytes), type=m.OpenRpcDocument)


async def cancel_request(caller: Caller, params: m.CancelRequest) -> Then:
    wanted = params.id if params.id is not None else params.request_id
    return Then(None, lambda: caller.cancel(wanted))


async def shutdown(caller: Caller, params: m.ShutdownParams) -> Then:
    return Then(None, lambda: caller.leave(soon=True))


async def leave(caller: Caller, params: m.ExitParams) -> Then:
    return Then(None, lambda: caller.leave(soon=False))


async def notes_clear(caller: Caller, params: m.NotesClear) -> Then:
    return Then(None, session_of(caller, params).notes.clear)


METHODS: dict[str, Method] = {
    "initialize": initialize,
    "ping": ping,
    "rpc.discover": discover,
    "$/cancelRequest": cancel_request,
    "$/cancel_request": cancel_request,
    "shutdown": shutdown,
    "exit": leave,
    "notes/clear": notes_clear,
    **SESSION_METHODS,
    **SAVED_METHODS,
    **VIEW_METHODS,
    **EXPORT_METHODS,
    **TURN_METHODS,
    **EXTENSION_METHODS,
    **PROJECT_METHODS,
    **MODEL_METHODS,
    **DAEMON_METHODS,
}

LATER: dict[str, dict[str, object]] = {
    "session/new": {"max_cost_usd": None},
}
"""Members of later versions, each with the one value that is true today. Others are refused."""

BEFORE_INITIALIZE = frozenset({"initialize", "ping", "rpc.discover"})

FAREWELLS = frozenset({"shutdown", "exit"})
"""What a client may still say when it has said that it goes; as notifications too."""

TO_THE_END = frozenset(
    {
        "session/close",
        "session/delete",
        "session/fork",
        "session/import",
        "session/rename",
        "session/set",
        "extension/reload",
        "turn/revert",
        "workspace/trust",
    }
)
"""Methods that change something step by step: once begun they go on, though the client gives up or leaves."""
