"""Transaction identifiers: in order, round the end, never one that is out."""

from __future__ import annotations

from rpcrdma.rpc.calling import XidSource


def test_identifiers_follow_each_other_round_the_end() -> None:
    xids = XidSource(0xFFFFFFFE)
    assert [xids.take() for _ in range(4)] == [0xFFFFFFFE, 0xFFFFFFFF, 0, 1]


def test_what_is_out_is_passed_over_until_it_is_back() -> None:
    xids = XidSource(5)
    first, second = xids.take(), xids.take()
    xids._next = first
    assert xids.take() == 7
    xids.taken.pop(second, None)
    xids.taken.pop(second, None)
    xids._next = first
    assert xids.take() == second
