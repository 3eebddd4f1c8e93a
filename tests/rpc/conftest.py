"""The bound of tests that count calls in histograms."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.rpc import call_statistics
from rpcrdma.rpc.histogram import bucket_of


@pytest.fixture
def bounded_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting comes to an end: 3000 looks for a bucket are more than any test needs."""
    looks = itertools.count(1)

    def look(duration_ns: int) -> int:
        assert next(looks) < 3000
        return bucket_of(duration_ns)

    monkeypatch.setattr(call_statistics, "bucket_of", look)
