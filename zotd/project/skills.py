"""Owns which skills there are: where `SKILL.md` files lie, what their front matter says, who wins a name.

A skill is a folder with a `SKILL.md`: YAML front matter that says what it is for, then instructions. The
front matter is told to the model at once, the instructions when it loads the skill.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from zotd.base.files import BadFile, is_folder, read_whole
from zotd.base.limits import Limits

if TYPE_CHECKING:
    from yaml import Node

SKILL = "SKILL.md"
FENCE = "---"


class Skill(Struct, frozen=True):
    """A usable skill.

    name: what the model calls it; of an extension, `<extension>:<name>`.
    description: one line: when to use it; empty when the file says nothing at all.
    path: its `SKILL.md`, absolute.
    """

    name: str
    description: str
    path: Path


class Skills(Struct, frozen=True):
    """All that was found: usable ones in order, names unique, and what is wrong with the others."""

    found: tuple[Skill, ...] = ()
    complaints: list[BadFile] = field(default_factory=list)

    def listing(self) -> str:
        """One line for each, for the system prompt."""
        return "\n".join(f"- {skill.name}: {skill.description}".rstrip(": ") for skill in self.found)


@dataclass(slots=True)
class Spent:
    """What looking for skills has cost so far."""

    files: int = 0
    bytes: int = 0
    front_chars: int = 0

    def enough(self, limits: Limits) -> str:
        """Why no more is read; empty while there is no reason."""
        if self.files >= limits.skill_files:
            return f"{self.files} files were looked at"
        if self.bytes >= limits.skills_bytes:
            return f"those before it have {self.bytes} bytes"
        if self.front_chars >= limits.skills_front_chars:
            return f"the front matter of those before it has {self.front_chars} characters"
        return ""


def find_skills(
    cwd: Path,
    zot_home: Path,
    user_home: Path,
    of_extensions: Sequence[tuple[str, Sequence[Path]]],
    limits: Limits,
    only: Collection[str] | None = None,
) -> Skills:
    """The skills of a session in `cwd`: the project's and the user's own, then those of extensions.

    of_extensions: names, each with paths of a `SKILL.md`, a skill's folder or a folder of skills.
    only: names to keep, None for all. One bad file never hides another: it becomes a complaint.
    """
    complaints: list[BadFile] = []
    found: dict[str, Skill] = {}
    seen: set[str] = set()
    spent = Spent()
    for path, extension in _candidates(cwd, zot_home, user_home, of_extensions, complaints):
        real = os.path.realpath(path)
        if real in seen:  # one file reached on two ways is one skill, or one complaint
            continue
        seen.add(real)
        if why := spent.enough(limits):
            complaints.append(BadFile(path, f"left out, with all that comes after it: {why}"))
            break
        try:
            skill = read_skill(path, extension, limits, spent)
        except BadFile as bad:
            complaints.append(bad)
            continue
        if skill is None or skill.name in found or (only is not None and skill.name not in only):
            continue
        if len(found) == limits.skills:
            complaints.append(BadFile(path, f"left out: there are {limits.skills} skills already"))
            break
        found[skill.name] = skill
    return Skills(tuple(found.values()), complaints)


def _candidates(
    cwd: Path,
    zot_home: Path,
    user_home: Path,
    of_extensions: Sequence[tuple[str, Sequence[Path]]],
    complaints: list[BadFile],
) -> Iterator[tuple[Path, str]]:
    """Where a `SKILL.md` may be, and the extension it belongs to or nothing. The first of a name wins."""
    for place in places(cwd, zot_home, user_home):
        for path in _inside(place, complaints):
            yield path, ""
    for extension, paths in of_extensions:
        for path in paths:
            if not os.path.lexists(path):
                complaints.append(BadFile(path, f"is not there; extension {extension} names it in `skills`"))
            elif not is_folder(path):
                yield path, extension
            elif os.path.lexists(path / SKILL):
                yield path / SKILL, extension
            else:
                for inner in _inside(path, complaints):
                    yield inner, extension


def places(cwd: Path, zot_home: Path, user_home: Path) -> list[Path]:
    """The folders where skills of a session in `cwd` may lie, besides those of extensions."""
    above = [cwd / ".zot", zot_home]
    above += [root / name for name in (".claude", ".agents") for root in (cwd, user_home)]
    return [folder / "skills" for folder in above]


def _inside(place: Path, complaints: list[BadFile], deeper: bool = True) -> Iterator[Path]:
    """The `SKILL.md` of each folder in `place`; a folder without one may be a group of skills."""
    try:
        folders = sorted(place.iterdir())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return
    except OSError as error:
        complaints.append(BadFile(place, f"cannot be listed: {error.strerror}"))
        return
    for folder in folders:
        if folder.name.startswith(".") or not is_folder(folder):
            continue
        if os.path.lexists(folder / SKILL):
            yield folder / SKILL
        elif deeper:
            yield from _inside(folder, complaints, deeper=False)


def read_skill(path: Path, extension: str, limits: Limits, spent: Spent) -> Skill | None:
    """The skill that a `SKILL.md` describes, None where there is no such file. Raises BadFile."""
    spent.files += 1
    text = read_whole(path, limits.skill_bytes)
    if text is None:
        return None
    spent.bytes += len(text)
    front, body = split(path, text)
    spent.front_chars += min(len(front), limits.skill_front_chars)
    texts = _front_matter(path, front, limits.skill_front_chars) if front else {}
    name = texts.get("name") or path.parent.name
    if not name.isprintable():
        raise BadFile(path, f"name: expected printable characters, got {name!r}")
    description = texts.get("description") or _first_words(body)
    if not description:
        raise BadFile(path, "description: expected when to use the skill, got nothing, and there is no text")
    if len(description) > limits.skill_description_chars:
        description = description[: limits.skill_description_chars - 1] + "…"
    return Skill(f"{extension}:{name}" if extension else name, description, path)


def split(path: Path, text: str) -> tuple[str, str]:
    """Front matter, empty when there is none, and what follows. Raises BadFile when it does not end."""
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        return "", text
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == FENCE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]).lstrip("\n")
    raise BadFile(path, f"front matter: expected a line {FENCE} that ends it, got none")


def body_of(path: Path, limits: Limits) -> str:
    """The instructions in a `SKILL.md`, as they are now. Raises BadFile."""
    text = read_whole(path, limits.skill_bytes)
    if text is None:
        raise BadFile(path, "is not there any more")
    return split(path, text)[1]


def _front_matter(path: Path, front: str, size: int) -> dict[str, str]:
    """The texts in front matter by key, each on one line. Raises BadFile when name or description is none."""
    import yaml

    if len(front) > size:
        raise BadFile(path, f"front matter: expected at most {size} characters, got {len(front)}")
    try:
        # Composed, not constructed: references to references could multiply without end.
        node = yaml.compose(front, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise BadFile(path, f"front matter: expected YAML: {_where(error)}") from None
    except RecursionError:
        raise BadFile(path, "front matter: expected YAML: it is nested too deeply") from None
    except Exception as error:  # the parser lets out what Python says to an impossible escape, for one
        raise BadFile(path, f"front matter: expected YAML: {_where(error)}") from None
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise BadFile(path, f"front matter: expected `key: value` lines, got {_kind_of(node)}")
    texts: dict[str, str] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):  # a list or a mapping may be a key as well
            continue
        if isinstance(value, yaml.ScalarNode) and value.tag == "tag:yaml.org,2002:str":
            text = " ".join(value.value.split())
            texts[key.value] = text.encode("utf-8", "replace").decode()  # half a character is none
        elif key.value in ("name", "description") and value.tag != "tag:yaml.org,2002:null":
            raise BadFile(path, f"{key.value}: expected a text, got {_kind_of(value)}")
    return texts


def _where(error: Exception) -> str:
    """What a YAML parser says, on one line; its lines are counted from the file's first."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    if mark is None or not problem:
        return " ".join(str(error).split())
    hint = "; put a text that holds `: ` in quotes" if "mapping values" in problem else ""
    return f"{problem} in line {mark.line + 2}, column {mark.column + 1}{hint}"


def _kind_of(node: Node) -> str:
    """What a node is by its form, and a scalar by its tag: `!!str [a]` is a list all the same."""
    import yaml

    if not isinstance(node, yaml.ScalarNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    kinds = {"int": "a number", "float": "a number", "bool": "true or false", "str": "a text"}
    kinds |= {"timestamp": "a date"}
    return kinds.get(node.tag.removeprefix("tag:yaml.org,2002:"), "something else")


def _first_words(body: str) -> str:
    """The first line of text, for a file that does not say what it is for."""
    return next((words for line in body.split("\n") if (words := line.strip("# \t"))), "")
