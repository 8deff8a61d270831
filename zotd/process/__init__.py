"""Starts programs, talks to them and makes sure that they end."""
