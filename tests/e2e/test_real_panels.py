"""Extensions with panels, driven by keys in both dialects, as a front end without a terminal does."""

from __future__ import annotations

import json

import pytest

from tests.clients import Frame, Machine
from tests.e2e.shelf import Driver, drive, install, scripted, shelf

DIALECTS = ("json-rpc", "zot")


@pytest.fixture
def machine(machine: Machine) -> Machine:
    """One with the examples in its folder."""
    shelf(machine)
    return machine


def asked(machine: Machine, dialect: str) -> tuple[Driver, Frame]:
    """A turn in which the model asks for approval, and the panel that is open for it."""
    driver = drive(machine, dialect, scripted("approve"), "approve")
    driver.prompt("release it")
    panel = driver.wait("ext_panel_open")
    assert panel["extension"] == "approve"
    assert panel["title"] == "May I?"
    assert panel["lines"] == ["Publish version 2.0 for everybody?"]
    assert panel["footer"] == "y yes - n no"
    return driver, panel


@pytest.mark.promise("S36", "S41", "S49")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("key", "answer"), [("y", "approved by the user"), ("n", "denied by the user")])
def test_a_tool_waits_for_the_key_that_a_person_presses(
    machine: Machine, dialect: str, key: str, answer: str
) -> None:
    driver, panel = asked(machine, dialect)
    driver.key(panel, "down")
    driver.key(panel, "rune", "?")
    driver.key(panel, "rune", key)
    result = driver.wait("tool_result")
    assert (result["is_error"], result["content"]) == (False, [{"type": "text", "text": answer}])
    ended = driver.wait("done", turn_id=result["turn_id"])
    assert ended["stop"] == "end_turn"
    if dialect == "zot":  # such clients stop at the first one: the command that opened the panel sends none
        assert driver.seen("done") == [ended]
    assert [(e["extension"], e["panel_id"]) for e in driver.seen("ext_panel_close")] == [
        ("approve", "approval")
    ]


@pytest.mark.promise("S50")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_question_that_is_closed_is_not_approved(machine: Machine, dialect: str) -> None:
    driver, panel = asked(machine, dialect)
    driver.key(panel, "esc")
    result = driver.wait("tool_result")
    assert result["content"][0]["text"] == "the user closed the question: not approved"
    driver.wait("done", stop="end_turn")
    assert len(driver.seen("ext_panel_close")) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_aborting_the_turn_takes_the_question_away(machine: Machine, dialect: str) -> None:
    driver, _ = asked(machine, dialect)
    driver.abort()
    driver.wait("ext_panel_close", extension="approve", panel_id="approval")
    if not driver.seen("done"):
        driver.wait("done", stop="aborted")
    assert driver.seen("done")[-1]["stop"] == "aborted"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_without_panels_is_not_asked_and_the_model_is_told(machine: Machine, dialect: str) -> None:
    driver = drive(machine, dialect, scripted("approve"), "approve", panels=False)
    events = driver.turn("release it")
    result = next(event for event in events if event["type"] == "tool_result")
    assert result["is_error"]
    assert "needs a person at a panel" in result["content"][0]["text"]
    assert driver.seen("ext_panel_open") == []


@pytest.mark.promise("S36", "S40", "S49")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_list_is_moved_through_ticked_and_written_on_by_keys(machine: Machine, dialect: str) -> None:
    driver = drive(machine, dialect, scripted("todo"), "todo")
    driver.prompt("/todos")
    panel = driver.wait("ext_panel_open")
    assert (panel["title"], panel["lines"]) == ("Todos", ["Nothing to do."])
    driver.wait("done")

    def press(key: str, text: str | None = None) -> list[str]:
        driver.key(panel, key, text)
        lines: list[str] = driver.wait("ext_panel_render")["lines"]
        return lines

    assert press("rune", "a") == ["+ _"]
    assert press("rune", "é") == ["+ é_"]
    assert press("rune", "!") == ["+ é!_"]
    assert press("backspace") == ["+ é_"]
    assert press("enter") == ["> □ é"]
    driver.turn("remind me of the milk")
    assert driver.seen("ext_panel_render")[-1]["lines"] == ["> □ é", "  □ buy milk"]
    assert press("down") == ["  □ é", "> □ buy milk"]
    assert press("rune", "x") == ["  □ é", "> ✓ buy milk"]
    assert press("up") == ["> □ é", "  ✓ buy milk"]
    assert press("rune", "d") == ["> ✓ buy milk"]
    driver.key(panel, "esc")
    driver.wait("ext_panel_close", extension="todo", panel_id="todos")
    saved = machine.home / "extensions" / "todo" / "todos.json"
    assert json.loads(saved.read_text("utf-8")) == [{"text": "buy milk", "done": True}]


@pytest.mark.promise("S10")
def test_what_was_written_in_one_run_is_there_in_the_next(machine: Machine) -> None:
    install(machine, "todo")
    assert machine.run(*scripted(), "-p", "/todos").stdout == "Nothing to do.\n"
    machine.run(*scripted("todo"), "-p", "remind me of the milk")
    assert machine.run(*scripted(), "-p", "/todos").stdout == "> □ buy milk\n"
    driver = Driver(machine, "json-rpc", *scripted())
    driver.ready("todo")
    driver.prompt("/todos")
    assert driver.wait("ext_panel_open")["lines"] == ["> □ buy milk"]
