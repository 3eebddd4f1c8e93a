"""A server's endpoint in version 2 against a client that lies about transport properties."""

from __future__ import annotations

import struct

import pytest

from message_server import XID, answered, assert_works, server
from rpcrdma import limits
from support import raw_messages as raw
from support.cases import each_case
from support.raw_messages import (
    CONNPROP,
    MORE,
    RECEIVE_SIZE,
    REVERSE_SUPPORT,
    SEGMENT_COUNT,
    SEGMENT_SIZE,
    SEND_SIZE,
    word,
)


def lies() -> dict[str, bytes]:
    return {
        "a length beyond the message": raw.prefix(XID, CONNPROP) + struct.pack(">IIII", 1, 2, 8, 4096),
        "a length of 4 GiB": raw.prefix(XID, CONNPROP) + struct.pack(">IIII", 1, 2, 0xFFFFFFFF, 4096),
        "a length that wraps": raw.prefix(XID, CONNPROP) + struct.pack(">IIII", 1, 2, 0xFFFFFFFD, 4096),
        "2^32 properties": raw.prefix(XID, CONNPROP) + struct.pack(">IIII", 0xFFFFFFFF, 2, 4, 4096),
        "one more than there are": raw.prefix(XID, CONNPROP) + struct.pack(">IIII", 2, 2, 4, 4096),
        "one fewer than there are": raw.prefix(XID, CONNPROP) + struct.pack(">IIII", 0, 2, 4, 4096),
        "a value that is too short": raw.properties((2, b"abc"), xid=XID),
        "a value of one octet": raw.properties((5, b"\0"), xid=XID),
        "padding that is not zero": raw.prefix(XID, CONNPROP) + struct.pack(">III4s", 1, 99, 3, b"abcd"),
        "padding that is missing": raw.prefix(XID, CONNPROP) + struct.pack(">III3s", 1, 99, 3, b"abc"),
        "one property twice": raw.properties((2, word(4096)), (2, word(4096)), xid=XID),
        "an unknown property twice": raw.properties((99, b""), (99, b""), xid=XID),
        "receives that are too small": raw.properties((2, word(1023)), xid=XID),
        "receives of no octets": raw.properties((2, word(0)), xid=XID),
        "segments of no octets": raw.properties((3, word(0)), xid=XID),
        "a level that does not exist": raw.properties((5, word(4)), xid=XID),
        "a proof whose inner length lies": raw.properties((6, word(5) + b"1234"), xid=XID),
        "more properties than are taken": raw.properties(
            *((1000 + n, b"") for n in range(limits.PROPERTIES_MAX + 1)), xid=XID
        ),
    }


@pytest.mark.req("V2-32", "V2-33")
@each_case(("octets", "pieces"), [(octets, pieces) for octets in lies().values() for pieces in (1, 3)])
def test_property_sets_that_lie_are_answered_with_bad_xdr(octets: bytes, pieces: int) -> None:
    peer = server(introduce=False)
    head, body = octets[:20], octets[20:]
    step = -(-len(body) // pieces)
    parts = [body[start : start + step] for start in range(0, len(body), step)]
    for part in parts[:-1]:
        peer.send(raw.prefix(XID, CONNPROP, MORE, give=4) + part)
        peer.run()
        peer.received.clear()
    assert answered(peer, head[:8] + word(4) + head[12:] + parts[-1]) == (raw.BAD_XDR,)
    peer.introduce()
    assert_works(peer)


@pytest.mark.req("V2-34", "V2-69")
def test_property_values_of_any_size_are_taken_as_they_are() -> None:
    peer = server(introduce=False)
    # Empty: the default. Longer than it must be: the rest means nothing.
    peer.introduce(
        (SEND_SIZE, word(0xFFFFFFFF)),
        (RECEIVE_SIZE, word(2048) + bytes(60)),
        (SEGMENT_SIZE, b""),
        (SEGMENT_COUNT, word(0)),
        (REVERSE_SUPPORT, b""),
        (0xFFFFFFFF, b"x" * 1001),
    )
    told = peer.endpoint.peer_properties
    assert told is not None
    assert told[:4] == (0xFFFFFFFF, 2048, 1 << 20, 0)
    assert peer.endpoint.inline_send_octets == 2048
    assert peer.endpoint.inline_receive_octets == peer.endpoint.config.offered_receive_octets
    assert_works(peer)


@pytest.mark.req("V2-93")
@each_case("number", [1, 2, 3, 4, 5])
def test_properties_that_come_a_second_time_are_refused_and_change_nothing(number: int) -> None:
    peer = server()
    before = peer.endpoint.peer_properties
    for _ in range(20):
        assert answered(peer, raw.properties((number, word(2048)), xid=XID)) == (raw.BAD_XDR,)
    assert peer.endpoint.peer_properties == before
    assert peer.endpoint.inline_send_octets == 4096
    assert_works(peer)
