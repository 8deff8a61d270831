"""Owns the version of the protocol of clients, for those who say it and load no methods."""

PROTOCOL_VERSION = 1
"""The major version both sides must share."""
