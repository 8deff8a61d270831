"""Owns the support bundle: what helps to find a fault, without keys, prompts, answers and titles.

What a text is made of decides: names, sizes and states are copied; what people wrote is counted. On top of
that every text loses the keys that are known here, and what looks like one.
"""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from zotd import __version__
from zotd.base import settings
from zotd.base.files import BadFile, open_regular, read_bytes, stage
from zotd.base.paths import daemon_log
from zotd.base.redact import MASK, names_a_key, redact, redacted
from zotd.base.secret import Secret
from zotd.cli.checks import Site

HARMLESS = frozenset(
    {
        *("LANG", "LC_ALL", "LC_CTYPE", "TERM", "COLORTERM", "NO_COLOR", "SHELL", "PATH", "PWD", "TMPDIR"),
        *("HOME", "ZOT_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_SESSION_TYPE"),
        *("VIRTUAL_ENV", "PYTHONPATH", "PYTHONUNBUFFERED", "SSL_CERT_FILE", "SSL_CERT_DIR", "CI"),
        *("ZOTD_PROVIDER", "ZOTD_MODEL", "ZOTD_REASONING", "ZOTD_TOOLS", "ZOTD_SKILLS", "ZOTD_MAX_STEPS"),
        *("ZOTD_APPROVAL", "ZOTD_IDLE_TIMEOUT", "ZOTD_LOG_LEVEL"),
    }
)
"""Variables whose values are told; of all others only the names."""
_FOLDER = "zotd-support"
_SHOWN = frozenset(
    {
        *("provider", "model", "reasoning", "tools", "skills", "max_steps", "approval", "idle_timeout"),
        *("log_level", "providers", "models", "id", "name", "api", "contextWindow", "maxTokens", "rules"),
        *("tool", "decision", "answered", "folder", "folders"),
    }
)
"""Members of configuration files whose values are told; of all others only that they are there."""
_README = """\
What `zotd doctor --bundle` has put together, for a report of a fault.

Left out: keys, prompts, answers, titles of sessions, arguments of extensions and what they logged, values of
variables that are not known to be harmless. Your home directory is written as ~. Do look through it.
"""


class CannotBundle(Exception):
    """The file was not written; the message says why and what to do."""


def write(path: Path, site: Site, report: dict[str, Any], *, force: bool) -> tuple[Path, list[str]]:
    """Write a .tar.gz, readable by the user alone; its path, and the names and sizes of what is in it.

    force: whether it may replace a file; a symbolic link is never followed. Raises CannotBundle.
    """
    path = path.absolute()
    if os.path.lexists(path) and (not force or path.is_dir()):
        why = (
            "is a directory: name a file"
            if path.is_dir()
            else "is there already: name another, or add --force"
        )
        raise CannotBundle(f"--bundle {path}: {why}")
    files = contents(site, report)
    data = _packed(files)
    try:
        if force:
            stage(path, data).commit()
        else:
            _create(path, data)
    except OSError as error:
        raise CannotBundle(f"--bundle {path}: {error.strerror or error}") from None
    return path, [f"{name}, {len(text)} bytes" for name, text in files.items()]


def _create(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        try:
            file.write(data)
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _packed(files: Mapping[str, bytes]) -> bytes:
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{_FOLDER}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def contents(site: Site, report: dict[str, Any]) -> dict[str, bytes]:
    """Everything that is in a bundle, by name."""
    held = [Secret(text) for text in _keys(site)]  # `redact` knows those that exist
    values = _made(
        {
            "doctor.json": lambda: report,
            "versions.json": _versions,
            "environment.json": lambda: _environment(site.environ),
            "files.json": lambda: dict(_files(site)),
            "extensions.json": lambda: list(_extensions(site)),
            "sessions.json": lambda: list(_sessions(site)),
            "daemon.json": lambda: _daemon(site),
        },
        site.limits.check_s,
    )
    texts = {"README.txt": _README}
    texts |= {name: json.dumps(redacted(value), indent=2) + "\n" for name, value in values.items()}
    texts["zotd.log"] = redact(_tail(daemon_log(site.home), site.limits.log_tail_bytes))
    cleaned = {name: _homeless(text, site).encode("utf-8", "replace") for name, text in texts.items()}
    del held
    return cleaned


def _made(makers: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """What each makes, or why it does not: a disk that hangs must not keep all else from who needs help."""
    made: dict[str, Any] = {name: {"fault": f"did not end within {seconds:g} s"} for name in makers}

    def make(name: str) -> None:
        try:
            made[name] = makers[name]()
        except Exception as bug:
            made[name] = {"fault": f"{type(bug).__name__}: {bug}"}

    threads = [threading.Thread(target=make, args=(name,), daemon=True) for name in makers]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(made)


def _homeless(text: str, site: Site) -> str:
    """A text with the home directory, which tells who somebody is, as `~`."""
    for home in {str(site.user_home), os.path.realpath(site.user_home)}:
        if len(home) > 1:
            text = text.replace(json.dumps(home)[1:-1], "~").replace(home, "~")
    return text


def _keys(site: Site) -> Iterator[str]:
    """The keys that can be known here: they may stand in a log in any form."""
    yield from (value for name, value in site.environ.items() if names_a_key(name))
    for path in (site.home / "auth.json", *_configs(site)):
        with suppress(BadFile, ValueError, RecursionError):
            content = json.loads(read_bytes(path, site.limits.config_shown_bytes) or b"null")
            yield from _key_texts(content, whole=path.name == "auth.json")


def _key_texts(value: Any, *, whole: bool) -> Iterator[str]:
    """The texts in a value that are keys, going by the names of their members; all of `whole` ones."""
    if isinstance(value, str) and whole:
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _key_texts(each, whole=whole or names_a_key(name))
    elif isinstance(value, list):
        for each in value:
            yield from _key_texts(each, whole=whole)


def _configs(site: Site) -> tuple[Path, ...]:
    names = ("models.json", "permissions.json", "trusted.json")
    files = settings.user_file(site.home), settings.project_file(site.cwd)
    return (*files, *(site.home / name for name in names))


def _versions() -> dict[str, Any]:
    import platform
    import sys
    from importlib.metadata import distributions

    return {
        "zotd": __version__,
        "python": sys.version,
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libraries": dict(sorted((one.metadata["Name"], one.version) for one in distributions())),
    }


def _environment(environ: Mapping[str, str]) -> dict[str, str | None]:
    return {name: environ[name] if name in HARMLESS else None for name in sorted(environ)}


def _files(site: Site) -> Iterator[tuple[str, Any]]:
    """Each file of configuration: its size and mode, and what of it can be told."""
    for path in (site.home / "auth.json", *_configs(site)):
        try:
            status = path.lstat()
        except OSError:
            continue
        told: dict[str, Any] = {"bytes": status.st_size, "mode": f"{status.st_mode:o}"}
        try:
            content = json.loads(read_bytes(path, site.limits.config_shown_bytes) or b"")
        except BadFile as bad:
            told["fault"] = str(bad)
        except (ValueError, RecursionError):
            told["fault"] = "is no JSON"
        else:
            told["content"] = _told(content)
        yield str(path), told


def _told(value: Any, *, shown: bool = False) -> Any:
    """A value with its texts masked, but for those of members that are known to be harmless.

    In what is inside such a member each name is judged by itself: rules have commands in them.
    """
    if isinstance(value, dict):
        return {str(name): _told(each, shown=_is_shown(str(name))) for name, each in value.items()}
    if isinstance(value, list):
        return [_told(each, shown=shown) for each in value]
    return value if shown or value is None or isinstance(value, bool | int | float) else MASK


def _is_shown(name: str) -> bool:
    return name in _SHOWN and not names_a_key(name)


def _extensions(site: Site) -> Iterator[dict[str, Any]]:
    """Manifests without what may be a secret: arguments are counted, their logs are only weighed."""
    from zotd.base.paths import extension_log
    from zotd.cli.check_extras import found_in

    found = found_in(site)
    for state in ("found", "disabled", "shadowed", "untrusted"):
        for located in getattr(found, state):
            manifest = located.manifest
            log = extension_log(site.home, located.name)
            yield {
                "name": located.name,
                "version": manifest.version,
                "state": state,
                "scope": located.scope,
                "directory": str(located.directory),
                "exec": manifest.exec,
                "arguments": len(manifest.args),
                "language": manifest.language,
                "instances": manifest.instances,
                "skills": len(manifest.skills),
                "log_bytes": log.stat().st_size if log.is_file() else 0,
            }
    for fault in found.errors:
        yield {"directory": str(fault.directory), "state": "failed", "key": fault.key}


def _sessions(site: Site) -> Iterator[dict[str, Any]]:
    from zotd.store.catalog import SessionStore

    for listed in islice(SessionStore(site.home, site.limits).rows(), site.limits.checked_sessions):
        row = listed.row
        size = Path(row.path).stat().st_size if row.path and Path(row.path).is_file() else 0
        yield {
            "session_id": row.session_id,
            "bytes": size,
            "messages": row.message_count,
            "provider": row.provider,
            "model": row.model,
            "created": row.created,
            "updated": row.updated,
        }


def _daemon(site: Site) -> dict[str, Any]:
    from zotd.cli.check_daemon import NoAnswer, status_of

    try:
        state = status_of(site)
    except NoAnswer as wrong:
        return {"answer": None, "why": str(wrong)}
    for session in state.get("sessions", []):
        session.pop("title", None)
    return state


def _tail(path: Path, size: int) -> str:
    """The end of a log, from the beginning of a line."""
    try:
        handle = open_regular(path)
    except (OSError, ValueError) as error:
        return f"{path}: {error}\n"
    try:
        whole = os.fstat(handle).st_size
        text = os.pread(handle, size, max(0, whole - size)).decode("utf-8", "replace")
    except OSError as error:
        return f"{path}: {error}\n"
    finally:
        os.close(handle)
    return text.partition("\n")[2] if whole > size else text
