"""Owns `python -m zotd`, which is how a daemon is started: by the interpreter that runs already."""

from __future__ import annotations

import sys

from zotd.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
