"""The messages that tests of a server's endpoint in version 2 send, and their view of its answers."""

from __future__ import annotations

import struct

from rpcrdma.testing.endpoint_pair import calls_in, message
from rpcrdma.transport import Closed, IncomingCall, Role, TransportConfig
from rpcrdma.verbs import MemoryRegion
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.raw_messages import ERROR, MSG, NOMSG, RESPONSE, Segment

XID = 0x0BADCAFE
CALL = struct.pack(">II", XID, 0)
REPLY = struct.pack(">II", XID, 1)


def server(config: TransportConfig | None = None, **options) -> BareMessages:
    return BareMessages(Role.SERVER, config, **options)


def named(region: MemoryRegion, start: int, length: int) -> Segment:
    return region.handle, length, region.offset + start


def arrived(peer: BareMessages) -> IncomingCall:
    (incoming,) = calls_in(peer.endpoint_events())
    return incoming


def answered(peer: BareMessages, octets: bytes) -> tuple[int, ...]:
    """The error that a message is answered with, after that of its XID, without any other effect.

    Errors give no credits.
    """
    reads = peer.endpoint.statistics.rdma_reads
    peer.send(octets)
    (heard,) = [each for each in peer.heard() if (each.kind, each.xid) != (NOMSG, 0)]
    assert (heard.kind, heard.flags) == (ERROR, RESPONSE)
    assert not heard.give
    assert heard.xid == int.from_bytes(octets[:4])
    assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.rdma_reads == reads
    return heard.numbers


def discarded(peer: BareMessages, octets: bytes) -> None:
    before = peer.endpoint.statistics.discarded
    peer.send(octets)
    assert [each for each in peer.heard() if (each.kind, each.xid) != (NOMSG, 0)] == []
    assert peer.endpoint_events() == []
    assert peer.endpoint.statistics.discarded == before + 1


def assert_works(peer: BareMessages) -> None:
    """A proper call is still answered, and no memory is held for the improper ones."""
    peer.send(raw.message(XID, CALL))
    incoming = arrived(peer)
    assert not peer.endpoint.reply(incoming, message(XID, 1))
    reply = peer.heard()[-1]
    assert (reply.xid, reply.kind, reply.flags, reply.payload) == (XID, MSG, RESPONSE, REPLY)
    assert not peer.endpoint_pd.regions
    assert peer.endpoint.calls_in_flight == 0


def assert_ended(peer: BareMessages, reason: str) -> None:
    """The endpoint ended the connection and blames the peer."""
    closed = peer.endpoint_events()[-1]
    assert isinstance(closed, Closed)
    assert reason in closed.reason
    assert closed.by_peer
    assert closed.protocol_error
    assert not peer.endpoint_pd.regions


def long_call(*segments: Segment, **parts) -> bytes:
    return raw.message(XID, kind=NOMSG, reads=b"".join(raw.read_segment(0, each) for each in segments), **parts)
