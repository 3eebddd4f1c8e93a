"""Crossings of latency curves."""

from __future__ import annotations

import pytest

from rpcrdma_lab.simulation.latency_curves import Crossing, Curves


def crossings(at: list[float], **latencies_s: list[float]) -> list[Crossing]:
    return Curves(operation="READ", over="miles", at=at, latencies_s=latencies_s).crossings()


def test_a_crossing_lies_where_straight_lines_between_the_points_meet() -> None:
    (found,) = crossings([0, 10], steep=[1, 9], flat=[3, 3])
    assert found == Crossing(2.5, 3, "flat", "steep")


def test_curves_that_touch_or_follow_each_other_do_not_cross() -> None:
    assert crossings([0, 1, 2], one=[1, 2, 3], same=[1, 2, 3]) == []
    assert crossings([0, 1, 2], above=[2, 2, 2], below=[1, 2, 1]) == []


def test_curves_that_are_equal_at_a_point_cross_there() -> None:
    (found,) = crossings([0, 1, 2], rising=[1, 2, 3], falling=[3, 2, 1])
    assert (found.at, found.latency_s, found.faster) == (1, 2, "falling")


def test_crossings_of_all_pairs_are_listed_by_their_place() -> None:
    found = crossings([0, 4], a=[0, 8], b=[1, 1], c=[5, 5])
    assert [(each.at, each.faster, each.slower) for each in found] == [(0.5, "b", "a"), (2.5, "c", "a")]


def test_curves_have_as_many_latencies_as_points() -> None:
    with pytest.raises(ValueError, match="zip"):
        crossings([0, 1], a=[1, 2], b=[1])
