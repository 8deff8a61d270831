"""`turn/abort` with the id of a turn or command stops that one and no other."""

from __future__ import annotations

from tests.clients import Machine, types
from tests.daemon.puppets import Stage

SLOW = {"reply": [{"text": "one two three", "delay_ms": 20_000}], "times": 0}
NEVER = """
import json, sys
def send(**frame):
    print(json.dumps(frame), flush=True)
send(type="hello", name="never", version="1", capabilities=["commands"])
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        send(type="register_command", name="never", description="never answers")
        send(type="ready")
    elif frame["type"] == "command_invoked":
        send(type="notify", level="info", message="begun")
    elif frame["type"] == "shutdown":
        break
"""


def test_a_turn_that_waits_is_taken_out_and_the_one_that_runs_goes_on(machine: Machine) -> None:
    on = Stage(machine, script=[SLOW])
    first = on.call("turn/start", text="first")["turn_id"]
    second = on.call("turn/start", text="second")["turn_id"]
    on.client.event("text_delta")
    assert on.call("turn/abort", turn_id=second) == {"aborted": True, "unqueued": []}
    assert on.client.event("done")["turn_id"] == second
    assert on.call("session/state")["session"]["active_turn"] == first
    assert on.call("turn/queue")["turns"] == []
    assert on.call("turn/wait", turn_id=second)["stop"] == "aborted"
    assert on.call("turn/abort", turn_id=second)["aborted"] is False
    assert on.call("turn/abort", turn_id=first)["aborted"] is True
    assert on.call("turn/wait", turn_id=first)["stop"] == "aborted"


def test_a_command_is_waited_for_no_longer(machine: Machine) -> None:
    folder = machine.extension("never", NEVER)
    client = machine.rpc(*machine.script(SLOW), "--ext", str(folder)).greet()
    session = client.session()
    turn = client.call("turn/start", session_id=session, text="hello")["turn_id"]
    command = client.call("turn/start", session_id=session, text="/never")
    assert command["state"] == "command"
    client.event("ext_notify")
    client.call("turn/abort", session_id=session, turn_id=command["turn_id"])
    ended = client.call("turn/wait", session_id=session, turn_id=command["turn_id"])
    assert ended["error"]["message"] == "aborted"
    assert client.call("session/state", session_id=session)["session"]["active_turn"] == turn
    client.call("turn/abort", session_id=session, turn_id=turn)
    client.call("turn/wait", session_id=session, turn_id=turn)
    assert types(client.events).count("done") == 2
