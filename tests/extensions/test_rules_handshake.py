"""The rules of the handshake and of being ready, at the product's own times."""

from __future__ import annotations

import asyncio

import pytest

from tests.extensions.conftest import Stage, run
from tests.peers import Frame, Peer
from zotd.base.limits import Limits
from zotd.extensions.host import ExtensionHost
from zotd.protocol.events import ExtNotify, ExtRegistered, ExtState

COMMAND: Frame = {"type": "register_command", "name": "go"}


class Late(Peer):
    """Says hello after some seconds."""

    def __init__(self, seconds: float, *offers: Frame) -> None:
        super().__init__(*offers)
        self.seconds = seconds

    def began(self) -> None:
        asyncio.get_running_loop().call_later(self.seconds, super().began)


class Mute(Peer):
    """Says nothing at all."""

    def began(self) -> None:
        pass


class Unready(Peer):
    """Registers at given moments after the acknowledgement, and never says that it is ready."""

    def __init__(self, *moments: float) -> None:
        super().__init__()
        self.moments = moments

    def greeted(self) -> None:
        for number, moment in enumerate(self.moments):
            asyncio.get_running_loop().call_later(moment, self.register, f"c{number}")

    def register(self, name: str) -> None:
        self.say(type="register_command", name=name)


async def test_start_up_waits_three_seconds_for_a_whole_set_and_then_goes_on(stage: Stage) -> None:
    for name in ("a", "b", "c"):
        stage.enter(name, Mute())
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with stage.running() as host:
        assert loop.time() - began == pytest.approx(3)
        assert [row.state for row in host.states()] == ["starting"] * 3


@pytest.mark.promise("S24")
async def test_start_up_waits_no_longer_than_the_slowest(stage: Stage) -> None:
    stage.enter("fast")
    stage.enter("slow", Late(1.5))
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with stage.running() as host:
        assert loop.time() - began == pytest.approx(1.5)
        assert [row.state for row in host.states()] == ["ready", "ready"]


async def test_without_hello_in_sixty_seconds_it_has_failed_and_the_log_is_named(stage: Stage) -> None:
    peer = stage.enter("mute", Mute())
    async with stage.running() as host:
        failed = await stage.event(ExtState, state="failed")
        assert asyncio.get_running_loop().time() - peer.began_at == pytest.approx(60)
        log = stage.home / "logs" / "ext-mute.log"
        assert failed.error == f"extension mute sent no hello within 60 s (log: {log})"
        assert [row.error for row in host.states()] == [failed.error]
        assert peer.signals
        assert [note.message for note in stage.seen(ExtNotify)] == [failed.error]


async def test_a_manifest_sets_another_time_for_hello(stage: Stage) -> None:
    peer = stage.enter("patient", Late(100), hello_timeout=120)
    hasty = stage.enter("hasty", Mute(), hello_timeout=0.5)
    async with stage.running() as host:
        assert [row.state for row in host.states()] == ["starting", "failed"]
        assert hasty.signals[0][0] == pytest.approx(0.5)
        await stage.event(ExtState, extension="patient", state="ready")
        assert asyncio.get_running_loop().time() - peer.began_at == pytest.approx(100)


@pytest.mark.promise("S12")
async def test_one_whose_hello_takes_twelve_seconds_joins_when_it_is_ready(stage: Stage) -> None:
    peer = stage.enter("late", Late(12, COMMAND))
    async with stage.running() as host:
        assert host.find("/go") is None
        told = await stage.event(ExtRegistered, extension="late")
        assert asyncio.get_running_loop().time() - peer.began_at == pytest.approx(12)
        assert told.commands == ["go"]
        assert (await run(host, "/go")).text == "done"


@pytest.mark.promise("S10")
@pytest.mark.promise("S17")
async def test_the_acknowledgement_is_the_first_frame_and_comes_at_once(stage: Stage) -> None:
    peer = stage.enter("a", Late(7, COMMAND), version="3.2.1")
    async with stage.running():
        ack = await peer.next("hello_ack")
        assert peer.times("hello_ack") == [pytest.approx(7)]
        assert peer.heard[0] is ack
        assert ack["protocol_version"] == 1
        assert (ack["provider"], ack["model"], ack["session_id"]) == ("scripted", "scripted-1", "s-1")
        assert ack["cwd"] == str(stage.cwd)
        assert ack["extension_dir"] == ack["data_dir"] == str(stage.home / "extensions" / "a")
        assert ack["host"]["name"] == "zotd"
        assert ack["zot_version"] != ack["host"]["version"]


@pytest.mark.promise("S24")
async def test_a_quarter_of_a_second_without_a_frame_counts_as_ready(stage: Stage) -> None:
    stage.enter("quiet", Unready())
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with stage.running() as host:
        assert loop.time() - began == pytest.approx(Limits().auto_ready_s)
        assert Limits().auto_ready_s == 0.25
        assert [row.state for row in host.states()] == ["auto_ready"]
    assert "counted as ready after 0.25 s without a frame" in stage.log("quiet")


async def test_each_frame_begins_the_quarter_of_a_second_anew(stage: Stage) -> None:
    stage.enter("slow", Unready(0.2, 0.4, 0.6))
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with stage.running() as host:
        assert loop.time() - began == pytest.approx(0.6 + 0.25)
        assert [command.name for command in host.commands()] == ["c0", "c1", "c2"]


async def test_a_frame_that_cannot_be_used_begins_it_anew_too(stage: Stage) -> None:
    class Garbled(Peer):
        def greeted(self) -> None:
            asyncio.get_running_loop().call_later(0.2, self.say_bytes, b"not json\n")

    stage.enter("garbled", Garbled())
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with stage.running():
        assert loop.time() - began == pytest.approx(0.2 + 0.25)


@pytest.mark.promise("S24")
async def test_ready_after_it_was_counted_as_ready_changes_nothing(stage: Stage) -> None:
    peer = stage.enter("quiet", Unready())
    async with stage.running() as host:
        peer.say(type="ready")
        peer.say(type="notify", message="behind it")
        await stage.event(ExtNotify, message="behind it")
        assert [row.state for row in host.states()] == ["auto_ready"]
        assert [event.state for event in stage.seen(ExtState)] == ["starting", "auto_ready"]


@pytest.mark.promise("S12")
async def test_frames_sent_before_the_acknowledgement_are_kept_and_handled(stage: Stage) -> None:
    class Hasty(Peer):
        def began(self) -> None:
            super().began()
            self.say(**COMMAND)
            self.say(type="notify", message="hello?")
            self.say(type="ready")

        def greeted(self) -> None:
            pass

    stage.enter("hasty", Hasty())
    async with stage.running() as host:
        assert [row.state for row in host.states()] == ["ready"]
        assert [note.message for note in stage.seen(ExtNotify)] == ["hello?"]
        assert (await run(host, "/go")).text == "done"


async def test_up_to_twenty_lines_of_a_banner_are_skipped_and_logged(stage: Stage) -> None:
    class Wordy(Peer):
        lines = 20

        def began(self) -> None:
            self.say_bytes(b"".join(b"line %d\n" % number for number in range(self.lines)))
            super().began()

    class TooWordy(Wordy):
        lines = 21

    stage.enter("wordy", Wordy())
    stage.enter("babbler", TooWordy())
    async with stage.running() as host:
        assert {row.name: row.state for row in host.states()} == {"wordy": "ready", "babbler": "failed"}
        assert "more than 20 lines before hello" in str(host.states()[1].error)
    assert stage.log("wordy").count("skipped a line before hello that is no frame: line ") == 20


@pytest.mark.promise("S9")
@pytest.mark.promise("S69")
@pytest.mark.parametrize(
    ("says", "error"),
    [
        ({"type": "notify", "message": "hi"}, "failed: its first frame was notify, not hello"),
        (
            {"type": "hello"},
            "failed: its first frame must be hello: hello: Object missing required field `name`",
        ),
        ({"type": "hello", "name": ""}, "failed: its first frame must be hello: "),
    ],
)
async def test_a_first_frame_that_is_not_hello_is_named_in_the_error(
    stage: Stage, says: Frame, error: str
) -> None:
    class Rude(Peer):
        def began(self) -> None:
            self.say(**says)

    peer = stage.enter("rude", Rude())
    async with stage.running() as host:
        (row,) = host.states()
        assert row.state == "failed"
        assert str(row.error).startswith(f"extension rude {error}")
        assert row.log_path in str(row.error)
        assert peer.heard == []
        assert peer.exited.done()


@pytest.mark.promise("S69")
@pytest.mark.parametrize(
    ("code", "how"),
    [
        (0, "exited: exit status 0 before hello"),
        (7, "exited: exit status 7 before hello"),
        (-9, "exited: killed by SIGKILL before hello"),
        (-11, "exited: killed by SIGSEGV before hello"),
        (None, "closed its stdout before hello"),
    ],
)
async def test_an_end_before_hello_says_how_it_ended_and_where_the_log_is(
    stage: Stage, code: int | None, how: str
) -> None:
    class Brief(Peer):
        def began(self) -> None:
            if code is None:
                self.end_output()
            else:
                self.exit(code)

    stage.enter("brief", Brief())
    async with stage.running() as host:
        (row,) = host.states()
        assert row.error == f"extension brief {how} (log: {row.log_path})"


@pytest.mark.promise("S17")
async def test_a_hello_with_another_name_than_the_manifest_is_accepted_and_the_manifest_counts(
    stage: Stage,
) -> None:
    class Alias(Peer):
        def began(self) -> None:
            self.say(type="hello", name="alias")

    stage.enter("real", Alias(COMMAND))
    async with stage.running() as host:
        assert [row.name for row in host.states()] == ["real"]
        assert host.commands()[0].extension == "real"
    assert "hello says 'alias', the manifest 'real', which counts" in stage.log("real")


@pytest.mark.promise("S17")
async def test_capabilities_in_hello_forbid_nothing(stage: Stage) -> None:
    class Modest(Peer):
        capabilities = ("tools", "unheard-of")

    stage.enter("modest", Modest(COMMAND))
    async with stage.running() as host:
        assert (await run(host, "/go")).text == "done"


@pytest.mark.promise("S12")
async def test_a_late_registration_joins_the_registry_and_clients_are_told(stage: Stage) -> None:
    peer = stage.enter("a", Peer(COMMAND))
    async with stage.running() as host:
        peer.say(type="register_command", name="later")
        await stage.event(ExtRegistered, commands=["go", "later"])
        assert (await run(host, "/later")).text == "done"
        peer.say(type="register_tool", name="lookup", description="look it up")
        told = await stage.event(ExtRegistered, tools=["lookup"])
        assert told.commands == ["go", "later"]
        assert stage.toolbox.names() == ["lookup"]


@pytest.mark.promise("S26")
async def test_subscriptions_add_up_late_ones_too_and_unknown_names_are_logged(stage: Stage) -> None:
    peer = stage.enter("a", Peer({"type": "subscribe", "events": ["eclipse"], "intercept": ["turn_start"]}))
    async with stage.running() as host:
        peer.say(type="subscribe", intercept=["assistant_message", "turn_end"])
        peer.say(type="notify", message="subscribed")
        await stage.event(ExtNotify, message="subscribed")
        assert await asked(host, peer) == ["turn_start", "assistant_message"]
    assert "subscribe.events: 'eclipse' was ignored" in stage.log("a")
    assert "subscribe.intercept: 'turn_end' was ignored" in stage.log("a")


async def asked(host: ExtensionHost, peer: Peer) -> list[str]:
    """What a peer is asked to decide on in a turn."""
    await host.interception.turn_start(1)
    await host.interception.assistant_message("text")
    return [frame["event"] for frame in peer.of("event_intercept")]


async def test_those_that_register_in_time_get_names_in_load_order_however_fast_they_are(
    stage: Stage,
) -> None:
    stage.enter("first", Late(2, COMMAND))
    stage.enter("second", Peer(COMMAND))
    async with stage.running() as host:
        assert [command.extension for command in host.commands()] == ["first"]
    assert "command /go is shadowed: extension first has it" in stage.log("second")


async def test_one_that_comes_later_never_takes_a_name_in_use(stage: Stage) -> None:
    stage.enter("first", Late(4, COMMAND))
    stage.enter("second", Peer(COMMAND))
    async with stage.running() as host:
        await stage.event(ExtState, extension="first", state="ready")
        assert [command.extension for command in host.commands()] == ["second"]
    assert "command /go is shadowed: extension second has it" in stage.log("first")
