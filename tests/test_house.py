"""The rules of the house, as tests: who may import whom, sizes, words, links."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "zotd"

# An import points to a lower level or stays in its own room. `zotd` itself holds the version, nothing else.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("protocol",),
    ("base",),
    ("wire", "agent", "process"),
    ("providers", "tools", "extensions", "store", "project"),
    ("daemon",),
    ("acp",),
    ("cli",),
)
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
MAY_SEE_ONLY = {"schema": {"protocol"}}
ROOMS = {*LEVEL_OF, *MAY_SEE_ONLY}


def may_import(room: str, other: str) -> bool:
    if room == other or other == "":
        return True
    if room in MAY_SEE_ONLY:
        return other in MAY_SEE_ONLY[room]
    return other in LEVEL_OF and LEVEL_OF[other] < LEVEL_OF.get(room, 0)


def room_of(module: str) -> str:
    """`zotd.agent.loop` -> `agent`; the package itself -> ""; `zotd.__main__` counts as the cli."""
    name = module.removeprefix("zotd").lstrip(".").split(".")[0]
    return "cli" if name == "__main__" else name


def imported_modules(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Every import anywhere in `tree`, inside functions too, as line and absolute module name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                base = ".".join([*above[: len(above) - node.level + 1], *([base] if base else [])])
            yield node.lineno, base
            # `from zotd import agent` names the room on the right.
            if base == "zotd":
                for alias in node.names:
                    if alias.name in ROOMS:
                        yield node.lineno, f"zotd.{alias.name}"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute | ast.Name)
            and (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id)
            in {"import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def wrong_imports(source: str, path: Path) -> list[str]:
    """The imports in `source` that point up or across; it lies at `path`, such as zotd/wire/codec.py."""
    module = ".".join(path.with_suffix("").parts)
    package = module.removesuffix(".__init__") if path.name == "__init__.py" else module.rpartition(".")[0]
    room = room_of(module.removesuffix(".__init__"))
    return [
        f"{path}:{line}: {room or 'zotd'} may not import {target}"
        for line, target in imported_modules(ast.parse(source), package)
        if (target == "zotd" or target.startswith("zotd.")) and not may_import(room, room_of(target))
    ]


def sources() -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in PACKAGE.rglob("*.py"))


def tracked(*patterns: str) -> list[Path]:
    """Files of the repository, new ones that are not ignored too."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return sorted(
        path for name in set(listing.stdout.split("\0")) if name and (path := ROOT / name).is_file()
    )


def test_imports_point_to_a_lower_level() -> None:
    assert [
        wrong
        for path in sources()
        for wrong in wrong_imports((ROOT / path).read_text(encoding="utf-8"), path)
    ] == []


def test_every_room_has_a_level() -> None:
    assert {path.parts[1] for path in sources() if len(path.parts) > 2} <= ROOMS


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("zotd/protocol/content.py", "import zotd.base.limits"),
        ("zotd/wire/codec.py", "from zotd.agent import loop"),
        ("zotd/wire/codec.py", "from zotd import daemon"),
        ("zotd/agent/loop.py", "def late():\n    from zotd.providers.http import client"),
        ("zotd/agent/loop.py", "from ..tools.read import Read"),
        ("zotd/agent/__init__.py", "from ..tools import read"),
        ("zotd/tools/read.py", "import importlib\nimportlib.import_module('zotd.cli.main')"),
        ("zotd/schema/page.py", "from zotd.base.limits import Limits"),
        ("zotd/daemon/service.py", "from zotd.schema import page"),
        ("zotd/__init__.py", "from zotd.cli.main import main"),
    ],
)
def test_a_planted_import_that_points_up_or_across_is_caught(path: str, source: str) -> None:
    assert len(wrong_imports(source, Path(path))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("zotd/wire/codec.py", "from zotd.protocol import events\nfrom zotd.base.limits import Limits"),
        (
            "zotd/wire/codec.py",
            "from .framing import LineBuffer\nfrom zotd import __version__\nimport asyncio",
        ),
        ("zotd/schema/page.py", "from zotd.protocol.frames import Hello"),
        ("zotd/__main__.py", "from zotd.cli.main import main"),
    ],
)
def test_imports_that_point_down_are_allowed(path: str, source: str) -> None:
    assert wrong_imports(source, Path(path)) == []


def test_no_file_of_the_package_is_longer_than_400_lines() -> None:
    long = {str(path): lines for path in sources() if (lines := (ROOT / path).read_text().count("\n")) > 400}
    assert long == {}


def test_the_package_holds_no_unfinished_business() -> None:
    words = re.compile(r"\b(TODO|FIXME|XXX|HACK|stub|placeholder|for now)\b", re.IGNORECASE)
    assert [
        f"{path}:{number}: {found.group()}"
        for path in sources()
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1)
        if (found := words.search(line))
    ] == []


def test_tests_neither_wait_blindly_nor_look_away() -> None:
    """A sleep hides a missing signal, a skip hides a failure, a patch tests something that nobody runs."""
    banned = {"skip", "skipif", "xfail", "importorskip", "setattr", "sleep", "patch"}
    found = []
    for path in tracked("tests/*.py", "tests/**/*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yielding = {node.func for node in ast.walk(tree) if is_one_turn_of_the_loop(node)}
        for node in ast.walk(tree):
            if node in yielding or not (isinstance(node, ast.Attribute) and node.attr in banned):
                continue
            text = ast.unparse(node)
            if node.attr != "setattr" or text.startswith("monkeypatch."):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text}")
    assert found == []


def is_one_turn_of_the_loop(node: ast.AST) -> TypeGuard[ast.Call]:
    """`asyncio.sleep(0)` waits for nothing but what is ready already."""
    return isinstance(node, ast.Call) and ast.unparse(node) == "asyncio.sleep(0)"


def test_every_link_in_the_documents_leads_somewhere() -> None:
    broken = []
    for page in tracked("*.md", "**/*.md"):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            destination = (page.parent / file).resolve() if file else page
            if not destination.exists() or (anchor and anchor not in anchors(destination)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def anchors(page: Path) -> set[str]:
    """The headings of a Markdown page as GitHub names them, and explicit `<a id>`."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ +(.*?) *$", text, flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def test_paths_named_in_the_map_exist() -> None:
    """docs/architecture.md stays true: what it names in backticks as a file of ours is there."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:zotd|tests|bench|docs|examples|requirements)/[\w./-]*)`", text))
    assert named
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("room", ["daemon", "cli"])
def test_modules_named_in_the_guide_to_a_room_are_in_it(room: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, there, rest = text.partition(f"| in `zotd/{room}/` | files |\n")
    assert there
    guide, _, _ = rest.partition("\n\n")
    named = set(re.findall(r"`([\w*]+)`", guide))
    assert len(named) > 15
    assert {name for name in named if not any((ROOT / "zotd" / room).glob(f"{name}.py"))} == set()


def test_the_page_of_limits_is_fresh() -> None:
    subprocess.run([sys.executable, ROOT / "docs" / "limits.py", "--check"], check=True)
