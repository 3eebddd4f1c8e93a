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


def test_the_auction_calls_its_clients_back_over_rdma_and_tcp() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "callback" / "run.py"], capture_output=True, text=True, timeout=15, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "Bob hears that Ann bids 50, and stays",
        "Ann hears that Bob bids 90, and stays",
        "Ann hears that Bob bids 120, and leaves",
    ]
