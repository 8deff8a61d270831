from __future__ import annotations

import subprocess

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from zotd.tools.diff import Change, apply, unified

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "a b"]), max_size=25)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, list[Change]]:
    text = draw(TEXTS)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    new = st.text("ab\n", max_size=6)
    pairs = zip(places[::2], places[1::2], strict=False)
    return text, [Change(start, end, draw(new)) for start, end in pairs]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changed())
@example(("a\na\n", [Change(1, 2, "\n"), Change(3, 4, ""), Change(4, 4, "\n")]))
def test_git_makes_the_new_text_of_the_old_one_and_the_diff(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[str, list[Change]]
) -> None:
    text, changes = case
    new = apply(text, changes)
    diff = unified("file", text, changes)
    assert (diff == "") == (text == new)
    folder = tmp_path_factory.getbasetemp() / "diff"
    folder.mkdir(exist_ok=True)
    (folder / "file").write_text(text, newline="")
    if diff:
        command = ["git", "apply", "--whitespace=nowarn", "-"]
        done = subprocess.run(command, cwd=folder, input=diff.encode(), capture_output=True)
        assert done.returncode == 0, (done.stderr.decode(), diff)
    left = (folder / "file").read_text() if (folder / "file").exists() else ""
    assert left == new


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    text = "".join(f"{n}\n" for n in range(1, 11))
    at = text.index("5")
    assert unified("n.txt", text, [Change(at, at + 1, "five")]) == (
        "--- a/n.txt\n+++ b/n.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    )


def test_a_missing_newline_at_the_end_is_marked() -> None:
    assert unified("n", "a\nb", [Change(2, 3, "c")]).endswith(
        " a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )
