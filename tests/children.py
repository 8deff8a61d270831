"""What a test may leave running: the keeper of the test process, which keeps nothing."""

from __future__ import annotations

import os
import select
from pathlib import Path

from zotd.process.kept import KEEPER

LONG_S = 5.0


def start_keeper() -> None:
    """Start the keeper now, so that its socket is there before and after every test."""
    KEEPER.new_sub_keeper(2.0).close()


def children(pid: int) -> dict[int, str]:
    """The children of a process, those included that have ended and were not collected, with their state."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_bytes()
        except OSError:
            continue
        state, parent = stat[stat.rindex(b")") + 2 :].split(b" ", 2)[:2]
        if int(parent) == pid:
            found[int(entry.name)] = state.decode()
    return found


def descendants(pid: int) -> set[int]:
    """All that is below a process."""
    found = set(children(pid))
    return found.union(*(descendants(child) for child in found))


def ends(pid: int, within_s: float = LONG_S) -> bool:
    """Whether a process ends in time. It may be anybody's child; one that was not collected has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_s)[0])
    finally:
        os.close(handle)


def nothing_but_the_keeper_is_left() -> None:
    """Fail unless the keeper is our only child and every scope has ended."""
    assert set(children(os.getpid())) == {KEEPER.pid}
    for sub_keeper in children(KEEPER.pid):
        # It says that it is done a moment before its own end.
        assert ends(sub_keeper), f"a scope was not closed: sub-keeper {sub_keeper} runs"
