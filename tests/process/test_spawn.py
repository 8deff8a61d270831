from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.process.conftest import open_descriptors
from zotd.process.group import members_run
from zotd.process.spawn import Child, Scope, SpawnError

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


async def shell(scope: Scope, script: str, *, stdin: bool = False, cwd: Path = Path("/")) -> Child:
    return await scope.spawn(
        ["bash", "-c", script], cwd=cwd, env=ENV, stdin="pipe" if stdin else "null", stderr="merge"
    )


async def everything(child: Child) -> bytes:
    parts = []
    while data := await child.read():
        parts.append(data)
    return b"".join(parts)


async def line(child: Child) -> str:
    data = b""
    while not data.endswith(b"\n"):
        data += await child.read(1)
    return data.decode().strip()


async def test_output_exit_code_folder_and_environment_are_the_ones_asked_for(
    scope: Scope, tmp_path: Path
) -> None:
    env = {**ENV, "GREETING": "good day"}
    child = await scope.spawn(
        ["bash", "-c", 'echo "$GREETING in $PWD"; echo bad >&2; exit 7'],
        cwd=tmp_path,
        env=env,
        stdin="null",
        stderr="merge",
    )
    assert await everything(child) == f"good day in {tmp_path}\nbad\n".encode()
    assert await child.exited == 7
    child.close()


async def test_standard_error_goes_nowhere_or_to_the_descriptor_given(scope: Scope, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        for stderr in (log.fileno(), "null"):
            child = await scope.spawn(
                ["bash", "-c", "echo e >&2"], cwd=tmp_path, env=ENV, stdin="null", stderr=stderr
            )
            assert await everything(child) == b""
            child.close()
            await child.exited
    assert (tmp_path / "log").read_text() == "e\n"


async def test_a_death_by_signal_is_a_negative_code(scope: Scope) -> None:
    child = await shell(scope, "kill -9 $$")
    assert await child.exited == -signal.SIGKILL
    child.close()


async def test_the_exit_is_seen_though_a_grandchild_holds_the_pipes(scope: Scope) -> None:
    async with asyncio.timeout(5):
        child = await shell(scope, "sleep 60 & echo hi")
        assert await child.exited == 0
        assert await child.read() == b"hi\n"
        assert child.read_now() is None
        assert child.group_alive()
        await child.stop(2.0)
    assert not members_run(child.pid)
    child.close()


async def test_stop_kills_a_group_that_ignores_sigterm(scope: Scope) -> None:
    child = await shell(
        scope, "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo up; while :; do sleep 1; done"
    )
    assert await line(child) == "up"
    async with asyncio.timeout(3):
        await child.stop(0.2)
    assert await child.exited == -signal.SIGKILL
    assert not members_run(child.pid)
    child.close()


async def test_stop_lets_a_program_end_in_its_own_way(scope: Scope) -> None:
    child = await shell(scope, "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done")
    assert await line(child) == "up"
    await child.stop(5.0)
    assert await child.exited == 3
    assert (await everything(child)).endswith(b"bye\n")
    child.close()


async def test_stop_waits_for_the_grandchildren_of_a_leader_that_ended(scope: Scope, tmp_path: Path) -> None:
    child = await shell(
        scope,
        f"(trap 'echo saved > {tmp_path}/state; exit' TERM; echo up; while :; do sleep 0.01; done) & read",
        stdin=True,
    )
    assert await line(child) == "up"
    assert child.stdin is not None
    child.stdin.close()
    await child.exited
    await child.stop(5.0)
    assert (tmp_path / "state").read_text() == "saved\n"
    child.close()


async def test_a_stop_that_is_cancelled_kills_at_once(scope: Scope) -> None:
    child = await shell(scope, "trap '' TERM; echo up; while :; do sleep 1; done")
    assert await line(child) == "up"
    stopping = asyncio.create_task(child.stop(60.0))
    await asyncio.wait([stopping], timeout=0.05)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert await asyncio.wait_for(child.exited, 2.0) == -signal.SIGKILL
    child.close()


async def test_stopping_what_has_ended_does_nothing(scope: Scope) -> None:
    child = await shell(scope, "true")
    await child.exited
    await child.stop(1.0)
    child.signal_group(signal.SIGKILL)
    assert not child.group_alive()
    child.close()


async def test_a_large_input_is_taken_at_once_and_written_as_the_child_reads(scope: Scope) -> None:
    child = await shell(scope, "read; wc -c", stdin=True)
    assert child.stdin is not None
    child.stdin.write(b"x" * 2_000_000)
    assert child.stdin.buffered > 1_000_000
    child.stdin.write(b"\n" + b"y" * 3_000_000)
    child.stdin.close()
    assert child.stdin.closed
    async with asyncio.timeout(10):
        assert (await everything(child)).strip() == b"3000000"
        assert await child.exited == 0
    assert child.stdin.buffered == 0
    child.close()


async def test_input_for_a_child_that_stopped_reading_is_dropped(scope: Scope) -> None:
    child = await shell(scope, "exec <&-; echo closed; read -t 60 <> <(:)", stdin=True)
    assert child.stdin is not None
    assert await line(child) == "closed"
    child.stdin.write(b"x" * 1_000_000)
    assert child.stdin.closed
    assert child.stdin.buffered == 0
    child.stdin.write(b"more")
    await child.stop(1.0)
    child.close()


async def test_input_that_waits_when_the_child_ends_is_dropped(scope: Scope) -> None:
    child = await shell(scope, "read", stdin=True)
    assert child.stdin is not None
    child.stdin.write(b"x" * 1_000_000)
    assert child.stdin.buffered > 0
    await child.stop(1.0)
    async with asyncio.timeout(5):
        while child.stdin.buffered:  # noqa: ASYNC110 - the loop's own turn is what it waits for
            await asyncio.sleep(0)
    assert child.stdin.closed
    child.close()


async def test_a_flood_of_output_leaves_other_tasks_their_turn(scope: Scope) -> None:
    child = await shell(scope, "yes")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    size = 0
    while size < 10_000_000:
        size += len(await child.read())
    task.cancel()
    assert turns > 10
    await child.stop(1.0)
    child.close()


async def test_close_wakes_a_reader_and_a_second_reader_is_refused(scope: Scope) -> None:
    child = await shell(scope, "sleep 60")
    reading = asyncio.create_task(child.read())
    await asyncio.wait([reading], timeout=0.01)
    with pytest.raises(RuntimeError, match="two readers"):
        await child.read()
    child.close()
    assert await asyncio.wait_for(reading, 1.0) == b""
    await child.stop(1.0)


async def test_a_read_that_is_cancelled_loses_nothing(scope: Scope) -> None:
    child = await shell(scope, "read; echo answer", stdin=True)
    assert child.stdin is not None
    reading = asyncio.create_task(child.read())
    await asyncio.wait([reading], timeout=0.01)
    reading.cancel()
    await asyncio.wait([reading])
    child.stdin.write(b"\n")
    assert await everything(child) == b"answer\n"
    await child.exited
    child.close()


async def test_two_hundred_programs_leave_no_descriptor_and_no_zombie(scope: Scope) -> None:
    scope.warm()
    before = open_descriptors()
    for _ in range(10):
        children = await asyncio.gather(
            *(scope.spawn(["true"], cwd=Path("/"), env=ENV, stdin="pipe", stderr="null") for _ in range(20))
        )
        assert await asyncio.gather(*(child.exited for child in children)) == [0] * 20
        for child in children:
            child.close()
    assert open_descriptors() == before


async def _fault(scope: Scope, argv: list[str], cwd: Path) -> str:
    with pytest.raises(SpawnError) as caught:
        await scope.spawn(argv, cwd=cwd, env=ENV, stdin="pipe", stderr="merge")
    message = str(caught.value)
    assert "\n" not in message
    return message


def _script(path: Path, first_line: str, mode: int = 0o755) -> str:
    path.write_bytes(first_line.encode() + b"\necho ran\n")
    path.chmod(mode)
    return str(path)


async def test_a_program_that_does_not_exist_is_named_with_the_path_searched(
    scope: Scope, tmp_path: Path
) -> None:
    assert f"{tmp_path}/gone does not exist" in await _fault(scope, ["./gone"], tmp_path)
    message = await _fault(scope, ["no-such-program"], tmp_path)
    assert message.endswith("; install it or give its full path")
    for searched, told in (("/a:/b", " (/a, /b)"), ("/a:/b:/c:/d:/e", " (/a, /b, /c and 2 more)")):
        with pytest.raises(SpawnError) as caught:
            env = {"PATH": searched}
            await scope.spawn(["no-such-program"], cwd=tmp_path, env=env, stdin="pipe", stderr="merge")
        assert f"no-such-program is not on PATH{told}; install" in str(caught.value)


@pytest.mark.parametrize("line", ["python3 x.py", "./tool --loud", "{folder}/tool 'a b'"])
async def test_a_program_with_its_arguments_in_one_word_is_told_to_take_them_apart(
    scope: Scope, tmp_path: Path, line: str
) -> None:
    _script(tmp_path / "tool", "#!/bin/sh")
    message = await _fault(scope, [line.format(folder=tmp_path)], tmp_path)
    assert message.endswith(
        "; it has a space: arguments are given apart from the program, in a manifest as `args`"
    )


async def test_a_program_without_the_run_bit_is_told_how_to_get_it(scope: Scope, tmp_path: Path) -> None:
    script = _script(tmp_path / "tool", "#!/bin/sh", 0o644)
    assert f"{script} is not executable; run: chmod +x {script}" in await _fault(scope, [script], tmp_path)


@pytest.mark.parametrize(
    "line", ["#!/no/such/python", "#!/usr/bin/env no-such-python", "#!/usr/bin/env -S no-such-python -u"]
)
async def test_a_missing_interpreter_is_named_and_not_the_script(
    scope: Scope, tmp_path: Path, line: str
) -> None:
    script = _script(tmp_path / "tool", line)
    message = await _fault(scope, [script], tmp_path)
    assert "no" in message
    assert "such" in message
    assert f"the first line of {script} asks for" in message
    assert "which is not there; install it" in message


@pytest.mark.parametrize("line", ["#!/bin/sh\r", "#!/usr/bin/env bash\r"])
async def test_a_first_line_with_a_carriage_return_is_recognised(
    scope: Scope, tmp_path: Path, line: str
) -> None:
    message = await _fault(scope, [_script(tmp_path / "tool", line)], tmp_path)
    assert "ends in CRLF; convert it" in message


async def test_scripts_whose_env_line_is_in_order_run(scope: Scope, tmp_path: Path) -> None:
    for first in ("#!/usr/bin/env bash", "#!/usr/bin/env -S bash -e", f"#!/usr/bin/env {sys.executable}"):
        script = _script(tmp_path / "tool", first)
        child = await scope.spawn([script], cwd=tmp_path, env=ENV, stdin="null", stderr="null")
        await child.exited
        child.close()


async def test_what_is_no_program_says_so(scope: Scope, tmp_path: Path) -> None:
    (tmp_path / "loader").write_bytes(b"\x7fELF" + b"\0" * 100)
    (tmp_path / "loader").chmod(0o755)
    assert "is neither a program nor a script" in await _fault(
        scope, [_script(tmp_path / "tool", "hello")], tmp_path
    )
    assert "built for another system" in await _fault(scope, ["./loader"], tmp_path)
    assert "is a directory" in await _fault(scope, [str(tmp_path)], tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o755)
    assert "pipe is not a regular file" in await _fault(scope, ["./pipe"], tmp_path)
    assert "cannot be run" in await _fault(scope, [_script(tmp_path / "odd", "#!/etc/passwd")], tmp_path)


async def test_a_bad_working_directory_is_not_blamed_on_the_program(scope: Scope, tmp_path: Path) -> None:
    assert f"working directory {tmp_path}/x does not exist" in await _fault(scope, ["true"], tmp_path / "x")
    (tmp_path / "f").touch()
    assert "is not a directory" in await _fault(scope, ["true"], tmp_path / "f")


async def test_arguments_that_the_system_refuses_are_explained(scope: Scope, tmp_path: Path) -> None:
    assert "too long for the system" in await _fault(scope, ["true", "x" * 10_000_000], tmp_path)
    assert "null byte" in await _fault(scope, ["true", "a\0b"], tmp_path)
    assert "is not on PATH" in await _fault(scope, ["x" * 5_000], tmp_path)
    assert "too long" in await _fault(scope, ["./" + "x" * 5_000], tmp_path)
    assert "null byte" in await _fault(scope, ["./a\0b"], tmp_path)
