"""A server's endpoint with the round-trip extension against a client that sends any transmissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rpcrdma import limits
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
    CHOICE,
    EXRW,
    HEAD,
    OCTETS,
    PAGE,
    REPTERR,
    TBSN,
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

ERROR, INVAL_FLAG = 4, 4


def refuses_flags(peer: TransmissionPeer, *xids: int) -> None:
    """The endpoint answers these with INVAL_FLAG, runs nothing, and goes on."""
    heard = peer.heard()
    assert [(each.xid, each.kind, each.response, each.body) for each in heard] == [
        (xid, ERROR, True, words(INVAL_FLAG)) for xid in xids
    ]
    assert peer.endpoint_events() == []
    peer.assert_nothing_held()
    assert peer.endpoint.calls_in_flight == 0


CALL = words(XID, 0)
OTHER = XID + 1
LEAD = (XID, 0, 0)


def server(config: TransportConfig | None = None, **options) -> TransmissionPeer:
    return TransmissionPeer(Role.SERVER, config, **options)


def refused(peer: TransmissionPeer, report: Report) -> None:
    """The endpoint reports that, and goes on."""
    assert peer.reported() == report
    assert peer.endpoint_events() == []
    assert peer.endpoint.calls_in_flight == 0
    peer.assert_serves()


Act = Callable[[TransmissionPeer], None]

# What comes instead of the second of three transmissions: an act, what is reported of it, the code and its words.
WITHIN_A_GROUP: dict[str, tuple[Act, tuple[int, int, int], int, tuple[int, ...]]] = {
    "a call": (lambda peer: peer.plain_call(OTHER), (OTHER, 0, 0), BADHMT, (XMTCONT, 0)),
    "a reply": (lambda peer: peer.plain_reply(OTHER), (OTHER, 1, 0), BADHMT, (XMTCONT, 0)),
    "an error": (
        lambda peer: peer.put(OTHER, 4, words(10), response=True),
        (OTHER, 1, 0), BADHMT, (XMTCONT, 4),
    ),
    "a type that none has": (lambda peer: peer.put(OTHER, 0x7777), (OTHER, 0, 0), BADHMT, (XMTCONT, 0x7777)),
    "another request": (
        lambda peer: peer.request(words(OTHER, 0), xid=OTHER), (OTHER, 0, 0), BADOMT, (XMTCONT, XMTREQ)
    ),
    "another XID": (lambda peer: peer.go_on(1, xid=OTHER), (OTHER, 0, 1), BADXID, (XID, OTHER)),
    "a huge number": (lambda peer: peer.go_on(0xFFFFFFFF), (XID, 0, 0xFFFFFFFF), BADSEQ, (1, 0xFFFFFFFF)),
    "what continues a response": (
        lambda peer: peer.go_on(1, begun_by=XMTRESP), (XID, 0, 1), BADOMT, (XMTREQ, XMTRESP)
    ),
    "more payload than there is": (lambda peer: peer.go_on(1, b"four", length=5), (XID, 0, 1), BADPL, (5, 0, 4)),
    "a huge payload": (
        lambda peer: peer.go_on(1, b"four", length=0xFFFFFFFF, data=bytes(8)),
        (XID, 0, 1), BADPL, (0xFFFFFFFF, 0, HEAD + 8 - 32),
    ),
}  # fmt: skip


@pytest.mark.req("RT-2", "RT-13", "RT-14", "RT-33")
@each_case("what", WITHIN_A_GROUP)
def test_what_does_not_continue_a_group_breaks_it(what: str) -> None:
    act, bad, code, values = WITHIN_A_GROUP[what]
    peer = server()
    peer.request(CALL, count=3, data=b"data" * 1000)
    peer.heard()
    act(peer)
    assert peer.reported() == Report(bad, LEAD, code, values)
    # Further messages of either are not used, and not refused.
    for xid in {XID, bad[0]}:
        peer.go_on(1, xid=xid, data=bytes(100))
        peer.go_on(2, xid=xid)
    assert peer.heard() == []
    assert peer.endpoint_events() == []
    assert peer.endpoint.calls_in_flight == 0
    peer.assert_serves()


def segment(peer: TransmissionPeer, length: int) -> tuple[int, int, int]:
    region = peer.pd.register(bytearray(range(256)) * (length // 256 + 1), Access.REMOTE_READ)
    return region.handle, length, region.offset


# Two pages and 100 octets of data come with each.
REQUESTS: list[tuple[dict[str, Any], tuple[bytes, ...], int, tuple[int, ...]]] = [
    ({"count": 0}, (), BADSEQ, (limits.RTR_TRANSMISSIONS_MAX, 0)),
    ({"length": 0xFFFFFFFF, "data": b""}, (), BADPL, (0xFFFFFFFF, 0, 8)),
    ({"directions": array(words(0, 8, 0), words(4, 12, 0))}, (), BADOFF, (4, 8, 0xFFFFFFFF)),
    ({}, (in_segments(8, 10, 0xFFFFFFFF),), BADTBSN, (0xFFFFFFFF, 0, 2)),
    ({}, (in_segments(8, 5000, 0, 1), in_segments(5008, 10, 1)), BADOFF, (0, 904, 4095)),
    ({}, (in_segments(8, 10, 0, offset=0xFFFFFFFF),), BADOFF, (0xFFFFFFFF, 0, 4095)),
    ({}, (in_segments(8, 3 * PAGE, 0, 1, 2),), BADPL, (3 * PAGE, 0, 2 * PAGE + 100)),
    ({}, (in_segments(8, 0xFFFFFFFF, 0, 1, 2),), BADPL, (0xFFFFFFFF, 0, 3 * PAGE)),
    ({}, (in_segments(0xFFFFFFFC, 10, 0),), BADOFF, (0xFFFFFFFC, 0, 8)),
    ({}, (by_rdma(4, 0), in_segments(4, 10, 1)), BADOFF, (4, 8, 8)),
    ({}, (by_rdma(8, 9, (1, 4, 0), (2, 4, 0)),), BADPL, (9, 0, 8)),
]


@pytest.mark.req("RT-5", "RT-9", "RT-11", "RT-12", "RT-14")
@each_case(("parts", "items", "code", "values"), REQUESTS)
def test_a_request_with_a_fault_is_reported(
    parts: dict[str, Any], items: tuple[bytes, ...], code: int, values: tuple[int, ...]
) -> None:
    """Each kind of fault once: tests of groups have every fault at its bound."""
    peer = server()
    peer.request(CALL, *items, **{"data": bytes(2 * PAGE + 100)} | parts)
    refused(peer, Report(LEAD, None, code, values))


@pytest.mark.req("RT-1", "RT-14", "RT-30", "RT-31")
def test_a_payload_that_does_not_begin_in_the_first_transmission_is_reported() -> None:
    peer = server()
    peer.request(b"", count=3)
    peer.go_on(1)
    assert peer.heard() == []
    peer.go_on(2, CALL)
    refused(peer, Report((XID, 0, 2), LEAD, BADPL, (len(CALL), 0, 0)))


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


@pytest.mark.req("RT-6", "RT-32")
@each_case(
    "body",
    [
        b"",
        words(1),
        words(0xFFFFFFFF) + bytes(2000),
        words(1, 8, 4, TBSN, 0, 0xFFFFFFFF) + bytes(2000),
        words(1, 8, 4, EXRW, 0xFFFFFFFF) + bytes(2000),
        array(words(8, 4, CHOICE, 0)) + words(0, 1, 0, 8) + CALL,
        words(0, 1, 0, 8, limits.RTR_ITEMS_MAX + 1) + bytes(2000),
        # Another XID in the call, a reply instead of a call, and nothing.
        words(0, 0, 1, 0, 8) + words(OTHER, 0),
        words(0, 0, 1, 0, 8) + words(XID, 1),
        words(0, 0, 1, 0, 0),
    ],
)
def test_a_request_that_is_no_such_message_is_an_unreadable_header(body: bytes) -> None:
    peer = server()
    peer.padded(XID, XMTREQ, body, bytes(100) if body else b"", response=False)
    (heard,) = peer.heard()
    assert (heard.xid, heard.kind, heard.body) == (XID, 4, words(2))
    # The rest of the group is not complained about.
    peer.go_on(1, data=bytes(100))
    assert peer.heard() == []
    peer.assert_nothing_held()
    peer.assert_serves()


@pytest.mark.req("RT-4")
def test_reports_are_never_answered() -> None:
    """About calls that were never made, about replies, malformed, twice, and within a group."""
    peer = server()
    bodies = [words(XID, way, 0, 0, BADCONT) for way in (0, 1)]
    bodies += [words(XID, 0, 0, 1, XID, 0, 1, BADSEQ, 1, 2), words(XID, 0, 0, 0, BADPL, 1, 2, 3)]
    bodies += [b"", words(XID), words(XID, 2, 0, 0, BADCONT), words(XID, 0, 0, 2, BADCONT), words(XID, 0, 0, 0, 9)]
    bodies += [words(XID, 0, 0, 0, BADCONT, 1), words(XID, 0, 0, 0, BADSEQ), bytes(3000), bytes(6000)]
    peer.request(CALL, count=2)
    for body in bodies * 2:
        for response in (False, True):
            peer.put(XID, REPTERR, body, response=response)
    peer.send(peer.header(XID, REPTERR)[:16] + words(0xFFFFFFFC) + bodies[0])
    assert peer.heard() == []
    peer.go_on(1)
    peer.endpoint.reply(peer.arrived(), message(XID, 1))
    assert [heard.xid for heard in peer.heard()] == [XID]
    assert peer.endpoint.statistics.reports_received == 4 * 4 + 1
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


@pytest.mark.req("RT-10")
@each_case("structure", [b"", words(OCTETS, 1, 1, OCTETS - 1, 0, 1), words(OCTETS, 0xFFFFFFFF)])
def test_a_structure_that_is_none_is_an_invalid_property(structure: bytes) -> None:
    peer = server(structure=structure)
    assert not peer.ready
    assert [(heard.kind, heard.body) for heard in peer.introduced][-1:] == [(4, words(2))]


@pytest.mark.req("RT-1", "RT-15")
def test_what_stands_before_items_is_zero() -> None:
    """Any state of the buffers and the memory of this side before."""
    peer = server()
    secret = b"secret!!" * 500
    for xid in range(1, 9):
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


@each_case("kind", [XMTREQ, XMTRESP])
def test_a_first_transmission_with_wrong_flags_breaks_the_group_in_which_it_comes(kind: int) -> None:
    peer = server()
    peer.request(CALL, count=3, data=bytes(100))
    peer.heard()
    body = words(0, 0, 1, 0, 8) if kind == XMTREQ else words(0, 1, 8)
    peer.put(OTHER, kind, body + words(OTHER, int(kind == XMTRESP)), response=kind == XMTREQ)
    refuses_flags(peer, *([XID] if kind == XMTREQ else [XID, OTHER]))
    peer.assert_serves()
