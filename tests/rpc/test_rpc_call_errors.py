"""The messages of errors that callers meet, and the values that a call has by default."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import pytest

from rpcrdma.errors import DecodeError, RpcError
from rpcrdma.rpc import errors
from rpcrdma.rpc.auth import NO_AUTH, AuthNone, AuthStat, OpaqueAuth
from rpcrdma.rpc.calling import CallEncoder, XidSource, decode_result
from rpcrdma.rpc.message import CallHeader, decode_reply
from rpcrdma.rpc.program import null_procedure
from rpcrdma.rpc.reply_bound import UNSTATED, ReplyBound
from rpcrdma.rpc.service import Service
from rpcrdma.xdr.codec import Decoder
from support.cases import each_case


@each_case(("low", "high", "versions"), [(3, 3, "version 3"), (3, 4, "versions 3 to 4")])
def test_versions_that_are_offered_are_told(low: int, high: int, versions: str) -> None:
    error = errors.ProgramMismatch(low, high)
    assert str(error) == f"the responder offers {versions} of the program"
    assert (error.low, error.high) == (low, high)
    mismatch = errors.RpcVersionMismatch(low, high)
    assert (mismatch.low, mismatch.high) == (low, high)
    assert isinstance(mismatch, RpcError)


@each_case(("stat", "name"), [(AuthStat.AUTH_TOOWEAK, "AUTH_TOOWEAK; it asks for more protection"), (99, "99")])
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


class Out(dict[int, None]):
    """Identifiers, among which another one may be looked for 20 times."""

    looks = 0

    def __contains__(self, xid: object) -> bool:
        self.looks += 1
        assert self.looks <= 20, "no free identifier is found"
        return super().__contains__(xid)


@each_case("first", [0, 1, 5, 0xFFFFFFFC, 0xFFFFFFFF, 1 << 32, (1 << 32) + 5])
def test_a_free_identifier_is_the_next_one_round_the_end(first: int) -> None:
    source = XidSource(first)
    source.taken = Out.fromkeys((first + step) % (1 << 32) for step in (1, 2, 4))
    assert [source.take() for _ in range(3)] == [(first + step) % (1 << 32) for step in (0, 3, 5)]
    source.taken.pop((first + 6) % (1 << 32), None)
    assert source.take() == (first + 6) % (1 << 32)


@each_case("length", range(10))
def test_a_credential_adds_its_body_with_padding(length: int) -> None:
    encoder = CallEncoder()
    encoder._auth = OpaqueAuth(77, bytes(length))
    plain = len(CallEncoder().encode(1, null_procedure(7, 1), None).reduced)
    assert encoder.credential_octets == len(encoder.encode(1, null_procedure(7, 1), None).reduced) - plain
    assert encoder.credential_octets == (0, 4, 4, 4, 4, 8, 8, 8, 8, 12)[length]


def outcome(read: Callable[[Decoder], object], data: bytes, start: int) -> object:
    """The position behind the read octets, or the error."""
    dec = Decoder(bytes(start) + data, start)
    try:
        read(dec)
    except (RpcError, DecodeError) as error:
        return type(error), str(error)
    return dec.pos


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("xid", [0, 1, 2])
def test_the_usual_header_of_a_reply_is_read_as_any_other(xid: int, start: int) -> None:
    procedure = null_procedure(7, 1)
    for header in itertools.product(range(3), repeat=6):
        data = struct.pack(">6I", *header)
        for length in (24, 23):
            found = outcome(lambda dec: decode_result(dec, xid, procedure), data[:length], start)
            assert found == outcome(lambda dec: decode_reply(dec, xid), data[:length], start)


def test_nothing_follows_a_result() -> None:
    data = struct.pack(">6I", 9, 1, 0, 0, 0, 0)
    procedure = null_procedure(7, 1)
    decode_result(Decoder(data), 9, procedure)
    with pytest.raises(DecodeError, match="4 more octets"):
        decode_result(Decoder(data + bytes(4)), 9, procedure)
