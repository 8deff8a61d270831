from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.children import children
from tests.extensions.conftest import HELLO_PY, NOTES, SHORT, World, run
from zotd import __version__
from zotd.extensions.host import CommandInfo
from zotd.process.kept import KEEPER
from zotd.process.spawn import Scope
from zotd.protocol.events import ExtClearNotes, ExtNotify, ExtRegistered, ExtState

SHELL = """#!/bin/sh
echo '{"type":"hello","name":"shell"}'
while read -r frame; do
  case $frame in
    *hello_ack*) echo '{"type":"register_command","name":"shout"}'; echo '{"type":"ready"}' ;;
    *command_invoked*)
      id=${frame#*'"id":"'}; id=${id%%'"'*}
      echo '{"type":"command_response","id":"'"$id"'","action":"display","display":"'"$1"'"}' ;;
    *shutdown*) echo '{"type":"shutdown_ack"}'; exit ;;
  esac
done
"""


@pytest.mark.promise("S2")
@pytest.mark.promise("S33")
async def test_the_quick_start_of_the_protocol_document_runs_unchanged(world: World) -> None:
    world.explicit = [HELLO_PY]
    async with world.running() as host:
        assert host.commands() == [CommandInfo("hellopy", "say hi (python)", "hello-py")]
        answer = await run(host, "/hellopy")
        assert (answer.action, answer.error) == ("prompt", None)
        assert answer.text == "Greet me very briefly in one sentence."
        assert [row.state for row in host.states()] == ["ready"]
    assert host.commands() == []
    assert [(event.state, event.error) for event in world.seen(ExtState)] == [
        ("starting", None),
        ("ready", None),
        ("stopped", None),
    ]
    assert [event.commands for event in world.seen(ExtRegistered)] == [["hellopy"], []]


@pytest.mark.promise("S14")
@pytest.mark.promise("S35")
@pytest.mark.promise("S42")
@pytest.mark.promise("S43")
async def test_the_example_of_notes_pushes_shows_and_clears(world: World) -> None:
    world.explicit = [NOTES]
    async with world.running() as host:
        assert [command.name for command in host.commands()] == ["notes-demo", "notes-clear"]
        answer = await run(host, "/notes-demo buy milk")
        assert (answer.action, answer.text) == ("display", "Note to self: buy milk.")
        assert world.seen(ExtNotify) == [
            ExtNotify(extension="notes", level="info", message="noted: buy milk")
        ]
        answer = await run(host, "/notes-clear")
        assert (answer.action, answer.text, answer.error) == ("noop", "", None)
        assert world.seen(ExtClearNotes) == [ExtClearNotes(extension="notes")]


@pytest.mark.promise("S10")
@pytest.mark.promise("S11")
@pytest.mark.promise("S45")
@pytest.mark.promise("S52")
async def test_an_extension_is_told_where_it_is_and_runs_in_its_own_directory(world: World) -> None:
    directory = world.add("echo")
    world.env |= {"ZOTD_TOKEN": "secret", "ZOTCORE_RPC_TOKEN": "secret", "ZOT_CWD": "stale"}
    async with world.running() as host:
        shown = json.loads((await run(host, "/Poke   a  b\tc  ")).text)
    first, second = shown["frames"]
    assert first == {
        "type": "hello_ack",
        "protocol_version": 1,
        "zot_version": first["zot_version"],
        "provider": "scripted",
        "model": "scripted-1",
        "cwd": str(world.cwd),
        "extension_dir": str(directory),
        "data_dir": str(directory),
        "host": {"name": "zotd", "version": __version__},
        "session_id": "s-1",
    }
    assert second == {"type": "command_invoked", "id": second["id"], "name": "poke", "args": "a  b\tc"}
    assert shown["cwd"] == str(directory)
    assert shown["args"] == ["echo"]
    assert shown["leader"]
    env = {name: value for name, value in shown["env"].items() if name != "LC_CTYPE"}
    assert env == {
        "PATH": world.env["PATH"],
        "GREETING": "good day",
        "ZOT_HOME": str(world.home),
        "ZOT_EXTENSION_DIR": str(directory),
        "ZOT_CWD": str(world.cwd),
        "AI_AGENT": "zotd",
    }


@pytest.mark.promise("S8")
async def test_stderr_and_the_hosts_remarks_share_one_log_that_is_appended_to(world: World) -> None:
    world.add("exits_7")
    for _ in range(2):
        async with world.running():
            pass
    lines = world.log("exits_7").splitlines()
    assert lines[0].startswith("[zotd] starting exits_7/1 at 20")
    assert lines[1:3] == ["cannot find my configuration", "[zotd] exited: exit status 7 before hello"]
    assert len(lines) == 6


@pytest.mark.promise("S69")
@pytest.mark.parametrize("where", ["logs", "logs/ext-good.log"])
async def test_a_log_that_cannot_be_written_is_told_of_and_not_pointed_to(world: World, where: str) -> None:
    world.add("good")
    place = world.home / where
    if where == "logs":
        place.write_text("no directory")
        why = f"{place}: expected a directory"
    else:
        place.mkdir(parents=True)
        why = f"{place}: Is a directory"
    async with world.running():
        failed = await world.event(ExtState, extension="good", state="failed")
        said = "extension good did not start: its log cannot be written: "
        assert failed.error == f"{said}{why}"


@pytest.mark.promise("S9")
@pytest.mark.promise("S69")
@pytest.mark.parametrize(
    ("mode", "how"),
    [
        ("exits_7", "exited: exit status 7 before hello"),
        ("killed", "exited: killed by SIGKILL before hello"),
        ("closes_stdout", "closed its stdout before hello"),
        ("notify_first", "failed: its first frame was notify, not hello"),
        ("nameless", "failed: its first frame must be hello: "),
        ("chatter", "failed: more than 20 lines before hello that are no frames"),
        ("silent", "sent no hello within 0.3 s"),
    ],
)
async def test_a_start_that_fails_says_how_and_where_the_log_is(world: World, mode: str, how: str) -> None:
    world.add(mode, **({"hello_timeout": 0.3} if mode == "silent" else {}))
    world.add("good")
    async with world.running() as host:
        failed = await world.event(ExtState, extension=mode, state="failed")
        note = await world.event(ExtNotify, extension=mode, level="error")
        assert failed.error == note.message
        assert note.message.startswith(f"extension {mode} {how}")
        assert note.message.endswith(f"(log: {world.home}/logs/ext-{mode}.log)")
        assert (await run(host, "/poke")).text == "ouch"
        (row,) = (row for row in host.states() if row.name == mode)
        assert (row.state, row.error) == ("failed", note.message)


@pytest.mark.promise("S69")
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("./missing", "/missing does not exist"),
        ("./extension.json", "/extension.json is not executable; run: chmod +x "),
        ("no-such-runtime", "no-such-runtime is not on PATH"),
    ],
)
async def test_a_program_that_cannot_start_is_one_readable_error(
    world: World, program: str, message: str
) -> None:
    world.add("good", exec=program)
    async with world.running() as host:
        (note,) = world.seen(ExtNotify)
        assert message in note.message
        assert host.commands() == []


@pytest.mark.promise("S69")
async def test_a_bad_manifest_is_a_note_and_a_failed_row_and_stops_nobody(world: World) -> None:
    broken = world.add("good", "broken", exec="")
    world.add("good")
    async with world.running() as host:
        (note,) = world.seen(ExtNotify)
        assert note.extension == "broken"
        assert note.message.startswith(f"{broken}/extension.json: exec: expected a program to run")
        assert [(row.name, row.state) for row in host.states()] == [("good", "ready"), ("broken", "failed")]
        assert (await run(host, "/poke")).text == "ouch"


@pytest.mark.promise("S7")
async def test_rows_tell_what_is_disabled_shadowed_or_without_a_process(world: World) -> None:
    world.add("good", "off", enabled=False)
    world.add("good", "zwei", name="off")
    theme = world.add("good", "theme", exec="")
    (theme / "theme.json").write_text("{}")
    async with world.running() as host:
        assert [(row.name, row.state, row.commands) for row in host.states()] == [
            ("theme", "ready", []),
            ("off", "disabled", []),
            ("off", "shadowed", []),
        ]
    assert not (world.home / "logs").exists()
    assert world.events == []


async def test_a_banner_before_hello_is_skipped_and_logged(world: World) -> None:
    world.add("banner")
    async with world.running() as host:
        assert (await run(host, "/poke")).text == "ouch"
    assert "Welcome to the runtime!" in world.log("banner")


@pytest.mark.promise("S24")
async def test_registering_before_the_ack_and_never_saying_ready_is_tolerated(world: World) -> None:
    world.add("early")
    async with world.running(auto_ready_s=0.1) as host:
        assert [command.description for command in host.commands()] == ["registered early"]
        assert [row.state for row in host.states()] == ["auto_ready"]
        assert (await run(host, "/poke")).text == "ouch"


async def test_commands_registered_late_can_be_run_and_clients_are_told(world: World) -> None:
    world.add("late")
    async with world.running() as host:
        assert host.find("/later") is None
        await run(host, "/poke")
        assert (await run(host, "/LATER")).text == "Later"
        assert world.seen(ExtRegistered)[-1].commands == ["poke", "Later"]


async def test_a_slow_extension_delays_nobody_and_joins_when_it_is_ready(
    world: World, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    script = f"while ! [ -e {gate} ]; do read -t 0.02 <> <(:); done; exec python3 -S {HELLO_PY}/hello.py"
    world.add("good", "slow", exec="bash", args=["-c", script])
    world.add("good")
    async with world.running(ready_together_s=1.0) as host:
        assert {row.name: row.state for row in host.states()} == {"good": "ready", "slow": "starting"}
        assert host.find("/hellopy") is None
        assert (await run(host, "/poke")).text == "ouch"
        gate.touch()
        await world.event(ExtRegistered, extension="slow", commands=["hellopy"])
        assert (await run(host, "/hellopy")).action == "prompt"


@pytest.mark.promise("S13")
@pytest.mark.promise("S18")
async def test_names_are_taken_once_and_the_loser_reads_it_in_its_own_log(world: World) -> None:
    world.add("good", "a")
    world.add("rivals", "b")
    async with world.running() as host:
        assert [(command.name, command.extension) for command in host.commands()] == [
            ("poke", "a"),
            ("mine", "b"),
        ]
        assert (await run(host, "/MINE")).text == "mine"
    log = world.log("b")
    assert "command /Clear is shadowed: it is built in" in log
    assert "command /poke is shadowed: extension a has it" in log
    assert "command 'two words' was refused" in log


@pytest.mark.promise("S16")
async def test_a_death_in_the_middle_of_a_call_fails_it_at_once_and_takes_the_command(world: World) -> None:
    world.add("dies_in_call")
    async with world.running(command_s=60.0) as host:
        answer = await run(host, "/poke")
        assert answer.error == "extension dies_in_call exited: exit status 3"
        failed = await world.event(ExtState, state="failed")
        assert failed.error is not None
        assert failed.error.startswith("extension dies_in_call exited: exit status 3 (log: ")
        assert host.find("/poke") is None
        assert world.seen(ExtRegistered)[-1].commands == []


async def test_a_command_of_an_extension_that_is_gone_says_so(world: World) -> None:
    world.add("dies_in_call")
    async with world.running() as host:
        invocation = host.find("/poke")
        assert invocation is not None
        await host.invoke(invocation)
        assert (await host.invoke(invocation)).error == "extension dies_in_call is not running"


async def test_a_child_left_behind_delays_no_answer_and_is_ended(world: World) -> None:
    directory = world.add("grandchild")
    async with world.running(command_s=60.0) as host:
        answer = await run(host, "/poke")
        assert answer.error == "extension grandchild exited: exit status 4"
    pid = (directory / "grandchild.pid").read_text()
    status = Path("/proc", pid, "stat")
    assert not status.exists() or status.read_text().split()[2] == "Z"


async def test_a_closed_stdout_is_an_end(world: World) -> None:
    world.add("closes_stdout_later")
    async with world.running() as host:
        answer = await run(host, "/poke")
        assert answer.error == "extension closes_stdout_later closed its stdout"


@pytest.mark.parametrize(
    ("mode", "logged"),
    [
        ("invalid_utf8", ["invalid UTF-8"]),
        ("garbage", ["not json", "an array", "unknown type 'teleport'", "has no `type`", "message"]),
        ("unknown_id", ["command_response for 'nobody-asked', which nobody waits for"]),
    ],
)
async def test_what_cannot_be_read_is_logged_and_the_stream_stays_in_step(
    world: World, mode: str, logged: list[str]
) -> None:
    world.add(mode)
    async with world.running() as host:
        answer = await run(host, "/poke")
        assert answer.text in ("ouch", "right")
    for words in logged:
        assert words in world.log(mode)
    notes = world.seen(ExtNotify)
    if mode == "garbage":
        assert [(note.level, note.message) for note in notes] == [("info", "still in sync\u2028really")]


async def test_the_second_of_two_answers_is_ignored(world: World) -> None:
    world.add("answers_twice")
    async with world.running() as host:
        assert (await run(host, "/poke")).text == "first"
        await world.event(ExtNotify, message="answered twice")
        assert (await run(host, "/poke")).text == "first"
    assert "which nobody waits for: ignored" in world.log("answers_twice")


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("bad_answer", "command_response: Expected `str`, got `int` at $.action"),
        ("odd_action", "answered with 'explode'; expected one of: prompt, insert, display"),
        ("says_error", "no luck"),
        ("wrong_answer", "extension wrong_answer answered with tool_result"),
        ("closes_stdin", "extension closes_stdin is not reading"),
    ],
)
@pytest.mark.promise("S38")
async def test_an_answer_that_is_an_error_reaches_the_user(world: World, mode: str, error: str) -> None:
    world.add(mode)
    async with world.running(shutdown_s=0.1) as host:
        await run(host, "/poke")
        answer = await run(host, "/poke")
        assert answer.error is not None
        assert error in answer.error


@pytest.mark.promise("S36")
async def test_a_panel_that_nobody_can_show_yields_its_lines_and_is_closed_at_once(world: World) -> None:
    world.add("panel")
    async with world.running() as host:
        answer = await run(host, "/poke")
        assert (answer.action, answer.text, answer.error) == ("open_panel", "one\ntwo", None)
        assert answer.panel is not None
        assert (answer.panel.id, answer.panel.title, answer.panel.footer) == ("p1", "T", "f")
        await world.event(ExtNotify, message="closed p1")
    assert "panel 'p1' was closed" in world.log("panel")


@pytest.mark.promise("S1")
async def test_an_extension_can_be_a_shell_script_named_without_a_path(world: World) -> None:
    directory = world.add("good", "shell", exec="run", args=["one two"])
    (directory / "run").write_text(SHELL)
    (directory / "run").chmod(0o755)
    async with world.running() as host:
        assert (await run(host, "/shout")).text == "one two"


async def test_a_name_in_hello_that_is_not_the_manifests_is_accepted_and_logged(world: World) -> None:
    hello = json.loads((HELLO_PY / "extension.json").read_text())
    renamed = world.cwd / "renamed"
    renamed.mkdir()
    (renamed / "extension.json").write_text(json.dumps({**hello, "name": "renamed"}))
    (renamed / "hello.py").symlink_to(HELLO_PY / "hello.py")
    world.explicit = [renamed]
    async with world.running() as host:
        assert host.find("/hellopy") is not None
        assert host.commands()[0].extension == "renamed"
    assert "hello says 'hello-py', the manifest 'renamed', which counts" in world.log("renamed")


@pytest.mark.promise("S37")
async def test_an_answer_without_an_action_changes_nothing(world: World) -> None:
    world.add("no_action")
    async with world.running() as host:
        answer = await run(host, "/poke")
        assert (answer.action, answer.text, answer.error) == ("noop", "", None)


async def test_no_answer_is_an_error_after_its_time(world: World) -> None:
    world.add("no_answer")
    async with world.running(command_s=0.1) as host:
        answer = await run(host, "/poke")
        assert answer.error == "extension no_answer did not answer within 0.1 s"


async def test_an_extension_that_does_not_read_fails_requests_and_delays_nobody(world: World) -> None:
    world.add("not_reading")
    world.add("rivals")
    async with world.running(outgoing_frames=4, command_s=0.5, shutdown_s=0.1) as host:
        calls = [run(host, "/poke " + "x" * 100_000) for _ in range(8)]
        answers = await asyncio.gather(*calls)
        assert (await run(host, "/mine")).text == "mine"
        errors = {answer.error for answer in answers}
        assert errors == {
            "extension not_reading is not reading",
            "extension not_reading did not answer within 0.5 s",
        }


@pytest.mark.promise("S15")
@pytest.mark.promise("S44")
@pytest.mark.promise("S51")
async def test_shutdown_closes_the_input_and_waits_for_the_exit_not_the_ack(world: World) -> None:
    world.add("stays_until_eof")
    async with world.running():
        pass
    assert world.log("stays_until_eof").splitlines()[1:] == [
        "saw the end of stdin",
        "[zotd] exited: exit status 0",
    ]


@pytest.mark.promise("S15")
@pytest.mark.parametrize(
    ("mode", "how"),
    [("ignores_shutdown", "killed by SIGTERM"), ("ignores_sigterm", "killed by SIGKILL")],
)
async def test_who_ignores_shutdown_is_terminated_then_killed(world: World, mode: str, how: str) -> None:
    world.add(mode, "one")
    world.add(mode, "two")
    loop = asyncio.get_running_loop()
    async with world.running(shutdown_s=0.3, terminate_s=0.3):
        began = loop.time()
    assert loop.time() - began < 2  # together, not one after the other
    for name in ("one", "two"):
        assert world.log(name).splitlines()[-2:] == [
            "[zotd] did not exit within 0.3 s of shutdown: terminated",
            f"[zotd] exited: {how}",
        ]
    assert [event.state for event in world.seen(ExtState)[-2:]] == ["stopped", "stopped"]


async def test_what_has_not_said_hello_is_ended_without_a_frame(world: World) -> None:
    world.add("silent")
    async with world.running(ready_together_s=0.1, shutdown_s=60.0) as host:
        assert [row.state for row in host.states()] == ["starting"]
    assert world.seen(ExtState)[-1].state == "stopped"


async def test_a_cancelled_task_group_leaves_no_process(world: World) -> None:
    world.add("ignores_sigterm")
    scope = Scope(SHORT)
    world.scope = lambda _: scope
    with pytest.raises(ExceptionGroup):
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            await world.host(tasks).start()
            raise RuntimeError("the daemon fell")
    assert [children(sub_keeper) for sub_keeper in children(KEEPER.pid)] == [{}]
    await scope.close()


async def test_text_that_is_no_registered_one_line_command_is_a_prompt(world: World) -> None:
    world.add("good")
    async with world.running() as host:
        assert [
            text
            for text in ("/poke", " /POKE x\n", "/poke\tx", "/pok", "poke", "/ poke", "/", "", "/poke\nx")
            if host.find(text) is not None
        ] == ["/poke", " /POKE x\n", "/poke\tx"]
