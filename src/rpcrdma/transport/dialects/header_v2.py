"""The transport header of RPC-over-RDMA version 2 as draft-ietf-nfsv4-rpcrdma-version-two-00 has it.

Every header starts with five words: xid, version, credits, type, flags. RDMA2_MSG and RDMA2_NOMSG go on with a handle
and three lists; the RPC message, or a part of it, follows the header of an RDMA2_MSG, properties, or a part of them,
follow the five words of an RDMA2_CONNPROP.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists
from rpcrdma.transport.dialects.chunk_lists import decode_lists, encode_lists
from rpcrdma.transport.dialects.header_parts import ERR_VERS, ErrorCode, ErrorCodes
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.wire.buffers import Buffer, Reader

__all__ = [
    "ERRORS",
    "FLAGS_KNOWN",
    "MORE",
    "PREFIX",
    "PREFIX_OCTETS",
    "RDMA2_CONNPROP",
    "RDMA2_ERROR",
    "RDMA2_MSG",
    "RDMA2_NOMSG",
    "RESPONSE",
    "SHORT_HEADER",
    "SHORT_HEADER_OCTETS",
    "VERSION",
    "Header",
    "Rdma2ConnProp",
    "Rdma2Error",
    "Rdma2Msg",
    "Rdma2NoMsg",
    "decode_header",
    "encode_header",
    "encode_message",
]

VERSION = 2

RDMA2_MSG = 0
RDMA2_NOMSG = 1
RDMA2_ERROR = 4
RDMA2_CONNPROP = 5

RESPONSE = 1
"""The xid is one of the receiver's: the message answers it."""
MORE = 2
"""The payload continues in the next message."""
FLAGS_KNOWN = RESPONSE | MORE

PREFIX = struct.Struct(">IIIII")
"""xid, version, credits, type, flags."""
PREFIX_OCTETS = PREFIX.size
SHORT_HEADER = struct.Struct(">IIIIIIIII")
"""The prefix, the handle to invalidate, and three lists; with no chunks the lists are three zero words."""
SHORT_HEADER_OCTETS = SHORT_HEADER.size

ERRORS = ErrorCodes(
    (
        ErrorCode(ERR_VERS, Cause.VERSION, ("low", "high")),
        ErrorCode(2, Cause.HEADER),
        ErrorCode(3, Cause.HEADER_TYPE),
        ErrorCode(4, Cause.FLAGS),
        ErrorCode(5, Cause.READ_CHUNKS, ("limit",)),
        ErrorCode(6, Cause.WRITE_CHUNKS, ("limit",)),
        ErrorCode(7, Cause.SEGMENTS, ("limit",)),
        ErrorCode(8, Cause.WRITE_RESOURCE, ("chunk", "needed")),
        ErrorCode(9, Cause.REPLY_RESOURCE, ("needed",)),
        ErrorCode(10, Cause.SYSTEM),
    ),
    {
        Cause.PROPERTY: Cause.HEADER,
        Cause.INELIGIBLE: Cause.SYSTEM,
        Cause.TOO_LARGE: Cause.SYSTEM,
        Cause.CHUNKS: Cause.SYSTEM,
    },
)
"""RDMA2_ERR_VERS to RDMA2_ERR_SYSTEM, with the data of the union rpcrdma2_error."""

_WORD = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Rdma2Msg:
    """RDMA2_MSG: the reduced RPC message, or a part of it, follows after `size` octets of header.

    `inv_handle` is the handle that the reply may invalidate, 0 for none; `flags` may have the bits RESPONSE and MORE.
    """

    xid: int
    credits: int
    flags: int = 0
    inv_handle: int = 0
    chunks: ChunkLists = NO_CHUNKS
    size: int = SHORT_HEADER_OCTETS


@dataclass(frozen=True, slots=True)
class Rdma2NoMsg:
    """RDMA2_NOMSG: the RPC message is in a Position-Zero Read chunk or in the Reply chunk.

    A message without chunks whose `xid` and `inv_handle` are 0 only grants credits. `inv_handle` is the handle that the
    reply may invalidate, 0 for none; `flags` may have the bit RESPONSE.
    """

    xid: int
    credits: int
    flags: int = 0
    inv_handle: int = 0
    chunks: ChunkLists = NO_CHUNKS


@dataclass(frozen=True, slots=True)
class Rdma2Error:
    """RDMA2_ERROR: the refusal of the message with this XID; `credits` has no meaning."""

    xid: int
    credits: int
    refusal: Refusal
    flags: int = RESPONSE


@dataclass(frozen=True, slots=True)
class Rdma2ConnProp:
    """RDMA2_CONNPROP: `octets` is an encoded property set, or a part of one that further messages continue (MORE)."""

    xid: int
    credits: int
    octets: bytes
    flags: int = 0


Header: TypeAlias = Rdma2Msg | Rdma2NoMsg | Rdma2Error | Rdma2ConnProp


def encode_message(header_type: int, xid: int, credits_: int, flags: int, inv_handle: int, chunks: ChunkLists) -> bytes:
    """Encodes the version 2 header of a message of type `header_type`, RDMA2_MSG or RDMA2_NOMSG.

    `credits_` is the credit word. `flags` are bits such as RESPONSE and MORE. `inv_handle` is the handle that the reply
    may invalidate; 0: none.
    """
    if chunks is NO_CHUNKS:
        return SHORT_HEADER.pack(xid, VERSION, credits_, header_type, flags, inv_handle, 0, 0, 0)
    out = bytearray(PREFIX.pack(xid, VERSION, credits_, header_type, flags))
    out += _WORD.pack(inv_handle)
    encode_lists(out, chunks)
    return bytes(out)


def encode_header(header: Header) -> bytes:
    """Encodes any version 2 header, also forbidden ones, for tests with hostile peers and of other decoders."""
    if isinstance(header, Rdma2Msg | Rdma2NoMsg):
        header_type = RDMA2_MSG if isinstance(header, Rdma2Msg) else RDMA2_NOMSG
        return encode_message(header_type, header.xid, header.credits, header.flags, header.inv_handle, header.chunks)
    if isinstance(header, Rdma2Error):
        prefix = PREFIX.pack(header.xid, VERSION, header.credits, RDMA2_ERROR, header.flags)
        return prefix + ERRORS.encode(header.refusal)
    return PREFIX.pack(header.xid, VERSION, header.credits, RDMA2_CONNPROP, header.flags) + header.octets


def decode_header(data: Buffer) -> Header:
    """Decodes the version 2 header at the start of `data`; does not check the meaning of its flags.

    Raises:
        TooMany: a list is longer than `rpcrdma.limits` allows.
        DecodeError: the octets are no version 2 header, or octets follow the header of an RDMA2_NOMSG or RDMA2_ERROR.
    """
    reader = Reader(data)
    xid, version, credits_, header_type, flags = reader.take(PREFIX, "header prefix")
    if version != VERSION:
        raise DecodeError("rdma_vers", 4, str(VERSION), str(version))
    if header_type in (RDMA2_MSG, RDMA2_NOMSG):
        inv_handle = reader.u32("rdma_inv_handle")
        chunks = decode_lists(reader)
        if header_type == RDMA2_MSG:
            return Rdma2Msg(xid, credits_, flags, inv_handle, chunks, reader.pos)
        reader.done("RDMA2_NOMSG header")
        return Rdma2NoMsg(xid, credits_, flags, inv_handle, chunks)
    if header_type == RDMA2_ERROR:
        return Rdma2Error(xid, credits_, ERRORS.decode(reader), flags)
    if header_type == RDMA2_CONNPROP:
        return Rdma2ConnProp(xid, credits_, reader.octets(reader.remaining, "rdma_props"), flags)
    raise DecodeError("rdma_htype", 12, "0, 1, 4 or 5", str(header_type))
