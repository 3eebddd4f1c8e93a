"""Numbers of RFC 5531 and RFC 2203, the messages of errors that callers meet, and what a call has by default."""

from __future__ import annotations

import enum
import itertools
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma import errors
from rpcrdma.errors import DecodeError, LocalProtocolError, RpcError
from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AUTH_BODY_MAX, AuthFlavor, AuthStat
from rpcrdma.rpc.calling import CallEncoder, XidSource, decode_result
from rpcrdma.rpc.message import (
    CALL_HEADER_OCTETS,
    REPLY_HEADER_OCTETS,
    RPC_VERSION,
    AcceptStat,
    MessageType,
    RejectStat,
    ReplyStat,
    decode_reply,
)
from rpcrdma.rpc.program import null_procedure
from rpcrdma.rpc.service import inline_or_worker
from rpcrdma.xdr.codec import Decoder
from support.cases import each_case

NAMES: dict[type[enum.IntEnum], str] = {
    MessageType: "CALL REPLY",
    ReplyStat: "MSG_ACCEPTED MSG_DENIED",
    AcceptStat: "SUCCESS PROG_UNAVAIL PROG_MISMATCH PROC_UNAVAIL GARBAGE_ARGS SYSTEM_ERR",
    RejectStat: "RPC_MISMATCH AUTH_ERROR",
    AuthFlavor: "AUTH_NONE AUTH_SYS AUTH_SHORT AUTH_DH - - RPCSEC_GSS AUTH_TLS",
    AuthStat: "AUTH_OK AUTH_BADCRED AUTH_REJECTEDCRED AUTH_BADVERF AUTH_REJECTEDVERF AUTH_TOOWEAK AUTH_INVALIDRESP "
    "AUTH_FAILED AUTH_KERB_GENERIC AUTH_TIMEEXPIRE AUTH_TKT_FILE AUTH_DECODE AUTH_NET_ADDR RPCSEC_GSS_CREDPROBLEM "
    "RPCSEC_GSS_CTXPROBLEM",
}


def test_names_and_sizes_have_the_numbers_of_the_specification() -> None:
    for table, names in NAMES.items():
        numbers = {name: number for number, name in enumerate(names.split()) if name != "-"}
        assert {member.name: member.value for member in table} == numbers
    assert (RPC_VERSION, AUTH_BODY_MAX) == (2, 400)
    assert (CALL_HEADER_OCTETS, REPLY_HEADER_OCTETS) == (10 * 4, 6 * 4)


def test_arguments_of_a_wrong_type_are_told_with_the_procedure_and_its_type() -> None:
    with pytest.raises(
        LocalProtocolError, match=r"^NFSPROC3_GETATTR: 'str' .* no attribute .*; it takes GETATTR3args, not str$"
    ):
        CallEncoder().encode(1, v3.GETATTR, "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^NFSPROC3_GETATTR: .*no octets"):
        CallEncoder().encode(1, v3.GETATTR, v3.GETATTR3args(v3.nfs_fh3(5)))  # type: ignore[arg-type]


def test_only_a_generator_function_can_go_on_in_a_worker() -> None:
    def handler(args: int) -> int:
        return args

    with pytest.raises(TypeError, match="mark it with in_worker instead"):
        inline_or_worker(handler)  # type: ignore[arg-type]


@each_case(
    ("error", "details", "words"),
    [
        (errors.ProgramUnavailable, (), "does not offer the program"),
        (errors.ProgramMismatch, (2, 2), "the responder offers version 2 of the program"),
        (errors.ProgramMismatch, (2, 3), "the responder offers versions 2 to 3 of the program"),
        (errors.NoSuchProcedure, (), "does not offer the procedure"),
        (errors.GarbageArguments, (": why",), "could not decode the arguments: why"),
        (errors.RemoteSystemError, (), "failed at the call, which may have taken effect (SYSTEM_ERR)"),
        (errors.RpcVersionMismatch, (1, 3), "speaks RPC versions 1 to 3"),
        (errors.AuthError, (AuthStat.AUTH_TOOWEAK,), "credential: AUTH_TOOWEAK; it asks for more protection"),
        (errors.AuthError, (77,), "the responder refused the credential: 77"),
    ],
)
def test_a_refusal_says_which_one_it_is(error: type[Exception], details: tuple[Any, ...], words: str) -> None:
    made = error(*details)
    assert words in str(made)
    assert isinstance(made, RpcError)
    if len(details) == 2:
        assert (made.low, made.high) == details  # type: ignore[attr-defined]
    if error is errors.AuthError:
        assert made.stat is details[0]  # type: ignore[attr-defined]


class Out(dict[int, None]):
    """Identifiers that are out, among which the next free one is found soon."""

    looks = 0

    def __contains__(self, xid: object) -> bool:
        self.looks += 1
        assert self.looks <= 50_000, "no free identifier is found"
        return super().__contains__(xid)


@each_case("xid", [-1, 1 << 32, "7"])
def test_an_identifier_that_does_not_fit_is_told(xid: Any) -> None:
    with pytest.raises(LocalProtocolError, match=r"xid: .* is not an unsigned 32-bit integer"):
        CallEncoder().encode(xid, null_procedure(9, 1), None)


@each_case("first", [0, 1, 5, 0x7FFFFFFF, 0xFFFFFFF0, 0xFFFFFFFE, 0xFFFFFFFF, 0x1_0000_0003, -2])
def test_each_identifier_is_the_next_that_is_free(first: int) -> None:
    draw = random.Random(first)
    xids = XidSource(first)
    xids.taken = Out()
    out: list[int] = []
    following = first % (1 << 32)
    for _ in range(200):
        while following in out:
            following = (following + 1) % (1 << 32)
        assert xids.take() == following
        out.append(following)
        following = (following + 1) % (1 << 32)
        if draw.random() < 0.4:
            back = out.pop(draw.randrange(len(out)))
            xids.taken.pop(back, None)
            xids.taken.pop(back, None)
        if draw.random() < 0.2 and out:
            # After a round through all numbers the source comes to calls that are still out.
            xids._next = following = out[0]


def outcome(read: Callable[[Decoder], object], data: bytes, start: int) -> object:
    """The position behind the read octets, or the error."""
    dec = Decoder(bytes(start) + data, start)
    try:
        read(dec)
    except (RpcError, DecodeError) as error:
        return type(error), str(error)
    return dec.pos


@pytest.mark.req("OR-6")
@each_case("start", [0, 5])
@each_case("xid", [0, 1, 2])
def test_the_usual_header_of_a_reply_is_read_as_any_other(xid: int, start: int) -> None:
    procedure = null_procedure(7, 1)
    for header in itertools.product(range(3), repeat=6):
        data = struct.pack(">6I", *header)
        for length in (24, 23):
            found = outcome(lambda dec: decode_result(dec, xid, procedure), data[:length], start)
            assert found == outcome(lambda dec: decode_reply(dec, xid), data[:length], start)
