"""The rules of panels: who can open, draw and close one, what its owner hears, what clients see."""

from __future__ import annotations

import pytest
from msgspec import to_builtins

from tests.extensions.conftest import Stage
from tests.extensions.play import Viewer, play
from tests.peers import Frame, Peer
from zotd.extensions.panels import NoPanel

COMMAND: Frame = {"type": "register_command", "name": "go"}
PANEL: Frame = {"id": "p", "title": "T", "lines": ["one"], "footer": "f"}
KEYS = (
    *("up", "down", "left", "right", "enter", "tab", "pageup", "pagedown", "home", "end"),
    *("backspace", "delete"),
)


class Owner(Peer):
    """Has panels, and draws them when the test says so."""

    capabilities: tuple[str, ...] = ("panels", "panel_resize")

    def open(self, **panel: object) -> None:
        self.say(type="open_panel", panel={**PANEL, **panel})

    def draw(self, **members: object) -> None:
        self.say(type="panel_render", **{"panel_id": "p", **members})


def drawn(viewer: Viewer) -> Frame | None:
    """The panel of `a` as a client would show it at the end."""
    shown: Frame | None = None
    for panel in viewer.picture.panels if viewer.picture else ():
        if panel.extension == "a":
            shown = to_builtins(panel)
    for event in viewer.of("ext_panel_open", "ext_panel_render", "ext_panel_close"):
        if event["extension"] == "a":
            shown = None if event["type"] == "ext_panel_close" else event
    return shown and {name: shown[name] for name in ("panel_id", "title", "lines", "footer")}


async def in_step(peer: Peer, viewer: Viewer) -> None:
    """Until all that the peer has said was heard."""
    before = len(viewer.of("ext_notify"))
    peer.say(type="notify", message="in step")
    await viewer.sees("ext_notify", before + 1)


@pytest.mark.promise("S36")
async def test_a_panel_larger_than_any_screen_is_cut_and_its_owner_can_read_that(stage: Stage) -> None:
    peer = stage.enter("a", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        peer.open(lines=["\n" * 7_000_000], footer="f" * 5_000)
        await scene.viewer.sees("ext_panel_open")
        assert drawn(scene.viewer) == {
            "panel_id": "p",
            "title": "T",
            "lines": [""] * 1_000,
            "footer": "f" * 4_000,
        }
        peer.draw(lines=["r" * 4_001])
        await scene.viewer.sees("ext_panel_render")
        assert (drawn(scene.viewer) or {})["lines"] == ["r" * 4_000]
    assert stage.log("a").count("panel 'p' was cut to 1000 rows of 4000 characters") == 2


@pytest.mark.promise("S36")
async def test_a_panel_can_be_opened_at_any_time_and_late_comers_see_it(stage: Stage) -> None:
    peer = stage.enter("a", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        peer.open()
        await scene.viewer.sees("ext_panel_open")
        expected = {"panel_id": "p", "title": "T", "lines": ["one"], "footer": "f"}
        assert drawn(scene.viewer) == drawn(scene.attach("panels")) == expected


async def test_a_second_panel_of_an_extension_closes_the_first_and_no_other(stage: Stage) -> None:
    peer, other = stage.enter("a", Owner()), stage.enter("b", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        other.open()
        peer.open()
        peer.open(id="q")
        await in_step(other, scene.viewer)
        await in_step(peer, scene.viewer)
        assert scene.viewer.of("ext_panel_close") == [
            {"type": "ext_panel_close", "extension": "a", "panel_id": "p"}
        ]
        assert [frame["panel_id"] for frame in peer.of("panel_close")] == ["p"]
        assert other.of("panel_close") == []
        assert str(drawn(scene.viewer)).startswith("{'panel_id': 'q'")


@pytest.mark.promise("S40")
@pytest.mark.parametrize(
    ("members", "title", "lines", "footer"),
    [
        ({"title": "U", "lines": ["two"], "footer": "g"}, "U", ["two"], "g"),
        ({"title": "", "lines": ["two"]}, "T", ["two"], ""),
        ({}, "T", [], ""),
    ],
)
async def test_drawing_replaces_lines_and_footer_and_an_empty_title_keeps_the_old_one(
    stage: Stage, members: Frame, title: str, lines: list[str], footer: str
) -> None:
    peer = stage.enter("a", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        peer.open()
        peer.draw(**members)
        await scene.viewer.sees("ext_panel_render")
        assert drawn(scene.viewer) == {"panel_id": "p", "title": title, "lines": lines, "footer": footer}
        assert drawn(scene.attach("panels")) == drawn(scene.viewer)


@pytest.mark.promise("S40")
@pytest.mark.promise("S41")
async def test_drawing_and_closing_count_only_from_the_owner_and_for_the_open_panel(stage: Stage) -> None:
    peer, other = stage.enter("a", Owner()), stage.enter("b", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        peer.open()
        peer.draw(panel_id="q", lines=["wrong"])
        peer.say(type="panel_close", panel_id="q")
        await in_step(peer, scene.viewer)
        other.draw(lines=["wrong"])
        other.say(type="panel_close", panel_id="p")
        await in_step(other, scene.viewer)
        assert drawn(scene.viewer) == {"panel_id": "p", "title": "T", "lines": ["one"], "footer": "f"}
        peer.say(type="panel_close", panel_id="p")
        peer.draw(lines=["late"])
        await in_step(peer, scene.viewer)
        assert drawn(scene.viewer) is None


@pytest.mark.promise("S49")
async def test_keys_arrive_by_name_and_characters_one_to_a_frame(stage: Stage) -> None:
    peer = stage.enter("a", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        peer.open()
        await scene.viewer.sees("ext_panel_open")
        for key in KEYS:
            scene.host.panels.key("a", "p", key)()
        scene.host.panels.key("a", "p", "rune", "x\u00e9\U0001f600")()
        await in_step(peer, scene.viewer)
        keys = [(frame["key"], frame.get("text", "")) for frame in peer.of("panel_key")]
        assert keys == [*((key, "") for key in KEYS), *(("rune", text) for text in "x\u00e9\U0001f600")]
        assert {frame["panel_id"] for frame in peer.of("panel_key")} == {"p"}


@pytest.mark.promise("S50")
@pytest.mark.parametrize("key", ["esc", "ctrl+c"])
async def test_keys_that_close_are_never_sent_as_keys_and_close_everywhere(stage: Stage, key: str) -> None:
    peer = stage.enter("a", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        second = scene.attach("panels")
        peer.open()
        await scene.viewer.sees("ext_panel_open")
        scene.host.panels.key("a", "p", key)()
        assert (await peer.next("panel_close"))["panel_id"] == "p"
        assert peer.of("panel_key") == []
        assert drawn(scene.viewer) is drawn(second) is None
        peer.draw(lines=["late"])
        await in_step(peer, scene.viewer)
        assert scene.viewer.of("ext_panel_render") == []
        with pytest.raises(NoPanel):
            scene.host.panels.key("a", "p", "up")


async def test_a_size_is_told_only_to_who_listed_that_it_wants_to_know(stage: Stage) -> None:
    peer, plain = stage.enter("a", Owner()), stage.enter("b", Owner())
    plain.capabilities = ("panels",)
    async with play(stage, capabilities=("panels",)) as scene:
        for owner in (peer, plain):
            owner.open()
        await scene.viewer.sees("ext_panel_open", 2)
        for name in ("a", "b"):
            scene.host.panels.resize(name, "p", 80, 24)()
        await in_step(peer, scene.viewer)
        await in_step(plain, scene.viewer)
        assert peer.of("panel_resize") == [
            {"type": "panel_resize", "panel_id": "p", "width": 80, "height": 24}
        ]
        assert plain.of("panel_resize") == []


async def test_lines_may_hold_colours_and_no_other_control_sequences(stage: Stage) -> None:
    peer = stage.enter("a", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        peer.open(
            title="\x1b]0;own\x07T", lines=["\x1b[31mred\x1b[0m\x1b[2J", "\x9b5A\x07b"], footer="\x1b[Hf"
        )
        await scene.viewer.sees("ext_panel_open")
        assert drawn(scene.viewer) == {
            "panel_id": "p",
            "title": "T",
            "lines": ["\x1b[31mred\x1b[0m", "b"],
            "footer": "f",
        }


async def test_where_no_client_shows_panels_one_is_closed_at_once_and_the_log_says_why(stage: Stage) -> None:
    peer = stage.enter("a", Owner())
    async with play(stage, capabilities=("insert", "submit")) as scene:
        peer.open()
        assert (await peer.next("panel_close"))["panel_id"] == "p"
        assert scene.viewer.of("ext_panel_open") == []
    assert "panel 'p' was closed at once: no attached client shows panels" in stage.log("a")


@pytest.mark.promise("S16")
async def test_a_panel_goes_with_its_extension(stage: Stage) -> None:
    peer = stage.enter("a", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        peer.open()
        await scene.viewer.sees("ext_panel_open")
        peer.exit(1)
        await scene.viewer.sees("ext_panel_close")
        assert drawn(scene.viewer) is drawn(scene.attach("panels")) is None


@pytest.mark.promise("S41")
@pytest.mark.promise("S51")
async def test_a_reload_closes_panels(stage: Stage) -> None:
    peer = stage.enter("a", Owner())
    async with play(stage, capabilities=("panels",)) as scene:
        peer.open()
        await scene.viewer.sees("ext_panel_open")
        await scene.host.reload()
        assert drawn(scene.viewer) is None
