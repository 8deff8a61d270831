"""Owns what can be configured: one table of keys, and the reading of `config.json` and `ZOTD_*` variables.

A value on the command line comes before one of the environment, that before one of the project's file,
`.zot/config.json`, and that before one of the user's, `$ZOT_HOME/config.json`. Light on purpose: where no
file is there, nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zotd.base.files import BadFile, read_bytes
from zotd.base.limits import Limits
from zotd.base.log import LEVELS as LOG_LEVELS
from zotd.base.reasoning import LEVELS, SAME

CONFIG = "config.json"
CONFIG_BYTES = Limits().config_bytes
PREFIX = "ZOTD_"

_MONEY = "it decides where prompts and keys go"
_CONSENT = "only the user says what runs unasked"
_PROCESS = "it is of the whole program, not of a folder"

KEYS_ARE_ELSEWHERE = (
    "keys do not belong in a configuration file, which gets copied and shown: "
    "set the provider's variable, such as OPENAI_API_KEY, instead"
)


class Setting(NamedTuple):
    """One key. kind: of its value, see `_type`. not_of_projects: why a project's file may not have it."""

    key: str
    kind: str
    about: str
    not_of_projects: str = ""

    @property
    def variable(self) -> str:
        """The variable that says the same."""
        return PREFIX + self.key.upper()

    @property
    def values(self) -> str:
        """What it may be, for people."""
        words = WORDS.get(self.kind)
        return ", ".join(f"`{word}`" for word in words) if words else _VALUES[self.kind]


SETTINGS = (
    Setting("provider", "text", "whose model answers"),
    Setting("model", "text", "of that provider"),
    Setting("base_url", "text", "of an OpenAI-compatible server", _MONEY),
    Setting("reasoning", "level", "how much the model thinks"),
    Setting("tools", "names", "the built-in tools to offer; `[]` for none"),
    Setting("skills", "names", "the skills to have; `[]` for none"),
    Setting("system_prompt", "text", "instead of the built-in one"),
    Setting("append_system_prompt", "texts", "paragraphs behind the system prompt"),
    Setting("max_steps", "count", "model calls in one turn"),
    Setting("approval", "policy", "of tool calls", _CONSENT),
    Setting("idle_timeout", "seconds", "after which a daemon with nothing to do ends", _PROCESS),
    Setting("log_level", "log level", "the least that a daemon writes into its log", _PROCESS),
)
"""All of them. The command line, the environment and the page of documentation have the same names."""

OF_DAEMONS = tuple(setting.variable for setting in SETTINGS if setting.not_of_projects == _PROCESS)
"""Variables that are of a whole daemon, and not of one session in it."""

_BY_KEY = {setting.key: setting for setting in SETTINGS}
_SECRETS = ("api_key", "api_keys", "apikey", "key", "keys", "token", "auth", "password", "secret")
_TRUST = ("trust", "trusted", "trusted_folders", "folders", "permissions")

WORDS = {
    "level": tuple(dict.fromkeys((*LEVELS, *SAME))),
    "policy": ("auto", "ask", "rules"),
    "log level": LOG_LEVELS,
}
"""The values of kinds that have few."""

_VALUES = {
    "text": "text",
    "texts": "a list of texts; the variable has one",
    "names": "a list of names; with commas in the variable",
    "count": "a whole number of at least 1",
    "seconds": "seconds, above 0",
}


class Fault(NamedTuple):
    """Something that does not count. wrong: whether what was meant is unclear, so that a person mends it."""

    text: str
    wrong: bool = True

    def __str__(self) -> str:
        return self.text


class Layer(NamedTuple):
    """What one place says: values by key, and what is at fault with the rest. file: None for variables."""

    values: dict[str, Any]
    faults: list[Fault]
    file: Path | None = None

    def named(self, key: str) -> str:
        """Where a person finds a key of it."""
        return f"{self.file}: $.{key}" if self.file is not None else _BY_KEY[key].variable


NOTHING = Layer({}, [])
_TOLD = 12  # keys of one file that are not used, before they are only counted
_KEY_CHARS = 64


def user_file(home: Path) -> Path:
    """home: `$ZOT_HOME`."""
    return home / CONFIG


def project_file(cwd: Path) -> Path:
    return cwd / ".zot" / CONFIG


def of_user(home: Path) -> Layer:
    """What the user's file says; nothing where there is none."""
    return _of_file(user_file(home), project=False)


def of_project(cwd: Path) -> Layer:
    """What the file of a project says that it may say."""
    return _of_file(project_file(cwd), project=True)


def of_environment(environ: Mapping[str, str]) -> Layer:
    """What the variables say. One that is empty says nothing."""
    given = [(one, environ[one.variable]) for one in SETTINGS if environ.get(one.variable, "").strip()]
    if not given:
        return NOTHING
    layer = Layer({}, [])
    for setting, text in given:
        try:
            layer.values[setting.key] = _converted(setting, _from_text(setting, text))
        except ValueError as wrong:
            layer.faults.append(Fault(f"{setting.variable}: {str(wrong).partition(': ')[2] or wrong}"))
    return layer


def of_process(environ: Mapping[str, str], home: Path) -> Layer:
    """What counts for a whole program: the environment before the user's file."""
    variables, file = of_environment(environ), of_user(home)
    return Layer({**file.values, **variables.values}, variables.faults + file.faults)


def _of_file(path: Path, *, project: bool) -> Layer:
    try:
        data = read_bytes(path, CONFIG_BYTES)
    except BadFile as bad:
        return Layer({}, [Fault(str(bad))])
    if data is None:
        return NOTHING
    import orjson

    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return Layer({}, [Fault(f"{path}: expected JSON: {error}")])
    if not isinstance(content, dict):
        return Layer({}, [Fault(f"{path}: $: expected an object")])
    layer = Layer({}, [], path)
    odd: list[str] = []
    for key, value in content.items():
        setting = _BY_KEY.get(key)
        if setting is None or (project and setting.not_of_projects):
            odd.append(key)
        elif value is not None:
            try:
                layer.values[key] = _converted(setting, value)
            except ValueError as wrong:
                layer.faults.append(Fault(f"{path}: {wrong}"))
    layer.faults.extend(_not_used(path, odd, project=project))
    return layer


def _not_used(path: Path, keys: list[str], *, project: bool) -> Iterator[Fault]:
    """What is said of keys that do not count: not of thousands, for anybody may have written the file."""
    told = 0
    for at, key in enumerate(keys):
        if (fault := _refused(key, _BY_KEY.get(key), project=project)) is None:
            continue
        if told == _TOLD:
            yield Fault(f"{path}: {len(keys) - at} more keys are not used", wrong=False)
            return
        told += 1
        yield Fault(f"{path}: $.{_shown(key)}: {fault}", wrong=False)


def _shown(key: str) -> str:
    """A key of a file that anybody may have written: on one line, and not the whole of a long one."""
    key = key if len(key) <= _KEY_CHARS else f"{key[:_KEY_CHARS]}…"
    return key if key.isprintable() else repr(key)


def _refused(key: str, setting: Setting | None, *, project: bool) -> str | None:
    """Why a key does not count, whatever its value is."""
    if setting is not None:
        if project and setting.not_of_projects:
            return f"a project cannot set this: {setting.not_of_projects}; set it in $ZOT_HOME/{CONFIG}"
        return None
    plain = key.lower().replace("-", "_")
    if plain in _SECRETS or plain.endswith(("_key", "_token", "_secret", "_password")):
        return f"is not used: {KEYS_ARE_ELSEWHERE}"
    if plain in _TRUST:
        said = "zotd trust DIR" if plain != "permissions" else "$ZOT_HOME/permissions.json"
        return f"is not used: trust is given by the user alone, with {said}"
    if key.startswith(("_", "$")):  # a comment, or the schema that an editor checks by
        return None
    from difflib import get_close_matches

    near = get_close_matches(plain, _BY_KEY, n=1)
    return "is unknown and not used" + (
        f": did you mean {near[0]}?" if near else f"; there are: {', '.join(_BY_KEY)}"
    )


def _converted(setting: Setting, value: Any) -> Any:
    """A value as it counts. Raises ValueError whose text begins with the JSON path."""
    from msgspec import ValidationError, convert

    wanted = _type(setting.kind)
    try:
        converted = convert(value, wanted)
    except ValidationError as error:
        from zotd.base.misfit import misfit

        wrong = misfit(error, wanted, value)
        words = WORDS.get(setting.kind)
        fault = f"expected {', '.join(words)}" if words else wrong.fault
        raise ValueError(f"$.{setting.key}{wrong.path[1:]}: {fault}") from None
    return tuple(converted) if isinstance(converted, list) else converted


def _type(kind: str) -> Any:
    from typing import Annotated, Literal

    from msgspec import Meta

    if words := WORDS.get(kind):
        return Literal[words]
    types: dict[str, Any] = {
        "text": str,
        "texts": list[str],
        "names": list[str],
        "count": Annotated[int, Meta(ge=1)],
        "seconds": Annotated[float, Meta(gt=0, le=1e9)],
    }
    return types[kind]


def _from_text(setting: Setting, text: str) -> Any:
    """What a variable holds as a file would have it; what is no number stays text, which does not fit."""
    if setting.kind == "names":
        return [name.strip() for name in text.split(",") if name.strip()]
    if setting.kind == "texts":
        return [text]
    if setting.kind in ("count", "seconds"):
        try:
            return int(text) if setting.kind == "count" else float(text)
        except ValueError:
            return text
    return text if setting.kind == "text" else text.strip()
