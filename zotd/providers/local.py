"""Owns the embedded model: a child of ours that serves a model file, and the adapter that asks it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from zotd.agent.ports import ModelRequest, ProviderError, ProviderEvent
from zotd.base.limits import Limits
from zotd.base.secret import Secret
from zotd.process.spawn import Child, Scope, SpawnError
from zotd.providers.catalog import Choice
from zotd.providers.http import Http
from zotd.providers.openai_chat import OpenAIChat
from zotd.providers.weights import KNOWN

_TEMPERATURE = 0.2  # small models wander off at the usual 0.8


class LocalServers:
    """The children that serve model files: one a file, started by the first request, until `close`.

    environ: of the children.
    """

    def __init__(self, limits: Limits, environ: Mapping[str, str]) -> None:
        self._limits = limits
        self._environ = environ
        self._scope = Scope(limits)
        self._servers: dict[Path, _Server] = {}
        self._starting = asyncio.Lock()

    async def serving(self, weights: Path, window: int, max_output: int) -> tuple[str, Secret]:
        """The address and key of a server for the file `weights`.

        window, max_output: tokens it can hold and tokens of one answer. Raises ProviderError.
        """
        async with self._starting:
            server = self._servers.get(weights)
            if server is None or server.child.exited.done():
                server = await self._start(weights, window, max_output)
                self._servers[weights] = server
            return server.url, server.key

    async def died(self, weights: Path) -> bool:
        """Whether the child for `weights` has ended, or does within a moment."""
        server = self._servers.get(weights)
        if server is None:
            return True
        await asyncio.wait([server.child.exited], timeout=self._limits.last_words_s)
        return server.child.exited.done()

    async def close(self) -> None:
        """End every child, bounded."""
        async with self._starting:
            servers = tuple(self._servers.values())
            self._servers.clear()
            await asyncio.gather(*(self._end(server.child) for server in servers))
            await self._scope.close()

    async def _start(self, weights: Path, window: int, max_output: int) -> _Server:
        if not weights.is_file():
            raise ProviderError(
                f"there is no model file {weights}", kind="configuration", hint=_how_to_get(weights)
            )
        key = Secret(secrets.token_urlsafe(32))
        argv = [sys.executable, "-P", "-m", "zotd.providers.local_server"]
        try:
            child = await self._scope.spawn(
                argv, cwd=weights.parent, env=self._environ, stdin="pipe", stderr="null"
            )
        except SpawnError as error:
            raise ProviderError(str(error)) from error
        try:
            if child.stdin is not None:
                order = {
                    "model": str(weights),
                    "key": key.reveal(),
                    "window": window,
                    "max_output": max_output,
                }
                child.stdin.write(json.dumps(order).encode() + b"\n")
            async with asyncio.timeout(self._limits.local_start_s):
                return _Server(child, await _address(child, weights), key)
        except TimeoutError as error:
            await self._end(child)
            raise ProviderError(f"{weights}: not loaded within {self._limits.local_start_s:g} s") from error
        except BaseException:
            await self._end(child)
            raise

    async def _end(self, child: Child) -> None:
        if child.stdin is not None:
            child.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.local_stop_s):
                await asyncio.shield(child.exited)
        await child.stop(0)
        child.close()


class _Server:
    __slots__ = ("child", "key", "url")

    def __init__(self, child: Child, url: str, key: Secret) -> None:
        self.child = child
        self.url = url
        self.key = key


class LocalProvider:
    """The embedded model as a provider. It calls no tools: requests carry none."""

    id = "local"

    def __init__(
        self,
        choice: Choice,
        servers: LocalServers,
        http: Http,
        limits: Limits,
        temperature: float | None,
    ) -> None:
        self._choice = choice
        self._servers = servers
        self._http = http
        self._limits = limits
        self._temperature = _TEMPERATURE if temperature is None else temperature

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """The answer as it is computed; giving it up stops the computing. Raises ProviderError."""
        choice = self._choice
        if choice.weights is None:
            hint = f"run: zotd model install {KNOWN[0].id}"
            raise ProviderError("no model file is chosen", kind="configuration", hint=hint)
        request = replace(request, tools=(), reasoning="")
        began = False
        for last in (False, True):
            url, key = await self._servers.serving(choice.weights, choice.window, choice.max_output)
            chat = OpenAIChat(self.id, url, key, self._http, self._limits, temperature=self._temperature)
            try:
                async with aclosing(chat.stream(request)) as events:
                    async for event in events:
                        began = True
                        yield event
                return
            except ProviderError:
                # A child that was killed refuses the request a moment before its end is known.
                if last or began or not await self._servers.died(choice.weights):
                    raise

    async def close(self) -> None:
        """Nothing is held: the child is shared."""


async def _address(child: Child, weights: Path) -> str:
    """What the child says about itself once the file is loaded."""
    said = b""
    while not said.endswith(b"\n") and (data := await child.read()):
        said += data
    try:
        answer = json.loads(said)
    except ValueError:
        raise ProviderError(f"{weights}: the process that loads it died", hint="is it a GGUF file?") from None
    if url := answer.get("url"):
        return str(url)
    hint = answer.get("hint") or "expected a GGUF file of a chat model that fits into memory"
    # Only a package that cannot be imported comes with a detail, the importer's own words.
    kind = "configuration" if "detail" in answer else "provider_error"
    raise ProviderError(f"{answer['error']}", kind=kind, hint=str(hint))


def _how_to_get(weights: Path) -> str:
    """The command that fetches a model we know, else a remark on the path."""
    for row in KNOWN:
        if Path(row.member).name == weights.name:
            return f"run: zotd model install {row.id}"
    return f"give the path of a GGUF file, or run: zotd model install {KNOWN[0].id}"
