"""Owns the events that come from extensions. Import them from `events`, which has them all."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from zotd.protocol.envelope import EventBase
from zotd.protocol.session import ExtensionState, NoteLevel, ShadowedName


class ExtNotify(EventBase, frozen=True, kw_only=True, tag="ext_notify"):
    """An extension has something to say, or the host says it about one.

    extension: whose notice.
    level: `info`, `success`, `warn` or `error`.
    message: one or more lines.

    Example: {"type":"ext_notify","extension":"weather","level":"info","message":"cache refreshed"}
    """

    extension: str
    level: NoteLevel
    message: str


class ExtDisplay(EventBase, frozen=True, kw_only=True, tag="ext_display"):
    """Text to show once, outside the conversation.

    extension: whose text.
    command: the command that asked for it, without the slash.
    text: what to show.

    Example: {"type":"ext_display","extension":"clock","command":"time","text":"14:05"}
    """

    extension: str
    command: str | None = None
    text: str


class ExtClearNotes(EventBase, frozen=True, kw_only=True, tag="ext_clear_notes"):
    """Every notice and displayed text of one extension is to vanish.

    extension: whose notes.

    Example: {"type":"ext_clear_notes","extension":"weather"}
    """

    extension: str


class ExtInsert(EventBase, frozen=True, kw_only=True, tag="ext_insert"):
    """Text to put at the cursor of the prompt, not to submit.

    extension: who asks.
    text: what to insert.

    Example: {"type":"ext_insert","extension":"snippets","text":"Explain this file."}
    """

    extension: str
    text: str


class ExtPanelOpen(EventBase, frozen=True, kw_only=True, tag="ext_panel_open"):
    """An extension opened a panel; one it had open before is closed.

    extension: whose panel.
    panel_id: the extension's name for it.
    title: its heading.
    lines: its rows; SGR colours are the only control sequences in them.
    footer: its last row.

    Example: {"type":"ext_panel_open","extension":"todos","panel_id":"main","title":"Todos","lines":["□ ship"],"footer":"esc close"}
    """  # noqa: E501

    extension: str
    panel_id: str
    title: str
    lines: list[str]
    footer: str


class ExtPanelRender(EventBase, frozen=True, kw_only=True, tag="ext_panel_render"):
    """The open panel looks different now.

    extension: whose panel.
    panel_id: the extension's name for it.
    title: its heading, the old one included when it did not change.
    lines: its rows, in place of the old ones.
    footer: its last row, in place of the old one.

    Example: {"type":"ext_panel_render","extension":"todos","panel_id":"main","title":"Todos","lines":["✓ ship"],"footer":"esc close"}
    """  # noqa: E501

    extension: str
    panel_id: str
    title: str
    lines: list[str]
    footer: str


class ExtPanelClose(EventBase, frozen=True, kw_only=True, tag="ext_panel_close"):
    """A panel is gone, whoever closed it.

    extension: whose panel.
    panel_id: the extension's name for it.

    Example: {"type":"ext_panel_close","extension":"todos","panel_id":"main"}
    """

    extension: str
    panel_id: str


class ExtState(EventBase, frozen=True, kw_only=True, tag="ext_state"):
    """An extension moved on in its life.

    extension: which.
    state: where it is now.
    error: why it failed or ended, with the path of its log.
    version: from its manifest.
    dir: absolute path of its directory.
    scope: `flag`, `project` or `global`.
    log_path: absolute path of the file its stderr goes to.

    Example: {"type":"ext_state","extension":"weather","state":"failed","error":"exited: exit status 7"}
    """

    extension: str
    state: ExtensionState
    error: str | None = None
    version: str | None = None
    dir: str | None = None
    scope: Literal["flag", "project", "global"] | None = None
    log_path: str | None = None


class ExtRegistered(EventBase, frozen=True, kw_only=True, tag="ext_registered"):
    """What an extension offers changed.

    extension: which.
    commands: all names of commands it owns now, without the slash.
    tools: all names of tools it owns now.
    shadowed: names it wanted and does not have.

    Example: {"type":"ext_registered","extension":"weather","commands":["weather"],"tools":["weather"]}
    """

    extension: str
    commands: list[str]
    tools: list[str]
    shadowed: list[ShadowedName] = field(default_factory=list)
