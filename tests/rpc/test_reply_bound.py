"""How large a reply can get, by its procedure and by limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpcrdma.rpc.program import null_procedure
from rpcrdma.rpc.reply_bound import UNSTATED, ReplyBound
from support.cases import each_case

BOUND = ReplyBound(100, (7, 300, 8))
NULL = null_procedure(7, 1)
OTHER = replace(NULL, number=1)


@each_case(
    ("octets_max", "given", "bound"),
    [
        (1000, False, (100, (7, 300, 8))),
        (300, False, (100, (7, 300, 8))),
        (299, False, (100, (7, 299, 8))),
        (100, False, (100, (7, 100, 8))),
        (99, False, (99, (7, 99, 8))),
        (5, False, (5, (5, 5, 5))),
        (5, True, (5, (7, 5, 5))),
    ],
)
def test_a_limit_caps_results_and_items_but_not_the_callers_buffer(
    octets_max: int, given: bool, bound: tuple[int, tuple[int, ...]]
) -> None:
    assert BOUND.capped(octets_max, given=given) == ReplyBound(*bound)


@each_case(
    ("items", "octets"),
    [((), 100), ((1,), 104), ((2,), 104), ((3,), 104), ((4,), 104), ((5,), 108), ((7, 300, 8), 416), ((0,), 100)],
)
def test_items_in_the_stream_are_padded_to_words(items: tuple[int, ...], octets: int) -> None:
    bound = ReplyBound(100, items)
    assert bound.inline(1000) == ReplyBound(octets)
    assert bound.inline(octets) == ReplyBound(octets)
    assert bound.inline(octets - 1) == ReplyBound(octets - 1)


def test_a_procedure_states_its_bound_always_or_for_its_arguments() -> None:
    assert replace(OTHER, bound=BOUND).reply_bound(None) == BOUND
    counted = replace(OTHER, bound=lambda args: ReplyBound(args or 9))
    assert counted.reply_bound(None) == ReplyBound(9)


@pytest.mark.req("V2-15")
def test_without_a_bound_a_procedure_has_64_kib_and_procedure_0_nothing() -> None:
    assert OTHER.reply_bound(None) == UNSTATED == ReplyBound(65536)
    assert NULL.reply_bound(None) == ReplyBound(0)
    assert replace(OTHER, number=2).reply_bound(None) == ReplyBound(65536)
