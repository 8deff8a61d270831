"""Owns what JSON-RPC methods share: who calls, what they return, and finding the session that is meant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeAlias

from zotd.agent.ports import NotKept
from zotd.base.files import none_left
from zotd.daemon.daemon import Daemon
from zotd.daemon.refused import Refused as Refused
from zotd.daemon.refused import exhausted
from zotd.daemon.session import Session
from zotd.daemon.sessions import Sessions
from zotd.daemon.spec import SessionSpec
from zotd.protocol.params import SessionRef
from zotd.providers.catalog import BadChoice
from zotd.store.errors import StoreError


class Caller(Protocol):
    """The connection a request came over.

    cancel: gives up an open request of this connection, if there is one of that id.
    hang_up: ends it here and now, for a reason. leave: ends it once what was accepted is done, as the end of
    input would.
    """

    daemon: Daemon
    sessions: Sessions
    spec: SessionSpec
    token: str
    initialized: bool
    name: str
    client_version: str
    capabilities: frozenset[str]

    def attach(self, session: Session, since: int | None = None, epoch: str = "") -> None: ...
    def sees(self, session: Session) -> bool: ...
    def detach(self, session: Session) -> None: ...
    def cancel(self, request_id: str | int | float | None) -> None: ...
    def hang_up(self, why: str) -> None: ...
    def leave(self, *, soon: bool) -> None: ...


class Then(NamedTuple):
    """A result, and what happens once the answer is on its way."""

    result: Any
    action: Callable[[], object]


Method: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""Called with a Caller and the method's params. Returns its result, or Then; raises Refused."""


def session_of(caller: Caller, params: SessionRef) -> Session:
    """The open session that params name. Raises Refused."""
    session = caller.sessions.get(params.session_id)
    if session is None:
        raise Refused(
            f"no session {params.session_id!r} is open",
            kind="session_not_found",
            hint="session/attach and session/load open one that is saved, session/list shows which there are",
        )
    return session


def sparing(method: Method) -> Method:
    """The same method; that it could open nothing is no mistake of ours, and is told."""

    @wraps(method)
    async def answer(caller: Any, params: Any) -> Any:
        try:
            return await method(caller, params)
        except OSError as wrong:
            if not none_left(wrong):
                raise
            raise exhausted() from None

    return answer


def translated(method: Method) -> Method:
    """The same method; what the store has to say becomes an answer."""

    @wraps(method)
    async def answer(caller: Any, params: Any) -> Any:
        try:
            return await method(caller, params)
        except (StoreError, NotKept) as wrong:
            raise Refused(str(wrong), kind=wrong.kind, hint=wrong.hint) from None
        except BadChoice as wrong:
            raise Refused(str(wrong), kind="invalid_params") from None

    return answer
