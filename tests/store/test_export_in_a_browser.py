"""The page in a real Chromium: it draws itself, nothing is blocked, nothing is fetched, nothing runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients import LONG
from tests.store.exports import Page, conversation, say, written

pytestmark = pytest.mark.long

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--proxy-server=127.0.0.1:9",  # whatever a page asked for would fail here, and be said so
)


def browser() -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    assert found is not None, "there is no Chromium; run: make chromium"
    return found


def rendered(page: Path, *flags: str) -> tuple[str, list[str]]:
    """What the browser answers, and what its console says of the page."""
    done = subprocess.run(
        [browser(), *QUIET, f"--user-data-dir={page.parent / 'profile'}", *flags, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    return done.stdout, re.findall(r".*CONSOLE.*", done.stderr)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "session.html"
    path.write_text(written("html", *conversation(), say("assistant", "the very last words")))
    return path


def test_the_browser_reads_the_page_as_it_was_meant_and_has_nothing_to_say(page: Path) -> None:
    dom, console = rendered(page, "--dump-dom")
    assert console == []
    meant, read = Page(page.read_text()), Page(dom)
    # Its own tree, written out: an element that was misread would stand elsewhere or be missing.
    assert [tag for tag, _ in read.elements if tag != "tbody"] == [
        tag for tag, _ in meant.elements if tag != "tbody"
    ]
    assert read.text("main").split() == meant.text("main").split()


def test_the_console_would_speak_of_what_is_blocked(page: Path) -> None:
    text = page.read_text()
    planted = text.replace("</main>", '<p style="color:red">x</p><img src="http://127.0.0.1:9/x.png"></main>')
    page.write_text(planted.replace("</main>", "<script>document.title = 1</script></main>"))
    _, console = rendered(page, "--dump-dom")
    assert len(console) == 3
    assert all("Content Security Policy" in line for line in console)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 500])
def test_the_browser_draws_the_page(page: Path, scheme: str, width: int) -> None:
    picture = page.with_name("page.png")
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    _, console = rendered(page, *dark, f"--window-size={width},900", f"--screenshot={picture}")
    assert console == []
    light, total = lightness(picture)
    assert (light / total > 0.6) == (scheme == "light")


def lightness(picture: Path) -> tuple[int, int]:
    """How many of the bytes of a picture's pixels are light, and how many there are."""
    import struct
    import zlib

    data = picture.read_bytes()
    width, height, _, kind = struct.unpack(">IIBB", data[16:26])
    depth = {2: 3, 6: 4}[kind]
    at, packed = 8, b""
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    raw, row = zlib.decompress(packed), width * depth + 1
    above = bytearray(row - 1)
    light = 0
    for line in range(height):
        filtered, now = raw[line * row], bytearray(raw[line * row + 1 : (line + 1) * row])
        for i in range(row - 1):
            left = now[i - depth] if i >= depth else 0
            corner = above[i - depth] if i >= depth else 0
            guess = (0, left, above[i], (left + above[i]) // 2, paeth(left, above[i], corner))[filtered]
            now[i] = (now[i] + guess) & 255
        light += sum(value > 200 for i, value in enumerate(now) if i % depth < 3)
        above = now
    return light, width * height * 3


def paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda value: abs(guess - value))


def test_ten_thousand_messages_are_drawn_in_seconds(tmp_path: Path) -> None:
    rows = [
        say("user" if number % 2 else "assistant", f"Message *{number}*\n\n- one\n- two")
        for number in range(10_000)
    ]
    path = tmp_path / "long.html"
    path.write_text(written("html", *rows))
    _, console = rendered(path, "--screenshot=" + str(tmp_path / "long.png"), "--timeout=20000")
    assert console == []
    assert (tmp_path / "long.png").stat().st_size > 1_000
