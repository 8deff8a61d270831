#!/bin/sh
# Makes .venv and installs the pinned packages and zotd itself into it; safe to run again.
# PYTHON chooses the interpreter. Called by `make setup`.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

recent() { # Prints the real path of $1 when it runs and is 3.11 or later (a pyenv shim may do neither).
    "$1" -c 'import sys
if sys.version_info < (3, 11): sys.exit(1)
print(sys.executable)' 2>/dev/null
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        recent "$PYTHON" || { say "PYTHON=$PYTHON is no Python 3.11 or later that runs."; return 1; }
        return
    fi
    for name in python3.13 python3.12 python3.11 python3; do
        if recent "$name"; then return; fi
    done
    say "zotd needs Python 3.11 or later, and none is on the PATH. Install one (Debian: apt-get install"
    say "python3 python3-venv; macOS: brew install python@3.13) or run: make setup PYTHON=/path/to/python3"
    return 1
}

# Debian ships Python without what makes virtual environments.
ensure_venv_module() {
    if "$1" -c 'import ensurepip, venv' 2>/dev/null; then return; fi
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing $package"
        apt-get install -y -qq "$package" || { apt-get update -qq && apt-get install -y -qq "$package"; }
    else
        say "$1 cannot make virtual environments. Run: sudo apt-get install $package"
        exit 1
    fi
}

if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    python=$(find_python)
    ensure_venv_module "$python"
    say "making .venv with $python"
    "$python" -m venv --clear .venv
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt

uv() { VIRTUAL_ENV="$PWD/.venv" .venv/bin/uv "$@"; }
uv pip sync --quiet --require-hashes --compile-bytecode requirements/dev.txt
# Up to Python 3.11 `venv` brings setuptools, whose .pth file makes every start of the interpreter slower.
uv pip uninstall --quiet setuptools 2>/dev/null
uv pip install --quiet --no-deps --no-build-isolation --editable .
say "ready: .venv/bin/zotd"
