"""Owns which models there are and the choice of one from flags and environment.

Light on purpose: start-up decides here whether there is a model at all, before anything heavy loads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zotd.base.secret import Secret
from zotd.providers.weights import KNOWN, known

PROVIDERS: Final = {
    "scripted": "Scripted answers",
    "local": "A model in zotd itself",
    "ollama": "Ollama",
    "openai-compatible": "OpenAI, and servers of its Chat Completions API",
}
"""Ids of providers, and their names for people."""
WITH_URL: Final = ("ollama", "openai-compatible")  # those that `--base-url` means something to
OPENAI_URL: Final = "https://api.openai.com/v1"
OLLAMA_URL: Final = "http://127.0.0.1:11434/v1"
OLLAMA_PORT: Final = 11434
LOCAL_WINDOW: Final = 8_192  # memory grows with it, and the file of an unknown model may ask for gigabytes
LOCAL_OUTPUT: Final = 2_048  # some models never find an end


class BadChoice(Exception):
    """Flags or environment name no usable model. The message says what was expected.

    member: which of what was asked for is wrong, as the protocol spells it; empty where it was not that.
    """

    def __init__(self, message: str, member: str = "") -> None:
        super().__init__(message)
        self.member = member


class NoCredentials(Exception):
    """No model can be used without a key that is missing. The message lists the exact ways to get on."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One model that can be asked.

    base_url: of the API, empty where there is none. api_key, key_source: the key, and where it came from.
    weights: the file of an embedded model. window, max_output: tokens, 0 when unknown.
    tools: whether it can call any. source: `catalog`, `live` or `user`.
    """

    provider: str
    model: str
    base_url: str = ""
    api_key: Secret | None = None
    key_source: str = ""
    weights: Path | None = None
    window: int = 0
    max_output: int = 0
    tools: bool = True
    images: bool = True
    reasoning: bool = False
    name: str = ""
    source: str = "user"


def choose(
    provider: str,
    model: str,
    base_url: str,
    api_key: Secret | None,
    environ: Mapping[str, str],
    home: Path,
    cwd: Path | None = None,
) -> Choice:
    """The model that flags (empty or None when not given) and environment name.

    home: `$ZOT_HOME`. cwd: what a relative path of a model file starts from; the process's own by default.

    Raises NoCredentials and BadChoice.
    """
    match provider or _implied(model, base_url, environ):
        case "scripted":
            _refuse_url("scripted", base_url)
            return _scripted(model)
        case "local":
            _refuse_url("local", base_url)
            return _local(model, home, cwd)
        case "ollama":
            _require_model("ollama", model, "ollama list")
            url = (
                _checked_url(base_url, "--base-url")
                if base_url
                else _ollama_url(environ.get("OLLAMA_HOST", ""))
            )
            return Choice("ollama", model, url, api_key, "--api-key" if api_key else "", name=model)
        case "openai-compatible":
            return _openai_compatible(model, base_url, api_key, environ)
        case "":
            raise NoCredentials(_ways("no model is chosen and no key is set"))
        case unknown:
            raise BadChoice(
                f"unknown provider {unknown!r}: did you mean {_nearest(unknown)!r}? "
                f"There are: {', '.join(PROVIDERS)}",
                "provider",
            )


def models(home: Path) -> list[Choice]:
    """The models that can be named without asking a server, for `--list-models` and `get_models`.

    home: `$ZOT_HOME`; a model file there that we do not know is listed as the user's.
    """
    listed = [_scripted("")]
    listed += [_installed(weights.id, weights.path(home)) for weights in KNOWN]
    ours = {weights.path(home) for weights in KNOWN}
    found = sorted(path for path in (home / "models").glob("*.gguf") if path not in ours)
    return listed + [_installed(str(path), path) for path in found]


def _implied(model: str, base_url: str, environ: Mapping[str, str]) -> str:
    if model.lower().endswith(".gguf"):
        return "local"
    if base_url or environ.get("OPENAI_API_KEY") or environ.get("OPENAI_BASE_URL"):
        return "openai-compatible"
    return ""


def _scripted(model: str) -> Choice:
    name, _, window = model.partition(":")
    told = name and window.isascii() and window.isdigit() and len(window) < 10
    return Choice(
        "scripted",
        model or "scripted",
        window=int(window) if told else 0,
        name="Scripted answers",
        source="catalog",
    )


def _local(model: str, home: Path, cwd: Path | None) -> Choice:
    if model.lower().endswith(".gguf"):
        return _installed(model, (cwd or Path.cwd()) / Path(model).expanduser())
    weights = known(model or KNOWN[0].id)
    if weights is None:
        raise BadChoice(
            f"unknown local model {model!r}: expected {' or '.join(row.id for row in KNOWN)}, "
            "or the path of a file that ends in .gguf",
            "model",
        )
    return _installed(weights.id, weights.path(home))


def _installed(model: str, path: Path) -> Choice:
    weights = known(model)
    return Choice(
        "local",
        model,
        weights=path,
        window=weights.window if weights else LOCAL_WINDOW,
        max_output=weights.max_output if weights else LOCAL_OUTPUT,
        tools=False,
        images=False,
        name=weights.name if weights else path.stem,
        source="catalog" if weights else "user",
    )


def _openai_compatible(
    model: str, base_url: str, api_key: Secret | None, environ: Mapping[str, str]
) -> Choice:
    url, key, key_source = _openai_access(base_url, api_key, environ)
    if url == OPENAI_URL and not key:
        raise NoCredentials(_ways(f"{OPENAI_URL} needs a key"))
    _require_model("openai-compatible", model, f"curl {url}/models")
    return Choice("openai-compatible", model, url, key, key_source, name=model)


def _openai_access(
    base_url: str, api_key: Secret | None, environ: Mapping[str, str]
) -> tuple[str, Secret | None, str]:
    """The address, the key, and where the key came from."""
    key, key_source = api_key, "--api-key" if api_key else ""
    if not key and (text := environ.get("OPENAI_API_KEY")):
        key, key_source = Secret(text), "OPENAI_API_KEY"
    url, url_source = base_url, "--base-url"
    if not url:
        url, url_source = environ.get("OPENAI_BASE_URL", ""), "OPENAI_BASE_URL"
    return (_checked_url(url, url_source) if url else OPENAI_URL), key, key_source


def credentials(
    provider: str, base_url: str, api_key: Secret | None, environ: Mapping[str, str]
) -> tuple[bool, str]:
    """Whether a provider can be asked, and the flag or variable that its key came from, empty without one.

    Raises BadChoice for an address that is none.
    """
    if provider == "openai-compatible":
        url, key, source = _openai_access(base_url, api_key, environ)
        return bool(key) or url != OPENAI_URL, source
    return True, "--api-key" if provider == "ollama" and api_key else ""


def _require_model(provider: str, model: str, where: str) -> None:
    if not model:
        raise BadChoice(
            f"provider {provider} needs a model, --model NAME or `model` over RPC; `{where}` lists the names",
            "model",
        )


def _refuse_url(provider: str, base_url: str) -> None:
    if base_url:
        raise BadChoice(f"a base URL means nothing to provider {provider}: it talks to no server", "base_url")


def is_address(url: str) -> bool:
    """Whether a text names a server: by scheme and host."""
    return re.match(r"https?://[^/\s]+", url) is not None


def _checked_url(url: str, source: str) -> str:
    if not is_address(url):
        from zotd.base.redact import bare_url

        raise BadChoice(
            f"{source} must begin with http:// or https:// and name a host; got {bare_url(url)!r}",
            "base_url" if source == "--base-url" else "",
        )
    return url.rstrip("/")


def _ollama_url(host: str) -> str:
    """Ollama's own rules for OLLAMA_HOST: scheme, host and port are each optional."""
    if not host:
        return OLLAMA_URL
    scheme, separator, rest = host.rpartition("://")
    authority, slash, path = rest.partition("/")
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d+))?", authority)
    if match is None or (separator and scheme not in ("http", "https")):
        from zotd.base.redact import bare_url

        raise BadChoice(
            f"OLLAMA_HOST must look like 127.0.0.1:{OLLAMA_PORT} or http://host:port; got {bare_url(host)!r}"
        )
    name = match[1]
    if name in ("", "0.0.0.0", "[::]"):  # where a server listens, not where it is reached
        name = "127.0.0.1"
    port = match[2] or {"http": "80", "https": "443"}.get(scheme, str(OLLAMA_PORT))
    base = f"{scheme or 'http'}://{name}:{port}{slash}{path}".rstrip("/")
    return base if base.endswith("/v1") else base + "/v1"


def _nearest(word: str) -> str:
    if starts := [name for name in PROVIDERS if name.startswith(word)]:
        return starts[0]
    from difflib import get_close_matches

    return (get_close_matches(word, PROVIDERS, 1, 0.0) or ["openai-compatible"])[0]


def _ways(why: str) -> str:
    return f"""\
{why}. Ways to get an answer:
  OPENAI_API_KEY=KEY zotd --model NAME ...         OpenAI; --api-key KEY does the same
  zotd --base-url URL --model NAME ...             any Chat Completions server; or OPENAI_BASE_URL
  zotd --provider ollama --model NAME ...          an Ollama on this machine, no key
  zotd --provider local ...                        a small model in zotd itself, no key, no tools;
                                                   first: zotd model install {KNOWN[0].id}
  zotd --model FILE.gguf ...                       the same with a model file of yours
  zotd --provider scripted [--script FILE] ...     canned answers, for trying things out"""
