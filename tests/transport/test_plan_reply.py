"""Planning of replies: offered memory against results."""

from __future__ import annotations

import itertools
from typing import Any

from rpcrdma.transport.chunks import ChunkLists, Segment, WriteChunk
from rpcrdma.transport.dialects import v2
from rpcrdma.transport.dialects.v1 import GEOMETRY
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

    given = items, ChunkLists((), Listed([chunk(10)] * chunks)), 4096, GEOMETRY
    plan = plan_reply(100, *given)
    assert plan_reply(reply_octets_max(*given), *given).form is INLINE
    assert plan.placed == tuple(index if index < len(items) else None for index in range(chunks))


@each_case("geometry", [GEOMETRY, v2.GEOMETRY, v2.GEOMETRY._replace(reply_header=1000)])
def test_the_room_for_a_reply_is_the_largest_that_is_not_refused(geometry: Any) -> None:
    writes: list[tuple[WriteChunk, ...]] = [
        (),
        (chunk(),),
        (chunk(2999),),
        (chunk(3000), chunk(500, 500)),
        (chunk(*[9] * 60),),
    ]
    replies = (None, chunk(700), chunk(20_000, 20_000))
    some_items: list[tuple[int, ...]] = [(), (2999,), (1, 1001), (600, 1, 7)]
    continued = ((0, 0), (6000, 10_000))
    for writes_offered, reply, items, more in itertools.product(writes, replies, some_items, continued):
        given = items, offer(*writes_offered, reply=reply), 1024, geometry, *more
        room = reply_octets_max(*given)
        assert plan_reply(room + 1, *given).form is REFUSED, given
        assert room == 0 or plan_reply(room, *given).form is not REFUSED, given
