"""However wild extensions are, a session answers every prompt, ends in time, and blames nobody else."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.extensions.conftest import Stage
from tests.extensions.play import Play, calls, play, says
from tests.peers import Frame, Peer
from tests.wire.test_every_frame import WRONG, example, fields, kind_of
from zotd.protocol.frames import FROM_EXTENSION

ODD: list[Any] = [None, "", [], {}, "a\u2028b", 10**30, "\x1b[2J"]
NAMES = ["go", "Go", "dig", "read", "clear", "x" * 70, "\u0130", "two words", " "]
EVENTS = ["session_start", "turn_start", "turn_end", "tool_call", "assistant_message", "eclipse"]


def frame_of(chance: random.Random, ids: list[str]) -> Frame:
    """Any frame, more or less whole."""
    tag = chance.choice(list(FROM_EXTENSION))
    frame = dict(example(FROM_EXTENSION[tag]))
    for field in fields(FROM_EXTENSION[tag]):
        dice = chance.random()
        if dice < 0.15:
            frame[field.encode_name] = chance.choice([*WRONG.get(type(kind_of(field)), []), *ODD])
        elif dice < 0.25:
            frame.pop(field.encode_name, None)
    if "id" in frame and ids:
        frame["id"] = chance.choice([*ids, frame["id"]])
    if tag in ("register_command", "register_tool"):
        frame["name"] = chance.choice(NAMES)
    elif tag == "submit_slash":
        frame["text"] = chance.choice(["/go", "/go x", "go", "/clear", "/reload-ext"])
    elif tag == "subscribe":
        frame |= {"events": chance.sample(EVENTS, 3), "intercept": chance.sample(EVENTS, 3)}
    return frame


class Wild(Peer):
    """Does anything at any time, or does not."""

    capabilities = ("tool_cancel", "panel_resize")

    def __init__(self, chance: random.Random) -> None:
        super().__init__({"type": "register_command", "name": "go"}, {"type": "register_tool", "name": "dig"})
        self.chance = chance
        self.ids: list[str] = []

    def perhaps(self, do: Callable[..., None], *args: Any) -> None:
        if self.chance.random() < 0.5:
            do(*args)

    def burst(self) -> None:
        dice = self.chance.random()
        if self.exited.done():
            return
        if dice < 0.03:
            self.exit(self.chance.choice([0, 1, -9]))
        elif dice < 0.05:
            self.end_output()
        elif dice < 0.1:
            self.say_bytes(self.chance.randbytes(30) + b"\n")
        else:
            self.say(**frame_of(self.chance, self.ids))
        pause = self.chance.random() * self.chance.choice([0.01, 1, 5])
        asyncio.get_running_loop().call_later(pause, self.burst)

    def began(self) -> None:
        super().began()
        self.perhaps(self.burst)

    def greeted(self) -> None:
        super().greeted()
        self.burst()

    def invoked(self, frame: Frame) -> None:
        self.ids.append(frame["id"])
        self.perhaps(super().invoked, frame)

    def called(self, frame: Frame) -> None:
        self.ids.append(frame["id"])
        self.perhaps(super().called, frame)

    def asked(self, frame: Frame) -> None:
        self.ids.append(frame["id"])
        self.perhaps(super().asked, frame)

    def dismissed(self) -> None:
        self.perhaps(super().dismissed)

    def signalled(self, number: int) -> None:
        self.perhaps(super().signalled, number)


async def something(scene: Play, chance: random.Random) -> None:
    """What a user does."""
    match chance.choice(["prompt", "prompt", "command", "reload", "abort", "wait"]):
        case "prompt":
            await scene.prompt()
        case "command":
            await scene.prompt("/go now")
        case "reload":
            await scene.prompt("/reload-ext")
        case "abort":
            turn = await scene.send("go")
            asyncio.get_running_loop().call_later(chance.random() * 3, scene.session.abort)
            await scene.session.wait(turn)
        case "wait":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(chance.random() * 10):
                    await asyncio.Event().wait()


@pytest.mark.promise("S16")
@pytest.mark.parametrize("seed", range(12))
async def test_wild_extensions_end_no_session_and_hold_up_none(stage: Stage, seed: int) -> None:
    chance = random.Random(seed)
    for name in ("a", "b", "c"):
        stage.enter(name, Wild(random.Random(chance.random())))
    answers = [says("hello"), calls("dig", '{"a":1}', text="let me"), calls("echo")]
    steps = [*(chance.choice(answers) for _ in range(40)), *[says("end")] * 80]
    loop = asyncio.get_running_loop()
    async with play(stage, *steps, capabilities=("panels", "submit")) as scene:
        for _ in range(8):
            before = loop.time()
            await something(scene, chance)
            assert loop.time() - before < 1_000
        ending = loop.time()
    assert loop.time() - ending <= 3 + 1e-6
    assert "internal error" not in json.dumps(scene.viewer.seen)
    assert "mistake of zotd" not in "".join(map(stage.log, stage.peers))
