"""An endpoint with the round-trip extension keeps to the properties of its peer, and tells the truth of itself."""

from __future__ import annotations

import pytest

from rpcrdma.limits import RTR_BUFFER_RUNS_MAX
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import Role, TransportConfig
from support import raw_messages as raw
from support.cases import each_case
from support.octets import words
from transmission_peer import (
    HEAD,
    OCTETS,
    PAGE,
    TBSN,
    XID,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    TransmissionPeer,
    array,
    in_segments,
)

DATA = bytes(range(256)) * 150
LONG = TransportConfig(offered_receive_octets=OCTETS, offered_send_octets=3 * OCTETS)
STRUCTURE = 0x102


@pytest.mark.req("RT-10", "RT-28", "RT-29")
@each_case("role", list(Role))
@each_case(
    ("untold", "sends"), [((raw.RECEIVE_SIZE,), OCTETS), ((STRUCTURE,), OCTETS), ((raw.RECEIVE_SIZE, STRUCTURE), 4096)]
)
def test_messages_have_the_receive_size_or_that_of_the_structure_or_the_default(
    role: Role, untold: tuple[int, ...], sends: int
) -> None:
    peer = TransmissionPeer(role, properties=dict.fromkeys(untold))
    assert peer.ready
    assert peer.endpoint.inline_send_octets == sends
    if role is Role.CLIENT and STRUCTURE in untold:
        # Nothing is placed.
        peer.call(1, argument=DATA[:12_000])
        assert XMTREQ not in [sent.kind for sent in peer.heard()]


@pytest.mark.req("RT-10")
@each_case("size", [8192, 3 * OCTETS])
def test_where_size_and_structure_disagree_no_transmission_is_longer_than_either(size: int) -> None:
    properties = {raw.SEND_SIZE: 3 * OCTETS, raw.RECEIVE_SIZE: size}
    client = TransmissionPeer(Role.CLIENT, LONG, properties=properties)
    assert client.endpoint.inline_send_octets == size
    # An argument that no segments take is in the payload, which goes wherever there is room.
    client.call(1, argument=DATA[:20_000])
    server = TransmissionPeer(Role.SERVER, LONG, properties=properties)
    server.request(words(XID, 0), directions=array(words(0, 8, 1, 1, TBSN)), extra=7)
    server.endpoint.reply(server.arrived(), message(XID, 1, (DATA[:20_000], DATA[:12_000])))
    for peer, first in ((client, XMTREQ), (server, XMTRESP)):
        sent = peer.heard()
        assert [each.kind for each in sent[:2]] == [first, XMTCONT]
        assert max(len(each.octets) for each in sent) == min(size, OCTETS)


@pytest.mark.req("RT-7")
def test_a_peer_that_takes_no_responses_is_answered_without() -> None:
    peer = TransmissionPeer(Role.SERVER, support=5)
    peer.request(words(XID, 0), directions=array(words(0, 8, 1, 1, TBSN)))
    peer.endpoint.reply(peer.arrived(), message(XID, 1, (b"plain...", DATA[:12_000])))
    (sent,) = peer.heard()
    assert sent.kind == 0
    assert DATA[:12_000] in sent.octets


@each_case(("count", "carried"), [(RTR_BUFFER_RUNS_MAX, True), (RTR_BUFFER_RUNS_MAX + 1, False)])
def test_buffers_with_many_runs_of_segments_get_nothing_by_sends(count: int, carried: bool) -> None:
    runs = [(1, 256 << index % 2, 0, 1) for index in range(count)]
    head = OCTETS - sum(length for _, length, _, _ in runs)
    structure = words(OCTETS, 1 + count, 1, head, 0, 0, *(word for run in runs for word in run))
    client = TransmissionPeer(Role.CLIENT, structure=structure)
    client.call(1, argument=DATA[:2000])
    assert client.heard()[0].kind == (XMTREQ if carried else 0)
    server = TransmissionPeer(Role.SERVER, structure=structure)
    server.request(words(XID, 0), directions=array(words(0, 8, 1, 1, TBSN)), extra=7)
    server.endpoint.reply(server.arrived(), message(XID, 1, (b"plain...", DATA[:2000])))
    assert server.heard()[0].kind == (XMTRESP if carried else 0)


def told_support(peer: TransmissionPeer) -> int:
    """The value of RTR Support that the endpoint has sent."""
    properties = [each.body for each in peer.introduced if words(0x101, 4) in each.body]
    (value,) = [body.partition(words(0x101, 4))[2][:4] for body in properties]
    return int.from_bytes(value)


@pytest.mark.req("RT-4", "RT-11", "RT-20")
@each_case("count", [1, 3])
def test_a_client_that_takes_no_calls_says_so_and_refuses_requests(count: int) -> None:
    peer = TransmissionPeer(Role.CLIENT)
    assert told_support(peer) == 6, "responses and continuations"
    peer.request(words(XID, 0, 100), in_segments(12, 100, 0), count=count, data=bytes(100))
    (heard,) = peer.heard()
    assert (heard.xid, heard.kind, heard.body) == (XID, 4, words(3)), "an unknown type"
    for number in range(1, count):
        peer.go_on(number, data=bytes(100))
    assert peer.heard() == []
    assert peer.endpoint_events() == []
    peer.assert_nothing_held()
    # Its own calls go on.
    peer.call(1, result=100 + PAGE)
    (sent,) = peer.heard()
    assert sent.kind == XMTREQ
    peer.response(words(1, 1, PAGE), in_segments(12, PAGE, 0), xid=1, data=bytes(PAGE), start=HEAD)
    assert peer.ended() == [(1, words(1, 1))]


@pytest.mark.req("RT-4")
@each_case("role", list(Role))
def test_an_end_that_takes_calls_says_so_and_takes_requests(role: Role) -> None:
    peer = TransmissionPeer(role, reverse=True)
    assert told_support(peer) == 7
    peer.assert_serves()
