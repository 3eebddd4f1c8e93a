"""The transport header of RPC-over-RDMA version 1 (RFC 8166 section 4).

Every header starts with four words: xid, version, credits, procedure. RDMA_MSG and RDMA_NOMSG go on with three
lists; the RPC message follows the header of an RDMA_MSG.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists
from rpcrdma.transport.dialects.chunk_lists import decode_lists, encode_lists
from rpcrdma.transport.dialects.header_parts import ERR_VERS, FIXED, RDMA_ERROR
from rpcrdma.wire.buffers import Buffer, Reader

__all__ = [
    "ERR_CHUNK",
    "ERR_VERS",
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
]

VERSION = 1

RDMA_MSG = 0
RDMA_NOMSG = 1
RDMA_MSGP = 2
RDMA_DONE = 3

ERR_CHUNK = 2

SHORT_HEADER = struct.Struct(">IIIIIII")
"""xid, version, credits, procedure, and three lists; with no chunks the lists are three zero words."""
SHORT_HEADER_OCTETS = SHORT_HEADER.size

_WORD = struct.Struct(">I")
_CHUNK_REFUSED = struct.Struct(">IIIII")


@dataclass(frozen=True, slots=True)
class RdmaMsg:
    """RDMA_MSG: the reduced RPC message follows after `size` octets of header.

    `credits` is the credit word, `chunks` has the chunk lists.
    """

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
    """RDMA_MSGP, with padding between header and data: never sent, refused when received (RFC 8166 section 4.6.1)."""

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
    """RDMA_ERROR: `code` is ERR_VERS, with the responder's lowest and highest version (`low`, `high`), or ERR_CHUNK.

    `version`, in the header, is that of the refused request, any number; `credits` is unused (RFC 8167 section 4.1).
    """

    xid: int
    credits: int
    code: int
    low: int = 0
    high: int = 0
    version: int = VERSION


Header: TypeAlias = RdmaMsg | RdmaNoMsg | RdmaMsgp | RdmaDone | RdmaError


def encode_message(procedure: int, xid: int, credits_: int, chunks: ChunkLists) -> bytes:
    """Encodes the version 1 header of a message of type `procedure`, RDMA_MSG or RDMA_NOMSG.

    `credits_` is the credit word.
    """
    if chunks is NO_CHUNKS:
        return SHORT_HEADER.pack(xid, VERSION, credits_, procedure, 0, 0, 0)
    out = bytearray(FIXED.pack(xid, VERSION, credits_, procedure))
    encode_lists(out, chunks)
    return bytes(out)


def encode_chunk_refused(xid: int, version: int, credits_: int) -> bytes:
    """Encodes a whole RDMA_ERROR message with ERR_CHUNK (RFC 8166 section 4.5.2).

    `xid`, `version`: those of the refused request. `credits_`: the credit word.
    """
    return _CHUNK_REFUSED.pack(xid, version, credits_, RDMA_ERROR, ERR_CHUNK)


def encode_header(header: Header) -> bytes:
    """Encodes any version 1 header, also forbidden ones, for tests with hostile peers and of other decoders."""
    if isinstance(header, RdmaMsg | RdmaNoMsg):
        out = bytearray(
            FIXED.pack(header.xid, header.version, header.credits, RDMA_MSG if isinstance(header, RdmaMsg) else 1)
        )
        encode_lists(out, header.chunks)
    elif isinstance(header, RdmaMsgp):
        out = bytearray(FIXED.pack(header.xid, header.version, header.credits, RDMA_MSGP))
        out += _WORD.pack(header.align)
        out += _WORD.pack(header.threshold)
        encode_lists(out, header.chunks)
    elif isinstance(header, RdmaDone):
        out = bytearray(FIXED.pack(header.xid, header.version, header.credits, RDMA_DONE))
    else:
        out = bytearray(_CHUNK_REFUSED.pack(header.xid, header.version, header.credits, RDMA_ERROR, header.code))
        if header.code == ERR_VERS:
            out += _WORD.pack(header.low)
            out += _WORD.pack(header.high)
    return bytes(out)


def decode_header(data: Buffer) -> Header:
    """Decodes the version 1 header at the start of `data`.

    RDMA_MSG and RDMA_MSGP may be followed by a payload, the others by nothing. An RDMA_ERROR may have any version,
    every other message must have version 1.

    Raises:
        DecodeError: the octets are no version 1 header, or a list is longer than `rpcrdma.limits` allows.
    """
    reader = Reader(data)
    xid, version, credits_, procedure = reader.take(FIXED, "fixed header")
    if procedure == RDMA_ERROR:
        return _decode_error(reader, xid, version, credits_)
    if version != VERSION:
        raise DecodeError("rdma_vers", 4, "1", str(version), rfc="8166 4.2.2")
    if procedure == RDMA_MSG:
        chunks = decode_lists(reader)
        return RdmaMsg(xid, credits_, chunks, reader.pos)
    if procedure == RDMA_NOMSG:
        chunks = decode_lists(reader)
        reader.done("RDMA_NOMSG header")
        return RdmaNoMsg(xid, credits_, chunks)
    if procedure == RDMA_MSGP:
        align = reader.u32("rdma_align")
        threshold = reader.u32("rdma_thresh")
        return RdmaMsgp(xid, credits_, align, threshold, decode_lists(reader))
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
