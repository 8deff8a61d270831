"""Files of others are read within bounds, and nothing waits for one that is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zotd.base.files import BadFile, is_file, is_folder, open_regular, read_bytes, read_start, read_whole


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREAT])
def test_a_pipe_is_refused_at_once_whether_or_not_somebody_has_its_other_end(
    tmp_path: Path, flags: int
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match=r"expected a regular file|No such device"):
        open_regular(pipe, flags)
    other = os.open(pipe, os.O_RDWR)
    try:
        with pytest.raises(OSError, match="expected a regular file"):
            open_regular(pipe, flags)
    finally:
        os.close(other)


def test_content_is_given_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbf" + b"123456\r\n")
    assert read_bytes(path, 8) == b"123456\r\n"
    assert read_whole(path, 8) == "123456\n"
    assert read_start(path, 3) == ("123", 11)
    path.write_bytes(b"x" * 100)
    with pytest.raises(BadFile, match="expected at most 8 bytes, got 100"):
        read_bytes(path, 8)
    assert read_bytes(tmp_path / "none", 8) is None


@pytest.mark.parametrize("name", ["\0", "x" * 5_000, "loop", "loop/inside"])
def test_what_no_file_can_be_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert not is_file(tmp_path / name)
    assert not is_folder(tmp_path / name)
    with pytest.raises(BadFile, match="cannot be read"):
        read_bytes(tmp_path / name, 8)
