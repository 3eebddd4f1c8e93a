"""The examples do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_blob_store_moves_a_blob_over_rdma_and_tcp() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "blob_store" / "run.py"], capture_output=True, text=True, timeout=15, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "rdma: 1024000 octets came back into the caller's own buffer",
        "tcp: 1024000 octets came back into the caller's own buffer",
    ]
