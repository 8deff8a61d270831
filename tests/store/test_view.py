"""Whoever has a snapshot and what came after it has what everybody else has."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from zotd.base.limits import Limits
from zotd.protocol.content import ContextUse, Text, ToolCallInfo, Usage
from zotd.protocol.events import (
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    AssistantStart,
    CompactDone,
    CompactStart,
    Done,
    ErrorEvent,
    Event,
    ExtClearNotes,
    ExtDisplay,
    ExtInsert,
    ExtNotify,
    ExtPanelClose,
    ExtPanelOpen,
    ExtPanelRender,
    ExtRegistered,
    ExtState,
    QueueChanged,
    Resync,
    SessionChanged,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolProgress,
    ToolResulted,
    TurnEnd,
    TurnStart,
    UsageReport,
    UserMessage,
)
from zotd.protocol.session import (
    ExtensionInfo,
    Note,
    Panel,
    PendingApproval,
    Preview,
    QueuedTurn,
    SessionInfo,
    ShadowedName,
)
from zotd.store.view import SessionView
from zotd.wire.codec import decode, encode, to_wire

LIMITS = Limits(notes_kept=3, notes_bytes=40)
START = SessionInfo(
    session_id="s",
    epoch="e",
    next_seq=1,
    cwd="/",
    trusted=True,
    provider="scripted",
    model="scripted",
    reasoning="",
    approval="auto",
    ephemeral=True,
    created="t",
    updated="t",
    message_count=0,
    last_message_id=0,
    busy=False,
    queue=[],
    usage=Usage(),
    context=ContextUse(),
    notes=[],
    panels=[],
    pending_approvals=[],
    extensions=[],
)

words = st.text(max_size=12) | st.sampled_from(["", "\ud800", "a\u2028b", "é" * 12, "x" * 60])
ids = st.integers(0, 9)
turns = st.sampled_from(["t1", "t2", "t3"])
names = st.sampled_from(["ada", "bob", "zotd"])
levels = st.sampled_from(["info", "success", "warn", "error"])
states = st.sampled_from(["starting", "ready", "failed", "stopped", "shadowed"])
stops = st.sampled_from(["end_turn", "tool_use", "length", "error", "aborted"])
content = st.lists(words.map(Text), max_size=2)
usage = st.builds(Usage, ids, ids, ids, ids)
context = st.builds(ContextUse, ids, ids)
shadowed = st.lists(
    st.builds(ShadowedName, kind=st.just("tool"), name=words, by=st.none() | names), max_size=1
)
queue = st.lists(
    st.builds(QueuedTurn, turn_id=turns, text=words, client=names, steer=st.booleans()), max_size=2
)
folders = st.sampled_from(["/a", "/b"])
panel: dict[str, Any] = {
    "extension": names,
    "panel_id": words,
    "title": words,
    "lines": st.lists(words, max_size=2),
    "footer": words,
}
questions = st.sampled_from(["approval_1", "approval_2"])
calls = st.builds(ToolCallInfo, id=words, name=words, args=st.just({"command": "make"}))
previews = st.builds(Preview, kind=st.just("command"), command=words)
row = st.builds(
    ExtensionInfo,
    name=names,
    version=words,
    dir=folders,
    scope=st.sampled_from(["flag", "project", "global"]),
    state=states,
    error=st.none() | words,
    log_path=words,
    commands=st.lists(words, max_size=2),
    tools=st.lists(words, max_size=2),
    shadowed=shadowed,
)


@st.composite
def pictures(draw: st.DrawFn) -> SessionInfo:
    """What `session_changed` and `resync` bring: anything that a session can be."""
    active = draw(st.none() | turns)
    notes = st.builds(Note, extension=names, text=words, level=st.none() | levels, command=st.none() | words)
    standing = SessionView(START, LIMITS)
    for note in draw(st.lists(notes, max_size=4)):
        standing.notes.add(note)
    return msgspec.structs.replace(
        START,
        title=draw(st.none() | words),
        model=draw(words),
        trusted=draw(st.booleans()),
        updated=draw(words),
        message_count=draw(ids),
        last_message_id=draw(ids),
        busy=active is not None,
        active_turn=active,
        partial_text=draw(st.none() | st.text(min_size=1, max_size=5)),
        queue=draw(queue),
        usage=draw(usage),
        context=draw(context),
        notes=standing.notes.rows(),
        panels=draw(st.lists(st.builds(Panel, **panel), max_size=2, unique_by=lambda one: one.extension)),
        pending_approvals=draw(
            st.lists(
                st.builds(PendingApproval, approval_id=questions, tool_call=calls, preview=previews),
                max_size=2,
                unique_by=lambda one: one.approval_id,
            )
        ),
        extensions=draw(st.lists(row, max_size=3, unique_by=lambda one: (one.name, one.dir))),
    )


events: st.SearchStrategy[Event] = st.one_of(
    st.builds(UserMessage, content=content, origin=names, message_id=ids),
    st.builds(TurnStart, step=ids),
    st.builds(AssistantStart, withheld_by=st.none() | st.lists(names, max_size=1)),
    st.builds(TextDelta, delta=words),
    st.builds(TextDelta, delta=words),
    st.builds(ThinkingDelta, delta=words),
    st.builds(AssistantMessage, content=content, message_id=ids),
    st.builds(ToolCalled, id=words, name=words, args=st.just({})),
    st.builds(ToolProgress, id=words, text=words),
    st.builds(
        ToolResulted,
        id=words,
        is_error=st.booleans(),
        content=content,
        details=st.just({"tool": "bash"}),
        message_id=ids,
    ),
    st.builds(TurnEnd, stop=stops, error=st.none() | words),
    st.builds(ErrorEvent, message=words, kind=words),
    st.builds(Done, turn_id=turns, stop=stops),
    st.builds(CompactStart),
    st.builds(CompactDone, summary=words, message_count=ids, last_message_id=ids),
    st.builds(
        UsageReport,
        input=ids,
        output=ids,
        cache_read=ids,
        cache_write=ids,
        cost_usd=st.just(0.5),
        cumulative=usage,
        context=context,
    ),
    st.builds(ApprovalRequested, approval_id=questions, tool_call=calls, preview=previews),
    st.builds(ApprovalResolved, approval_id=questions, decision=st.just("deny"), by=names),
    st.builds(QueueChanged, turns=queue),
    st.builds(SessionChanged, session=pictures()),
    st.builds(Resync, session=pictures()),
    st.builds(ExtNotify, extension=names, level=levels, message=words),
    st.builds(ExtNotify, extension=names, level=levels, message=words),
    st.builds(ExtDisplay, extension=names, text=words, command=st.none() | words),
    st.builds(ExtClearNotes, extension=names),
    st.builds(ExtInsert, extension=names, text=words),
    st.builds(ExtPanelOpen, **panel),
    st.builds(ExtPanelRender, **panel),
    st.builds(ExtPanelClose, extension=names, panel_id=words),
    st.builds(
        ExtState,
        extension=names,
        state=states,
        error=st.none() | words,
        version=st.none() | words,
        dir=folders,
        scope=st.sampled_from(["flag", "global"]),
    ),
    st.builds(
        ExtRegistered,
        extension=names,
        commands=st.lists(words, max_size=2),
        tools=st.lists(words, max_size=2),
        shadowed=shadowed,
    ),
)


def through_json(struct: Any, kind: type) -> Any:
    """What a client makes of it."""
    return msgspec.convert(decode(encode(to_wire(struct))), kind)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(events, st.none() | turns), max_size=25))
def test_a_snapshot_and_the_later_events_are_the_whole_replay(
    history: list[tuple[Event, str | None]],
) -> None:
    view = SessionView(START, LIMITS)
    snapshots = [view.info(1)]
    for number, (event, turn) in enumerate(history, 1):
        view.fold(event, f"time {number}", turn)
        snapshots.append(view.info(number + 1))
    whole = snapshots[-1]
    received = [through_json(event, type(event)) for event, _ in history]
    for cut, snapshot in enumerate(snapshots):
        inside = SessionView(snapshot, LIMITS)
        client = SessionView(through_json(snapshot, SessionInfo), LIMITS)
        for number in range(cut, len(history)):
            inside.fold(history[number][0], f"time {number + 1}", history[number][1])
            client.fold(received[number], f"time {number + 1}", history[number][1])
        assert inside.info(len(history) + 1) == whole
        assert client.info(len(history) + 1) == through_json(whole, SessionInfo)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(events, st.none() | turns), max_size=25))
def test_a_snapshot_stays_as_it_was_while_events_go_on(history: list[tuple[Event, str | None]]) -> None:
    view, taken = SessionView(START, LIMITS), []
    for number, (event, turn) in enumerate(history, 1):
        taken.append((snapshot := view.info(number), encode(to_wire(snapshot))))
        view.fold(event, "later", turn)
    assert [encode(to_wire(snapshot)) for snapshot, _ in taken] == [written for _, written in taken]


def test_the_picture_is_what_the_events_say() -> None:
    """Each kind of event once, so that the fold is known to do something."""
    view = SessionView(START, LIMITS)

    def info_after(*story: Event, turn: str | None = "t1") -> SessionInfo:
        for event in story:
            view.fold(event, "now", turn)
        return view.info(9)

    busy = info_after(
        UserMessage(content=[Text("hi")], message_id=1), AssistantStart(), TextDelta(delta="so ")
    )
    assert (busy.busy, busy.active_turn, busy.partial_text, busy.message_count) == (True, "t1", "so ", 1)
    spoken = info_after(AssistantMessage(content=[Text("so far")], message_id=2))
    assert (spoken.partial_text, spoken.message_count, spoken.updated) == (None, 2, "now")
    other = info_after(Done(turn_id="a command", stop="end_turn"), turn="a command")
    assert other.active_turn == "t1"
    over = info_after(TextDelta(delta="cut"), Done(turn_id="t1", stop="aborted"))
    assert (over.busy, over.active_turn, over.partial_text) == (False, None, None)
    small = info_after(CompactStart(), CompactDone(summary="s", message_count=1, last_message_id=3))
    assert (small.busy, small.message_count, small.last_message_id) == (True, 1, 3)
    noted = info_after(
        Done(turn_id="t1", stop="end_turn"),
        *(ExtNotify(extension="ada", level=level, message=level) for level in ("error", "info", "warn")),
        ExtDisplay(extension="bob", text="shown"),
        QueueChanged(turns=[QueuedTurn(turn_id="t2", text="next", client="c")]),
        turn=None,
    )
    assert [note.text for note in noted.notes] == ["error", "warn", "shown"]
    assert [turn.text for turn in noted.queue] == ["next"]
    assert [note.text for note in info_after(ExtClearNotes(extension="ada"), turn=None).notes] == ["shown"]
    call, preview = ToolCallInfo("t", "bash", {"command": "make"}), Preview(kind="command", command="make")
    asked = info_after(*(ApprovalRequested(approval_id=one, tool_call=call, preview=preview) for one in "ab"))
    assert asked.pending_approvals == [
        PendingApproval(approval_id=one, tool_call=call, preview=preview) for one in "ab"
    ]
    settled = info_after(ApprovalResolved(approval_id="a", decision="allow", by="nvim"))
    assert [pending.approval_id for pending in settled.pending_approvals] == ["b"]
