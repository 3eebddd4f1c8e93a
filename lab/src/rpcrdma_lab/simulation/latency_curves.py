"""Latencies over distance or size, one curve for each way to carry a call, and the points at which curves cross."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Crossing", "Curves"]

_SAME = 1e-2
"""The relative difference of latencies up to which two curves count as equal."""


class Crossing(NamedTuple):
    """The point `at`, in miles or octets, beyond which the variant `faster` has a lower latency than `slower`.

    Before the point, `slower` has the lower latency. `latency_s` is the latency of both at the point, in seconds.
    """

    at: float
    latency_s: float
    faster: str
    slower: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Latency curves of one operation, one for each variant.

    Attributes:
        operation: the name of the operation.
        over: the unit of the axis `at`: "miles" or "octets".
        at: ascending values.
        latencies_s: for each variant's name, the latency in seconds at each value of `at`.
    """

    operation: str
    over: str
    at: Sequence[float]
    latencies_s: Mapping[str, Sequence[float]]

    def crossings(self) -> list[Crossing]:
        """Returns the points at which curves of two variants cross, for all pairs, in ascending order of `at`.

        Curves are straight between their points. Points of `at` at which two latencies differ by up to 1 % are left
        out; a crossing there is interpolated between the points before and after them.
        """
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
