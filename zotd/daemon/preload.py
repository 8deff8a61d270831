"""Owns loading ahead of need what a daemon would import late: after an upgrade that is another version."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import Iterator

import zotd
from zotd.base.log import log
from zotd.daemon.installation import Installation

_NOT_SERVING = ("zotd.cli", "zotd.schema")
"""Rooms of ours that a daemon has loaded as far as it needs them."""
_OF_OTHERS = ("httpx2", "yaml", "orjson")
"""Libraries that turns need which wait while it drains; others serve exports, and may fail by then."""


async def preload(installation: Installation, after_s: float) -> None:
    """Load all of it, in a thread and a module at a time, some seconds after the start: clients come first.

    installation: looks at those files too from then on.
    """
    await asyncio.sleep(after_s)
    for name in modules():
        try:
            await asyncio.to_thread(importlib.import_module, name)
        except ImportError as wrong:  # one for another system, or an upgrade that is under way
            log("not loaded", "warn", module=name, reason=str(wrong))
    installation.loaded()


def modules() -> Iterator[str]:
    """Names of the modules that serve, and of what they need."""
    for found in pkgutil.walk_packages(zotd.__path__, "zotd."):
        if not found.name.startswith(_NOT_SERVING) and not found.name.endswith("__main__"):
            yield found.name
    yield from _OF_OTHERS
