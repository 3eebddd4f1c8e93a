"""Groups of the round-trip extension, octet by octet: several items, directions of every kind, credits and limits."""

from __future__ import annotations

import struct

import pytest

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rtr import Preference
from rpcrdma.rtr.properties import Support
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import CallArrived, ReplyArrived, Role, TransportConfig
from rpcrdma.verbs.memory import Access
from rpcrdma.xdr.codec import Encoder
from support.cases import each_case
from support.compiled import load
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
    by_rdma,
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


@pytest.mark.req("RT-5", "RT-24")
@each_case("lengths", [(5000, 6000), (20_001, 1025, 9002), (1024, 50, 4096)])
def test_each_argument_is_named_in_order_by_its_position_and_segments(lengths: tuple[int, ...]) -> None:
    peer = TransmissionPeer(Role.CLIENT, EXACT)
    data = [DATA[1000 * n :][:length] for n, length in enumerate(lengths)]
    payload = message(XID, 0, *((b"four" * (n + 1), each) for n, each in enumerate(data)))
    stream = payload.gather([])
    whole = b"".join(bytes(piece) for piece in stream)
    peer.endpoint.call(XID, payload, ReplyBound(8))
    heard = peer.heard()
    sent = Sent(heard[0])
    placed = [each for each in data if len(each) >= 1024]
    assert [(item.length, item.kind) for item in sent.items] == [(len(each), TBSN) for each in placed]
    used: list[int] = []
    for item, each in zip(sent.items, placed, strict=True):
        assert whole[item.position : item.position + item.length] == each, "a position is one of the whole stream"
        numbers = [number for number in item.where if isinstance(number, int)]
        assert pages(heard, numbers)[: item.length] == each
        used += numbers
    assert used == sorted(set(used))
    assert sent.count == len(heard)


@pytest.mark.req("RT-7", "RT-24")
def test_arguments_and_results_by_rdma_have_memory_of_their_own() -> None:
    peer = TransmissionPeer(Role.CLIENT, EXACT, preference=Preference.EXPLICIT)
    data = [DATA[:5000], DATA[5000:12_000], DATA[12_000:14_000]]
    peer.endpoint.call(XID, message(XID, 0, *((b"plain...", each) for each in data)), ReplyBound(64, (5000, 9000)))
    (heard,) = peer.heard()
    sent = Sent(heard)
    assert [(item.position, item.length, item.kind) for item in sent.items] == [
        (20, 5000, EXRW), (5032, 7000, EXRW), (12_044, 2000, EXRW)
    ]  # fmt: skip
    for item, each in zip(sent.items, data, strict=True):
        (segment,) = item.where
        assert isinstance(segment, tuple)
        assert peer.endpoint_pd.find(segment[0], segment[2], segment[1], Access.REMOTE_READ) == each
    assert [direction.kind for direction in sent.directions] == [EXRW] * 2
    assert [[length for _, length, _ in direction.segments] for direction in sent.directions] == [[5000], [9000]]
    assert len({handle for direction in sent.directions for handle, _, _ in direction.segments}) == 2


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


@pytest.mark.req("RT-26")
@each_case("preference", [Preference.CHOICE, Preference.BY_SIZE])
def test_memory_that_was_offered_in_vain_is_out_of_reach_when_the_result_came_in_segments(
    preference: Preference,
) -> None:
    peer = TransmissionPeer(Role.CLIENT, EXACT, preference=preference)
    peer.call(XID, result=9000)
    (heard,) = peer.heard()
    ((handle, _, _),) = Sent(heard).directions[0].segments
    assert handle in peer.endpoint_pd.regions
    peer.response(words(XID, 1, 9000), in_segments(12, 9000, 0, 1, 2), data=DATA[:9000])
    assert peer.ended() == [(XID, words(XID, 1))]
    assert not peer.endpoint_pd.regions


# Requests that a server gets


@pytest.mark.req("RT-23", "RT-6")
def test_items_in_segments_and_by_rdma_are_mixed_in_one_request() -> None:
    peer = TransmissionPeer(Role.SERVER, EXACT)
    memory = bytearray(DATA[:2000])
    region = peer.pd.register(memory, Access.REMOTE_READ)
    first, third = DATA[3000:8000], DATA[9000:9100]
    peer.request(
        words(XID, 0, 5000, 2000, 100),
        in_segments(12, 5000, 0, 1),
        by_rdma(5016, 2000, (region.handle, 2000, region.offset)),
        in_segments(7020, 100, 2),
        data=first + bytes(2 * PAGE - 5000) + third,
    )
    incoming = peer.arrived()
    incoming.decoder.octets(8, "start")
    assert [bytes(incoming.decoder.bulk(1 << 20, "item")) for _ in range(3)] == [first, bytes(memory), third]
    assert peer.endpoint.statistics.rdma_reads == 1


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


@pytest.mark.req("RT-24")
def test_each_result_is_named_by_its_position_in_the_whole_response() -> None:
    asked = Asked((1, TBSN, 0), (1, EXRW, 5000), (1, TBSN, 0))
    sent = Sent(asked.reply(DATA[:4097], DATA[5000:9001], DATA[:30])[0])
    assert [(item.position, item.length) for item in sent.items] == [(12, 4097), (4116, 4001), (8124, 30)]


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

HEADER = words(XID, 0, 2, 100_003, 3, 6, 0, 5) + b"name\0\0\0\0" + words(0, 0)
"""Of a call: the credential of 5 octets is padded, the verifier is empty."""
START = len(HEADER)
CALL = HEADER + b"argument"
END = len(CALL)
RESULT = bytes(range(256)) * 16
IN_SEGMENTS = words(1, TBSN)
"""A direction for results of any length."""
PLACED, NOTHING = (TBSN, len(RESULT)), (NOITEM, 0)


def directions(*ranges: tuple[int, int], each: bytes = IN_SEGMENTS) -> bytes:
    """Sets of one direction."""
    return array(*(words(begin, end, 1) + each for begin, end in ranges))


def answered(peer: TransmissionPeer, result: bytes = RESULT) -> list[tuple[int, int]]:
    """The kind and length of each item of the answer to the call that the peer has made, with a result."""
    peer.endpoint.reply(peer.arrived(), message(XID, 1, (b"response", result)))
    (heard,) = peer.heard()
    peer.endpoint_events()
    sent = Sent(heard)
    in_place = any(item.kind != NOITEM for item in sent.items)
    assert len(sent.payload) == 8 + len(b"response") + 4 + (0 if in_place else len(result))
    return [(item.kind, item.length) for item in sent.items]


@pytest.mark.req("RT-7", "RT-9", "RT-27")
@each_case(
    ("ranges", "items"),
    [
        ([(8, END)], [PLACED]),
        ([(START, 0xFFFFFFFF)], [PLACED]),
        ([(0, START)], [NOTHING]),
        ([(START + 4, END)], [PLACED]),
        ([(START, START + 4), (START + 4, END)], [PLACED, NOTHING]),
        ([(0, 4), (4, 8), (8, END), (END, END + 4)], [NOTHING, NOTHING, PLACED, NOTHING]),
    ],
)
def test_ranges_with_arguments_are_for_the_results(ranges: list[tuple[int, int]], items: list[tuple[int, int]]) -> None:
    peer = TransmissionPeer(Role.SERVER)
    peer.request(CALL, directions=directions(*ranges))
    assert answered(peer) == items


@pytest.mark.req("RT-9")
@each_case(("more", "item"), [(0, NOTHING), (-1, PLACED), (-PAGE, PLACED)])
def test_positions_count_the_items_that_the_request_has_elsewhere(more: int, item: tuple[int, int]) -> None:
    peer = TransmissionPeer(Role.SERVER)
    start = END + 4
    asked = directions((start + PAGE + more, 0xFFFFFFFF))
    peer.request(CALL + words(PAGE - 3), in_segments(start, PAGE - 3, 0), directions=asked, data=bytes(PAGE - 3))
    assert answered(peer) == [item]


COMPOUND = """
struct op { unsigned int most; };
struct calls { op list<8>; };
struct answer { opaque data<>; };
pragma limit answer.data 65536;
pragma ddp answer.data;
union result switch (bool found) { case TRUE: answer one; case FALSE: void; };
struct results { result list<8>; };
pragma pairs results.list calls.list;
program P { version V { results RUN(calls) = 1; } = 1; } = 7;
"""


@pytest.mark.req("RT-27")
@each_case(
    ("found", "counts", "kinds"),
    [
        ((1, 1, 1), (1, 1, 1), [TBSN, TBSN, TBSN]),
        ((0, 1, 1), (1, 1, 1), [NOITEM, TBSN, TBSN]),
        ((1, 0, 1), (2, 0, 1), [TBSN, NOITEM, TBSN]),
        ((1, 1, 0), (1, 1, 1), [TBSN, TBSN, NOITEM]),
    ],
)
def test_results_of_paired_arguments_follow_the_directions_for_their_argument(
    found: tuple[int, ...], counts: tuple[int, ...], kinds: list[int]
) -> None:
    module = load(COMPOUND)
    peer = TransmissionPeer(Role.SERVER)
    start = START + 4
    sets = [
        words(start + 4 * n, start + 4 * n + 4, count) + IN_SEGMENTS * count for n, count in enumerate(counts) if count
    ]
    peer.request(HEADER + words(3, 100, 200, 300), directions=array(*sets), extra=2)
    call = peer.arrived()
    call.decoder.pos += START
    assert [one.most for one in module.decode_calls(call.decoder).list] == [100, 200, 300]
    reply = Encoder()
    reply.reduced += words(XID, 1)
    data = [DATA[n * 1000 :][: 100 * n] for n in (1, 2, 3)]
    answers = [module.result(bool(has), module.answer(data[n]) if has else None) for n, has in enumerate(found)]
    module.encode_results(reply, module.results(answers))
    peer.endpoint.reply(call, reply)
    heard = peer.heard()
    sent = Sent(heard[0])
    assert [item.kind for item in sent.items] == kinds
    placed = [item for item in sent.items if item.kind == TBSN]
    for item, each in zip(placed, [each for each, has in zip(data, found, strict=True) if has], strict=True):
        numbers = [number for number in item.where if isinstance(number, int)]
        assert pages(heard, numbers)[: item.length] == each


@pytest.mark.req("RT-7")
@each_case(("begin", "written"), [(START, True), (END, False)])
def test_memory_of_a_range_without_the_arguments_is_not_written(begin: int, written: bool) -> None:
    peer = TransmissionPeer(Role.SERVER)
    memory = bytearray(len(RESULT))
    region = peer.pd.register(memory, Access.REMOTE_WRITE)
    explicit = words(1, EXRW, 1) + struct.pack(">IIQ", region.handle, region.length, region.offset)
    peer.request(CALL, directions=directions((begin, 0xFFFFFFFF), each=explicit))
    assert answered(peer) == [(EXRW, len(RESULT)) if written else NOTHING]
    assert (bytes(memory) == RESULT) == written


@pytest.mark.req("RT-7")
def test_a_result_for_which_memory_is_short_is_refused_by_the_number_of_its_direction() -> None:
    peer = TransmissionPeer(Role.SERVER)
    explicit = words(1, EXRW, 1) + struct.pack(">IIQ", 1, 100, 0)
    sets = array(words(0, 8, 1) + IN_SEGMENTS, words(8, END, 1) + explicit)
    peer.request(CALL, directions=sets)
    peer.endpoint.reply(peer.arrived(), message(XID, 1, (b"response", RESULT)))
    (refused,) = peer.heard()
    assert (refused.kind, refused.body) == (4, words(8, 2, len(RESULT)))
