"""Owns what a tool's answer means: the blocks an extension sent, as blocks that a model can read."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any

from zotd.agent.ports import ToolOutcome
from zotd.base.limits import Limits
from zotd.protocol.content import Image, Text
from zotd.protocol.frames import ToolResultFrame

NO_CONTENT = "(extension returned no content)"
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What models take. Another type in a conversation would make each later request of it fail."""


def outcome_of(answer: ToolResultFrame, limits: Limits) -> ToolOutcome:
    """Read a `tool_result`. What cannot be shown becomes a text that says so: nothing is lost silently.

    A picture that cannot be read makes the result an error, one that is too large or of a type that no model
    takes does not: the tool did its work.
    """
    content: list[Text | Image] = []
    is_error = answer.is_error
    room = limits.tool_text_bytes
    for block in answer.content:
        read: Text | Image | None
        match block.get("type"):
            case "text":
                read = _text(block)
            case "image":
                try:
                    read = _picture(block, limits)
                except ValueError as error:
                    read, is_error = (
                        Text(f"(the extension sent a picture that cannot be used: {error})"),
                        True,
                    )
            case kind:
                read = Text(f"(the extension sent a block of type {kind!r}; expected text or image)")
        if isinstance(read, Text):
            read, room = _within(read, room)
        if read is not None:
            content.append(read)
    return ToolOutcome(content or [Text(NO_CONTENT)], is_error)


def _within(text: Text, room: int) -> tuple[Text, int]:
    """As much of a text as `room` bytes hold, saying so when it is not all; and the room that is left."""
    data = text.text[: room + 1].encode("utf-8", "replace")
    if len(data) <= room:
        return text, room - len(data)
    kept = data[:room].decode("utf-8", "ignore")
    return Text(f"{kept}\n(cut here: the extension sent {len(text.text):,} characters)"), 0


def _text(block: Mapping[str, Any]) -> Text | None:
    text = block.get("text")
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        return Text(f"(the extension sent a text block whose text is no string: {str(text)[:200]})")
    return Text(text)


def _picture(block: Mapping[str, Any], limits: Limits) -> Text | Image:
    """Raises ValueError, saying what is wrong with it."""
    mime_type, data = block.get("mime_type"), block.get("data")
    if not isinstance(mime_type, str) or not mime_type:
        raise ValueError("mime_type is missing; expected one such as image/png")
    if not isinstance(data, str) or not data:
        raise ValueError("data is missing; expected base64")
    if mime_type not in PICTURES:
        return Text(f"(a picture of type {mime_type} was left out; models take {', '.join(PICTURES)})")
    # Programs that encode for mail break the lines; models want one.
    data = "".join(data.split())
    size = len(data) // 4 * 3 - data[-2:].count("=")
    if size > limits.image_bytes:
        return Text(f"(a picture of {size} bytes was left out; at most {limits.image_bytes} can be shown)")
    try:
        binascii.a2b_base64(data.encode(), strict_mode=True)
    except binascii.Error as error:
        raise ValueError(f"data is not base64 ({error}); expected base64 and nothing around it") from None
    return Image(mime_type, data)
