"""The file of a daemon's log: what is there is not lost because a new one cannot be begun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from zotd.base.log_file import LogFile

SOURCE = """
import os, resource, sys
from pathlib import Path
from zotd.base.log_file import LogFile

log = LogFile(Path(sys.argv[1]), 10, 2)
for line in (b"one one\\n", b"two two\\n", b"three 3\\n"):
    assert log.write(line)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
print([log.write(b"lost %d\\n" % number) for number in range(5)])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
print(log.write(b"again 5\\n"))
"""


def test_without_descriptors_lines_are_lost_and_counted_and_older_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "zotd.log"
    done = subprocess.run(
        [sys.executable, "-c", SOURCE, path], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.splitlines() == [str([False] * 5), "True"]
    kept = {each.name: each.read_text() for each in path.parent.iterdir()}
    assert kept == {"zotd.log": "again 5\n", "zotd.log.1": "three 3\n", "zotd.log.2": "two two\n"}


def test_a_log_that_is_moved_away_is_begun_anew_unless_something_else_is_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "zotd.log"
    log, other = LogFile(path, 1000, 2), LogFile(path, 1000, 2)  # of two daemons, say
    assert log.write(b"first\n")
    path.rename(tmp_path / "moved")
    assert log.write(b"second\n")
    assert other.write(b"third\n")
    assert path.read_text() == "second\nthird\n"
    path.rename(tmp_path / "moved again")
    path.symlink_to(tmp_path / "elsewhere")
    assert log.write(b"fourth\n")
    path.unlink()
    (tmp_path / "moved again").unlink()
    path.mkdir()
    assert not log.write(b"lost\n")
    assert (tmp_path / "moved").read_text() == "first\n"
    assert not (tmp_path / "elsewhere").exists()
    log.close()
    other.close()
