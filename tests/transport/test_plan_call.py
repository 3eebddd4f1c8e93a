"""Planning of calls: a table of sizes around every threshold."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.transport.dialects.v1 import GEOMETRY
from rpcrdma.transport.plan_call import CallPlan, PlanLimits, plan_call
from support.cases import each_case

LIMITS = PlanLimits(
    send_octets=4096,
    receive_octets=4096,
    segment_octets_max=1 << 20,
    direct_octets_min=1024,
    read_chunks_max=15,
    geometry=GEOMETRY,
    call_octets_max=4096,
    reply_octets_max=4096,
    segments_max=1000,
)
FITS_CALL = 4096 - 28
FITS_REPLY = 4096 - 28 - 32
WRITE_CHUNK = 8 + 16
REPLY_CHUNK = 4 + 16
READ_SEGMENT = 24


def plan(reduced: int, items: tuple[int, ...], results: int, result_items: tuple[int, ...] = ()) -> CallPlan:
    return plan_call(reduced, items, results, result_items, LIMITS)


@pytest.mark.req("V1-31", "V1-33", "V1-30")
@each_case(
    ("reduced", "items", "expected"),
    [
        (8, (), CallPlan()),
        (FITS_CALL, (), CallPlan()),
        (FITS_CALL + 4, (), CallPlan(long=True)),
        # with an item: padding counts
        (100, (FITS_CALL - 100,), CallPlan()),
        (100, (FITS_CALL - 101,), CallPlan()),
        (100, (FITS_CALL - 99,), CallPlan(read_items=(0,))),
        (100, (FITS_CALL - 96,), CallPlan(read_items=(0,))),
        (100, (1 << 20,), CallPlan(read_items=(0,))),
        (FITS_CALL - READ_SEGMENT, (1024,), CallPlan(read_items=(0,))),
        (FITS_CALL - READ_SEGMENT + 4, (1024,), CallPlan(long=True, read_items=(0,))),
        # an item too small to be worth it
        (FITS_CALL - 4, (1023,), CallPlan(long=True)),
        (FITS_CALL, (0,), CallPlan()),
        # the largest item goes first, and no more than needed
        (100, (2000, 3000), CallPlan(read_items=(1,))),
        (100, (3000, 2000), CallPlan(read_items=(0,))),
        (100, (3000, 3000, 3000), CallPlan(read_items=(0, 1))),
        (100, (5000, 100, 5000), CallPlan(read_items=(0, 2))),
        (100, (1000, 1000, 1000, 1000, 1000), CallPlan(long=True)),
    ],
)
def test_call_direction(reduced: int, items: tuple[int, ...], expected: CallPlan) -> None:
    assert plan(reduced, items, 0) == expected


@pytest.mark.req("V1-25", "V1-27", "V1-47", "V1-51")
@each_case(
    ("results", "items", "expected"),
    [
        (0, (), CallPlan()),
        (FITS_REPLY, (), CallPlan()),
        (FITS_REPLY + 1, (), CallPlan(reply_chunk=FITS_REPLY + 33)),
        # inline while all of it fits, padding included
        (100, (FITS_REPLY - 100,), CallPlan()),
        (100, (FITS_REPLY - 99,), CallPlan(write_chunks=(FITS_REPLY - 99,))),
        (100, (1 << 20,), CallPlan(write_chunks=(1 << 20,))),
        # no room for padding in a Write chunk
        (100, (5001,), CallPlan(write_chunks=(5001,))),
        # the rest does not fit: the echo of the Write list counts
        (FITS_REPLY - WRITE_CHUNK, (5000,), CallPlan(write_chunks=(5000,))),
        (FITS_REPLY - WRITE_CHUNK + 1, (5000,), CallPlan(write_chunks=(5000,), reply_chunk=FITS_REPLY + 9)),
        # small items stay in the stream, where that is in a Reply chunk padding and all
        (FITS_REPLY, (1023,), CallPlan(reply_chunk=FITS_REPLY + 32 + 1024)),
        (FITS_REPLY, (1, 2), CallPlan(reply_chunk=FITS_REPLY + 32 + 8)),
        # chunks pair with items from the first on
        (100, (10, 5000, 20), CallPlan(write_chunks=(10, 5000))),
        (100, (0, 5000), CallPlan(write_chunks=(0, 5000))),
        (4000, (0, 5000, 100), CallPlan(write_chunks=(0, 5000), reply_chunk=4132)),
    ],
)
def test_reply_direction(results: int, items: tuple[int, ...], expected: CallPlan) -> None:
    assert plan(40, (), results, items) == expected


def test_segments_take_room_from_the_call() -> None:
    limits = LIMITS._replace(segment_octets_max=100)
    assert plan_call(FITS_CALL - 12 * READ_SEGMENT, (1200,), 0, (), limits) == CallPlan(read_items=(0,))
    assert plan_call(FITS_CALL - 12 * READ_SEGMENT + 4, (1200,), 0, (), limits).long
    assert plan_call(FITS_CALL - 8 - 16 * 50, (), 0, (5000,), limits) == CallPlan(write_chunks=(5000,))
    assert plan_call(FITS_CALL - 8 - 16 * 50 + 4, (), 0, (5000,), limits).long


def test_no_more_read_chunks_than_allowed() -> None:
    limits = LIMITS._replace(read_chunks_max=2)
    assert plan_call(40, (5000, 6000, 7000), 0, (), limits) == CallPlan(long=True, read_items=(1, 2))
    assert plan_call(40, (5000,), 0, (), LIMITS._replace(read_chunks_max=0)) == CallPlan(long=True)


def test_no_more_write_chunks_than_a_responder_takes() -> None:
    assert plan(40, (), 0, (2000,) * 20) == CallPlan(write_chunks=(2000,) * 16, reply_chunk=32 + 4 * 2000)


SIZES = (0, 3, 1020, 1023, 1024, 4036, 4040, 4068, 4072, 100_000)
THRESHOLDS = (1024, 4096, 65536)


@pytest.mark.thorough
@pytest.mark.req("V1-27", "V1-47", "V1-51")
@each_case(("send", "receive"), list(itertools.product(THRESHOLDS, THRESHOLDS)))
def test_every_plan_keeps_within_both_thresholds(send: int, receive: int) -> None:
    limits = LIMITS._replace(send_octets=send, receive_octets=receive, call_octets_max=send, reply_octets_max=receive)
    seen = set()
    for reduced, item, results, result_item in itertools.product(SIZES, SIZES, SIZES, SIZES):
        found = plan_call(reduced, (item,), results, (result_item,), limits)
        offered = WRITE_CHUNK * len([size for size in found.write_chunks if size])
        offered += REPLY_CHUNK if found.reply_chunk else 0
        call = reduced + (0 if found.read_items else (item + 3) // 4 * 4)
        header = 28 + offered + READ_SEGMENT * len(found.read_items)
        assert found.long or header + call <= send
        assert not found.long or 28 + offered + call > send or item < 1024 or found.read_items
        reply = 32 + results + (0 if found.write_chunks else (result_item + 3) // 4 * 4)
        assert found.reply_chunk in {0, reply}
        assert found.reply_chunk or 28 + offered + reply <= receive
        assert found.write_chunks in {(), (result_item,)}
        seen.add((found.long, bool(found.read_items), bool(found.write_chunks), bool(found.reply_chunk)))
    # All sixteen forms and combinations turn up.
    assert len(seen) == 16
