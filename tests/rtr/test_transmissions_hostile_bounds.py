"""The memory, messages and waits that a client with the round-trip extension can cause at a server's endpoint."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import Closed, Role, TransportConfig
from support.cases import each_case
from support.octets import words
from transmission_peer import (
    BADCONT,
    BADHMT,
    OCTETS,
    PAGE,
    REPTERR,
    TBSN,
    XID,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    TransmissionPeer,
    array,
)

CALL = words(XID, 0)


@contextmanager
def no_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def server(config: TransportConfig | None = None, **options) -> TransmissionPeer:
    return TransmissionPeer(Role.SERVER, config, **options)


@pytest.mark.req("RT-4")
def test_reports_that_cannot_leave_do_not_pile_up() -> None:
    peer = server()
    credits_given, peer.give = 66, 0
    for sent in range(1, 5 * limits.UNSENT_REFUSALS_MAX):
        peer.go_on(1, xid=sent)
        events = peer.endpoint_events()
        if events:
            (closed,) = events
            assert isinstance(closed, Closed)
            assert "does not read its errors" in closed.reason
            assert sent <= limits.UNSENT_REFUSALS_MAX + credits_given
            return
    pytest.fail("the endpoint went on reporting")


@each_case("more", [0, 1])
def test_a_group_that_never_ends_ends_the_connection(more: int) -> None:
    peer = server(TransportConfig(stalled_s=30.0, offered_receive_octets=OCTETS))
    peer.request(CALL, count=4, data=bytes(100))
    assert peer.endpoint.untimed
    assert peer.endpoint.next_deadline_s(100.0) == 130.0
    for number in range(more):
        peer.go_on(number + 1)
    peer.endpoint.on_time(129.0)
    peer.endpoint.on_time(130.0)
    peer.run()
    (closed,) = peer.endpoint_events()
    assert isinstance(closed, Closed)
    assert "the rest of a message within 30 s" in closed.reason


class Room:
    """Memory of a server that has so much room for messages."""

    def __init__(self, room: int) -> None:
        self.room = self.left = room

    def acquire(self, length: int) -> memoryview:
        return memoryview(bytearray(length))

    def release(self, view: memoryview) -> None:
        del view

    def take_in(self, octets: int) -> bool:
        if octets > self.left:
            return False
        self.left -= octets
        return True

    def give_back(self, octets: int) -> None:
        self.left += octets
        assert self.left <= self.room


def test_memory_of_groups_that_are_not_whole_counts_against_that_of_all_connections() -> None:
    room = Room(3 * OCTETS)
    peers = [server(buffers=room) for _ in range(3)]
    full = bytes(3 * PAGE)
    for number in range(1, 5):
        # The memory of a connection up to this is not counted.
        assert number * OCTETS <= limits.RPC_UNCOUNTED_CALL_OCTETS
        for peer in peers:
            peer.request(CALL, count=8, data=full) if number == 1 else peer.go_on(number - 1, data=full)
    counted = room.room - room.left
    assert counted < OCTETS
    peers[0].go_on(4, data=full)
    peers[1].go_on(4, data=full)
    assert room.room - room.left >= 2 * OCTETS
    assert peers[2].heard() == []
    peers[2].go_on(4, data=full)
    (heard,) = peers[2].heard()
    assert (heard.xid, heard.kind) == (XID, 4)
    peers[2].go_on(5, data=full)
    assert peers[2].heard() == []
    peers[2].assert_nothing_held()
    # Each end of a message, of any kind, gives its memory back.
    peers[0].plain_call(XID)
    assert peers[0].reported().code == BADHMT
    peers[1].qp.abort("gone")
    peers[1].run()
    assert isinstance(peers[1].endpoint_events()[-1], Closed)
    assert room.left == room.room
    peers[2].assert_serves()
    assert room.left == room.room


@pytest.mark.req("RT-3", "RT-7", "RT-11")
def test_a_reply_for_which_credits_are_short_waits_for_them_and_then_goes() -> None:
    """And those behind it, in their order; a client that gives none is bounded as with any other reply."""
    peer = server(TransportConfig(stalled_s=30.0, offered_receive_octets=OCTETS))
    result = bytes(range(256)) * 80
    # One transmission may go, of two that it takes.
    window = peer.endpoint._session.window
    header = peer.header(XID, XMTREQ)
    window.balance = 0
    header = header[:8] + words((64 << 16) + 1) + header[12:]
    peer.send(header + bytes(4) + array(words(0, 8, 1, 1, TBSN)) + words(1, 1, 8) + CALL)
    assert peer.endpoint.reply(peer.arrived(), message(XID, 1, (b"", result)))
    # This one gives no credit either.
    peer.give = 0
    header = peer.header(XID + 1, 0)
    peer.send(header + bytes(16) + words(XID + 1, 0))
    peer.endpoint.reply(peer.arrived(), message(XID + 1, 1))
    assert peer.heard() == []
    assert peer.endpoint.next_deadline_s(100.0) == 130.0
    peer.give = 64
    peer.put(XID + 2, REPTERR, words(XID, 1, 0, 0, BADCONT))
    heard = peer.heard()
    assert [(each.xid, each.kind) for each in heard[:2]] == [(XID, XMTRESP), (XID, XMTCONT)]
    assert [each.xid for each in heard[2:]] == [XID + 1]
    peer.endpoint_events()
    peer.assert_serves()


LARGE = TransportConfig(offered_receive_octets=36864, offered_send_octets=OCTETS)
"""Receive buffers of the default size; their messages go into slabs."""


def test_the_end_of_a_connection_lets_an_open_group_go() -> None:
    """Its slab is for other connections, although the objects of the connection refer to each other."""
    peer = server(LARGE)
    with no_collection():
        peer.request(CALL, count=4, data=bytes(8 * PAGE))
        peer.go_on(1, data=bytes(8 * PAGE))
        assert peer.slabs_in_use == [True]
        peer.qp.abort("gone")
        peer.run()
        assert isinstance(peer.endpoint_events()[-1], Closed)
        assert peer.slabs_in_use == [False]
        assert not peer.endpoint._receives.pool._ahead
