"""Owns `$ZOT_HOME/permissions.json`: the user's rules, those written by hand and those that answers left.

Shape: `{"rules": [{"tool": "bash", "pattern": "git *", "decision": "allow"}, …]}`; docs/approvals.md has
every key. Others are kept when it is written. It is read again when it changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, field

from zotd.base.files import BadFile, alone, make_private
from zotd.base.json_file import read_json, write_json
from zotd.base.limits import Limits
from zotd.base.misfit import Misfit, misfit
from zotd.daemon.path_patterns import PathPattern
from zotd.daemon.permissions import FILE_TOOLS, SHELL, Rule, Rules
from zotd.daemon.shell_words import WordPattern
from zotd.protocol.approval_methods import Decision

PERMISSIONS = "permissions.json"


class WrittenRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule as the file has it; see `permissions.Rule`."""

    tool: str
    pattern: str | None = None
    exact: str | None = None
    folder: str = ""
    decision: Decision
    reason: str = ""
    answered: bool = False


class _Written(Struct, frozen=True, kw_only=True):
    rules: list[WrittenRule] = field(default_factory=list)


class PermissionFile:
    """The rules of one home. Several daemons and people may change the file at any time."""

    def __init__(self, home: Path, limits: Limits) -> None:
        self.path = home / PERMISSIONS
        self._limits = limits
        self._seen: tuple[tuple[int, ...] | None, Rules] | None = None

    def rules(self) -> Rules:
        """The rules as they are now. A bad file gives `broken` ones and says what is wrong with it."""
        now = self._identity()
        if self._seen is None or self._seen[0] != now or now is None:  # not there, or not to be seen
            self._seen = (now, self._read_rules())
        return self._seen[1]

    def add(self, rules: Iterable[Rule]) -> None:
        """Remember rules for good. Waits for the disk. Raises OSError; BadFile, for one it leaves alone."""
        make_private(self.path.parent)
        most = self._limits.permissions_bytes
        with alone(self.path.with_name(f"{PERMISSIONS}.lock"), self._limits.permissions_lock_s):
            content = _content(self.path, most)
            parse(self.path, content)
            there = content.get("rules", [])
            more = [_written(rule) for rule in rules]
            content["rules"] = [*(rule for rule in there if rule not in more), *more]
            write_json(self.path, content, most, "remove rules that are not needed")

    def _identity(self) -> tuple[int, ...] | None:
        try:
            status = self.path.stat()
        except (OSError, ValueError):
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def _read_rules(self) -> Rules:
        try:
            return parse(self.path, _content(self.path, self._limits.permissions_bytes))
        except BadFile as bad:
            return Rules(broken=True, complaints=(f"{bad}; until it is mended, every call is asked about",))


def parse(path: Path, content: dict[str, Any]) -> Rules:
    """The rules in the content of a file. Raises BadFile."""
    try:
        written = convert(content, _Written).rules
    except ValidationError as error:
        raise BadFile(path, str(misfit(error, _Written, content))) from None
    rules: list[Rule] = []
    complaints = [
        f"{path}: $.{key}: is no key of this file, which has only `rules`; it counts for nothing"
        for key in content
        if key != "rules" and not key.startswith("_")
    ]
    for number, (rule, raw) in enumerate(zip(written, content.get("rules", ()), strict=True)):
        where = f"$.rules[{number}]"
        unknown = [key for key in raw if key not in WrittenRule.__struct_fields__ and not key.startswith("_")]
        # It may narrow the rule, or be a slip of the pen: what was meant to be narrow must not allow all.
        if unknown and rule.decision == "allow":
            complaints.append(f"{path}: {where}.{unknown[0]}: is no key of a rule; the rule allows nothing")
            continue
        try:
            rules.append(_rule(rule, where))
        except ValueError as error:
            raise BadFile(path, str(error)) from None
    return Rules((*rules,), complaints=(*complaints,))


def _rule(written: WrittenRule, where: str) -> Rule:
    """Raises ValueError, which names the JSON path."""
    if not written.tool:
        raise ValueError(str(Misfit(f"{where}.tool", "expected the name of a tool, or * for all")))
    if written.folder and ("\0" in written.folder or not written.folder.startswith("/")):
        raise ValueError(str(Misfit(f"{where}.folder", "expected an absolute path")))
    given = [key for key in ("pattern", "exact") if getattr(written, key) is not None]
    if given and written.tool != SHELL and written.tool not in FILE_TOOLS:
        tools = ", ".join((SHELL, *FILE_TOOLS))
        raise ValueError(str(Misfit(f"{where}.{given[0]}", f"expected none: only {tools} have one")))
    if len(given) > 1:
        raise ValueError(str(Misfit(f"{where}.exact", "expected pattern or exact, not both")))
    pattern: WordPattern | PathPattern | None = None
    if written.pattern is not None:
        try:
            pattern = (WordPattern if written.tool == SHELL else PathPattern)(written.pattern)
        except ValueError as error:
            raise ValueError(str(Misfit(f"{where}.pattern", str(error)))) from None
    return Rule(
        written.tool,
        written.decision,
        pattern,
        written.exact,
        written.folder.rstrip("/") or written.folder[:1],
        written.reason,
        written.answered,
        written.pattern or "",
    )


def _written(rule: Rule) -> dict[str, Any]:
    from msgspec import to_builtins

    written: dict[str, Any] = to_builtins(
        WrittenRule(
            tool=rule.tool,
            pattern=rule.source or None,
            exact=rule.exact,
            folder=rule.folder,
            decision=rule.decision,
            reason=rule.reason,
            answered=rule.answered,
        )
    )
    return written


def _content(path: Path, most: int) -> dict[str, Any]:
    """The content of the file, none where there is none; unknown keys are part of it. Raises BadFile."""
    content = read_json(path, most)
    if not isinstance(content, dict):
        raise BadFile(path, "$: expected an object")
    return content
