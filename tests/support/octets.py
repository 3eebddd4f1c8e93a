"""Octets for tests: words as they travel, and recognizable data."""

from __future__ import annotations

import array
import struct
import sys

__all__ = ["pattern", "words"]


def words(*numbers: int) -> bytes:
    """32-bit numbers in network byte order."""
    return struct.pack(f">{len(numbers)}I", *numbers)


def pattern(length: int) -> bytes:
    """Data in which each word differs, so that a misplaced piece shows."""
    data = array.array("I", range(length // 4 + 1))
    if sys.byteorder == "little":
        data.byteswap()
    return data.tobytes()[:length]
