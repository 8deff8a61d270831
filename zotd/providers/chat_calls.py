"""Owns the tool calls of one Chat Completions answer, put together whatever a server leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from zotd.agent.ports import ProviderEvent
from zotd.protocol.events import ToolUseArgs, ToolUseEnd, ToolUseStart


class StreamedCalls:
    """Fragments of calls in, events out. Each call gets an id that nothing in the conversation has.

    The API tells calls apart by `index` and gives each an `id`. Servers leave either out, use one index for
    all calls, use one id for all calls, repeat both with every fragment, or send all arguments at once.

    taken: ids that the conversation has used.
    """

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._calls: list[_Call] = []

    def add(self, fragment: Mapping[str, Any]) -> Iterator[ProviderEvent]:
        """Take in one element of `tool_calls`."""
        function = fragment.get("function") or {}
        index, upstream = fragment.get("index"), fragment.get("id") or ""
        name, arguments = function.get("name") or "", _text(function.get("arguments"))
        call = self._find(index, upstream)
        if call is None or call.is_over(upstream, name, arguments):
            yield from self._close_finished()
            call = _Call(index, upstream)
            self._calls.append(call)
        call.name = call.name or name
        call.upstream = call.upstream or upstream
        call.pieces.append(arguments)
        if call.name:
            yield from self._show(call)

    def close(self) -> Iterator[ProviderEvent]:
        """End every call that is still open, once the answer is over."""
        for call in self._calls:
            yield from self._show(call)
            yield from call.end()

    def _find(self, index: object, upstream: str) -> _Call | None:
        """The latest call that a fragment may belong to."""
        if index is not None:
            return next((call for call in reversed(self._calls) if call.index == index), None)
        if upstream:
            return next((call for call in reversed(self._calls) if call.upstream == upstream), None)
        return self._calls[-1] if self._calls else None

    def _close_finished(self) -> Iterator[ProviderEvent]:
        """A new call begins: those that are whole have ended. Others may go on, interleaved."""
        for call in self._calls:
            if call.started and call.whole():
                yield from call.end()

    def _show(self, call: _Call) -> Iterator[ProviderEvent]:
        if not call.started:
            call.started = True
            call.id = self._unique(call.upstream)
            yield ToolUseStart(id=call.id, name=call.name)
        yield from call.unshown()

    def _unique(self, upstream: str) -> str:
        if not upstream or upstream in self._taken:
            upstream = next(
                name for n in count(len(self._taken) + 1) if (name := f"call_{n}") not in self._taken
            )
        self._taken.add(upstream)
        return upstream


class _Call:
    __slots__ = ("ended", "id", "index", "name", "pieces", "shown", "started", "upstream")

    def __init__(self, index: object, upstream: str) -> None:
        self.index = index
        self.upstream = upstream
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.shown = 0
        self.started = False
        self.ended = False

    def is_over(self, upstream: str, name: str, arguments: str) -> bool:
        """Whether a fragment that seems to go on with this call must be the start of another."""
        if upstream and self.upstream and upstream != self.upstream:
            return True
        if name and self.name and name != self.name:
            return True
        return self.ended or bool(name and arguments.strip() and self.whole())

    def whole(self) -> bool:
        """Whether the arguments so far are complete JSON, to which nothing can be added."""
        import orjson

        text = "".join(self.pieces)
        if not text.rstrip().endswith("}"):
            return False
        try:
            orjson.loads(text)
        except ValueError:
            return False
        return True

    def unshown(self) -> Iterator[ProviderEvent]:
        for piece in self.pieces[self.shown :]:
            if piece:
                yield ToolUseArgs(id=self.id, delta=piece)
        self.shown = len(self.pieces)

    def end(self) -> Iterator[ProviderEvent]:
        if not self.ended:
            self.ended = True
            yield ToolUseEnd(id=self.id)


def _text(arguments: object) -> str:
    """Argument text; a few servers send the parsed object."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return ""
    import orjson

    return orjson.dumps(arguments).decode()
