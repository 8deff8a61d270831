"""Owns what is generated from the protocol's types: the JSON Schema and the reference pages."""
