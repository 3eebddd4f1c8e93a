"""One end's handling of transmissions, step by step: calls and replies that they make up, reports, counters, memory."""

from __future__ import annotations

from typing import Any

from rpcrdma.errors import DecodeError, RemoteProtocolError
from rpcrdma.limits import CHUNK_SEGMENTS_MAX
from rpcrdma.rtr import RoundTripConfig
from rpcrdma.rtr.answers import DirectedReply
from rpcrdma.rtr.messages import (
    REPTERR,
    XMTCONT,
    XMTREQ,
    XMTRESP,
    DirectionSet,
    Explicit,
    InSegments,
    Item,
    Report,
    ReportCode,
    ResultDirection,
    TransmissionFault,
    TransmissionId,
    TransmitRequest,
    TransmitResponse,
    Way,
    encode_report,
    encode_transmit_request,
    encode_transmit_response,
)
from rpcrdma.rtr.properties import Support
from rpcrdma.rtr.requests import NOT_TAKEN
from rpcrdma.transport import Cause, ChunkLists, Inbound, Kind, Segment
from rtr_end import (
    CALLED,
    HEAD,
    NO_ITEMS,
    ONE,
    OTHER,
    REPLIED,
    SEGMENT,
    SLOT,
    End,
    begin,
    client,
    opened,
    reported,
    silent_about,
)
from rtr_link import pattern
from support.cases import each_case


def test_a_request_in_one_transmission_is_a_call() -> None:
    end = End()
    assert end.request() is None
    assert end.take() == [CALLED]
    end.request(extra_receives=1)
    assert end.take() == [("promised",), CALLED]
    assert end.statistics.groups_received == 2
    assert (end.statistics.items_in_segments, end.statistics.octets_in_segments) == (0, 0)
    assert end.statistics.calls_by_send == 0
    end.assert_nothing_held()


def test_a_response_is_a_reply_and_is_discarded_where_none_is_awaited() -> None:
    end = client()
    end.response()
    assert end.take() == [REPLIED]
    assert end.statistics.discarded == 0
    end.awaited.clear()
    end.response()
    assert end.take() == [REPLIED]
    assert (end.statistics.discarded, end.statistics.groups_received) == (1, 2)


def test_items_in_segments_are_handed_on_and_counted() -> None:
    end = End()
    data = pattern(SLOT + 10)
    items = (Item(4, 20, InSegments(0, (0, 1))), Item(24, 40, InSegments(2, (2, 3, 4))))
    end.request(items=items, count=2, data=data[:SLOT])
    # The head, the payload, and the slab as far as it was given out.
    assert end.take() == [("expect", True), ("hold", HEAD + 4 + SLOT)]
    end.go_on(1, data=data[SLOT:])
    expect, (step, xid, stream, chunks, (views, held, answer)) = end.take()
    assert (expect, step, xid, stream, chunks) == (("expect", False), "call", ONE, b"call", ChunkLists((), (), None))
    assert {at: bytes(view) for at, view in views.items()} == {4: data[:20], 24: data[34:74]}
    assert (held, answer) == (2 * SLOT, None)
    statistics = end.statistics
    assert (statistics.groups_received, statistics.items_in_segments, statistics.octets_in_segments) == (1, 2, 60)
    assert (statistics.items_joined, statistics.calls_by_send) == (0, 1)
    end.request(items=(Item(4, 20, InSegments(0, (0, 2))),), data=data[:SLOT])
    ((*_, incoming),) = end.take()
    assert bytes(incoming.placed[4]) == data[:16] + data[32:36]
    assert (statistics.items_in_segments, statistics.octets_in_segments, statistics.items_joined) == (3, 80, 1)
    assert incoming.held_octets == SLOT
    # Of a message without items nothing is kept.
    end.request(data=data[:SLOT])
    ((*_, incoming),) = end.take()
    assert incoming == NO_ITEMS
    del views, incoming
    end.assert_nothing_held()


def segments(count: int, octets: int = 4) -> tuple[Segment, ...]:
    return tuple(Segment(number, octets, 0) for number in range(count))


def test_arguments_end_behind_the_items_that_a_request_has_elsewhere() -> None:
    """The stream has four octets, the items seven and their padding, and four."""
    here = End()
    items = (Item(4, 7, Explicit(segments(2))), Item(12, 4, Explicit(segments(1))))
    here.request(items=items, directions=(DirectionSet(0, 16, (ResultDirection(1, Way.SEGMENTS),) * 2),))
    ((*_, incoming),) = here.take()
    assert isinstance(incoming.reply, DirectedReply)
    assert incoming.reply._arguments == (0, 16)


@each_case(
    ("extra", "responses_max", "support", "most"),
    [(0, 8, 7, 1), (1, 8, 7, 2), (7, 8, 7, 8), (8, 8, 7, 8), (100, 3, 7, 3), (7, 8, 3, 1), (7, 0, 7, None)],
)
def test_a_reply_has_the_transmissions_that_both_ends_allow(
    extra: int, responses_max: int, support: int, most: int | None
) -> None:
    config = RoundTripConfig(segment_octets=SEGMENT, responses_max=responses_max or 1)
    end = End(config=config, told={0x101: Support(support)})
    end.request(directions=(DirectionSet(0, 100, (ResultDirection(1, Way.SEGMENTS),)),), extra_receives=extra)
    *_, (*_, incoming) = end.take()
    assert incoming.reply._frames_max == (1 if most is None else most)


@each_case("more", [0, 1])
def test_a_request_names_so_many_segments_altogether(more: int) -> None:
    most = CHUNK_SEGMENTS_MAX
    end = End()
    direction = DirectionSet(0, 300, (ResultDirection(1, Way.CHOICE, segments(most - 100 + more)),))
    for items, directions in (
        ((Item(4, 4, Explicit(segments(100))),), (direction,)),
        ((Item(4, 4, Explicit(segments(most - 1))), Item(8, 4, Explicit(segments(1 + more)))), ()),
    ):
        end.request(items=items, directions=directions)
        (step,) = end.take()
        if more:
            assert step == ("refuse", ONE, Cause.SEGMENTS, most)
        else:
            assert step[0] == "call"
            assert step[3].count_segments() == most
    end.request(items=(Item(4, 4, Explicit(segments(most))),))
    assert [step for step, *_ in end.take()] == ["call"]


FAULTS = [
    ({"items": (Item(5, 0, InSegments(0, ())),)}, (ReportCode.OFFSET, 5, 0, 4)),
    ({"items": (Item(4, 1, InSegments(0, (0,))),)}, (ReportCode.PAYLOAD, 1, 0, 0)),
    ({"payload_octets": 5}, (ReportCode.PAYLOAD, 5, 0, 4)),
    ({"count": 0}, (ReportCode.SEQUENCE, 8, 0)),
    ({"count": 9}, (ReportCode.SEQUENCE, 8, 9)),
]


@each_case(("fields", "report"), FAULTS)
def test_a_transmission_with_a_fault_is_reported(fields: dict[str, Any], report: tuple[Any, ...]) -> None:
    end = End()
    end.request(**fields)
    assert end.take() == [reported(ONE, 0, 0, None, *report)]
    assert end.statistics.reports_sent == 1
    assert end.statistics.groups_received == 0
    end = client()
    end.response(**fields)
    assert end.take() == [("fail", ONE, TransmissionFault), reported(ONE, 1, 0, None, *report)]
    assert end.statistics.reports_sent == 1
    end.assert_nothing_held()


LEADS = each_case(("lead", "way"), [(XMTREQ, 0), (XMTRESP, 1)])


@LEADS
def test_a_fault_in_the_last_transmission_ends_its_group(lead: int, way: int) -> None:
    end = End()
    # More than has come, which shows when all of it is there.
    begin(end, lead, count=2, items=(Item(4, 5, InSegments(0, (4,))),), data=pattern(SLOT))
    end.take()
    end.go_on(1, ONE, lead, data=b"data")
    steps = end.take()
    assert [step for step in steps if step[0] != "expect"] == [
        *[("fail", ONE, TransmissionFault)] * way,
        reported(ONE, way, 1, (ONE, way, 0), ReportCode.PAYLOAD, 5, 0, 4),
    ]
    end.assert_nothing_held()
    assert end.statistics.groups_received == 0
    silent_about(end, ONE)


@LEADS
def test_a_continuation_that_cannot_be_read_ends_its_group(lead: int, way: int) -> None:
    for xid in (ONE, OTHER):
        end = opened(lead)
        error = end.put(XMTCONT, xid, bytes(8), b"", answers=bool(way))
        if way:
            assert error is None
            assert end.take() == [("expect", False), ("fail", ONE, DecodeError)]
        else:
            assert isinstance(error, DecodeError)
            assert end.take() == [("expect", False)]
        end.assert_nothing_held()
        silent_about(end, *{ONE, xid})


@LEADS
def test_a_first_transmission_that_cannot_be_read(lead: int, way: int) -> None:
    for body, data in ((bytes(4), b""), (b"\0\0\0\x11" + bytes(100), b""), (b"\0\0\0\x11" + bytes(100), b"data")):
        end = End()
        error = end.put(lead, ONE, body, data)
        if way:
            assert error is None
            assert end.take() == [("fail", ONE, DecodeError)]
        else:
            assert isinstance(error, DecodeError)
            assert end.take() == []
        silent_about(end, ONE)


def test_an_end_that_takes_no_calls_refuses_requests() -> None:
    end = client(takes_calls=False)
    end.request(count=2, data=b"data")
    assert end.take() == [("refuse", ONE, Cause.HEADER_TYPE, 0)]
    silent_about(end, ONE)
    end.response()
    assert end.take() == [REPLIED]
    # A request within a group is reported as anywhere else.
    end.response(count=2)
    end.take()
    end.request(OTHER)
    assert [step for step, *_ in end.take()] == ["expect", "fail", "report"]


@LEADS
@each_case("later", [0, 1])
def test_a_group_for_which_there_is_no_room_is_given_up(lead: int, way: int, later: int) -> None:
    each = HEAD + 4 + SLOT
    end = End(room=each * (1 + later) - 1)
    begin(end, lead, count=4, data=pattern(SLOT))
    if later:
        end.go_on(1, ONE, lead, b"more", data=pattern(SLOT))
    refused = ("fail", ONE, RemoteProtocolError) if way else ("refuse", ONE, Cause.SYSTEM, 0)
    assert end.take()[1:] == [("hold", each)] * (1 + later) + [("expect", False), refused]
    end.assert_nothing_held()
    silent_about(end, ONE)


@LEADS
@each_case("kind", sorted(set(Kind) - {Kind.GRANT}))
def test_another_message_breaks_an_open_group(lead: int, way: int, kind: Kind) -> None:
    end = opened(lead)
    data = bytes(12) + (0x77).to_bytes(4) + bytes(8)
    for header_type in (XMTREQ, XMTRESP, XMTCONT, REPTERR):
        assert end.between(Inbound(Kind.EXTENSION, OTHER, 0, 2, header_type=header_type), data) is False
    assert end.between(Inbound(Kind.GRANT, 0, 8, 2), data) is False
    assert end.take() == []
    assert end.between(Inbound(kind, OTHER, 0, 2, header_type=0x77), data) is True
    expect, *fails, report = end.take()
    assert expect == ("expect", False)
    other_way = int(kind in {Kind.REPLY, Kind.ERROR})
    assert sorted(fails) == [("fail", ONE, TransmissionFault)] * way + [("fail", OTHER, TransmissionFault)] * other_way
    code = ReportCode.OPTIONAL_TYPE if kind is Kind.EXTENSION else ReportCode.HEADER_TYPE
    assert report == reported(OTHER, other_way, 0, (ONE, way, 0), code, XMTCONT, 0x77)
    end.assert_nothing_held()
    silent_about(end, ONE, OTHER)


@each_case(
    ("bad", "lead", "plain"),
    [
        ((ONE, 0, 0), None, [ONE]),
        ((ONE, 1, 0), None, []),
        ((ONE, 0, 1), (OTHER, 0, 0), [ONE, OTHER]),
        ((ONE, 1, 1), (OTHER, 0, 0), [OTHER]),
        ((ONE, 0, 1), (OTHER, 1, 0), [ONE]),
        ((ONE, 0, 1), (ONE, 0, 0), [ONE]),
    ],
)
def test_calls_that_are_reported_go_out_again(
    bad: tuple[int, int, int], lead: tuple[int, int, int] | None, plain: list[int]
) -> None:
    end = client()
    there = None if lead is None else TransmissionId(*lead)
    body = encode_report(Report(TransmissionId(*bad), there, ReportCode.CONTINUATION, ()))
    assert end.put(REPTERR, ONE, body) is None
    assert sorted(end.take()) == [("refused", xid, NOT_TAKEN) for xid in plain]
    assert (end.statistics.reports_received, end.statistics.discarded) == (1, 0)
    assert end.put(REPTERR, ONE, body + b"\0") is None
    assert end.take() == []
    assert (end.statistics.reports_received, end.statistics.discarded) == (1, 1)


@LEADS
def test_flags_of_the_other_direction_are_refused(lead: int, way: int) -> None:
    encoded = {
        XMTREQ: encode_transmit_request(TransmitRequest((), (), 1, 0, 4)) + b"call",
        XMTRESP: encode_transmit_response(TransmitResponse((), 1, 4)) + b"repl",
    }
    end = End()
    end.put(lead, ONE, encoded[lead], b"data", answers=not way)
    # With RESPONSE the XID is one of this end's calls.
    refused = ("refuse", ONE, Cause.FLAGS, 0) if way else ("fail", ONE, RemoteProtocolError)
    assert end.take() == [refused]
    assert end.statistics.discarded == 0
    silent_about(end, ONE)
    end.awaited.clear()
    end.put(lead, ONE, encoded[lead], answers=not way)
    assert end.take() == [refused]
    assert end.statistics.discarded == 1 - way
