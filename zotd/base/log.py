"""Owns what the process writes down of its own work: nothing, until somebody says where to.

No prompt, no answer, no arguments of a call and nothing of an environment belongs into a line.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `typing` takes milliseconds, and the command line reads its levels here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LEVELS = ("debug", "info", "warn", "error")
"""From the most lines to the fewest, as users name them."""
_ORDER = {level: order for order, level in enumerate(LEVELS)} | {"warning": LEVELS.index("warn")}

_write: Callable[[str, str, dict[str, Any]], None] | None = None
_least = len(_ORDER)
_plain = True


def log(event: str, level: str = "info", **fields: Any) -> None:
    """One line, if anybody wants such. event: a few words that never change; fields: ids, counts, seconds."""
    if _write is not None and _ORDER[level] >= _least:
        _write(event, level, fields)


def wanted(level: str = "info") -> bool:
    """Whether lines of a level are written: for those who would have to count something first."""
    return _write is not None and _ORDER[level] >= _least


def say(plain: str, event: str, level: str = "error", **fields: Any) -> None:
    """A line in a daemon's log; where a person or the program that started us reads along, plain words."""
    if _plain:
        sys.stderr.write(f"zotd: {plain}\n")
    else:
        log(event, level, **fields)


def mistake(ended: str, bug: BaseException) -> None:
    """A fault of ours was met, and all else goes on: what it ended, and where it is."""
    from traceback import format_exception

    from zotd.base.redact import redact

    trace = redact("".join(format_exception(bug)))
    if _plain:
        sys.stderr.write(f"zotd: a mistake of ours ended: {ended}\n{trace}")
    else:
        log("mistake of ours", "error", ended=ended, traceback=trace)


def write_to(
    write: Callable[[str, str, dict[str, Any]], None] | None, least: str = "info", *, plain: bool = True
) -> None:
    """From now on lines of a level and above go there. plain: what is said goes to standard error as is."""
    global _write, _least, _plain
    _write, _least, _plain = write, _ORDER[least], plain
