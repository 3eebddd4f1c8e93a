#!/usr/bin/env bash
# tools/data-tools.sh [torch]: pandas, Arrow, Dask, Ray and others read and write rdma://. Installs them, a GB; with `torch`
# or `torch==VERSION` PyTorch as well, another GB, and several where its wheel brings CUDA.
set -euo pipefail
cd "$(dirname "$0")/.."
make --silent .venv/.group-dev .venv/.group-dev-data
if [ $# -gt 0 ]; then .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"; fi
.venv/bin/python -m pytest -m data_tools tests/data_tools
