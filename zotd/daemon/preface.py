"""Owns the preface: what a client says of its caller ahead of everything, and the session made from that.

It is a line such as `{"zotd":1,"cwd":"/home/user/project","env":{"PATH":"/bin"},"flags":{"model":"m"}}`. It
counts for the sessions of that connection; its values are in no message, log or event.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zotd.base.limits import Limits
from zotd.base.reasoning import LEVELS, named
from zotd.base.secret import Secret
from zotd.base.settings import WORDS
from zotd.daemon.connection import PREFACE_VERSION, BadPreface
from zotd.daemon.refused import Refused
from zotd.daemon.spec import SessionSpec
from zotd.daemon.surroundings import directory, environment
from zotd.protocol.rpc_errors import REFUSED
from zotd.store.catalog import SessionStore, names_a_file
from zotd.wire.codec import json_name
from zotd.wire.peer import INVALID_PARAMS, problem

if TYPE_CHECKING:
    from zotd.store.catalog import SessionStore


def read_preface(value: dict[str, Any], base: SessionSpec) -> tuple[SessionSpec, str]:
    """What the sessions of a connection are made from, and the dialect it will speak, "" if it names none.

    Raises BadPreface, whose message names the JSON path of what is wrong.
    """
    if value["zotd"] != PREFACE_VERSION or isinstance(value["zotd"], bool):
        raise BadPreface(
            INVALID_PARAMS,
            f"$.zotd: this daemon knows version {PREFACE_VERSION} of the preface, not {value['zotd']!r:.40}",
            problem(
                "protocol_version", "update the older of the two: pip install --upgrade zotd", path="$.zotd"
            ),
        )
    dialect = _of(value, "dialect", _text) or ""
    if dialect not in ("", "zot", "jsonrpc"):
        raise _wrong("$.dialect", f"expected zot or jsonrpc, got {dialect!r:.40}")
    given: dict[str, Any] = {}
    if (home := _of(value, "home", _text)) is not None:
        _check_home(home, base.home)
    if (mode := _of(value, "mode", _text)) not in (None, "rpc", "print", "json"):
        raise _wrong("$.mode", f"expected rpc, print or json, got {mode!r:.40}")
    if mode in ("print", "json"):  # a run of the command line: saved, and there is nobody who could be asked
        given["headless"], given["ephemeral"] = True, False
    try:
        if (cwd := _of(value, "cwd", _text)) is not None:
            given["cwd"] = directory(cwd)
        if (env := _of(value, "env", _texts_by_name)) is not None:
            given["environ"] = environment(env, base.home)
    except Refused as no:
        raise BadPreface(INVALID_PARAMS, str(no), problem("invalid_params", path=no.path)) from None
    flags = value.get("flags")
    if not isinstance(flags, dict | None):
        raise _expected("$.flags", "an object", flags)
    return with_flags(replace(base, **given), flags or {}), dialect


def _check_home(theirs: str, ours: Path) -> None:
    """A caller with another home would look for its sessions, keys and extensions in vain."""
    if Path(theirs) == ours or Path(theirs).resolve() == ours.resolve():
        return
    message = f"$.home: this daemon's ZOT_HOME is {ours}, and not {theirs:.200}"
    hint = f"set ZOT_HOME={ours}, or start another daemon, with a socket of its own (XDG_RUNTIME_DIR)"
    raise BadPreface(INVALID_PARAMS, message, problem("invalid_params", hint, path="$.home"))


def check_token(value: dict[str, Any], token: str) -> None:
    """Raises BadPreface unless it has the daemon's token: it would tell strangers which folders there are."""
    given = value.get("token")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), token.encode()):
        hint = "pass the daemon's token as its member `token`: over a WebSocket nothing is answered before it"
        raise BadPreface(REFUSED, "$.token: invalid token", problem("auth", hint, path="$.token"))


def with_flags(spec: SessionSpec, flags: dict[str, Any]) -> SessionSpec:
    """A spec with flags by their long names, `-` written as `_`; paths are relative to its folder.

    Raises BadPreface for a flag that a session has no use for: it would be without effect.
    """
    if flags.get("no_yolo") is True and flags.get("approval") not in (None, "", "ask"):
        raise _wrong("$.flags.approval", "no_yolo asks, this does not: give one of them")
    for name, value in flags.items():
        if value is None:
            continue
        read = _FLAGS.get(name)
        if read is None:
            message = f"$.flags.{name}: no flag of a session has this name"
            hint = f"leave it out; there are: {', '.join(_FLAGS)}"
            raise BadPreface(INVALID_PARAMS, message, problem("unsupported", hint, path=f"$.flags.{name}"))
        spec = read(spec, value, f"$.flags.{name}")
    return spec


_Read = Callable[[Any, str], Any]
_Flag = Callable[[SessionSpec, Any, str], SessionSpec]


def _of(value: dict[str, Any], name: str, read: _Read) -> Any:
    """A member of the preface; one that is null counts as absent."""
    return None if value.get(name) is None else read(value[name], f"$.{name}")


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _expected(path, "a string", value)
    return value


def _texts(value: Any, path: str) -> tuple[str, ...]:
    """One text, or several."""
    items = value if isinstance(value, list) else [value]
    return tuple(_text(item, f"{path}[{at}]") for at, item in enumerate(items))


def _texts_by_name(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _expected(path, "an object", value)
    return {name: _text(item, f"{path}.{name}") for name, item in value.items()}


def _names(value: Any, path: str) -> tuple[str, ...]:
    """Names as a list, or as the command line has them, with commas between."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return _texts(value, path)


def _switch(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise _expected(path, "a boolean", value)
    return value


def _secret(value: Any, path: str) -> Secret | None:
    return Secret(text) if (text := _text(value, path)) else None


def _level(value: Any, path: str) -> str:
    level = named(_text(value, path))
    if level not in ("", *LEVELS):
        raise _wrong(path, f"expected one of {', '.join(LEVELS)}")
    return level


def _policy(value: Any, path: str) -> str:
    if _text(value, path) not in ("", *WORDS["policy"]):
        raise _wrong(path, f"expected auto, ask or rules, got {value!r:.40}")
    return str(value)


def _steps(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong(path, "expected a whole number of at least 1, or 0 for the default")
    return value


def _sets(field: str, read: _Read) -> _Flag:
    return lambda spec, value, path: replace(spec, **{field: read(value, path)})


def _turns(**fields: Any) -> _Flag:
    """A switch; off, it leaves things as they are."""
    return lambda spec, value, path: replace(spec, **fields) if _switch(value, path) else spec


def _script(spec: SessionSpec, value: Any, path: str) -> SessionSpec:
    text = _text(value, path)
    return replace(spec, script=_under(spec, text, path) if text else None)


def _session(spec: SessionSpec, value: Any, path: str) -> SessionSpec:
    """A file, or the beginning of an id."""
    word = _text(value, path)
    if not word:
        return _newest(spec, True, path)
    if names_a_file(word):
        return replace(spec, saved=_under(spec, word, path), ephemeral=False)
    return _saved(spec, path, lambda store: store.find(word))


def _newest(spec: SessionSpec, value: Any, path: str) -> SessionSpec:
    """The session of the folder that was used last; a new one where there is none."""
    if not _switch(value, path):
        return spec
    return _saved(spec, path, lambda store: store.latest(spec.cwd))


def _saved(spec: SessionSpec, path: str, find: Callable[[SessionStore], Path | None]) -> SessionSpec:
    from zotd.store.catalog import SessionStore, StoreError

    try:
        return replace(spec, saved=find(SessionStore(spec.home, Limits())), ephemeral=False)
    except StoreError as no:
        raise BadPreface(REFUSED, f"{path}: {no}", problem(no.kind, no.hint, path=path)) from None


def _extensions(spec: SessionSpec, value: Any, path: str) -> SessionSpec:
    return replace(spec, extensions=tuple(_under(spec, text, path) for text in _texts(value, path)))


def _under(spec: SessionSpec, text: str, path: str) -> Path:
    """A path as the caller wrote it, relative to the folder it is in."""
    try:
        return spec.cwd / Path(text).expanduser()
    except RuntimeError:  # ~somebody, who does not exist
        raise _wrong(path, "names the home of nobody") from None


_FLAGS: dict[str, _Flag] = {
    "provider": _sets("provider", _text),
    "model": _sets("model", _text),
    "api_key": _sets("api_key", _secret),
    "base_url": _sets("base_url", _text),
    "reasoning": _sets("reasoning", _level),
    "tools": _sets("tools", _names),
    "no_tools": _turns(tools=()),
    "skills": _sets("skills", _names),
    "with_skills": _turns(),
    "no_skill": _turns(skills=()),
    "no_skills": _turns(skills=()),
    "system_prompt": _sets("system_prompt", _text),
    "append_system_prompt": _sets("append_system_prompt", _texts),
    "ext": _extensions,
    "no_ext": _turns(discover_extensions=False),
    "no_extensions": _turns(discover_extensions=False),
    "script": _script,
    "session": _session,
    "continue": _newest,
    "resume": _newest,
    "no_session": _turns(ephemeral=True, saved=None),
    "max_steps": _sets("max_steps", _steps),
    "approval": _sets("approval", _policy),
    "no_yolo": _turns(approval="ask"),
}
"""How each flag changes a spec. The names are those of the command line, both where one has two."""


def _expected(path: str, what: str, value: Any) -> BadPreface:
    return _wrong(path, f"expected {what}, got {json_name(value)}")


def _wrong(path: str, what: str) -> BadPreface:
    return BadPreface(INVALID_PARAMS, f"{path}: {what}", problem("invalid_params", path=path))
