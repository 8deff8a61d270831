"""Tests of this room run real processes on a machine of their own."""

from tests.clients import machine
from tests.daemons import shared
from tests.providers.conftest import model_server

__all__ = ["machine", "model_server", "shared"]
