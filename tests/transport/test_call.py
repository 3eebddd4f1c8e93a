"""A call tells how often, and how, it travelled."""

from __future__ import annotations

from rpcrdma.nfs import v3
from rpcrdma.transport import Call, ChunkLists, ReadChunk, Segment, WriteChunk
from support.cases import each_case

SEGMENT = Segment(1, 8, 0)
AT_8 = ReadChunk(8, (SEGMENT,))
AT_0 = ReadChunk(0, (SEGMENT,))
OFFERED = WriteChunk((SEGMENT,))


@each_case(
    ("chunks", "long", "long_reply", "words"),
    [
        (ChunkLists((), (), None), False, False, "short"),
        (ChunkLists((AT_8,), (), None), False, False, "read chunk"),
        (ChunkLists((AT_0,), (), None), True, False, "long call"),
        (ChunkLists((AT_0, AT_8), (), None), True, False, "long call + read chunk"),
        (ChunkLists((), (OFFERED,), OFFERED), False, False, "write chunk + reply chunk"),
        (ChunkLists((), (), OFFERED), False, True, "long reply"),
    ],
)
def test_a_call_over_rdma_names_its_chunks(chunks: ChunkLists, long: bool, long_reply: bool, words: str) -> None:
    call = Call(v3.READ, None)
    call.carried = None
    call.transmissions = 1
    call.chunks, call.long, call.long_reply = chunks, long, long_reply
    assert call.travelled == words
    call.over_tcp = True
    assert call.travelled == "tcp"
