"""How large replies of NFS version 3 get (RFC 8267 section 4), computed here by hand from the XDR of RFC 1813."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rpcrdma.nfs import v3
from rpcrdma.rpc.reply_bound import ReplyBound
from support.cases import each_case


def bound(number: int, **args: int) -> ReplyBound:
    return v3.PROGRAM.procedures[number].reply_bound(SimpleNamespace(**args))


@pytest.mark.req("NF-1")
@each_case(
    ("number", "octets"),
    [
        (0, 0),
        (1, 88),
        (2, 120),
        (3, 248),
        (4, 96),
        (7, 136),
        (8, 280),
        (9, 280),
        (10, 280),
        (11, 280),
        (12, 120),
        (13, 120),
        (14, 236),
        (15, 208),
        (18, 144),
        (19, 140),
        (20, 116),
        (21, 128),
    ],
)
def test_results_of_fixed_size_have_nothing_eligible(number: int, octets: int) -> None:
    assert bound(number) == ReplyBound(octets)


@pytest.mark.req("NF-1")
@each_case("count", [0, 1, 4096, 1 << 20])
def test_read_data_are_eligible_and_bounded_by_count(count: int) -> None:
    assert bound(6, count=count) == ReplyBound(104, (count,))


@pytest.mark.req("NF-1")
def test_readlink_target_is_eligible_and_bounded_by_the_longest_path() -> None:
    assert bound(5) == ReplyBound(96, (4096,))


@each_case("count", [512, 65536])
def test_directories_are_bounded_by_the_count_of_the_call_and_not_eligible(count: int) -> None:
    assert bound(16, count=count) == ReplyBound(108 + count)
    assert bound(17, maxcount=count, dircount=7) == ReplyBound(108 + count)


def test_there_are_22_procedures() -> None:
    assert sorted(v3.PROGRAM.procedures) == list(range(22))
