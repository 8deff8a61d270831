"""Owns what `zotd daemon status` shows a person of the daemon's own account of itself."""

from __future__ import annotations

from typing import Any

from zotd.cli.console import escaped
from zotd.cli.daemon_call import CALLER


def text_of(status: dict[str, Any]) -> str:
    """A result of `daemon/status` as lines."""
    memory = status["memory"]
    clients = others(status)
    lines = [
        f"zotd {status['version']}, process {status['pid']}, up {_span(status['uptime_s'])}"
        + (", draining" if status["draining"] else ""),
        f"home: {status['home']}",
        *[f"listening: {address}" for address in status["listening"]],
        when_idle(status),
        f"memory: {_mib(memory['resident_bytes'])}"
        + (f", keeper {_mib(memory['keeper_bytes'])}" if "keeper_bytes" in memory else "")
        + f", replay {_mib(memory['replay_bytes'])}",
        f"descriptors: {memory['descriptors']} of {memory['descriptors_limit']}",
        f"sessions: {len(status['sessions'])}",
        *[text for session in status["sessions"] for text in _session(session)],
        f"clients: {len(clients)}",
        *[f"  {_client(client)}" for client in clients],
    ]
    return "".join(escaped(line, "") + "\n" for line in lines)


def when_idle(status: dict[str, Any]) -> str:
    idle = status.get("idle_exit_s")
    return f"ends when idle for {_span(idle)}" if idle else "stays when idle"


def others(status: dict[str, Any]) -> list[dict[str, Any]]:
    """The clients of a daemon but for the one that asks, whose request is open: nobody means that one."""
    clients: list[dict[str, Any]] = status["clients"]
    asking = next((one for one in clients if one["name"] == CALLER and one["requests"]), None)
    return [one for one in clients if one is not asking]


def _session(session: dict[str, Any]) -> list[str]:
    counts = (
        (session["clients"], "client", "clients"),
        (session["queue"], "prompt waits", "prompts wait"),
        (session["pending_approvals"], "question open", "questions open"),
    )
    told = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    state = "busy" if session["busy"] else "idle"
    name = f" {session['title']}" if session.get("title") else ""
    line = f"  {session['session_id']}{name}: {', '.join([state, *told])}, {session['model'] or 'no model'}"
    rows = [f"{line}, {session['approval']}, in {session['cwd']}"]
    for one in session["extensions"]:
        behind = f", {one['queued_frames']} frames wait" if one["queued_frames"] else ""
        lost = f", {one['dropped_events']} events dropped" if one["dropped_events"] else ""
        rows.append(f"    extension {one['name']}: {one['state']}{behind}{lost}")
    return rows


def _client(client: dict[str, Any]) -> str:
    name = f"{client['name']} {client['version']}".strip() or "no name yet"
    dialect = client["dialect"] or "nothing said yet"
    behind = f", {client['queued_bytes']} bytes wait" if client["queued_bytes"] else ""
    asked = f", {_counted(client['requests'], 'request')} open" if client["requests"] else ""
    more = f"{asked}{behind}{', lagging' if client['lagging'] else ''}"
    return f"{name}: {client['transport']}, {dialect}, {_counted(len(client['sessions']), 'session')}{more}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _span(seconds: float) -> str:
    """Seconds as a person says them."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 2 * 3600:
        return f"{whole // 60} min"
    if whole < 2 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
