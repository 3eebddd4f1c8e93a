"""The structures of RPCSEC_GSS, octet for octet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.limits import GSS_TOKEN_OCTETS_MAX
from rpcrdma.rpc.gss.messages import (
    HANDLE_OCTETS_MAX,
    GssCredential,
    InitResult,
    decode_gss_credential,
    decode_init_result,
    decode_token,
    encode_gss_credential,
    encode_init_result,
    encode_token,
)
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case

CREDENTIAL = bytes.fromhex("00000001 00000000 00000007 00000003 00000005 68616e646c000000")
RESULT = bytes.fromhex("00000002 6869 0000 00000000 00000000 00000080 00000003 746f6b00")


def encoded(encode: Callable[[Encoder, Any], None], value: Any) -> bytes:
    enc = Encoder()
    encode(enc, value)
    return bytes(enc.reduced)


def whole(decode: Callable[[Decoder], Any], octets: bytes) -> Any:
    dec = Decoder(octets)
    value = decode(dec)
    dec.done("the structure")
    return value


def test_the_layouts_are_those_of_the_rfc() -> None:
    credential = GssCredential(1, 0, 7, 3, b"handl")
    assert encoded(encode_gss_credential, credential) == CREDENTIAL
    assert decode_gss_credential(CREDENTIAL) == credential
    result = InitResult(b"hi", 0, 0, 128, b"tok")
    assert encoded(encode_init_result, result) == RESULT
    assert whole(decode_init_result, RESULT) == result
    assert encoded(encode_token, b"tok") == RESULT[-8:]
    assert whole(decode_token, RESULT[-8:]) == b"tok"


@each_case(
    ("decode", "octets"),
    [
        (decode_gss_credential, CREDENTIAL),
        (lambda data: whole(decode_init_result, data), RESULT),
        (lambda data: whole(decode_token, data), RESULT[-8:]),
    ],
)
def test_a_structure_that_is_cut_short_anywhere_or_goes_on_is_an_error(
    decode: Callable[[bytes], Any], octets: bytes
) -> None:
    for end in range(len(octets)):
        with pytest.raises(DecodeError):
            decode(octets[:end])
    with pytest.raises(DecodeError):
        decode(octets + bytes(4))


def test_the_bounds_can_be_reached_and_not_exceeded() -> None:
    longest = GssCredential(1, 0, 1, 1, bytes(HANDLE_OCTETS_MAX))
    body = encoded(encode_gss_credential, longest)
    assert len(body) == 400
    assert decode_gss_credential(body) == longest
    with pytest.raises(LocalProtocolError, match="handle"):
        encoded(encode_gss_credential, longest._replace(handle=bytes(HANDLE_OCTETS_MAX + 1)))
    with pytest.raises(DecodeError, match="handle"):
        decode_gss_credential(bytes(16) + (HANDLE_OCTETS_MAX + 1).to_bytes(4, "big") + bytes(HANDLE_OCTETS_MAX + 4))
    token = bytes(GSS_TOKEN_OCTETS_MAX)
    assert whole(decode_token, encoded(encode_token, token)) == token
    with pytest.raises(DecodeError, match="gss_token"):
        decode_token(Decoder((len(token) + 1).to_bytes(4, "big") + token + bytes(4)))
