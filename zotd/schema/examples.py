"""Owns what a method is shown to answer: the example of its result, made to fit that of its params."""

from __future__ import annotations

from typing import Any

from msgspec import convert, to_builtins

from zotd.protocol.methods import METHOD_TYPES, SERVER_METHOD_TYPES
from zotd.schema.docstrings import documentation

_SAVED = {"ephemeral": False, "message_count": 4, "last_message_id": 4}
_OTHER = {**_SAVED, "session_id": "51c0de99", "path": "/s/20261130-040000-51c0de99.jsonl"}
_FITTING: dict[str, dict[str, Any]] = {
    "session/load": {"session": {**_SAVED, "path": "/s/20261130-034315-8f37d5f6.jsonl"}},
    "session/attach": {"session": {"next_seq": 44}, "next_seq": 44},
    "session/rename": {"session": {"title": "the parser"}},
    "session/fork": {"session": _OTHER},
    "session/import": {"session": _OTHER},
    "session/set": {"session": {"reasoning": "high"}},
    "turn/unqueue": {"turns": []},
}
"""What differs, by method, where a result that several share does not answer the request that is shown."""


def answer_shown(method: str) -> dict[str, Any]:
    """The result of a method in its example, members in their order."""
    result = {**METHOD_TYPES, **SERVER_METHOD_TYPES}[method][1]
    if result is None:
        return {}
    answer = dict(documentation(result).example)
    for name, value in _FITTING.get(method, {}).items():
        answer[name] = {**answer[name], **value} if isinstance(value, dict) else value
    fitting: dict[str, Any] = to_builtins(convert(answer, result))
    return fitting
