"""What arrives as bytes and leaves as bytes: framing, JSON, and the three protocols spoken on top.

Nothing here opens a socket or reads a clock: bytes go in, values come out.
"""
