"""An endpoint with the round-trip extension keeps to the properties of its peer, and tells the truth of itself."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma.limits import CHUNK_SEGMENTS_MAX
from rpcrdma.rtr import Preference
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import Role, TransportConfig
from support import raw_messages as raw
from support.cases import each_case
from support.octets import words
from transmission_peer import (
    CHOICE,
    EXRW,
    HEAD,
    OCTETS,
    PAGE,
    TBSN,
    XID,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    Sent,
    TransmissionPeer,
    array,
    in_segments,
)

DATA = bytes(range(256)) * 150
LONG = TransportConfig(offered_receive_octets=OCTETS, offered_send_octets=3 * OCTETS)
STRUCTURE = 0x102
UNPLACED = {"segment_octets": 0}


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


@pytest.mark.req("RT-11", "RT-22")
@each_case(
    ("options", "argument", "result", "kinds"),
    [
        # Requests or responses of no transmission, and of one where nothing is told.
        ({"limits": (0, 8)}, 12_000, None, [0]),
        ({"limits": (8, 0)}, None, 12_000, [0]),
        ({"properties": {0x103: None}}, 12_288, None, [XMTREQ]),
        ({"properties": {0x103: None}}, 12_289, None, [0]),
        # One that takes no continuation, whatever its limit; one for which there is a credit for each transmission.
        ({"support": 3}, 12_288, None, [XMTREQ]),
        ({"support": 3}, 12_289, None, [0]),
        ({"give": 4}, 4 * 12_288 - 100, None, [XMTREQ] + [XMTCONT] * 3),
        ({"give": 3}, 4 * 12_288 - 100, None, [0]),
    ],
)
def test_calls_go_in_as_many_transmissions_as_the_peer_takes_or_without_the_extension(
    options: dict[str, Any], argument: int | None, result: int | None, kinds: list[int]
) -> None:
    exact = TransportConfig(offered_receive_octets=OCTETS, offered_send_octets=OCTETS)
    peer = TransmissionPeer(Role.CLIENT, config=exact, **options)
    peer.call(1, argument=None if argument is None else (DATA * 2)[:argument], result=result)
    assert [each.kind for each in peer.heard()] == kinds


@pytest.mark.req("RT-7")
def test_a_peer_that_takes_no_responses_is_answered_without() -> None:
    peer = TransmissionPeer(Role.SERVER, support=5)
    peer.request(words(XID, 0), directions=array(words(0, 8, 1, 1, TBSN)))
    peer.endpoint.reply(peer.arrived(), message(XID, 1, (b"plain...", DATA[:12_000])))
    (sent,) = peer.heard()
    assert sent.kind == 0
    assert DATA[:12_000] in sent.octets


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


SEGMENT = 2048
NARROW = TransportConfig(offered_receive_octets=OCTETS, offered_send_octets=OCTETS, segment_octets_max=SEGMENT)


@pytest.mark.req("RT-7", "V2-75")
@each_case(
    ("preference", "segments", "expected"),
    [
        (Preference.EXPLICIT, 16, (EXRW, 16)),
        (Preference.CHOICE, 16, (CHOICE, 16)),
        (Preference.CHOICE, 25, (TBSN, 0)),
        (Preference.BY_SIZE, 25, (TBSN, 0)),
    ],
)
def test_results_are_directed_into_no_more_segments_than_the_peer_takes(
    preference: Preference, segments: int, expected: tuple[int, int]
) -> None:
    peer = TransmissionPeer(Role.CLIENT, config=NARROW, preference=preference, properties={raw.SEGMENT_COUNT: 16})
    peer.call(1, result=segments * SEGMENT)
    (sent,) = map(Sent, peer.heard())
    assert [(each.kind, len(each.segments)) for each in sent.directions] == [expected]


@pytest.mark.req("V2-75")
@each_case("preference", [Preference.EXPLICIT, Preference.SEGMENTS])
def test_a_call_that_takes_more_segments_than_the_peer_does_is_not_sent(preference: Preference) -> None:
    peer = TransmissionPeer(
        Role.CLIENT, config=NARROW, preference=preference, properties={raw.SEGMENT_COUNT: 16}, settings=UNPLACED
    )
    with pytest.raises(LocalProtocolError, match="in 25 segments, of which the peer takes 16: use larger segments"):
        peer.call(1, result=25 * SEGMENT)
    with pytest.raises(LocalProtocolError, match="in 90 segments, of which the peer takes 16: use larger segments"):
        peer.call(2, argument=bytes(90 * SEGMENT))
    assert peer.heard() == []
    assert not peer.endpoint_pd.regions


@pytest.mark.req("RT-7")
def test_a_request_that_names_more_segments_than_this_end_takes_is_refused() -> None:
    peer = TransmissionPeer(Role.SERVER)
    for count in (CHUNK_SEGMENTS_MAX // 2, CHUNK_SEGMENTS_MAX // 2 + 1):
        memory = words(count) + struct.pack(">IIQ", 1, 1, 0) * count
        directions = array(words(0, 8, 2) + (words(1, EXRW) + memory) * 2)
        peer.request(words(XID, 0), directions=directions)
        if count * 2 > CHUNK_SEGMENTS_MAX:
            (heard,) = peer.heard()
            assert (heard.kind, heard.body) == (4, words(7, CHUNK_SEGMENTS_MAX))
            assert peer.endpoint_events() == []
        else:
            peer.endpoint.reply(peer.arrived(), message(XID, 1))
            peer.heard()
            peer.endpoint_events()
    peer.assert_serves()
