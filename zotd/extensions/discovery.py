"""Owns which extensions there are: where to look, whose manifest counts, and what is wrong with the others.

The order is the protocol document's ("Layout & discovery"): paths given for this run, then the project's
own, then the global ones; inside a directory, by name. Candidates are told apart by the *name in the
manifest*, before anything is started, and the first one wins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
import orjson

from zotd.base.files import BadFile, is_file, is_folder, read_bytes
from zotd.base.limits import Limits
from zotd.protocol.manifest import Manifest

MANIFEST = "extension.json"
THEMES = ("theme.json", "themes/theme.json")
MANIFEST_BYTES = Limits().manifest_bytes
MANIFESTS = Limits().manifests
NAME_CHARS = Limits().extension_name_chars
NAME_BYTES = Limits().extension_name_bytes

Scope: TypeAlias = Literal["flag", "project", "global"]


@dataclass(frozen=True, slots=True)
class Located:
    """A good manifest and where it was found.

    directory: absolute, as the user wrote it: symbolic links in it are followed, not resolved.
    """

    manifest: Manifest
    directory: Path
    scope: Scope

    @property
    def name(self) -> str:
        """The manifest's name, by which everybody else knows this extension."""
        return self.manifest.name


@dataclass(frozen=True, slots=True)
class LoadError:
    """A candidate that cannot be used. `str()` of it names the file, the key and what was expected.

    path: the manifest, or the directory that should have held one.
    key: the manifest's key, dotted, such as `args[1]`; empty when the file as a whole is at fault.
    """

    path: Path
    key: str
    message: str
    scope: Scope

    @property
    def directory(self) -> Path:
        """The candidate's directory."""
        return self.path.parent if self.path.name == MANIFEST else self.path

    @property
    def extension(self) -> str:
        """What to call it: the directory's name, since the manifest's cannot be trusted."""
        return self.directory.name or str(self.directory)

    def __str__(self) -> str:
        return f"{self.path}: {self.key}: {self.message}" if self.key else f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Discovery:
    """All that was found, each list in load order.

    found: to be loaded, names unique. disabled: `enabled` is false. shadowed: its name was taken by
    an earlier one, disabled or not.
    """

    found: list[Located] = field(default_factory=list)
    errors: list[LoadError] = field(default_factory=list)
    shadowed: list[Located] = field(default_factory=list)
    disabled: list[Located] = field(default_factory=list)
    untrusted: list[Located] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there is anything to tell of."""
        return any((self.found, self.errors, self.shadowed, self.disabled, self.untrusted))

    def left_out(self) -> list[tuple[str, str]]:
        """What was named for this run and is not loaded: names, and why."""
        off = "extension {0.name} was not loaded: `enabled` is false in {0.directory}/" + MANIFEST
        taken = "extension {0.name} in {0.directory} was not loaded: an earlier one has its name"
        left = [(one, off) for one in self.disabled] + [(one, taken) for one in self.shadowed]
        return [(one.name, why.format(one)) for one, why in left if one.scope == "flag"]


def discover(
    cwd: Path,
    home: Path,
    explicit: Sequence[Path] = (),
    installed: bool = True,
    trusted: bool = True,
) -> Discovery:
    """Read every manifest that matters for a session in `cwd`; starts nothing and writes nothing.

    explicit: directories given for this run, relative to `cwd`; each must hold a manifest.
    installed: whether the project's and the global directory are searched too.
    trusted: whether the project's own may run; else they are only listed, and shadow nothing.
    One bad candidate never hides another: it becomes a LoadError.
    """
    result = Discovery()
    names: set[str] = set()
    seen: set[str] = set()
    for directory, scope in _candidates(cwd, home, explicit, installed, result.errors):
        real = os.path.realpath(directory)
        if real in seen:  # one directory reached on two ways is one extension, not two of a name
            continue
        seen.add(real)
        try:
            manifest = read_manifest(directory)
        except ManifestError as bad:
            result.errors.append(LoadError(bad.path, bad.key, bad.message, scope))
            continue
        if manifest is None:
            if scope == "flag":
                missing = f"no {MANIFEST} here; expected an extension's directory"
                result.errors.append(LoadError(directory, "", missing, scope))
            continue
        located = Located(manifest, directory, scope)
        if scope == "project" and not trusted:
            result.untrusted.append(located)
            continue
        if manifest.name in names:
            result.shadowed.append(located)
            continue
        names.add(manifest.name)
        (result.found if manifest.enabled else result.disabled).append(located)
    return result


def _candidates(
    cwd: Path, home: Path, explicit: Sequence[Path], installed: bool, errors: list[LoadError]
) -> Iterator[tuple[Path, Scope]]:
    for path in explicit:
        if "\0" in str(path):
            errors.append(LoadError(path, "", "expected a path, got one with a NUL character", "flag"))
            continue
        yield Path(os.path.normpath(cwd / path.expanduser())), "flag"
    if not installed:
        return
    places: tuple[tuple[Path, Scope], ...] = (
        (cwd / ".zot" / "extensions", "project"),
        (home / "extensions", "global"),
    )
    for place, scope in places:
        try:
            children = sorted(place.iterdir(), key=lambda child: child.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            errors.append(LoadError(place, "", f"cannot be listed: {error.strerror}", scope))
            continue
        for child in children[:MANIFESTS]:
            if is_folder(child):
                yield child, scope
        if len(children) > MANIFESTS:
            left = f"has {len(children)} entries, of which only the first {MANIFESTS} are looked at"
            errors.append(LoadError(place, "", left, scope))


class ManifestError(Exception):
    """A manifest that breaks the rules: which file, which key (dotted, or empty), what was expected."""

    def __init__(self, path: Path, key: str, message: str) -> None:
        super().__init__(f"{path}: {key}: {message}")
        self.path = path
        self.key = key
        self.message = message


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest in `directory`, None if there is no such file. Raises ManifestError."""
    path = directory / MANIFEST
    try:
        data = read_bytes(path, MANIFEST_BYTES)
    except BadFile as bad:
        raise ManifestError(path, "", bad.message) from None
    if data is None:
        return None
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ManifestError(path, "", f"expected JSON: {error}") from None
    try:
        manifest = msgspec.convert(value, Manifest)
    except msgspec.ValidationError as error:
        from zotd.base.misfit import misfit

        wrong = misfit(error, Manifest)
        fault = wrong.fault if isinstance(value, dict) else "expected a JSON object"
        raise ManifestError(path, wrong.key, fault) from None
    _check(path, directory, manifest)
    return manifest


def _check(path: Path, directory: Path, manifest: Manifest) -> None:
    """What types cannot say: a name, something to run or to show, skills that stay inside."""
    if fault := _fault_of(manifest.name):
        raise ManifestError(path, "name", fault)
    if not manifest.exec and not manifest.skills and not has_theme(directory):
        raise ManifestError(
            path, "exec", f"expected a program to run; only an extension with {THEMES[0]} or skills has none"
        )
    for key, word in [("exec", manifest.exec), *((f"args[{n}]", arg) for n, arg in enumerate(manifest.args))]:
        if "\0" in word:
            raise ManifestError(path, key, "expected a text without NUL characters")
    root = os.path.realpath(directory)
    for index, skill in enumerate(manifest.skills):
        if "\0" in skill or not Path(os.path.realpath(directory / skill)).is_relative_to(root):
            raise ManifestError(path, f"skills[{index}]", f"expected a path inside {directory}, got {skill}")


def _fault_of(name: str) -> str:
    """What is wrong with a name: it goes into events, command lists and the name of a log file."""
    if not name.strip():
        return "expected a name, got an empty string"
    if name.strip().casefold() == "zotd":
        return f"expected another name than {name!r}, which is the host's own"
    if len(name) > NAME_CHARS or len(name.encode("utf-8", "replace")) > NAME_BYTES:
        return f"expected at most {NAME_CHARS} characters and {NAME_BYTES} bytes, got {len(name)} characters"
    if name.startswith("."):
        return f"expected a name that does not begin with a dot, got {name!r}"
    if re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029/\\]", name):
        return f"expected a name without slashes and control characters, got {name!r}"
    return ""


def has_theme(directory: Path) -> bool:
    """Whether a theme lies in one of the two places the protocol document names."""
    return any(is_file(directory / theme) for theme in THEMES)
