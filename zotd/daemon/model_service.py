"""Owns the methods about models: which there are, who serves them, and which one a session uses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from msgspec.structs import replace as with_fields

from zotd.agent.ports import ProviderError
from zotd.base.reasoning import SAME
from zotd.daemon.calls import Caller, Method, Refused, Then, session_of, translated
from zotd.daemon.configured import with_configuration
from zotd.daemon.session import Session
from zotd.daemon.spec import SessionSpec, access, chosen
from zotd.protocol import project_methods as m
from zotd.protocol import session_methods as s
from zotd.protocol.content import ContextUse
from zotd.protocol.params import SessionRef
from zotd.providers.catalog import PROVIDERS, BadChoice, Choice, NoCredentials, credentials, models
from zotd.providers.unavailable import Unavailable


async def session_set(caller: Caller, params: s.SessionSet) -> Then:
    session = session_of(caller, params)
    provider, model = params.provider or "", params.model or ""
    reasoning = SAME.get(params.reasoning, params.reasoning) if params.reasoning is not None else None
    if provider or model:
        try:
            caller.sessions.set_model(session, model, provider, reasoning)
        except NoCredentials as missing:
            raise Refused(str(missing), kind="provider_auth") from None
        except (BadChoice, ProviderError) as wrong:
            where = "$.provider" if provider and (not model or provider not in PROVIDERS) else "$.model"
            raise Refused(f"{where}: {wrong}", kind="invalid_params") from None
    elif reasoning is not None:
        caller.sessions.set_reasoning(session, reasoning)
    if params.approval is not None:
        caller.sessions.set_approval(session, params.approval)

    def tell() -> None:
        if params.approval == "auto":
            session.approvals.release(caller.name)
        session.changed()

    # The news of it follows the answer.
    now = with_fields(
        session.info(),
        provider=session.provider,
        model=session.model.id,
        reasoning=session.model.reasoning,
        approval=session.approvals.policy,
        context=ContextUse(used=session.info().context.used, window=session.model.window),
    )
    return Then(s.SessionResult(session=now), tell)


async def model_list(caller: Caller, params: m.ModelList) -> m.Models:
    session, spec = _meant(caller, params.session_id)
    return await asyncio.to_thread(_models, spec, _in_use(session, spec))


async def provider_list(caller: Caller, params: m.ProviderList) -> m.ProvidersFound:
    _, spec = _meant(caller, params.session_id)
    rows = []
    for provider, name in PROVIDERS.items():
        authenticated, source = _credentials(provider, spec)
        rows.append(
            m.ProviderInfo(id=provider, name=name, authenticated=authenticated, source=source or None)
        )
    return m.ProvidersFound(providers=rows)


def _meant(caller: Caller, session_id: str | None) -> tuple[Session | None, SessionSpec]:
    """A session and what it was made from, or what a new one would be made from."""
    if session_id is None:
        return None, with_configuration(caller.spec)
    session = session_of(caller, SessionRef(session_id=session_id))
    return session, caller.sessions.spec_of(session)


def _in_use(session: Session | None, spec: SessionSpec) -> Choice | None:
    """The model of a session, or the one that a new one would have, if it has any."""
    if session is not None:
        if isinstance(session.model.provider, Unavailable):
            return None
        spec = replace(spec, provider=session.provider, model=session.model.id)
    try:
        return chosen(spec)
    except (NoCredentials, BadChoice):
        return None


def _models(spec: SessionSpec, in_use: Choice | None) -> m.Models:
    """Those of the catalogue, and the one in use, which only the user may know."""
    listed = models(spec.home)
    if in_use is not None and _name(in_use) not in map(_name, listed):
        listed.append(in_use)
    order = list(PROVIDERS)
    listed.sort(key=lambda choice: order.index(choice.provider))
    return m.Models(models=list(_rows(listed, spec)))


def _name(choice: Choice) -> tuple[str, str]:
    return choice.provider, choice.model


def _rows(choices: list[Choice], spec: SessionSpec) -> Iterator[m.ModelInfo]:
    for choice in choices:
        available, _ = _credentials(choice.provider, spec)
        if choice.weights is not None:
            available = choice.weights.is_file() and _runtime_is_there()
        yield m.ModelInfo(
            provider=choice.provider,
            id=choice.model,
            name=choice.name,
            context_window=choice.window,
            max_output=choice.max_output,
            reasoning=choice.reasoning,
            images=choice.images,
            tools=choice.tools,
            available=available,
        )


def _credentials(provider: str, spec: SessionSpec) -> tuple[bool, str]:
    try:
        return credentials(provider, *access(spec, provider), spec.environ)
    except BadChoice:  # an address that is none
        return False, ""


def _runtime_is_there() -> bool:
    from importlib.util import find_spec

    return find_spec("xllamacpp") is not None


MODEL_METHODS: dict[str, Method] = {
    "session/set": translated(session_set),
    "model/list": model_list,
    "provider/list": provider_list,
}
"""Methods by name; `service` serves them with the rest."""
