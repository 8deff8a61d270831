"""Owns the scripted model: answers written in a file, streamed as a real model would."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import count

from zotd.agent.ports import Finish, ModelRequest, ProviderError, ProviderEvent
from zotd.protocol.content import Message, StopReason, ToolCall, Usage
from zotd.protocol.events import TextDelta, ThinkingDelta, ToolUseArgs, ToolUseEnd, ToolUseStart
from zotd.providers.script import Entry, Piece, load_script, parse_script

__all__ = ["ScriptedProvider", "load_script"]

_BREATH = 256  # events between two looks at the loop: an abort is felt, and the speed is kept
_CHARS_PER_TOKEN = 4  # a rule of thumb, for entries that state no usage
_ECHO = Entry(times=0)


class ScriptedProvider:
    """Answers from `entries`; without any it repeats what was said. Which are used up is kept here.

    entries: from `load_script`, or values in the shape of its format. Raises ScriptError.
    """

    id = "scripted"

    def __init__(self, entries: Sequence[object] | None = None) -> None:
        self._entries = [_ECHO] if entries is None else parse_script(entries, "script")
        self._used = [0] * len(self._entries)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        """The next answer. Raises ProviderError where the script says so, or says nothing."""
        prompt = _last_user_text(request.messages)
        entry = self._choose(prompt)
        if entry.error is not None:
            status = entry.error.status
            kind = "provider_auth" if status in (401, 403) else "provider_error"
            raise ProviderError(f"{entry.error.message} ({status})", kind=kind, status=status)
        reply = (Piece("text", f"You said: {prompt}"),) if entry is _ECHO else entry.reply
        written, ids = 0, _call_ids(request.messages)
        for piece in reply:
            for index, event in enumerate(_events(piece, ids)):
                if piece.delay_s and index:
                    await asyncio.sleep(piece.delay_s)
                elif index % _BREATH == _BREATH - 1:
                    await asyncio.sleep(0)
                yield event
            written += len(piece.text)
        if entry.cut:
            raise ProviderError("the stream ended without a stop: the answer is cut off")
        if entry.stop == "refusal":
            raise ProviderError("the model refused to answer", kind="refused")
        yield Finish(_stop(entry, reply), entry.usage or _estimate(request, written))

    async def close(self) -> None:
        """Nothing is held."""

    def _choose(self, prompt: str) -> Entry:
        """In file order the first that is not used up and fits; when none is left, the last that fits all."""
        for index, entry in enumerate(self._entries):
            left = entry.times == 0 or self._used[index] < entry.times
            if left and (entry.match is None or entry.match.search(prompt)):
                self._used[index] += 1
                return entry
        for entry in reversed(self._entries):
            if entry.match is None:
                return entry
        raise ProviderError(
            f"the script has no entry left for {prompt[:200]!r}",
            hint="add an entry without `match`, or `times: 0` to one that fits",
        )


def _events(piece: Piece, ids: Iterator[str]) -> Iterator[ProviderEvent]:
    if piece.kind == "thinking":
        return (ThinkingDelta(delta=part) for part in _pieces(piece.text, piece.delta_chars))
    if piece.kind == "text":
        return (TextDelta(delta=part) for part in _pieces(piece.text, piece.delta_chars))
    return _call_events(piece, next(ids))


def _call_events(piece: Piece, call_id: str) -> Iterator[ProviderEvent]:
    yield ToolUseStart(id=call_id, name=piece.name)
    for part in _pieces(piece.text, piece.delta_chars):
        yield ToolUseArgs(id=call_id, delta=part)
    yield ToolUseEnd(id=call_id)


def _pieces(text: str, chars: int) -> Iterator[str]:
    """`text` cut into `chars` characters each, or for 0 into words, each with the space before it."""
    if chars:
        return (text[start : start + chars] for start in range(0, len(text), chars))
    return (found.group() for found in re.finditer(r"\s*\S+(?:\s+\Z)?|\s+\Z", text))


def _call_ids(messages: Sequence[Message]) -> Iterator[str]:
    """Ids that no call of the conversation has: counted on, so that recordings repeat.

    Calls are counted when the first id is asked for: an answer in words takes no time for what came before.
    """
    seen = sum(isinstance(block, ToolCall) for message in messages for block in message.content)
    for number in count(seen + 1):
        yield f"call_{number}"


def _stop(entry: Entry, reply: Sequence[Piece]) -> StopReason:
    if entry.stop in ("end_turn", "tool_use", "length"):
        return entry.stop
    return "tool_use" if any(piece.kind == "tool_call" for piece in reply) else "end_turn"


def _estimate(request: ModelRequest, written: int) -> Usage:
    """What the exchange would roughly cost, so that programs see figures that grow."""
    read = len(request.system) + sum(len(message.text) for message in request.messages)
    return Usage(input=_tokens(read), output=_tokens(written))


def _tokens(chars: int) -> int:
    return -(-chars // _CHARS_PER_TOKEN)


def _last_user_text(messages: Sequence[Message]) -> str:
    return next((message.text for message in reversed(messages) if message.role == "user"), "")
