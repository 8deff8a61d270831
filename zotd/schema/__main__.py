"""Owns `python -m zotd.schema [--check] [--out DIR]`: write the generated files, or say which are stale."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zotd.schema.definitions import json_schema
from zotd.schema.openrpc import openrpc
from zotd.schema.reference import events_page, frames_page
from zotd.schema.rpc_page import rpc_page

_ROOT = Path(__file__).parents[2]


def generated() -> dict[str, str]:
    """The text of every generated file, by its path from the root. The same types give the same bytes."""
    return {
        "docs/rpc.md": _linked(rpc_page(), "docs/"),
        "docs/reference/events.md": _linked(events_page(), "docs/reference/"),
        "docs/reference/extension-frames.md": _linked(frames_page(), "docs/reference/"),
        "docs/reference/schema.json": json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n",
        # Part of the package: the daemon answers `rpc.discover` with it and imports nothing from here.
        "zotd/protocol/openrpc.json": _by_line(openrpc()) + "\n",
    }


def _by_line(value: Any, depth: int = 3) -> str:
    """JSON without spaces, but with a line for each method and each shape, so that a change can be read."""
    if depth and value and isinstance(value, dict):
        rows = [f"{json.dumps(key)}:{_by_line(each, depth - 1)}" for key, each in value.items()]
        return "{\n" + ",\n".join(rows) + "\n}"
    if depth and value and isinstance(value, list):
        return "[\n" + ",\n".join(_by_line(each, 0) for each in value) + "\n]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _linked(page: str, directory: str) -> str:
    """A page with its links, which begin with `/` for docs/, made to work from its own directory."""
    to_docs = "../" * (directory.count("/") - 1)
    return page.replace(f"](/{directory.removeprefix('docs/')}", "](").replace("](/", f"]({to_docs}")


def stale(directory: Path) -> list[Path]:
    """The files in `directory` that are missing or differ from what would be written."""
    return [
        directory / name
        for name, text in generated().items()
        if not (directory / name).is_file() or (directory / name).read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code, 1 when `--check` found a stale file."""
    parser = argparse.ArgumentParser(prog="python -m zotd.schema", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    parser.add_argument("--out", type=Path, default=_ROOT, help="root of the repository (%(default)s)")
    options = parser.parse_args(arguments)
    if options.check:
        found = stale(options.out)
        for path in found:
            print(f"{path} is stale: run `python -m zotd.schema`", file=sys.stderr)
        return 1 if found else 0
    for name, text in generated().items():
        (options.out / name).parent.mkdir(parents=True, exist_ok=True)
        (options.out / name).write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
