"""What `zotd -p` makes of its standard input and output."""

from __future__ import annotations

import os
import subprocess

from tests.clients import LONG, Machine

MANY = {"reply": [{"text": "word " * 50_000}]}


def test_what_is_piped_in_is_appended_to_the_prompt(machine: Machine) -> None:
    done = machine.run("--provider", "scripted", "-p", "explain", stdin=b"line one\nline two\n")
    assert (done.returncode, done.stdout) == (0, "You said: explain\n\nline one\nline two\n")


def test_what_is_piped_in_can_be_the_whole_prompt(machine: Machine) -> None:
    done = machine.run("--provider", "scripted", "-p", stdin=b"hello\n")
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")


def test_a_pipe_that_stays_open_is_ignored_after_a_second_with_a_note(machine: Machine) -> None:
    client = machine.start("--json", "--provider", "scripted", "hello")
    frames = client.until("result")
    assert frames[-1]["text"] == "You said: hello"
    assert client.exit_code() == 0
    assert client.stderr.startswith("zotd: standard input is still open after 1 s and was ignored")


def test_stdout_that_is_closed_early_ends_it_quietly(machine: Machine) -> None:
    for mode in ("-p", "--json"):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [machine.program, *machine.script(MANY), mode, "hello"],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            env=machine.env,
            cwd=machine.cwd,
            timeout=LONG,
            check=False,
        )
        os.close(writer)
        assert (done.returncode, done.stderr) == (1, b"")


def test_a_reader_that_stops_after_one_line_is_no_trouble(machine: Machine) -> None:
    line = '"$0" "$@" | head -n 1; exit "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", line, machine.program, *machine.script(MANY), "--json", "hello"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=machine.env,
        cwd=machine.cwd,
        timeout=LONG,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (1, b"", 1)


def test_words_after_two_dashes_are_the_prompt_even_if_they_look_like_flags(machine: Machine) -> None:
    done = machine.run("--provider", "scripted", "-p", "--", "--continue", "-x")
    assert (done.returncode, done.stdout) == (0, "You said: --continue -x\n")


def test_help_and_version_exit_0_and_say_what_they_should(machine: Machine) -> None:
    assert machine.run("--version").stdout.startswith("zotd ")
    shown = machine.run("--help")
    assert shown.returncode == 0
    assert "exit codes:" in shown.stdout
    for flag in ("--provider", "--listen", "--max-steps", "--output-schema"):
        assert flag in shown.stdout


def test_the_folder_to_work_in_can_be_named(machine: Machine) -> None:
    (machine.cwd / "deep").mkdir()
    call = {"name": "bash", "args": {"command": "pwd"}}
    script = machine.script({"reply": [{"tool_call": call}]}, {"reply": [{"text": "done"}]})
    events, _, code = machine.json(*script, "--cwd", "deep", "where")
    result = next(event for event in events if event["type"] == "tool_result")
    assert code == 0
    assert f"{machine.cwd}/deep\n" in result["content"][0]["text"]


def test_tools_that_are_not_offered_are_not_run(machine: Machine) -> None:
    call = {"name": "bash", "args": {"command": "touch ran"}}
    script = machine.script({"reply": [{"tool_call": call}]}, {"reply": [{"text": "done"}]})
    for flags in (["--no-tools"], ["--tools", "read,write"]):
        events, _, code = machine.json(*script, *flags, "go")
        result = next(event for event in events if event["type"] == "tool_result")
        assert (code, result["is_error"]) == (0, True)
        assert not (machine.cwd / "ran").exists()
