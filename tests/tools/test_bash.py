from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from zotd.process.group import members_run
from zotd.protocol.content import Text
from zotd.tools import close_tools


def untimed(text: str) -> str:
    """`text` as it is on a machine that has nothing else to do."""
    return re.sub(r"Took 0\.\ds$", "Took 0.0s", text)


async def _said(fifo: Path) -> str:
    """What a command writes to a named pipe."""
    async with asyncio.timeout(5):
        return (await asyncio.to_thread(fifo.read_text)).strip()


async def test_the_recorded_result_of_echo_hi_comes_out_letter_for_letter(session: Any) -> None:
    outcome = await session.call("bash", command="echo hi")
    (block,) = outcome.content
    assert Text(untimed(block.text)) == Text("$ echo hi\n\nhi\n\n[exit 0]  Took 0.0s")
    assert not outcome.is_error
    assert session.progress == ["hi\n"]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("true", ""),
        ("printf hi", "hi\n\n"),
        ("echo; echo hi; echo", "\nhi\n\n\n"),
        ("echo a >&2; echo b", "a\nb\n\n"),
    ],
)
async def test_a_blank_line_stands_before_and_after_the_output(
    session: Any, command: str, output: str
) -> None:
    assert (
        untimed(await session.text("bash", command=command)) == f"$ {command}\n\n{output}[exit 0]  Took 0.0s"
    )


async def test_a_failing_command_is_an_error_with_its_code(session: Any) -> None:
    outcome = await session.call("bash", command="echo no; exit 3")
    assert outcome.is_error
    assert untimed(outcome.content[0].text) == "$ echo no; exit 3\n\nno\n\n[exit 3]  Took 0.0s"


async def test_a_death_by_signal_is_named_and_counted_as_shells_count_it(session: Any) -> None:
    outcome = await session.call("bash", command="echo hi; kill -KILL $$")
    assert outcome.is_error
    assert (
        untimed(outcome.content[0].text)
        == "$ echo hi; kill -KILL $$\n\nhi\n\n[killed by SIGKILL]\n\n[exit 137]  Took 0.0s"
    )


async def test_the_command_runs_in_the_session_folder_with_its_environment_and_no_input(session: Any) -> None:
    session.env["GREETING"] = "good day"
    text = await session.text("bash", command='pwd; echo "$GREETING"; cat; [[ x == x ]] && echo bash')
    assert f"\n{session.cwd}\ngood day\nbash\n" in text


async def test_sh_serves_where_there_is_no_bash_on_the_path(session: Any) -> None:
    session.env["PATH"] = "/nowhere"
    assert "\nhi\n" in await session.text("bash", command="echo hi")


async def test_output_is_shown_while_the_command_runs(session: Any) -> None:
    session.use(session.limits, progress_s=0.01)
    go = session.fifo("go")
    task = asyncio.create_task(session.text("bash", command="echo first; read < go; echo second"))
    await session.hears("first\n")
    await asyncio.to_thread(go.write_text, "\n")
    assert "first\nsecond\n" in await task
    assert "".join(session.progress) == "first\nsecond\n"


async def test_output_is_gathered_into_few_pieces(session: Any) -> None:
    session.use(session.limits, progress_s=10.0)
    await session.text("bash", command="for i in 1 2 3; do echo $i; sleep 0.02; done")
    assert session.progress == ["1\n2\n3\n"]


async def test_characters_cut_between_reads_are_joined_and_bad_bytes_replaced(session: Any) -> None:
    session.use(session.limits, progress_s=0.0)
    command = r"printf 'a\xe2'; sleep 0.05; printf '\x82'; sleep 0.05; printf '\xac|\xff|\xe2\x82'"
    assert "\n\na€|\ufffd|\ufffd\n\n" in await session.text("bash", command=command)
    assert "".join(session.progress) == "a€|\ufffd|\ufffd"


def _file_named_in(text: str) -> Path:
    match = re.search(r"complete output: (\S+)\]", text)
    assert match, text[:300]
    return Path(match[1])


async def test_long_output_keeps_its_end_and_names_a_file_with_all_of_it(session: Any) -> None:
    text = await session.text("bash", command="seq 100000")
    file = _file_named_in(text)
    assert file.parent == session.home
    assert file.read_text() == "".join(f"{n}\n" for n in range(1, 100001))
    assert text.startswith("$ seq 100000\n\n[the last 2000 of 100000 lines; complete output: ")
    shown = text.split("]\n", 1)[1].split("\n\n[exit 0]")[0].split("\n")
    assert shown == [str(n) for n in range(98001, 100001)]


async def test_many_short_lines_are_cut_by_their_number_alone(session: Any) -> None:
    text = await session.text("bash", command="yes | head -2001")
    assert "[the last 2000 of 2001 lines; " in text
    assert _file_named_in(text).read_text() == "y\n" * 2001
    assert "[the last" not in await session.text("bash", command="yes | head -2000")


async def test_one_endless_line_is_cut_between_characters(session: Any) -> None:
    text = await session.text("bash", command="for i in {1..9000}; do printf '€€€'; done")
    assert "[the end of a line, 51198 of 81000 bytes; " in text
    assert "\ufffd" not in text
    assert _file_named_in(text).read_text() == "€" * 27000


async def test_a_flood_is_shown_in_part_and_kept_whole(session: Any) -> None:
    text = await session.text("bash", command="head -c 20000000 /dev/zero | tr '\\0' x")
    assert _file_named_in(text).stat().st_size == 20_000_000
    assert max(map(len, session.progress)) < 3 * session.limits.read_bytes
    assert any(piece.startswith("[… ") for piece in session.progress)


async def test_a_runaway_is_stopped_before_it_fills_the_disk(session: Any) -> None:
    session.use(session.limits, bash_file_bytes=1_000_000)
    outcome = await session.call("bash", command="yes")
    assert outcome.is_error
    assert "\n\n[stopped: more than 1000000 bytes of output]\n\n[exit " in outcome.content[0].text


async def test_a_full_disk_is_said_and_the_tail_still_shown(session: Any) -> None:
    session.home.joinpath("file").touch()
    session.env["TMPDIR"] = "/proc/self/fd"
    text = await session.text("bash", command="seq 100000")
    assert "[the last 2000 of 100000 lines; the complete output could not be kept: " in text


async def test_a_background_child_does_not_hold_the_call_and_ends_with_the_session(session: Any) -> None:
    async with asyncio.timeout(5):
        text = await session.text("bash", command="sleep 60 & echo hi")
    assert untimed(text) == "$ sleep 60 & echo hi\n\nhi\n\n[exit 0]  Took 0.0s"
    group = int((await session.text("bash", command="sleep 60 >/dev/null 2>&1 & echo $$")).split("\n")[2])
    assert members_run(group)
    await close_tools(session.tools.values())
    assert not members_run(group)


async def test_a_background_child_may_write_on_and_lives_as_long_as_it_likes(session: Any) -> None:
    end = session.fifo("end")
    await session.text("bash", command="(seq 200000; echo done > end) & exit 0")
    assert await _said(end) == "done"
    assert "hi" in await session.text("bash", command="echo hi")


async def test_a_time_out_ends_the_whole_group_and_says_so(session: Any) -> None:
    began = time.monotonic()
    outcome = await session.call(
        "bash", command=f"echo $$ > {session.cwd}/pid; echo hi; sleep 60 & sleep 60", timeout=0.2
    )
    assert time.monotonic() - began < 2.2
    assert outcome.is_error
    text = outcome.content[0].text
    assert (
        "hi\n\n[timed out after 0.2 s: the command and everything it started were stopped]\n\n[exit 143]"
        in text
    )
    assert not members_run(int((session.cwd / "pid").read_text()))


async def test_a_command_that_closed_its_output_still_times_out(session: Any) -> None:
    outcome = await session.call("bash", command="exec >/dev/null 2>&1; sleep 60", timeout=0.2)
    assert "[timed out" in outcome.content[0].text


STUBBORN = (
    "trap '' TERM; echo $$ > pid; (trap '' TERM; while :; do sleep 0.1; done) & while :; do sleep 0.1; done"
)


async def test_a_time_out_kills_what_ignores_the_polite_signal(session: Any) -> None:
    began = time.monotonic()
    outcome = await session.call("bash", command=STUBBORN, timeout=0.2)
    assert time.monotonic() - began < 2.2
    assert "[exit 137]" in outcome.content[0].text
    assert not members_run(int((session.cwd / "pid").read_text()))


async def test_an_abort_kills_the_group_within_two_seconds(session: Any) -> None:
    pid = session.fifo("pid")
    task = asyncio.create_task(session.call("bash", command=STUBBORN))
    group = int(await _said(pid))
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 2.0
    assert not members_run(group)


async def test_an_abort_in_a_flood_leaves_nothing(session: Any) -> None:
    pid = session.fifo("pid")
    session.use(session.limits, progress_s=0.01)
    task = asyncio.create_task(session.call("bash", command="echo $$ > pid; yes"))
    group = int(await _said(pid))
    await session.hears("y\ny\n")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not members_run(group)
    count = len(session.progress)
    await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.05)
    assert len(session.progress) == count


async def test_a_time_out_out_of_range_is_refused_in_seconds(session: Any) -> None:
    assert "$.timeout: expected seconds, at most 3600, got 120000" in await session.fault(
        "bash", command="true", timeout=120000
    )
    assert "$.timeout: " in await session.fault("bash", command="true", timeout=0)


async def test_a_folder_that_is_gone_and_a_command_too_long_are_explained(session: Any) -> None:
    assert "too long for the system" in await session.fault("bash", command="x" * 3_000_000)
    session.cwd.rmdir()
    assert f"working directory {session.cwd} does not exist" in await session.fault("bash", command="true")


async def test_many_commands_run_side_by_side(session: Any) -> None:
    texts = await asyncio.gather(*(session.text("bash", command=f"sleep 0.1; echo {n}") for n in range(20)))
    assert all(f"\n\n{n}\n\n[exit 0]" in text for n, text in enumerate(texts))


async def test_the_arguments_are_described_for_the_model(session: Any) -> None:
    schema = session.tools["bash"].schema
    assert schema["required"] == ["command"]
    assert set(schema["properties"]) == {"command", "timeout"}
    assert "$ref" not in json.dumps(schema)
