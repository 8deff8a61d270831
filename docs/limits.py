"""Writes docs/limits.md from the fields and docstrings of `zotd.base.limits.Limits`.

`python docs/limits.py` writes it, `--check` exits 1 when it is stale.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "zotd" / "base" / "limits.py"
PAGE = ROOT / "docs" / "limits.md"
HEAD = """\
# Limits

Every number that bounds a wait or a size. `make docs` writes this page from `zotd/base/limits.py`.
"""
UNITS = {"_s": "s", "_bytes": "bytes"}


class Limit(NamedTuple):
    """One field: its default as Python shows it, and the docstring below it."""

    group: str
    name: str
    default: float
    reason: str


def read(source: str) -> list[Limit]:
    """The fields of `Limits` in order, each in the group that the last comment line above it names.

    Raises SystemExit when a field has no docstring: a number without its reason is half a fact.
    """
    constants: dict[str, float] = {}
    fields: list[Limit] = []
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = _number(node.value, constants)
        if isinstance(node, ast.ClassDef) and node.name == "Limits":
            for field, after in zip(node.body, [*node.body[1:], None], strict=True):
                if isinstance(field, ast.AnnAssign):
                    fields.append(_limit(field, after, lines, constants))
    return fields


def _limit(
    field: ast.AnnAssign, after: ast.stmt | None, lines: list[str], constants: dict[str, float]
) -> Limit:
    assert isinstance(field.target, ast.Name)
    name = field.target.id
    match after:
        case ast.Expr(value=ast.Constant(value=str(reason))) if field.value is not None:
            group = next(
                line.strip("# ").rstrip()
                for line in reversed(lines[: field.lineno])
                if line.startswith("    # ")
            )
            return Limit(group, name, _number(field.value, constants), " ".join(reason.split()))
    raise SystemExit(f"{SOURCE}:{field.lineno}: {name} needs a default and a docstring that says why")


def _number(node: ast.expr, constants: dict[str, float]) -> float:
    value = eval(compile(ast.Expression(node), str(SOURCE), "eval"), {"__builtins__": {}}, constants)
    assert isinstance(value, int | float)
    return value


def shown(limit: Limit) -> str:
    """The default with its unit: `16 MiB`, `3 s`, `20`."""
    if limit.name.endswith("_bytes"):
        for size, unit in ((1024 * 1024, "MiB"), (1024, "KiB")):
            if limit.default >= size and limit.default % size == 0:
                return f"{limit.default // size:g} {unit}"
    number = f"{limit.default:,}".removesuffix(".0")
    unit = next((unit for ending, unit in UNITS.items() if limit.name.endswith(ending)), "")
    return f"{number} {unit}".rstrip()


def page(limits: list[Limit]) -> str:
    """The whole of docs/limits.md."""
    out = [HEAD]
    group = ""
    for limit in limits:
        if limit.group != group:
            group = limit.group
            out.append(f"\n## {group}\n\n| limit | default | meaning and reason |\n|---|---|---|\n")
        out.append(f"| `{limit.name}` | {shown(limit)} | {limit.reason.replace('|', chr(92) + '|')} |\n")
    return "".join(out)


def main(arguments: list[str]) -> int:
    text = page(read(SOURCE.read_text(encoding="utf-8")))
    if arguments == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.stderr.write("docs/limits.md is stale: run `make docs`\n")
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
