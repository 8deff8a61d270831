"""Owns the panels of extensions: which one is open, what is in it, and who may change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from zotd.base.limits import Limits
from zotd.extensions.asking import AskFailed
from zotd.extensions.panel_text import one_row, rows
from zotd.protocol.events import ExtPanelClose, ExtPanelOpen, ExtPanelRender
from zotd.protocol.frames import FromHost, PanelClose, PanelKey, PanelRender, PanelResize, PanelSpec
from zotd.protocol.session import Panel

if TYPE_CHECKING:
    from zotd.extensions.extension import Extension
    from zotd.extensions.surface import Surface


KEYS = frozenset(
    {
        *("up", "down", "left", "right", "enter", "tab", "pageup", "pagedown", "home", "end"),
        *("backspace", "delete", "rune", "esc", "ctrl+c"),
    }
)
"""Keys a client may send. The last two close the panel; the extension is never sent them as keys."""

CLOSING = frozenset({"esc", "ctrl+c"})


class NoPanel(Exception):
    """That panel is not open, or no longer."""


def panel_of(extension: str, spec: PanelSpec, limits: Limits) -> tuple[Panel, bool]:
    """A panel as clients may show it: bounded, and no control sequences in it but colours.

    Also whether the bounds left anything out.
    """
    widest = limits.panel_row_chars
    shown, cut = rows(spec.lines, limits.panel_rows, widest)
    panel = Panel(
        extension=extension,
        panel_id=spec.id,
        title=one_row(spec.title[:widest]),
        lines=shown,
        footer=one_row(spec.footer[:widest]),
    )
    return panel, cut or len(spec.title) > widest or len(spec.footer) > widest


class Panels:
    """At most one open panel for each extension."""

    def __init__(self, surface: Surface, limits: Limits) -> None:
        self._surface = surface
        self._limits = limits
        self._open: dict[str, tuple[Extension, Panel]] = {}

    # What extensions do

    def open(self, extension: Extension, spec: PanelSpec, turn_id: str = "") -> bool:
        """Open a panel, in place of one it had open. turn_id: the command that answered with it.

        False for one without an id, which nobody could speak of, and where no attached client shows
        panels: that one is closed at once.
        """
        if not spec.id:
            extension.remark("open_panel was refused: its id is empty")
            return False
        if not self._surface.can("panels"):
            extension.remark(f"panel {spec.id!r} was closed at once: no attached client shows panels")
            _tell(extension, PanelClose(panel_id=spec.id))
            return False
        panel = self._drawn(extension, spec)
        if (former := self._open.get(extension.name)) is not None:
            self._end(extension.name)
            if former[1].panel_id != panel.panel_id:
                _tell(extension, PanelClose(panel_id=former[1].panel_id))
        self._open[extension.name] = extension, panel
        self._surface.publish(ExtPanelOpen(**_members(panel)), turn_id)
        return True

    def render(self, extension: Extension, frame: PanelRender) -> None:
        """Draw it anew, if it is the open one of this extension. An empty title keeps the old one."""
        was = self._owned(extension, frame.panel_id, "panel_render")
        if was is not None:
            spec = PanelSpec(id=was.panel_id, title=frame.title, lines=frame.lines, footer=frame.footer)
            panel = self._drawn(extension, spec)
            panel = replace(panel, title=panel.title or was.title)
            self._open[extension.name] = extension, panel
            self._surface.publish(ExtPanelRender(**_members(panel)))

    def close(self, extension: Extension, panel_id: str) -> None:
        """The extension closes it."""
        if self._owned(extension, panel_id, "panel_close") is not None:
            self._end(extension.name)

    def release(self, extension: Extension) -> None:
        """It is gone: so is its panel."""
        held = self._open.get(extension.name)
        if held is not None and held[0] is extension:
            self._end(extension.name)

    # What clients do

    def key(self, owner: str, panel_id: str, key: str, text: str = "") -> Callable[[], None]:
        """Hand on a key of `KEYS`; for `rune`, each character of `text` by itself. Some close the panel.

        Returns what is left to do once the client has its answer. Raises NoPanel, and AskFailed when the
        extension takes nothing.
        """
        extension = self._shown(owner, panel_id)
        if key in CLOSING:
            return self.dismissal(owner, panel_id)
        for character in text if key == "rune" else ("",):
            extension.send(PanelKey(panel_id=panel_id, key=key, text=character))
        return _nothing

    def resize(self, owner: str, panel_id: str, width: int, height: int) -> Callable[[], None]:
        """Tell an extension that wants to know how many cells there are. As `key` does."""
        extension = self._shown(owner, panel_id)
        if "panel_resize" in extension.capabilities:
            extension.send(PanelResize(panel_id=panel_id, width=width, height=height))
        return _nothing

    def dismissal(self, owner: str, panel_id: str) -> Callable[[], None]:
        """What closes it, for everybody and though its extension may be stuck. Raises NoPanel."""
        self._shown(owner, panel_id)

        def dismiss() -> None:
            held = self._open.get(owner)
            if held is not None and held[1].panel_id == panel_id:
                self._end(owner)
                _tell(held[0], PanelClose(panel_id=panel_id))

        return dismiss

    def _drawn(self, extension: Extension, spec: PanelSpec) -> Panel:
        panel, cut = panel_of(extension.name, spec, self._limits)
        if cut:
            most, widest = self._limits.panel_rows, self._limits.panel_row_chars
            extension.remark(f"panel {spec.id!r} was cut to {most} rows of {widest} characters")
        return panel

    def _owned(self, extension: Extension, panel_id: str, what: str) -> Panel | None:
        held = self._open.get(extension.name)
        if held is not None and held[1].panel_id == panel_id:
            return held[1]
        extension.remark(f"{what} for {panel_id!r} was ignored: it has no such panel open")
        return None

    def _shown(self, owner: str, panel_id: str) -> Extension:
        held = self._open.get(owner)
        if held is None or held[1].panel_id != panel_id:
            raise NoPanel(f"extension {owner} has no panel {panel_id!r} open")
        return held[0]

    def _end(self, owner: str) -> None:
        _, panel = self._open.pop(owner)
        self._surface.publish(ExtPanelClose(extension=owner, panel_id=panel.panel_id))


def _nothing() -> None:
    """All was done already."""


def _members(panel: Panel) -> dict[str, Any]:
    return {name: getattr(panel, name) for name in panel.__struct_fields__}


def _tell(extension: Extension, frame: FromHost) -> None:
    """Send what may be lost: who does not read, or is gone, is not worth failing for."""
    try:
        extension.send(frame)
    except AskFailed as failure:
        extension.remark(f"was not told that its panel is closed: {failure}")
