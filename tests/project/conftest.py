"""What the tests of this room share: a project, a zot home and a user's home on a disk of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zotd.base.limits import Limits
from zotd.project.skills import Skills, find_skills


class Folders:
    """`cwd` is a project in the user's home."""

    def __init__(self, root: Path) -> None:
        self.user_home = root / "user"
        self.zot_home = root / "zot"
        self.cwd = self.user_home / "code" / "project"
        self.cwd.mkdir(parents=True)
        self.zot_home.mkdir()
        self.limits = Limits()

    def limit(self, **changes: Any) -> None:
        self.limits = replace(self.limits, **changes)

    def skill(self, place: Path, folder: str, text: str | bytes) -> Path:
        """Write `place/folder/SKILL.md`."""
        path = place / folder / "SKILL.md"
        path.parent.mkdir(parents=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def skills(
        self, extensions: Sequence[tuple[str, Sequence[Path]]] = (), only: Sequence[str] | None = None
    ) -> Skills:
        return find_skills(self.cwd, self.zot_home, self.user_home, extensions, self.limits, only)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)
