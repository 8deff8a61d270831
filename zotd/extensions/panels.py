"""Owns the panels of extensions: which one is open, what is in it, and who may change it."""

from __future__ import annotations

from zotd.extensions.extension import Extension
from zotd.extensions.surface import Surface
from zotd.protocol.frames import PanelRender, PanelSpec
from zotd.protocol.session import Panel


class Panels:
    """At most one open panel for each extension."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface

    def open(self, extension: Extension, panel: PanelSpec) -> None:
        """Open a panel, in place of one it had open. Where no client shows panels, close it at once."""

    def render(self, extension: Extension, frame: PanelRender) -> None:
        """Draw it anew, if it is the open one of this extension."""

    def close(self, extension: Extension, panel_id: str) -> None:
        """The extension closes it."""

    def release(self, extension: Extension) -> None:
        """It is gone: so is its panel."""

    def open_ones(self) -> list[Panel]:
        """What is open, for somebody who comes later."""
        return []
