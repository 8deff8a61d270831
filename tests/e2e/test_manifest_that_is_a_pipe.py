"""A manifest that would be waited for is refused, and the daemon goes on."""

from __future__ import annotations

import os

from tests.clients import Machine


def test_a_manifest_that_is_a_pipe_is_refused_and_prompts_are_served(machine: Machine) -> None:
    folder = machine.root / "pipe"
    folder.mkdir()
    os.mkfifo(folder / "extension.json")
    client = machine.rpc("--provider", "scripted", "--ext", folder)
    client.send({"type": "prompt", "message": "hi", "id": 1})
    failed = client.until("ext_state")[-1]
    assert failed["state"] == "failed"
    assert "expected a regular file" in failed["error"]
    assert client.until("done")[-1]["stop"] == "end_turn"
