"""Octets for tests: words as they travel, and recognizable data."""

from __future__ import annotations

import struct

__all__ = ["pattern", "words"]


def words(*numbers: int) -> bytes:
    """32-bit numbers in network byte order."""
    return struct.pack(f">{len(numbers)}I", *numbers)


def pattern(length: int) -> bytes:
    """Data in which each word differs, so that a misplaced piece shows."""
    return b"".join(number.to_bytes(4, "big") for number in range(length // 4 + 1))[:length]
