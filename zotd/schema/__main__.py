"""Owns `python -m zotd.schema [--check] [--out DIR]`: write the generated files, or say which are stale."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from zotd.schema.definitions import json_schema
from zotd.schema.methods_page import methods_page
from zotd.schema.reference import events_page, frames_page

_REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def generated() -> dict[str, str]:
    """The text of every generated file, by its name. The same types give the same bytes."""
    return {
        "events.md": events_page(),
        "extension-frames.md": frames_page(),
        "methods.md": methods_page(),
        "schema.json": json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n",
    }


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
    parser.add_argument("--out", type=Path, default=_REFERENCE, help="directory of the files (%(default)s)")
    options = parser.parse_args(arguments)
    if options.check:
        found = stale(options.out)
        for path in found:
            print(f"{path} is stale: run `python -m zotd.schema`", file=sys.stderr)
        return 1 if found else 0
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in generated().items():
        (options.out / name).write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
