"""Tests of this room run real processes on a machine of their own, or sessions in this process."""

from tests.clients import machine
from tests.daemon.houses import spec

__all__ = ["machine", "spec"]
