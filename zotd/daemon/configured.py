"""Owns what configuration means for a session: it fills what flags and params leave open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zotd.base import settings
from zotd.base.files import is_there
from zotd.base.reasoning import SAME
from zotd.daemon.spec import SessionSpec
from zotd.daemon.trusting import looked_up
from zotd.providers.catalog import PROVIDERS, WITH_URL, is_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PLAIN = ("reasoning", "tools", "skills", "system_prompt", "append_system_prompt", "max_steps", "approval")
"""Keys that are a field of the spec, each by itself."""
_QUOTED_CHARS = 100


def configured(spec: SessionSpec) -> tuple[SessionSpec, list[str]]:
    """A spec with what the environment, the project and the user configured, and what of that does not count.

    What the spec has comes first. A project's file counts for who need not ask for trust, or has it.
    """
    layers = [settings.of_environment(spec.environ)]
    project, complaints = _of_project(spec)
    layers += [project, settings.of_user(spec.home)]
    for layer in layers:
        complaints += unknown_names(layer)
        complaints += map(str, layer.faults)
    for at, layer in enumerate(layers):
        below = [each.values for each in layers[at + 1 :]]
        spec = _over(spec, layer.values, below, variables=at == 0)
    return replace(spec, reasoning=SAME.get(spec.reasoning, spec.reasoning)), complaints


def unknown_names(layer: settings.Layer) -> list[str]:
    """Take out what a place says that cannot be: providers and tools there are not, an address that is none.

    Returns a sentence for each.
    """
    said = []
    provider = layer.values.get("provider", "")
    if provider and provider not in PROVIDERS:
        del layer.values["provider"]
        said.append(
            f"{layer.named('provider')}: expected one of {', '.join(PROVIDERS)}, got {_cut(provider)!r}"
        )
    if (url := layer.values.get("base_url", "")) and not is_address(url):
        from zotd.base.redact import bare_url

        del layer.values["base_url"]
        where = layer.named("base_url")
        said.append(
            f"{where}: expected an address that begins with http:// or https://, got {_cut(bare_url(url))!r}"
        )
    if tools := layer.values.get("tools"):
        known = _tool_names()
        for at, name in enumerate(tools):
            if name not in known:
                said.append(
                    f"{layer.named('tools')}[{at}]: expected one of {', '.join(known)}, got {_cut(name)!r}; "
                    "the whole list is not used"
                )
                del layer.values["tools"]
                break
    return said


def _cut(text: str) -> str:
    """What somebody wrote, as far as it helps to find it."""
    return text if len(text) <= _QUOTED_CHARS else f"{text[:_QUOTED_CHARS]}…"


def _tool_names() -> list[str]:
    from zotd.tools.bash import BashTool
    from zotd.tools.edit import EditTool
    from zotd.tools.read import ReadTool
    from zotd.tools.skill import SkillTool
    from zotd.tools.write import WriteTool

    return [tool.name for tool in (ReadTool, WriteTool, EditTool, BashTool, SkillTool)]


def with_configuration(spec: SessionSpec) -> SessionSpec:
    """A spec as a new session of it would have it."""
    return configured(spec)[0]


def _of_project(spec: SessionSpec) -> tuple[settings.Layer, list[str]]:
    spec, _ = looked_up(spec)
    if spec.trusted:
        return settings.of_project(spec.cwd), []
    path = settings.project_file(spec.cwd)
    if not is_there(path):
        return settings.NOTHING, []
    return settings.NOTHING, [f"{path} is not used: its folder is not trusted (zotd trust {spec.cwd})"]


def _over(
    spec: SessionSpec, values: Mapping[str, Any], below: Iterable[Mapping[str, Any]], *, variables: bool
) -> SessionSpec:
    """A spec over one more place below it. below: what the places below that one say."""
    if not values:
        return spec
    given: dict[str, Any] = _model(spec, values, below, variables=variables)
    for key in _PLAIN:
        if key in values and getattr(spec, key) in ("", None, (), 0) and not _says_none(spec, key):
            given[key] = values[key]
    return replace(spec, **given)


def _says_none(spec: SessionSpec, key: str) -> bool:
    """Whether an empty value is what was asked for: no tools, no skills."""
    return key in ("tools", "skills") and getattr(spec, key) is not None


def _model(
    spec: SessionSpec, values: Mapping[str, Any], below: Iterable[Mapping[str, Any]], *, variables: bool
) -> dict[str, Any]:
    """Provider, model and address. They belong together: those of another provider than the one that is
    named above would send a prompt, and its key, where nobody meant it to go.
    """
    provider, model, base_url = (values.get(key, "") for key in ("provider", "model", "base_url"))
    if not variables and spec.environ.get("OPENAI_BASE_URL"):
        base_url = ""  # that is of the environment, which comes before any file
    # A model alone is of the provider that the places below it name.
    meant = provider or _implied(model, base_url) or next(filter(None, map(_named_in, below)), "")
    named = spec.provider or _implied(spec.model, spec.base_url)
    if spec.given_to or (named and meant != named and not (meant in WITH_URL and _any_server(spec))):
        return {}
    return {
        "provider": spec.provider or provider,
        "model": spec.model or model,
        "base_url": spec.base_url or base_url,
    }


def _named_in(values: Mapping[str, Any]) -> str:
    """The provider that one place names, empty for none."""
    return values.get("provider", "") or _implied(values.get("model", ""), values.get("base_url", ""))


def _any_server(spec: SessionSpec) -> bool:
    """Whether only an address is given: any provider that has one may be behind it."""
    return not spec.provider and bool(spec.base_url) and not spec.model.lower().endswith(".gguf")


def _implied(model: str, base_url: str) -> str:
    """The provider that is meant where none is named."""
    if model.lower().endswith(".gguf"):
        return "local"
    return "openai-compatible" if base_url else ""
