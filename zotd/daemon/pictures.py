"""Owns the check of pictures that clients send with a prompt."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from zotd.base.limits import Limits
from zotd.protocol.content import Image
from zotd.wire.codec import encode


def pictures(rows: Any) -> list[Image]:
    """The `images` of a prompt, `[{mime_type, data}]`. Raises ValueError naming the entry that is wrong."""
    if not isinstance(rows, list):
        raise ValueError(f"images must be an array, got {type(rows).__name__}")
    return [picture(f"images[{index}]", row) for index, row in enumerate(rows)]


def check_size(texts: Sequence[str], images: Sequence[Image], limits: Limits) -> None:
    """Raises ValueError for a prompt whose event would not fit a frame."""
    size = sum(len(encode(text)) for text in texts) + sum(len(image.data) for image in images)
    if size > limits.prompt_bytes:
        raise ValueError(
            f"expected at most {limits.prompt_bytes:,} bytes of text and pictures (base64) together, "
            f"got {size:,}"
        )


def picture(where: str, row: Any) -> Image:
    """One of them. where: its JSON path. Raises ValueError."""
    mime, data = (row.get("mime_type"), row.get("data")) if isinstance(row, dict) else (None, None)
    if not isinstance(mime, str) or not isinstance(data, str):
        raise ValueError(f"{where}: expected {{mime_type, data}} with strings")
    if not mime.startswith("image/"):
        raise ValueError(f"{where}.mime_type: expected a picture's, such as image/png, got {mime!r}")
    try:
        b64decode(data, validate=True)
    except ValueError:
        raise ValueError(f"{where}.data: expected base64") from None
    return Image(mime_type=mime, data=data)
