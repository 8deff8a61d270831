"""A project, a home and a host with real processes, on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec
import pytest
import uvloop

from tests.children import nothing_but_the_keeper_is_left, start_keeper
from tests.peers import Peer, PeerScope
from tests.virtual import VirtualLoop
from zotd.agent.toolbox import Toolbox
from zotd.base.limits import Limits
from zotd.extensions.discovery import Discovery, Located, discover
from zotd.extensions.host import CommandAnswer, ExtensionHost, Invocation
from zotd.extensions.program import Surroundings
from zotd.extensions.shared import SharedExtensions
from zotd.process.spawn import Scope
from zotd.protocol.events import Event, ExtNotify
from zotd.protocol.manifest import Manifest

HERE = Path(__file__).parent
HELLO_PY = HERE / "hello-py"
NOTES = HERE.parent.parent / "examples" / "extensions" / "notes"
SHORT = replace(
    Limits(),
    hello_s=10.0,
    ready_together_s=8.0,
    auto_ready_s=5.0,
    command_s=8.0,
    shutdown_s=5.0,
    terminate_s=0.2,
)
"""Short where a test waits for the end of it, long where reaching it is a failure."""

E = TypeVar("E")
P = TypeVar("P", bound=Peer)


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Rules are logic, so they run by a clock of their own; all else on both real loops."""
    if item.path.name.startswith("test_rules_"):
        return {"virtual": VirtualLoop}
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session", autouse=True)
def _what_stays_is_there() -> None:
    """uvloop's library keeps two for the life of the process; they are no leak. Nor is the keeper."""
    uvloop.new_event_loop().close()
    start_keeper()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = sorted(Path("/proc/self/fd").iterdir())
    yield
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    nothing_but_the_keeper_is_left()


class World:
    """Extensions on disk, a host that runs them, and all it emitted."""

    def __init__(self, root: Path) -> None:
        self.cwd = root / "project"
        self.home = root / "home"
        self.cwd.mkdir()
        self.env = {"PATH": os.environ["PATH"], "GREETING": "good day"}
        self.explicit: list[Path] = []
        self.events: list[Event] = []
        self.capabilities: set[str] = set()
        self.prompts: list[tuple[str, str]] = []
        self.runs: list[Invocation] = []
        self.toolbox = Toolbox({})
        self.scope: Callable[[Limits], Scope] = Scope
        self.session_id = "s-1"
        self.shared: SharedExtensions | None = None
        self.full = False
        self._caught_up = asyncio.Event()
        self._more = asyncio.Event()
        self._audience = asyncio.Event()

    def add(self, mode: str, folder: str = "", /, **manifest: Any) -> Path:
        """Install `misbehave.py MODE`; folder and extension are named like the mode unless told."""
        name = folder or mode
        directory = self.home / "extensions" / name
        directory.mkdir(parents=True)
        args = ["-S", str(HERE / "misbehave.py"), mode]
        full = {"name": name, "version": "1", "exec": sys.executable, "args": args, **manifest}
        (directory / "extension.json").write_text(json.dumps(full))
        return directory

    def log(self, name: str) -> str:
        return (self.home / "logs" / f"ext-{name}.log").read_text()

    async def discover(self) -> Discovery:
        return discover(self.cwd, self.home, self.explicit)

    def host(self, tasks: asyncio.TaskGroup, limits: Limits = SHORT) -> ExtensionHost:
        around = Surroundings(self.home, self.cwd, self.env, "scripted", "scripted-1", self.session_id)
        return ExtensionHost(
            self.discover,
            around,
            surface=self,
            toolbox=self.toolbox,
            limits=limits,
            tasks=tasks,
            shared=lambda: self.shared or SharedExtensions(limits, tasks),
            scope=self.scope,
        )

    # Surface: what a session is to its extensions

    def publish(self, event: Event, turn_id: str = "") -> None:
        self.events.append(event)
        self._more.set()

    async def drained(self) -> None:
        await self._caught_up.wait()

    def stall(self) -> None:
        """From now on no client reads."""
        self.full = True
        self._caught_up.clear()

    def read(self) -> None:
        """They read again."""
        self.full = False
        self._caught_up.set()

    def can(self, capability: str) -> bool:
        return capability in self.capabilities

    def look_on(self, *capabilities: str) -> None:
        """From now on those who are attached can do this, all of them together."""
        self.capabilities = {*capabilities}
        self._audience.set()

    async def audience_changed(self) -> None:
        self._audience.clear()
        await self._audience.wait()

    def prompt(self, text: str, extension: str) -> str:
        self.prompts.append((extension, text))
        self._more.set()
        return ""

    def built_in(self, text: str) -> Invocation | None:
        """There are none here."""

    def run(self, invocation: Invocation, extension: str) -> None:
        self.runs.append(invocation)
        self._more.set()

    def failed(self, extension: str, message: str) -> None:
        self.publish(ExtNotify(extension=extension, level="error", message=message))

    def renewed(self) -> None:
        """Nothing stands here."""

    @asynccontextmanager
    async def running(self, **limits: Any) -> AsyncIterator[ExtensionHost]:
        """A host that has started, and is stopped afterwards. Bounded."""
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            host = self.host(tasks, replace(SHORT, **limits))
            await host.start()
            try:
                yield host
            finally:
                await host.stop()

    async def event(self, kind: type[E], **fields: Any) -> E:
        """The first event of this kind with these fields, as soon as it was emitted."""
        while True:
            for event in self.events:
                if isinstance(event, kind) and all(getattr(event, key) == fields[key] for key in fields):
                    return event
            self._more.clear()
            await self._more.wait()

    async def ran(self) -> Invocation:
        """The first command that an extension wanted run, as soon as it did."""
        while not self.runs:
            self._more.clear()
            await self._more.wait()
        return self.runs[0]

    def seen(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


class Stage(World):
    """The same with scripted peers in place of programs, and with the product's own limits."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.peers: dict[str, Peer] = {}
        self.discovery = Discovery()

    @overload
    def enter(self, name: str, /, **manifest: Any) -> Peer: ...
    @overload
    def enter(self, name: str, peer: P, /, **manifest: Any) -> P: ...

    def enter(self, name: str, peer: Any = None, /, **manifest: Any) -> Any:
        """Install an extension that is a peer: unless told, a good one that offers nothing."""
        peer = peer or Peer()
        peer.name = name
        self.peers[name] = peer
        made = msgspec.convert({"name": name, "version": "1", "exec": "./peer", **manifest}, Manifest)
        self.discovery.found.append(Located(made, self.home / "extensions" / name, "global"))
        return peer

    async def discover(self) -> Discovery:
        return self.discovery

    def host(self, tasks: asyncio.TaskGroup, limits: Limits = SHORT) -> ExtensionHost:
        return ExtensionHost(
            self.discover,
            Surroundings(self.home, self.cwd, self.env, "scripted", "scripted-1", self.session_id),
            surface=self,
            toolbox=self.toolbox,
            limits=limits,
            tasks=tasks,
            shared=lambda: SharedExtensions(limits, tasks),
            scope=lambda limits: PeerScope(limits, self.peers),
        )

    @asynccontextmanager
    async def running(self, **limits: Any) -> AsyncIterator[ExtensionHost]:
        """A host that has started, and is stopped afterwards."""
        async with asyncio.TaskGroup() as tasks:
            host = self.host(tasks, Limits(**limits))
            await host.start()
            try:
                yield host
            finally:
                await host.stop()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def run(host: ExtensionHost, text: str) -> CommandAnswer:
    invocation = host.find(text)
    assert invocation is not None, f"{text} is no command"
    return await host.invoke(invocation)
