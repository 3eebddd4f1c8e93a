"""Latencies over distance or size, one curve for each way to carry a call, and the points at which curves cross."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Crossing", "Curves"]

_SAME = 1e-2
"""Latencies that differ by less than this share count as equal: curves that follow each other do not cross."""


class Crossing(NamedTuple):
    """The point from which on `faster` is faster than `slower`; before it is the other way round."""

    at: float
    latency_s: float
    faster: str
    slower: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Latencies of one operation: `latencies_s` has one for each of `at`, by the name of the variant.

    `over` names the axis of `at`, which ascends: "miles" or "octets".
    """

    operation: str
    over: str
    at: Sequence[float]
    latencies_s: Mapping[str, Sequence[float]]

    def crossings(self) -> list[Crossing]:
        """Returns the crossings of all pairs of curves, in the order of `at`; curves are straight between points."""
        found = []
        for first, second in itertools.combinations(self.latencies_s, 2):
            found += self._crossings_of(first, second)
        return sorted(found)

    def _crossings_of(self, first: str, second: str) -> list[Crossing]:
        one, other = self.latencies_s[first], self.latencies_s[second]
        found: list[Crossing] = []
        before: int | None = None
        """The last point at which the two differed."""
        for point, (a, b) in enumerate(zip(one, other, strict=True)):
            if abs(a - b) <= _SAME * max(a, b):
                continue
            if before is not None and (a > b) != (one[before] > other[before]):
                gap_before, gap = abs(one[before] - other[before]), abs(a - b)
                share = gap_before / (gap_before + gap)
                at = self.at[before] + share * (self.at[point] - self.at[before])
                latency_s = one[before] + share * (a - one[before])
                faster, slower = (second, first) if a > b else (first, second)
                found.append(Crossing(at, latency_s, faster, slower))
            before = point
        return found
