"""Owns the checks of what users add: extensions, skills, themes, and a model. Nothing is started."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from zotd.base.files import BadFile, is_file
from zotd.cli.checks import Check, Finding, Site, error, ok, warn
from zotd.daemon.spec import SessionSpec
from zotd.extensions.discovery import Discovery, Located, discover

_TOLD = 10
"""Of one kind of fault; the number of all is told."""


def spec_of(site: Site) -> SessionSpec:
    """What a run in the folder would begin with, if its command line said nothing."""
    return SessionSpec(cwd=site.cwd, home=site.home, user_home=site.user_home, environ=site.environ)


def found_in(site: Site) -> Discovery:
    """The extensions that the folder's sessions have, as far as its project is trusted."""
    from zotd.daemon.trusting import is_trusted

    return discover(site.cwd, site.home, trusted=is_trusted(site.home, site.cwd))


def extensions(site: Site) -> Iterator[Finding]:
    found = found_in(site)
    for one in found.errors[:_TOLD]:
        yield error(str(one), "correct the manifest, or remove the folder")
    if len(found.errors) > _TOLD:
        yield error(
            f"{len(found.errors) - _TOLD} more cannot be loaded", "mend the first ones and look again"
        )
    for located in found.found:
        if located.manifest.exec and (why := unstartable(located, site)):
            yield error(f"{located.name}: {why}", "until then it is listed as failed")
    for located in found.shadowed:
        mend = "rename one of the two in its manifest, or remove it"
        yield warn(f"{located.name} in {located.directory} is shadowed: an earlier one has its name", mend)
    for located in found.untrusted:
        mend = f"zotd trust {site.cwd}"
        text = f"{located.name} in {located.directory} does not run for editors: its folder is not trusted"
        yield warn(text, mend)
    for located in found.disabled:
        yield ok(f"{located.name} is disabled: `enabled` is false in its manifest")
    yield ok(f"{len(found.found)} to be loaded{': ' if found.found else ''}{', '.join(_names(found))}")


def _names(found: Discovery) -> list[str]:
    return [located.name for located in found.found[:_TOLD]]


def unstartable(located: Located, site: Site) -> str:
    """Why the program of an extension would not start; empty when nothing speaks against it."""
    from shutil import which

    from zotd.extensions.program import argv
    from zotd.process.explain import missing_env_program, why_not_started

    words, where = argv(located.manifest, located.directory), located.directory
    if os.sep in words[0]:
        path = where / words[0]
        startable = is_file(path) and os.access(path, os.X_OK)
    else:
        startable = which(words[0], path=site.environ.get("PATH")) is not None
    if startable:
        return missing_env_program(words, where, site.environ)
    return why_not_started(words, where, site.environ, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))


def skills(site: Site) -> Iterator[Finding]:
    from zotd.daemon.briefing import skills_of

    found = skills_of(spec_of(site), found_in(site).found, site.limits)
    yield from _complaints(found.complaints)
    yield ok(f"{len(found.found)} found")


def themes(site: Site) -> Iterator[Finding]:
    from zotd.project.themes import find_themes

    placed = [(located.name, located.directory) for located in found_in(site).found]
    found = find_themes(site.home, placed, site.limits.theme_bytes)
    yield from _complaints(found.complaints)
    yield ok(f"{len(found.found)} found")


def _complaints(complaints: list[BadFile]) -> Iterator[Finding]:
    for bad in complaints[:_TOLD]:
        yield warn(str(bad), "correct the file, or remove it")
    if len(complaints) > _TOLD:
        yield warn(f"{len(complaints) - _TOLD} more files cannot be used", "mend the first ones")


def model(site: Site) -> Iterator[Finding]:
    from zotd.daemon.configured import with_configuration
    from zotd.daemon.spec import chosen
    from zotd.providers.catalog import PROVIDERS, BadChoice, NoCredentials, credentials

    for provider in PROVIDERS:
        try:
            able, source = credentials(provider, "", None, site.environ)
        except BadChoice as wrong:
            yield error(_valueless(wrong, site), "correct that variable, or unset it")
            continue
        if able and source:
            yield ok(f"{provider} has a key, from {source}")
    try:
        choice = chosen(with_configuration(spec_of(site)))
    except NoCredentials as missing:
        first, _, ways = str(missing).partition(". ")
        yield warn(f"a run that names no model has none: {first}", ways.partition("\n")[2].strip() or ways)
    except BadChoice as wrong:
        yield error(_valueless(wrong, site), "name another on the command line or in the configuration")
    else:
        source = f", its key from {choice.key_source}" if choice.key_source else ""
        yield ok(f"a run that names no model asks {choice.provider}, {choice.model}{source}")
        if choice.weights is not None and not is_file(Path(choice.weights)):
            yield error(f"{choice.weights} is not there", "zotd model list shows what can be installed")


def _valueless(wrong: Exception, site: Site) -> str:
    """What is wrong with an address, without the address: it may hold a password."""
    text = str(wrong)
    for name in ("OPENAI_BASE_URL", "OLLAMA_HOST", "ZOTD_BASE_URL"):
        if value := site.environ.get(name):
            text = text.replace(repr(value), f"what {name} holds")
    return text


EXTRA_CHECKS = (
    Check(
        "extensions",
        lambda site: f"{site.cwd / '.zot' / 'extensions'}, {site.home / 'extensions'}",
        extensions,
    ),
    Check("skills", lambda site: "the folder's, yours, and those of extensions", skills),
    Check("themes", lambda site: str(site.home / "themes"), themes),
    Check("model", lambda site: "configuration and environment", model),
)
