"""Settings of endpoints under which each receive that they promise counts."""

from __future__ import annotations

import pytest


@pytest.fixture
def no_spare_receives(monkeypatch: pytest.MonkeyPatch) -> None:
    """No receives beyond the promised ones, which would hide a promise without a receive; only one is ahead."""
    for module in ("call_credits", "message_credits"):
        monkeypatch.setattr(f"rpcrdma.transport.{module}.SPARE_RECEIVES", 0)
    for module in ("receive_buffers", "endpoint"):
        monkeypatch.setattr(f"rpcrdma.transport.{module}.AHEAD", 1)
