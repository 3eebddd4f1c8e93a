#!/usr/bin/env bash
# tools/fuzz.sh [SECONDS [CASES]]: coverage-guided fuzzing of every decoder and of the connection machines, for a minute, or
# so many seconds and at most so many cases for each target; then property tests with random examples.
set -euo pipefail
cd "$(dirname "$0")/.."
make --silent .venv/.group-dev .venv/.group-fuzz
.venv/bin/python tests/fuzz/run_fuzzers.py --cases "${2:-1000000}" --seconds "${1:-60}" --jobs "${WORKERS:-3}"
HYPOTHESIS_PROFILE=thorough .venv/bin/python -m pytest -n "${WORKERS:-3}" --dist worksteal --timeout 600 \
    tests/*/test_*_properties.py lab/tests/*/test_*_properties.py
