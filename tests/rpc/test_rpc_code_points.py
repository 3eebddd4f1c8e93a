"""Numbers of RFC 5531 and RFC 2203, and the sizes that follow from them."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from rpcrdma.rpc import errors
from rpcrdma.rpc.auth import AUTH_BODY_MAX, AuthFlavor, AuthStat, AuthSys
from rpcrdma.rpc.calling import CallEncoder
from rpcrdma.rpc.message import (
    CALL_HEADER_OCTETS,
    REPLY_HEADER_OCTETS,
    RPC_VERSION,
    AcceptStat,
    MessageType,
    RejectStat,
    ReplyStat,
    encode_accepted,
)
from rpcrdma.rpc.service import Service, inline_or_worker
from rpcrdma.xdr.codec import Encoder
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


@each_case("table", NAMES)
def test_names_have_the_numbers_of_the_specification(table: type[enum.IntEnum]) -> None:
    numbers = {name: number for number, name in enumerate(NAMES[table].split()) if name != "-"}
    assert {member.name: member.value for member in table} == numbers


def test_sizes_of_headers_are_their_words() -> None:
    assert (RPC_VERSION, AUTH_BODY_MAX) == (2, 400)
    assert (CALL_HEADER_OCTETS, REPLY_HEADER_OCTETS) == (10 * 4, 6 * 4)


@each_case("machine", ["", "a", "ab", "abc", "abcd", "abcde"])
def test_a_credential_adds_its_padded_body_to_a_call(machine: str) -> None:
    gids = tuple(range(len(machine)))
    words = 5 + (len(machine) + 3) // 4 + len(gids)
    assert CallEncoder(AuthSys(machine=machine, uid=1, gid=2, gids=gids)).credential_octets == 4 * words
    assert CallEncoder().credential_octets == 0


def test_versions_that_are_not_stated_are_none() -> None:
    enc = Encoder()
    encode_accepted(enc, 1, AcceptStat.PROG_MISMATCH)
    assert bytes(enc.reduced[-8:]) == bytes(8)


def test_a_service_is_offered_over_rdma_and_no_procedure_of_it_is_idempotent_unless_it_says_so() -> None:
    assert Service.OVER_RDMA is True
    assert not Service.IDEMPOTENT


def test_only_a_generator_function_can_go_on_in_a_worker() -> None:
    def handler(args: int) -> int:
        return args

    with pytest.raises(TypeError, match="mark it with in_worker instead"):
        inline_or_worker(handler)  # type: ignore[arg-type]


@each_case(
    ("error", "details", "words"),
    [
        (errors.ProgramUnavailable, (), "does not offer the program"),
        (errors.ProgramMismatch, (2, 2), "offers version 2 of the program"),
        (errors.ProgramMismatch, (2, 3), "offers versions 2 to 3 of the program"),
        (errors.NoSuchProcedure, (), "does not offer the procedure"),
        (errors.GarbageArguments, (": why",), "could not decode the arguments: why"),
        (errors.RemoteSystemError, (), "failed to carry out the call (SYSTEM_ERR)"),
        (errors.RpcVersionMismatch, (1, 3), "speaks RPC versions 1 to 3"),
        (errors.AuthError, (AuthStat.AUTH_TOOWEAK,), "refused the credential: AUTH_TOOWEAK"),
        (errors.AuthError, (77,), "refused the credential: 77"),
    ],
)
def test_a_refusal_says_which_one_it_is(error: type[Exception], details: tuple[Any, ...], words: str) -> None:
    assert words in str(error(*details))


@each_case("error", [errors.ProgramMismatch, errors.RpcVersionMismatch])
def test_a_mismatch_has_the_versions_as_numbers(
    error: type[errors.ProgramMismatch | errors.RpcVersionMismatch],
) -> None:
    mismatch = error(2, 5)
    assert (mismatch.low, mismatch.high) == (2, 5)
