"""Owns the end of the user's daemon: asked for, and where nothing answers by force, of that process only."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from zotd.base.limits import Limits
from zotd.cli.daemon_call import Full, Line, Silent
from zotd.cli.rendezvous import Absent, NoDaemon
from zotd.cli.starting import wait_until


def stop(dialled: Callable[[], Line], limits: Limits, *, drain: bool) -> int:
    """End the daemon and wait until it is gone; its process id, 0 when none runs.

    dialled: makes a connection to it. drain: whether its turns end first.

    Raises NoDaemon, and NotDone where the daemon refuses.
    """
    try:
        with dialled() as line:
            pid, gone = line.pid, lambda: True
            try:
                pid = line.ask("daemon/status")["pid"]
                gone = watched(pid)
                line.ask("daemon/stop", drain=drain)
            except Silent as silent:
                return _forced(silent, dialled, limits)
            except Full as full:
                if drain:
                    raise
                return _forced(full, dialled, limits)
            except ConnectionError:
                pass  # it was ending as we came
    except Absent:
        return 0
    bound = limits.drain_turns_s if drain else 0.0
    if not wait_until(gone, bound + limits.drain_s + limits.contained_s):
        raise NoDaemon(f"the daemon (process {pid}) was told to end and did not: kill -KILL {pid}")
    return pid


def _forced(silent: Silent | Full, dialled: Callable[[], Line], limits: Limits) -> int:
    """End a daemon that answers nothing, or lets nobody in: by SIGTERM, then by SIGKILL.

    The process is the one that listens on the socket, as the system says; no file is believed. A signal goes
    to the one that was looked at, though its number may be another's by then.
    """
    pid = silent.pid
    if not pid:
        raise NoDaemon(f"{silent}; this system does not tell which process that is")
    if not _is_ours(pid):
        raise NoDaemon(
            f"{silent}; process {pid}, which listens there, is no zotd but a service manager perhaps: "
            "systemctl --user stop zotd.service"
        )
    with suppress(ProcessLookupError):
        send = send_to(pid)
        with dialled() as again:
            if again.pid != pid:
                raise NoDaemon(f"{silent}; meanwhile process {again.pid} listens there: try again")
        gone = watched(pid)
        send(signal.SIGTERM)
        send(signal.SIGCONT)  # one that was stopped takes no other signal before
        if not wait_until(gone, limits.drain_s + limits.contained_s):
            send(signal.SIGKILL)
            if not wait_until(gone, limits.contained_s):
                raise NoDaemon(f"the daemon (process {pid}) does not end, not even by SIGKILL")
    return pid


def _is_ours(pid: int) -> bool:
    """Whether a process is a zotd, as far as its command line tells; where there is none it is believed."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return not Path("/proc/self").exists()
    return any(word.rpartition(b"/")[2] == b"zotd" for word in words)


def send_to(pid: int) -> Callable[[signal.Signals], None]:
    """Sends signals to that process and to none that gets its number later, where the system can."""
    if hasattr(os, "pidfd_open"):
        handle = os.pidfd_open(pid)
        return lambda number: signal.pidfd_send_signal(handle, number)
    return lambda number: os.kill(pid, number)


def watched(pid: int) -> Callable[[], bool]:
    """Tells whether the process has ended."""
    if hasattr(os, "pidfd_open"):
        import select

        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return lambda: True
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return lambda: bool(poll.poll(0))

    def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    return gone
