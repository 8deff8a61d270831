"""Owns what answers in a session: the model that its spec names, or what stands in for one."""

from __future__ import annotations

from zotd.agent.loop import Model
from zotd.agent.ports import Provider, ProviderError
from zotd.daemon.spec import SessionSpec, chosen
from zotd.providers.catalog import BadChoice, Choice, NoCredentials
from zotd.providers.registry import Providers
from zotd.providers.unavailable import Unavailable
from zotd.store.saved import Saved


def answering(
    spec: SessionSpec, providers: Providers, saved: Saved | None, late: bool
) -> tuple[Choice, Provider]:
    """What answers. One that cannot be had is stood in for, if that may be known late."""
    try:
        choice = chosen(spec)
        return choice, providers.open(choice, spec.script)
    except (NoCredentials, BadChoice, ProviderError) as wrong:
        if isinstance(wrong, NoCredentials):
            reason = str(wrong)
        elif saved is not None:
            used = f"provider {saved.provider}, model {saved.model}"
            reason = f"{wrong}. The session used {used}: choose others to go on"
        else:
            raise
        if not late:
            raise type(wrong)(reason) from None
        return Choice(spec.provider, spec.model), Unavailable(reason)


def model_of(choice: Choice, provider: Provider, spec: SessionSpec, system: str) -> Model:
    """A choice as the loop wants it. system: the prompt."""
    return Model(
        provider=provider,
        id=choice.model,
        system=system,
        reasoning=spec.reasoning,
        window=choice.window,
        tools=choice.tools,
    )
