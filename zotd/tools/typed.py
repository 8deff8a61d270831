"""Owns what the built-in tools share: typed arguments, paths, and file work off the loop."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from zotd.agent.ports import ToolFailed, ToolOutcome
from zotd.protocol.content import ToolCall

ArgumentsT = TypeVar("ArgumentsT", bound=msgspec.Struct)
T = TypeVar("T")


class TypedTool(ABC, Generic[ArgumentsT]):
    """A tool whose arguments are a struct: `name`, `description` and `arguments` are set by the class."""

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: ClassVar[type[msgspec.Struct]]

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, one object without references: every provider takes that."""
        schema = msgspec.json.schema(self.arguments)
        flat = _without_references(schema, schema.get("$defs", {}))
        flat.pop("title", None)
        flat.pop("$defs", None)
        assert isinstance(flat, dict)
        return flat

    async def run(self, call: ToolCall, progress: Callable[[str], None]) -> ToolOutcome:
        """Check the arguments, then work. Raises ToolFailed with the JSON path of a bad argument."""
        try:
            # Not strict: small models write numbers as strings, and the meaning is plain.
            arguments = msgspec.convert(call.args, self.arguments, strict=False)
        except msgspec.ValidationError as error:
            from zotd.base.misfit import misfit

            raise ToolFailed(f"bad arguments for {self.name}: {misfit(error, self.arguments)}") from error
        return await self.work(arguments, progress)  # type: ignore[arg-type]

    @abstractmethod
    async def work(self, arguments: ArgumentsT, progress: Callable[[str], None]) -> ToolOutcome:
        """Do it, with arguments that fit. Raises ToolFailed."""


class FileTool(TypedTool[ArgumentsT]):
    """A tool that works on one file of the session's folder, or anywhere by absolute path."""

    def __init__(self, cwd: Path, home: str, off_loop_bytes: int) -> None:
        self._cwd = cwd
        self._home = home
        self._off_loop_bytes = off_loop_bytes

    def locate(self, path: str) -> Path:
        """Where `path` is: see `located`."""
        return located(path, self._cwd, self._home)

    async def on_file(self, path: Path, size: int, work: Callable[..., T], *parts: Any) -> T:
        """`work(*parts)`, in a thread when `size` bytes would hold the loop. OSError becomes ToolFailed."""
        try:
            if size <= self._off_loop_bytes:
                return work(*parts)
            return await asyncio.to_thread(work, *parts)
        except OSError as error:
            raise ToolFailed(why_not(path, error)) from error


def located(path: str, cwd: Path, home: str) -> Path:
    """Where a tool's `path` is: `~` is the session's home, the rest is relative to its folder.

    Raises ToolFailed.
    """
    if not path or "\0" in path:
        raise ToolFailed(f"$.path: {path!r} is no path")
    if path == "~" or path.startswith("~/"):
        return Path(home + path[1:])
    try:
        return cwd / Path(path).expanduser()
    except RuntimeError:
        raise ToolFailed(f"$.path: {path!r} is no path: there is no such user") from None


def size_of(path: Path) -> int:
    """Bytes of the file at `path`, 0 when it cannot be asked."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def printable(text: str) -> str:
    """`text` with bytes that were no UTF-8 shown as replacement characters, since JSON cannot carry them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def quoted(path: Path) -> str:
    """`path` as a word of a shell command."""
    from shlex import quote

    return quote(str(path))


def why_not(path: Path, error: OSError) -> str:
    """One sentence for the model: which path, what is wrong, what is near."""
    if isinstance(error, FileNotFoundError):
        return f"{path} does not exist{_near(path)}"
    if isinstance(error, NotADirectoryError):
        part = next(
            (above for above in reversed(path.parents) if above.exists() and not above.is_dir()), path
        )
        return f"{path} cannot be: {part} is a file, not a directory"
    if isinstance(error, PermissionError):
        return f"permission denied: {path}"
    return f"{path}: {error.strerror or error}"


def _near(path: Path) -> str:
    from difflib import get_close_matches

    above = next(parent for parent in path.parents if parent.exists())
    if above != path.parent:
        return f"; the nearest directory that does is {above}"
    try:
        names = [entry.name for entry in above.iterdir()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, 3)
    return f"; near it are: {printable(', '.join(near))}" if near else ""


def _without_references(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_without_references(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        rest = {key: value for key, value in node.items() if key not in ("$ref", "$defs")}
        return {**_without_references(definitions[name], definitions), **rest}
    return {key: _without_references(value, definitions) for key, value in node.items()}
