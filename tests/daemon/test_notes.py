"""Notes of extensions: they stand until the next prompt, failures until somebody clears them."""

from __future__ import annotations

import pytest
from msgspec import convert

from tests.clients import Machine, types
from tests.daemon.puppets import SOURCE, Stage, flags, response, words
from zotd.base.limits import Limits
from zotd.daemon.notes import Notes
from zotd.protocol.events import Event, ExtClearNotes, ExtDisplay, ExtNotify
from zotd.protocol.session import Note, SessionInfo
from zotd.schema.docstrings import documentation
from zotd.store.view import SessionView

NOTE = {"type": "notify", "level": "success", "message": "done it"}


def texts(stage: Stage) -> list[tuple[str, str]]:
    return [(row["extension"], row["text"]) for row in stage.state["notes"]]


@pytest.mark.promise("S14", "S42")
@pytest.mark.parametrize("level", ["info", "success", "warn", "error"])
def test_a_note_has_its_level_and_its_owner(machine: Machine, level: str) -> None:
    stage = Stage(machine, "pup")
    stage.say("pup", {**NOTE, "level": level})
    note = stage.event("ext_notify")
    assert (note["extension"], note["level"], note["message"]) == ("pup", level, "done it")
    assert texts(stage) == [("pup", "done it")]


@pytest.mark.promise("S42")
@pytest.mark.parametrize("how", ["turn/start", "session/clear", "notes/clear", "/clear"])
def test_the_next_prompt_and_each_way_to_clear_take_every_owner_s_notes(machine: Machine, how: str) -> None:
    stage = Stage(machine, "pup", "other")
    for name in ("pup", "other"):
        stage.say(name, NOTE, response("display", display="shown"))
        stage.event("done")
    assert len(texts(stage)) == 4
    params = {"turn/start": {"text": "hello"}, "/clear": {"text": "/clear"}}.get(how, {})
    method = "turn/start" if how == "/clear" else how
    before = stage.client.request(method, session_id=stage.session, **params)
    stage.client.reply(before)
    assert "ext_clear_notes" not in types(stage.client.events)
    assert [stage.event("ext_clear_notes")["extension"] for _ in range(2)] == ["pup", "other"]
    assert texts(stage) == []


@pytest.mark.promise("S43")
def test_an_extension_clears_its_own_notes_and_no_other_s(machine: Machine) -> None:
    stage = Stage(machine, "pup", "other")
    for name in ("pup", "other"):
        stage.say(name, NOTE, response("display", display="shown"))
        stage.event("done")
    stage.say("pup", {"type": "clear_notes"})
    assert stage.event("ext_clear_notes")["extension"] == "pup"
    assert texts(stage) == [("other", "done it"), ("other", "shown")]


@pytest.mark.promise("S43")
def test_the_zot_dialect_has_the_same_events(machine: Machine) -> None:
    client = machine.rpc(*flags(machine, "pup"))
    client.send({"type": "prompt", "message": words("pup", NOTE, {"type": "clear_notes"})})
    frames = client.until("done")
    kinds = [kind for kind in types(frames) if kind in ("ext_notify", "ext_clear_notes")]
    assert kinds == ["ext_notify", "ext_clear_notes"]


def broken(machine: Machine) -> list[str]:
    """Flags of an extension that ends before it has said hello."""
    folder = machine.extension("broken", "import sys; sys.exit(7)")
    return ["--ext", str(folder)]


@pytest.mark.promise("S69")
@pytest.mark.parametrize("how", ["session/clear", "notes/clear"])
def test_a_failure_to_load_stands_through_prompts_until_it_is_cleared(machine: Machine, how: str) -> None:
    client = machine.rpc("--provider", "scripted", *broken(machine)).greet()
    session = client.session()
    assert "exit status 7" in client.event("ext_notify")["message"]
    turn = client.call("turn/start", session_id=session, text="hello")["turn_id"]
    client.call("turn/wait", session_id=session, turn_id=turn)
    (note,) = client.call("session/state", session_id=session)["session"]["notes"]
    assert (note["extension"], note["level"]) == ("broken", "error")
    assert "ext_clear_notes" not in types(client.events)
    client.call(how, session_id=session)
    assert client.event("ext_clear_notes")["extension"] == "broken"
    assert client.call("session/state", session_id=session)["session"]["notes"] == []
    left = len(client.call("session/messages", session_id=session)["messages"])
    assert left == (0 if how == "session/clear" else 2)


@pytest.mark.promise("S51", "S69")
def test_a_reload_clears_the_failures_of_before_and_tells_those_that_remain_once(machine: Machine) -> None:
    client = machine.rpc("--provider", "scripted", *broken(machine)).greet()
    session = client.session()
    client.event("ext_notify")
    for _ in range(3):
        client.call("extension/reload", session_id=session)
        assert client.event("ext_clear_notes")["extension"] == "broken"
        assert "exit status 7" in client.event("ext_notify")["message"]
    (note,) = client.call("session/state", session_id=session)["session"]["notes"]
    assert note["extension"] == "broken"
    (machine.root / "broken" / "main.py").write_text(SOURCE)
    assert client.call("extension/reload", session_id=session)["errors"] == []
    assert client.event("ext_clear_notes")["extension"] == "broken"
    assert client.call("session/state", session_id=session)["session"]["notes"] == []


@pytest.mark.promise("S51", "S69")
def test_print_mode_tells_each_failure_once_also_after_a_reload(machine: Machine) -> None:
    done = machine.run("-p", *flags(machine, "pup"), *broken(machine), "/reload-ext", stdin=None)
    assert (done.returncode, done.stdout) == (0, "stopped: pup; ready: pup; failed: 1\n")
    assert [line[:15] for line in done.stderr.splitlines()] == ["[broken] error:"]


@pytest.mark.promise("S42")
def test_print_mode_writes_notes_on_standard_error(machine: Machine) -> None:
    text = words("pup", {**NOTE, "level": "warn"}, response("display", display="the answer"))
    done = machine.run("-p", *flags(machine, "pup"), text, stdin=None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the answer\n", "[pup] warn: done it\n")


# The fold itself

PICTURE = convert(documentation(SessionInfo).example, SessionInfo)


class Board:
    """Notes, and what left."""

    def __init__(self, kept: int = 256, most: int = 1_000) -> None:
        limits = Limits(notes_kept=kept, notes_bytes=most)
        self.view = SessionView(PICTURE, limits)
        self.notes = Notes(self.publish, self.view.notes, kept)
        self.left: list[Event] = []

    def publish(self, event: Event) -> None:
        self.left.append(event)
        self.view.fold(event, "", None)
        for another in self.notes.follow(event):
            self.publish(another)

    @property
    def standing(self) -> list[Note]:
        return self.view.notes.rows()


def notice(message: str, extension: str = "a") -> ExtNotify:
    return ExtNotify(extension=extension, level="info", message=message)


@pytest.mark.promise("S69")
def test_a_failure_is_shown_again_when_other_notes_of_its_owner_are_cleared() -> None:
    board = Board()
    board.notes.fail("a", "broken")
    (failure,) = board.left
    (note,) = board.standing
    board.publish(notice("hello"))
    board.publish(notice("other", "b"))
    del board.left[:]
    board.notes.prompted()
    assert board.left == [ExtClearNotes(extension="a"), failure, ExtClearNotes(extension="b")]
    assert board.standing == [note]
    board.notes.prompted()
    board.publish(ExtClearNotes(extension="a"))
    assert board.standing == [note]
    board.notes.clear()
    assert board.standing == []
    board.publish(notice("fresh"))
    board.notes.prompted()
    assert board.standing == []


def test_the_oldest_note_makes_room_and_failures_last() -> None:
    board = Board(kept=3)
    board.notes.fail("a", "broken")
    (failure,) = board.standing
    for number in range(5):
        board.publish(ExtDisplay(extension="b", text=str(number)))
    assert [note.text for note in board.standing] == ["broken", "3", "4"]
    for number in range(5):
        board.notes.fail("c", str(number))
    assert [note.text for note in board.standing] == ["2", "3", "4"]
    assert failure not in board.standing


def test_notes_together_have_a_bound_in_bytes() -> None:
    board = Board(most=100)
    board.notes.fail("a", "broken")
    (failure,) = board.standing
    for letter in "bcd":
        board.publish(notice(letter * 40))
    assert [note.text[0] for note in board.standing] == ["b", "c", "d"]
    assert (board.standing[0], board.standing[1].text) == (failure, "c" * 40)
    board.publish(notice("\u00e9" * 30))
    assert [note.text[:3] for note in board.standing] == ["bro", "\u00e9" * 3]
    board.publish(ExtClearNotes(extension="a"))
    board.publish(notice("x" * 90))
    assert [note.text[0] for note in board.standing] == ["b", "x"]


def test_a_note_that_is_too_long_is_cut_and_the_log_says_so(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    stage.say("pup", {**NOTE, "message": "\u2028" * 2**19})
    assert stage.event("ext_notify")["message"] == "\u2028" * (2**20 // 3)
    assert "a note was cut to its first 1,048,576 bytes: it has 524,288 characters" in stage.log("pup")


@pytest.mark.parametrize("action", ["display", "insert"])
def test_an_answer_that_is_too_long_is_cut(machine: Machine, action: str) -> None:
    stage = Stage(machine, "pup", capabilities={"insert": True})
    stage.say("pup", response(action, **{action: "x" * (2**20 + 1)}))
    assert stage.event(f"ext_{action}")["text"] == "x" * 2**20
    assert f"the answer to /pup, {action}, was cut" in stage.log("pup")


def test_a_prompt_that_is_too_long_is_refused(machine: Machine) -> None:
    stage = Stage(machine, "pup")
    turn = stage.say("pup", response("prompt", prompt="x" * (2**20 + 1)))
    stage.event("done", turn_id=turn)
    assert "gave a prompt that is too long" in stage.state["notes"][0]["text"]
    assert stage.state["message_count"] == 0
