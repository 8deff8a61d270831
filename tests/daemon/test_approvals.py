"""Whether a call may run is asked of everybody who can say so, and something always comes of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.clients import LONG, Client, Frame, Machine, Process, types
from tests.daemon.test_websocket import TOKEN, Daemon

SomeClient = TypeVar("SomeClient", bound=Client)
CAPABLE = {"approvals": True}


def calling(*commands: str) -> list[Frame]:
    """A model that runs commands, one a prompt, and then says something."""
    entries: list[Frame] = []
    for command in commands:
        entries += [{"reply": [{"tool_call": {"name": "bash", "args": {"command": command}}}]}]
        entries += [{"reply": [{"text": "so be it"}]}]
    return entries


def greet(client: SomeClient, name: str = "nvim") -> SomeClient:
    client.greet(client={"name": name, "version": "1"}, capabilities=CAPABLE)
    return client


def start(client: Client, session: str) -> str:
    turn: str = client.call("turn/start", session_id=session, text="go")["turn_id"]
    return turn


def ended(client: Client, session: str, turn: str) -> Frame:
    outcome: Frame = client.call("turn/wait", session_id=session, turn_id=turn)
    return outcome


def result_of(client: Client) -> tuple[bool, str, Frame]:
    """The next result: whether it is an error, its words, its details."""
    event = client.event("tool_result")
    return event["is_error"], event["content"][0]["text"], event["details"]


@pytest.mark.parametrize("headers", [False, True])
def test_all_who_can_answer_are_asked_at_once_and_the_first_answer_wins(
    machine: Machine, headers: bool
) -> None:
    _, path = machine.listen(*machine.script(*calling("touch made", "touch again")))
    ann, bob = greet(machine.connect(path), "ann"), greet(machine.connect(path, headers=headers), "bob")
    mute = machine.connect(path).greet()
    session = ann.session()
    for other in (bob, mute):
        other.call("session/attach", session_id=session)
    turn = start(ann, session)
    asked, too = ann.question(), bob.question()
    assert asked["method"] == "approval/request"
    assert (
        asked["params"]
        == too["params"]
        == {
            "session_id": session,
            "approval_id": "approval_1",
            "tool_call": {
                "id": asked["params"]["tool_call"]["id"],
                "name": "bash",
                "args": {"command": "touch made"},
            },
            "preview": {"kind": "command", "command": "touch made"},
        }
    )
    assert mute.event("approval_requested")["preview"] == {"kind": "command", "command": "touch made"}
    [open_one] = ann.call("session/state", session_id=session)["session"]["pending_approvals"]
    assert open_one == {key: asked["params"][key] for key in ("approval_id", "tool_call", "preview")}
    assert not (machine.cwd / "made").exists()
    bob.answer(too, decision="allow")
    resolved = mute.event("approval_resolved")
    assert (resolved["approval_id"], resolved["decision"], resolved["by"]) == ("approval_1", "allow", "bob")
    assert resolved["turn_id"] == turn
    assert ann.event("$/cancelRequest")["id"] == asked["id"]
    ann.answer(asked, decision="deny")  # too late
    assert result_of(mute)[0] is False
    assert ended(ann, session, turn)["text"] == "so be it"
    assert (machine.cwd / "made").exists()
    assert ann.call("session/state", session_id=session)["session"]["pending_approvals"] == []
    assert "$/cancelRequest" not in types(bob.events)
    assert not mute.questions

    second = start(bob, session)
    ann.answer(ann.question(), decision="deny", reason="not on a Monday")
    is_error, words, details = result_of(mute)
    assert (is_error, words) == (True, "denied by the user (ann): not on a Monday")
    assert details == {"tool": "bash", "denied_by": "ann"}
    assert ended(bob, session, second)["stop"] == "end_turn"
    assert not (machine.cwd / "again").exists()


def test_who_comes_later_is_asked_and_who_leaves_is_out(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(*calling("touch made")))
    ann = greet(machine.connect(path), "ann")
    session = ann.session()
    watcher = machine.connect(path).greet()
    watcher.call("session/attach", session_id=session)
    turn = start(watcher, session)
    first = ann.question()
    ann.call("session/detach", session_id=session)
    assert ann.event("$/cancelRequest")["id"] == first["id"]
    bob = greet(machine.connect(path), "bob")
    attached = bob.call("session/attach", session_id=session)["session"]
    assert [one["approval_id"] for one in attached["pending_approvals"]] == ["approval_1"]
    assert bob.question()["params"]["approval_id"] == "approval_1"
    watcher.call("session/attach", session_id=session, since=1, epoch="another")
    assert watcher.event("resync")["session"]["pending_approvals"] == attached["pending_approvals"]
    bob.hang_up()
    ann.call("session/attach", session_id=session)
    again = ann.question()
    assert again["id"] != first["id"]
    ann.call("session/attach", session_id=session)  # who waits for an answer asks no second time
    ann.answer(again, decision="allow")
    assert watcher.event("approval_resolved")["by"] == "ann"
    assert ended(watcher, session, turn)["stop"] == "end_turn"
    assert ann.questions == []


def test_a_client_that_says_anew_what_it_can_do_is_asked_accordingly(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(*calling("touch made")))
    ann, bob = greet(machine.connect(path), "ann"), machine.connect(path).greet()
    session = ann.session()
    bob.call("session/attach", session_id=session)
    turn = start(ann, session)
    first = ann.question()
    greet(bob, "bob")
    assert bob.question()["params"] == first["params"]
    ann.greet()
    assert ann.event("$/cancelRequest")["id"] == first["id"]
    again = greet(greet(ann, "ann"), "ann").question()
    ann.answer(again, decision="allow")
    assert bob.event("approval_resolved")["by"] == "ann"
    assert ended(bob, session, turn)["stop"] == "end_turn"
    assert ann.questions == bob.questions == []
    assert bob.greet().call("session/new")["session"]["approval"] == "auto"


def test_a_client_that_answers_badly_is_out_and_the_others_are_waited_for(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(*calling("touch made")))
    ann, bob, eve = (greet(machine.connect(path), name) for name in ("ann", "bob", "eve"))
    session = ann.session()
    for other in (bob, eve):
        other.call("session/attach", session_id=session)
    turn = start(ann, session)
    refusal = {"code": -32601, "message": "method not found"}
    bob.send([{"jsonrpc": "2.0", "id": bob.question()["id"], "error": refusal}])
    eve.answer(eve.question(), decision="perhaps", scope=None)
    told = ann.event("ext_notify")
    assert (told["extension"], told["level"]) == ("zotd", "warn")
    assert told["message"] == (
        "the answer of eve to approval_1 does not count: "
        "$.decision: expected 'allow' or 'deny', got 'perhaps'"
    )
    ann.answer(ann.question(), decision="allow", scope=None, reason=None, _meta={})
    assert ended(bob, session, turn)["stop"] == "end_turn"
    assert bob.event("approval_resolved")["by"] == "ann"
    assert "$/cancelRequest" not in [*types(bob.events), *types(eve.events)]


def test_one_whose_answer_did_not_count_is_asked_again_when_it_attaches_again(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(*calling("touch made")))
    ann = greet(machine.connect(path), "ann")
    session = ann.session()
    turn = start(ann, session)
    ann.answer(ann.question(), decision="perhaps")
    ann.event("ext_notify")
    ann.call("session/attach", session_id=session)
    ann.answer(ann.question(), decision="allow")
    assert ended(ann, session, turn)["stop"] == "end_turn"
    assert types(ann.events).count("approval_resolved") == 1


def test_a_private_client_that_refuses_everything_has_its_calls_denied_at_once(machine: Machine) -> None:
    process = greet(machine.rpc(*machine.script(*calling("touch made"))))
    session = process.session()
    turn = start(process, session)
    question = process.question()
    process.send({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32601, "message": "no"}})
    assert process.event("approval_resolved")["by"] == "no client"
    is_error, words, details = result_of(process)
    assert (is_error, details["denied_by"]) == (True, "no client")
    assert words.startswith("not run: it has to be approved")
    assert ended(process, session, turn)["text"] == "so be it"


def test_at_the_end_of_input_a_private_server_denies_what_is_open_and_finishes(machine: Machine) -> None:
    process = greet(machine.rpc(*machine.script(*calling("touch made", "touch again"))))
    session = process.session()
    start(process, session)
    start(process, session)
    process.question()
    process.hang_up()
    assert process.exit_code() == 0
    assert process.stderr == ""
    while (message := process.raw()) is not None:
        if "method" in message:
            process.events.append({"type": message["method"], **message["params"]})
    denied = [event["details"] for event in process.events if event["type"] == "tool_result"]
    assert denied == [{"tool": "bash", "denied_by": "no client"}] * 2
    assert [event["stop"] for event in process.events if event["type"] == "done"] == ["end_turn"] * 2
    resolved = [event["decision"] for event in process.events if event["type"] == "approval_resolved"]
    assert resolved == ["deny"]
    assert list(machine.cwd.iterdir()) == []


@pytest.mark.parametrize("how", ["turn/abort", "session/close"])
def test_a_turn_that_is_stopped_takes_its_question_back(machine: Machine, how: str) -> None:
    process = greet(machine.rpc(*machine.script(*calling("touch made", "touch again"))))
    session = process.session()
    turn = start(process, session)
    question = process.question()
    waiting = process.request("turn/wait", session_id=session, turn_id=turn)
    process.call(how, session_id=session)
    assert process.reply(waiting)["result"]["stop"] == "aborted"
    assert process.event("$/cancelRequest")["id"] == question["id"]
    resolved = process.event("approval_resolved")
    assert (resolved["decision"], resolved["by"]) == ("deny", "aborted")
    assert result_of(process)[1] == "aborted"
    process.answer(question, decision="allow")
    assert process.call("ping") == {}
    assert not (machine.cwd / "made").exists()


def test_questions_go_over_a_websocket_too(machine: Machine) -> None:
    daemon = Daemon(machine, *machine.script(*calling("touch made")))
    with daemon.stack:
        client = daemon.client()
        client.greet(token=TOKEN, capabilities=CAPABLE, client={"name": "code", "version": "1"})
        session = client.session()
        turn = start(client, session)
        client.answer(client.question(), decision="allow")
        assert client.event("approval_resolved")["by"] == "code"
        assert ended(client, session, turn)["stop"] == "end_turn"
    assert (machine.cwd / "made").exists()


def test_questions_that_others_have_answered_do_not_wait_for_one_that_does_not_read(machine: Machine) -> None:
    count, reads = 20, threading.Event()
    _, path = machine.listen(*machine.script(*calling(*["x" * 200_000] * (count + 1))))
    reads.set()
    ann, late = greet(machine.connect(path), "ann"), greet(machine.connect(path, reads=reads), "late")
    session = ann.session()
    late.call("session/attach", session_id=session)
    reads.clear()
    for _ in range(count):
        turn = start(ann, session)
        ann.answer(ann.question(), decision="deny")
        assert ended(ann, session, turn)["stop"] == "end_turn"
    turn = start(ann, session)
    last = ann.question()
    reads.set()
    while not late.questions or late.questions[-1]["params"]["approval_id"] != last["params"]["approval_id"]:
        late.take()
    *before, open_one = late.questions
    assert len(before) < count // 2
    taken_back = [event["id"] for event in late.events if event["type"] == "$/cancelRequest"]
    assert taken_back == [question["id"] for question in before]
    late.answer(open_one, decision="deny")
    ended(ann, session, turn)
    decided = [event["by"] for event in ann.events if event["type"] == "approval_resolved"]
    assert decided == ["ann"] * count + ["late"]


EDITOR = """
import json, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
def send(number, method, **params):
    frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    line.sendall(json.dumps(frame).encode() + b"\\n")
send(1, "initialize", protocol_version=1, capabilities={"approvals": True})
send(2, "session/attach", session_id=sys.argv[2])
for each in line.makefile():
    if "approval/request" in each:
        print("asked", flush=True)
"""


def test_an_editor_that_is_killed_while_it_is_asked_holds_up_nobody(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(*calling("touch made")))
    ann = greet(machine.connect(path), "ann")
    session = ann.session()
    argv = [sys.executable, "-S", "-c", EDITOR, str(path), session]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=machine.env) as editor:
        turn = start(ann, session)
        question = ann.question()
        assert editor.stdout is not None
        assert editor.stdout.readline() == b"asked\n"
        editor.send_signal(signal.SIGKILL)
    ann.answer(question, decision="allow")
    assert ended(ann, session, turn)["stop"] == "end_turn"
    assert ann.event("approval_resolved")["by"] == "ann"


GUARD = """
import json, sys
def say(**frame):
    print(json.dumps(frame), flush=True)
say(type="hello", name="guard", version="1")
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "hello_ack":
        say(type="subscribe", intercept=["tool_call"])
        say(type="ready")
    elif frame["type"] == "event_intercept":
        answer = {"type": "event_intercept_response", "id": frame["id"]}
        command = frame["tool_args"]["command"]
        if "never" in command:
            say(**answer, block=True, reason="never means never")
        else:
            say(**answer, modified_args={"command": command + "; true"})
    elif frame["type"] == "shutdown":
        break
"""


def test_the_user_sees_what_extensions_made_of_a_call_and_is_not_asked_about_what_they_refuse(
    machine: Machine,
) -> None:
    folder = machine.extension("guard", GUARD)
    process = greet(machine.rpc(*machine.script(*calling("touch made", "touch never")), "--ext", folder))
    session = process.session()
    turn = start(process, session)
    question = process.question()
    assert question["params"]["tool_call"]["args"] == {"command": "touch made; true"}
    assert question["params"]["preview"]["command"] == "touch made; true"
    assert question["params"]["original_args"] == {"command": "touch made"}
    process.answer(question, decision="allow")
    ended(process, session, turn)
    assert result_of(process)[2]["modified_by"] == ["guard"]
    ended(process, session, start(process, session))
    is_error, words, details = result_of(process)
    assert (is_error, words, details) == (True, "never means never", {"tool": "bash", "refused_by": "guard"})
    assert process.questions == []


def test_who_opens_a_session_decides_whether_it_asks(machine: Machine) -> None:
    _, path = machine.listen()
    capable, plain = greet(machine.connect(path)), machine.connect(path).greet()

    def policy(client: Client, method: str, **params: Any) -> str:
        return str(client.call(method, **params)["session"]["approval"])

    saved = plain.session()
    assert policy(plain, "session/state", session_id=saved) == "auto"
    assert policy(capable, "session/attach", session_id=saved) == "auto"  # it is open already
    assert policy(capable, "session/new") == "ask"
    assert policy(capable, "session/new", approval="rules") == "rules"
    assert policy(capable, "session/new", approval="auto") == "auto"
    assert policy(plain, "session/new", approval="ask") == "ask"
    assert "approval" in capable.error("session/new", approval="never")["data"]["path"]
    ended(plain, saved, start(plain, saved))
    plain.call("session/close", session_id=saved)
    rows = {True: "ask", False: "auto"}
    for client in (capable, plain):
        listed = client.call("session/list")["sessions"]
        [row] = [row for row in listed if row["session_id"] == saved]
        assert (row["open"], row["approval"]) == (False, rows[client is capable])
        assert policy(client, "session/rename", session_id=saved, title="x") == rows[client is capable]
    assert policy(capable, "session/load", session_id=saved) == "ask"
    preface = machine.connect(path)
    preface.send({"zotd": 1, "flags": {"no_yolo": True, "provider": "scripted"}})
    assert preface.raw()["zotd"] == 1
    assert policy(preface.greet(), "session/new") == "ask"
    odd = machine.connect(path)
    odd.send({"zotd": 1, "flags": {"no_yolo": True, "approval": "auto"}})
    assert odd.raw()["error"]["data"]["path"] == "$.flags.approval"


def test_a_session_that_is_told_to_run_everything_runs_what_it_asks_about(machine: Machine) -> None:
    process = greet(machine.rpc(*machine.script(*calling("touch made", "touch again"))))
    session = process.session()
    turn = start(process, session)
    question = process.question()
    answer = process.call("session/set", session_id=session, approval="auto")["session"]
    assert answer["approval"] == "auto"
    assert process.event("$/cancelRequest")["id"] == question["id"]
    resolved = process.event("approval_resolved")
    assert (resolved["decision"], resolved["by"]) == ("allow", "nvim")
    changed = process.event("session_changed")["session"]
    assert (changed["approval"], changed["pending_approvals"]) == ("auto", [])
    assert ended(process, session, turn)["stop"] == "end_turn"
    assert (machine.cwd / "made").exists()
    process.call("session/set", session_id=session, approval="ask")
    second = start(process, session)
    process.answer(process.question(), decision="deny")
    ended(process, session, second)
    assert not (machine.cwd / "again").exists()


def test_an_answer_holds_as_long_as_it_says(machine: Machine) -> None:
    commands = ["true once", "true once", "true twice", "true twice", "true ever", "true ever"]
    process = greet(machine.rpc(*machine.script(*calling(*commands, *commands))))
    session = process.session()
    rules = machine.home / "permissions.json"
    asked = []
    for scope in ("once", "once", "session", None, "always", None):
        turn = start(process, session)
        if scope is not None:
            question = process.question()
            asked.append(question["params"]["tool_call"]["args"]["command"])
            process.answer(question, decision="allow", scope=scope)
        assert ended(process, session, turn)["stop"] == "end_turn"
    assert asked == ["true once", "true once", "true twice", "true ever"]
    wait_for(rules)
    [rule] = json.loads(rules.read_text())["rules"]
    assert (rule["decision"], rule["answered"]) == ("allow", True)
    other = process.session()
    for command, scope in (
        ("once", "once"),
        ("once", "once"),
        ("twice", "once"),
        ("twice", "once"),
        ("ever", None),
    ):
        turn = start(process, other)
        if scope is not None:
            question = process.question()
            assert question["params"]["tool_call"]["args"]["command"] == f"true {command}"
            process.answer(question, decision="deny")
        assert ended(process, other, turn)["stop"] == "end_turn"
    assert process.questions == []


def wait_for(path: Path) -> None:
    """Until there is such a file."""
    for _ in range(int(LONG / 0.01)):
        if path.exists():
            return
        subprocess.run(["true"], check=True)
    raise AssertionError(f"there is no {path}")


def test_an_answer_that_cannot_be_written_down_counts_all_the_same(machine: Machine) -> None:
    (machine.home / "permissions.json").mkdir()
    process = greet(machine.rpc(*machine.script(*calling("touch made", "touch made"))))
    session = process.session()
    turn = start(process, session)
    process.answer(process.question(), decision="allow", scope="always")
    ended(process, session, turn)
    assert (machine.cwd / "made").exists()
    told = [process.event("ext_notify")["message"]]
    while "cannot be written down" not in told[-1]:
        told.append(process.event("ext_notify")["message"])
    assert "permissions.json" in told[-1]


def test_a_zot_client_cannot_be_asked_unless_an_editor_sees_its_session(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(*calling("touch made", "touch again")), "--no-yolo")
    zot = machine.connect(path)
    zot.send({"type": "hello", "protocol_version": 1})
    zot.until("response")
    zot.send({"type": "prompt", "message": "go"})
    [result] = [frame for frame in zot.until("done") if frame["type"] == "tool_result"]
    assert result["details"]["denied_by"] == "no client"
    editor = greet(machine.connect(path))
    [row] = editor.call("session/list")["sessions"] or [{"session_id": ""}]
    editor.call("session/attach", session_id=row["session_id"])
    zot.send({"type": "prompt", "message": "go"})
    editor.answer(editor.question(), decision="allow")
    [result] = [frame for frame in zot.until("done") if frame["type"] == "tool_result"]
    assert not result["is_error"]
    assert [path.name for path in machine.cwd.iterdir()] == ["again"]


def test_zot_on_stdio_says_that_calls_will_be_denied(machine: Machine) -> None:
    process: Process = machine.rpc(*machine.script(*calling("touch made")), "--no-yolo")
    process.send({"type": "prompt", "message": "go"})
    [result] = [frame for frame in process.until("done") if frame["type"] == "tool_result"]
    assert (result["is_error"], result["details"]["denied_by"]) == (True, "no client")
    assert process.stderr.count("nobody can be asked here") == 1
    process.hang_up()
    assert process.exit_code() == 0


def test_zot_behind_a_forwarder_says_it_too_and_an_editor_there_does_not(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(*calling("touch made")))
    forwarders = [machine.rpc("--connect", path, "--no-yolo") for _ in range(2)]
    zot, editor = forwarders
    assert zot.ask("ping")["success"]
    editor.greet(capabilities=CAPABLE)
    for process, said in ((zot, 1), (editor, 0)):
        process.hang_up()
        assert process.exit_code() == 0
        assert process.stderr.count("nobody can be asked here") == said


@pytest.mark.parametrize("flag", [["--no-yolo"], ["--approval", "ask"], ["--approval", "rules"]])
def test_a_run_with_a_denied_call_ends_with_3_though_the_model_answers(
    machine: Machine, flag: list[str]
) -> None:
    script = machine.script(*calling("touch made"))
    done = machine.run("-p", *script, *flag, "go")
    assert (done.returncode, done.stdout) == (3, "so be it\n")
    assert ("nobody can be asked here" in done.stderr) is ("rules" not in flag)
    assert "zotd: bash: not run: it has to be approved" in done.stderr
    events, result, code = machine.json(*script, *flag, "go")
    assert (code, result["ok"], result["text"]) == (3, False, "so be it")
    assert result["error"] == "a call of a tool was not approved"
    [denied] = [event for event in events if event["type"] == "tool_result"]
    assert denied["details"] == {"tool": "bash", "denied_by": "no client"}
    assert not (machine.cwd / "made").exists()


def test_a_run_that_wants_calls_approved_does_not_join_a_session_that_runs_them_all(machine: Machine) -> None:
    _, path = machine.listen(*machine.script(*calling("touch made")))
    plain = machine.connect(path).greet()
    session = plain.session(approval="rules")
    turn = start(plain, session)
    plain.call("session/set", session_id=session, approval="auto")
    ended(plain, session, turn)
    joining = ["-p", "--connect", str(path), "--session", session]
    for flags in (["--no-yolo"], ["--approval", "rules"]):
        done = machine.run(*joining, *flags, "go")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"session {session} is open with --approval auto: more runs there" in done.stderr
    zot = machine.connect(path)
    zot.send({"zotd": 1, "dialect": "zot", "flags": {"session": session, "no_yolo": True}})
    zot.raw()
    refused = zot.ask("prompt", message="go")
    assert (refused["success"], "is open with --approval auto" in refused["error"]) == (False, True)
    assert plain.call("session/state", session_id=session)["session"]["message_count"] == 4
    assert machine.run(*joining, "go").stdout == "so be it\n"
    plain.call("session/set", session_id=session, approval="ask")
    assert machine.run(*joining, "--approval", "rules", "go").stdout == "so be it\n"


def test_a_line_of_more_commands_than_anybody_writes_is_asked_about_as_a_whole(machine: Machine) -> None:
    rules = [{"tool": "bash", "pattern": "true", "decision": "allow"}]
    (machine.home / "permissions.json").write_text(json.dumps({"rules": rules}))
    lines = [";".join(["true"] * count) for count in (100, 101)]
    process = greet(machine.rpc(*machine.script(*calling(*lines)), "--approval", "rules"))
    session = process.session()
    ended(process, session, start(process, session))
    assert (result_of(process)[0], process.questions) == (False, [])
    turn = start(process, session)
    process.answer(process.question(), decision="deny")
    assert ended(process, session, turn)["stop"] == "end_turn"


def test_rules_let_a_run_do_what_they_allow_and_an_extension_that_refuses_is_no_denial(
    machine: Machine,
) -> None:
    rules = [{"tool": "bash", "pattern": "touch *", "decision": "allow"}]
    rules += [{"tool": "bash", "pattern": "rm *", "decision": "deny", "reason": "nothing goes"}]
    (machine.home / "permissions.json").write_text(json.dumps({"rules": rules}))
    done = machine.run("-p", *machine.script(*calling("touch made")), "--approval", "rules", "go")
    assert (done.returncode, done.stderr) == (0, "")
    assert (machine.cwd / "made").exists()
    events, _, code = machine.json(*machine.script(*calling("rm made")), "--approval", "rules", "go")
    [denied] = [event for event in events if event["type"] == "tool_result"]
    assert (code, denied["details"]["denied_by"]) == (3, "rules")
    assert "nothing goes" in denied["content"][0]["text"]
    folder = machine.extension("guard", GUARD)
    argv = [*machine.script(*calling("touch never")), "--ext", str(folder), "--approval", "rules"]
    assert machine.run("-p", *argv, "go").returncode == 0
