#!/usr/bin/env bash
# tools/nightly.sh: what takes hours. Each step runs, whatever another one found; the last line names those that failed.
set -uo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
failed=()

step() {
    echo "== $*"
    "$@" || failed+=("$*")
}

step make check
step make test-all
for seed in 1 2 3; do step env SEED=$seed tools/test-stalled.sh; done
step tools/fuzz.sh 1800
step tools/debian-packages.sh native
step $python native/check.py --seconds 600
step $python tests/soak/soak.py --seconds 600
step $python tests/soak/soak.py --seconds 600 --extension rtr
step $python -m pytest -m scale -rP tests/soak/test_scale.py tests/aio/test_memory_of_ended_connections.py
step $python -m rpcrdma_lab.simulation.worlds --seeds 100000 --twice-every 10
step $python tests/worlds/run_nfs4_worlds.py --seeds 3000
step $python tests/mutation/run_mutants.py --sample 0
step $python tests/mutation/run_mutants.py --sample 0 \
    --package lab/src/rpcrdma_lab --modules 'dissect/*.py' --tests lab/tests/dissect --gated
step $python tests/mutation/run_mutants.py --sample 600 --seed "$(date +%j)" --tier quick --least 90
# One version of torch, since each is a GB to install.
step tools/data-tools.sh torch==2.13.0
step tools/bare-debian.sh bookworm
step tools/bare-debian.sh sid
step make interop
# pynfs has another license, and is fetched and built by hand: CONTRIBUTING.md.
[ -z "${PYNFS:-}" ] || step $python tests/interop/pynfs_suite.py "$PYNFS/nfs4.1"
step make interop-kernel
step make interop-kernel CHECKS='verbs-*'
step make interop-kernel CHECKS='--kernel newer verbs-*'
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}" >&2
    exit 1
fi
