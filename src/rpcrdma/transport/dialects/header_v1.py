"""The transport header of RPC-over-RDMA version 1 (RFC 8166 section 4).

Every header starts with four words: xid, version, credits, procedure. RDMA_MSG and RDMA_NOMSG go on with three
lists; the RPC message follows the header of an RDMA_MSG.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.cursor import Reader

__all__ = [
    "ERR_CHUNK",
    "ERR_VERS",
    "FIXED_OCTETS",
    "RDMA_DONE",
    "RDMA_ERROR",
    "RDMA_MSG",
    "RDMA_MSGP",
    "RDMA_NOMSG",
    "SHORT_HEADER",
    "SHORT_HEADER_OCTETS",
    "VERSION",
    "Header",
    "RdmaDone",
    "RdmaError",
    "RdmaMsg",
    "RdmaMsgp",
    "RdmaNoMsg",
    "decode_header",
    "encode_chunk_refused",
    "encode_header",
    "encode_message",
    "encode_version_refused",
]

VERSION = 1

RDMA_MSG = 0
RDMA_NOMSG = 1
RDMA_MSGP = 2
RDMA_DONE = 3
RDMA_ERROR = 4

ERR_VERS = 1
ERR_CHUNK = 2

SHORT_HEADER = struct.Struct(">IIIIIII")
"""xid, version, credits, procedure, and three lists; with no chunks the lists are three zero words."""
SHORT_HEADER_OCTETS = SHORT_HEADER.size
FIXED_OCTETS = 16

_FIXED = struct.Struct(">IIII")
_WORD = struct.Struct(">I")
_SEGMENT = struct.Struct(">IIQ")
_READ_SEGMENT = struct.Struct(">IIIQ")
_LISTED_READ_SEGMENT = struct.Struct(">IIIIQ")
_VERSION_REFUSED = struct.Struct(">IIIIIII")
_CHUNK_REFUSED = struct.Struct(">IIIII")

_ONE = b"\0\0\0\1"
_ZERO = b"\0\0\0\0"


@dataclass(frozen=True, slots=True)
class RdmaMsg:
    """RDMA_MSG: the RPC message, as far as it is not in chunks, follows after `size` octets of header."""

    xid: int
    credits: int
    chunks: ChunkLists = NO_CHUNKS
    size: int = SHORT_HEADER_OCTETS
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class RdmaNoMsg:
    """RDMA_NOMSG: the RPC message is in a Position-Zero Read chunk or in the Reply chunk."""

    xid: int
    credits: int
    chunks: ChunkLists
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class RdmaMsgp:
    """RDMA_MSGP: never sent, refused when received (RFC 8166 section 4.6.1)."""

    xid: int
    credits: int
    align: int
    threshold: int
    chunks: ChunkLists = NO_CHUNKS
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class RdmaDone:
    """RDMA_DONE: never sent, discarded when received (RFC 8166 section 4.6.2)."""

    xid: int
    credits: int
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class RdmaError:
    """RDMA_ERROR: `code` is ERR_VERS, with the responder's lowest and highest version, or ERR_CHUNK.

    `version` is that of the refused request, whatever it was; credits have no meaning (RFC 8167 section 4.1).
    """

    xid: int
    credits: int
    code: int
    low: int = 0
    high: int = 0
    version: int = VERSION


Header: TypeAlias = RdmaMsg | RdmaNoMsg | RdmaMsgp | RdmaDone | RdmaError


def encode_message(procedure: int, xid: int, credits_: int, chunks: ChunkLists) -> bytes:
    """The header of an RDMA_MSG or RDMA_NOMSG."""
    if chunks is NO_CHUNKS:
        return SHORT_HEADER.pack(xid, VERSION, credits_, procedure, 0, 0, 0)
    out = bytearray(_FIXED.pack(xid, VERSION, credits_, procedure))
    _encode_lists(out, chunks)
    return bytes(out)


def _encode_lists(out: bytearray, chunks: ChunkLists) -> None:
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


def encode_version_refused(xid: int, version: int, credits_: int) -> bytes:
    """RDMA_ERROR with ERR_VERS for a request of `version` (RFC 8166 section 4.5.1)."""
    return _VERSION_REFUSED.pack(xid, version, credits_, RDMA_ERROR, ERR_VERS, VERSION, VERSION)


def encode_chunk_refused(xid: int, version: int, credits_: int) -> bytes:
    """RDMA_ERROR with ERR_CHUNK for a request of `version` (RFC 8166 section 4.5.2)."""
    return _CHUNK_REFUSED.pack(xid, version, credits_, RDMA_ERROR, ERR_CHUNK)


def encode_header(header: Header) -> bytes:
    """Any header, also those that RFC 8166 forbids to send: for decoders of captures and for hostile peers in tests."""
    if isinstance(header, RdmaMsg | RdmaNoMsg):
        out = bytearray(
            _FIXED.pack(header.xid, header.version, header.credits, RDMA_MSG if isinstance(header, RdmaMsg) else 1)
        )
        _encode_lists(out, header.chunks)
    elif isinstance(header, RdmaMsgp):
        out = bytearray(_FIXED.pack(header.xid, header.version, header.credits, RDMA_MSGP))
        out += _WORD.pack(header.align)
        out += _WORD.pack(header.threshold)
        _encode_lists(out, header.chunks)
    elif isinstance(header, RdmaDone):
        out = bytearray(_FIXED.pack(header.xid, header.version, header.credits, RDMA_DONE))
    else:
        out = bytearray(_CHUNK_REFUSED.pack(header.xid, header.version, header.credits, RDMA_ERROR, header.code))
        if header.code == ERR_VERS:
            out += _WORD.pack(header.low)
            out += _WORD.pack(header.high)
    return bytes(out)


def decode_header(data: Buffer, end: int | None = None) -> Header:
    """The header that starts `data[:end]`.

    RDMA_MSG and RDMA_MSGP may be followed by a payload, the others by nothing. An RDMA_ERROR is decoded whatever its
    version is; that of every other message must be 1.

    Raises:
        DecodeError: the octets are no version 1 header, or a list is longer than `rpcrdma.limits` allows.
    """
    reader = Reader(data, 0, end)
    xid, version, credits_, procedure = reader.take(_FIXED, "fixed header")
    if procedure == RDMA_ERROR:
        return _decode_error(reader, xid, version, credits_)
    if version != VERSION:
        raise DecodeError("rdma_vers", 4, "1", str(version), rfc="8166 4.2.2")
    if procedure == RDMA_MSG:
        chunks = _decode_lists(reader)
        return RdmaMsg(xid, credits_, chunks, reader.pos)
    if procedure == RDMA_NOMSG:
        chunks = _decode_lists(reader)
        reader.done("RDMA_NOMSG header")
        return RdmaNoMsg(xid, credits_, chunks)
    if procedure == RDMA_MSGP:
        align = reader.u32("rdma_align")
        threshold = reader.u32("rdma_thresh")
        return RdmaMsgp(xid, credits_, align, threshold, _decode_lists(reader))
    if procedure == RDMA_DONE:
        reader.done("RDMA_DONE header")
        return RdmaDone(xid, credits_)
    raise DecodeError("rdma_proc", 12, "0 to 4", str(procedure), rfc="8166 4.2.4")


def _decode_error(reader: Reader, xid: int, version: int, credits_: int) -> RdmaError:
    code = reader.u32("rdma_err")
    low = high = 0
    if code == ERR_VERS:
        low = reader.u32("rdma_vers_low")
        high = reader.u32("rdma_vers_high")
    elif code != ERR_CHUNK:
        raise DecodeError("rdma_err", 16, "1 or 2", str(code), rfc="8166 4.5")
    reader.done("RDMA_ERROR header")
    return RdmaError(xid, credits_, code, low, high, version)


def _present(reader: Reader, field: str) -> int:
    word = reader.u32(field)
    if word > 1:
        raise DecodeError(field, reader.pos - 4, "0 or 1", str(word), rfc="4506 4.19")
    return word


def _decode_lists(reader: Reader) -> ChunkLists:
    # RFC 8166 does not demand that the segments of one Position stand together: collected by Position, in list order.
    reads: dict[int, list[Segment]] = {}
    while _present(reader, "Read list"):
        position, handle, length, offset = reader.take(_READ_SEGMENT, "Read segment")
        if position & 3:
            raise DecodeError("Position", reader.pos - 20, "a multiple of 4", str(position), rfc="8166 3.4.5")
        segments = reads.setdefault(position, [])
        segments.append(Segment(handle, length, offset))
        if len(reads) > limits.READ_CHUNKS_MAX or len(segments) > limits.CHUNK_SEGMENTS_MAX:
            raise DecodeError(
                "Read list",
                reader.pos - 20,
                f"at most {limits.READ_CHUNKS_MAX} chunks of {limits.CHUNK_SEGMENTS_MAX} segments",
                "more",
            )
    writes: list[WriteChunk] = []
    while _present(reader, "Write list"):
        if len(writes) == limits.WRITE_CHUNKS_MAX:
            raise DecodeError("Write list", reader.pos - 4, f"at most {limits.WRITE_CHUNKS_MAX} chunks", "more")
        writes.append(_decode_segments(reader, "Write chunk"))
    reply = _decode_segments(reader, "Reply chunk") if _present(reader, "Reply chunk") else None
    if not reads and not writes and reply is None:
        return NO_CHUNKS
    return ChunkLists(
        tuple(ReadChunk(position, tuple(segments)) for position, segments in reads.items()), tuple(writes), reply
    )


def _decode_segments(reader: Reader, field: str) -> WriteChunk:
    count = reader.u32(field)
    if count > limits.CHUNK_SEGMENTS_MAX:
        raise DecodeError(field, reader.pos - 4, f"at most {limits.CHUNK_SEGMENTS_MAX} segments", str(count))
    if count == 1:
        handle, length, offset = reader.take(_SEGMENT, field)
        return WriteChunk((Segment(handle, length, offset),))
    octets = reader.view(16 * count, field)
    return WriteChunk(tuple(map(Segment._make, _SEGMENT.iter_unpack(octets))))
