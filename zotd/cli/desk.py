"""Owns what fronts ask of the process, with what one connection has said of itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from zotd.base.files import is_there
from zotd.base.log import say
from zotd.base.tasks import Tasks
from zotd.cli.agents import CANNOT_ASK, Agents
from zotd.daemon.configured import with_configuration
from zotd.daemon.connection import Connection, Front
from zotd.daemon.daemon import Daemon
from zotd.daemon.spec import SessionSpec, chosen

if TYPE_CHECKING:
    from zotd.daemon.audience import Client
    from zotd.daemon.session import Session


class House(Daemon, Protocol):
    """The process, as a connection sees it. private: this is its only client.

    stop: ends it with an exit code.
    """

    agents: Agents
    spec: SessionSpec
    token: str
    tasks: Tasks
    private: bool
    stopping: asyncio.Event

    def stop(self, code: int = 0) -> None: ...
    def input_over(self, connection: Connection) -> None: ...


class Desk:
    """For one connection. Its sessions are made from the flags of the process, or from its own preface."""

    def __init__(self, house: House, *, guarded: bool = False) -> None:
        """guarded: whether everybody can connect there, so that nothing works before the token."""
        self._house = house
        self._guarded = guarded
        self._spec = house.spec
        self._over = False

    @property
    def tasks(self) -> Tasks:
        return self._house.tasks

    @property
    def token(self) -> str:
        return self._house.token

    @property
    def private(self) -> bool:
        """Whether the process has no other client: it ends with this one."""
        return self._house.private

    @property
    def draining(self) -> bool:
        return self._house.draining

    # Reception of a connection

    def front(self, dialect: str, connection: Connection) -> Front:
        if dialect == "zot":
            from zotd.daemon.zot_front import ZotFront

            if self.private and self._spec.approval == "ask":
                sys.stderr.write(f"zotd: {CANNOT_ASK}\n")
            return ZotFront(connection, self)
        from zotd.daemon.rpc_front import RpcFront

        house = self._house
        return RpcFront(
            connection,
            house.agents.sessions,
            self._spec,
            house.tasks,
            house.token,
            house.private,
            self.fatal,
            house,
        )

    async def preface(self, value: dict[str, Any]) -> str:
        from zotd.daemon.preface import check_token, read_preface

        if self._guarded:
            check_token(value, self.token)
        # Folders and sessions are looked for on disks that may be slow: others must not wait for that.
        self._spec, dialect = await asyncio.to_thread(read_preface, value, self._house.spec)
        return dialect

    def turned_away(self, connection: Connection, message: str) -> None:
        if self._house.private:
            self._end(connection, message, 2)
        else:
            connection.close()  # and no word of it here: what it said was for this connection only

    def input_over(self, connection: Connection) -> None:
        if not self._over:
            self._over = True
            self._house.input_over(connection)

    # What a zot client asks of the process

    @property
    def resumes(self) -> bool:
        """Whether the session to come is read from a file, which may take its time."""
        saved = self._spec.saved
        return saved is not None and is_there(saved)

    def identity(self) -> tuple[str, str]:
        """Provider and model of a session that is to be new, without loading them.

        Raises when no credentials are found.
        """
        choice = chosen(with_configuration(self._spec))
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
            for choice in models(self._spec.home)
        ]

    async def open(self) -> Session:
        """A new session, or that of the file that was named: who names what another client works with joins
        it.
        """
        sessions = self._house.agents.sessions
        spec = replace(self._spec, headless=True)
        if spec.saved is None:
            return sessions.open(spec)
        return await sessions.saved.open(spec)

    async def find(self, session_id: str) -> Session:
        """The session of that id, open or saved. Raises StoreError, and BadChoice for an unknown tool."""
        spec = replace(self._spec, headless=True)
        return await self._house.agents.sessions.saved.by_id(session_id, spec)

    def set_model(self, session: Session, model: str) -> None:
        self._house.agents.sessions.set_model(session, model)

    def set_reasoning(self, session: Session, level: str) -> None:
        self._house.agents.sessions.set_reasoning(session, level)

    async def finish(self, session: Session, turn_ids: Sequence[str]) -> None:
        """Until a client's turns are done; of a private session, all that they made extensions do as well."""
        if self._house.private:
            await session.finish()
        for turn_id in turn_ids:
            await session.wait(turn_id)

    async def leave(self, session: Session, client: Client) -> None:
        await self._house.agents.sessions.leave(session, client, private=self._house.private)

    def fatal(self, connection: Connection, message: str) -> None:
        self._end(connection, message, 1)

    def _end(self, connection: Connection, message: str, code: int) -> None:
        """A client that cannot be served: on stdio the process says why and ends, on a socket it hangs up."""
        level = "info" if self._house.stopping.is_set() else "warning"
        say(message, "client turned away", level, reason=message)
        if self._house.private:
            self._house.stop(code)
        else:
            connection.close()
