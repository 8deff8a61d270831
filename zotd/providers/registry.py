"""Owns what all models of a process share, and makes the provider for a choice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zotd.agent.ports import Provider
from zotd.base.limits import Limits
from zotd.providers.catalog import Choice

if TYPE_CHECKING:
    from zotd.providers.http import Http
    from zotd.providers.local import LocalServers


class Providers:
    """Opens providers. They share one HTTP client and the children that run embedded models.

    insecure: do not check certificates. temperature: sent with each request, None leaves it to the server.
    environ: of the children; the process's own by default.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        insecure: bool = False,
        temperature: float | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._limits = limits
        self._insecure = insecure
        self._temperature = temperature
        self._environ = environ
        self._http: Http | None = None
        self._local: LocalServers | None = None

    def open(self, choice: Choice, script: Path | None = None) -> Provider:
        """The provider of a choice. Connects to nothing yet.

        script: a file of answers, for the scripted model only. Raises ScriptError when it cannot be used.
        """
        if choice.provider == "scripted":
            from zotd.providers.scripted import ScriptedProvider, load_script

            return ScriptedProvider(load_script(script) if script is not None else None)
        if choice.weights is not None:
            from zotd.providers.local import LocalProvider

            return LocalProvider(choice, self._servers(), self._client(), self._limits, self._temperature)
        from zotd.providers.openai_chat import OpenAIChat

        return OpenAIChat(
            choice.provider,
            choice.base_url,
            choice.api_key,
            self._client(),
            self._limits,
            key_source=choice.key_source,
            temperature=self._temperature,
        )

    async def close(self) -> None:
        """Close connections and end children, bounded."""
        http, local = self._http, self._local
        self._http = self._local = None
        if http is not None:
            await http.close()
        if local is not None:
            await local.close()

    def _client(self) -> Http:
        from zotd.providers.http import Http

        self._http = self._http or Http(self._limits, insecure=self._insecure)
        return self._http

    def _servers(self) -> LocalServers:
        from zotd.providers.local import LocalServers

        if self._local is None:
            environ = self._environ if self._environ is not None else dict(os.environ)
            self._local = LocalServers(self._limits, environ)
        return self._local
