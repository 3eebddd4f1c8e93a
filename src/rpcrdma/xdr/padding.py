"""The padding of items to a multiple of four octets (RFC 4506 section 3)."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["PADDING_MAX", "padded_octets", "padding"]

PADDING_MAX = 3
"""Octets of padding behind an item."""


def padding(length: int) -> int:
    """Returns the number of zero octets after `length` octets, up to a multiple of four."""
    return -length & 3


def padded_octets(lengths: Iterable[int]) -> int:
    """Returns the octets of items of variable length in the stream, padding included, without their length words."""
    octets = 0
    for length in lengths:
        octets += (length + 3) & ~3
    return octets
