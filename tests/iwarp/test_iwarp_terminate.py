"""Terminate messages: both ways, in words, and in the form that Linux siw sends."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rpcrdma.errors import DecodeError, RemoteAccessError
from rpcrdma.iwarp.segments import READ_HEADER_OCTETS, ReadHeader, decode_read_header, encode_read_header
from rpcrdma.iwarp.terminate import (
    Code,
    PeerTerminated,
    TerminateFault,
    TerminateMessage,
    decode_terminate,
    encode_terminate,
    read_source_code,
    tagged_code,
)
from support.cases import each_case

VECTORS = {
    vector["name"]: bytes.fromhex(vector["hex"])
    for vector in tomllib.loads((Path(__file__).parents[1] / "vectors/iwarp/frames.toml").read_text())["fpdu"]
}
REQUEST = VECTORS["RDMA Read Request of 4096 octets"]
BARE = VECTORS["Terminate, unexpected opcode, no headers"][20:-4]
FULL = VECTORS["Terminate, bounds violation by that RDMA Read Request"][20:-4]
TAGGED = bytes.fromhex("c140 deadbeef 1122334455667788")

MESSAGES = [
    (BARE, TerminateMessage(code=Code.OPERATION_OPCODE)),
    (
        FULL,
        TerminateMessage(
            code=Code.PROTECTION_BOUNDS, segment_octets=46, ddp_header=REQUEST[2:20], read_header=REQUEST[20:48]
        ),
    ),
    (
        bytes.fromhex("1101c000 0012") + TAGGED,
        TerminateMessage(code=Code.TAGGED_BOUNDS, segment_octets=18, ddp_header=TAGGED),
    ),
    (bytes.fromhex("12058000 0400"), TerminateMessage(code=Code.UNTAGGED_TOO_LONG, segment_octets=1024)),
]


@pytest.mark.req("RD-4")
@pytest.mark.parametrize(("octets", "message"), MESSAGES)
def test_messages_encode_what_their_bits_announce(octets: bytes, message: TerminateMessage) -> None:
    assert encode_terminate(message) == octets


@pytest.mark.req("RD-4")
@pytest.mark.parametrize(("octets", "message"), MESSAGES)
def test_messages_decode_by_their_bits_and_ignore_the_rest(octets: bytes, message: TerminateMessage) -> None:
    assert decode_terminate(octets) == message
    assert decode_terminate(memoryview(octets + b"trailing")) == message


@pytest.mark.parametrize(("octets", "message"), MESSAGES)
def test_truncated_messages_do_not_decode(octets: bytes, message: TerminateMessage) -> None:
    for length in range(len(octets)):
        with pytest.raises(DecodeError):
            decode_terminate(octets[:length])


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        # Nibbles and bits as siw writes them: layer 1, type 2, code 3, M and D.
        (
            bytes.fromhex("21030300 002e") + REQUEST[2:20],
            TerminateMessage(code=Code.UNTAGGED_MSN, segment_octets=46, ddp_header=REQUEST[2:20]),
        ),
        (
            bytes.fromhex("10010700 002e") + REQUEST[2:48],
            TerminateMessage(
                code=Code.PROTECTION_BOUNDS, segment_octets=46, ddp_header=REQUEST[2:20], read_header=REQUEST[20:48]
            ),
        ),
        (bytes.fromhex("02020000"), TerminateMessage(code=Code.MPA_CRC)),
    ],
)
def test_the_swapped_form_of_siw_is_understood(octets: bytes, message: TerminateMessage) -> None:
    assert decode_terminate(octets) == message


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        # Neither form gives headers for these, and both have a meaning for the code.
        (
            "02060000",
            "unexpected opcode (0/2/06); if it is Linux siw, this means: insufficient resources for RDMA Reads",
        ),
        ("02070000", "catastrophic error of the stream (0/2/07); if it is Linux siw, this means: no matching ready"),
        # Here one of them alone makes sense.
        ("20060000", "insufficient resources for RDMA Reads (2/0/06)"),
        ("02030000", "marker and ULPDU length do not match (2/0/03)"),
        ("0206c000 0012" + REQUEST[2:20].hex(), "unexpected opcode (0/2/06)"),
        ("20060300 0012" + REQUEST[2:20].hex(), "unexpected opcode (0/2/06)"),
    ],
)
def test_what_may_mean_two_things_is_told_in_both_words(octets: str, said: str) -> None:
    told = str(PeerTerminated(decode_terminate(bytes.fromhex(octets))))
    assert told.startswith(f"the peer terminated: {said}")
    assert ("siw" in told) is ("siw" in said)


def test_words_name_the_error_and_its_numbers() -> None:
    assert TerminateMessage(code=Code.MPA_CRC).words == "CRC mismatch (2/0/02)"
    assert TerminateMessage(code=0x3A7B).words == "unknown error (3/10/7b)"


@pytest.mark.in_python
def test_every_code_has_words() -> None:
    assert not [code for code in Code if TerminateMessage(code=code).words.startswith("unknown")]


@pytest.mark.req("RD-4")
@each_case(
    ("code", "segment", "read"),
    [
        (Code.LOCAL_CATASTROPHIC, False, False),
        (Code.PROTECTION_STAG, True, True),
        (Code.OPERATION_OPCODE, True, False),
        (Code.TAGGED_STAG, True, False),
        (Code.UNTAGGED_MSN, True, False),
        (Code.MPA_CRC, False, False),
    ],
)
def test_each_kind_of_error_tells_its_headers(code: Code, segment: bool, read: bool) -> None:
    fault = TerminateFault("", code, segment_octets=46, ddp_header=REQUEST[2:20], read_header=REQUEST[20:48])
    message = fault.terminate()
    assert message.segment_octets == (46 if segment else None)
    assert message.ddp_header == (REQUEST[2:20] if segment else b"")
    assert message.read_header == (REQUEST[20:48] if read else b"")


@pytest.mark.req("RD-3")
def test_read_request_headers_are_the_golden_octets() -> None:
    header = ReadHeader(0x11111111, 0x1000, 4096, 0x22222222, 0x2000)
    assert encode_read_header(header) == REQUEST[20:48]
    assert decode_read_header(REQUEST, 20) == header
    for length in range(READ_HEADER_OCTETS):
        with pytest.raises(DecodeError):
            decode_read_header(REQUEST[20:48][:length])
        with pytest.raises(DecodeError):
            decode_read_header(REQUEST[: 20 + length], 20)


@each_case("reason", ["invalid handle", "access rights", "wrap", "bounds"])
def test_every_refusal_of_memory_has_a_number(reason: str) -> None:
    error = RemoteAccessError(reason, 1)
    assert read_source_code(error) >> 8 == 0x01
    assert tagged_code(error) >> 8 == 0x11
