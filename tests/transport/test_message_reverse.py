"""The reverse direction in versions whose peers tell each other their limits for it."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.testing.endpoint_pair import BarePeer, EndpointPair, calls_in, message
from rpcrdma.transport import IncomingCall, ReplyArrived, ReplyBound, ReverseSupport, Role, TransportConfig, offered
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.cases import each_case
from support.raw_messages import ERROR, MSG, NOMSG, RESPONSE, REVERSE_SUPPORT, word

CALL, REPLY = 0, 1
XID = 0x11223344
NOTHING = ReplyBound(0)
BAD_XDR, INVAL_HTYPE, INVAL_FLAG, READ_CHUNKS, WRITE_CHUNKS, SEGMENTS = range(2, 8)
# Everything that could be moved by RDMA is.
CHUNKS = TransportConfig(in_messages_octets_max=0, offered_send_octets=4096, offered_receive_octets=4096)


class Both(EndpointPair):
    """Both directions are open; `sent` are the messages of either end since then."""

    def __init__(self, version: str) -> None:
        super().__init__(CHUNKS, CHUNKS, reverse=True, version=version)
        self.connect()
        self.server.allow_reverse()
        self.sent: list[tuple[str, bytes]] = []
        for name, queue_pair in (("client", self.client_qp), ("server", self.server_qp)):
            post = queue_pair.post_send

            def spy(wr: object, gather: list[bytes], *, name=name, post=post, **options: object) -> None:
                self.sent.append((name, b"".join(gather)))
                post(wr, gather, **options)

            queue_pair.post_send = spy  # type: ignore[method-assign]

    def called_back(self) -> list[IncomingCall]:
        self.run()
        return calls_in(self.client_events())


@pytest.mark.req("V2-A6", "V2-38")
@each_case(("argument", "plain", "result", "body"), [(0, 0, 0, 0), (5000, 0, 5000, 0), (0, 9000, 0, 9000)])
def test_reverse_messages_repeat_xid_and_version_and_tell_call_from_reply(
    argument: int, plain: int, result: int, body: int
) -> None:
    both = Both("2")
    both.server.call(XID, message(XID, CALL, (bytes(plain), bytes(argument))), ReplyBound(body + 12, (result,)))
    (incoming,) = both.called_back()
    incoming.decoder.octets(8 + plain, "plain")
    assert bytes(incoming.decoder.bulk(9000, "argument")) == bytes(argument)
    both.client.reply(incoming, message(XID, REPLY, (bytes(body), bytes(result))))
    both.run()
    (event,) = [event for event in both.server_events() if isinstance(event, ReplyArrived)]
    event.decoder.octets(8 + body, "body")
    assert bytes(event.decoder.bulk(9000, "result")) == bytes(result)
    assert [name for name, _ in both.sent] == ["server", "client"]
    (_, call), (_, reply) = both.sent
    for direction, octets in ((CALL, call), (REPLY, reply)):
        xid, version, _, kind, flags = struct.unpack_from(">IIIII", octets)
        assert (xid, version) == (XID, 2)
        assert (kind, flags) == (NOMSG if plain or body else MSG, (0, RESPONSE)[direction])
        if not plain and not body:
            # The RPC message says the same.
            assert octets.endswith(struct.pack(">II", XID, direction) + octets[octets.rindex(word(XID)) + 8 :])


@pytest.mark.req("V2-A7")
@each_case("told", [True, False])
def test_a_client_that_takes_no_calls_is_not_called(told: bool) -> None:
    peer = BarePeer(Role.SERVER, dialects=offered("2"), ready=False, reverse=True)
    if told:
        peer.send(raw.properties((REVERSE_SUPPORT, word(0)), give=9))
    else:
        # One that does not tell takes calls without chunks.
        peer.send(raw.message(XID, struct.pack(">II", XID, CALL), give=9))
    peer.endpoint_events()
    peer.received.clear()
    with pytest.raises(LocalProtocolError, match=r"ready for calls|takes no calls"):
        peer.endpoint.call(7, message(7, CALL), NOTHING)
    peer.endpoint.allow_reverse()
    if not told:
        peer.endpoint.call(7, message(7, CALL), NOTHING)
        with pytest.raises(LocalProtocolError, match="needs chunks"):
            peer.endpoint.call(8, message(8, CALL, (bytes(50_000), None)), NOTHING)
        assert peer.endpoint.statistics.calls_unsendable == 1
        return
    with pytest.raises(LocalProtocolError, match="takes no calls"):
        peer.endpoint.call(7, message(7, CALL), NOTHING)
    peer.run()
    assert peer.received == []


def test_a_client_that_takes_no_calls_makes_its_own_all_the_same() -> None:
    pair = EndpointPair(version="2")
    pair.connect()
    pair.client.allow_reverse()
    pair.client.call(7, message(7, CALL), NOTHING)
    pair.run()
    assert len(calls_in(pair.server_events())) == 1


SEGMENT = (77, 64, 4096)


@pytest.mark.req("V2-A8", "V2-53", "V2-55", "V2-86")
@each_case(
    ("parts", "needs"),
    [
        ({"reads": raw.read_segment(8, SEGMENT)}, "READ_CHUNKS"),
        ({"reads": raw.read_segment(0, SEGMENT), "kind": NOMSG}, "READ_CHUNKS"),
        ({"reads": raw.read_segment(8, SEGMENT), "writes": raw.chunk(SEGMENT)}, "READ_CHUNKS"),
        ({"writes": raw.chunk(SEGMENT)}, "REPLY_RESOURCE"),
        ({"writes": raw.chunk()}, "REPLY_RESOURCE"),
        ({"reply": raw.chunk(SEGMENT)}, "REPLY_RESOURCE"),
    ],
)
def test_a_client_that_takes_no_chunks_tells_which_kind_a_reverse_call_must_do_without(
    parts: dict[str, Any], needs: str
) -> None:
    """A responder that can process no Write chunk at all says REPLY_RESOURCE (section 6.4.3).

    A client of this version takes chunks: the test takes that ability from it.
    """
    peer = BareMessages(Role.CLIENT, reverse=True)
    peer.endpoint._session.reverse_support = ReverseSupport.INLINE
    peer.send(raw.message(XID, b"" if "kind" in parts else struct.pack(">II", XID, CALL), **parts))
    (heard,) = peer.heard()
    assert (heard.kind, heard.flags, heard.xid) == (ERROR, RESPONSE, XID)
    assert heard.numbers == (getattr(raw, needs), 0), "no chunk is taken, or no length is known that would help"
    assert peer.endpoint_events() == []
