"""Extensions as their authors write them, in four languages, against a real zotd.

They know the protocol document and nothing of this host.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.clients import ROOT, Frame, Machine, text_of
from tests.e2e.shelf import EXAMPLES, Driver, drive, install, scripted, shelf

DIALECTS = ("json-rpc", "zot")


@pytest.fixture
def machine(machine: Machine) -> Machine:
    """One with the examples in its folder and Node.js in its path."""
    shelf(machine)
    return machine


def results(events: list[Frame]) -> list[tuple[bool, str]]:
    """What the tools of a turn answered: whether it was an error, and its text."""
    return [
        (event["is_error"], "".join(block["text"] for block in event["content"]))
        for event in events
        if event["type"] == "tool_result"
    ]


def displays(events: list[Frame]) -> list[str]:
    return [event["text"] for event in events if event["type"] == "ext_display"]


def notes(events: list[Frame]) -> list[tuple[str, str]]:
    return [(event["level"], event["message"]) for event in events if event["type"] == "ext_notify"]


# Commands, in every language


@pytest.mark.promise("S1", "S2", "S33")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_documents_own_script_in_the_global_folder_makes_the_agent_greet(
    machine: Machine, dialect: str
) -> None:
    driver = drive(machine, dialect, scripted(), "hello-py")
    events = driver.turn("/hellopy")
    asked = next(event for event in events if event["type"] == "user_message")
    assert asked["content"] == [{"type": "text", "text": "Greet me very briefly in one sentence."}]
    assert text_of(events) == "You said: Greet me very briefly in one sentence."


@pytest.mark.promise("S1", "S33", "S35", "S38")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_plain_node_that_registers_before_the_ack_and_never_says_ready(
    machine: Machine, dialect: str
) -> None:
    driver = drive(machine, dialect, scripted(), "clock")
    [shown] = displays(driver.turn("/CLOCK Asia/Tokyo"))
    assert re.fullmatch(r"It is \d\d:\d\d:\d\d in Asia/Tokyo\.", shown)
    assert notes(driver.turn("/clock Atlantis")) == [
        ("error", "no time zone is called Atlantis; try Europe/Berlin")
    ]
    assert text_of(driver.turn("/clock-rhyme")).endswith("Make a rhyme of two lines about it.")
    assert "counted as ready" in (machine.home / "logs" / "ext-clock.log").read_text()


@pytest.mark.promise("S1", "S7", "S12")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_typescript_from_its_source_by_npx_and_tsx(machine: Machine, dialect: str) -> None:
    driver = drive(machine, dialect, scripted("scratchpad"), "scratchpad")
    driver.ready("scratchpad")
    assert displays(driver.turn("/scratch buy a kettle")) == ["buy a kettle"]
    events = driver.turn("add tea to my list")
    assert results(events) == [(False, "buy a kettle\ntea")]
    assert text_of(events) == "Tea is on the page."
    page = machine.home / "extensions" / "scratchpad" / "page.txt"
    assert page.read_text() == "buy a kettle\ntea\n"
    assert displays(driver.turn("/scratch-clear")) == ["A new page."]
    assert not page.exists()


@pytest.mark.promise("S1", "S45")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_shell_script_with_jq_greets_by_any_name(machine: Machine, dialect: str) -> None:
    driver = drive(machine, dialect, scripted(), "shell-greet")
    for name in ("Ada", '"; rm -rf $HOME #', "back\\nslash `id`", "Zoë 👋"):
        assert displays(driver.turn(f"/greet   {name}  ")) == [f"Hello, {name}!"]
    assert displays(driver.turn("/greet")) == ["Hello, you!"]


# Deciding and rewriting


@pytest.mark.promise("S26", "S27", "S48")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_guard_stops_a_dangerous_command_and_tells_why(machine: Machine, dialect: str) -> None:
    (machine.cwd / "precious").write_text("keep me")
    driver = drive(machine, dialect, scripted("delete-everything"), "guard")
    events = driver.turn("delete everything")
    reason = "rm -r deletes whole directories, so this was not run: rm -rf ."
    assert results(events) == [(True, reason)]
    refusal = next(event for event in events if event["type"] == "tool_result")
    assert refusal["details"] == {"tool": "bash", "refused_by": "guard"}
    assert events[-1]["stop"] == "end_turn"
    assert (machine.cwd / "precious").read_text() == "keep me"


@pytest.mark.promise("S27", "S47")
def test_print_mode_shows_the_refusal_and_its_reason_beside_the_answer(machine: Machine) -> None:
    install(machine, "guard")
    done = machine.run(*scripted("delete-everything"), "-p", "delete everything")
    assert done.stderr == (
        "[guard] refused bash: rm -r deletes whole directories, so this was not run: rm -rf .\n"
    )
    assert done.stdout.startswith("I was not allowed to delete everything.")
    assert done.returncode == 0
    assert 'bash {"command": "rm -rf ."}\n' in (machine.home / "logs" / "ext-guard.log").read_text()


def test_the_guard_lets_harmless_commands_run(machine: Machine) -> None:
    call = {"tool_call": {"name": "bash", "args": {"command": "echo still here"}}}
    script = machine.script({"reply": [call]}, {"reply": [{"text": "Done."}]})
    driver = drive(machine, "json-rpc", script, "guard")
    [(failed, text)] = results(driver.turn("say so"))
    assert not failed
    assert "\nstill here\n" in text


@pytest.mark.promise("S29")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_event_and_no_saved_message_shows_what_the_redactor_took_out(
    machine: Machine, dialect: str
) -> None:
    driver = drive(machine, dialect, scripted("leak-a-key"), "redactor")
    events = driver.turn("what is my key?")
    assert text_of(events) == "Your key is [redacted]; please keep it safe."
    assert "sk-ant" not in json.dumps(events)
    if dialect == "zot":
        saved = driver.client.ask("get_messages")["data"]
    else:
        saved = driver.client.call("session/messages", session_id=driver.session_id)
    assert "[redacted]" in json.dumps(saved)
    assert "sk-ant" not in json.dumps(saved)


# Tools


@pytest.mark.promise("S19", "S21", "S22", "S25", "S46")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_answers_fails_and_brings_out_another(machine: Machine, dialect: str) -> None:
    driver = drive(machine, dialect, scripted("weather"), "weather")
    events = driver.turn("what is the weather?")
    assert results(events) == [
        (True, "no weather for 'Atlantis'; known: berlin, lisbon, oslo"),
        (False, "Berlin: 16°C, fog"),
        (False, "forecast is available now"),
        (False, "Tomorrow in Berlin: much the same, then rain."),
    ]
    details = [event["details"] for event in events if event["type"] == "tool_result"]
    assert {detail["extension"] for detail in details} == {"weather"}
    assert text_of(events) == "Fog in Berlin now, and rain tomorrow."


@pytest.mark.promise("S21", "S22")
def test_a_deferred_tool_cannot_be_called_before_it_is_brought_out(machine: Machine) -> None:
    def call(name: str) -> Frame:
        return {"reply": [{"tool_call": {"name": name, "args": {"city": "Oslo"}}}]}

    script = machine.script(call("forecast"), call("weather_tools"), call("forecast"), {"reply": []})
    driver = drive(machine, "json-rpc", script, "weather")
    early, loader, late = results(driver.turn("tomorrow?"))
    assert early[0]
    assert "forecast is not available yet" in early[1]
    assert loader == (False, "forecast is available now")
    assert late == (False, "Tomorrow in Oslo: much the same, then rain.")


@pytest.mark.promise("S7")
def test_a_theme_without_a_program_is_listed_and_starts_nothing(machine: Machine) -> None:
    install(machine, "theme-paper")
    driver = Driver(machine, "json-rpc", *scripted())
    themes = driver.client.call("theme/list", session_id=driver.session_id)["themes"]
    [paper] = [theme for theme in themes if theme["name"] == "paper"]
    source = json.loads((EXAMPLES / "extensions" / "theme-paper" / "theme.json").read_text("utf-8"))
    assert paper["theme"]["colors"] == source["colors"]
    assert not (machine.home / "logs" / "ext-theme-paper.log").exists()


# All of them


@pytest.mark.promise("S6", "S7", "S66")
def test_all_examples_together_are_ready_and_nothing_of_them_is_left(machine: Machine) -> None:
    names = sorted(path.parent.name for path in (EXAMPLES / "extensions").glob("*/extension.json"))
    install(machine, "theme-paper")
    driver = drive(machine, "json-rpc", scripted(), *(name for name in names if name != "theme-paper"))
    assert displays(driver.turn("/greet all")) == ["Hello, all!"]
    rows = driver.client.call("extension/list", session_id=driver.session_id)["extensions"]
    states = {row["name"]: row["state"] for row in rows}
    assert [*states] == names
    assert states.pop("clock") == "auto_ready"
    # Where ten start at once, the shell may be too slow between two frames to be waited for.
    assert {*states.values()} <= {"ready", "auto_ready"}
    driver.client.hang_up()
    assert driver.client.exit_code() == 0
    assert machine.left_running() == []


def commands_of(page: Path) -> list[str]:
    """The lines that a page tells its reader to type and that start zotd."""
    blocks = re.findall(r"```(?:bash|sh)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("zotd ")]


PAGES = {
    path.parent.name: path
    for path in sorted((EXAMPLES / "extensions").glob("*/README.md"))
    if commands_of(path)
}


@pytest.mark.parametrize("name", PAGES)
def test_what_a_readme_says_to_type_works(machine: Machine, name: str) -> None:
    for line in commands_of(PAGES[name]):
        done = machine.run(*shlex.split(line)[1:])
        assert done.returncode == 0, f"{line}: {done.stderr}"
        assert done.stdout, line


def test_the_extension_that_the_guide_prints_says_hello(machine: Machine) -> None:
    guide = (ROOT / "docs" / "extensions.md").read_text("utf-8")
    manifest, program = re.findall(r"```(?:json|python)\n(.*?)```", guide, re.DOTALL)
    folder = machine.cwd / "hello"
    folder.mkdir()
    (folder / "extension.json").write_text(manifest)
    (folder / "hello.py").write_text(program)
    (folder / "hello.py").chmod(0o755)
    [line] = commands_of(ROOT / "docs" / "extensions.md")
    done = machine.run(*shlex.split(line)[1:])
    assert (done.stdout, done.stderr, done.returncode) == ("Hello, Ada!\n", "", 0)


@pytest.mark.promise("S3")
def test_no_example_is_loaded_by_itself(machine: Machine) -> None:
    driver = Driver(machine, "json-rpc", *scripted())
    assert text_of(driver.turn("/greet")) == "You said: /greet"
    assert driver.client.call("extension/list", session_id=driver.session_id) == {"extensions": []}


def test_every_example_has_a_page_and_a_description_and_its_name_is_its_folders() -> None:
    manifests = sorted((EXAMPLES / "extensions").glob("*/extension.json"))
    assert len(manifests) >= 10
    for path in manifests:
        manifest, name = json.loads(path.read_text("utf-8")), path.parent.name
        assert manifest["name"] == name
        assert manifest["description"]
        assert (path.parent / "README.md").read_text("utf-8").startswith(f"# {name}\n")
