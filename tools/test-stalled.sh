#!/usr/bin/env bash
# tools/test-stalled.sh [FOLDER...]: all tests, or those of some folders, on event loops that stall, in another order;
# then `make test` beside busy processes. None may depend on the speed of the machine, or on the tests before it.
# Variables of the environment:
#   STALLS='0.02:0.08 0.002:1'  probability and seconds of a stall, a run for each
#   SEED=1                      of the stalls and the order
#   BUSY=4                      busy processes; 0: no such run
#   WORKERS=3                   of pytest
set -euo pipefail
cd "$(dirname "$0")/.."
make --silent .venv/.group-dev
unset PYTHONDONTWRITEBYTECODE
suite='not interop and not scale and not data_tools'
for stalls in ${STALLS:-0.02:0.08 0.002:1}; do
    echo "== stalls $stalls, seed ${SEED:-1}"
    .venv/bin/python -m pytest -n "${WORKERS:-3}" --dist worksteal --stalls "$stalls" --stall-seed "${SEED:-1}" -m "$suite" "$@"
done
if [ "${BUSY:-4}" != 0 ]; then
    echo "== beside ${BUSY:-4} busy processes"
    busy=()
    trap 'kill "${busy[@]}"' EXIT
    for _ in $(seq "${BUSY:-4}"); do
        .venv/bin/python -c 'while True: pass' &
        busy+=($!)
    done
    make test WORKERS="${WORKERS:-3}"
fi
