"""Calls as a carrier takes them, and the groups that they make, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpcrdma.rtr.config import Costs, Preference
from rpcrdma.rtr.layout import Peer, runs_of
from rpcrdma.rtr.messages import (
    XMTCONT,
    XMTREQ,
    InSegments,
    TransmitRequest,
    decode_transmit_continue,
    decode_transmit_request,
)
from rpcrdma.rtr.properties import BufferStructure, SegmentKind, Support
from rpcrdma.rtr.requests import RequestCarrier, SentCall
from rpcrdma.transport import NO_CHUNKS, CallToCarry, ChunkLists, PlanLimits, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects.dialect import Geometry
from rpcrdma.xdr.codec import Payload
from rtr_link import PREFIX, Link, tried

__all__ = [
    "CARRYING",
    "EVERY",
    "HEAD",
    "PAGE",
    "PAGES",
    "WHOLE",
    "WITHOUT_RULE",
    "call",
    "calls",
    "exposed",
    "first_header",
    "limits",
    "peer",
    "taken",
]

HEAD, PAGE, PAGES = 256, 64, 4
WHOLE = HEAD + PAGES * PAGE
EVERY = 7


def peer(
    support: int = EVERY, *, pages: int = PAGES, requests_max: int = 8, responses_max: int = 8, octets: int = 0
) -> Peer:
    groups = [(1, SegmentKind(HEAD, 0, placeable=False))]
    if pages:
        groups.append((pages, SegmentKind(PAGE, 0, placeable=True)))
    structure = BufferStructure(HEAD + pages * PAGE, tuple(groups))
    return Peer(Support(support), octets or structure.octets, runs_of(structure), requests_max, responses_max)


def calls(
    preference: Preference = Preference.SEGMENTS,
    *,
    link: Link | None = None,
    own: Peer | None = None,
    other: Peer | None = None,
    costs: Costs | None = None,
    extra_room: int = 8,
) -> RequestCarrier:
    found: Any = link or Link()
    return RequestCarrier(
        found, own or peer(), other or peer(), preference, costs or Costs(transmission_s=0.0), 2 * extra_room
    )


def limits(**changes: int) -> PlanLimits:
    """Items from 16 octets on are worth to be moved; nothing goes in plain messages."""
    values = {
        "send_octets": WHOLE,
        "receive_octets": WHOLE,
        "segment_octets_max": 1 << 20,
        "direct_octets_min": 16,
        "read_chunks_max": 16,
        "call_octets_max": 0,
        "reply_octets_max": 0,
        "segments_max": 16,
    }
    return PlanLimits(geometry=Geometry(36, 44, 24, 8, 8, 16), **values | changes)  # type: ignore[arg-type]


def call(
    sent: Payload,
    results: Sequence[int] = (),
    *,
    plain: int = 40,
    given: int = 0,
    bounds: PlanLimits | None = None,
    room: int = 8,
    placement: str = "",
) -> CallToCarry:
    return CallToCarry(sent, plain, results, given, bounds or limits(), room, placement)


def taken(carrier: RequestCarrier, one: CallToCarry) -> SentCall:
    found = tried(carrier.take, one)
    assert found is not None
    assert not isinstance(found, Exception), found
    return found  # type: ignore[no-any-return]


def exposed(found: SentCall, sent: Payload, segment_octets: int = 1 << 20) -> ChunkLists:
    """The memory that a call exposes by its plan."""

    def segments(octets: int, handle: int) -> tuple[Segment, ...]:
        return tuple(
            Segment(handle, min(segment_octets, octets - start), start) for start in range(0, octets, segment_octets)
        )

    plan = found.plan
    if not plan.read_items and not plan.write_chunks:
        return NO_CHUNKS
    items = sent.items
    return ChunkLists(
        tuple(ReadChunk(items[at].position, segments(len(items[at].data), 100 + at)) for at in plan.read_items),
        tuple(WriteChunk(segments(octets, 200 + at)) for at, octets in enumerate(plan.write_chunks)),
    )


def first_header(found: SentCall, sent: Payload, segment_octets: int = 1 << 20) -> TransmitRequest:
    """Of the group that a call makes, whose transmissions are taken apart and are of the call."""
    group = tried(found.transmissions, exposed(found, sent, segment_octets))
    assert isinstance(group, list), group
    messages = [bytes(PREFIX) + b"".join(each.body) for each in group]
    request, start = decode_transmit_request(messages[0], PREFIX)
    stream = messages[0][start : start + request.payload_octets]
    assert [each.header_type for each in group] == [XMTREQ] + [XMTCONT] * (len(group) - 1)
    assert not any(each.answers for each in group)
    assert request.count == len(group)
    for number, octets in enumerate(messages[1:], 1):
        further, start = decode_transmit_continue(octets, PREFIX)
        assert (further.number, further.begun_by) == (number, XMTREQ)
        stream += octets[start : start + further.payload_octets]
    pages = b"".join(octets[HEAD:WHOLE].ljust(WHOLE - HEAD, b"?") for octets in messages)
    whole = b"".join(bytes(part) for part in sent.gather())
    # Each item is put back at its Position.
    for position, length, where in request.items:
        data = whole[position : position + length]
        if isinstance(where, InSegments):
            assert where.offset == 0
            assert b"".join(pages[at * PAGE : at * PAGE + PAGE] for at in where.numbers)[:length] == data
        padded = data + bytes(-length & 3)
        stream = stream[:position] + padded + stream[position:]
    assert stream == whole
    assert all(len(octets) <= WHOLE for octets in messages)
    return request


CARRYING = [each for each in Preference if each is not Preference.RDMA]
WITHOUT_RULE = [each for each in CARRYING if each is not Preference.AUTO]
