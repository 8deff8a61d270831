"""Owns which tool calls run unasked: pure rules, from what a call is about to a decision.

Deny beats allow, and what is not understood is asked about. The file of rules is `permission_file.py`'s,
asking is `approvals.py`'s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from zotd.agent.ports import ToolFailed
from zotd.daemon.path_patterns import PathPattern
from zotd.daemon.shell_words import Part, WordPattern, exactly, fits, interfere, split, stand_alone
from zotd.protocol.approval_methods import Decision
from zotd.protocol.session import Approval
from zotd.tools.typed import located

SHELL = "bash"
FILE_TOOLS = ("read", "write", "edit")


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a session works. home: what `~` is in its calls, user_home: what it is in the user's rules.

    real: a path with symbolic links resolved; the only thing here that asks the disk.
    """

    cwd: Path
    home: str
    user_home: str
    real: Callable[[str], str] = os.path.realpath


@dataclass(frozen=True, slots=True)
class Subject:
    """What a call is about, as rules see it. folder: the session's, links resolved.

    text: the command line of `bash`; parts: its simple commands, None where a shell has to be asked.
    path: the file of `read`, `write` and `edit` as it was named, real: where that is.
    """

    tool: str
    place: Whereabouts
    folder: str
    text: str = ""
    parts: tuple[Part, ...] | None = None
    path: str = ""
    real: str = ""

    @property
    def understood(self) -> bool:
        """Whether patterns can be held against it."""
        return self.parts is not None or bool(self.real)


def subject_of(tool: str, args: dict[str, Any], place: Whereabouts, owner: str = "") -> Subject:
    """What rules see of a call. owner: the extension whose tool it is; its arguments mean what it likes."""
    subject = Subject(tool, place, place.real(str(place.cwd)))
    if not owner and tool == SHELL and isinstance(text := args.get("command"), str):
        return replace(subject, text=text, parts=split(text))
    if not owner and tool in FILE_TOOLS and isinstance(path := args.get("path"), str):
        try:
            named = str(located(path, place.cwd, place.home))
            return replace(subject, path=os.path.normpath(named), real=place.real(named))
        except (ToolFailed, OSError, ValueError):
            return subject  # the tool will say what is wrong with it
    return subject


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Without `pattern` and `exact` it is for every call of its tools.

    tool: a name, in which `*` stands for anything. pattern: words of a command or a path, exact: the whole
    command line or the real path. folder: only in sessions that work there or below. reason: for the model.
    answered: it remembers an answer, and was not written by hand.
    """

    tool: str
    decision: Decision
    pattern: WordPattern | PathPattern | None = field(default=None, compare=False)
    exact: str | None = None
    folder: str = ""
    reason: str = ""
    answered: bool = False
    source: str = ""
    """The pattern as it is written."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.tool, self.source or self.exact or "")))

    def concerns(self, subject: Subject) -> bool:
        """Whether it is for calls of this tool in this folder."""
        return fits(self.tool.split("*"), subject.tool) and (not self.folder or self._holds_in(subject))

    def _holds_in(self, subject: Subject) -> bool:
        above = [subject.folder, *map(str, Path(subject.folder).parents)]
        # A link to a folder may come to lead elsewhere: it can close that, and not open it.
        return self.folder in above or (self.decision == "deny" and subject.place.real(self.folder) in above)


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of the file, or of a session. broken: they could not be read; nothing runs unasked then.

    complaints: what is wrong with them, each for a person.
    """

    rules: tuple[Rule, ...] = ()
    broken: bool = False
    complaints: tuple[str, ...] = ()

    def plus(self, more: Iterable[Rule], most: int) -> Rules:
        """With more rules, the newest last and none twice; of more than `most` the oldest are forgotten."""
        added = [*dict.fromkeys(more)]
        kept = [rule for rule in self.rules if rule not in added]
        return replace(self, rules=(*kept, *added)[-most:])


@dataclass(frozen=True, slots=True)
class Allow:
    """It runs. rule: one that says so; None where all calls run."""

    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """It does not run. reason: for the model."""

    rule: Rule
    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person decides."""


Judgement: TypeAlias = Allow | Deny | Ask


def judge(policy: Approval, of_file: Rules, of_session: Rules, subject: Subject) -> Judgement:
    """Whether a call runs.

    `auto` runs everything. Otherwise a rule that denies counts first. Under `rules` any rule can allow, under
    `ask` only remembered answers.
    """
    if policy == "auto":
        return Allow()
    rules = [rule for rule in (*of_session.rules, *of_file.rules) if rule.concerns(subject)]
    denying = [rule for rule in rules if rule.decision == "deny"]
    for rule in denying:
        if _denies(rule, subject):
            return Deny(rule, rule.reason or f"a rule denies it: {rule}")
    unsure = not subject.understood and any(rule.pattern is not None for rule in denying)
    if of_file.broken or of_session.broken or unsure:
        return Ask()
    allowing = [rule for rule in rules if rule.decision == "allow" and (policy == "rules" or rule.answered)]
    allowed_by = _allowing(allowing, subject)
    return Ask() if allowed_by is None else Allow(allowed_by)


def answered(subject: Subject, decision: Decision, reason: str = "") -> tuple[Rule, ...]:
    """The rules that an answer leaves behind which is to hold for like calls.

    A file is its real path. A command is the words of each of its parts where those do the same alone, and
    its text where they do not or where it is denied; commands, and tools that only have a name, are
    remembered for the session's folder. None are left where a call does not say what it is about.
    """
    reason = reason if decision == "deny" else ""
    if subject.real:
        return (Rule(subject.tool, decision, exact=subject.real, reason=reason, answered=True),)
    by_name = Rule(subject.tool, decision, folder=subject.folder, reason=reason, answered=True)
    if not subject.text:
        # Of a tool whose calls differ, its name alone would cover all that it can do.
        return () if subject.tool in (SHELL, *FILE_TOOLS) else (by_name,)
    parts = subject.parts
    if parts is None or not stand_alone(parts) or (decision == "deny" and len(parts) > 1):
        return (replace(by_name, exact=subject.text),)
    sources = [exactly(part.words) for part in parts]
    return tuple(replace(by_name, pattern=WordPattern(source), source=source) for source in sources)


def _denies(rule: Rule, subject: Subject) -> bool:
    if rule.exact is not None:
        return rule.exact in _names(subject)
    match rule.pattern:
        case None:
            return True
        case WordPattern() as pattern:
            return any(pattern.matches(words) for part in subject.parts or () for words in _spellings(part))
        case pattern:
            place = subject.place
            return any(pattern.may_mean(path, place) for path in _names(subject))


def _spellings(part: Part) -> Iterable[tuple[str, ...]]:
    """The words of a command, also with its program's name alone: `/bin/rm` is `rm`."""
    command, *rest = part.words
    return part.words, (command.rpartition("/")[2], *rest)


def _names(subject: Subject) -> tuple[str, ...]:
    return tuple(name for name in (subject.text, subject.path, subject.real) if name)


def _allowing(rules: list[Rule], subject: Subject) -> Rule | None:
    """A rule that allows all of a call; of a command whose parts are allowed one by one, the first's."""
    for rule in rules:
        if rule.pattern is None and rule.exact in (None, subject.text or None, subject.real or None):
            return rule
        pattern = rule.pattern
        if isinstance(pattern, PathPattern) and subject.real and pattern.is_at(subject.real, subject.place):
            return rule
    parts = subject.parts or ()
    apart = not interfere(parts)
    found = [_allowing_part(rules, part, alone=apart and not part.fed) for part in parts]
    return found[0] if found and None not in found else None


def _allowing_part(rules: list[Rule], part: Part, *, alone: bool) -> Rule | None:
    """alone: whether it does what it would without the other parts."""
    for rule in rules:
        # What somebody saw and allowed stood alone: `sh` is harmless, `… | sh` and `cd …; ./sh` are not.
        pattern = rule.pattern if alone or not rule.answered else None
        if isinstance(pattern, WordPattern) and pattern.matches(part.words):
            return rule
    return None
