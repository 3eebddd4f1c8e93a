"""Read list, Write list and Reply chunk in octets, the same in every version (RFC 8166 section 4.3)."""

from __future__ import annotations

import struct

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.message import Cause
from rpcrdma.wire.buffers import Reader

__all__ = ["TooMany", "decode_lists", "encode_lists"]

_WORD = struct.Struct(">I")
_SEGMENT = struct.Struct(">IIQ")
_READ_SEGMENT = struct.Struct(">IIIQ")
_LISTED_READ_SEGMENT = struct.Struct(">IIIIQ")

_ONE = b"\0\0\0\1"
_ZERO = b"\0\0\0\0"


class TooMany(DecodeError):
    """Raised for a received chunk list that has more chunks, or a chunk that has more segments, than `limit`.

    `cause` is `READ_CHUNKS`, `WRITE_CHUNKS` or `SEGMENTS`. `field` is the name of the list or chunk, `offset` the place
    of the excess in the header.
    """

    def __init__(self, field: str, offset: int, cause: Cause, limit: int) -> None:
        super().__init__(
            field, offset, f"at most {limit} {'segments' if cause is Cause.SEGMENTS else 'chunks'}", "more"
        )
        self.cause = cause
        self.limit = limit


def encode_lists(out: bytearray, chunks: ChunkLists) -> None:
    """Appends the encoded Read list, Write list and Reply chunk to `out`."""
    for position, segments in chunks.reads:
        for handle, length, offset in segments:
            out += _LISTED_READ_SEGMENT.pack(1, position, handle, length, offset)
    out += _ZERO
    for write in chunks.writes:
        out += _ONE
        _encode_segments(out, write.segments)
    out += _ZERO
    if chunks.reply is None:
        out += _ZERO
    else:
        out += _ONE
        _encode_segments(out, chunks.reply.segments)


def _encode_segments(out: bytearray, segments: tuple[Segment, ...]) -> None:
    out += _WORD.pack(len(segments))
    for segment in segments:
        out += _SEGMENT.pack(*segment)


def decode_lists(reader: Reader) -> ChunkLists:
    """Decodes the Read list, the Write list and the Reply chunk at the reader's position, and advances the reader.

    Read segments are collected by Position, in list order: RFC 8166 does not demand that those of one Position stand
    together. Returns the lists; the object `NO_CHUNKS` if all are empty.

    Raises:
        TooMany: there are more chunks, or more segments of one chunk, than `rpcrdma.limits` allows.
        DecodeError: the octets are no such lists, or a Position is no multiple of 4.
    """
    reads: dict[int, list[Segment]] = {}
    while _present(reader, "Read list"):
        position, handle, length, offset = reader.take(_READ_SEGMENT, "Read segment")
        if position & 3:
            raise DecodeError("Position", reader.pos - 20, "a multiple of 4", str(position), rfc="8166 3.4.5")
        segments = reads.setdefault(position, [])
        segments.append(Segment(handle, length, offset))
        if len(reads) > limits.READ_CHUNKS_MAX:
            raise TooMany("Read list", reader.pos - 20, Cause.READ_CHUNKS, limits.READ_CHUNKS_MAX)
        if len(segments) > limits.CHUNK_SEGMENTS_MAX:
            raise TooMany("Read list", reader.pos - 20, Cause.SEGMENTS, limits.CHUNK_SEGMENTS_MAX)
    writes: list[WriteChunk] = []
    while _present(reader, "Write list"):
        if len(writes) == limits.WRITE_CHUNKS_MAX:
            raise TooMany("Write list", reader.pos - 4, Cause.WRITE_CHUNKS, limits.WRITE_CHUNKS_MAX)
        writes.append(_decode_segments(reader, "Write chunk"))
    reply = _decode_segments(reader, "Reply chunk") if _present(reader, "Reply chunk") else None
    if not reads and not writes and reply is None:
        return NO_CHUNKS
    read_chunks = tuple(ReadChunk(position, tuple(segments)) for position, segments in reads.items())
    return ChunkLists(read_chunks, tuple(writes), reply)


def _present(reader: Reader, field: str) -> int:
    word = reader.u32(field)
    if word > 1:
        raise DecodeError(field, reader.pos - 4, "0 or 1", str(word), rfc="4506 4.19")
    return word


def _decode_segments(reader: Reader, field: str) -> WriteChunk:
    count = reader.u32(field)
    if count > limits.CHUNK_SEGMENTS_MAX:
        raise TooMany(field, reader.pos - 4, Cause.SEGMENTS, limits.CHUNK_SEGMENTS_MAX)
    if count == 1:
        handle, length, offset = reader.take(_SEGMENT, field)
        return WriteChunk((Segment(handle, length, offset),))
    octets = reader.view(16 * count, field)
    return WriteChunk(tuple(map(Segment._make, _SEGMENT.iter_unpack(octets))))
