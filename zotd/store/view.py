"""Owns the picture of a session: the fold of its events, from which every snapshot is taken.

Whoever has a snapshot and folds the events after it has the same picture as whoever folded all of them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from msgspec.structs import replace

from zotd.base.limits import Limits
from zotd.protocol.content import ContextUse
from zotd.protocol.events import (
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    AssistantStart,
    CompactDone,
    CompactStart,
    Done,
    Event,
    ExtClearNotes,
    ExtDisplay,
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
    ToolResulted,
    TurnEnd,
    UsageReport,
    UserMessage,
)
from zotd.protocol.session import ExtensionInfo, Note, Panel, PendingApproval, QueuedTurn, SessionInfo


class NotesInView:
    """Notes that stand, oldest first, at most so many and so many bytes. What failed goes last."""

    def __init__(self, limits: Limits) -> None:
        self._kept = limits.notes_kept
        self._most = limits.notes_bytes
        self._bytes = 0
        self._rows: deque[tuple[Note, int]] = deque()

    def rows(self) -> list[Note]:
        return [note for note, _ in self._rows]

    def replace(self, notes: list[Note]) -> None:
        self._rows.clear()
        self._bytes = 0
        for note in notes:
            self.add(note)

    def add(self, note: Note) -> None:
        size = len(note.text) if note.text.isascii() else len(note.text.encode("utf-8", "surrogatepass"))
        self._rows.append((note, size))
        self._bytes += size
        while len(self._rows) > self._kept or self._bytes > self._most:
            at = self._first_to_go()
            self._bytes -= self._rows[at][1]
            del self._rows[at]

    def _first_to_go(self) -> int:
        for at, (note, _) in enumerate(self._rows):
            if note.level != "error":
                return at
        return 0

    def clear(self, extension: str) -> None:
        self._rows = deque(row for row in self._rows if row[0].extension != extension)
        self._bytes = sum(size for _, size in self._rows)


class SessionView:
    """A session as its events tell it. `fold` takes every event, in order; `info` is the snapshot."""

    def __init__(self, start: SessionInfo, limits: Limits) -> None:
        """start: the picture before the first event to be folded."""
        self.context = ContextUse()
        self.queue: list[QueuedTurn] = []
        self.notes = NotesInView(limits)
        self.panels: dict[str, Panel] = {}
        self.approvals: dict[str, PendingApproval] = {}
        self.extensions: list[ExtensionInfo] = []
        self._partial: list[str] = []
        self._take(start)

    def info(self, next_seq: int) -> SessionInfo:
        """The snapshot. next_seq: the number of the next event."""
        return replace(
            self._fixed,
            next_seq=next_seq,
            updated=self.updated,
            message_count=self.message_count,
            last_message_id=self.last_message_id,
            busy=self.active_turn is not None,
            active_turn=self.active_turn,
            partial_text=self.partial_text or None,
            queue=self.queue,
            usage=self.usage,
            context=self.context,
            notes=self.notes.rows(),
            panels=list(self.panels.values()),
            pending_approvals=list(self.approvals.values()),
            extensions=list(self.extensions),
        )

    @property
    def partial_text(self) -> str:
        """What was shown so far of the message that streams at present."""
        return "".join(self._partial)

    def fold(self, event: Event, time: str, turn_id: str | None) -> None:
        """Take in an event; time and turn_id are of its envelope."""
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event, time, turn_id)

    def _take(self, info: SessionInfo) -> None:
        self._fixed = info
        self.updated = info.updated
        self.message_count = info.message_count
        self.last_message_id = info.last_message_id
        self.active_turn = info.active_turn
        self._partial = [info.partial_text] if info.partial_text else []
        self.queue = info.queue
        self.usage = info.usage
        self.context = info.context
        self.notes.replace(info.notes)
        self.panels = {panel.extension: panel for panel in info.panels}
        self.approvals = {pending.approval_id: pending for pending in info.pending_approvals}
        self.extensions = list(info.extensions)

    def _replaced(self, event: SessionChanged | Resync, time: str, turn_id: str | None) -> None:
        self._take(event.session)

    def _delta(self, event: TextDelta, time: str, turn_id: str | None) -> None:
        self._partial.append(event.delta)

    def _message_begins(self, event: AssistantStart | TurnEnd, time: str, turn_id: str | None) -> None:
        self._partial.clear()

    def _row(
        self, event: UserMessage | AssistantMessage | ToolResulted, time: str, turn_id: str | None
    ) -> None:
        """A row that was never told of is counted with the next one that is."""
        self.updated = time
        if isinstance(event, UserMessage):
            self.active_turn = turn_id
        else:
            self._partial.clear()
        if event.message_id > self.last_message_id:
            self.message_count += event.message_id - self.last_message_id
            self.last_message_id = event.message_id

    def _compaction_begins(self, event: CompactStart, time: str, turn_id: str | None) -> None:
        self.active_turn = turn_id

    def _compacted(self, event: CompactDone, time: str, turn_id: str | None) -> None:
        self.updated = time
        self.message_count = event.message_count
        self.last_message_id = event.last_message_id

    def _used(self, event: UsageReport, time: str, turn_id: str | None) -> None:
        self.usage = event.cumulative
        self.context = event.context

    def _queue(self, event: QueueChanged, time: str, turn_id: str | None) -> None:
        self.queue = event.turns

    def _done(self, event: Done, time: str, turn_id: str | None) -> None:
        if event.turn_id == self.active_turn:
            self.updated = time
            self.active_turn = None
            self._partial.clear()

    def _noted(self, event: ExtNotify | ExtDisplay, time: str, turn_id: str | None) -> None:
        if isinstance(event, ExtNotify):
            self.notes.add(Note(extension=event.extension, text=event.message, level=event.level))
        else:
            self.notes.add(Note(extension=event.extension, text=event.text, command=event.command))

    def _cleared(self, event: ExtClearNotes, time: str, turn_id: str | None) -> None:
        self.notes.clear(event.extension)

    def _panel(self, event: ExtPanelOpen | ExtPanelRender, time: str, turn_id: str | None) -> None:
        self.panels[event.extension] = Panel(
            extension=event.extension,
            panel_id=event.panel_id,
            title=event.title,
            lines=event.lines,
            footer=event.footer,
        )

    def _panel_closed(self, event: ExtPanelClose, time: str, turn_id: str | None) -> None:
        self.panels.pop(event.extension, None)

    def _asked(self, event: ApprovalRequested, time: str, turn_id: str | None) -> None:
        self.approvals[event.approval_id] = PendingApproval(
            approval_id=event.approval_id, tool_call=event.tool_call, preview=event.preview
        )

    def _resolved(self, event: ApprovalResolved, time: str, turn_id: str | None) -> None:
        self.approvals.pop(event.approval_id, None)

    def _state(self, event: ExtState, time: str, turn_id: str | None) -> None:
        at = self._place(event.extension, event.dir)
        before = self.extensions[at] if at < len(self.extensions) else None
        row = ExtensionInfo(
            name=event.extension,
            version=event.version or "",
            dir=event.dir or "",
            scope=event.scope or "global",
            state=event.state,
            error=event.error,
            log_path=event.log_path or "",
            commands=before.commands if before is not None else [],
            tools=before.tools if before is not None else [],
            shadowed=before.shadowed if before is not None else [],
        )
        self.extensions[at : at + 1] = [row]

    def _registered(self, event: ExtRegistered, time: str, turn_id: str | None) -> None:
        at = self._place(event.extension, None)
        if at < len(self.extensions):
            self.extensions[at] = replace(
                self.extensions[at], commands=event.commands, tools=event.tools, shadowed=event.shadowed
            )

    def _place(self, name: str, directory: str | None) -> int:
        """Where the row of an extension is, or is to be. Two of one name lie in different directories."""
        for at, row in enumerate(self.extensions):
            if row.name == name and directory in (None, row.dir):
                return at
        return len(self.extensions)


_FOLDS: dict[type, Any] = {
    SessionChanged: SessionView._replaced,
    Resync: SessionView._replaced,
    TextDelta: SessionView._delta,
    AssistantStart: SessionView._message_begins,
    TurnEnd: SessionView._message_begins,
    UserMessage: SessionView._row,
    AssistantMessage: SessionView._row,
    ToolResulted: SessionView._row,
    CompactStart: SessionView._compaction_begins,
    CompactDone: SessionView._compacted,
    UsageReport: SessionView._used,
    QueueChanged: SessionView._queue,
    Done: SessionView._done,
    ExtNotify: SessionView._noted,
    ExtDisplay: SessionView._noted,
    ExtClearNotes: SessionView._cleared,
    ExtPanelOpen: SessionView._panel,
    ExtPanelRender: SessionView._panel,
    ExtPanelClose: SessionView._panel_closed,
    ApprovalRequested: SessionView._asked,
    ApprovalResolved: SessionView._resolved,
    ExtState: SessionView._state,
    ExtRegistered: SessionView._registered,
}
