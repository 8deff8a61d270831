"""Owns `--list-models`: the columns another program reads."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from zotd.base.paths import zot_home
from zotd.providers.catalog import models


def list_models(environ: Mapping[str, str]) -> int:
    """A header, then provider, model, context, max-out, a tick for reasoning, source, name. Returns 0."""
    rows = [("provider", "model", "context", "max-out", "reasoning", "source", "name")]
    rows += [
        (
            choice.provider,
            choice.model,
            str(choice.window),
            str(choice.max_output),
            "✓" if choice.reasoning else "",
            choice.source,
            choice.name,
        )
        for choice in models(zot_home(environ))
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
    return 0
