"""The answers of a server's endpoint of the last draft of version 2 to messages against its rules."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.testing.endpoint_pair import BarePeer, calls_in, message
from rpcrdma.transport import Ready, Role, offered
from support import raw_messages as raw
from support.cases import each_case
from support.octets import words

CREDITS = 1000
GRANT, CONNPROP_FINAL, CALL_MIDDLE, CALL_INLINE, REPLY_INLINE = 5, 7, 9, 10, 13
BAD_XDR, INVAL_CONT, VERS_MISMATCH = 2, 5, 11


def server() -> BarePeer:
    peer = BarePeer(Role.SERVER, dialects=offered("2-07"), ready=False)
    peer.send(words(1, 2, CREDITS, CONNPROP_FINAL) + raw.property_set((raw.RECEIVE_SIZE, raw.word(4096))))
    assert [type(event) for event in peer.endpoint_events()] == [Ready]
    return peer


def call(xid: int = 7, reads: bytes = b"") -> bytes:
    return words(xid, 2, CREDITS, CALL_INLINE, 0) + reads + words(0, 0, 0, xid, 0)


def answers(peer: BarePeer, *messages: bytes) -> list[tuple[int, ...]]:
    """XID, version, type and rest of each message sent upon these messages, except grants."""
    found = [octets for each in messages for octets in peer.send(each)]
    told = [struct.unpack(f">{len(octets) // 4}I", octets) for octets in found]
    return [(xid, version, *rest) for xid, version, _, *rest in told if rest[0] != GRANT]


def assert_works(peer: BarePeer) -> None:
    assert answers(peer, call()) == []
    (incoming,) = calls_in(peer.endpoint_events())
    peer.endpoint.reply(incoming, message(7, 1))
    peer.run()
    assert peer.received[-1][12:] == words(REPLY_INLINE, 0, 7, 1)


@pytest.mark.req("V2-A14", "V2-68")
@pytest.mark.parametrize(
    "octets", [words(7, 1, 32, 0, 0, 0, 0, 7, 0), words(7, 1, CREDITS, CALL_INLINE, 0, 0, 0, 0, 7, 0)]
)
def test_a_version_that_is_not_the_connections_is_told_apart_from_an_unknown_one(octets: bytes) -> None:
    peer = server()
    assert answers(peer, octets) == [(7, 1, 4, VERS_MISMATCH)]
    assert answers(peer, octets[:4] + words(3) + octets[8:]) == [(7, 3, 4, 1, 2, 2)]
    assert peer.endpoint_events() == []
    assert_works(peer)


@pytest.mark.req("V2-A3")
@each_case("more", [False, True])
def test_a_broken_continuation_is_dropped_to_its_end(more: bool) -> None:
    peer = server()
    foreign = words(8, 2, CREDITS, CALL_MIDDLE, 4, 8, 0) if more else call(8)
    assert answers(peer, words(7, 2, CREDITS, CALL_MIDDLE, 16, 7, 0), foreign) == [(8, 2, 4, INVAL_CONT)]
    assert answers(peer, words(7, 2, CREDITS, CALL_MIDDLE, 12, 0), call(7)) == []
    if more:
        assert answers(peer, call(8)) == []
    assert peer.endpoint_events() == []
    assert_works(peer)


@pytest.mark.req("V2-A10")
def test_a_read_list_whose_positions_go_backwards_is_refused_and_nothing_of_it_is_read() -> None:
    peer = server()
    # In their order they stand side by side, and all within the call.
    ends = raw.read_segment(8, (1, 4, 0)) + raw.read_segment(8, (2, 4, 0))
    backwards = raw.read_segment(20, (4, 4, 0)) + raw.read_segment(16, (3, 4, 0))
    assert answers(peer, call(7, ends + backwards)) == [(7, 2, 4, BAD_XDR)]
    assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.rdma_reads == 0
    assert_works(peer)
