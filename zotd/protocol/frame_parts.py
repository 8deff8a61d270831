"""Owns what frames of both directions are made of."""

from __future__ import annotations

from msgspec import Struct, field


class FrameBase(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """The parent of every frame: frozen, named by `type`, defaults stay off the wire.

    session_id: which session it is about; needed where an extension serves several.
    """

    session_id: str = ""


class PanelSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A panel to open.

    id: the extension's name for it, unique among its panels.
    title: its heading.
    lines: its rows.
    footer: its last row.

    Example: {"id":"todos-main","title":"Todos","lines":["□ ship panel api"],"footer":"esc close"}
    """

    id: str
    title: str = ""
    lines: list[str] = field(default_factory=list)
    footer: str = ""


class HostInfo(Struct, frozen=True, kw_only=True):
    """The program behind the host end.

    name: `zotd`.
    version: its own version.

    Example: {"name":"zotd","version":"0.1.0"}
    """

    name: str
    version: str


class PanelClose(FrameBase, frozen=True, kw_only=True, tag="panel_close"):
    """The panel is closed; either end may say so, and drawing of it is ignored from then on.

    panel_id: the panel's id.
    session_id: which session it is about; needed where an extension serves several.

    Example: {"type":"panel_close","panel_id":"todos-main"}
    """

    panel_id: str
