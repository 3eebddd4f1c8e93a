"""A server's endpoint with the round-trip extension against a client that sends any transmissions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import Role, TransportConfig
from rpcrdma.verbs import Access
from support.cases import each_case
from support.octets import words
from transmission_peer import (
    BADCONT,
    BADHMT,
    BADOFF,
    BADOMT,
    BADPL,
    BADSEQ,
    BADTBSN,
    BADXID,
    BYSIZE,
    CHOICE,
    DRAFTS,
    EXRW,
    HEAD,
    NOITEM,
    OCTETS,
    PAGE,
    REPTERR,
    TBSN,
    TOOSHORT,
    XID,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    Report,
    TransmissionPeer,
    array,
    by_rdma,
    in_segments,
)

CALL = words(XID, 0)
ERROR, INVAL_FLAG = 4, 4
LEAD = (XID, 0, 0)
BOTH_DRAFTS = pytest.mark.parametrize("draft", DRAFTS)


def server(draft: str = "2", config: TransportConfig | None = None, **options) -> TransmissionPeer:
    return TransmissionPeer(Role.SERVER, draft, config, **options)


def refused(peer: TransmissionPeer, report: Report) -> None:
    """The endpoint reports that, and goes on."""
    assert peer.reported() == report
    assert peer.endpoint_events() == []
    assert peer.endpoint.calls_in_flight == 0
    peer.assert_serves()


Act = Callable[[TransmissionPeer], None]

# The message that comes instead of the second of three transmissions.
WITHIN_A_GROUP: dict[str, tuple[Act, Report]] = {
    "a call": (
        lambda peer: peer.plain_call(XID + 1),
        Report((XID + 1, 0, 0), LEAD, BADHMT, (XMTCONT, -1)),
    ),
    "a reply": (
        lambda peer: peer.plain_reply(XID + 1),
        Report((XID + 1, 1, 0), LEAD, BADHMT, (XMTCONT, -1)),
    ),
    "an error": (
        lambda peer: peer.put(XID + 1, 4, words(10) if peer.draft == "2" else words(100), response=True),
        Report((XID + 1, 1, 0), LEAD, BADHMT, (XMTCONT, 4)),
    ),
    "a type that no version and no extension has": (
        lambda peer: peer.put(XID + 1, 0x7777),
        Report((XID + 1, 0, 0), LEAD, BADHMT, (XMTCONT, 0x7777)),
    ),
    "another request": (
        lambda peer: peer.request(words(XID + 1, 0), xid=XID + 1),
        Report((XID + 1, 0, 0), LEAD, BADOMT, (XMTCONT, XMTREQ)),
    ),
    "the same request": (
        lambda peer: peer.request(CALL),
        Report(LEAD, LEAD, BADOMT, (XMTCONT, XMTREQ)),
    ),
    "a response": (
        lambda peer: peer.response(words(XID + 1, 1), xid=XID + 1),
        Report((XID + 1, 1, 0), LEAD, BADOMT, (XMTCONT, XMTRESP)),
    ),
    "another XID": (
        lambda peer: peer.go_on(1, xid=XID + 1),
        Report((XID + 1, 0, 1), LEAD, BADXID, (XID, XID + 1)),
    ),
    "the number 0": (lambda peer: peer.go_on(0), Report((XID, 0, 0), LEAD, BADSEQ, (1, 0))),
    "the number 2": (lambda peer: peer.go_on(2), Report((XID, 0, 2), LEAD, BADSEQ, (1, 2))),
    "a huge number": (lambda peer: peer.go_on(0xFFFFFFFF), Report((XID, 0, 0xFFFFFFFF), LEAD, BADSEQ, (1, 0xFFFFFFFF))),
    "what continues a response": (
        lambda peer: peer.go_on(1, begun_by=XMTRESP),
        Report((XID, 0, 1), LEAD, BADOMT, (XMTREQ, XMTRESP)),
    ),
    "what continues nothing": (
        lambda peer: peer.go_on(1, begun_by=0),
        Report((XID, 0, 1), LEAD, BADOMT, (XMTREQ, 0)),
    ),
    "more payload than there is": (
        lambda peer: peer.go_on(1, b"four", length=5),
        Report((XID, 0, 1), LEAD, BADPL, (5, 0, 4)),
    ),
    "a huge payload": (
        lambda peer: peer.go_on(1, b"four", length=0xFFFFFFFF, data=bytes(8)),
        Report((XID, 0, 1), LEAD, BADPL, (0xFFFFFFFF, 0, -1)),
    ),
}


@BOTH_DRAFTS
@pytest.mark.req("RT-2", "RT-13", "RT-14", "RT-33")
@pytest.mark.parametrize("what", WITHIN_A_GROUP)
@pytest.mark.parametrize("data", [b"", b"data" * 1000], ids=["", "with data"])
def test_what_does_not_continue_a_group_breaks_it(draft: str, what: str, data: bytes) -> None:
    act, expected = WITHIN_A_GROUP[what]
    peer = server(draft)
    peer.request(CALL, count=3, data=data)
    peer.heard()
    act(peer)
    prefix = 20 if draft == "2" else 16
    if expected.values[-1] == -1:
        # These depend on the draft: the type of a base message, and the octets after the header.
        base = {"a call": (0, 10), "a reply": (0, 13)}.get(what)
        last = base[draft != "2"] if base else HEAD + 8 - prefix - 12
        expected = expected._replace(values=(*expected.values[:-1], last))
    report = peer.reported()
    assert report == expected
    # Further messages of either are not used, and not refused.
    for xid in {XID, report.bad[0]}:
        peer.go_on(1, xid=xid, data=data)
        peer.go_on(2, xid=xid)
    assert peer.heard() == []
    assert peer.endpoint_events() == []
    peer.assert_nothing_held()
    assert peer.endpoint.calls_in_flight == 0
    peer.assert_serves()


@BOTH_DRAFTS
@pytest.mark.req("RT-2")
@each_case("begun_by", [XMTREQ, XMTRESP, 0])
def test_a_continuation_without_a_group_is_reported(draft: str, begun_by: int) -> None:
    peer = server(draft)
    peer.go_on(3, begun_by=begun_by, data=bytes(100))
    refused(peer, Report((XID, int(begun_by == XMTRESP), 3), None, BADCONT, ()))


@BOTH_DRAFTS
@pytest.mark.req("RT-11", "RT-14")
@each_case("count", [0, limits.RTR_TRANSMISSIONS_MAX + 1, 0xFFFFFFFF])
def test_a_request_of_too_many_transmissions_or_none_is_reported(draft: str, count: int) -> None:
    peer = server(draft)
    peer.request(CALL, count=count, data=bytes(100))
    refused(peer, Report(LEAD, None, BADSEQ, (limits.RTR_TRANSMISSIONS_MAX, count)))


def segment(peer: TransmissionPeer, length: int) -> tuple[int, int, int]:
    region = peer.pd.register(bytearray(range(256)) * (length // 256 + 1), Access.REMOTE_READ)
    return region.handle, length, region.offset


ITEMS: dict[str, tuple[list[bytes], int, tuple[int, tuple[int, ...]]]] = {
    # Two pages and 100 octets of data come with each.
    "a segment beyond the buffer": ([in_segments(8, 10, 3)], 0, (BADTBSN, (3, 0, 2))),
    "a huge number": ([in_segments(8, 10, 0xFFFFFFFF)], 0, (BADTBSN, (0xFFFFFFFF, 0, 2))),
    "numbers twice": ([in_segments(8, 5000, 0, 0)], 0, (BADTBSN, (0, 1, 2))),
    "numbers that decrease": ([in_segments(8, 5000, 1, 0)], 0, (BADTBSN, (0, 2, 2))),
    "items that overlap": ([in_segments(8, 5000, 0, 1), in_segments(5008, 10, 1)], 0, (BADOFF, (0, 904, 4095))),
    "items in the wrong order": ([in_segments(8, 10, 1), in_segments(20, 10, 0)], 0, (BADTBSN, (0, 1, 2))),
    "items in the same place": ([in_segments(8, 4096, 0), in_segments(4104, 4096, 0)], 0, (BADTBSN, (0, 1, 2))),
    "an offset beyond the segment": ([in_segments(8, 10, 0, offset=4096)], 0, (BADOFF, (4096, 0, 4095))),
    "a huge offset": ([in_segments(8, 10, 0, offset=0xFFFFFFFF)], 0, (BADOFF, (0xFFFFFFFF, 0, 4095))),
    "more than its segments have": ([in_segments(8, 4097, 0)], 0, (BADPL, (4097, 0, 4096))),
    "more than the rest of its segment": ([in_segments(8, 4096, 0, offset=4)], 0, (BADPL, (4096, 0, 4092))),
    "no segments": ([in_segments(8, 4)], 0, (BADPL, (4, 0, 0))),
    "more than has come": ([in_segments(8, 3 * PAGE, 0, 1, 2)], 0, (BADPL, (3 * PAGE, 0, 2 * PAGE + 100))),
    "one octet more than has come": ([in_segments(8, 101, 2)], 0, (BADPL, (101, 0, 100))),
    "what begins behind all that has come": ([in_segments(8, 1, 2, offset=101)], 0, (BADPL, (1, 0, 0))),
    "a huge length": ([in_segments(8, 0xFFFFFFFF, 0, 1, 2)], 0, (BADPL, (0xFFFFFFFF, 0, 3 * PAGE))),
    "a position that is not aligned": ([in_segments(6, 10, 0)], 0, (BADOFF, (6, 0, 8))),
    "a position beyond the stream": ([in_segments(12, 10, 0)], 0, (BADOFF, (12, 0, 8))),
    "a huge position": ([in_segments(0xFFFFFFFC, 10, 0)], 0, (BADOFF, (0xFFFFFFFC, 0, 8))),
    "positions that decrease": ([in_segments(8, 10, 0), in_segments(4, 10, 1)], 0, (BADOFF, (4, 20, 20))),
    "positions within an item": ([in_segments(4, 10, 0), in_segments(12, 10, 1)], 0, (BADOFF, (12, 16, 20))),
    "a position twice": ([in_segments(4, 0, 0), in_segments(4, 10, 1)], 0, (BADOFF, (4, 8, 8))),
    "memory twice in a position": ([by_rdma(4, 0), in_segments(4, 10, 1)], 0, (BADOFF, (4, 8, 8))),
    "more than its memory": ([by_rdma(8, 9, (1, 4, 0), (2, 4, 0))], 0, (BADPL, (9, 0, 8))),
    "a range that ends before it begins": ([], 0, (BADOFF, (3, 4, 0xFFFFFFFF))),
}


@BOTH_DRAFTS
@pytest.mark.req("RT-5", "RT-14")
@each_case("what", ITEMS)
def test_items_that_are_not_where_they_are_said_to_be_are_reported(draft: str, what: str) -> None:
    items, _, (code, values) = ITEMS[what]
    peer = server(draft)
    directions = bytes(4) if items else array(words(4, 3, 0))
    peer.request(CALL, *items, directions=directions, data=bytes(2 * PAGE + 100))
    refused(peer, Report(LEAD, None, code, values))


@pytest.mark.req("RT-9", "RT-14")
@each_case(
    ("ranges", "values"),
    [
        ([(0, 8), (4, 12)], (4, 8, 0xFFFFFFFF)),
        ([(8, 12), (0, 4)], (0, 12, 0xFFFFFFFF)),
        ([(0, 8), (0, 8)], (0, 8, 0xFFFFFFFF)),
        ([(4, 4), (4, 8)], (4, 5, 0xFFFFFFFF)),
        ([(0, 0xFFFFFFFF), (0xFFFFFFFE, 0xFFFFFFFF)], (0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF)),
    ],
)
def test_ranges_of_directions_that_are_not_one_after_another_are_reported(
    ranges: list[tuple[int, int]], values: tuple[int, ...]
) -> None:
    peer = server()
    directions = array(*(words(begin, end, 1, 1, TBSN) for begin, end in ranges))
    peer.request(CALL, directions=directions, data=bytes(100))
    refused(peer, Report(LEAD, None, BADOFF, values))


@pytest.mark.req("RT-12", "RT-14")
@each_case(("length", "room"), [(9, 8), (0xFFFFFFFF, 8), (5000, 4096 - 20 - 20 + 100)])
def test_a_payload_that_is_not_all_in_its_transmission_is_reported(length: int, room: int) -> None:
    peer = server()
    peer.request(CALL, length=length, data=bytes(100) if room > 8 else b"")
    refused(peer, Report(LEAD, None, BADPL, (length, 0, room)))


@pytest.mark.req("RT-12", "RT-14")
def test_an_item_in_the_payload_is_reported() -> None:
    peer = server()
    # The payload goes 1,000 octets into the first placeable segment.
    start = HEAD - 20 - 20 - 24
    payload = CALL + bytes(start - 8 + 1000)
    for offset, fits in ((0, False), (999, False), (1000, True)):
        item = in_segments(8, 10, 0, offset=offset)
        peer.request(payload + bytes(12), item, length=len(payload))
        if fits:
            peer.endpoint.reply(peer.arrived(), message(XID, 1))
            peer.heard()
            peer.assert_nothing_held()
        else:
            refused(peer, Report(LEAD, None, BADOFF, (offset, 1000, 4095)))


@BOTH_DRAFTS
@pytest.mark.req("RT-1", "RT-14", "RT-30", "RT-31")
@each_case("count", [2, 3])
def test_a_payload_that_does_not_begin_in_the_first_transmission_is_reported(draft: str, count: int) -> None:
    peer = server(draft)
    peer.request(b"", count=count)
    if count == 3:
        peer.go_on(1)
        assert peer.heard() == []
    peer.go_on(count - 1, CALL)
    refused(peer, Report((XID, 0, count - 1), LEAD, BADPL, (len(CALL), 0, 0)))


@pytest.mark.req("RT-14")
def test_segments_of_a_transmission_in_which_nothing_was_put_have_no_data() -> None:
    """A short transmission has no placeable segments, but counts as one that has."""
    peer = server()
    peer.request(CALL, in_segments(8, 10, 3), count=2, data=bytes(100))
    peer.go_on(1, b"")
    refused(peer, Report((XID, 0, 1), LEAD, BADPL, (10, 0, 0)))
    peer.request(CALL, in_segments(8, 10, 0), count=2)
    peer.go_on(1, data=bytes(100))
    refused(peer, Report((XID, 0, 1), LEAD, BADPL, (10, 0, 0)))


def test_empty_items_and_segments_are_taken() -> None:
    peer = server()
    empty = [in_segments(8, 0), in_segments(12, 0, 0), by_rdma(16, 0), by_rdma(20, 4, (1, 0, 0), segment(peer, 4))]
    peer.request(CALL + bytes(8) + words(4), *empty, data=bytes(100))
    incoming = peer.arrived()
    incoming.decoder.octets(4, "start")
    assert [bytes(incoming.decoder.bulk(9, "item")) for _ in range(4)] == [b"", b"", b"", b"\0\1\2\3"]
    incoming.decoder.done("call")
    peer.endpoint.reply(incoming, message(XID, 1))
    peer.heard()
    peer.assert_nothing_held()
    peer.assert_serves()


def test_of_memory_for_an_item_only_as_much_is_read_as_the_item_has() -> None:
    peer = server()
    peer.request(CALL + words(300), by_rdma(12, 300, segment(peer, 256), segment(peer, 5000)))
    peer.run()
    incoming = peer.arrived()
    incoming.decoder.octets(8, "start")
    assert len(incoming.decoder.bulk(1000, "item")) == 300
    assert peer.endpoint.statistics.octets_read == 300
    peer.endpoint.reply(incoming, message(XID, 1))
    peer.heard()
    peer.assert_serves()


@pytest.mark.req("RT-32")
def test_an_item_of_another_length_than_the_stream_says_fails_in_the_decoder() -> None:
    for length in (99, 101, 2000):
        peer = server()
        peer.request(CALL + words(100), in_segments(12, length, 0), data=bytes(PAGE))
        incoming = peer.arrived()
        incoming.decoder.octets(8, "start")
        with pytest.raises(DecodeError):
            incoming.decoder.bulk(10_000, "item")
        peer.endpoint.fail_call(incoming)
        del incoming
        peer.heard()
        peer.assert_serves()


MALFORMED = {
    "nothing": b"",
    "items without end": words(1),
    "too many items": words(limits.RTR_ITEMS_MAX + 1) + bytes(2000),
    "a huge count of items": words(0xFFFFFFFF) + bytes(2000),
    "a huge count of numbers": words(1, 8, 4, TBSN, 0, 0xFFFFFFFF) + bytes(2000),
    "a huge count of segments": words(1, 8, 4, EXRW, 0xFFFFFFFF) + bytes(2000),
    "an item by choice": array(words(8, 4, CHOICE, 0)) + words(0, 1, 0, 8) + CALL,
    "an item by size": array(words(8, 4, BYSIZE, 0, 0)) + words(0, 1, 0, 8) + CALL,
    "an item that is too short": array(words(8, 4, TOOSHORT)) + words(0, 1, 0, 8) + CALL,
    "no item": array(words(8, 4, NOITEM)) + words(0, 1, 0, 8) + CALL,
    "a direction that is too short": words(0, 1, 0, 8, 1, 4, TOOSHORT, 1, 0, 8) + CALL,
    "too many directions": words(0, 1, 0, 8, limits.RTR_ITEMS_MAX + 1) + bytes(2000),
    "another XID in the call": words(0, 0, 1, 0, 8) + words(XID + 1, 0),
    "a reply instead of a call": words(0, 0, 1, 0, 8) + words(XID, 1),
    "an empty payload": words(0, 0, 1, 0, 0),
}


@BOTH_DRAFTS
@pytest.mark.req("RT-6", "RT-32")
@each_case("what", MALFORMED)
def test_a_request_that_is_no_such_message_is_an_unreadable_header(draft: str, what: str) -> None:
    peer = server(draft)
    peer.padded(XID, XMTREQ, MALFORMED[what], b"" if what == "nothing" else bytes(100), response=False)
    (heard,) = peer.heard()
    assert (heard.xid, heard.kind, heard.body) == (XID, 4, words(2) if draft == "2" else heard.body)
    # The rest of the group is not complained about.
    peer.go_on(1, data=bytes(100))
    assert peer.heard() == []
    peer.assert_nothing_held()
    peer.assert_serves()


@BOTH_DRAFTS
@pytest.mark.req("RT-4", "RT-32")
def test_a_continuation_that_is_cut_off_is_an_unreadable_header(draft: str) -> None:
    peer = server(draft)
    peer.request(CALL, count=2, data=bytes(100))
    peer.put(XID, XMTCONT, bytes(8))
    assert [(heard.xid, heard.kind) for heard in peer.heard()] == [(XID, 4)]
    peer.assert_nothing_held()
    peer.assert_serves()


@BOTH_DRAFTS
@pytest.mark.req("RT-4")
def test_reports_are_never_answered(draft: str) -> None:
    """About calls that were never made, about replies, malformed, twice, and within a group."""
    peer = server(draft)
    bodies = [words(XID, way, 0, 0, BADCONT) for way in (0, 1)]
    bodies += [words(XID, 0, 0, 1, XID, 0, 1, BADSEQ, 1, 2), words(XID, 0, 0, 0, BADPL, 1, 2, 3)]
    bodies += [b"", words(XID), words(XID, 2, 0, 0, BADCONT), words(XID, 0, 0, 2, BADCONT), words(XID, 0, 0, 0, 9)]
    bodies += [words(XID, 0, 0, 0, BADCONT, 1), words(XID, 0, 0, 0, BADSEQ), bytes(3000), bytes(6000)]
    peer.request(CALL, count=2)
    for body in bodies * 2:
        for response in (False, True):
            peer.put(XID, REPTERR, body, response=response)
    if draft == "2":
        peer.send(peer.header(XID, REPTERR)[:16] + words(0xFFFFFFFC) + bodies[0])
    assert peer.heard() == []
    peer.go_on(1)
    peer.endpoint.reply(peer.arrived(), message(XID, 1))
    assert [heard.xid for heard in peer.heard()] == [XID]
    assert peer.endpoint.statistics.reports_received == 4 * 4 + (draft == "2")
    peer.assert_serves()


def test_a_transmission_that_the_version_refuses_is_not_taken_for_part_of_the_next() -> None:
    """Its memory is not that of the next one, which is too short for any of its own."""
    peer = server()
    secret = b"secret!!" * 1000
    peer.send(peer.header(XID, XMTREQ)[:16] + words(4) + bytes(HEAD - 20) + secret)
    (heard,) = peer.heard()
    assert heard.kind == 4
    peer.request(CALL, in_segments(8, 100, 0))
    refused(peer, Report(LEAD, None, BADPL, (100, 0, 0)))
    peer.send(peer.header(XID, XMTREQ)[:16] + words(4) + bytes(HEAD - 20) + secret)
    peer.heard()
    peer.request(CALL, length=1000)
    refused(peer, Report(LEAD, None, BADPL, (1000, 0, 8)))


def test_a_header_that_is_longer_than_the_first_segment_is_read() -> None:
    peer = server()
    numbers = [words(8 + 4 * index, 0, TBSN, 0, 100, *range(100)) for index in range(12)]
    body = array(*numbers) + words(0, 1, 0, 8 + 48) + CALL + bytes(48)
    assert len(body) > HEAD
    peer.put(XID, XMTREQ, body)
    report = peer.reported()
    assert (report.code, report.values) == (BADOFF, (0, len(body) + 20 - HEAD, 4095))


@pytest.mark.req("RT-10")
@each_case(
    "structure",
    [
        b"",
        words(OCTETS),
        words(OCTETS, 0),
        words(OCTETS, 1, 1, OCTETS - 1, 0, 1),
        words(OCTETS, 1, 0, OCTETS, 0, 1),
        words(0, 1, 1, 0, 0, 1),
        words(OCTETS, 1, OCTETS, 1, 0, 1),
        words(OCTETS, 1, 1, OCTETS, 3, 1),
        words(OCTETS, 0xFFFFFFFF),
        words(0, 2, 0x80000000, 2, 0, 1, 0x80000000, 2, 0, 1),
    ],
)
def test_a_structure_that_is_none_is_an_invalid_property(structure: bytes) -> None:
    peer = server(structure=structure)
    assert not peer.ready
    assert [(heard.kind, heard.body) for heard in peer.introduced][-1:] == [(4, words(2))]


@BOTH_DRAFTS
@each_case("kind", [XMTRESP, XMTCONT])
def test_responses_to_no_call_are_discarded(draft: str, kind: int) -> None:
    peer = server(draft)
    if kind == XMTRESP:
        peer.response(words(XID, 1), in_segments(8, 100, 0), data=bytes(100))
    else:
        peer.response(words(XID, 1), count=2, data=bytes(100))
        peer.go_on(1, begun_by=XMTRESP, data=bytes(100))
    assert peer.heard() == []
    assert peer.endpoint_events() == []
    peer.assert_nothing_held()
    peer.assert_serves()


@pytest.mark.req("RT-1", "RT-15")
def test_what_stands_before_items_is_zero() -> None:
    """Any state of the buffers and the memory of this side before."""
    peer = server()
    secret = b"secret!!" * 500
    for xid in range(1, 40):
        peer.request(words(xid, 0, len(secret)), in_segments(12, len(secret), 0), xid=xid, data=secret)
        peer.endpoint.reply(peer.arrived(), message(xid, 1, (secret, None)))
        peer.heard()
        peer.request(words(xid, 0), xid=xid, directions=array(words(0, 8, 1, 1, TBSN)), extra=1)
        result = bytes([xid]) * (3 * PAGE + 5)
        peer.endpoint.reply(peer.arrived(), message(xid, 1, (b"plain...", result)))
        first, second = peer.heard()
        header = HEAD - 20
        end = 4 + 12 + 8 + 4 * 4 + 8 + 20
        assert first.body[end - 12 : end] == b"plain..." + words(len(result))
        assert first.body[end:header] == bytes(header - end)
        assert first.body[header:] == result[: 3 * PAGE]
        assert second.body[12:header] == bytes(header - 12)
        assert second.body[header:] == result[3 * PAGE :]
        peer.endpoint_events()


@BOTH_DRAFTS
@pytest.mark.req("RT-2", "RT-12", "RT-13")
def test_the_payloads_of_a_group_are_joined_wherever_they_are(draft: str) -> None:
    """In a short transmission, across segments, in none, and behind nothing but a header."""
    peer = server(draft)
    payload = CALL + bytes(index * 7 & 0xFF for index in range(20_000))
    cuts = [0, 100, 12_000, 12_000, 12_001, len(payload)]
    parts = [payload[start:end] for start, end in itertools.pairwise(cuts)]
    peer.request(parts[0], count=len(parts))
    for number, part in enumerate(parts[1:], 1):
        assert peer.endpoint_events() == []
        peer.go_on(number, part)
    incoming = peer.arrived()
    assert incoming.decoder.octets(len(payload), "call") == payload
    incoming.decoder.done("call")
    peer.endpoint.reply(incoming, message(XID, 1))
    peer.heard()
    peer.assert_serves()


def refuses_flags(peer: TransmissionPeer, *xids: int) -> None:
    """The endpoint answers these with INVAL_FLAG, runs nothing, and goes on."""
    heard = peer.heard()
    assert [(each.xid, each.kind, each.response, each.body) for each in heard] == [
        (xid, ERROR, True, words(INVAL_FLAG)) for xid in xids
    ]
    assert peer.endpoint_events() == []
    peer.assert_nothing_held()
    assert peer.endpoint.calls_in_flight == 0


@pytest.mark.req("V2-51")
@pytest.mark.parametrize("data", [b"", bytes(4000)], ids=["", "with data"])
def test_a_request_whose_flags_say_that_it_answers_is_not_run_and_not_answered(data: bytes) -> None:
    peer = server()
    peer.padded(XID, XMTREQ, words(0, 0, 2, 0, 8) + CALL, data, response=True)
    assert peer.heard() == []
    assert peer.endpoint.statistics.discarded == 1
    # Its continuation is not refused.
    peer.go_on(1)
    refuses_flags(peer)
    peer.assert_serves()


@pytest.mark.req("V2-51")
def test_a_response_whose_flags_say_that_it_answers_nothing_is_refused() -> None:
    peer = server()
    peer.put(XID, XMTRESP, words(0, 1, 8) + words(XID, 1))
    refuses_flags(peer, XID)
    peer.assert_serves()


@pytest.mark.req("V2-51", "RT-13")
@pytest.mark.parametrize("data", [b"", bytes(4000)], ids=["", "with data"])
@pytest.mark.parametrize(
    ("xid", "begun_by", "response", "refused"),
    [
        (XID, XMTREQ, True, [XID]),
        (XID + 1, XMTREQ, True, [XID]),
    ],
)
def test_a_continuation_whose_flags_are_those_of_the_other_direction_breaks_its_group(
    data: bytes, xid: int, begun_by: int, response: bool, refused: list[int]
) -> None:
    peer = server()
    peer.request(CALL, count=3, data=data)
    peer.heard()
    peer.padded(xid, XMTCONT, words(1, begun_by, 0), data, response=response)
    refuses_flags(peer, *refused)
    for each in {XID, xid}:
        peer.go_on(2, xid=each, data=data)
    assert peer.heard() == []
    peer.assert_serves()


@pytest.mark.req("RT-2", "RT-14")
@pytest.mark.parametrize("data", [b"", bytes(4000)], ids=["", "with data"])
@pytest.mark.parametrize("response", [False, True])
@pytest.mark.parametrize(
    ("xid", "begun_by", "code", "values"),
    [
        (XID, XMTRESP, BADOMT, (XMTREQ, XMTRESP)),
        (XID, XMTCONT, BADOMT, (XMTREQ, XMTCONT)),
        (XID + 1, XMTRESP, BADXID, (XID, XID + 1)),
    ],
)
def test_a_continuation_of_another_first_type_is_reported_whatever_its_flags(
    data: bytes, response: bool, xid: int, begun_by: int, code: int, values: tuple[int, int]
) -> None:
    peer = server()
    peer.request(CALL, count=3, data=data)
    peer.heard()
    peer.padded(xid, XMTCONT, words(1, begun_by, 0), data, response=response)
    refused(peer, Report((xid, 0, 1), LEAD, code, values))


@each_case("kind", [XMTREQ, XMTRESP])
def test_a_first_transmission_with_wrong_flags_breaks_the_group_in_which_it_comes(kind: int) -> None:
    peer = server()
    peer.request(CALL, count=3, data=bytes(100))
    peer.heard()
    body = words(0, 0, 1, 0, 8) if kind == XMTREQ else words(0, 1, 8)
    peer.put(XID + 1, kind, body + words(XID + 1, int(kind == XMTRESP)), response=kind == XMTREQ)
    refuses_flags(peer, *([XID] if kind == XMTREQ else [XID, XID + 1]))
    peer.assert_serves()
