"""The messages of errors that callers meet, and the values that a call has by default."""

from __future__ import annotations

import pytest

from rpcrdma.errors import RpcError
from rpcrdma.rpc import errors
from rpcrdma.rpc.auth import NO_AUTH, AuthNone, AuthStat, OpaqueAuth
from rpcrdma.rpc.calling import CallEncoder, XidSource
from rpcrdma.rpc.message import CallHeader
from rpcrdma.rpc.program import null_procedure
from rpcrdma.rpc.reply_bound import UNSTATED, ReplyBound
from rpcrdma.rpc.service import Service


@pytest.mark.parametrize(("low", "high", "versions"), [(3, 3, "version 3"), (3, 4, "versions 3 to 4")])
def test_versions_that_are_offered_are_told(low: int, high: int, versions: str) -> None:
    error = errors.ProgramMismatch(low, high)
    assert str(error) == f"the responder offers {versions} of the program"
    assert (error.low, error.high) == (low, high)
    mismatch = errors.RpcVersionMismatch(low, high)
    assert (mismatch.low, mismatch.high) == (low, high)
    assert isinstance(mismatch, RpcError)


@pytest.mark.parametrize(("stat", "name"), [(AuthStat.AUTH_TOOWEAK, "AUTH_TOOWEAK"), (99, "99")])
def test_the_reason_of_a_refused_credential_is_told(stat: AuthStat | int, name: str) -> None:
    error = errors.AuthError(stat)
    assert str(error) == f"the responder refused the credential: {name}"
    assert error.stat is stat


def test_a_header_without_authentication_has_empty_bodies() -> None:
    assert CallHeader(1, 2, 3, 4) == (1, 2, 3, 4, NO_AUTH, NO_AUTH)
    assert CallEncoder().credential == AuthNone()


def test_null_is_one_object_for_each_version_and_returns_nothing() -> None:
    null = null_procedure(7, 1)
    assert (null.program, null.version, null.number, null.name, null.method) == (7, 1, 0, "NULL", "null")
    assert null_procedure(7, 1) is null
    assert null_procedure(7, 2) is not null
    assert (null.reply_bound(None), UNSTATED, null.status) == (ReplyBound(0, ()), ReplyBound(65536, ()), None)


def test_a_service_is_offered_over_rdma_and_nothing_of_it_is_idempotent_unless_it_says_so() -> None:
    assert Service.OVER_RDMA is True
    assert not Service.IDEMPOTENT


class Out(set[int]):
    """Identifiers, among which another one may be looked for 20 times."""

    looks = 0

    def __contains__(self, xid: object) -> bool:
        self.looks += 1
        assert self.looks <= 20, "no free identifier is found"
        return super().__contains__(xid)


@pytest.mark.parametrize("first", [0, 1, 5, 0xFFFFFFFC, 0xFFFFFFFF, 1 << 32, (1 << 32) + 5])
def test_a_free_identifier_is_the_next_one_round_the_end(first: int) -> None:
    source = XidSource(first)
    source._out = Out({(first + step) % (1 << 32) for step in (1, 2, 4)})
    assert [source.take() for _ in range(3)] == [(first + step) % (1 << 32) for step in (0, 3, 5)]
    source.give_back((first + 6) % (1 << 32))
    assert source.take() == (first + 6) % (1 << 32)


@pytest.mark.parametrize("length", range(10))
def test_a_credential_adds_its_body_with_padding(length: int) -> None:
    encoder = CallEncoder()
    encoder._auth = OpaqueAuth(77, bytes(length))
    plain = len(CallEncoder().encode(1, null_procedure(7, 1), None).reduced)
    assert encoder.credential_octets == len(encoder.encode(1, null_procedure(7, 1), None).reduced) - plain
    assert encoder.credential_octets == (0, 4, 4, 4, 4, 8, 8, 8, 8, 12)[length]
