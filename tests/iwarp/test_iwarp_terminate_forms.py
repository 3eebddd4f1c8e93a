"""Terminate in all its forms: every combination of flags, and every code in the order of nibbles that siw uses."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.errors import DecodeError, RemoteAccessError
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
        code=code,
        segment_octets=46 if length else None,
        ddp_header=header * ddp,
        read_header=READ_HEADER * rdmap,
    )


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


def test_a_code_in_either_order_of_nibbles_is_understood() -> None:
    known = {int(code) for code in Code}
    for low, first in itertools.product({code & 0xFF for code in known} | {0x0A, 0x55, 0x80}, range(256)):
        code = first << 8 | low
        other = (first & 15) << 12 | (first >> 4) << 8 | low
        decoded = decode_terminate(bytes([first, low, 0, 0])).code
        assert decoded == (other if other in known and code not in known else code)


@each_case(
    ("first", "low", "code"),
    [
        (0x12, 0x02, 0x1202),
        (0x21, 0x02, 0x1202),
        (0x10, 0x01, 0x0101),
        (0x01, 0x01, 0x0101),
        (0x20, 0x05, 0x2005),
        (0x02, 0x05, 0x0205),
        (0x02, 0x01, 0x2001),
        (0x20, 0x01, 0x2001),
        (0x20, 0xFF, 0x02FF),
        (0x10, 0x00, 0x1000),
        (0x01, 0x00, 0x0100),
        (0x34, 0x00, 0x3400),
        (0x21, 0x99, 0x2199),
    ],
)
def test_codes_that_arrive_are_these(first: int, low: int, code: int) -> None:
    assert decode_terminate(bytes([first, low, 0, 0])).code == code


@each_case("length", range(4))
def test_a_message_has_a_control_field(length: int) -> None:
    with pytest.raises(DecodeError, match="Terminate control"):
        decode_terminate(bytes(length))


@pytest.mark.parametrize(
    ("segment_octets", "ddp_header", "read_header", "octets"),
    [
        (None, b"", b"", "1202 00 00"),
        (46, b"", b"", "1202 80 00 002e"),
        (0, b"", b"", "1202 80 00 0000"),
        (46, TAGGED_HEADER, b"", "1202 c0 00 002e" + TAGGED_HEADER.hex()),
        (46, UNTAGGED_HEADER, READ_HEADER, "1202 e0 00 002e" + (UNTAGGED_HEADER + READ_HEADER).hex()),
        (46, b"", READ_HEADER, "1202 a0 00 002e" + READ_HEADER.hex()),
    ],
)
def test_a_message_announces_its_fields(
    segment_octets: int | None, ddp_header: bytes, read_header: bytes, octets: str
) -> None:
    told = TerminateMessage(code=0x1202, segment_octets=segment_octets, ddp_header=ddp_header, read_header=read_header)
    assert encode_terminate(told) == bytes.fromhex(octets)


@each_case("code", Code)
def test_a_fault_quotes_headers_by_its_layer_and_type(code: Code) -> None:
    fault = TerminateFault("words", code, segment_octets=46, ddp_header=UNTAGGED_HEADER, read_header=READ_HEADER)
    assert (str(fault), fault.code) == ("words", code)
    assert (fault.segment_octets, fault.ddp_header, fault.read_header) == (46, UNTAGGED_HEADER, READ_HEADER)
    kind = f"{code:04x}"[:2]
    told = {"00": (None, False, False), "20": (None, False, False), "01": (46, True, True)}.get(kind, (46, True, False))
    message = fault.terminate()
    assert (message.code, message.segment_octets) == (code, told[0])
    assert (message.ddp_header, message.read_header) == (UNTAGGED_HEADER * told[1], READ_HEADER * told[2])
    bare = TerminateFault("words", code).terminate()
    assert bare == TerminateMessage(code=code)


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
    from rpcrdma.iwarp import terminate

    assert (
        terminate._READ_SOURCE.keys()
        == terminate._TAGGED.keys()
        == {
            "invalid handle",
            "access rights",
            "wrap",
            "bounds",
        }
    )
    error = RemoteAccessError(reason, 1)
    assert (int(read_source_code(error)), int(tagged_code(error))) == (reading, writing)


@pytest.mark.parametrize(
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
