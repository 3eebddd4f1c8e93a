"""Groups of the round-trip extension, octet by octet: several items, directions of every kind, credits and limits."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rtr import Preference
from rpcrdma.rtr.properties import Support
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import CallArrived, ReplyArrived, Role, TransportConfig
from rpcrdma.verbs.protection_domain import Access
from support.cases import each_case
from support.octets import words
from transmission_peer import (
    BYSIZE,
    CHOICE,
    EXRW,
    HEAD,
    NOITEM,
    OCTETS,
    PAGE,
    PAGES,
    TBSN,
    TOOSHORT,
    XID,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    HeardTransmission,
    Sent,
    TransmissionPeer,
    array,
    in_segments,
)

DATA = bytes((n * 37 + n // 251) & 0xFF for n in range(1 << 17))
EXACT = TransportConfig(offered_receive_octets=OCTETS, offered_send_octets=OCTETS)
MORE = 3 * PAGE
"""Of bulk data in one transmission."""


def pages(heard: list[HeardTransmission], numbers: list[int]) -> bytes:
    """The octets in these placeable segments of a group."""
    found = b""
    for number in numbers:
        transmission, page = divmod(number, PAGES)
        start = HEAD + page * PAGE
        found += heard[transmission].octets[start : start + PAGE]
    return found


# Requests


@pytest.mark.req("RT-1", "RT-13", "RT-15", "RT-30", "RT-31")
@each_case("role", Role)
def test_continuations_have_their_number_payload_and_buffers_and_nothing_about_placement(role: Role) -> None:
    peer = TransmissionPeer(role, EXACT)
    # A payload that takes more than one transmission, and data that take several.
    plain, item = DATA[:20_000], DATA[20_000:65_056]
    if role is Role.CLIENT:
        peer.endpoint.call(XID, message(XID, 0, (plain, item)), ReplyBound(8))
        lead = XMTREQ
    else:
        peer.request(words(XID, 0), directions=array(words(0, 8, 1, 1, TBSN)), extra=7)
        peer.endpoint.reply(peer.arrived(), message(XID, 1, (plain, item)))
        lead = XMTRESP
    heard = peer.heard()
    assert [each.kind for each in heard] == [lead] + [XMTCONT] * 4
    assert {each.xid for each in heard} == {XID}
    prefix = len(heard[0].octets) - len(heard[0].body)
    first = Sent(heard[0])
    assert first.count == 5
    (named,) = first.items
    numbers = [number for number in named.where if isinstance(number, int)]
    stream = first.payload
    for index, each in enumerate(heard):
        end = prefix + first.header_octets + len(first.payload)
        if index:
            number, begun_by, length = struct.unpack_from(">III", each.body)
            assert (number, begun_by) == (index, lead)
            stream += each.body[12 : 12 + length]
            end = prefix + 12 + length
        used = [number - index * PAGES for number in numbers if number // PAGES == index]
        assert not any(each.octets[end : HEAD + used[0] * PAGE if used else len(each.octets)]), "padding is zero"
    assert stream == words(XID, 0 if lead == XMTREQ else 1) + plain + words(len(item))
    assert pages(heard, numbers)[: len(item)] == item


@pytest.mark.req("RT-2")
@each_case(("give", "more"), [(12, (1, 2, 0)), (2, (60, 0, 0))])
def test_no_message_goes_between_those_of_a_group_however_credits_come(give: int, more: tuple[int, ...]) -> None:
    peer = TransmissionPeer(Role.CLIENT, EXACT, give=give, reverse=True)
    for xid in range(1, 9):
        # Groups of one to three transmissions, and plain calls among them.
        length = (0, 9000, 20_000, 30_000)[xid % 4]
        peer.endpoint.call(xid, message(xid, 0, (b"argument", DATA[:length] if length else None)), ReplyBound(8))
    for xid in range(1, 9):
        peer.give = more[xid % 3]
        peer.plain_call(0x100 + xid)
        for event in peer.endpoint_events():
            if isinstance(event, CallArrived):
                peer.endpoint.reply(event.incoming, message(event.incoming.xid, 1))
        peer.plain_reply(xid)
    peer.run()
    # Grants of credits included.
    heard = [HeardTransmission(octets) for octets in peer.received]
    groups = 0
    while heard:
        first = heard.pop(0)
        assert first.kind != XMTCONT
        if first.kind == XMTREQ:
            groups += 1
            for number in range(1, Sent(first).count):
                each = heard.pop(0)
                assert (each.kind, each.xid) == (XMTCONT, first.xid)
                assert each.body[:8] == words(number, XMTREQ)
    assert groups >= 4


@pytest.mark.req("RT-7", "RT-16")
@each_case("sizes", [(12_000,), (5000, 9000), (3000, 40_000, 1024)])
def test_each_result_has_its_direction_and_the_receives_that_it_may_take(sizes: tuple[int, ...]) -> None:
    peer = TransmissionPeer(Role.CLIENT, EXACT)
    receives = peer.link.receives_posted
    peer.endpoint.call(XID, message(XID, 0), ReplyBound(64, sizes))
    (heard,) = peer.heard()
    sent = Sent(heard)
    assert peer.link.receives_posted >= receives + sent.extra
    assert [direction.kind for direction in sent.directions] == [TBSN] * len(sizes)
    assert {direction.least for direction in sent.directions} == {1024}
    assert (sent.begin, sent.end) == (0, 8), "all of the request"
    segments = sum(-(-size // PAGE) for size in sizes)
    assert sent.extra == -(-segments // PAGES) - 1
    # The reply in as many transmissions as were promised.
    data = [DATA[n * 999 :][:size] for n, size in enumerate(sizes)]
    items, body, number, position = [], b"", 0, 8
    for each in data:
        count = -(-len(each) // PAGE)
        items.append(in_segments(position + 4, len(each), *range(number, number + count)))
        body += each + bytes(-len(each) % PAGE)
        number += count
        position += 4 + (len(each) + 3 & ~3)
    count = sent.extra + 1
    peer.response(words(XID, 1, *sizes), *items, count=count, data=body[:MORE])
    for index in range(1, count):
        peer.go_on(index, begun_by=XMTRESP, data=body[index * MORE : (index + 1) * MORE])
    (event,) = peer.endpoint_events()
    assert isinstance(event, ReplyArrived)
    event.decoder.octets(8, "start")
    assert [bytes(event.decoder.bulk(1 << 20, "item")) for _ in sizes] == data


@pytest.mark.req("RT-19", "RT-22")
def test_without_continuation_and_placement_a_request_directs_results_to_memory() -> None:
    """The facilities of section 3.4 alone."""
    plain = words(OCTETS, 1, 1, OCTETS, 0, 0)
    settings = {"segment_octets": 0, "support": Support.REQUEST | Support.RESPONSE}
    peer = TransmissionPeer(
        Role.CLIENT, EXACT, preference=Preference.EXPLICIT, support=3, structure=plain, settings=settings
    )
    peer.call(XID, argument=DATA[:30_000], result=12_000)
    (heard,) = peer.heard()
    sent = Sent(heard)
    assert (heard.kind, sent.count, sent.extra) == (XMTREQ, 1, 0)
    assert [item.kind for item in sent.items] == [EXRW]
    assert [direction.kind for direction in sent.directions] == [EXRW]
    peer.response(words(XID, 1), words(0, 0, NOITEM))
    assert peer.ended() == [(XID, words(XID, 1))]
    assert not peer.endpoint_pd.regions


# Requests that a server gets


# Answers


class Asked:
    """A server that has got a request with directions, in memory of this test; `reply` answers it with items."""

    def __init__(self, *kinds: tuple[int, int, int], extra: int = 7, give: int = 64) -> None:
        """Each of `kinds`: the least length, the way, and the octets of its memory."""
        self.peer = TransmissionPeer(Role.SERVER, EXACT, give=give)
        self.regions = [
            self.peer.pd.register(bytearray(octets), Access(7)) if way != TBSN else None for _, way, octets in kinds
        ]
        entries = []
        for (least, way, octets), region in zip(kinds, self.regions, strict=True):
            entry = words(least, way)
            if way == BYSIZE:
                entry += words(9000)
            if region is not None:
                entry += array(struct.pack(">IIQ", region.handle, octets, region.offset))
            entries.append(entry)
        self.peer.request(words(XID, 0), directions=array(words(0, 8) + array(*entries)), extra=extra)
        self.incoming = self.peer.arrived()

    def reply(self, *items: bytes) -> list[HeardTransmission]:
        self.peer.endpoint.reply(self.incoming, message(XID, 1, *((b"", item) for item in items)))
        return self.peer.heard()

    def written(self, index: int, length: int) -> bytes:
        region = self.regions[index]
        assert region is not None
        return bytes(region.view[:length])


# The way of the direction, the length of the result for a least length of 1,024 and memory of 12,000 octets: the kind.
COMBINATIONS = [
    (EXRW, 12_000, EXRW), (EXRW, 1023, TOOSHORT), (EXRW, None, NOITEM), (TBSN, 12_000, TBSN), (TBSN, 1023, TOOSHORT),
    (TBSN, None, NOITEM), (CHOICE, 1024, TBSN), (CHOICE, None, NOITEM), (BYSIZE, 9000, EXRW), (BYSIZE, 8999, TBSN),
]  # fmt: skip


@pytest.mark.req("RT-7", "RT-8", "RT-25", "RT-24")
@each_case(("way", "length", "kind"), COMBINATIONS)
def test_a_result_is_located_as_its_direction_and_its_length_say(way: int, length: int | None, kind: int) -> None:
    asked = Asked((1024, way, 12_000))
    heard = asked.reply(*(() if length is None else (DATA[:length],)))
    sent = Sent(heard[0])
    (item,) = sent.items
    assert item.kind == kind
    if length is None:
        assert (item.position, item.length, sent.payload) == (0, 0, words(XID, 1))
        return
    assert (item.position, item.length) == (12, length)
    inline = DATA[:length] + bytes(-length % 4) if kind == TOOSHORT else b""
    assert sent.payload == words(XID, 1, length) + inline
    if kind == EXRW:
        region = asked.regions[0]
        assert region is not None
        assert item.where == [(region.handle, length, region.offset)]
        assert asked.written(0, length) == DATA[:length]
    elif kind == TBSN:
        numbers = [number for number in item.where if isinstance(number, int)]
        assert pages(heard, numbers)[:length] == DATA[:length]


@pytest.mark.req("RT-3")
@each_case("way", [CHOICE, TBSN])
def test_a_response_for_which_credits_are_short_goes_by_rdma_where_it_may_and_waits_else(way: int) -> None:
    length = 2 * MORE + 1
    # One credit has come with the properties, one with the request.
    asked = Asked((1, way, length), give=1)
    assert asked.peer.endpoint._session.window.balance == 2
    heard = asked.reply(DATA[:length])
    if way == CHOICE:
        (item,) = Sent(heard[0]).items
        assert (len(heard), item.kind) == (1, EXRW)
        assert asked.written(0, length) == DATA[:length]
        return
    assert heard == []
    asked.peer.plain_call(XID + 1)
    heard = asked.peer.heard()
    (item,) = Sent(heard[0]).items
    assert (len(heard), item.kind) == (3, TBSN)


@pytest.mark.req("RT-2")
def test_grants_of_credits_may_come_within_a_group() -> None:
    server, client = TransmissionPeer(Role.SERVER), TransmissionPeer(Role.CLIENT)
    server.request(words(XID, 0), count=2)
    client.call(XID, result=2 * MORE)
    client.heard()
    client.response(words(XID, 1), words(0, 0, NOITEM), count=2)
    for peer in (server, client):
        peer.grant()
        peer.grant()
    server.go_on(1)
    client.go_on(1, begun_by=XMTRESP)
    assert server.arrived().xid == XID
    assert client.ended() == [(XID, words(XID, 1))]
    assert (server.heard(), client.heard()) == ([], [])


# Directions that are followed

IN_SEGMENTS = words(1, TBSN)
"""A direction for results of any length."""


def directions(*ranges: tuple[int, int], each: bytes = IN_SEGMENTS) -> bytes:
    """Sets of one direction."""
    return array(*(words(begin, end, 1) + each for begin, end in ranges))
