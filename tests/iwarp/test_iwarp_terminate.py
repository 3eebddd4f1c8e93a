"""Terminate both ways: every combination of flags, every code in the order of nibbles that siw uses, and the words."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from rpcrdma.errors import DecodeError, RemoteAccessError
from rpcrdma.iwarp import terminate
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

pytestmark = pytest.mark.in_python

VECTORS = {
    vector["name"]: bytes.fromhex(vector["hex"])
    for vector in tomllib.loads((Path(__file__).parents[1] / "vectors/iwarp/frames.toml").read_text())["fpdu"]
}
REQUEST = VECTORS["RDMA Read Request of 4096 octets"]
UNTAGGED_HEADER = bytes.fromhex("4141 00000000 00000001 00000001 00000000")
TAGGED_HEADER = bytes.fromhex("c140 deadbeef 1122334455667788")
READ_HEADER = bytes(range(28))
LENGTH = bytes.fromhex("002e")


def fields(flags: int) -> tuple[bool, bool, bool]:
    """Length, DDP header and RDMAP header, as the flags of RFC 5040 announce them."""
    return bool(flags & 0xC0), bool(flags & 0x40), bool(flags & 0x20)


def siw_fields(flags: int) -> tuple[bool, bool, bool]:
    """The same where the flags stand at the other end of the octet."""
    return bool(flags & 0x03), bool(flags & 0x02), bool(flags & 0x04)


def body(announced: tuple[bool, bool, bool], header: bytes = UNTAGGED_HEADER) -> bytes:
    length, ddp, rdmap = announced
    return LENGTH * length + header * ddp + READ_HEADER * rdmap


def message(code: int, announced: tuple[bool, bool, bool], header: bytes = UNTAGGED_HEADER) -> TerminateMessage:
    length, ddp, rdmap = announced
    return TerminateMessage(
        code=code, segment_octets=46 if length else None, ddp_header=header * ddp, read_header=READ_HEADER * rdmap
    )


@pytest.mark.req("RD-4")
@each_case(
    ("name", "told"),
    [
        ("Terminate, unexpected opcode, no headers", TerminateMessage(code=Code.OPERATION_OPCODE)),
        (
            "Terminate, bounds violation by that RDMA Read Request",
            TerminateMessage(
                code=Code.PROTECTION_BOUNDS, segment_octets=46, ddp_header=REQUEST[2:20], read_header=REQUEST[20:48]
            ),
        ),
    ],
)
def test_messages_are_the_golden_octets(name: str, told: TerminateMessage) -> None:
    octets = VECTORS[name][20:-4]
    assert encode_terminate(told) == octets
    assert decode_terminate(memoryview(octets)) == told


@pytest.mark.req("RD-4")
@each_case("header", [UNTAGGED_HEADER, TAGGED_HEADER])
def test_a_header_without_the_segments_length_has_a_length_before_it(header: bytes) -> None:
    octets = encode_terminate(TerminateMessage(code=0x1202, ddp_header=header, read_header=READ_HEADER))
    assert octets == bytes([0x12, 0x02, 0x60, 0, 0, 0]) + header + READ_HEADER
    assert decode_terminate(octets) == replace(message(0x1202, (True, True, True), header), segment_octets=0)


@pytest.mark.req("RD-3")
def test_read_request_headers_are_the_golden_octets() -> None:
    header = ReadHeader(0x11111111, 0x1000, 4096, 0x22222222, 0x2000)
    assert encode_read_header(header) == REQUEST[20:48]
    assert decode_read_header(REQUEST[20:]) == header
    for length in range(READ_HEADER_OCTETS):
        with pytest.raises(DecodeError):
            decode_read_header(REQUEST[20:48][:length])


@pytest.mark.req("RD-4")
@each_case("header", [UNTAGGED_HEADER, TAGGED_HEADER])
@each_case("flags", [*range(0, 256, 32), 0x3F, 0x41, 0x82, 0xE4, 0xE7, 0xFF, 0xD0])
def test_a_message_has_the_fields_that_its_flags_announce(flags: int, header: bytes) -> None:
    announced = fields(flags)
    told = body(announced, header)
    octets = bytes([0x12, 0x02, flags, 0]) + told
    assert decode_terminate(octets) == message(0x1202, announced, header)
    assert decode_terminate(octets + b"trailing") == message(0x1202, announced, header)
    for end in range(4, len(octets)):
        with pytest.raises(DecodeError):
            decode_terminate(octets[:end])


def test_flags_at_the_other_end_are_those_of_siw() -> None:
    for header, flags in itertools.product((UNTAGGED_HEADER, TAGGED_HEADER), range(1, 32)):
        announced = siw_fields(flags)
        octets = bytes([0x21, 0x02, flags, 0]) + body(announced, header)
        assert decode_terminate(octets) == message(0x1202, announced, header)
        # The nibbles are swapped even if that gives no known code.
        octets = bytes([0x12, 0x02, flags, 0]) + body(announced, header)
        assert decode_terminate(octets) == message(0x2102, announced, header)


def test_codes_that_arrive_are_these() -> None:
    as_told = (0x1202, 0x0101, 0x0205, 0x2001, 0x2005, 0x1000, 0x0100, 0x3400, 0x2199)
    swapped = {0x2102: 0x1202, 0x1001: 0x0101, 0x0201: 0x2001, 0x20FF: 0x02FF}
    for arrived, code in {**dict(zip(as_told, as_told, strict=True)), **swapped}.items():
        assert decode_terminate(arrived.to_bytes(2) + bytes(2)).code == code


@pytest.mark.req("RD-4")
@each_case("code", Code)
def test_a_fault_quotes_headers_by_its_layer_and_type(code: Code) -> None:
    fault = TerminateFault("words", code, segment_octets=46, ddp_header=UNTAGGED_HEADER, read_header=READ_HEADER)
    assert (str(fault), fault.code) == ("words", code)
    assert (fault.segment_octets, fault.ddp_header, fault.read_header) == (46, UNTAGGED_HEADER, READ_HEADER)
    kind = f"{code:04x}"[:2]
    quoted = {"00": (False, False, False), "20": (False, False, False), "01": (True, True, True)}
    assert fault.terminate() == message(code, quoted.get(kind, (True, True, False)))
    assert TerminateFault("words", code).terminate() == TerminateMessage(code=code)


@each_case(
    ("reason", "reading", "writing"),
    [
        ("invalid handle", 0x0100, 0x1100),
        ("access rights", 0x0102, 0x1100),
        ("wrap", 0x0104, 0x1103),
        ("bounds", 0x0101, 0x1101),
    ],
)
def test_each_refusal_of_memory_has_its_codes(reason: str, reading: int, writing: int) -> None:
    assert len(terminate._READ_SOURCE) == len(terminate._TAGGED) == 4
    error = RemoteAccessError(reason, 1)
    assert (int(read_source_code(error)), int(tagged_code(error))) == (reading, writing)


@each_case(
    ("code", "segment_octets", "words", "siw"),
    [
        (0x0206, None, "unexpected opcode (0/2/06)", "insufficient resources for RDMA Reads (2/0/06)"),
        (0x0207, None, "catastrophic error of the stream (0/2/07)", "no matching ready-to-receive frame (2/0/07)"),
        (0x0205, None, "invalid RDMAP version (0/2/05)", "local catastrophic error of MPA (2/0/05)"),
        (0x0206, 46, "unexpected opcode (0/2/06)", ""),
        (0x0206, 0, "unexpected opcode (0/2/06)", ""),
        (0x2006, None, "insufficient resources for RDMA Reads (2/0/06)", ""),
        (0x0208, None, "catastrophic error, global (0/2/08)", ""),
        (0x1202, None, "no receive buffer was posted (1/2/02)", ""),
        (0x0000, None, "local catastrophic error (0/0/00)", ""),
    ],
)
def test_a_terminate_of_the_peer_is_told_in_words(code: int, segment_octets: int | None, words: str, siw: str) -> None:
    terminated = PeerTerminated(TerminateMessage(code=code, segment_octets=segment_octets))
    told = f"{words}; if it is Linux siw, this means: {siw}" if siw else words
    assert str(terminated) == f"the peer terminated: {told}"
    assert terminated.terminate.code == code
