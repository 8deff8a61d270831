"""The daemon: sessions, and the connections through which front ends see them."""
