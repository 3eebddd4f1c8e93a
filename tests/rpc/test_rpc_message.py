"""Headers of calls and replies against the golden vectors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.rpc import errors, message
from rpcrdma.rpc.auth import AuthStat, OpaqueAuth
from rpcrdma.rpc.message import AcceptStat, CallHeader, CallRefused
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case

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


@calls
def test_a_call_header_inside_a_larger_buffer_is_decoded(vector: dict[str, Any]) -> None:
    data = octets(vector)
    dec = Decoder(b"before" + data + b"after", 6, 6 + len(data))
    assert message.decode_call(dec) == header_of(vector)
    assert dec.remaining == 0


@calls
def test_a_call_header_cut_short_anywhere_is_an_error(vector: dict[str, Any]) -> None:
    data = octets(vector)
    for end in range(len(data)):
        with pytest.raises(DecodeError) as caught:
            message.decode_call(Decoder(data, 0, end))
        assert not isinstance(caught.value, CallRefused)


def test_a_call_header_with_verifier_and_unknown_flavors_is_decoded() -> None:
    header = CallHeader(1, 2, 3, 4, OpaqueAuth(77, b"abcde"), OpaqueAuth(78, b"x" * 400))
    enc = Encoder()
    message.encode_call(enc, *header)
    assert message.decode_call(Decoder(enc.reduced)) == header


def test_a_reply_is_no_call() -> None:
    with pytest.raises(DecodeError, match="msg_type"):
        message.decode_call(Decoder(octets(REPLIES[0]) + bytes(40)))


@pytest.mark.req("OR-1")
@pytest.mark.parametrize("version", [0, 1, 3, 0xFFFFFFFF])
@pytest.mark.parametrize("size", [12, 40, 44])
def test_another_rpc_version_is_refused_however_the_call_goes_on(version: int, size: int) -> None:
    data = bytearray(octets(CALLS[0]) + bytes(4))[:size]
    data[8:12] = version.to_bytes(4, "big")
    with pytest.raises(CallRefused) as caught:
        message.decode_call(Decoder(data))
    with pytest.raises(errors.RpcVersionMismatch) as answered:
        message.decode_reply(Decoder(caught.value.reply), XID)
    assert (answered.value.low, answered.value.high) == (2, 2)


@each_case(("at", "stat"), [(28, AuthStat.AUTH_BADCRED), (36, AuthStat.AUTH_BADVERF)])
@each_case("length", [401, 0x80000000, 0xFFFFFFFF])
def test_authentication_over_400_octets_is_refused(at: int, stat: AuthStat, length: int) -> None:
    data = bytearray(octets(CALLS[0]) + bytes(500))
    data[at : at + 4] = length.to_bytes(4, "big")
    with pytest.raises(CallRefused) as caught:
        message.decode_call(Decoder(data))
    with pytest.raises(errors.AuthError) as answered:
        message.decode_reply(Decoder(caught.value.reply), XID)
    assert answered.value.stat is stat


def test_what_does_not_fit_a_call_header_is_the_callers_error() -> None:
    with pytest.raises(LocalProtocolError, match="401"):
        message.call_tail(1, 1, 1, OpaqueAuth(1, bytes(401)))
    with pytest.raises(LocalProtocolError, match="fit"):
        message.call_tail(1 << 32, 1, 1)
    with pytest.raises(LocalProtocolError, match="xid"):
        message.encode_call(Encoder(), -1, 1, 1, 1)


@pytest.mark.req("OR-6")
@replies
def test_a_reply_is_decoded_to_its_result_or_error(vector: dict[str, Any]) -> None:
    dec = Decoder(octets(vector))
    if not vector["error"]:
        message.decode_reply(dec, XID)
        assert dec.remaining == 0
        return
    with pytest.raises(error_of(vector)) as caught:
        message.decode_reply(dec, XID)
    for field in ("low", "high", "stat"):
        assert getattr(caught.value, field, None) == vector.get(field)


@replies
def test_a_reply_cut_short_anywhere_is_an_error(vector: dict[str, Any]) -> None:
    data = octets(vector)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            message.decode_reply(Decoder(data, 0, end), XID)


@replies
def test_nothing_may_follow_an_error(vector: dict[str, Any]) -> None:
    dec = Decoder(octets(vector) + b"more")
    if not vector["error"]:
        message.decode_reply(dec, XID)
        assert dec.remaining == 4
        return
    with pytest.raises(DecodeError, match="4 more octets") as caught:
        message.decode_reply(dec, XID)
    # The words of the refusal are reported all the same.
    refusal = caught.value.__cause__
    assert isinstance(refusal, error_of(vector))
    assert str(refusal) in str(caught.value)


@pytest.mark.req("OR-6")
@replies
def test_a_reply_to_another_call_is_an_error(vector: dict[str, Any]) -> None:
    with pytest.raises(DecodeError, match="xid"):
        message.decode_reply(Decoder(octets(vector)), XID + 1)


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


@each_case("stat", list(AuthStat))
def test_every_auth_stat_travels(stat: AuthStat) -> None:
    enc = Encoder()
    message.encode_auth_error(enc, XID, stat)
    with pytest.raises(errors.AuthError, match=stat.name) as caught:
        message.decode_reply(Decoder(enc.reduced), XID)
    assert caught.value.stat is stat


def test_an_unknown_auth_stat_stays_a_number() -> None:
    data = octets(REPLIES[-1])[:-4] + b"\0\0\1\0"
    with pytest.raises(errors.AuthError, match="256") as caught:
        message.decode_reply(Decoder(data), XID)
    assert caught.value.stat == 256


@each_case(
    ("at", "value", "field"),
    [(4, 0, "msg_type"), (4, 2, "msg_type"), (8, 2, "reply_stat"), (16, 401, "verifier"), (20, 6, "accept_stat")],
)
def test_a_reply_with_an_impossible_word_is_an_error(at: int, value: int, field: str) -> None:
    data = bytearray(octets(REPLIES[0]))
    data[at : at + 4] = value.to_bytes(4, "big")
    with pytest.raises(DecodeError, match=field):
        message.decode_reply(Decoder(data), XID)


def test_an_unknown_reject_stat_is_an_error() -> None:
    with pytest.raises(DecodeError, match="reject_stat"):
        message.decode_reply(Decoder(bytes.fromhex("11223344 00000001 00000001 00000002")), XID)


def test_the_xid_of_a_message_can_be_seen_before_the_rest() -> None:
    assert message.peek_xid(octets(REPLIES[0])) == XID
    assert message.peek_xid(bytearray(b"\xff\xff\xff\xff")) == 0xFFFFFFFF
    assert message.peek_xid(b"\0\0\0") is None


@each_case("rest", [b"", b"\0" * 40])
def test_the_direction_is_in_the_second_word(rest: bytes) -> None:
    assert message.peek_is_call(bytes.fromhex("00000001 00000000") + rest)
    for other in ("00000000 00000001", "00000000 00000002", "00000000 00000100"):
        assert not message.peek_is_call(bytes.fromhex(other) + rest)
    assert not message.peek_is_call(bytes(7))
