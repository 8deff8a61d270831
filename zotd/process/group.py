"""Owns the question whether a process group still runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def members_run(group: int) -> bool:
    """Whether a member of process group `group` runs. The dead that nobody has collected do not count.

    Containers often have no init that collects them; asking the kernel by signal would take those
    for living. Where there is no /proc, the signal has to do.
    """
    if not Path("/proc/self/stat").exists():
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True
    return any(_runs_in(group, name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def _runs_in(group: int, pid: str) -> bool:
    try:
        stat = Path("/proc", pid, "stat").read_bytes()
    except OSError:
        return False  # it ended while we looked
    # The name in parentheses may hold anything, so the fields are counted from its end.
    state, _parent, its_group = stat[stat.rindex(b")") + 2 :].split(b" ", 3)[:3]
    return int(its_group) == group and state not in (b"Z", b"X")


def group_exists(group: int) -> bool:
    """Whether the group of a leader that was collected still has members.

    The number is free once the group is empty. A process that has it now is a stranger's, and the proof
    that ours are gone: numbers of living groups are not given out.
    """
    return not _exists(lambda: os.kill(group, 0)) and _exists(lambda: os.killpg(group, 0))


def _exists(probe: Callable[[], None]) -> bool:
    try:
        probe()
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
