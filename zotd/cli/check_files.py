"""Owns the checks of what lies under `$ZOT_HOME`, and of what the folder brings. Nothing there is changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from zotd.base import settings
from zotd.base.files import BadFile, is_there, read_bytes
from zotd.cli.checks import Check, Finding, Site, error, ok, warn
from zotd.cli.console import size

AUTH = "auth.json"
MODELS = "models.json"
_MEND = "correct the file at that place, or move it away"


def home(site: Site) -> Iterator[Finding]:
    path = site.home
    if not os.path.lexists(path):
        above = next(folder for folder in path.parents if folder.exists())
        if not os.access(above, os.W_OK | os.X_OK):
            yield error(f"{path} is not there, and cannot be made in {above}", _home_mend(above))
        else:
            yield ok(f"{path} is not there yet; it is made when something is saved")
        return
    if not path.is_dir():
        yield error(f"{path} is not a directory", "move it away, or set ZOT_HOME to another path")
        return
    yield from _access(path)
    if fault := _probed(path):
        yield error(f"nothing can be written in {path}: {fault}", _home_mend(path))
        return
    free = _free(path)
    if free is not None and free < site.limits.free_bytes:
        yield warn(
            f"its disk has {size(free)} left", "make room: sessions are not saved any more once it is full"
        )
    else:
        yield ok(f"{path} can be written, {size(free) if free is not None else 'enough'} free")


def _access(path: Path) -> Iterator[Finding]:
    status = path.stat()
    if status.st_uid != os.geteuid():
        yield error(
            f"{path} belongs to uid {status.st_uid}, not to you", f"chown -R $(id -u) {_quoted(path)}"
        )
    if status.st_mode & 0o022:
        yield warn(f"others may write in {path}: they could change what runs", f"chmod go-w {_quoted(path)}")


def _probed(path: Path) -> str:
    """Why a file cannot be made there; empty when it can. The one that is made goes at once."""
    probe = path / f".zotd-doctor-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as fault:
        return fault.strerror or str(fault)
    try:
        os.write(handle, b"x" * 4096)
    except OSError as fault:
        return fault.strerror or str(fault)
    finally:
        os.close(handle)
        probe.unlink(missing_ok=True)
    return ""


def _free(path: Path) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _home_mend(path: Path) -> str:
    return f"give yourself write access to {path} and see that its disk has room, or set ZOT_HOME elsewhere"


def config(site: Site) -> Iterator[Finding]:
    from zotd.daemon.configured import unknown_names
    from zotd.daemon.trusting import is_trusted

    clean = True
    for layer in (
        settings.of_environment(site.environ),
        settings.of_project(site.cwd),
        settings.of_user(site.home),
    ):
        for fault in layer.faults:
            clean = False
            found = error if fault.wrong else warn
            yield found(str(fault), f"{_MEND}; docs/configuration.md has the keys")
        for text in unknown_names(layer):
            clean = False
            yield error(text, _MEND)
    project = settings.project_file(site.cwd)
    if is_there(project) and not is_trusted(site.home, site.cwd):
        clean = False
        yield warn(
            f"{project} does not count for editors: its folder is not trusted", f"zotd trust {site.cwd}"
        )
    if clean:
        files = [settings.user_file(site.home), settings.project_file(site.cwd)]
        there = [str(path) for path in files if is_there(path)]
        yield ok(f"{' and '.join(there) or 'no file; all is as delivered'}")


def auth(site: Site) -> Iterator[Finding]:
    path = site.home / AUTH
    content = _object(path, site.limits.config_bytes)
    if isinstance(content, Finding):
        yield content
    elif content is not None:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            mend = f"chmod 600 {_quoted(path)}, and think about whether somebody has read it"
            yield error(f"{path} has mode {mode:04o}: other users can read your keys", mend)
        else:
            yield ok(f"{path} has mode {mode:04o} and names {', '.join(map(str, content)) or 'nobody'}")
    else:
        yield ok(f"there is no {path.name}")


def models(site: Site) -> Iterator[Finding]:
    path = site.home / MODELS
    content = _object(path, site.limits.config_bytes)
    if isinstance(content, Finding):
        yield content
    elif content is None:
        yield ok(f"there is no {path.name}")
    elif not isinstance(content.get("providers", {}), dict):
        yield error(f"{path}: $.providers: expected an object", _MEND)
    else:
        yield ok(f"{path} names {', '.join(map(str, content.get('providers', {}))) or 'no provider'}")


def _object(path: Path, size: int) -> dict[str, Any] | Finding | None:
    """The JSON object that a file holds, None where there is none."""
    import json

    try:
        data = read_bytes(path, size)
        if data is None:
            return None
        content = json.loads(data)
    except BadFile as bad:
        return error(str(bad), "see who owns the file, what it is, and how large")
    except (ValueError, RecursionError) as wrong:
        return error(f"{path}: expected JSON: {_place_of(wrong)}", _MEND)
    return content if isinstance(content, dict) else error(f"{path}: $: expected an object", _MEND)


def _place_of(wrong: Exception) -> str:
    """Where JSON ends to be JSON, without a word of what stands there."""
    line, column = getattr(wrong, "lineno", 0), getattr(wrong, "colno", 0)
    return f"it ends to be that at line {line}, column {column}" if line else "it is nested too deeply"


def permissions(site: Site) -> Iterator[Finding]:
    from zotd.daemon.permission_file import PERMISSIONS, PermissionFile

    rules = PermissionFile(site.home, site.limits).rules()
    for complaint in rules.complaints:
        yield (error if rules.broken else warn)(complaint, _MEND)
    if not rules.complaints:
        there = is_there(site.home / PERMISSIONS)
        yield ok(f"rules: {len(rules.rules)}" if there else "there is no rule")


def trusted(site: Site) -> Iterator[Finding]:
    from zotd.project.trust import decisions

    try:
        said = decisions(site.home)
    except BadFile as bad:
        yield error(f"{bad}; until it is mended, no folder is trusted", _MEND)
        return
    gone = [folder for folder, yes in said.items() if yes and not is_there(folder)]
    for folder in gone[:3]:
        mend = f"zotd trust --remove {_quoted(folder)}"
        yield warn(f"{folder} is trusted and not there: whoever makes it is trusted", mend)
    yield ok(f"{sum(said.values())} folders are trusted")


def sessions(site: Site) -> Iterator[Finding]:
    from itertools import islice

    from zotd.store.catalog import SessionStore
    from zotd.store.errors import StoreError

    store = SessionStore(site.home, site.limits)
    if os.path.lexists(store.root) and not store.root.is_dir():
        yield error(f"{store.root} is not a directory: no session can be saved", "move it away")
        return
    if store.root.exists() and not os.access(store.root, os.R_OK | os.W_OK | os.X_OK):
        yield error(f"{store.root} cannot be read and written", f"chmod u+rwx {_quoted(store.root)}")
        return
    files = sorted(store.files(), reverse=True)
    damaged = []
    for found in islice(files, site.limits.checked_sessions):
        try:
            store.row(found.path)
        except StoreError as bad:
            damaged.append(str(bad))
    for text in damaged[:3]:
        yield warn(text, "zotd sessions export saves what can be read; move the file away")
    if len(damaged) > 3:
        yield warn(f"{len(damaged) - 3} more sessions are damaged", "zotd sessions list shows the others")
    if left := _unfinished(store.root):
        yield warn(f"{len(left)} copies of sessions were never finished, as {left[0]}", "remove them")
    yield ok(f"{len(files)} saved, the newest {min(len(files), site.limits.checked_sessions)} were read")


def _unfinished(root: Path) -> list[Path]:
    """What an import or a fork has left that was killed."""
    found: list[Path] = []
    with suppress(OSError):
        for folder in root.iterdir():
            found += folder.glob(".*.part")
    return found


def _quoted(path: Path) -> str:
    from shlex import quote

    return quote(str(path))


def _both_configs(site: Site) -> str:
    return f"{settings.user_file(site.home)}, {settings.project_file(site.cwd)}, ZOTD_* variables"


FILE_CHECKS = (
    Check("home", lambda site: str(site.home), home),
    Check("config", _both_configs, config),
    Check("auth", lambda site: str(site.home / AUTH), auth),
    Check("models", lambda site: str(site.home / MODELS), models),
    Check("permissions", lambda site: str(site.home / "permissions.json"), permissions),
    Check("trust", lambda site: str(site.home / "trusted.json"), trusted),
    Check("sessions", lambda site: str(site.home / "sessions"), sessions),
)
