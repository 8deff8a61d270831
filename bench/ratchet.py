"""Holds start-up cost where it is: modules and instructions of each way in, against bench/ratchet.json.

`python -m bench.ratchet` exits 1 when a count is over its limit; `--update` writes the present counts,
with a little head-room, as the new limits. Instructions are ratios to a floor run beside them, so that
they carry over to another machine; the contract's own bounds hold whatever the file says.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.counts import imported_modules, instruction_counter, instructions
from bench.ways import BARE, ECHO, ROOT, WAYS, Way

FILE = ROOT / "bench" / "ratchet.json"
MODULES_ROOM = 1.03, 4
"""A factor and a few more: Python versions differ in the modules of the standard library."""
RATIO_ROOM = 1.06
"""Hashes, paths and addresses move instruction counts by a few per cent."""
BOUNDS = {"--version": 1.5, "--help": 2.5, "ping": 2.0, "-p": 2.5, "one more ping": 2.0}
"""What was promised, as ratios to the floor."""
TURNS = 500


@dataclass(frozen=True)
class Count:
    """One line of the table: `limit` is what the file allows, infinite when it says nothing yet."""

    kind: str
    name: str
    value: float
    limit: float

    @property
    def over(self) -> bool:
        return self.value > self.limit


def main(arguments: list[str]) -> int:
    limits: dict[str, dict[str, float]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    counts = [*module_counts(limits.get("modules", {})), *instruction_ratios(limits.get("instructions", {}))]
    for count in counts:
        limit = f"at most {count.limit:g}" if math.isfinite(count.limit) else "no limit yet"
        print(f"{count.kind:<13}{count.name:<15}{count.value:>8g}  {limit}{'  OVER' if count.over else ''}")
    if arguments == ["--update"]:
        update(limits, counts)
        return 0
    if over := [f"{count.kind} of {count.name}" for count in counts if count.over]:
        print(f"over the limit: {', '.join(over)}. Import later what is not needed there; if the cost is")
        print("honest, say why in the commit and run: .venv/bin/python -m bench.ratchet --update")
    return 1 if over else 0


def module_counts(limits: dict[str, float]) -> list[Count]:
    """Modules beyond those of the bare interpreter."""
    bare = imported_modules(BARE)
    return [
        Count("modules", way.name, len(imported_modules(way) - bare), limits.get(way.name, math.inf))
        for way in WAYS
    ]


def instruction_ratios(limits: dict[str, float]) -> list[Count]:
    """Instructions over those of each way's floor; none where they cannot be counted."""
    counter = instruction_counter()
    if counter is None:
        print("instructions  are not counted here: neither `perf stat` nor valgrind works")
        return []

    def count(way: Way) -> int:
        return instructions(way, counter)

    floors = {"bare": count(BARE), "echo": count(ECHO)}
    ratios: dict[str, float] = {}
    for way in WAYS:
        # valgrind is so slow that the grace before the agent is loaded may run out: the least is the truth.
        tries = 5 if way.name == "ping" else 1
        ratios[way.name] = min(count(way) for _ in range(tries)) / floors[way.floor]
        if way.name == "ping":
            ratios["one more ping"] = one_more(way, count) / one_more(ECHO, count)
    return [
        Count(
            "instructions", name, round(ratio, 3), min(limits.get(name, math.inf), BOUNDS.get(name, math.inf))
        )
        for name, ratio in ratios.items()
    ]


def one_more(way: Way, count: Callable[[Way], int]) -> float:
    """Instructions of one more round trip, once everything that loads in the background is there."""
    return (count(replace(way, turns=3 * TURNS)) - count(replace(way, turns=TURNS))) / (2 * TURNS)


def update(limits: dict[str, dict[str, float]], counts: list[Count]) -> None:
    """Writes the limits; figures that could not be counted here keep theirs."""
    for count in counts:
        bound = BOUNDS.get(count.name, math.inf)
        ratio = min(round(count.value * RATIO_ROOM, 3), bound)
        modules = math.ceil(count.value * MODULES_ROOM[0]) + MODULES_ROOM[1]
        room = modules if count.kind == "modules" else ratio
        limits.setdefault(count.kind, {})[count.name] = room
    FILE.write_text(json.dumps(limits, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
