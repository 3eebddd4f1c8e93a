"""Chunks: memory that a requester exposes, as it is named in transport headers (RFC 8166 section 3.4).

Offsets are opaque 64-bit numbers, lengths count octets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rpcrdma.verbs.protection_domain import MemoryRegion
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "NO_CHUNKS",
    "ChunkLists",
    "ReadChunk",
    "Segment",
    "WriteChunk",
    "addressable",
    "fill",
    "merge_small",
    "segments_needed",
    "segments_of",
    "split_gather",
    "well_placed",
]

_OFFSET_END = 1 << 64


_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


class Segment(NamedTuple):
    """xdr_rdma_segment: a part of a chunk that lies in one memory region (RFC 8166 section 3.4.3).

    `handle` is the region's handle (R_key), `length` counts octets, and `offset` is the 64-bit offset for RDMA.
    """

    handle: int
    length: int
    offset: int


class ReadChunk(NamedTuple):
    """The xdr_read_chunk entries of one Position, in list order: argument data for the responder to read.

    `position` is the offset in the unreduced stream, a multiple of four (RFC 8166 section 3.4.5).
    """

    position: int
    segments: tuple[Segment, ...]

    @property
    def length(self) -> int:
        """The octets of all segments of the chunk."""
        total = 0
        for segment in self.segments:
            total += segment.length
        return total


class WriteChunk(NamedTuple):
    """xdr_write_chunk: memory for one result item, or, as the Reply chunk, for a whole reply.

    A chunk without segments is *empty*: the result item stays inline. A chunk whose segments all have length 0 is
    *unused*.
    """

    segments: tuple[Segment, ...]

    @property
    def length(self) -> int:
        """The octets of all segments of the chunk."""
        total = 0
        for segment in self.segments:
            total += segment.length
        return total


class ChunkLists(NamedTuple):
    """The Read list, the Write list and the Reply chunk (None if absent) of one transport header."""

    reads: tuple[ReadChunk, ...] = ()
    writes: tuple[WriteChunk, ...] = ()
    reply: WriteChunk | None = None

    @property
    def chunks(self) -> tuple[ReadChunk | WriteChunk, ...]:
        """All chunks in this order: the Write chunks, the Reply chunk if there is one, the Read chunks."""
        return (*self.writes, *self.reads) if self.reply is None else (*self.writes, self.reply, *self.reads)

    @property
    def first_handle(self) -> int | None:
        """The handle of the first segment in the order Write, Reply, Read chunks; None if no chunk has a segment.

        The responder is likely to invalidate this handle along with its reply.
        """
        for chunk in (*self.writes, self.reply, *self.reads):
            if chunk is not None and chunk.segments:
                return chunk.segments[0].handle
        return None

    def count_segments(self) -> int:
        """Returns the number of segments in all chunks."""
        return sum(len(chunk.segments) for chunk in self.chunks)

    def names(self, handle: int) -> bool:
        """Returns whether any segment has this handle."""
        for chunk in self.chunks:
            for segment in chunk.segments:
                if segment.handle == handle:
                    return True
        return False


NO_CHUNKS = ChunkLists()
"""The chunk lists of every message without chunks; such a message is recognized by identity with this object."""


def addressable(chunks: ChunkLists, segment_octets: int) -> bool:
    """Returns whether an RDMA work request can be posted for every segment of `chunks`.

    This holds if each segment has at most `segment_octets` octets and ends at or before offset 2^64.
    """
    for read in chunks.reads:
        for _, length, offset in read.segments:
            if offset + length > _OFFSET_END or length > segment_octets:
                return False
    for write in chunks.writes if chunks.reply is None else (*chunks.writes, chunks.reply):
        for _, length, offset in write.segments:
            if offset + length > _OFFSET_END or length > segment_octets:
                return False
    return True


def well_placed(reads: tuple[ReadChunk, ...], inline: int | None) -> bool:
    """Checks that Read chunks lie at their Positions without overlap, within the unreduced Payload stream.

    `reads`: the Read chunks, whose order does not matter. `inline`: the octets of the reduced stream; None if a
    Position-Zero Read chunk holds the stream. Returns True if they fit; False also if the Position-Zero chunk is
    missing, or is present along with `inline`.
    """
    end = 0
    taken = 0
    for chunk in sorted(reads):
        length = chunk.length
        if chunk.position == 0:
            if inline is not None:
                return False
            inline = length
            continue
        if chunk.position < end or inline is None or chunk.position - taken > inline:
            return False
        taken += (length + 3) & ~3
        end = chunk.position + ((length + 3) & ~3)
    return inline is not None


def segments_needed(length: int, segment_octets: int) -> int:
    """Returns how many segments, of at most `segment_octets`, name `length` octets of one region; 0 for length 0."""
    return -(-length // segment_octets)


def segments_of(region: MemoryRegion, segment_octets: int) -> tuple[Segment, ...]:
    """Returns the segments, of at most `segment_octets` each, that name all of `region`."""
    handle, length, offset = region.handle, region.length, region.offset
    if length <= segment_octets:
        return (_tuple(Segment, (handle, length, offset)),)
    return tuple(
        Segment(handle, min(segment_octets, length - start), offset + start)
        for start in range(0, length, segment_octets)
    )


def fill(chunk: WriteChunk, length: int) -> WriteChunk:
    """Returns a copy of an offered chunk, for the reply: its segment lengths state that `length` octets were written.

    The octets fill the segments in order; unused segments get length 0. `length` must not exceed that of `chunk`.
    """
    filled = []
    for handle, room, offset in chunk.segments:
        used = min(length, room)
        filled.append(_tuple(Segment, (handle, used, offset)))
        length -= used
    return _tuple(WriteChunk, (tuple(filled),))


def split_gather(gather: Sequence[Buffer], segments: Sequence[Segment]) -> Iterable[tuple[Segment, Sequence[Buffer]]]:
    """Distributes the octets of a gather list over segments, in order and without copying.

    `segments`: the segments to fill. Returns, in order, pairs of a segment and the pieces of buffers for it. Segments
    that get no octets are left out. Octets beyond the room of all segments are dropped without an error, so the caller
    compares the lengths first.
    """
    match gather, segments:
        case [data], [segment, *_] if 0 < len(data) <= segment.length:
            return ((segment, gather),)
    return _deal(gather, segments)


def _deal(gather: Sequence[Buffer], segments: Sequence[Segment]) -> Iterator[tuple[Segment, list[Buffer]]]:
    pieces = iter(gather)
    view = memoryview(b"")
    for segment in segments:
        room = segment.length
        part: list[Buffer] = []
        while room:
            if not view:
                following = next(pieces, None)
                if following is None:
                    break
                view = memoryview(following)
                continue
            taken = view[:room]
            part.append(taken)
            room -= len(taken)
            view = view[len(taken) :]
        if part:
            yield segment, part


def merge_small(gather: Sequence[Buffer], small_octets: int) -> list[Buffer]:
    """Returns a gather list of the same octets; adjacent buffers of at most `small_octets` each are copied into one."""
    merged: list[Buffer] = []
    for small, run in groupby(gather, lambda buffer: len(buffer) <= small_octets):
        buffers = list(run)
        merged += [b"".join(buffers)] if small and len(buffers) > 1 else buffers
    return merged
