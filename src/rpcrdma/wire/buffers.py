"""The one buffer type that travels through the layers, and gather lists of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Buffer", "as_view", "gather_length"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Octets: a `memoryview` is always one-dimensional with item size 1 (see `as_view`)."""


def as_view(buffer: object) -> memoryview:
    """A flat view of octets over any object with the buffer protocol (numpy arrays, mmap), without a copy.

    Raises:
        TypeError: the object has no buffer, or its buffer is not contiguous.
    """
    view = memoryview(buffer)  # type: ignore[arg-type]
    return view if view.ndim == 1 and view.format == "B" else view.cast("B")


def gather_length(gather: Iterable[Buffer]) -> int:
    """Octets in a gather list."""
    return sum(map(len, gather))
