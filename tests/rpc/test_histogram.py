"""The places of the buckets, and the numbers that a histogram tells."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.rpc import call_statistics
from rpcrdma.rpc import histogram as module
from rpcrdma.rpc.call_statistics import Durations
from rpcrdma.rpc.histogram import BUCKETS, Histogram, bucket_of, bucket_start_ns
from support.cases import each_case

pytestmark = pytest.mark.usefixtures("bounded_looks")

STARTS = [
    unit << power
    for power, units in [(8, range(8)), *((power, range(4, 8)) for power in range(9, 39))]
    for unit in units
]
"""Four to each power of two, from eight units of 256 ns on."""


def test_durations_of_one_bucket_are_counted_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def look(duration_ns: int) -> int:
        index = bucket_of(duration_ns)
        assert index not in begun
        begun.append(index)
        return index

    class Listed(list[int]):
        def __getitem__(self, index: Any) -> Any:
            assert index < len(self)
            return super().__getitem__(index)

    monkeypatch.setattr(call_statistics, "bucket_of", look)
    counted = Durations()
    counted.add_all(Listed([*(start + more for start in STARTS for more in (0, 1, 255)), STARTS[-1] * 100]))
    assert begun == list(range(BUCKETS))
    assert counted.buckets == [3] * (BUCKETS - 1) + [4]


def of(*durations_ns: int) -> Histogram:
    counted = Durations()
    for duration_ns in durations_ns:
        counted.add(duration_ns)
    return counted.snapshot()


def test_what_is_counted_is_told_in_microseconds() -> None:
    # Middles of their buckets: 10 ms is in one from 8,388,608 to 10,485,760, 100 ms in one from 83,886,080 on.
    histogram = of(*[10_000_000] * 90, *[100_000_000] * 9, 333_000_000)
    assert histogram.as_json() == {"mean": 21_330.0, "p50": 9_437.2, "p90": 9_437.2, "p99": 92_274.7, "max": 333_000.0}


def test_means_and_times_are_told_to_a_tenth_of_a_microsecond() -> None:
    assert (of(100, 200, 900).mean_ns, Histogram().mean_ns) == (400, 0)
    assert of(1_234_567).as_json() == dict.fromkeys(("mean", "p50", "p90", "p99", "max"), 1234.6)


@each_case(("share", "rank"), [(0, 1), (0.2, 1), (0.21, 2), (0.4, 2), (0.6, 3), (0.61, 4), (0.8, 4)])
def test_a_quantile_is_the_nearest_rank(share: float, rank: int) -> None:
    histogram = of(1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26)
    start = 1 << (6 + 4 * rank)
    index = STARTS.index(start)
    assert histogram.quantile_ns(share) == (start + STARTS[index + 1]) // 2
    assert histogram.quantile_ns(1) == 1 << 26


def test_only_the_last_bucket_has_no_middle() -> None:
    histogram = of(STARTS[-3], STARTS[-2], STARTS[-1], STARTS[-1] * 10, STARTS[-1] * 100)
    middles = [(STARTS[index] + STARTS[index + 1]) // 2 for index in (-3, -2)]
    assert [histogram.quantile_ns(rank / 5) for rank in (1, 2, 3, 4)] == [*middles, *[STARTS[-1] * 100] * 2]


@each_case(
    "bounds",
    [(0, 256), (512, 512), (256, 2048, 2560), (2048,), (STARTS[-1], STARTS[-1] + 1), (STARTS[-1] * 4,), (1 << 60,)],
)
def test_a_duration_at_a_bound_is_not_below_it(bounds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def look(index: int) -> int:
        looked_at.append(index)
        assert index < BUCKETS
        assert len(looked_at) < 2 * BUCKETS, "each bucket is passed once"
        return bucket_start_ns(index)

    monkeypatch.setattr(module, "bucket_start_ns", look)
    durations_ns = (0, 255, 256, 511, 2047, 2048, 2560, STARTS[-1] - 1, STARTS[-1])
    expected = [sum(duration_ns < bound for duration_ns in durations_ns) for bound in bounds]
    assert list(of(*durations_ns).cumulative(bounds)) == expected
