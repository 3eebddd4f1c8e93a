"""Replies as their calls direct them: directions that count, ways of items, and refusals."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from rpcrdma.rtr.answers import DirectedReply, arguments_start, directed
from rpcrdma.rtr.layout import Peer, runs_of
from rpcrdma.rtr.messages import (
    XMTCONT,
    XMTRESP,
    DirectionSet,
    Explicit,
    InSegments,
    NotPlaced,
    ResultDirection,
    TransmitResponse,
    Way,
    decode_transmit_continue,
    decode_transmit_response,
)
from rpcrdma.rtr.properties import BufferStructure, SegmentKind, Support
from rpcrdma.transport import Cause, ReplyForm, ResponseGroup, Segment, WriteChunk, fill
from rpcrdma.xdr.codec import Payload
from rtr_link import PREFIX, Link, payload, tried
from support.cases import each_case

HEAD, PAGE, PAGES = 256, 64, 4
WHOLE = HEAD + PAGES * PAGE
TOP = 0xFFFFFFFF


def call_header(credential: int, verifier: int) -> bytes:
    """The header of a call whose credential and verifier have so many octets."""
    octets = bytes(24)
    for length in (credential, verifier):
        octets += struct.pack(">II", 1, length) + bytes(length) + bytes(-length & 3)
    return octets


def one(count: int = 1) -> tuple[ResultDirection, ...]:
    return (ResultDirection(0, Way.SEGMENTS),) * count


WHOLE_CALL = (0, TOP)


def followed(*ranges: tuple[int, int, int], results: int, arguments: tuple[int, int] = (40, 80)) -> list[int | None]:
    """The items that follow the directions of sets, each given by its range and number, without a stated relation."""
    sets = [DirectionSet(begin, most, one(count)) for begin, most, count in ranges]
    found = tried(directed, sets, arguments, payload(*[9] * results), None)
    assert isinstance(found, list), found
    return found


@each_case("credential", range(6))
@each_case("verifier", [0, 1, 4, 5])
def test_arguments_begin_behind_credential_and_verifier(credential: int, verifier: int) -> None:
    start = {0: 0, 1: 4, 2: 4, 3: 4, 4: 4, 5: 8}[credential] + {0: 0, 1: 4, 4: 4, 5: 8}[verifier] + 24 + 8 + 8
    header = call_header(credential, verifier)
    assert tried(arguments_start, header) == tried(arguments_start, header + bytes(9)) == start == len(header)
    for length in range(len(header)):
        assert tried(arguments_start, header[:length]) == 0


@pytest.mark.req("RT-27")
def test_directions_whose_range_has_no_arguments_have_no_result() -> None:
    for begin in (0, 40, 41, 79):
        for most in (max(begin + 1, 41), 80, TOP):
            assert followed((begin, most, 1), results=1) == [0]
    for begin, most in ((0, 0), (0, 40), (80, 80), (80, TOP)):
        assert followed((begin, most, 1), results=1) == [None]
    # A call without arguments is in a range with the place of its arguments.
    for begin, most, expected in ((0, 40, 0), (40, 40, 0), (40, TOP, 0), (0, 39, None), (41, TOP, None)):
        assert followed((begin, most, 1), results=1, arguments=(40, 40)) == [expected]


@pytest.mark.req("RT-25", "RT-27")
def test_without_a_stated_relation_results_follow_the_directions_of_all_sets_in_order() -> None:
    for ranges, results, expected in (
        ([], 1, []),
        ([(0, 80, 3)], 2, [0, 1, None]),
        ([(40, 50, 1), (50, 60, 1), (60, 80, 1)], 3, [0, 1, 2]),
        ([(0, 40, 2), (40, 50, 2), (50, 80, 1), (80, TOP, 1)], 4, [None, None, 0, 1, 2, None]),
        ([(40, 50, 0), (50, 80, 2)], 1, [0, None]),
    ):
        assert followed(*ranges, results=results) == expected  # type: ignore[arg-type]


# Arguments of a call begin at 40, paired ones at 48, 56 and 64; `begun` are the items before each paired result.
@pytest.mark.req("RT-27")
@each_case(
    ("begun", "expected"),
    [
        ([0, 1, 2], [0, None, 1, 2]),
        ([0, 0, 1], [None, None, 0, 1]),
        ([0, 2, 3], [0, 1, 2, None]),
        ([0, 3], [0, 1, None, None]),
        ([1, 2, 3], [1, None, 2, None]),
        ([0, 0, 0, 0], [None, None, None, None]),
    ],
)
def test_results_follow_the_set_of_the_argument_to_which_they_belong(
    begun: list[int], expected: list[int | None]
) -> None:
    sets = [DirectionSet(44, 56, one(2)), DirectionSet(56, 64, one()), DirectionSet(64, TOP, one())]
    reply = payload(9, 9, 9)
    reply.begun = begun
    assert tried(directed, sets, (40, 80), reply, [48, 56, 64]) == expected


def requester(*, pages: int = PAGES, octets: int = 0) -> Peer:
    groups = [(1, SegmentKind(HEAD, 0, placeable=False))]
    if pages:
        groups.append((pages, SegmentKind(PAGE, 0, placeable=True)))
    structure = BufferStructure(HEAD + pages * PAGE, tuple(groups))
    return Peer(Support(7), octets or structure.octets, runs_of(structure), 8, 8)


def memory(*octets: int) -> tuple[Segment, ...]:
    return tuple(Segment(number, length, number << 20) for number, length in enumerate(octets, 1))


def explicit(*octets: int, least: int = 0) -> ResultDirection:
    return ResultDirection(least, Way.EXPLICIT, memory(*octets))


def by_size(explicit_from: int, *octets: int, least: int = 0) -> ResultDirection:
    return ResultDirection(least, Way.BY_SIZE, memory(*octets), explicit_from)


def choice(*octets: int, least: int = 0) -> ResultDirection:
    return ResultDirection(least, Way.CHOICE, memory(*octets))


def in_segments(least: int = 0) -> ResultDirection:
    return ResultDirection(least, Way.SEGMENTS)


def answer(
    *directions: ResultDirection,
    frames_max: int = 8,
    link: Link | None = None,
    peer: Peer | None = None,
    counted: bool = False,
) -> DirectedReply:
    found: Any = link or Link()
    sets = [DirectionSet(*WHOLE_CALL, directions)]
    return DirectedReply(found, peer or requester(), sets, (40, 80), frames_max, counted=counted)


def response(group: ResponseGroup, sent: Payload) -> TransmitResponse:
    """The header of a group, whose transmissions are taken apart and are of the reply."""
    messages = [bytes(PREFIX) + b"".join(each.body) for each in group.transmissions]
    head, start = decode_transmit_response(messages[0], PREFIX)
    stream = messages[0][start : start + head.payload_octets]
    assert [each.header_type for each in group.transmissions] == [XMTRESP] + [XMTCONT] * (len(messages) - 1)
    assert all(each.answers for each in group.transmissions)
    assert head.count == len(messages)
    for number, octets in enumerate(messages[1:], 1):
        further, start = decode_transmit_continue(octets, PREFIX)
        assert (further.number, further.begun_by) == (number, XMTRESP)
        stream += octets[start : start + further.payload_octets]
    pages = b"".join(octets[HEAD:WHOLE].ljust(WHOLE - HEAD, b"?") for octets in messages)
    whole = b"".join(bytes(part) for part in sent.gather())
    for position, length, where in head.items:
        if isinstance(where, NotPlaced):
            continue
        data = whole[position : position + length]
        if isinstance(where, InSegments):
            assert where.offset == 0
            assert b"".join(pages[at * PAGE : at * PAGE + PAGE] for at in where.numbers)[:length] == data
        stream = stream[:position] + data + bytes(-length & 3) + stream[position:]
    assert stream == whole
    return head


def shown(one_answer: DirectedReply, sent: Payload, room: int = 8) -> list[str] | None:
    """How each item goes, in a word."""
    assert tried(one_answer.refusal, sent, None) is None
    group = tried(one_answer.plan, sent, room)
    if group is None:
        return None
    assert isinstance(group, ResponseGroup), group
    head = response(group, sent)
    found = []
    for position, length, where in head.items:
        if isinstance(where, NotPlaced):
            found.append(where.name)
        else:
            found.append("explicit" if isinstance(where, Explicit) else "segments")
        if where is NotPlaced.NO_ITEM:
            assert (position, length) == (0, 0)
        else:
            (item,) = [item for item in sent.items if item.position == position]
            assert len(item.data) == length
    assert len(group.written) == found.count("explicit")
    return found


def test_each_item_goes_as_its_direction_says() -> None:
    link = Link()
    sent = payload(64, 65, 66, 67, 5)
    directions = (explicit(50, 50), in_segments(), choice(100), by_size(67, 80), in_segments(least=6))
    one_answer = answer(*directions, in_segments(), link=link)
    assert shown(one_answer, sent) == ["explicit", "segments", "segments", "explicit", "TOO_SHORT", "NO_ITEM"]
    assert (link.statistics.groups_sent, link.statistics.items_sent_in_segments) == (1, 2)
    group = one_answer.plan(sent, 8)
    assert group is not None
    assert group.written == [(0, fill(WriteChunk(memory(50, 50)), 64)), (3, fill(WriteChunk(memory(80)), 67))]
    head = response(group, sent)
    assert head.items[0].where == Explicit((Segment(1, 50, 1 << 20), Segment(2, 14, 2 << 20)))
    assert (link.statistics.groups_sent, link.statistics.items_sent_in_segments) == (2, 4)


@each_case(
    ("way", "size", "expected"),
    [
        ("explicit", 0, "TOO_SHORT"),
        ("explicit", 9, "TOO_SHORT"),
        ("explicit", 10, "explicit"),
        ("segments", 9, "TOO_SHORT"),
        ("segments", 10, "segments"),
        ("by_size", 9, "TOO_SHORT"),
        ("by_size", 10, "segments"),
        ("by_size", 29, "segments"),
        ("by_size", 30, "explicit"),
        ("choice", 9, "TOO_SHORT"),
        ("choice", 10, "segments"),
    ],
)
def test_an_item_shorter_than_its_direction_demands_is_inline(way: str, size: int, expected: str) -> None:
    directions = {
        "explicit": explicit(100, least=10),
        "segments": in_segments(10),
        "by_size": by_size(30, 100, least=10),
        "choice": choice(100, least=10),
    }
    assert shown(answer(directions[way]), payload(size)) == [expected]
    assert shown(answer(directions[way]), payload(size, 50)) == [expected]


@each_case(
    ("way", "size", "is_refused"),
    [
        ("explicit", 100, False),
        ("explicit", 101, True),
        ("short", 101, False),
        ("short", 102, True),
        ("by_size", 101, False),
        ("by_size", 102, True),
        ("choice", 101, False),
        ("segments", 101, False),
    ],
)
def test_an_item_that_is_to_be_written_has_memory_for_it(way: str, size: int, is_refused: bool) -> None:
    directions = {
        "explicit": explicit(60, 40),
        "short": explicit(60, 40, least=102),
        "by_size": by_size(102, 60, 40),
        "choice": choice(60, 40),
        "segments": in_segments(),
    }
    plan = answer(in_segments(), explicit(), directions[way]).refusal(payload(9, 0, size), None)
    if not is_refused:
        assert plan is None
        return
    assert plan is not None
    assert plan.form is ReplyForm.REFUSED
    assert plan.refusal is not None
    assert (plan.refusal.cause, plan.refusal.chunk, plan.refusal.needed) == (Cause.WRITE_RESOURCE, 3, size)
    assert plan.reason == f"a result of {size} octets for memory of 100"


@pytest.mark.req("RT-18")
def test_a_reply_that_no_group_holds_is_refused() -> None:
    sent = payload(513)
    assert answer(in_segments(), frames_max=3).refusal(sent, None) is None
    plan = answer(in_segments(), frames_max=2).refusal(sent, None)
    assert plan is not None
    assert plan.refusal is not None
    assert (plan.form, plan.refusal.cause) == (ReplyForm.REFUSED, Cause.REPLY_RESOURCE)
    assert (plan.refusal.chunk, plan.refusal.needed) == (0, sent.length)
    assert plan.reason == f"a reply of {sent.length} octets for 2 transmissions"
    # An item by choice is written where segments have no room.
    assert shown(answer(choice(600), frames_max=2), sent) == ["explicit"]
    assert answer(choice(512), frames_max=2).refusal(sent, None) is not None
    assert shown(answer(choice(513), frames_max=2), sent) == ["explicit"]
    assert shown(answer(choice(513), frames_max=3), sent) == ["segments"]
    assert shown(answer(choice(1000), choice(64), frames_max=1), payload(300, 65)) == ["explicit", "segments"]


@each_case("counted", [False, True])
def test_a_call_is_counted_once_as_one_by_send(counted: bool) -> None:
    link = Link()
    for waiting in (2, 3):
        assert (shown(answer(in_segments(), link=link, counted=counted), payload(513), waiting) is None) is (
            waiting < 3
        )
        assert link.statistics.calls_by_send == (waiting == 3 and not counted)
    assert shown(answer(choice(600), link=link, counted=counted), payload(513), 2) == ["explicit"]
    assert link.statistics.calls_by_send == (not counted)
