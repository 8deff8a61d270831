"""Owns a run that finds its daemon ending before it has taken the prompt: the next one runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from zotd.agent.loop import Outcome
from zotd.base.limits import Limits
from zotd.cli.flags import Flags
from zotd.cli.remote import Joined, NotTaken, meet

if TYPE_CHECKING:
    from zotd.daemon.audience import Client
    from zotd.daemon.spec import SessionSpec

_LOOK_AGAIN_S = 0.05
"""Between two tries: a daemon that ends gives its place up at once."""


class Moving:
    """A conversation in whichever daemon takes it. Once a prompt is taken, it stays there."""

    def __init__(self, flags: Flags, spec: SessionSpec, token: str, limits: Limits) -> None:
        """token: of the daemon, "" without one."""
        self._flags = flags
        self._spec = spec
        self._token = token
        self._limits = limits
        self._joined: Joined | None = None
        self._reporter: Client | None = None
        self._tries = limits.daemons_tried
        self._taken = False
        self._stopped = False

    @property
    def id(self) -> str:
        return "" if self._joined is None else self._joined.id

    async def begin(self) -> None:
        """Join a daemon and have it open the session. Raises NotTaken."""
        while True:
            self._tries -= 1
            met, line = await asyncio.to_thread(meet, self._flags, self._spec)
            saved = not self._spec.ephemeral
            joined = Joined(met, line, self._token, self._limits, saved=saved)
            try:
                await joined.begin()
            except NotTaken as why:
                await joined.close()
                if not why.passing or self._stopped or not self._tries:
                    raise
                await asyncio.sleep(_LOOK_AGAIN_S)
            else:
                self._joined = joined
                if self._stopped:  # while it was looked for
                    joined.stop()
                return

    def attach(self, reporter: Client) -> None:
        """See Conversation."""
        self._reporter = reporter
        self._here.attach(reporter)

    async def turn(self, text: str, accepted: Callable[[str], object]) -> Outcome:
        """See Conversation."""

        def taken(turn_id: str) -> None:
            self._taken = True
            accepted(turn_id)

        while True:
            outcome = await self._here.turn(text, taken)
            if outcome.kind != "draining" or self._taken or self._stopped or not self._tries:
                return outcome
            await self._here.close()  # a saved session is free then
            try:
                await self.begin()
            except NotTaken as why:
                return Outcome("error", error=str(why), kind="draining")
            if self._reporter is not None:
                self._here.attach(self._reporter)

    def stop(self) -> None:
        """See Conversation."""
        self._stopped = True
        self._here.stop()

    async def finish(self) -> None:
        """See Conversation."""
        await self._here.finish()

    async def close(self) -> None:
        """See Conversation."""
        await self._here.close()

    @property
    def _here(self) -> Joined:
        assert self._joined is not None  # begun
        return self._joined
