"""Plans at each of their bounds, with a geometry whose numbers all differ."""

from __future__ import annotations

import pytest

from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.dialects import Geometry
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.transport.plan_call import PLAIN, CallPlan, PlanLimits, cheap_call_octets, cheap_reply_octets, plan_call
from rpcrdma.transport.plan_reply import ReplyForm, ReplyPlan, plan_reply
from support.cases import each_case

GEOMETRY = Geometry(
    call_header=100, reply_header=200, read_segment=7, write_chunk=11, reply_chunk=13, segment=17, piece_header=400
)
LIMITS = PlanLimits(
    send_octets=10_000,
    receive_octets=20_000,
    segment_octets_max=1000,
    direct_octets_min=500,
    read_chunks_max=3,
    geometry=GEOMETRY,
    call_octets_max=5000,
    reply_octets_max=5000,
    segments_max=99,
)
KIB = 1 << 10


@pytest.mark.req("V1-25", "V1-27", "V1-47", "V1-51")
@each_case(
    ("results", "items", "writes", "reply_chunk"),
    [
        (4768, (), (), 0),
        (4769, (), (), 0),
        (19_768, (), (), 0),
        (19_769, (), (), 19_801),
        (4268, (500,), (), 0),
        (4269, (500,), (500,), 0),
        (4269, (499,), (), 0),
        (4264, (501,), (), 0),
        (4265, (501,), (501,), 0),
        (19_268, (499,), (), 0),
        (19_269, (499,), (), 19_801),
        (0, (0, 4769), (0, 4769), 0),
        (0, (4769, 0), (4769,), 0),
        (0, (4, 5000, 4), (4, 5000), 0),
        (0, (5000, 4, 5000), (5000, 4, 5000), 0),
        # The Write chunk of 2500 octets takes 11 and three times 17 of the header that returns it.
        (19_706, (2500,), (2500,), 0),
        (19_707, (2500,), (2500,), 19_739),
        (19_702, (2500, 3), (2500,), 0),
        (19_703, (2500, 3), (2500,), 19_739),
    ],
)
def test_memory_for_a_reply_is_offered_from_the_first_octet_on_that_needs_it(
    results: int, items: tuple[int, ...], writes: tuple[int, ...], reply_chunk: int
) -> None:
    expected = CallPlan(write_chunks=writes, reply_chunk=reply_chunk)
    found = plan_call(0, (), results, items, LIMITS)
    assert found == expected
    assert (found is PLAIN) == (not writes and not reply_chunk)


@pytest.mark.req("V1-30", "V1-31", "V1-33")
@each_case(
    ("reduced", "items", "expected"),
    [
        (4900, (), CallPlan()),
        (4901, (), CallPlan()),
        (9900, (), CallPlan()),
        (9901, (), CallPlan(long=True)),
        (4400, (500,), CallPlan()),
        (4401, (500,), CallPlan(read_items=(0,))),
        (4401, (499,), CallPlan()),
        (4396, (501,), CallPlan()),
        (4397, (501,), CallPlan(read_items=(0,))),
        (9400, (499,), CallPlan()),
        (9401, (499,), CallPlan(long=True)),
        # An entry of a Read list for each 1000 octets.
        (9893, (1000,), CallPlan(read_items=(0,))),
        (9894, (1000,), CallPlan(long=True, read_items=(0,))),
        (9886, (1001,), CallPlan(read_items=(0,))),
        (9887, (1001,), CallPlan(long=True, read_items=(0,))),
        (100, (9000, 9500, 600), CallPlan(read_items=(1,))),
        (100, (600, 9400, 9500), CallPlan(read_items=(1, 2))),
        (7793, (600, 700, 900, 800), CallPlan(read_items=(2,))),
        (7794, (600, 700, 900, 800), CallPlan(read_items=(2, 3))),
        (8586, (600, 700, 900, 800), CallPlan(read_items=(2, 3))),
        (8587, (600, 700, 900, 800), CallPlan(read_items=(1, 2, 3))),
        (9279, (600, 700, 900, 800), CallPlan(read_items=(1, 2, 3))),
        (9280, (600, 700, 900, 800), CallPlan(long=True, read_items=(1, 2, 3))),
    ],
)
def test_arguments_are_read_from_the_first_octet_on_that_is_too_many(
    reduced: int, items: tuple[int, ...], expected: CallPlan
) -> None:
    assert plan_call(reduced, items, 0, (), LIMITS) == expected


def test_an_item_without_octets_has_no_chunk_however_small_chunks_may_be() -> None:
    limits = LIMITS._replace(direct_octets_min=0)
    assert plan_call(20_000, (0, 1), 0, (), limits) == CallPlan(long=True, read_items=(1,))
    assert plan_call(0, (), 30_000, (1, 0), limits) == CallPlan(write_chunks=(1,), reply_chunk=30_032)
    assert plan_call(0, (), 30_000, (0,), limits) == CallPlan(reply_chunk=30_032)


def test_chunks_of_the_reply_take_room_from_the_call() -> None:
    # 100 for the header, 11 and 17 thrice for the Write chunk.
    assert plan_call(9838, (), 10_000, (2500,), LIMITS) == CallPlan(write_chunks=(2500,))
    assert plan_call(9839, (), 10_000, (2500,), LIMITS) == CallPlan(long=True, write_chunks=(2500,))
    # 13 and 17 thirty times for the Reply chunk of 30,000 octets.
    assert plan_call(9377, (), 29_968, (), LIMITS) == CallPlan(reply_chunk=30_000)
    assert plan_call(9378, (), 29_968, (), LIMITS) == CallPlan(long=True, reply_chunk=30_000)
    assert plan_call(9360, (), 29_969, (), LIMITS) == CallPlan(reply_chunk=30_001)
    assert plan_call(9361, (), 29_969, (), LIMITS) == CallPlan(long=True, reply_chunk=30_001)


@each_case(
    ("round_trip_s", "messages", "bound"),
    [
        (0.0, 3, 132 * KIB),
        (99e-6, 3, 132 * KIB),
        (101e-6, 4, 132 * KIB + 32_000),
        (201e-6, 5, 132 * KIB + 64_000),
        (499e-6, 7, 132 * KIB + 128_000),
        (501e-6, 8, 132 * KIB + 160_000),
        (1.0, 8, 132 * KIB + 160_000),
    ],
)
def test_the_longest_call_that_goes_in_messages(round_trip_s: float, messages: int, bound: int) -> None:
    for octets in (4096, 8192):
        longest = octets + (messages - 1) * (octets - 400)
        assert cheap_call_octets(octets, GEOMETRY, round_trip_s) == longest
    assert cheap_call_octets(200_000, GEOMETRY, round_trip_s) == bound
    assert cheap_call_octets(4096, GEOMETRY) == 4096 + 2 * 3696


@pytest.mark.req("V2-103")
def test_a_reply_without_items_to_place_goes_in_messages_up_to_a_length_of_its_own() -> None:
    assert [cheap_reply_octets(octets, GEOMETRY) for octets in (4096, 6344, 6345, 40_000)] == [
        12_288, 12_288, 12_290, 79_600
    ]  # fmt: skip
    limits = LIMITS._replace(reply_continued_octets_max=30_000)
    for results, items, expected in (
        (29_768, (), PLAIN),
        (29_769, (), CallPlan(reply_chunk=29_801)),
        (29_268, (499,), PLAIN),
        (29_268, (500,), CallPlan(write_chunks=(500,), reply_chunk=29_300)),
        (19_000, (500,), CallPlan(write_chunks=(500,))),
    ):
        assert plan_call(40, (), results, items, limits) == expected


def chunk(*lengths: int) -> WriteChunk:
    return WriteChunk(tuple(Segment(7, length, 0) for length in lengths))


INLINE, LONG = ReplyForm.INLINE, ReplyForm.LONG


@pytest.mark.req("V1-34", "V1-45", "V1-46", "V1-48", "V1-50", "V1-52", "NF-6", "NF-7", "NF-8", "NF-10", "V1-31")
@each_case(
    ("reduced", "items", "writes", "reply", "expected"),
    [
        (1000, (), (), None, ReplyPlan(INLINE)),
        (1001, (), (), None, Refusal(Cause.REPLY_RESOURCE, needed=1001)),
        (996, (1,), (), None, ReplyPlan(INLINE)),
        (996, (2,), (), None, ReplyPlan(INLINE)),
        (997, (1,), (), None, Refusal(Cause.REPLY_RESOURCE, needed=1001)),
        (0, (1001,), (), None, Refusal(Cause.REPLY_RESOURCE, needed=1004)),
        (0, (10,), ((10,),), None, ReplyPlan(INLINE, (0,))),
        (0, (11,), ((10,),), None, Refusal(Cause.WRITE_RESOURCE, 1, 11)),
        (0, (10, 11), ((10,), (5, 5)), None, Refusal(Cause.WRITE_RESOURCE, 2, 11)),
        # 11 and 17 for the Write chunk.
        (972, (10,), ((10,),), None, ReplyPlan(INLINE, (0,))),
        (973, (10,), ((10,),), None, Refusal(Cause.REPLY_RESOURCE, needed=973)),
        (938, (10,), ((5, 5, 0),), None, ReplyPlan(INLINE, (0,))),
        (939, (10,), ((5, 5, 0),), None, Refusal(Cause.REPLY_RESOURCE, needed=939)),
        (980, (9,), ((),), None, Refusal(Cause.REPLY_RESOURCE, needed=992)),
        (977, (9,), ((),), None, ReplyPlan(INLINE, (None,))),
        (0, (9, 9), ((), (9,)), None, ReplyPlan(INLINE, (None, 1))),
        (0, (9,), ((9,), (9,), (9,)), None, ReplyPlan(INLINE, (0, None, None))),
        (0, (5, 6), ((9,),), None, ReplyPlan(INLINE, (0,))),
        (0, (), ((9,), (9,)), None, ReplyPlan(INLINE, (None, None))),
        (0, (0,), ((9,),), None, ReplyPlan(INLINE, (0,))),
        # 13 and 17 for the Reply chunk.
        (970, (), (), (3000,), ReplyPlan(INLINE)),
        (971, (), (), (3000,), ReplyPlan(LONG)),
        (3000, (), (), (3000,), ReplyPlan(LONG)),
        (3001, (), (), (3000,), Refusal(Cause.REPLY_RESOURCE, needed=3001)),
        (3000, (10,), ((10,),), (3000,), ReplyPlan(LONG, (0,))),
        (953, (), (), (3000, 3000), ReplyPlan(INLINE)),
        (954, (), (), (3000, 3000), ReplyPlan(LONG)),
        (1001, (), (), (100,) * 58, ReplyPlan(LONG)),
        (1001, (), (), (100,) * 59, Refusal(Cause.HEADER)),
    ],
)
def test_replies_at_each_bound(
    reduced: int,
    items: tuple[int, ...],
    writes: tuple[tuple[int, ...], ...],
    reply: tuple[int, ...] | None,
    expected: ReplyPlan | Refusal,
) -> None:
    """The reply goes in one message of at most 1200 octets."""
    offered = ChunkLists((), tuple(chunk(*lengths) for lengths in writes), None if reply is None else chunk(*reply))
    found = plan_reply(reduced, items, offered, 1200, GEOMETRY)
    if isinstance(expected, ReplyPlan):
        assert found == expected
    else:
        assert (found.form, found.placed, found.refusal) == (ReplyForm.REFUSED, (), expected)
        assert found.reason
    # Read chunks come back in no reply.
    read = offered._replace(reads=(ReadChunk(4, (Segment(7, 7, 7),) * 9),))
    assert plan_reply(reduced, items, read, 1200, GEOMETRY) == found


def test_a_reply_that_fits_no_chunk_is_continued_as_far_as_may_be() -> None:
    assert plan_reply(3800, (), NO_CHUNKS, 1200, GEOMETRY, 0, 4000) == ReplyPlan(INLINE)
    found = plan_reply(3801, (), NO_CHUNKS, 1200, GEOMETRY, 0, 4000)
    assert found.refusal == Refusal(Cause.REPLY_RESOURCE, needed=3801)
    small = ChunkLists((), (), chunk(3000))
    assert plan_reply(3000, (), small, 1200, GEOMETRY, 0, 4000) == ReplyPlan(LONG)
    assert plan_reply(3001, (), small, 1200, GEOMETRY, 0, 4000) == ReplyPlan(INLINE)
    assert plan_reply(3770, (), small, 1200, GEOMETRY, 0, 4000) == ReplyPlan(INLINE)
    assert plan_reply(3771, (), small, 1200, GEOMETRY, 0, 4000).form is ReplyForm.REFUSED


def test_a_result_that_fits_no_write_chunk_is_continued_as_far_as_may_be() -> None:
    # 200 and 11 and 17 for the header.
    offered = ChunkLists((), (chunk(10),))
    assert plan_reply(100, (3669,), offered, 1200, GEOMETRY, 0, 4000) == ReplyPlan(INLINE, (None,))
    assert plan_reply(100, (3670,), offered, 1200, GEOMETRY, 0, 4000) == ReplyPlan(INLINE, (None,))
    assert plan_reply(100, (3672,), offered, 1200, GEOMETRY, 0, 4000) == ReplyPlan(INLINE, (None,))
    found = plan_reply(101, (3672,), offered, 1200, GEOMETRY, 0, 4000)
    assert found.refusal == Refusal(Cause.WRITE_RESOURCE, 1, 3672)
    found = plan_reply(100, (3673,), offered, 1200, GEOMETRY, 0, 4000)
    assert found.refusal == Refusal(Cause.WRITE_RESOURCE, 1, 3673)
    several = ChunkLists((), (chunk(10), chunk(20)))
    assert plan_reply(100, (11, 20), several, 1200, GEOMETRY, 0, 4000) == ReplyPlan(INLINE, (None, 1))
    assert plan_reply(100, (10, 21), several, 1200, GEOMETRY, 0, 4000) == ReplyPlan(INLINE, (0, None))
