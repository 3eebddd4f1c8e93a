"""Quantiles of a histogram are as near to the exact ones as documented, and buckets keep their bounds."""

from __future__ import annotations

from math import ceil

from hypothesis import example, given
from hypothesis import strategies as st

from rpcrdma.rpc.call_statistics import Durations
from rpcrdma.rpc.histogram import BUCKETS, Histogram, bucket_start_ns

HALF_AN_HOUR_NS = bucket_start_ns(BUCKETS - 1)
any_length = st.integers(0, HALF_AN_HOUR_NS.bit_length()).flatmap(
    lambda bits: st.integers(0, min(1 << bits, HALF_AN_HOUR_NS - 1))
)
durations = st.lists(any_length, min_size=1, max_size=60)


def counted(values: list[int]) -> Histogram:
    found = Durations()
    for value in values:
        found.add(value)
    return found.snapshot()


@given(durations, st.floats(0, 1))
@example([2049], 0.5)
@example([HALF_AN_HOUR_NS - 1, HALF_AN_HOUR_NS - 2], 0.5)
def test_a_quantile_is_at_most_an_eighth_away_from_the_exact_one(values: list[int], share: float) -> None:
    exact = sorted(values)[max(ceil(share * len(values)), 1) - 1]
    found = counted(values)
    assert abs(found.quantile_ns(share) - exact) <= max(exact / 8, 128)
    assert found.quantile_ns(share) <= found.quantile_ns(1) == found.max_ns == max(values)
    assert (found.count, found.sum_ns) == (len(values), sum(values))


@given(any_length)
def test_a_duration_is_in_the_bucket_that_begins_before_it_and_ends_after_it(value: int) -> None:
    index = counted([value]).counts.index(1)
    assert bucket_start_ns(index) <= value < bucket_start_ns(index + 1)


@given(durations, durations)
def test_histograms_add_up(some: list[int], others: list[int]) -> None:
    assert counted(some) + counted(others) == counted(some + others)


@given(durations)
def test_counts_below_bounds_are_exact_at_the_starts_of_buckets(values: list[int]) -> None:
    bounds = [bucket_start_ns(index) for index in range(0, BUCKETS, 5)]
    assert list(counted(values).cumulative(bounds)) == [sum(value < bound for value in values) for bound in bounds]


def test_nothing_has_no_percentiles() -> None:
    assert Histogram().quantile_ns(0.5) == 0
    assert set(Histogram().as_json().values()) == {None}
