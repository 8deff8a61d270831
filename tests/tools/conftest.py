"""What the tests of the tools share: a session's folder, its tools, and one way to call them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.children import nothing_but_the_keeper_is_left, start_keeper
from zotd.agent.ports import Tool, ToolFailed, ToolOutcome
from zotd.base.limits import Limits
from zotd.protocol.content import Text, ToolCall
from zotd.tools import builtin_tools, close_tools


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Session:
    """A folder and the four tools in it."""

    def __init__(self, cwd: Path, home: Path) -> None:
        self.cwd = cwd
        self.home = home
        self.env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(home), "TMPDIR": str(home)}
        self.progress: list[str] = []
        self._heard = asyncio.Event()
        self.tools: dict[str, Tool] = {}
        self.use(Limits())

    def use(self, limits: Limits, **changes: Any) -> None:
        """Give the session tools with these limits."""
        self.limits = replace(limits, **changes)
        self.tools = {tool.name: tool for tool in builtin_tools(self.cwd, self.env, self.limits)}

    async def call(self, tool: str, /, **arguments: Any) -> ToolOutcome:
        return await self.tools[tool].run(ToolCall("c1", tool, arguments), self._hear)

    def _hear(self, text: str) -> None:
        self.progress.append(text)
        self._heard.set()

    async def hears(self, text: str) -> None:
        """Wait until the progress so far holds `text`."""
        async with asyncio.timeout(5):
            while text not in "".join(self.progress):
                self._heard.clear()
                await self._heard.wait()

    def fifo(self, name: str) -> Path:
        """A named pipe in the session's folder: a command that writes to it waits for its reader."""
        os.mkfifo(self.cwd / name)
        return self.cwd / name

    async def text(self, tool: str, /, **arguments: Any) -> str:
        outcome = await self.call(tool, **arguments)
        assert len(outcome.content) == 1
        (block,) = outcome.content
        assert isinstance(block, Text)
        return block.text

    async def fault(self, tool: str, /, **arguments: Any) -> str:
        with pytest.raises(ToolFailed) as caught:
            await self.call(tool, **arguments)
        message = str(caught.value)
        message.encode()
        return message


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    start_keeper()
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    made = Session(tmp_path / "work", tmp_path / "home")
    yield made
    await close_tools(made.tools.values())
    nothing_but_the_keeper_is_left()
