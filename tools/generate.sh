#!/usr/bin/env bash
# tools/generate.sh: generates the modules of XDR definitions again. The first line of a module names its definition.
set -euo pipefail
cd "$(dirname "$0")/.."
make --silent install
for module in $(grep -rl --include='*.py' '^"""Generated from' src lab examples tests); do
    definition=$(sed -n '1s/^"""Generated from \([^ ]*\.x\) .*/\1/p' "$module")
    if [ -n "$definition" ]; then
        echo "$module"
        .venv/bin/rpcrdma xdr compile "$(dirname "$module")/$definition" -o "$module"
    fi
done
