"""Compaction as clients see it, in a real zotd with a scripted model."""

from __future__ import annotations

import json

import pytest

from tests.clients import Client, Frame, Machine, types
from tests.daemon.puppets import Stage

WORDS = {"match": r"^\w+$", "reply": [{"text": "ok"}], "times": 0, "usage": {"input": 400, "output": 5}}
FULL = {"match": r"^\w+$", "reply": [{"text": "ok"}], "times": 0, "usage": {"input": 880, "output": 5}}
GIST = {
    "match": "Summarise this conversation",
    "reply": [{"text": "the gist"}],
    "times": 0,
    "usage": {"input": 700, "output": 20},
}
SLOW = {"match": "Summarise", "reply": [{"text": "a b c d", "delay_ms": 60_000}]}


def play(machine: Machine, *entries: Frame) -> Stage:
    """A session of a scripted model whose window has 1,000 tokens."""
    stage = Stage(machine, script=list(entries))
    stage.session = stage.client.session(model="scripted:1000")
    return stage


def say(stage: Stage, text: str) -> list[Frame]:
    """Run one prompt to its end; its events."""
    turn = stage.call("turn/start", text=text)["turn_id"]
    return ended(stage, turn)


def ended(stage: Stage, turn: str) -> list[Frame]:
    seen: list[Frame] = []
    while not seen or (seen[-1]["type"], seen[-1].get("turn_id")) != ("done", turn):
        while not stage.client.events:
            stage.client.take()
        seen.append(stage.client.events.pop(0))
    return [event for event in seen if event.get("turn_id") == turn or event["type"] == "ext_notify"]


def texts(stage: Stage) -> list[str]:
    rows = stage.call("session/messages")["messages"]
    return ["".join(block.get("text", "") for block in row["content"]) for row in rows]


def test_a_window_that_is_nearly_full_is_made_room_in_at_the_next_prompt(machine: Machine) -> None:
    stage = play(machine, FULL, GIST)
    assert "compact_start" not in types(say(stage, "one"))
    assert stage.state["context"] == {"used": 885, "window": 1000}
    events = say(stage, "two")
    assert types(events) == [
        "user_message", "compact_start", "usage", "compact_done",
        "turn_start", "assistant_start", "text_delta", "usage", "assistant_message", "turn_end", "done",
    ]  # fmt: skip
    summary = events[3]
    assert summary["summary"] == "the gist"
    shown = texts(stage)
    assert shown[0].endswith("\n\nthe gist")
    assert shown[1:] == ["two", "ok"]
    state = stage.state
    assert (state["message_count"], state["last_message_id"]) == (
        len(shown),
        stage.call("session/messages")["messages"][-1]["message_id"],
    )
    assert summary["message_count"] == len(shown) - 1


def test_by_request_it_queues_is_waited_for_and_costs(machine: Machine) -> None:
    stage = play(machine, WORDS, GIST)
    for number in range(6):
        say(stage, f"p{number}")
    first = stage.call("session/messages")["messages"][-1]["message_id"]
    turn = stage.call("session/compact", instructions="keep names")["turn_id"]
    events = ended(stage, turn)
    assert types(events) == ["compact_start", "usage", "compact_done", "done"]
    waited = stage.call("turn/wait", turn_id=turn)
    assert (waited["stop"], waited["text"], waited["usage"]["input"]) == ("end_turn", "the gist", 700)
    assert texts(stage)[1:] == ["p2", "ok", "p3", "ok", "p4", "ok", "p5", "ok"]
    assert stage.state["usage"]["input"] == 6 * 400 + 700
    assert 0 < stage.state["context"]["used"] <= 405
    rows = stage.call("session/messages", since=first)["messages"]
    assert [row["message_id"] for row in rows] == [*range(first + 1, first + 10)]
    assert events[2]["last_message_id"] == first + 9
    assert "compact_start" not in types(say(stage, "next"))


def test_nothing_to_compact_is_an_error_directly_before_done(machine: Machine) -> None:
    stage = play(machine, WORDS)
    turn = stage.call("session/compact")["turn_id"]
    error, done = ended(stage, turn)
    assert (error["type"], error["message"], error["kind"]) == (
        "error",
        "nothing to compact",
        "nothing_to_compact",
    )
    assert (done["type"], done["stop"]) == ("done", "error")
    assert stage.call("turn/wait", turn_id=turn)["error"]["kind"] == "nothing_to_compact"


def test_an_abort_changes_nothing_and_what_waits_goes_on(machine: Machine) -> None:
    stage = play(machine, WORDS, {**SLOW, "times": 0})
    say(stage, "hello")
    first = stage.call("session/compact")["turn_id"]
    stage.event("compact_start")
    assert stage.state["active_turn"] == first
    second = stage.call("session/compact", instructions="more")["turn_id"]
    (waiting,) = stage.event("queue")["turns"]
    assert (waiting["turn_id"], waiting["text"]) == (second, "/compact more")
    later = stage.call("turn/start", text="later")["turn_id"]
    for turn in (first, second):
        assert stage.call("turn/abort")["aborted"] is True
        assert stage.event("done", turn_id=turn)["stop"] == "aborted"
        assert stage.call("turn/wait", turn_id=turn)["stop"] == "aborted"
        if turn == first:
            assert stage.event("compact_start")["turn_id"] == second
    assert stage.call("turn/wait", turn_id=later)["text"] == "ok"
    assert texts(stage) == ["hello", "ok", "later", "ok"]


def test_a_prompt_that_would_steer_a_compaction_is_the_turn_after_it(machine: Machine) -> None:
    stage = play(machine, WORDS, SLOW)
    say(stage, "hello")
    stage.call("session/compact")
    stage.event("compact_start")
    later = stage.call("turn/start", text="later", if_busy="steer")["turn_id"]
    stage.call("turn/abort")
    assert stage.call("turn/wait", turn_id=later)["text"] == "ok"
    assert texts(stage) == ["hello", "ok", "later", "ok"]


@pytest.mark.parametrize("how", ["/compact", "/Compact  the names ", "command/run"])
def test_the_command_runs_it_in_any_front_end(machine: Machine, how: str) -> None:
    stage = play(machine, WORDS, GIST)
    say(stage, "hello")
    if how == "command/run":
        ran = stage.call(how, name="compact", args="the names")
        assert ran["action"] == "prompt"
        turn = ran["turn_id"]
    else:
        accepted = stage.call("turn/start", text=how)
        assert accepted["state"] == "command"
        turn = accepted["turn_id"]
    events = ended(stage, turn)
    assert types(events) == ["command_result", "compact_start", "usage", "compact_done", "done"]
    assert stage.call("turn/wait", turn_id=turn)["text"] == "the gist"
    assert stage.state["message_count"] == 1


def test_a_turn_goes_on_when_the_summary_fails_and_a_note_says_so(machine: Machine) -> None:
    broken = {"match": "Summarise", "error": {"status": 529, "message": "overloaded"}, "times": 0}
    stage = play(machine, FULL, broken)
    say(stage, "one")
    events = say(stage, "two")
    assert types(events)[:4] == ["user_message", "compact_start", "ext_notify", "turn_start"]
    assert (events[2]["extension"], events[2]["level"]) == ("zotd", "warn")
    assert "overloaded (529)" in events[2]["message"]
    assert events[-1]["stop"] == "end_turn"
    assert "error" not in types(events)
    assert texts(stage) == ["one", "ok", "two", "ok"]


def zot(machine: Machine, *entries: Frame) -> Client:
    return machine.rpc(*machine.script(*entries), "--model", "scripted:1000")


def test_the_zot_dialect_has_it_as_a_command_and_as_a_prompt(machine: Machine) -> None:
    client = zot(machine, WORDS, GIST)
    client.send({"type": "compact", "id": 1})
    answer, error, done = client.until("done")
    assert answer == {
        "type": "response",
        "command": "compact",
        "success": True,
        "id": 1,
        "data": {"started": True},
    }
    assert (error["type"], error["message"], done["stop"]) == ("error", "nothing to compact", "error")
    client.send({"type": "prompt", "message": "hello"})
    client.until("done")
    client.send({"type": "compact", "instructions": "names", "id": "c"})
    frames = client.until("done")
    assert types(frames) == ["response", "compact_start", "usage", "compact_done", "done"]
    assert client.ask("get_state")["data"]["message_count"] == 1
    client.send({"type": "prompt", "message": "again"})
    client.until("done")
    client.send({"type": "prompt", "message": "/compact"})
    frames = client.until("done")
    assert types(frames) == ["response", "command_result", "compact_start", "usage", "compact_done", "done"]
    assert client.ask("compact", instructions=7)["error"] == "compact: `instructions` must be a string"


def test_the_zot_dialect_answers_a_second_one_when_its_turn_comes_and_an_abort_at_once(
    machine: Machine,
) -> None:
    client = zot(machine, WORDS, SLOW, GIST)
    client.send({"type": "prompt", "message": "hello"})
    client.until("done")
    client.send({"type": "compact", "id": 1})
    client.until("compact_start")
    client.send({"type": "compact", "id": 2})
    client.send({"type": "abort", "id": 3})
    frames = client.until("done")
    assert [(frame["type"], frame.get("id")) for frame in frames] == [("response", 3), ("done", None)]
    assert frames[-1]["stop"] == "aborted"
    frames = client.until("done")
    assert types(frames) == ["response", "compact_start", "usage", "compact_done", "done"]
    assert frames[0]["id"] == 2


def test_a_saved_session_goes_on_with_what_is_known_of_its_window(machine: Machine) -> None:
    flags = [*machine.script(FULL, GIST), "--model", "scripted:1000"]
    assert machine.run("-p", *flags, "one", stdin=None).stdout == "ok\n"
    (path,) = (machine.home / "sessions").rglob("*.jsonl")
    before = path.read_bytes()
    events, result, code = machine.json("--continue", *flags, "two")
    assert (result["text"], code) == ("ok", 0)
    assert types(events).count("compact_done") == 1
    assert path.read_bytes().startswith(before)
    done = machine.run("--continue", "-p", *flags, "/compact", "names", stdin=None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the gist\n", "")
    kinds = [json.loads(line)["type"] for line in path.read_bytes().splitlines()]
    assert kinds.count("compaction") == 2


def test_print_mode_fails_when_there_is_nothing_to_summarise(machine: Machine) -> None:
    done = machine.run("-p", *machine.script(GIST), "/compact", stdin=None)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing to compact" in done.stderr


def test_it_is_listed_and_described(machine: Machine) -> None:
    stage = play(machine, WORDS)
    listed = stage.call("command/list")["commands"]
    assert [row["name"] for row in listed] == ["clear", "compact", "reload-ext"]
    assert json.dumps(stage.client.call("rpc.discover")).count("session/compact") >= 1
