"""The transport header of RPC-over-RDMA version 2 as draft-ietf-nfsv4-rpcrdma-version-two-07 has it.

Every header starts with four words: xid, version, credits, type. The type says which end calls, and whether the RPC
message, or a part of it, follows the header.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists
from rpcrdma.transport.dialects.chunk_lists import (
    decode_read_list,
    decode_reply_chunk,
    decode_write_list,
    encode_read_list,
    encode_reply_chunk,
    encode_write_list,
)
from rpcrdma.transport.dialects.header_parts import ERR_VERS, FIXED, ErrorCode, ErrorCodes
from rpcrdma.transport.dialects.version_2 import VERSION
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.wire.buffers import Buffer, Reader

__all__ = [
    "ERRORS",
    "PIECE_HEADER",
    "PIECE_HEADER_OCTETS",
    "RDMA2_CALL_EXTERNAL",
    "RDMA2_CALL_INLINE",
    "RDMA2_CALL_MIDDLE",
    "RDMA2_CONNPROP_FINAL",
    "RDMA2_CONNPROP_MIDDLE",
    "RDMA2_ERROR",
    "RDMA2_GRANT",
    "RDMA2_REPLY_EXTERNAL",
    "RDMA2_REPLY_INLINE",
    "RDMA2_REPLY_MIDDLE",
    "SHORT_CALL",
    "SHORT_CALL_OCTETS",
    "SHORT_REPLY",
    "SHORT_REPLY_OCTETS",
    "Header",
    "Rdma2Call",
    "Rdma2ConnProp",
    "Rdma2Error",
    "Rdma2Grant",
    "Rdma2Middle",
    "Rdma2Reply",
    "decode_header",
    "encode_header",
]

RDMA2_ERROR = 4
RDMA2_GRANT = 5
RDMA2_CONNPROP_MIDDLE = 6
RDMA2_CONNPROP_FINAL = 7
RDMA2_CALL_EXTERNAL = 8
RDMA2_CALL_MIDDLE = 9
RDMA2_CALL_INLINE = 10
RDMA2_REPLY_EXTERNAL = 11
RDMA2_REPLY_MIDDLE = 12
RDMA2_REPLY_INLINE = 13

SHORT_CALL = struct.Struct(">IIIIIIII")
"""xid, version, credits, type, the handle to invalidate, and three lists, which are zero words without chunks."""
SHORT_CALL_OCTETS = SHORT_CALL.size
SHORT_REPLY = struct.Struct(">IIIII")
"""xid, version, credits, type, and the Write list."""
SHORT_REPLY_OCTETS = SHORT_REPLY.size
PIECE_HEADER = struct.Struct(">IIIII")
"""xid, version, credits, type, and the octets of the RPC message that are to come in other messages."""
PIECE_HEADER_OCTETS = PIECE_HEADER.size

ERRORS = ErrorCodes(
    (
        ErrorCode(ERR_VERS, Cause.VERSION, ("low", "high")),
        ErrorCode(2, Cause.HEADER),
        ErrorCode(3, Cause.PROPERTY),
        ErrorCode(4, Cause.HEADER_TYPE),
        ErrorCode(5, Cause.FLAGS),
        ErrorCode(6, Cause.READ_CHUNKS, ("limit",)),
        ErrorCode(7, Cause.WRITE_CHUNKS, ("limit",)),
        ErrorCode(8, Cause.SEGMENTS, ("limit",)),
        ErrorCode(9, Cause.WRITE_RESOURCE, ("chunk", "needed")),
        ErrorCode(10, Cause.REPLY_RESOURCE, ("needed",)),
        ErrorCode(11, Cause.VERSION_MISMATCH),
        ErrorCode(100, Cause.SYSTEM),
    ),
    {
        Cause.INELIGIBLE: Cause.SYSTEM,
        Cause.TOO_LARGE: Cause.SYSTEM,
        Cause.CHUNKS: Cause.SYSTEM,
    },
)
"""RDMA2_ERR_VERS to RDMA2_ERR_SYSTEM, with the data of the union rpcrdma2_hdr_error."""

_WORD = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Rdma2Error:
    """RDMA2_ERROR."""

    xid: int
    credits: int
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Rdma2Grant:
    """RDMA2_GRANT: nothing but credits."""

    xid: int
    credits: int


@dataclass(frozen=True, slots=True)
class Rdma2ConnProp:
    """RDMA2_CONNPROP_MIDDLE or, if `final`, RDMA2_CONNPROP_FINAL: a property set in `octets`."""

    xid: int
    credits: int
    octets: bytes
    final: bool = True


@dataclass(frozen=True, slots=True)
class Rdma2Call:
    """RDMA2_CALL_INLINE: the call, as far as it is not in chunks, follows `size` octets of header.

    If `external`, RDMA2_CALL_EXTERNAL: the call is in the Call chunk, which is the Read chunk at Position Zero here.
    """

    xid: int
    credits: int
    inv_handle: int = 0
    chunks: ChunkLists = NO_CHUNKS
    external: bool = False
    size: int = SHORT_CALL_OCTETS


@dataclass(frozen=True, slots=True)
class Rdma2Reply:
    """RDMA2_REPLY_INLINE: the reply, as far as it is not in chunks, follows `size` octets of header.

    If `external`, RDMA2_REPLY_EXTERNAL: it is in the Reply chunk, which no other reply has.
    """

    xid: int
    credits: int
    chunks: ChunkLists = NO_CHUNKS
    external: bool = False
    size: int = SHORT_REPLY_OCTETS


@dataclass(frozen=True, slots=True)
class Rdma2Middle:
    """RDMA2_CALL_MIDDLE or, if it `answers` a call, RDMA2_REPLY_MIDDLE: `remaining` octets follow in other messages."""

    xid: int
    credits: int
    remaining: int
    answers: bool = False
    size: int = PIECE_HEADER_OCTETS


Header: TypeAlias = Rdma2Error | Rdma2Grant | Rdma2ConnProp | Rdma2Call | Rdma2Reply | Rdma2Middle


def encode_header(header: Header) -> bytes:
    """Encodes any header, also forbidden ones, for decoders of captures and for hostile peers in tests."""
    kind, body = _ENCODERS[type(header)](header)
    return FIXED.pack(header.xid, VERSION, header.credits, kind) + body


def _encode_error(header: Rdma2Error) -> tuple[int, bytes]:
    return RDMA2_ERROR, ERRORS.encode(header.refusal)


def _encode_grant(_header: Rdma2Grant) -> tuple[int, bytes]:
    return RDMA2_GRANT, b""


def _encode_properties(header: Rdma2ConnProp) -> tuple[int, bytes]:
    return RDMA2_CONNPROP_FINAL if header.final else RDMA2_CONNPROP_MIDDLE, header.octets


def _encode_call(header: Rdma2Call) -> tuple[int, bytes]:
    reads, writes, reply = header.chunks
    out = bytearray(_WORD.pack(header.inv_handle))
    if header.external:
        encode_read_list(out, tuple(chunk for chunk in reads if not chunk.position))
        reads = tuple(chunk for chunk in reads if chunk.position)
    encode_read_list(out, reads)
    encode_write_list(out, writes)
    encode_reply_chunk(out, reply)
    return RDMA2_CALL_EXTERNAL if header.external else RDMA2_CALL_INLINE, bytes(out)


def _encode_reply(header: Rdma2Reply) -> tuple[int, bytes]:
    out = bytearray()
    encode_write_list(out, header.chunks.writes)
    if header.external:
        encode_reply_chunk(out, header.chunks.reply)
    return RDMA2_REPLY_EXTERNAL if header.external else RDMA2_REPLY_INLINE, bytes(out)


def _encode_middle(header: Rdma2Middle) -> tuple[int, bytes]:
    return RDMA2_REPLY_MIDDLE if header.answers else RDMA2_CALL_MIDDLE, _WORD.pack(header.remaining)


_ENCODERS: dict[type, Callable[[Any], tuple[int, bytes]]] = {
    Rdma2Error: _encode_error,
    Rdma2Grant: _encode_grant,
    Rdma2ConnProp: _encode_properties,
    Rdma2Call: _encode_call,
    Rdma2Reply: _encode_reply,
    Rdma2Middle: _encode_middle,
}


def decode_header(data: Buffer) -> Header:
    """The header that starts `data`.

    An inline message, or a piece of one, may be followed by a payload, the others by nothing.

    Raises:
        TooMany: a list is longer than `rpcrdma.limits` allows.
        DecodeError: the octets are no version 2 header.
    """
    reader = Reader(data)
    xid, version, credits_, kind = reader.take(FIXED, "header prefix")
    if version != VERSION:
        raise DecodeError("rdma_vers", 4, str(VERSION), str(version))
    if kind in (RDMA2_CALL_INLINE, RDMA2_CALL_EXTERNAL):
        return _decode_call(reader, xid, credits_, external=kind == RDMA2_CALL_EXTERNAL)
    if kind in (RDMA2_REPLY_INLINE, RDMA2_REPLY_EXTERNAL):
        return _decode_reply(reader, xid, credits_, external=kind == RDMA2_REPLY_EXTERNAL)
    if kind in (RDMA2_CALL_MIDDLE, RDMA2_REPLY_MIDDLE):
        return Rdma2Middle(xid, credits_, reader.u32("rdma_remaining"), answers=kind == RDMA2_REPLY_MIDDLE)
    if kind in (RDMA2_CONNPROP_MIDDLE, RDMA2_CONNPROP_FINAL):
        octets = reader.octets(reader.remaining, "rdma_props")
        return Rdma2ConnProp(xid, credits_, octets, final=kind == RDMA2_CONNPROP_FINAL)
    if kind == RDMA2_ERROR:
        return Rdma2Error(xid, credits_, ERRORS.decode(reader))
    if kind == RDMA2_GRANT:
        reader.done("RDMA2_GRANT")
        return Rdma2Grant(xid, credits_)
    raise DecodeError("rdma_htype", 12, "4 to 13", str(kind))


def _decode_call(reader: Reader, xid: int, credits_: int, *, external: bool) -> Rdma2Call:
    inv_handle = reader.u32("rdma_inv_handle")
    call = decode_read_list(reader) if external else ()
    if external and (len(call) != 1 or call[0].position):
        raise DecodeError("rdma_call", 20, "one chunk at Position 0", "another list")
    reads = decode_read_list(reader, ascending=True)
    if reads and not reads[0].position:
        raise DecodeError("rdma_reads", reader.pos, "no Position 0", "one")
    lists = ChunkLists((*call, *reads), decode_write_list(reader), decode_reply_chunk(reader))
    if external:
        reader.done("RDMA2_CALL_EXTERNAL")
    return Rdma2Call(xid, credits_, inv_handle, _shared(lists), external, reader.pos)


def _decode_reply(reader: Reader, xid: int, credits_: int, *, external: bool) -> Rdma2Reply:
    writes = decode_write_list(reader)
    reply = decode_reply_chunk(reader) if external else None
    if external and reply is None:
        raise DecodeError("rdma_reply", reader.pos - 4, "a Reply chunk", "none")
    if external:
        reader.done("RDMA2_REPLY_EXTERNAL")
    return Rdma2Reply(xid, credits_, _shared(ChunkLists((), writes, reply)), external, reader.pos)


def _shared(lists: ChunkLists) -> ChunkLists:
    return NO_CHUNKS if lists == NO_CHUNKS else lists
