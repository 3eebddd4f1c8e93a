"""The binding of NFS version 3."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.rpc.program import Procedure
from rpcrdma.transport import ReplyBound
from rpcrdma.ulb import binding_for, nfs3


def procedure(number: int, program: int = 100003, version: int = 3) -> Procedure[Any, Any]:
    def unused(*_: Any) -> None:
        pytest.fail("a binding encodes nothing")

    return Procedure(program, version, number, "NAME", "name", unused, unused, unused, unused)


def bound(number: int, **args: int) -> ReplyBound:
    return binding_for(100003, 3)(procedure(number), SimpleNamespace(**args))


@pytest.mark.req("NF-1")
@pytest.mark.parametrize(
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
@pytest.mark.parametrize("count", [0, 1, 4096, 1 << 20])
def test_read_data_are_eligible_and_bounded_by_count(count: int) -> None:
    assert bound(6, count=count) == ReplyBound(104, (count,))


@pytest.mark.req("NF-1")
def test_readlink_target_is_eligible_and_bounded_by_the_longest_path() -> None:
    assert bound(5) == ReplyBound(96, (4096,))


@pytest.mark.parametrize("count", [512, 65536])
def test_directories_are_bounded_by_the_count_of_the_call_and_not_eligible(count: int) -> None:
    assert bound(16, count=count) == ReplyBound(108 + count)
    assert bound(17, maxcount=count, dircount=7) == ReplyBound(108 + count)


def test_there_are_22_procedures() -> None:
    for number in range(22):
        bound(number, count=1, maxcount=1)
    with pytest.raises(ValueError, match="no procedure 22"):
        bound(22)


def test_program_and_version() -> None:
    assert (nfs3.PROGRAM, nfs3.VERSION) == (100003, 3)
    assert binding_for(nfs3.PROGRAM, nfs3.VERSION) is nfs3.bind
