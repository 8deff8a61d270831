"""Nothing waits for ever: what comes of a question that nobody answers. Sessions in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.clients import Frame
from tests.daemon.houses import Visitor, sessions
from zotd.base.limits import Limits
from zotd.base.tasks import Independent
from zotd.daemon.session import Session
from zotd.daemon.spec import SessionSpec
from zotd.protocol.content import ToolCall
from zotd.protocol.session import Preview
from zotd.store.ring import Published
from zotd.wire.codec import decode
from zotd.wire.peer import Response

SCRIPT = [
    {"reply": [{"tool_call": {"name": "bash", "args": {"command": "touch made"}}}]},
    {"reply": [{"text": "so be it"}]},
] * 2


class Editor(Visitor):
    """A client that can be asked. asked: what it was, until it is taken back."""

    def __init__(self, on_question: Callable[[Editor], None] = lambda editor: None) -> None:
        self.name = "nvim"
        self.seen: list[Frame] = []
        self.asked: list[Callable[[Response | None], None]] = []
        self.questions: list[Frame] = []
        self.withdrawn = 0
        self.approver = self
        self._on_question = on_question

    def deliver(self, event: Published) -> None:
        self.seen.append({"type": event.type, **decode(event.body)})

    def ask(
        self, method: str, params: Any, answered: Callable[[Response | None], None]
    ) -> Callable[[], None]:
        self.asked.append(answered)
        self.questions.append(params)
        self._on_question(self)
        return self._withdraw

    def _withdraw(self) -> None:
        self.withdrawn += 1

    def say(self, result: Any = None, error: dict[str, Any] | None = None) -> None:
        self.asked.pop()(Response(1, "approval/request", result, error))

    def of(self, kind: str) -> Frame:
        [found] = [event for event in self.seen if event["type"] == kind]
        return found


@pytest.fixture
def asking(spec: SessionSpec, tmp_path: Path) -> SessionSpec:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    return replace(spec, script=script, approval="ask", ephemeral=True)


@pytest.fixture
async def tasks() -> AsyncIterator[Independent]:
    async with Independent() as made:
        yield made


async def run(session: Session) -> None:
    accepted = await session.submit("go")
    accepted.begin()
    assert (outcome := await session.wait(accepted.turn_id)) is not None
    assert (outcome.stop, outcome.text) == ("end_turn", "so be it")


def denied(editor: Editor) -> tuple[str, str]:
    """By whom, and what the model is told."""
    assert editor.of("approval_resolved")["decision"] == "deny"
    result = editor.of("tool_result")
    assert result["details"]["denied_by"] == editor.of("approval_resolved")["by"]
    return result["details"]["denied_by"], result["content"][0]["text"]


def soon(editor: Editor, *steps: Callable[[], object]) -> None:
    """Do all that once the question was put."""
    loop = asyncio.get_running_loop()
    for step in steps:
        loop.call_soon(step)


NO_SUCH_METHOD = {"code": -32601, "message": "method not found"}


@pytest.mark.parametrize("there", [True, False])
async def test_when_nobody_is_left_who_can_answer_the_call_is_denied_after_some_time(
    asking: SessionSpec, tasks: Independent, there: bool
) -> None:
    house = sessions(tasks, Limits(approver_wait_s=0.05))
    session = house.open(asking)
    editor = Editor(lambda editor: soon(editor, lambda: editor.say(error=NO_SUCH_METHOD)))
    if not there:
        editor.approver = None
    session.attach(editor)
    await run(session)
    assert denied(editor) == ("no client", "not run: nobody who could approve it came within 0.05 s")
    assert editor.withdrawn == 0
    assert not (session.cwd / "made").exists()
    await house.close_all()


@pytest.mark.parametrize("last_word", [None, NO_SUCH_METHOD])
async def test_whoever_comes_in_that_time_is_asked(
    asking: SessionSpec, tasks: Independent, last_word: dict[str, Any] | None
) -> None:
    house = sessions(tasks, Limits(approver_wait_s=3_600.0))
    session = house.open(asking)
    second = Editor(lambda editor: soon(editor, lambda: editor.say({"decision": "allow"})))

    def leave(editor: Editor) -> None:
        if last_word is None:
            soon(editor, lambda: editor.asked.pop()(None), lambda: session.attach(second))
        else:
            soon(editor, lambda: editor.say(error=last_word), lambda: session.attach(second))

    session.attach(first := Editor(leave))
    await run(session)
    assert first.of("approval_resolved")["decision"] == "allow"
    assert (session.cwd / "made").exists()
    await house.close_all()


async def test_an_answer_is_awaited_for_a_bounded_time(asking: SessionSpec, tasks: Independent) -> None:
    house = sessions(tasks, Limits(approval_s=0.05))
    session = house.open(asking)
    session.attach(editor := Editor())
    await run(session)
    assert denied(editor) == ("timeout", "not run: nobody answered within 0.05 s")
    assert editor.withdrawn == 1
    editor.say({"decision": "allow"})  # too late
    assert editor.of("approval_resolved")["decision"] == "deny"
    await house.close_all()


async def test_an_answer_in_the_last_moment_counts(asking: SessionSpec, tasks: Independent) -> None:
    house = sessions(tasks, Limits(approval_s=0.0))
    session = house.open(asking)
    session.attach(editor := Editor(lambda editor: soon(editor, lambda: editor.say({"decision": "allow"}))))
    await run(session)
    assert editor.of("approval_resolved")["decision"] == "allow"
    assert not editor.of("tool_result")["is_error"]
    assert (session.cwd / "made").exists()
    await house.close_all()


async def test_a_question_that_no_frame_has_room_for_goes_without_the_model_s_own_arguments_or_is_denied(
    asking: SessionSpec, tasks: Independent
) -> None:
    house = sessions(tasks, Limits(approval_bytes=2_000))
    session = house.open(asking)
    session.attach(editor := Editor(lambda editor: soon(editor, lambda: editor.say({"decision": "allow"}))))
    short, long = (ToolCall(id="1", name="x", args={"text": "é" * size}) for size in (10, 1_500))

    async def preview() -> Preview:
        return Preview(kind="args")

    assert (await session.approvals.ask(short, short, preview))[1] is None
    assert (await session.approvals.ask(short, long, preview))[1] is None
    assert ["original_args" in question for question in editor.questions] == [True, False]
    answer, no = await session.approvals.ask(long, short, preview)
    assert answer is None
    assert no is not None
    assert (no.by, no.reason) == (
        "too long",
        "not run: who has to approve it cannot be shown more than 2000 bytes of a call, and it has more",
    )
    assert len(editor.questions) == 2
    await house.close_all()


async def test_a_reason_without_end_is_cut_for_all_that_it_is_kept_for(
    asking: SessionSpec, tasks: Independent
) -> None:
    house = sessions(tasks, Limits(approval_reason_chars=5))
    session = house.open(asking)
    says = {"decision": "deny", "scope": "session", "reason": "never again"}
    session.attach(editor := Editor(lambda editor: soon(editor, lambda: editor.say(says))))
    await run(session)
    assert denied(editor) == ("nvim", "denied by the user (nvim): never")
    editor.seen.clear()
    await run(session)
    [result] = [event for event in editor.seen if event["type"] == "tool_result"]
    assert result["details"]["denied_by"] == "rules"
    assert result["content"][0]["text"] == "denied by the user's rules: never"
    await house.close_all()


async def test_the_end_of_a_daemon_takes_its_questions_back(asking: SessionSpec, tasks: Independent) -> None:
    house = sessions(tasks)
    session = house.open(asking)
    put = asyncio.Event()
    session.attach(editor := Editor(lambda editor: put.set()))
    accepted = await session.submit("go")
    accepted.begin()
    await put.wait()
    await house.close_all()
    assert (editor.of("approval_resolved")["by"], editor.withdrawn) == ("aborted", 1)
    assert editor.of("done")["stop"] == "aborted"


@pytest.mark.parametrize("seen", [True, False])
async def test_in_a_session_whose_own_client_cannot_be_asked_only_another_can_be(
    asking: SessionSpec, tasks: Independent, seen: bool
) -> None:
    house = sessions(tasks, Limits(approver_wait_s=3_600.0))
    session = house.open(replace(asking, headless=True))
    editor = Editor(lambda editor: soon(editor, lambda: editor.say({"decision": "allow"})))
    if not seen:
        editor.approver = None
    session.attach(editor)
    await run(session)
    assert (session.cwd / "made").exists() is seen
    assert ("approval_requested" in [event["type"] for event in editor.seen]) is seen
    await house.close_all()
