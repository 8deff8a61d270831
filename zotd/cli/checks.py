"""Owns how checks are run: each by itself, all at once, none for longer than it may take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from zotd.base.limits import Limits

Level: TypeAlias = Literal["ok", "warn", "error"]
_WORSE: tuple[Level, ...] = ("ok", "warn", "error")


@dataclass(frozen=True, slots=True)
class Site:
    """What is looked at. home: `$ZOT_HOME`. cwd: the folder whose project files count."""

    home: Path
    user_home: Path
    cwd: Path
    environ: Mapping[str, str] = field(repr=False)
    limits: Limits = Limits()  # noqa: RUF009 - it is frozen


class Finding(NamedTuple):
    """One thing that was found. mend: what to do about it; empty where nothing is to be done."""

    level: Level
    text: str
    mend: str = ""


def ok(text: str) -> Finding:
    return Finding("ok", text)


def warn(text: str, mend: str) -> Finding:
    return Finding("warn", text, mend)


def error(text: str, mend: str) -> Finding:
    return Finding("error", text, mend)


class Check(NamedTuple):
    """A subject. looks_at: what is read for it, for people. It changes nothing that is anybody's."""

    name: str
    looks_at: Callable[[Site], str]
    find: Callable[[Site], Iterable[Finding]]


class Result(NamedTuple):
    """A check with what it found."""

    name: str
    looked_at: str
    findings: list[Finding]

    @property
    def level(self) -> Level:
        """That of the worst."""
        return max((one.level for one in self.findings), key=_WORSE.index, default="ok")

    def told(self) -> dict[str, Any]:
        """As JSON: `{check, level, looked_at, findings: [{level, text, mend?}]}`."""
        return {
            "check": self.name,
            "level": self.level,
            "looked_at": self.looked_at,
            "findings": [
                {"level": one.level, "text": one.text, **({"mend": one.mend} if one.mend else {})}
                for one in self.findings
            ],
        }


def run(checks: Iterable[Check], site: Site) -> list[Result]:
    """The results, in order. Takes at most `Limits.check_s`: what hangs by then is told of as that."""
    import time

    running = [_Running(check, site) for check in checks]
    end = time.monotonic() + site.limits.check_s
    for one in running:
        one.join(max(0.0, end - time.monotonic()))
    return [one.result() for one in running]


class _Running(threading.Thread):
    """A check in a thread of its own, which is left to itself where it hangs."""

    def __init__(self, check: Check, site: Site) -> None:
        super().__init__(daemon=True, name=f"check of {check.name}")
        self._check = check
        self._site = site
        self._found: list[Finding] = []
        self._over = False
        self.start()

    def run(self) -> None:
        try:
            self._found.extend(self._check.find(self._site))
        except OSError as wrong:
            self._found.append(
                error(f"cannot be looked at: {wrong}", "look at the path that is named, and who owns it")
            )
        except Exception as bug:
            mend = "report it, with the output of zotd doctor --json"
            self._found.append(error(f"the check itself failed: {type(bug).__name__}: {bug}", mend))
        self._over = True

    def result(self) -> Result:
        findings = list(self._found)
        if not self._over:
            hangs = f"did not end within {self._site.limits.check_s:g} s"
            mend = "a disk or network that does not answer is behind this: see whether ls hangs there too"
            findings.append(error(hangs, mend))
        return Result(self._check.name, self._check.looks_at(self._site), findings)
