"""Owns the last resort: this process ends others itself, where the keeper that should cannot.

A keeper may have been killed, or stopped by somebody. Processes are told apart by the time they were started
at, so that no signal reaches a stranger that was given a number of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_PAUSE_S = 0.005
_PASSES = 5  # each meets what the one before it found in the middle of a fork


@dataclass(frozen=True, slots=True)
class Row:
    """A process. start: when it began, in ticks since the system did."""

    pid: int
    parent: int
    start: int
    ended: bool


def start_of(pid: int) -> int:
    """When a process began; -1 when it is gone."""
    row = _row(str(pid))
    return -1 if row is None or row.ended else row.start


def end_known(programs: Mapping[int, int]) -> None:
    """Kill programs, given by pid and start, with their groups and all that is still below them."""
    for _ in range(_PASSES):
        roots = {pid for pid, start in programs.items() if start >= 0 and start_of(pid) == start}
        below = [row for row in _below(roots) if not row.ended]
        for pid in roots:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        for row in below:
            _kill(row)
        if not roots and not below:
            return


async def end_keeper(pid: int, start: int, seconds: float) -> None:
    """Kill all below a sub-keeper, for at most `seconds`, then itself.

    It goes last: as long as it is there, whoever loses a parent stays below it.
    """
    if start < 0 or start_of(pid) != start:
        return
    deadline = asyncio.get_running_loop().time() + seconds
    while running := [row for row in _below({pid}) if not row.ended]:
        for row in running:
            _kill(row)
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(_PAUSE_S)
    _kill(Row(pid, 0, start, ended=False))


def _kill(row: Row) -> None:
    try:
        handle = os.pidfd_open(row.pid)
    except OSError:
        return
    try:
        if start_of(row.pid) == row.start:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return  # it has just ended, or is another user's
    finally:
        os.close(handle)


def _below(roots: Collection[int]) -> list[Row]:
    children: dict[int, list[Row]] = {}
    for row in _rows():
        children.setdefault(row.parent, []).append(row)
    found: list[Row] = []
    waiting = [*roots]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [row.pid for row in below]
    return found


def _rows() -> Iterator[Row]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - a Path for each would take long
        if name.isdigit() and (row := _row(name)) is not None:
            yield row


def _row(name: str) -> Row | None:
    try:
        stat = Path("/proc", name, "stat").read_bytes()
    except OSError:
        return None
    # The program's name in parentheses may hold anything, so the fields are counted from its end.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return Row(int(name), int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X"))
