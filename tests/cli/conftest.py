"""Tests of this room run real processes on a machine of their own."""

from tests.clients import machine
from tests.daemons import shared

__all__ = ["machine", "shared"]
