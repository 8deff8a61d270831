"""The command line: flags, and the one place where everything is built."""
