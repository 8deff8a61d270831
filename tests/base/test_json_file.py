"""Files of JSON that people write by hand and zotd adds to: what is read, what is refused, what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from zotd.base.files import BadFile
from zotd.base.json_file import read_json, write_json

PLENTY = 1_000


def test_where_there_is_no_file_there_is_an_empty_object(tmp_path: Path) -> None:
    assert read_json(tmp_path / "a.json", PLENTY) == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"{", "expected JSON: "),
        (b'{"a": {"b": 1, "b": 2}}', "the key 'b' is there twice"),
        (b"[" * PLENTY, "expected JSON: "),
    ],
)
def test_what_is_no_json_or_says_two_things_is_named(tmp_path: Path, text: bytes, fault: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(BadFile) as bad:
        read_json(path, PLENTY)
    assert str(bad.value).startswith(f"{path}: ")
    assert fault in str(bad.value)


def test_a_name_that_is_no_utf8_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    content = {"folders": {"/home/\udcff": True}}
    write_json(path, content, PLENTY, "")
    assert read_json(path, PLENTY) == content


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    link = tmp_path / "a.json"
    link.symlink_to("real.json")
    write_json(link, {"a": 1}, PLENTY, "")
    assert link.is_symlink()
    assert read_json(tmp_path / "real.json", PLENTY) == {"a": 1}


def test_too_much_is_refused_with_what_to_do_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1}, PLENTY, "")
    with pytest.raises(BadFile, match="would have more than 20 bytes: remove some"):
        write_json(path, {"a": "x" * 20}, 20, "remove some")
    assert read_json(path, PLENTY) == {"a": 1}
