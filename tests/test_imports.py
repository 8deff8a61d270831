"""What each way in may load: a library is imported only where it is needed."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from bench.counts import imported_modules
from bench.ways import BARE, WAYS

WAY = {way.name: way for way in WAYS}

# The libraries that a way in loads, all of them. Some come with others: OSlash and jsonschema with
# jsonrpcserver; attrs, idna, referencing and rpds-py with jsonschema. Installed but loaded by none of these:
# httpx2 (a model over HTTP), yaml (a script that is not JSON), structlog (a daemon), rich, xllamacpp.
LIBRARIES = {
    "--version": set[str](),
    "--help": set[str](),
    "ping": {"orjson", "uvloop"},
    "-p": {"msgspec", "orjson"},
    "initialize": {
        "OSlash",
        "attrs",
        "idna",
        "jsonrpcserver",
        "jsonschema",
        "jsonschema-specifications",
        "msgspec",
        "orjson",
        "referencing",
        "rpds-py",
        "uvloop",
    },
}

OPTIONAL = {"typing_extensions"}
"""msgspec takes it along where something else has installed it."""

# Parts of the standard library that cost milliseconds, and where none of them belongs.
SLOW = {
    "argparse",
    "asyncio",
    "dataclasses",
    "email",
    "importlib.metadata",
    "inspect",
    "json",
    "re",
    "ssl",
    "subprocess",
}
SLOW_ALLOWED = {
    "--version": set[str](),
    "--help": {"argparse", "re"},
}


@cache
def loaded(way: str) -> frozenset[str]:
    """The modules that are imported beyond those of the bare interpreter."""
    return frozenset(imported_modules(WAY[way]) - imported_modules(BARE))


@cache
def distributions() -> dict[str, set[str]]:
    return {package: set(names) for package, names in packages_distributions().items()}


def libraries(way: str) -> set[str]:
    """The installed distributions that modules of a way belong to, ours aside."""
    tops = {module.partition(".")[0] for module in loaded(way)} - sys.stdlib_module_names
    return set().union(*(distributions().get(top, set()) for top in tops)) - {"zotd", *OPTIONAL}


@pytest.mark.parametrize("way", LIBRARIES)
def test_a_way_in_loads_these_libraries_and_no_other(way: str) -> None:
    assert libraries(way) == LIBRARIES[way]


@pytest.mark.parametrize("way", SLOW_ALLOWED)
def test_quick_answers_do_without_the_slow_parts_of_the_standard_library(way: str) -> None:
    assert loaded(way) & SLOW <= SLOW_ALLOWED[way]


def test_the_agent_is_not_loaded_for_a_health_check() -> None:
    rooms = {module.split(".")[1] for module in loaded("ping") if module.startswith("zotd.")}
    assert rooms.isdisjoint({"agent", "tools", "extensions"})


def test_version_loads_nothing_but_its_own_module() -> None:
    assert {module for module in loaded("--version") if module.startswith("zotd")} == {
        "zotd",
        "zotd.cli",
        "zotd.cli.main",
    }
