"""Planning of replies: offered memory against results."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rpcrdma.transport.chunks import ChunkLists, Segment, WriteChunk
from rpcrdma.transport.dialects import v2
from rpcrdma.transport.dialects.v1 import GEOMETRY
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.transport.plan_reply import ReplyForm, plan_reply, reply_octets_max
from support.cases import each_case

INLINE, LONG, REFUSED = ReplyForm.INLINE, ReplyForm.LONG, ReplyForm.REFUSED


def chunk(*lengths: int) -> WriteChunk:
    return WriteChunk(tuple(Segment(7, length, 0) for length in lengths))


def offer(*writes: WriteChunk, reply: WriteChunk | None = None) -> ChunkLists:
    return ChunkLists((), writes, reply)


@each_case("chunks", [0, 1, 2, 3])
@each_case("items", [(), (5,), (5, 5), (5, 5, 5)])
def test_a_result_without_a_write_chunk_looks_for_none(items: tuple[int, ...], chunks: int) -> None:
    class Listed(tuple[WriteChunk, ...]):
        __slots__ = ()

        def __getitem__(self, index: Any) -> Any:
            assert index < len(self)
            return super().__getitem__(index)

    plan = plan_reply(100, items, ChunkLists((), Listed([chunk(10)] * chunks)), 4096, GEOMETRY)
    assert plan.placed == tuple(index if index < len(items) else None for index in range(chunks))


@pytest.mark.req("V2-58", "V2-88")
def test_the_first_write_chunk_that_is_too_short_is_named() -> None:
    offered = offer(chunk(2000), chunk(1000, 1000), chunk(2000))
    plan = plan_reply(100, (2000, 2001, 2003), offered, 4096, GEOMETRY)
    assert plan.refusal == Refusal(Cause.WRITE_RESOURCE, 2, 2001)


SIZES = (0, 1, 4, 1023, 1024, 3900, 4020, 4021, 4044, 4048, 4049, 4068, 4069, 10_000)


@pytest.mark.thorough
def test_every_plan_keeps_within_what_was_offered() -> None:
    writes = [(), (chunk(),), (chunk(0),), (chunk(1024),), (chunk(5000, 5000),), (chunk(1024), chunk(4096))]
    replies = [None, chunk(), chunk(4096), chunk(4096, 4096, 4096)]
    forms = set()
    for reduced, first, second, offered_writes, reply in itertools.product(SIZES, SIZES, SIZES, writes, replies):
        items = (first, second)
        plan = plan_reply(reduced, items, ChunkLists((), offered_writes, reply), 4096, GEOMETRY)
        forms.add(plan.form)
        if plan.form is REFUSED:
            assert plan.reason
            continue
        assert len(plan.placed) == len(offered_writes)
        stream = reduced
        for index, length in enumerate(items):
            if index in plan.placed:
                assert length <= offered_writes[plan.placed.index(index)].length
            else:
                stream += (length + 3) // 4 * 4
        header = 28 + sum(8 + 16 * len(w.segments) for w in offered_writes)
        header += 0 if reply is None else 4 + 16 * len(reply.segments)
        if plan.form is INLINE:
            assert header + stream <= 4096
        else:
            assert reply is not None
            assert header + stream > 4096
            assert stream <= reply.length
    assert forms == {INLINE, LONG, REFUSED}


@each_case("geometry", [GEOMETRY, v2.GEOMETRY])
def test_the_room_for_a_reply_is_the_largest_that_is_not_refused(geometry: Any) -> None:
    writes: list[tuple[WriteChunk, ...]] = [(), (chunk(),), (chunk(3000), chunk(500, 500)), (chunk(*[9] * 60),)]
    replies = (None, chunk(700), chunk(20_000, 20_000))
    some_items: list[tuple[int, ...]] = [(), (2999,), (1, 1001), (600, 1, 7)]
    continued = ((0, 0), (6000, 10_000))
    for writes_offered, reply, items, more in itertools.product(writes, replies, some_items, continued):
        given = items, offer(*writes_offered, reply=reply), 1024, geometry, *more
        room = reply_octets_max(*given)
        assert plan_reply(room + 1, *given).form is REFUSED, given
        assert room == 0 or plan_reply(room, *given).form is not REFUSED, given
