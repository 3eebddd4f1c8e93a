"""The two accounts of credits."""

from __future__ import annotations

import pytest

from rpcrdma.transport.credits import GrantedCredits, RequestedCredits


@pytest.mark.req("V1-7", "V1-8")
def test_requester_starts_with_one_credit() -> None:
    account = RequestedCredits(32)
    assert account.available == 1
    account.in_flight = 1
    assert account.available == 0


@pytest.mark.req("V1-2", "V1-4")
@pytest.mark.parametrize(("granted", "usable"), [(1, 1), (31, 31), (32, 32), (33, 32), (0xFFFFFFFF, 32)])
def test_grant_is_absolute_and_capped_by_the_request(granted: int, usable: int) -> None:
    account = RequestedCredits(32)
    account.on_grant(7)
    account.on_grant(granted)
    assert account.available == usable


@pytest.mark.req("V1-3")
def test_illegal_grant_of_zero_counts_as_one() -> None:
    account = RequestedCredits(32)
    account.on_grant(8)
    account.on_grant(0)
    assert account.available == 1


def test_lowered_grant_leaves_nothing_available() -> None:
    account = RequestedCredits(32)
    account.on_grant(8)
    account.in_flight = 8
    account.on_grant(2)
    assert account.available == -6


def test_responder_counts_what_is_not_answered() -> None:
    account = GrantedCredits(2)
    assert account.on_call()
    assert account.on_call()
    assert not account.on_call()
    account.on_answer()
    account.on_answer()
    assert account.on_call()
