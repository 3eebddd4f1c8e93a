"""Calls of the server in version 2: a client that offers services against a hostile server, and the other way round."""

from __future__ import annotations

import struct

from rpcrdma import limits
from rpcrdma.testing.endpoint_pair import calls_in, message
from rpcrdma.transport import ReplyArrived, ReplyBound, Role, TransportConfig
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case
from support.raw_messages import ERROR, MORE, NOMSG, RESPONSE, HeardMessage

XID = 0xBAC4
CALL = struct.pack(">II", XID, 0)
REPLY = struct.pack(">II", XID, 1)


def client(config: TransportConfig | None = None) -> BareMessages:
    return BareMessages(Role.CLIENT, config, reverse=True)


def server(*properties: tuple[int, bytes]) -> BareMessages:
    peer = BareMessages(Role.SERVER, TransportConfig(in_messages_octets_max=0), *properties, reverse=True)
    peer.endpoint.allow_reverse()
    return peer


def answered(peer: BareMessages) -> list[HeardMessage]:
    return [each for each in peer.heard() if (each.kind, each.xid) != (NOMSG, 0)]


def assert_both_ways(peer: BareMessages) -> None:
    """A call of the peer is answered, and one of the endpoint gets its reply."""
    peer.send(raw.message(XID, CALL, give=2))
    (incoming,) = calls_in(peer.endpoint_events())
    peer.endpoint.reply(incoming, message(XID, 1))
    assert [each.payload for each in answered(peer)] == [REPLY]
    peer.endpoint.call(XID, message(XID, 0), ReplyBound(8))
    assert [each.payload for each in answered(peer)] == [CALL]
    peer.send(raw.message(XID, REPLY, RESPONSE, give=2))
    assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived]
    assert not peer.endpoint_pd.regions


@each_case(
    ("octets", "code"),
    [
        (raw.message(XID, b""), raw.BAD_XDR),
        (raw.message(XID, CALL, ends=7), raw.BAD_XDR),
        (raw.message(XID, CALL, reads=raw.read_segment(8, (1, (1 << 20) + 1, 0))), raw.BAD_XDR),
        (raw.message(XID, CALL, writes=raw.chunk() * (limits.WRITE_CHUNKS_MAX + 1)), raw.WRITE_CHUNKS),
        (raw.prefix(XID, 99, give=1), raw.INVAL_HTYPE),
        (raw.message(XID, CALL, 8), raw.INVAL_FLAG),
        (raw.message(XID, kind=NOMSG, flags=MORE), raw.INVAL_FLAG),
    ],
)
@each_case("role", Role)
def test_calls_that_cannot_be_read_are_refused_by_the_end_that_is_called(role: Role, octets: bytes, code: int) -> None:
    peer = client() if role is Role.CLIENT else server()
    for _ in range(20):
        peer.send(octets)
        assert [(each.kind, each.numbers[0]) for each in answered(peer)] == [(ERROR, code)]
        if octets[15] == NOMSG and octets[19] & MORE:
            peer.send(raw.message(XID, kind=NOMSG))
        assert answered(peer) == []
        assert peer.endpoint_events() == []
    assert_both_ways(peer)
