"""What `zotd daemon status` tells a person."""

from __future__ import annotations

from tests.daemons import Shared, shared

__all__ = ["shared"]


def test_the_one_who_asks_is_not_counted_and_a_session_without_a_model_says_so(shared: Shared) -> None:
    shared.started()
    assert shared.daemon("status").stdout.endswith("\nclients: 0\n")
    client = shared.machine.rpc("--connect", "auto").greet()
    session_id = client.call("session/new", cwd=str(shared.machine.cwd))["session"]["session_id"]
    shown = shared.daemon("status").stdout
    assert f"\n  {session_id}: idle, 1 client, no model, auto, in {shared.machine.cwd}\n" in shown
    clients = shown.partition("\nclients: 1\n")[2]
    assert clients.endswith(": unix, jsonrpc, 1 session\n")
    assert clients.count("\n") == 1
    client.hang_up()
