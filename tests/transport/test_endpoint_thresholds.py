"""Inline thresholds of peers that name none while connecting, and that they do not change."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.testing.endpoint_pair import BarePeer, message
from rpcrdma.transport import CallArrived, CallFailed, ReplyArrived, ReplyBound, Role, TransportConfig
from support.cases import each_case

CALL, REPLY = 0, 1
MSG, NOMSG, MSGP, DONE, ERROR = range(5)
LARGE = TransportConfig(inline_send_octets=8192, inline_receive_octets=8192)
START = 28 + 8
"""Octets of a message in front of what these tests put into it: the short header, XID and direction."""
ALLOWANCE = 28 + 32
"""What a client leaves for the headers of the reply when it counts on an inline one."""


def header(xid: int, kind: int = MSG, *lists: int) -> bytes:
    return struct.pack(">IIIIIII", xid, 1, 32, kind, *(lists or (0, 0, 0)))


def form(octets: bytes) -> tuple[int, bool, bool]:
    """Of a call without Write list: the procedure, and whether it has a Read list and a Reply chunk."""
    kind, reads = struct.unpack_from(">II", octets, 12)
    end = 16
    while struct.unpack_from(">I", octets, end)[0]:
        end += 24
    writes, reply = struct.unpack_from(">II", octets, end + 4)
    assert writes == 0
    return kind, bool(reads), bool(reply)


def called(peer: BarePeer, xid: int, plain: int, results: int = 0) -> bytes:
    """The call of the client under test with `plain` octets of arguments, which is answered in 1024 octets."""
    before = len(peer.received)
    peer.endpoint.call(xid, message(xid, CALL, (bytes(plain), None)), ReplyBound(results))
    peer.run()
    (octets,) = peer.received[before:]
    peer.send(header(xid) + struct.pack(">II", xid, REPLY) + bytes(1024 - START))
    assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived]
    return octets


SILENT = each_case("said", [b"", b"something else", bytes.fromhex("f6ab0e18 02 01 07 07")])


@pytest.mark.req("V1-9", "V1-11", "PD-8", "PD-9")
@SILENT
def test_a_client_whose_server_says_nothing_keeps_to_1024_octets_each_way(said: bytes) -> None:
    peer = BarePeer(Role.CLIENT, LARGE, private_data=said)
    assert (peer.endpoint.inline_send_octets, peer.endpoint.inline_receive_octets) == (1024, 1024)
    short = called(peer, 1, 1024 - START)
    assert len(short) == 1024
    assert form(short) == (MSG, False, False)
    assert form(called(peer, 2, 1024 - START + 4)) == (NOMSG, True, False)
    assert form(called(peer, 3, 0, 1024 - ALLOWANCE)) == (MSG, False, False)
    assert form(called(peer, 4, 0, 1024 - ALLOWANCE + 4)) == (MSG, False, True)


@each_case(("octets", "inline"), [(4096 - 40, True), (4096 - 36, False)])
def test_a_result_that_is_no_longer_than_a_message_goes_inline_with_its_header(octets: int, inline: bool) -> None:
    """The header has 28 octets, XID and direction 8, and the length of the result 4."""
    peer = BarePeer(Role.SERVER)
    peer.send(header(7) + struct.pack(">II", 7, CALL))
    (event,) = peer.endpoint_events()
    assert isinstance(event, CallArrived)
    peer.endpoint.reply(event.incoming, message(7, REPLY, (b"", bytes(octets))))
    peer.run()
    (answer,) = peer.received
    assert event.incoming.refusal == ("" if inline else "a reply of 4072 octets without a Reply chunk")
    assert (len(answer), answer[12:16]) == ((4096, bytes(4)) if inline else (20, b"\0\0\0\4"))


@pytest.mark.req("V1-90")
def test_nothing_that_a_server_sends_changes_the_thresholds_of_a_client() -> None:
    told = TransportConfig(inline_send_octets=3072).private_data()
    peer = BarePeer(
        Role.CLIENT, TransportConfig(inline_send_octets=2048, inline_receive_octets=8192), private_data=told
    )

    def hold(xid: int) -> None:
        assert (peer.endpoint.inline_send_octets, peer.endpoint.inline_receive_octets) == (2048, 3072)
        assert form(called(peer, xid, 2048 - START)) == (MSG, False, False)
        assert form(called(peer, xid + 1, 2048 - START + 4)) == (NOMSG, True, False)
        assert form(called(peer, xid + 2, 0, 3072 - ALLOWANCE)) == (MSG, False, False)
        assert form(called(peer, xid + 3, 0, 3072 - ALLOWANCE + 4)) == (MSG, False, True)

    hold(1)
    # A padded message with its threshold, and messages that answer nothing, of which one is longer than was agreed.
    for octets in (
        header(99, MSGP, 4, 512, 0) + bytes(8),
        header(99, DONE)[:16],
        header(99) + struct.pack(">II", 99, REPLY),
        header(99) + struct.pack(">II", 99, REPLY) + bytes(4096 - START),
        header(99, ERROR, 1, 1, 9),
    ):
        assert peer.send(octets) == []
    # Nor does the refusal of a call.
    peer.endpoint.call(98, message(98, CALL), ReplyBound(0))
    assert len(peer.send(struct.pack(">IIIII", 98, 1, 32, ERROR, 2))) == 1
    assert [type(event) for event in peer.endpoint_events()] == [CallFailed]
    hold(10)
    # The data of RFC 8797 has no meaning behind the start of a connection.
    peer.send(header(99) + bytes.fromhex("f6ab0e18 01010000"))
    hold(20)
