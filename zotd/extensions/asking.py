"""Owns the words of asking: what can be asked of an extension, what answers it, and how that fails."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from zotd.protocol.frames import (
    CommandInvoked,
    CommandResponse,
    EventIntercept,
    InterceptResponse,
    ToolCallFrame,
    ToolResultFrame,
)

Question: TypeAlias = CommandInvoked | ToolCallFrame | EventIntercept
Answer: TypeAlias = CommandResponse | ToolResultFrame | InterceptResponse
AnyAnswer = TypeVar("AnyAnswer", CommandResponse, ToolResultFrame, InterceptResponse)


class AskFailed(Exception):
    """An extension did not answer as it should; the message is for the person who waits."""


class ExtensionGone(AskFailed):
    """Its process is not there, or ended while somebody waited."""


class NotReading(AskFailed):
    """Too much waits to be read by it already."""


class NoAnswer(AskFailed):
    """The time for an answer is over."""


class WrongAnswer(AskFailed):
    """It answered, but not with what was asked for."""
