"""Durations in buckets, four to each power of two: their distribution at any time, in memory of a fixed size.

The buckets are counted with integers alone: the number of a bucket is computed from the length of the duration in bits
and its three highest bits. Below `UNIT_NS` times eight each unit has a bucket of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

__all__ = ["BUCKETS", "UNIT_BITS", "UNIT_NS", "Histogram", "bucket_of", "bucket_start_ns"]

UNIT_BITS = 8
UNIT_NS = 1 << UNIT_BITS
"""The width of the narrowest buckets: a quarter of a microsecond is less than any call takes."""
BUCKETS = 128
"""The last one begins at 32 minutes and has no end."""

_QUANTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}


def bucket_start_ns(index: int) -> int:
    """Returns the shortest duration, in nanoseconds, in the bucket `index`, 0 to `BUCKETS` - 1."""
    if index < 8:
        return index << UNIT_BITS
    return (4 | index & 3) << ((index >> 2) - 1 + UNIT_BITS)


def bucket_of(duration_ns: int) -> int:
    """Returns the index, 0 to `BUCKETS` - 1, of the bucket that counts a duration, in nanoseconds, at least 0."""
    units = duration_ns >> UNIT_BITS
    shift = units.bit_length() - 3
    return min(units if shift <= 0 else (shift << 2) + (units >> shift), BUCKETS - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """An immutable distribution of durations: the number in each bucket, their sum, and the longest, in nanoseconds."""

    counts: tuple[int, ...] = (0,) * BUCKETS
    """Durations in each bucket; `bucket_start_ns` gives the start of a bucket."""
    sum_ns: int = 0
    """The sum of all durations, in nanoseconds."""
    max_ns: int = 0
    """The longest duration, in nanoseconds; 0 if empty."""

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.counts)

    @property
    def mean_ns(self) -> float:
        """The mean duration in nanoseconds; 0 if there are no durations."""
        return self.sum_ns / (self.count or 1)

    def quantile_ns(self, share: float) -> int:
        """Returns the duration that `share` (0 to 1) of all durations do not exceed, in nanoseconds; 0 if empty.

        The result is the middle of the bucket that has the duration of the nearest rank. It is at most an eighth of
        itself, or 128 ns if that is more, away from that duration, and never above the maximum, which is exact. Of
        durations over half an hour only the maximum is known.
        """
        rank = max(ceil(share * self.count), 1)
        if rank >= self.count:
            return self.max_ns
        for index, counted in enumerate(self.counts[:-1]):
            rank -= counted
            if rank <= 0:
                return min((bucket_start_ns(index) + bucket_start_ns(index + 1)) // 2, self.max_ns)
        return self.max_ns

    def cumulative(self, bounds_ns: Iterable[int]) -> Iterator[int]:
        """Yields for each bound the number of durations below it.

        `bounds_ns` are nanoseconds in ascending order, each the start of a bucket.
        """
        index = below = 0
        for bound_ns in bounds_ns:
            while index < BUCKETS and bucket_start_ns(index) < bound_ns:
                below += self.counts[index]
                index += 1
            yield below

    def __add__(self, other: Histogram) -> Histogram:
        """Returns a new histogram of the durations of this one and of `other`."""
        return Histogram(
            counts=tuple(map(int.__add__, self.counts, other.counts)),
            sum_ns=self.sum_ns + other.sum_ns,
            max_ns=max(self.max_ns, other.max_ns),
        )

    def as_json(self) -> dict[str, Any]:
        """Returns a dictionary of "mean", "p50", "p90", "p99" and "max" in microseconds; all None without durations."""
        if not self.count:
            return dict.fromkeys(("mean", *_QUANTILES, "max"))
        quantiles = {name: round(self.quantile_ns(share) / 1000, 1) for name, share in _QUANTILES.items()}
        return {"mean": round(self.mean_ns / 1000, 1), **quantiles, "max": round(self.max_ns / 1000, 1)}
