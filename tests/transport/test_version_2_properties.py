"""Version 2: headers, properties and continued messages with any content."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialect_messages import RpcMessage, simple
from rpcrdma.transport.chunks import ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.config import ReverseSupport
from rpcrdma.transport.dialects import header_v2
from rpcrdma.transport.dialects.header_parts import decode_property_set, encode_property_set
from rpcrdma.transport.dialects.v2 import Version2
from rpcrdma.transport.message import Cause, Inbound, Kind, OutgoingError, OutgoingGrant, OutgoingProperties, Refusal
from rpcrdma.transport.properties import PROPERTIES, Properties, decode_properties, encode_properties

WORDS = st.integers(0, 0xFFFFFFFF)
SEGMENTS = st.builds(Segment, WORDS, WORDS, st.integers(0, (1 << 64) - 1))
WRITE_CHUNKS = st.builds(WriteChunk, st.lists(SEGMENTS, max_size=5).map(tuple))
READ_CHUNKS = st.builds(
    ReadChunk, st.integers(1, 0x3FFFFFFF).map(lambda n: 4 * n), st.lists(SEGMENTS, min_size=1, max_size=4).map(tuple)
)
READ_LISTS = st.lists(READ_CHUNKS, max_size=6, unique_by=lambda chunk: chunk.position).map(sorted).map(tuple)
WRITE_LISTS = st.lists(WRITE_CHUNKS, max_size=4).map(tuple)
CALL_CHUNKS = st.builds(ReadChunk, st.just(0), st.lists(SEGMENTS, min_size=1, max_size=4).map(tuple))
OF_CALLS = st.builds(ChunkLists, READ_LISTS, WRITE_LISTS, st.none() | WRITE_CHUNKS)
OF_LONG_CALLS = st.builds(lambda call, lists: lists._replace(reads=(call, *lists.reads)), CALL_CHUNKS, OF_CALLS)
OF_REPLIES = st.builds(ChunkLists, st.just(()), WRITE_LISTS, st.none())
OF_LONG_REPLIES = st.builds(ChunkLists, st.just(()), WRITE_LISTS, WRITE_CHUNKS)
REFUSALS = st.one_of(
    st.builds(lambda low, high: Refusal(Cause.VERSION, low=low, high=high), WORDS, WORDS),
    st.builds(
        lambda cause, limit: Refusal(cause, limit=limit),
        st.sampled_from([Cause.READ_CHUNKS, Cause.WRITE_CHUNKS, Cause.SEGMENTS]),
        WORDS,
    ),
    st.builds(lambda chunk, needed: Refusal(Cause.WRITE_RESOURCE, chunk, needed), WORDS, WORDS),
    st.builds(lambda needed: Refusal(Cause.REPLY_RESOURCE, needed=needed), WORDS),
    st.sampled_from([Cause.HEADER, Cause.HEADER_TYPE, Cause.FLAGS, Cause.SYSTEM]).map(Refusal),
)
PROPERTY_SETS = st.lists(st.tuples(WORDS, st.binary(max_size=20)), max_size=10).map(tuple)


@st.composite
def messages(draw: st.DrawFn, *, may_be_long: bool = True) -> RpcMessage:
    kind = draw(st.sampled_from([Kind.CALL, Kind.REPLY]))
    long = may_be_long and draw(st.booleans())
    if kind is Kind.REPLY:
        return RpcMessage(kind, draw(OF_LONG_REPLIES if long else OF_REPLIES), xid=draw(WORDS), long=long)
    chunks = draw(OF_LONG_CALLS if long else OF_CALLS)
    handles = [segment.handle for chunk in chunks.chunks for segment in chunk.segments if segment.handle]
    ends = draw(st.none() | st.sampled_from(handles)) if handles else None
    return RpcMessage(kind, chunks, xid=draw(WORDS), long=long, ends=ends)


def expected(message: RpcMessage, credit_word: int, payload: bytes) -> Inbound:
    return Inbound(message.kind, message.xid, credit_word, 2, message.chunks, payload, 0, message.long, message.ends)


@given(message=messages(), credit_word=WORDS, rest=st.binary(max_size=50))
def test_what_one_end_sends_is_what_the_other_gets(message: RpcMessage, credit_word: int, rest: bytes) -> None:
    octets = Version2().encode(message, credit_word)
    assert Version2().geometry.size_chunks(message.chunks) + 36 >= len(octets)
    payload = b"" if message.long else message.xid.to_bytes(4, "big") + int(message.kind).to_bytes(4, "big") + rest
    assert simple(Version2().decode(octets + payload)) == expected(message, credit_word, payload)


@given(message=messages(may_be_long=False), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_what_is_sent_in_pieces_comes_whole(message: RpcMessage, cuts: list[int]) -> None:
    sender, receiver = Version2(), Version2()
    payload = message.xid.to_bytes(4, "big") + int(message.kind).to_bytes(4, "big") + bytes(range(50))
    start = 0
    for cut in sorted(cuts):
        end = min(cut, len(payload))
        piece = sender.encode_piece(message, 1)
        assert receiver.decode(piece + payload[start:end]) == Inbound(Kind.PIECE, message.xid, 1, 2)
        start = end
    assert simple(receiver.decode(sender.encode(message, 9) + payload[start:])) == expected(message, 9, payload)


@given(xid=WORDS, credit_word=WORDS, refusal=REFUSALS)
def test_refusals_arrive(xid: int, credit_word: int, refusal: Refusal) -> None:
    octets = Version2().encode(OutgoingError(xid, 2, refusal, answers_call=True), credit_word)
    found = Version2().decode_answer(octets)
    if refusal.cause is Cause.VERSION and not (1 <= refusal.low <= min(2, refusal.high)):
        assert found is None or found.refusal != refusal
    else:
        assert found == Inbound(Kind.ERROR, xid, credit_word, 2, refusal=refusal)


@given(xid=WORDS, credit_word=WORDS, properties=PROPERTY_SETS)
def test_properties_and_grants_arrive(xid: int, credit_word: int, properties: tuple[tuple[int, bytes], ...]) -> None:
    octets = header_v2.encode_header(header_v2.Rdma2ConnProp(xid, credit_word, encode_property_set(properties)))
    assert octets.startswith(Version2().encode(OutgoingProperties(xid, properties), credit_word))
    assert Version2().decode(octets) == Inbound(Kind.PROPERTIES, xid, credit_word, 2, properties=properties)
    assert Version2().decode(Version2().encode(OutgoingGrant(), credit_word)) == Inbound(Kind.GRANT, 0, credit_word, 2)
    assert decode_property_set(encode_property_set(properties)) == properties


@given(data=st.data())
def test_values_of_properties_survive_the_round_trip(data: st.DataObject) -> None:
    sizes = st.integers(1024, 0xFFFFFFFF)
    own = Properties(
        *(data.draw(sizes) for _ in range(3)),
        data.draw(WORDS),
        data.draw(st.sampled_from(ReverseSupport)),
        data.draw(st.none() | st.binary(max_size=300)),
    )
    assert decode_properties(encode_properties(own, PROPERTIES), PROPERTIES) == own
