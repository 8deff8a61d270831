"""A whole session, loop and clients included, whose extensions are peers and whose model is a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.agent.test_loop import Echo, Script, Step, call, finish
from tests.clients import judge_event
from tests.extensions.conftest import Stage
from tests.peers import PeerScope
from zotd.agent.loop import Model, Outcome
from zotd.base.limits import Limits
from zotd.daemon.session import Session
from zotd.extensions.host import ExtensionHost
from zotd.extensions.program import Surroundings
from zotd.extensions.shared import SharedExtensions
from zotd.protocol.content import ToolResult
from zotd.protocol.events import TextDelta
from zotd.protocol.session import SessionInfo
from zotd.store.ring import Published

Wire = dict[str, Any]


class Viewer:
    """A client: keeps what it sees. `picture` is the session as it was when it came."""

    full = False
    approver = None

    def __init__(self, *capabilities: str) -> None:
        self.capabilities = frozenset(capabilities)
        self.seen: list[Wire] = []
        self.picture: SessionInfo | None = None
        self.on_event: Callable[[Wire], None] = lambda event: None
        self._more = asyncio.Event()

    def deliver(self, published: Published) -> None:
        event = {"type": published.type, **json.loads(published.body)}
        judge_event(event)
        self.seen.append(event)
        self.on_event(event)
        self._more.set()

    async def drained(self) -> None:
        """It reads at once."""

    def of(self, *kinds: str) -> list[Wire]:
        """What it saw of some types, without what every event carries."""
        around = ("session_id", "seq", "time", "turn_id")
        return [
            {name: value for name, value in event.items() if name not in around}
            for event in self.seen
            if event["type"] in kinds
        ]

    def types(self, *but: str) -> list[str]:
        return [event["type"] for event in self.seen if event["type"] not in but]

    async def sees(self, kind: str, count: int = 1) -> Wire:
        """The event of one type that it sees as number `count`."""
        while len(found := [event for event in self.seen if event["type"] == kind]) < count:
            self._more.clear()
            await self._more.wait()
        return found[count - 1]


class Play:
    """What happens in the session."""

    def __init__(self, session: Session, host: ExtensionHost, script: Script, viewer: Viewer) -> None:
        self.session = session
        self.host = host
        self.script = script
        self.viewer = viewer

    def attach(self, *capabilities: str) -> Viewer:
        """Another client comes."""
        another = Viewer(*capabilities)
        another.picture = self.session.info()
        self.session.attach(another)
        return another

    async def send(self, text: str) -> str:
        """Hand in what a user types. Returns the id of its turn."""
        accepted = await self.session.submit(text)
        accepted.begin()
        return accepted.turn_id

    async def prompt(self, text: str = "go") -> Outcome:
        """The same, until the turn is over."""
        outcome = await self.session.wait(await self.send(text))
        assert outcome is not None
        return outcome

    def results(self) -> list[ToolResult]:
        """The results of tools as the model reads them in its last request."""
        messages = self.script.requests[-1].messages
        return [block for message in messages for block in message.content if isinstance(block, ToolResult)]


@asynccontextmanager
async def play(
    stage: Stage,
    *steps: Step,
    capabilities: tuple[str, ...] = (),
    attached: bool = True,
    loaded: bool = True,
) -> AsyncIterator[Play]:
    """A session in which the peers of `stage` have started, or begin to, and which is closed afterwards."""
    script, viewer, limits = Script(*steps), Viewer(*capabilities), Limits()
    async with asyncio.TaskGroup() as tasks:
        session = Session(
            session_id="s-1",
            cwd=stage.cwd,
            provider="script",
            model=Model(script, "script-1"),
            tools={"echo": Echo()},
            limits=limits,
            max_steps=10,
            tasks=tasks,
        )
        host = ExtensionHost(
            stage.discover,
            Surroundings(stage.home, stage.cwd, stage.env, "script", "script-1", "s-1"),
            surface=session,
            toolbox=session.toolbox,
            limits=limits,
            tasks=tasks,
            shared=lambda: SharedExtensions(limits, tasks),
            scope=lambda limits: PeerScope(limits, stage.peers),
        )
        if attached:
            session.attach(viewer)
        session.connect(host, host.hooks)
        session.loading = tasks.create_task(host.start())
        if loaded:
            await session.loading
        try:
            yield Play(session, host, script, viewer)
        finally:
            await session.close()


def says(*deltas: str) -> Step:
    """The model says something and is done."""
    return [*(TextDelta(delta=delta) for delta in deltas), finish()]


def calls(name: str, raw: str = "{}", *, text: str = "") -> Step:
    """The model calls a tool."""
    return [*([TextDelta(delta=text)] if text else []), *call(name, raw), finish("tool_use")]
