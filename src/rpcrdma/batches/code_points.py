"""The header type and the transport property, beyond what revisions of version 2 may take."""

from __future__ import annotations

__all__ = ["BATCH", "BATCH_LIMIT"]

BATCH = 0x105
"""Header type: several RPC messages."""

BATCH_LIMIT = 0x105
"""Property: the most RPC messages that its sender takes in one message."""
