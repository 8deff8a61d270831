"""Tests of this room run real processes on a machine of their own."""

from tests.clients import machine

__all__ = ["machine"]
