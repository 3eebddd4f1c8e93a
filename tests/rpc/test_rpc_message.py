"""Headers of calls and replies against the golden vectors, and each fault: its field, offset and values."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rpcrdma import errors
from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.rpc import message
from rpcrdma.rpc.auth import AuthStat, OpaqueAuth
from rpcrdma.rpc.message import AcceptStat, CallHeader, CallRefused
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case
from support.octets import words

VECTORS = tomllib.loads((Path(__file__).parents[1] / "vectors/rpc/headers.toml").read_text())
CALLS = VECTORS["call"]
REPLIES = VECTORS["reply"]
XID = 0x11223344

calls = each_case("vector", CALLS)
replies = each_case("vector", REPLIES)


def octets(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["hex"])


def header_of(vector: dict[str, Any]) -> CallHeader:
    credential = OpaqueAuth(vector["flavor"], bytes.fromhex(vector["body"]))
    return CallHeader(vector["xid"], vector["program"], vector["version"], vector["procedure"], credential)


def error_of(vector: dict[str, Any]) -> type[Exception]:
    error: type[Exception] = getattr(errors, vector["error"])
    return error


@pytest.mark.req("OR-1", "OR-2", "OR-3")
@calls
def test_a_call_header_is_encoded_as_in_the_vector(vector: dict[str, Any]) -> None:
    enc = Encoder()
    message.encode_call(enc, *header_of(vector))
    assert enc.reduced == octets(vector)


@pytest.mark.req("OR-1", "OR-2", "OR-3")
@calls
def test_a_call_header_is_decoded_up_to_its_arguments(vector: dict[str, Any]) -> None:
    data = octets(vector)
    for arguments in (b"", b"\0\0\0\1", b"ab"):
        dec = Decoder(data + arguments)
        assert message.decode_call(dec) == header_of(vector)
        assert dec.remaining == len(arguments)


def test_what_does_not_fit_a_call_header_is_the_callers_error() -> None:
    with pytest.raises(LocalProtocolError, match="401"):
        message.call_tail(1, 1, 1, OpaqueAuth(1, bytes(401)))
    with pytest.raises(LocalProtocolError, match="fit"):
        message.call_tail(1 << 32, 1, 1)
    with pytest.raises(LocalProtocolError, match="xid"):
        message.encode_call(Encoder(), -1, 1, 1, 1)


@pytest.mark.req("OR-6")
@replies
def test_a_reply_is_decoded_to_its_result_or_error_and_nothing_follows_an_error(vector: dict[str, Any]) -> None:
    data = octets(vector)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            message.decode_reply(Decoder(data, 0, end), XID)
    with pytest.raises(DecodeError, match="xid"):
        message.decode_reply(Decoder(data), XID + 1)
    if not vector["error"]:
        dec = Decoder(data + b"more")
        message.decode_reply(dec, XID)
        assert dec.remaining == 4
        return
    with pytest.raises(error_of(vector)) as caught:
        message.decode_reply(Decoder(data), XID)
    for field in ("low", "high", "stat"):
        assert getattr(caught.value, field, None) == vector.get(field)
    with pytest.raises(DecodeError, match="4 more octets") as too_long:
        message.decode_reply(Decoder(data + b"more"), XID)
    # The words of the refusal are reported all the same.
    refusal = too_long.value.__cause__
    assert isinstance(refusal, error_of(vector))
    assert str(refusal) in str(too_long.value)


def encoded(vector: dict[str, Any]) -> bytes:
    enc = Encoder()
    match vector["error"]:
        case "":
            enc.reduced += XID.to_bytes(4, "big") + message.SUCCESS_TAIL
        case "RpcVersionMismatch":
            message.encode_rpc_mismatch(enc, XID)
        case "AuthError":
            message.encode_auth_error(enc, XID, AuthStat(vector["stat"]))
        case _:
            low, high = vector.get("low", 0), vector.get("high", 0)
            message.encode_accepted(enc, XID, AcceptStat[vector["name"]], low=low, high=high)
    return bytes(enc.reduced)


@pytest.mark.req("OR-6")
@each_case("vector", [v for v in REPLIES if "received_only" not in v])
def test_a_reply_is_encoded_as_in_the_vector(vector: dict[str, Any]) -> None:
    assert encoded(vector) == octets(vector)


@each_case("stat", [*AuthStat, 256])
def test_every_auth_stat_travels_and_an_unknown_one_stays_a_number(stat: AuthStat | int) -> None:
    enc = Encoder()
    message.encode_auth_error(enc, XID, stat)  # type: ignore[arg-type]
    with pytest.raises(errors.AuthError, match=getattr(stat, "name", "256")) as caught:
        message.decode_reply(Decoder(enc.reduced), XID)
    assert caught.value.stat == stat


STARTS = each_case("start", [0, 5])
"""A message may stand behind a header of the transport: offsets count from its own start."""


def at(start: int, data: bytes) -> Decoder:
    return Decoder(b"\xff" * start + data + b"\xff" * 8, start, start + len(data))


def fault_of(decode: Callable[[], object]) -> object:
    """The fault that the decoder names, or the header that it decodes."""
    try:
        return decode()
    except DecodeError as error:
        return error.field, error.offset, error.need, error.have


@STARTS
@each_case("more", [0, 7])
@each_case(
    ("header", "fault"),
    [
        ((XID, 1, 2), ("msg_type", 4, "CALL", "1")),
        ((XID, 2, 2), ("msg_type", 4, "CALL", "2")),
        ((XID, 1, 3), ("msg_type", 4, "CALL", "1")),
        ((XID, 0, 1), ("rpcvers", 8, "2", "1")),
        ((XID, 0, 3), ("rpcvers", 8, "2", "3")),
        ((XID, 0, 2, 7, 1, 1, 1, 401), ("credential", 28, "at most 400", "401")),
        ((XID, 0, 2, 7, 1, 1, 0, 0, 1, 401), ("verifier", 36, "at most 400", "401")),
        ((XID, 0, 2, 7, 1, 1, 1, 4, 9, 0, 1 << 31), ("verifier", 40, "at most 400", "2147483648")),
    ],
)
def test_a_fault_in_a_call_is_told_with_its_place(
    header: tuple[int, ...], fault: tuple[str, int, str, str], more: int, start: int
) -> None:
    octets = words(*header, *[0] * more)
    assert fault_of(lambda: message.decode_call(at(start, octets))) == fault


@STARTS
@each_case(
    ("header", "fault"),
    [
        ((XID + 1, 1, 0, 0, 0, 0), ("xid", 0, "0x11223344", "0x11223345")),
        ((XID, 0, 0, 0, 0, 0), ("msg_type", 4, "REPLY", "0")),
        ((XID, 2, 0, 0, 0, 0), ("msg_type", 4, "REPLY", "2")),
        ((XID, 1, 2, 0, 0, 0), ("reply_stat", 8, "MSG_ACCEPTED or MSG_DENIED", "2")),
        ((XID, 1, 0, 0, 401, 0), ("verifier", 16, "at most 400", "401")),
        ((XID, 1, 0, 0, 0, 6), ("accept_stat", 20, "0 to 5", "6")),
        ((XID, 1, 0, 1, 4, 0, 6), ("accept_stat", 24, "0 to 5", "6")),
        ((XID, 1, 1, 2), ("reject_stat", 12, "RPC_MISMATCH or AUTH_ERROR", "2")),
        ((XID, 1, 1, 2, 0, 0), ("reject_stat", 12, "RPC_MISMATCH or AUTH_ERROR", "2")),
    ],
)
def test_a_fault_in_a_reply_is_told_with_its_place(
    header: tuple[int, ...], fault: tuple[str, int, str, str], start: int
) -> None:
    assert fault_of(lambda: message.decode_reply(at(start, words(*header)), XID)) == fault


@pytest.mark.req("OR-2", "OR-3")
@STARTS
def test_bodies_of_all_lengths_travel_in_calls(start: int) -> None:
    for length in (0, 1, 2, 3, 4, 5, 7, 8, 396, 397, 399, 400):
        for in_verifier in (False, True):
            auth = OpaqueAuth(3, b"\xee" * length)
            none = OpaqueAuth(0, b"")
            header = CallHeader(XID, 1 << 31, 2, 3, *((none, auth) if in_verifier else (auth, none)))
            enc = Encoder()
            message.encode_call(enc, *header)
            assert len(enc.reduced) == 40 + (length + 3) // 4 * 4
            for arguments in (b"", b"\0" * 3, b"\xff" * 9):
                dec = at(start, bytes(enc.reduced) + arguments)
                assert message.decode_call(dec) == header
                assert dec.remaining == len(arguments)
            for end in range(len(enc.reduced)):
                with pytest.raises(DecodeError) as caught:
                    message.decode_call(at(start, bytes(enc.reduced[:end])))
                assert not isinstance(caught.value, CallRefused)


def test_the_first_words_tell_the_xid_and_the_direction() -> None:
    class Begun(bytes):
        """A message of which `size` octets count, in memory that goes on with more."""

        size = 0

        def __len__(self) -> int:
            return self.size

    for kind in (0, 1, 2):
        octets = Begun(words(XID, kind, 0xFFFFFFFF))
        for octets.size in range(12):
            assert message.peek_xid(octets) == (XID if octets.size >= 4 else None)
            assert message.peek_is_call(octets) is (kind == 0 and octets.size >= 8)
        assert message.peek_xid(words(XID, kind)[:3]) is None
