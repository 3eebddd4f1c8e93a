"""The attributes of each version, and the numbers that it has on the wire."""

from __future__ import annotations

import pytest

from dialect_messages import RpcMessage
from rpcrdma.limits import SPARE_RECEIVES
from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.config import ReverseSupport, Role, TransportConfig
from rpcrdma.transport.dialects import (
    VERSION_CHOICES,
    Geometry,
    header_v1,
    header_v2,
    offered,
    receive_octets,
    version_choice,
)
from rpcrdma.transport.dialects.header_parts import ERR_VERS, FIXED_OCTETS, RDMA_ERROR
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.transport.dialects.v2 import Version2
from rpcrdma.transport.message import Kind
from support.cases import each_case

SEGMENT = Segment(1, 2, 3)


def test_the_attributes_of_version_1() -> None:
    dialect = Version1()
    assert (dialect.version, dialect.name) == (1, "1")
    assert dialect.introduces is False
    assert dialect.unfinished == 0
    assert dict(dialect.properties) == {}
    assert dialect.geometry == (28, 28, 24, 8, 4, 16, 0, 0, 0)


def test_the_attributes_of_version_2() -> None:
    dialect = Version2()
    assert (dialect.version, dialect.name) == (2, "2")
    assert dialect.introduces is True
    assert dialect.unfinished == 0
    assert sorted(dialect.properties) == [1, 2, 3, 4, 5, 6]
    assert dialect.properties[5].default is ReverseSupport.INLINE
    assert dialect.geometry == (36, 36, 24, 8, 4, 16, 36, 1024, 20)


def test_the_numbers_of_versions_types_and_errors() -> None:
    assert (header_v1.VERSION, header_v2.VERSION, FIXED_OCTETS) == (1, 2, 16)
    assert (header_v1.RDMA_MSG, header_v1.RDMA_NOMSG, header_v1.RDMA_MSGP, header_v1.RDMA_DONE) == (0, 1, 2, 3)
    assert (RDMA_ERROR, ERR_VERS, header_v1.ERR_CHUNK) == (4, 1, 2)
    assert (header_v2.RDMA2_MSG, header_v2.RDMA2_NOMSG) == (0, 1)
    assert (header_v2.RDMA2_ERROR, header_v2.RDMA2_CONNPROP) == (4, 5)
    assert (header_v2.RESPONSE, header_v2.MORE, header_v2.FLAGS_KNOWN) == (1, 2, 3)
    assert (header_v2.PREFIX_OCTETS, header_v2.SHORT_HEADER_OCTETS) == (20, 36)


@each_case(
    ("chunks", "octets"),
    [
        (ChunkLists(), 0),
        (ChunkLists((ReadChunk(8, (SEGMENT,)),)), 1),
        (ChunkLists((ReadChunk(8, (SEGMENT,) * 3),)), 3),
        (ChunkLists((ReadChunk(8, (SEGMENT,)), ReadChunk(12, (SEGMENT, SEGMENT)))), 3),
        (ChunkLists((ReadChunk(0, (SEGMENT,)),)), 1),
        (ChunkLists((ReadChunk(0, (SEGMENT, SEGMENT)), ReadChunk(4, (SEGMENT,)))), 3),
        (ChunkLists((), (WriteChunk(()),)), 10),
        (ChunkLists((), (WriteChunk((SEGMENT,)),)), 1010),
        (ChunkLists((), (WriteChunk((SEGMENT, SEGMENT)), WriteChunk((SEGMENT,)))), 3020),
        (ChunkLists((), (), WriteChunk(())), 100),
        (ChunkLists((), (), WriteChunk((SEGMENT, SEGMENT))), 2100),
        (ChunkLists((ReadChunk(0, (SEGMENT,)),), (WriteChunk((SEGMENT,)),), WriteChunk((SEGMENT,))), 2111),
    ],
)
def test_the_octets_of_lists_are_the_sum_of_their_parts(chunks: ChunkLists, octets: int) -> None:
    geometry = Geometry(5, 6, 1, 10, 100, 1000)
    assert geometry.size_chunks(chunks) == octets


def test_a_geometry_has_nothing_that_it_is_not_given() -> None:
    assert Geometry(1, 2, 3, 4, 5, 6) == (1, 2, 3, 4, 5, 6, 0, 0, 0)


def test_the_versions_that_may_be_asked_for() -> None:
    assert VERSION_CHOICES == ("auto", "1", "2")
    made = {choice: [type(dialect) for dialect in offered(choice)] for choice in VERSION_CHOICES}
    assert made == {"auto": [Version2, Version1], "1": [Version1], "2": [Version2]}
    assert [type(dialect) for dialect in offered()] == [Version2, Version1]
    assert [type(dialect) for dialect in offered(1)] == [Version1]
    assert [version_choice(choice) for choice in ("auto", 1, "1", 2)] == ["auto", "1", "1", "2"]
    for unknown in ("", "3", 0, 3, "AUTO", "2-00"):
        with pytest.raises(ValueError, match="rpcrdma_version is"):
            version_choice(unknown)


def test_receive_buffers_are_as_large_as_any_version_needs() -> None:
    config = TransportConfig(inline_receive_octets=8192, offered_receive_octets=16384)
    larger = TransportConfig(inline_receive_octets=32768, offered_receive_octets=16384)
    assert receive_octets(config, offered("1")) == 8192
    for choice in ("auto", "2"):
        assert receive_octets(config, offered(choice)) == 16384
        assert receive_octets(larger, offered(choice)) == 32768
    assert receive_octets(config, ()) == 8192


def test_a_reply_of_version_1_may_end_what_its_call_names_and_nothing_else() -> None:
    writes = (WriteChunk((Segment(2, 1, 1), Segment(3, 1, 1))),)
    call = RpcMessage(Kind.CALL, ChunkLists((ReadChunk(4, (Segment(1, 1, 1),)),), writes))
    assert [Version1().may_end(call, handle) for handle in range(5)] == [False, True, True, True, False]


@each_case(("role", "reverse"), [(role, reverse) for role in Role for reverse in (False, True)])
def test_credits_at_the_beginning_of_version_1(role: Role, reverse: bool) -> None:
    config = TransportConfig(
        credits_requested=20, credits_granted=30, reverse_credits_requested=40, reverse_credits_granted=50
    )
    window = Version1().window(config, role, reverse=reverse)
    assert window.allowed == 1
    if role is Role.SERVER:
        assert (window.requested, window.granted, window.receives_wanted - SPARE_RECEIVES) == (40, 30, 1)
    else:
        expected = (20, 50, 50 if reverse else 1)
        assert (window.requested, window.granted, window.receives_wanted - SPARE_RECEIVES) == expected
