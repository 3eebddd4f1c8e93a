"""The sequence window against a model that remembers every number."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.rpc.gss.window import SequenceWindow


@pytest.mark.req("OR-12")
@given(st.integers(1, 8), st.lists(st.integers(0, 40), max_size=60))
def test_each_number_from_the_window_on_is_taken_once(size: int, numbers: list[int]) -> None:
    window = SequenceWindow(size)
    seen: set[int] = set()
    for number in numbers:
        highest = max(seen, default=-1)
        fits = number > highest - size and number not in seen
        assert window.take(number) == fits, (number, seen)
        if fits:
            seen.add(number)


def test_a_leap_to_the_highest_number_costs_no_memory() -> None:
    window = SequenceWindow(4)
    assert window.take(0x7FFFFFFF)
    assert window._seen.bit_length() <= 4
    assert not window.take(0x7FFFFFFB)
    assert window.take(0x7FFFFFFC)


def test_a_number_far_below_the_window_costs_no_memory() -> None:
    window = SequenceWindow(4)
    assert window.take(0x7FFFFFFF)
    tracemalloc.start()
    try:
        assert not window.take(0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
