"""Version 1 of the protocol: decoding and encoding of messages (RFC 8166 section 4.5).

The first four words of a header have the version. The direction follows from the RPC message: the responder takes a
CALL, the requester a REPLY (RFC 8167). An RDMA_ERROR always refuses a call of its receiver.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace

from rpcrdma.errors import DecodeError
from rpcrdma.transport.call_credits import CallWindow
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.config import Role, TransportConfig
from rpcrdma.transport.dialects.dialect import Geometry
from rpcrdma.transport.dialects.header_parts import (
    FIXED,
    FIXED_OCTETS,
    VersionRefusal,
    encode_version_refused,
)
from rpcrdma.transport.dialects.header_v1 import (
    ERR_VERS,
    RDMA_DONE,
    RDMA_ERROR,
    RDMA_MSG,
    RDMA_NOMSG,
    SHORT_HEADER,
    SHORT_HEADER_OCTETS,
    VERSION,
    RdmaError,
    RdmaMsg,
    RdmaNoMsg,
    decode_header,
    encode_chunk_refused,
    encode_message,
)
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing, OutgoingError, Refusal
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.private_data import Agreement, PrivateData, agree
from rpcrdma.transport.properties import Property
from rpcrdma.wire.buffers import Buffer

__all__ = ["GEOMETRY", "Version1"]

GEOMETRY = Geometry(
    call_header=SHORT_HEADER_OCTETS,
    reply_header=SHORT_HEADER_OCTETS,
    read_segment=24,
    write_chunk=8,
    reply_chunk=4,
    segment=16,
)

_CALL = 0
_REPLY = 1

_SHORT_MESSAGE = struct.Struct(">IIIIIIIII")
"""A header without chunks, and the XID and direction of the RPC message after it."""
_RPC_START = struct.Struct(">II")
_ONE_WRITE = struct.Struct(">IIIIIIIIIQII")
"""A header with one Write chunk of one segment: the words 0, 1, 1 before it, 0, 0 after it."""
_ONE_READ = struct.Struct(">IIIIIIIIQIII")
"""A header with one Read segment: the word 1 and its Position before it, 0, 0, 0 after it."""

_MALFORMED = Refusal(Cause.HEADER)
_CHUNKS_REFUSED = Refusal(Cause.CHUNKS)
_KINDS = (Kind.CALL, Kind.REPLY)
_new = Inbound.__new__
_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


class Version1:
    """Implements `Dialect` for RPC-over-RDMA version 1 (RFC 8166); it has no state."""

    __slots__ = ()
    version = VERSION
    name = "1"
    geometry = GEOMETRY
    introduces = False
    unfinished = 0
    properties: Mapping[int, Property] = {}

    def count_in(self, _memory: MessageMemory) -> None:
        """Does nothing: version 1 has no continued messages, whose pieces would be counted."""

    def forget(self) -> None:
        """Does nothing: version 1 has no continued messages, whose pieces would be released."""

    def extend(self, _headers: Mapping[int, tuple[int, bool]], _error_words: Mapping[int, int]) -> None:
        """Does nothing: version 1 has no extensions."""

    def agree(self, own: PrivateData, peer: PrivateData | None) -> Agreement:
        """Returns the inline thresholds and the use of remote invalidation by both sides' private data (RFC 8797).

        `peer`: the peer's private data; None if the peer sent none: then 1024 octets and no remote invalidation.
        """
        return agree(own, peer)

    def window(self, config: TransportConfig, role: Role, *, reverse: bool, reservable: int = 0) -> CallWindow:
        """Creates the credit accounting of a connection, where a credit stands for an unanswered call.

        Args:
            config: the settings, which have the numbers of calls to request and to grant.
            role: the role of this end.
            reverse: at a client, whether the server makes calls: then receives for all that are granted are posted from
                the start, else for one until a reply has stated the grant (RFC 8167 section 6). Ignored at a server.
            reservable: ignored.
        """
        del reservable  # Version 1 has no extensions that could reserve messages.
        if role is Role.SERVER:
            return CallWindow(config.reverse_credits_requested, config.credits_granted, promised=False)
        return CallWindow(config.credits_requested, config.reverse_credits_granted, promised=reverse)

    def encode(self, message: Outgoing, credit_word: int) -> bytes:
        """Encodes the header of a call or reply (RDMA_MSG, RDMA_NOMSG), or a whole error (RDMA_ERROR).

        `credit_word`: the header's credit field. An error has ERR_VERS for `Cause.VERSION`, ERR_CHUNK for other causes.
        """
        if isinstance(message, OutgoingError):
            refusal = message.refusal
            if refusal.cause is Cause.VERSION:
                return encode_version_refused(
                    VersionRefusal(message.xid, message.version, credit_word, refusal.low, refusal.high)
                )
            return encode_chunk_refused(message.xid, VERSION, credit_word)
        chunks = message.chunks
        if chunks is NO_CHUNKS:
            return SHORT_HEADER.pack(message.xid, VERSION, credit_word, RDMA_MSG, 0, 0, 0)
        match chunks:
            case (), (((segment,),),), None if not message.long:
                return _ONE_WRITE.pack(message.xid, VERSION, credit_word, RDMA_MSG, 0, 1, 1, *segment, 0, 0)
            case ((position, (segment,)),), (), None if not message.long:
                return _ONE_READ.pack(message.xid, VERSION, credit_word, RDMA_MSG, 1, position, *segment, 0, 0, 0)
        return encode_message(RDMA_NOMSG if message.long else RDMA_MSG, message.xid, credit_word, chunks)

    def encode_piece(self, _message: Outgoing, _credit_word: int) -> bytes:
        """Raises AssertionError: no message of version 1 is continued in further pieces."""
        raise AssertionError("version 1 has no continued messages")

    def may_end(self, call: Outgoing, handle: int) -> bool:
        """Returns whether the call's chunks name `handle`: in version 1 the responder may invalidate any of them."""
        return call.chunks.names(handle)

    def decode(self, data: Buffer) -> Inbound | None:
        """Decodes a received message, the most usual one (no chunks) by unpacking nine words at once.

        Returns the message, with `Kind.UNREADABLE` for one that is to be refused; None for one that must be silently
        discarded.
        """
        if len(data) >= _SHORT_MESSAGE.size:
            xid, version, credits_, procedure, reads, writes, reply, rpc_xid, direction = _SHORT_MESSAGE.unpack_from(
                data
            )
            if version == VERSION and not (procedure or reads or writes or reply) and rpc_xid == xid and direction < 2:
                message = _new(Inbound)
                message.kind = _KINDS[direction]
                message.xid = xid
                message.credit_word = credits_
                message.version = VERSION
                message.data = data
                message.start = SHORT_HEADER_OCTETS
                return message
        return _decode_other(data)

    decode_answer = decode


def _decode_other(data: Buffer) -> Inbound | None:
    length = len(data)
    if length < FIXED_OCTETS:
        return None
    xid, version, credits_, procedure = FIXED.unpack_from(data)
    if procedure == RDMA_ERROR:
        return _decode_error(data)
    if length < SHORT_HEADER_OCTETS or (procedure == RDMA_DONE and version == VERSION):
        return None
    if version != VERSION:
        refusal = Refusal(Cause.VERSION, low=VERSION, high=VERSION)
        return Inbound(Kind.UNREADABLE, xid, credits_, version, refusal=refusal)
    if procedure == RDMA_MSG and length >= _ONE_WRITE.size + _RPC_START.size:
        found = _decode_one_segment(data)
        if found is not None:
            return found
    malformed = Inbound(Kind.UNREADABLE, xid, credits_, version, refusal=_MALFORMED)
    try:
        header = decode_header(data)
    except DecodeError:
        return malformed
    if isinstance(header, RdmaNoMsg):
        return _decode_long(header, malformed)
    if not isinstance(header, RdmaMsg) or length < header.size + _RPC_START.size:
        return malformed
    rpc_xid, direction = _RPC_START.unpack_from(data, header.size)
    if direction > _REPLY or (rpc_xid != xid and direction == _CALL):
        return malformed
    if rpc_xid != xid:
        # A faulty reply is dropped (RFC 8166 section 4.5); an error could end a call of the peer's instead.
        return None
    chunks = header.chunks
    return Inbound(_KINDS[direction], xid, credits_, version, chunks, data, header.size, ends=chunks.first_handle)


def _decode_one_segment(data: Buffer) -> Inbound | None:
    """Decodes an RDMA_MSG with one chunk of one segment, the usual header with chunks.

    Returns the message; None for other headers and for faulty ones, which the caller decodes word by word.
    """
    xid, version, credits_, _, reads, present, count, handle, octets, offset, end, reply = _ONE_WRITE.unpack_from(data)
    if not (reads or end or reply) and present == count == 1:
        write = _tuple(WriteChunk, ((_tuple(Segment, (handle, octets, offset)),),))
        chunks = _tuple(ChunkLists, ((), (write,), None))
        size = _ONE_WRITE.size
    elif reads == 1 and not present & 3:
        _, _, _, _, _, position, handle, octets, offset, end, writes, reply = _ONE_READ.unpack_from(data)
        if end or writes or reply:
            return None
        read = _tuple(ReadChunk, (position, (_tuple(Segment, (handle, octets, offset)),)))
        chunks = _tuple(ChunkLists, ((read,), (), None))
        size = _ONE_READ.size
    else:
        return None
    rpc_xid, direction = _RPC_START.unpack_from(data, size)
    if rpc_xid != xid or direction > _REPLY:
        return None
    message = _new(Inbound)
    message.kind = _KINDS[direction]
    message.xid = xid
    message.credit_word = credits_
    message.version = version
    message.chunks = chunks
    message.data = data
    message.start = size
    message.ends = handle
    return message


def _decode_long(header: RdmaNoMsg, malformed: Inbound) -> Inbound:
    chunks = header.chunks
    message = Inbound(Kind.CALL, header.xid, header.credits, VERSION, chunks, long=True, ends=chunks.first_handle)
    if any(chunk.position == 0 for chunk in chunks.reads):
        return message
    if chunks is NO_CHUNKS:
        return malformed
    # Without a Position-Zero chunk it is a reply, if anything (RFC 8166 sections 4.2.4 and 4.3.1).
    return replace(message, kind=Kind.REPLY, refusal=_MALFORMED)


def _decode_error(data: Buffer) -> Inbound | None:
    try:
        header = decode_header(data)
    except DecodeError:
        return None
    assert isinstance(header, RdmaError)
    refusal = _CHUNKS_REFUSED
    if header.code == ERR_VERS:
        refusal = Refusal(Cause.VERSION, low=header.low, high=header.high)
    return Inbound(Kind.ERROR, header.xid, header.credits, header.version, refusal=refusal)
