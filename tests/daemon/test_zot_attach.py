"""`attach` in the zot dialect: a client of it sees somebody else's session, from any event on."""

from __future__ import annotations

from tests.clients import Machine, text_of, types

SLOW = {"match": "slow", "reply": [{"text": "one two three", "delay_ms": 60_000}], "times": 0}
ECHO = {"reply": [{"text": "an answer"}], "times": 0}


def test_a_zot_client_attaches_to_a_session_of_another_and_misses_nothing(machine: Machine) -> None:
    _, path = machine.listen("--provider", "scripted", *machine.script(SLOW, ECHO))
    owner, guest = machine.connect(path).greet(), machine.connect(path)
    session = owner.session(ephemeral=True)
    owner.call("turn/start", session_id=session, text="first")
    while "done" not in types(owner.events):
        owner.take()
    attached = guest.ask("attach", session_id=session, since=0)
    assert attached["data"]["session"]["session_id"] == session
    assert attached["data"]["next_seq"] == owner.events[-1]["seq"] + 1
    assert guest.until("done") == owner.events
    assert guest.ask("get_messages")["data"]["messages"][-1]["content"][0]["text"] == "an answer"
    guest.send({"type": "prompt", "message": "second"})
    assert text_of(guest.until("done")) == "an answer"
    assert guest.ask("attach", session_id="nobody")["error"].startswith("no session")
    assert guest.ask("get_state")["data"]["message_count"] == 4


def test_a_zot_client_that_comes_in_mid_turn_is_sent_its_end(machine: Machine) -> None:
    _, path = machine.listen("--provider", "scripted", *machine.script(SLOW, ECHO))
    owner, guest = machine.connect(path).greet(), machine.connect(path)
    session = owner.session(ephemeral=True)
    owner.call("turn/start", session_id=session, text="slow")
    owner.event("text_delta")
    attached = guest.ask("attach", session_id=session)["data"]["session"]
    assert attached["busy"]
    assert attached["partial_text"] == "one"
    guest.ask("abort")
    assert types(guest.until("done"))[-2:] == ["turn_end", "done"]


def test_another_epoch_is_answered_with_one_picture(machine: Machine) -> None:
    _, path = machine.listen("--provider", "scripted", *machine.script(ECHO))
    owner, guest = machine.connect(path).greet(), machine.connect(path)
    session = owner.session(ephemeral=True)
    owner.call("turn/start", session_id=session, text="first")
    last = owner.event("done")
    guest.ask("attach", session_id=session, since=3, epoch="of another daemon")
    resync = guest.next()
    assert (resync["type"], resync["seq"]) == ("resync", last["seq"])
    assert resync["session"]["message_count"] == 2


def test_who_waits_for_its_own_prompt_is_sent_no_end_of_another(machine: Machine) -> None:
    _, path = machine.listen("--provider", "scripted", *machine.script(SLOW, ECHO))
    owner, guest, watcher = machine.connect(path).greet(), machine.connect(path), machine.connect(path)
    session = owner.session(ephemeral=True)
    owner.call("turn/start", session_id=session, text="slow")
    owner.event("text_delta")
    for client in (guest, watcher):
        client.ask("attach", session_id=session)
    guest.send({"type": "prompt", "message": "mine", "id": "m"})
    owner.event("queue")  # it waits behind the other one
    owner.call("turn/abort", session_id=session)
    seen = guest.until("done")
    assert [frame["data"] for frame in seen if frame.get("id") == "m"] == [{"started": True}]
    assert [frame["stop"] for frame in seen if frame["type"] == "turn_end"] == ["aborted", "end_turn"]
    assert text_of(seen).endswith("an answer")
    assert [watcher.until("done")[-1]["stop"] for _ in range(2)] == ["aborted", "end_turn"]
    # What it left behind in one session, it does not wait for in another.
    guest.send({"type": "prompt", "message": "slow"})
    guest.until("text_delta")
    other = owner.session(ephemeral=True)
    guest.ask("attach", session_id=other)
    owner.call("turn/start", session_id=other, text="hello")
    assert guest.until("done")[-1]["session_id"] == other
