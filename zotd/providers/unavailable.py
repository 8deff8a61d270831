"""Owns the model that is not there: a session without credentials can be opened, and says so when asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from zotd.agent.ports import ModelRequest, ProviderError, ProviderEvent


class Unavailable:
    """Answers every request with the reason, kind `provider_auth`."""

    id = "unavailable"

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        for event in self._refuse():
            yield event

    def _refuse(self) -> list[ProviderEvent]:
        raise ProviderError(self.reason, kind="provider_auth")

    async def close(self) -> None:
        """Nothing is held."""
