"""Owns the checks of what zotd runs on: Python, its installation, the terminal, the network's settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from zotd import __version__
from zotd.base.files import is_file, is_there
from zotd.cli.checks import Check, Finding, Site, error, ok, warn

LEAST_PYTHON = (3, 11)
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
_AGAIN = "install zotd again: pipx reinstall zotd, or pip install --force-reinstall zotd"


def python(site: Site) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < LEAST_PYTHON:
        needed = ".".join(map(str, LEAST_PYTHON))
        yield error(f"Python {version} is too old: {needed} is the least", "install zotd with a newer Python")
    else:
        yield ok(f"Python {version} on {sys.platform}")


def installation(site: Site) -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        ours = distribution("zotd")
    except PackageNotFoundError:
        yield warn("zotd is run from a folder: it is not installed", "install it, so that upgrades find it")
        return
    if ours.version != __version__:
        yield error(f"version {__version__} is imported, version {ours.version} is installed", _AGAIN)
    damaged = [name for name in _own_files(ours) if name]
    if damaged:
        yield error(f"{len(damaged)} files are missing or changed, {damaged[0]} first", _AGAIN)
    faults = list(_requirements(ours.requires or []))
    yield from faults
    if not damaged and not faults:
        yield ok(f"zotd {__version__}, whole, with all that it needs")


def _own_files(ours: object) -> Iterator[str]:
    """Names of installed files that are not as they were packed."""
    from base64 import urlsafe_b64encode
    from hashlib import new
    from importlib.metadata import Distribution

    assert isinstance(ours, Distribution)
    for file in ours.files or ():
        if file.hash is None or file.suffix != ".py":
            continue
        try:
            data = Path(str(file.locate())).read_bytes()
        except OSError:
            yield str(file)
            continue
        digest = urlsafe_b64encode(new(file.hash.mode, data).digest()).rstrip(b"=").decode()
        if digest != file.hash.value:
            yield str(file)


def _requirements(requires: list[str]) -> Iterator[Finding]:
    """What is wrong with the libraries that zotd needs."""
    import re
    from importlib.metadata import PackageNotFoundError, packages_distributions, version
    from importlib.util import find_spec

    modules: dict[str, list[str]] = {}
    for module, owners in packages_distributions().items():
        for owner in owners:
            modules.setdefault(_canonical(owner), []).append(module)
    for requirement in requires:
        if "extra ==" in requirement:
            continue
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            there = version(name)
        except PackageNotFoundError:
            yield error(f"{name} is not installed", _AGAIN)
            continue
        for sign, bound in re.findall(r"(>=|<)\s*([\d.]+)", requirement):
            if (_numbers(there) >= _numbers(bound)) != (sign == ">="):
                yield error(f"{name} is version {there}, {sign}{bound} is needed", _AGAIN)
        found = modules.get(_canonical(name), [])
        if found and all(find_spec(module) is None for module in found):
            yield error(f"{name} is installed and cannot be imported", _AGAIN)


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _numbers(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split("."):
        digits = "".join(c for c in part if c.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    while numbers and not numbers[-1]:  # 2.0 is 2
        numbers.pop()
    return tuple(numbers)


def own_program() -> Path:
    """The `zotd` beside the interpreter that runs this."""
    return Path(sys.executable).with_name("zotd")


def program(site: Site) -> Iterator[Finding]:
    from shutil import which

    found = which("zotd", path=site.environ.get("PATH"))
    own = own_program()
    if found is None:
        mend = f"add {own.parent} to PATH, or name the program by its full path where editors start it"
        yield warn("no zotd is on the PATH", mend)
    elif is_file(own) and os.path.realpath(found) != os.path.realpath(own) and not _starts(Path(found)):
        yield warn(f"{found} is another zotd than this one, {own}", "remove one of the two, or mend the PATH")
    else:
        yield ok(f"{found} is this one")


def _starts(script: Path) -> bool:
    """Whether a script is run by the interpreter that runs this: pipx and uv put copies onto the PATH."""
    try:
        with script.open("rb") as file:
            return os.fsencode(sys.executable) in file.readline(4096)
    except OSError:
        return False


def terminal(site: Site) -> Iterator[Finding]:
    from codecs import lookup
    from locale import getpreferredencoding

    name = getpreferredencoding(False)
    if lookup(name).name != "utf-8":
        yield warn(
            f"texts of this terminal are {name}, not UTF-8: names of files may be shown wrong",
            "set LANG=C.UTF-8, or a UTF-8 locale of yours",
        )
    else:
        yield ok(f"UTF-8; TERM is {site.environ.get('TERM') or 'not set'}")


def descriptors(site: Site) -> Iterator[Finding]:
    from zotd.base.memory import descriptors as held

    _, most = held()
    least = site.limits.free_descriptors
    if most < least:
        yield warn(
            f"a process may have {most} files open: {least} and more are good for a daemon with many clients",
            "raise it: ulimit -n 4096, or LimitNOFILE= where a service manager starts zotd",
        )
    else:
        yield ok(f"a process may have {most} files open")


def network(site: Site) -> Iterator[Finding]:
    """Values are not shown: a proxy's address may hold a password."""
    from urllib.parse import urlsplit

    found = False
    for name in PROXIES:
        if not (value := site.environ.get(name)):
            continue
        found = True
        try:
            parts = urlsplit(value if "://" in value else f"http://{value}")
            good = bool(parts.hostname) and (parts.port is None or parts.port > 0)
            spoken = parts.scheme in ("http", "https")
        except ValueError:
            good = spoken = False
        if good and spoken:
            yield ok(f"{name} is set")
        elif good:
            yield error(
                f"{name} names a proxy that does not speak HTTP", f"give one as {name}=http://HOST:PORT"
            )
        else:
            yield error(
                f"{name} names no host that a proxy could be on", f"give it as {name}=http://HOST:PORT"
            )
    for name in AUTHORITIES:
        if not (value := site.environ.get(name)):
            continue
        found = True
        if not is_there(Path(value)):
            yield error(f"{name} names {value}, which is not there", f"correct {name}, or unset it")
        elif not os.access(value, os.R_OK):
            yield error(f"{name} names {value}, which cannot be read", f"make it readable, or unset {name}")
        else:
            yield ok(f"{name} is {value}")
    if not found:
        yield ok("no proxy and no certificates of your own are set")


PROGRAM_CHECKS = (
    Check("python", lambda site: sys.executable, python),
    Check("installation", lambda site: str(Path(__file__).parent.parent), installation),
    Check("program", lambda site: "PATH", program),
    Check("terminal", lambda site: "the locale", terminal),
    Check("descriptors", lambda site: "the limit on open files", descriptors),
    Check("network", lambda site: ", ".join((*PROXIES[:3], *AUTHORITIES)), network),
)
