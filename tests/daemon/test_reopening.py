"""The way back into sessions: one that nobody sees is closed after a while, and comes back as it was."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.houses import Noted, Visitor, prompt, sessions
from zotd.agent.ports import ToolOutcome
from zotd.base.limits import Limits
from zotd.base.secret import Secret
from zotd.daemon.session_list import listed, live
from zotd.daemon.spec import SessionSpec
from zotd.protocol.content import Message, Text, ToolCall
from zotd.providers.catalog import BadChoice
from zotd.store.errors import NoSession, OpenAlready, StoreError


class Sky:
    """A tool that an extension brings."""

    description = "What can be seen there."

    def __init__(self, name: str) -> None:
        self.name = name
        self.schema: dict[str, Any] = {"type": "object"}

    async def run(self, call: ToolCall, progress: Any) -> ToolOutcome:
        return ToolOutcome([Text("full")])


async def test_a_session_that_nobody_sees_is_closed_and_comes_back_as_it_was(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = house.open(replace(spec, api_key=Secret("hush"), max_steps=7, reasoning="high"))
        session.attach(visitor := Visitor())
        await prompt(session, "hello")
        house.set_model(session, "another")
        house.set_reasoning(session, "low")
        await house.leave(session, visitor, private=False)
        await asyncio.wait_for(tasks.named["expiry"], 10)
        assert house.get(session.id) is None
        again = await house.saved.by_id(session.id[:8], spec)
        assert again is not session
        assert (again.id, again.path, again.created) == (session.id, session.path, session.created)
        assert again.transcript.messages == session.transcript.messages
        assert (again.model.id, again.model.reasoning) == ("another", "low")
        kept = house.spec_of(again)
        assert (kept.max_steps, kept.environ, kept.api_key) == (7, {"ONLY": "here"}, Secret("hush"))
        assert session.path is not None
        written = session.path.read_bytes()
        assert b"hush" not in written
        assert b"here" not in written
        # It was loaded, and nobody has come for it.
        await asyncio.wait_for(tasks.named["expiry"], 10)
        assert house.all() == []
        await house.close_all()


async def test_who_comes_back_in_time_finds_the_session_open(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = house.open(replace(spec, ephemeral=True))
        session.attach(visitor := Visitor())
        await house.leave(session, visitor, private=False)
        session.attach(visitor)
        await asyncio.wait_for(tasks.named["expiry"], 10)
        assert house.get(session.id) is session
        assert (session.path, session.ephemeral) == (None, True)
        await house.leave(session, visitor, private=False)
        await asyncio.wait_for(tasks.named["expiry"], 10)
        with pytest.raises(NoSession):
            await house.saved.by_id(session.id, spec)
        await house.close_all()


async def test_as_many_closed_ones_are_remembered_as_the_limit_says(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks, Limits(closed_kept=1))
        closed = []
        for steps in (7, 8):
            closed.append(session := house.open(replace(spec, max_steps=steps)))
            await prompt(session, "hello")
            await house.close(session)
        again = [await house.saved.by_id(session.id, spec) for session in closed]
        assert [house.spec_of(session).max_steps for session in again] == [0, 8]
        await house.close_all()


async def test_a_tool_that_was_activated_once_is_told_to_the_model_again(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = house.open(spec)
        session.transcript.append("user", [Text("when is it full")])
        session.transcript.append("tool", [], ["moon"])
        session.transcript.compact([Message("user", [Text("summary")], "t")])
        await house.close(session)
        again = await house.saved.by_id(session.id, spec)
        for name in ("moon", "sun"):
            again.toolbox.add(Sky(name), owner="sky", deferred=True)
        assert "moon" in again.toolbox.names()
        assert "sun" not in again.toolbox.names()
        await house.close_all()


async def test_a_copy_of_a_file_is_not_a_second_session(spec: SessionSpec, tmp_path: Path) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = house.open(spec)
        await prompt(session, "hello")
        assert session.path is not None
        copy = tmp_path / "copy.jsonl"
        copy.write_bytes(session.path.read_bytes())
        with pytest.raises(OpenAlready):
            await house.saved.load(replace(spec, saved=copy))
        await house.close(session)
        assert (await house.saved.load(replace(spec, saved=copy))).path == copy
        await house.close_all()


async def test_flags_win_over_what_the_file_says_and_what_is_not_here_is_said(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = house.open(replace(spec, model="one", reasoning="high"))
        await prompt(session, "hello")
        await house.close(session)
        assert session.path is not None

        def model_of(given: SessionSpec) -> tuple[str, str, str]:
            session = house.open(replace(given, saved=path))
            return session.provider, session.model.id, session.model.reasoning

        path = session.path
        for given, expected in (
            (replace(spec, provider=""), ("scripted", "one", "high")),
            (replace(spec, model="two"), ("scripted", "two", "high")),
            (replace(spec, provider="", reasoning="low"), ("scripted", "two", "low")),
            (replace(spec, provider="ollama", model="m"), ("ollama", "m", "low")),
        ):
            assert model_of(given) == expected
            for one in house.all():
                await house.close(one)
        path.write_bytes(path.read_bytes().replace(b"ollama", b"unheard"))
        with pytest.raises(
            BadChoice, match=r"unknown provider 'unheard'.* The session used provider unheard"
        ):
            house.open(replace(spec, provider="", saved=path))
        house.open(replace(spec, provider="", saved=path), late=True)
        await house.close_all()


async def test_a_file_that_cannot_be_gone_on_with_leaves_nothing_open(
    spec: SessionSpec, tmp_path: Path
) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        bad = tmp_path / "bad.jsonl"
        bad.write_text("{}\n")
        for path in (bad, tmp_path, tmp_path / "none.jsonl"):
            with pytest.raises(StoreError):
                await house.saved.load(replace(spec, saved=path))
        session = house.open(spec)
        await prompt(session, "hello")
        await house.close(session)
        with pytest.raises(BadChoice):
            house.open(replace(spec, saved=session.path, tools=("none",)))
        assert house.open(replace(spec, saved=session.path)).id == session.id  # nobody holds its lock
        assert len(house.all()) == 1
        await house.close_all()


async def test_a_session_that_is_saved_while_others_are_listed_is_there_once(spec: SessionSpec) -> None:
    async with (tasks := Noted()):
        house = sessions(tasks)
        session = house.open(spec)
        before = [live(session)]
        store = house.store(spec.home)
        [row], _ = listed(store, before, None, "", 9)
        assert (row.open, row.path) == (True, None)
        await prompt(session, "hello")
        for known in (before, [live(session)]):
            [row], _ = listed(store, known, None, "", 9)
            assert (row.open, row.path) == (True, str(session.path))
        await house.close_all()
