"""Random numbers for protocol machines, the same in every run."""

from __future__ import annotations

import itertools
from collections.abc import Callable

__all__ = ["draws"]


def draws(seed: int = 1) -> Callable[[int], int]:
    """A function from a number of bits to a number below 2 to the power of it."""
    count = itertools.count(seed)
    return lambda bits: (next(count) * 210306068529402873165736369884012333109 >> 7) & (1 << bits) - 1
