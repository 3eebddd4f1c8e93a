"""Version 2 of the protocol as draft-ietf-nfsv4-rpcrdma-version-two-07 has it.

It shares its number with the first draft, and nothing in a message tells them apart: both ends have to be told. The
type of a header says which end calls, and that a message goes on.
"""

from __future__ import annotations

import struct

from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.config import ReverseSupport
from rpcrdma.transport.dialects.chunk_lists import TooMany
from rpcrdma.transport.dialects.dialect import Geometry
from rpcrdma.transport.dialects.header_parts import FIXED, FIXED_OCTETS, decode_property_set
from rpcrdma.transport.dialects.header_v2_07 import (
    ERRORS,
    PIECE_HEADER,
    PIECE_HEADER_OCTETS,
    RDMA2_CALL_INLINE,
    RDMA2_CALL_MIDDLE,
    RDMA2_CONNPROP_FINAL,
    RDMA2_CONNPROP_MIDDLE,
    RDMA2_ERROR,
    RDMA2_GRANT,
    RDMA2_REPLY_EXTERNAL,
    RDMA2_REPLY_INLINE,
    RDMA2_REPLY_MIDDLE,
    SHORT_CALL,
    SHORT_CALL_OCTETS,
    SHORT_REPLY,
    SHORT_REPLY_OCTETS,
    Rdma2Call,
    Rdma2Error,
    Rdma2Reply,
    decode_header,
    encode_header,
)
from rpcrdma.transport.dialects.version_2 import (
    FIRST_MESSAGE_OCTETS,
    RPC_START,
    VERSION,
    Head,
    Version2Draft,
    refusal_octets,
)
from rpcrdma.transport.message import (
    Cause,
    Inbound,
    Kind,
    Outgoing,
    OutgoingError,
    OutgoingExtension,
    OutgoingProperties,
    Refusal,
)
from rpcrdma.transport.message_windows import CumulativeWindow
from rpcrdma.transport.properties import rows_with
from rpcrdma.wire.buffers import Buffer

__all__ = ["GEOMETRY", "PROPERTIES", "Version207"]

GEOMETRY = Geometry(
    call_header=SHORT_CALL_OCTETS,
    reply_header=SHORT_REPLY_OCTETS,
    read_segment=24,
    write_chunk=8,
    reply_chunk=8,
    segment=16,
    piece_header=PIECE_HEADER_OCTETS,
    first_message=FIRST_MESSAGE_OCTETS,
    prefix=FIXED_OCTETS,
    call_chunk=4,
)
PROPERTIES = rows_with(tuple(ReverseSupport), default=ReverseSupport.NONE)

_SHORT_CALL_MESSAGE = struct.Struct(">IIIIIIIIII")
"""A header without chunks, and the XID and direction of the RPC message after it."""
_SHORT_REPLY_MESSAGE = struct.Struct(">IIIIIII")
_ONE_WRITE = struct.Struct(">IIIIIIIIIIQII")
"""The header of a call with one Write chunk of one segment: the words 0, 1, 1 before it, 0, 0 after it."""
_ONE_READ = struct.Struct(">IIIIIIIIIQIII")
"""The header of a call with one Read segment: the word 1 and its Position before it, 0, 0, 0 after it."""
_ONE_WRITTEN = struct.Struct(">IIIIIIIIQIII")
"""A reply with one Write chunk of one segment, 1, 1 before it, 0 after it, and the XID and direction that follow."""

_CONNPROPS = (RDMA2_CONNPROP_MIDDLE, RDMA2_CONNPROP_FINAL)
_REPLIES = (RDMA2_REPLY_EXTERNAL, RDMA2_REPLY_MIDDLE, RDMA2_REPLY_INLINE)
_MIDDLES = (RDMA2_CONNPROP_MIDDLE, RDMA2_CALL_MIDDLE, RDMA2_REPLY_MIDDLE)
_SEQUENCE = {RDMA2_CALL_MIDDLE: RDMA2_CALL_INLINE, RDMA2_REPLY_MIDDLE: RDMA2_REPLY_INLINE}
"""The type that a sequence ends with."""
_PROPERTIES_KEY = (RDMA2_CONNPROP_FINAL,)
"""The XID of properties belongs to no call, and need not stay the same."""

_CALL, _REPLY = Kind.CALL, Kind.REPLY
_new = Inbound.__new__
_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


def _encode_one_segment(xid: int, credit_word: int, ends: int, chunks: ChunkLists) -> bytes | None:
    """The header of an inline call with one chunk of one segment, as most have that have any; None for others."""
    reads, writes, reply = chunks
    if reply is not None or len(reads) + len(writes) != 1:
        return None
    segments = (reads or writes)[0].segments
    if len(segments) != 1 or (reads and not reads[0].position):
        return None
    if reads:
        position = reads[0].position
        return _ONE_READ.pack(xid, VERSION, credit_word, RDMA2_CALL_INLINE, ends, 1, position, *segments[0], 0, 0, 0)
    return _ONE_WRITE.pack(xid, VERSION, credit_word, RDMA2_CALL_INLINE, ends, 0, 1, 1, *segments[0], 0, 0)


def _decode_one_segment(data: Buffer) -> Inbound | None:
    """An inline message with one chunk of one segment, as most have that have any; None for others, and faulty ones."""
    if len(data) < _ONE_WRITTEN.size:
        return None
    xid, version, credits_, kind, present, count, handle, octets, offset, end, rpc_xid, direction = (
        _ONE_WRITTEN.unpack_from(data)
    )
    if version != VERSION:
        return None
    if kind == RDMA2_REPLY_INLINE:
        if present != 1 or count != 1 or end or rpc_xid != xid or direction != Kind.REPLY:
            return None
        written = _tuple(ChunkLists, ((), (_written(handle, octets, offset),), None))
        return Inbound(Kind.REPLY, xid, credits_, VERSION, written, data, _ONE_WRITTEN.size - RPC_START.size)
    start = _ONE_WRITE.size
    if kind != RDMA2_CALL_INLINE or len(data) < start + RPC_START.size:
        return None
    ends, reads, present, count, handle, octets, offset, end, reply = _ONE_WRITE.unpack_from(data)[4:]
    if not (reads or end or reply) and present == count == 1:
        chunks = _tuple(ChunkLists, ((), (_written(handle, octets, offset),), None))
    elif reads == 1 and present and not present & 3:
        position, handle, octets, offset, end, writes, reply = _ONE_READ.unpack_from(data)[6:]
        if end or writes or reply:
            return None
        read = _tuple(ReadChunk, (position, (_tuple(Segment, (handle, octets, offset)),)))
        chunks = _tuple(ChunkLists, ((read,), (), None))
    else:
        return None
    if RPC_START.unpack_from(data, start) != (xid, Kind.CALL) or ends not in (0, handle):
        return None
    return Inbound(Kind.CALL, xid, credits_, VERSION, chunks, data, start, ends=ends or None)


def _written(handle: int, octets: int, offset: int) -> WriteChunk:
    chunk: WriteChunk = _tuple(WriteChunk, ((_tuple(Segment, (handle, octets, offset)),),))
    return chunk


class Version207(Version2Draft):
    """The dialect object of a connection."""

    __slots__ = ()
    name = "2-07"
    geometry = GEOMETRY
    properties = PROPERTIES
    has_flags = False
    make_window = CumulativeWindow
    continues_properties = False
    properties_again = Cause.FLAGS

    def encode(self, message: Outgoing, credit_word: int) -> bytes:
        """The type follows from the kind of the message and from where its payload is."""
        kind, chunks, xid = message.kind, message.chunks, message.xid
        if kind is _CALL:
            if chunks is NO_CHUNKS:
                return SHORT_CALL.pack(xid, VERSION, credit_word, RDMA2_CALL_INLINE, 0, 0, 0, 0)
            ends = message.ends or 0
            return _encode_one_segment(xid, credit_word, ends, chunks) or encode_header(
                Rdma2Call(xid, credit_word, ends, chunks, message.long)
            )
        if kind is _REPLY:
            if chunks is NO_CHUNKS:
                return SHORT_REPLY.pack(xid, VERSION, credit_word, RDMA2_REPLY_INLINE, 0)
            return encode_header(Rdma2Reply(xid, credit_word, chunks, message.long))
        return _encode_other(message, credit_word)

    def encode_piece(self, message: Outgoing, credit_word: int, remaining: int) -> bytes:
        """An RDMA2_CALL_MIDDLE or RDMA2_REPLY_MIDDLE; handle and chunks go with the last piece."""
        kind = RDMA2_CALL_MIDDLE if message.kind is Kind.CALL else RDMA2_REPLY_MIDDLE
        return PIECE_HEADER.pack(message.xid, VERSION, credit_word, kind, remaining)

    def decode(self, data: Buffer) -> Inbound | None:
        """Ten words at once, or seven, tell the plain messages from the others, which mostly have one segment."""
        length = len(data)
        if length >= _SHORT_REPLY_MESSAGE.size and self._assembly.idle:
            kind = data[15]
            if kind == RDMA2_CALL_INLINE and length >= _SHORT_CALL_MESSAGE.size:
                xid, version, credits_, kind, ends, reads, writes, reply, rpc_xid, direction = (
                    _SHORT_CALL_MESSAGE.unpack_from(data)
                )
                if (
                    version == VERSION
                    and kind == RDMA2_CALL_INLINE
                    and rpc_xid == xid
                    and not (ends or reads or writes or reply or direction)
                ):
                    message = _new(Inbound)
                    message.kind = _CALL
                    message.xid = xid
                    message.credit_word = credits_
                    message.version = VERSION
                    message.data = data
                    message.start = SHORT_CALL_OCTETS
                    return message
            elif kind == RDMA2_REPLY_INLINE:
                xid, version, credits_, kind, writes, rpc_xid, direction = _SHORT_REPLY_MESSAGE.unpack_from(data)
                if (
                    version == VERSION
                    and kind == RDMA2_REPLY_INLINE
                    and rpc_xid == xid
                    and not writes
                    and direction == 1
                ):
                    message = _new(Inbound)
                    message.kind = _REPLY
                    message.xid = xid
                    message.credit_word = credits_
                    message.version = VERSION
                    message.data = data
                    message.start = SHORT_REPLY_OCTETS
                    return message
            found = _decode_one_segment(data)
            if found is not None:
                return found
        return self._decode_other(data)

    def _decode_other(self, data: Buffer) -> Inbound | None:
        if len(data) < FIXED_OCTETS:
            return None
        xid, version, credits_, kind = FIXED.unpack_from(data)
        if kind == RDMA2_ERROR:
            return self._decode_error(data)
        if version != VERSION:
            refusal = Refusal(Cause.VERSION, low=VERSION, high=VERSION)
            if 0 < version < VERSION:
                refusal = Refusal(Cause.VERSION_MISMATCH)
            return Inbound(Kind.UNREADABLE, xid, credits_, version, refusal=refusal)
        key = _PROPERTIES_KEY if kind in _CONNPROPS else (xid, _SEQUENCE.get(kind, kind))
        head = Head(xid, credits_, key, kind in _MIDDLES, kind in _REPLIES)
        if kind == RDMA2_GRANT and len(data) == FIXED_OCTETS:
            # It may stand within a sequence.
            return Inbound(Kind.GRANT, 0, credits_, VERSION)
        found = self._drop(head)
        if found is not None:
            return found
        if kind == RDMA2_GRANT:
            return self._refuse(head, Cause.HEADER)
        if kind in self._extended:
            return self._extension(head, data, FIXED_OCTETS, kind, 0)
        if not RDMA2_CONNPROP_MIDDLE <= kind <= RDMA2_REPLY_INLINE:
            return self._refuse(head, Cause.HEADER_TYPE)
        if kind in _CONNPROPS:
            return self._decode_properties(head, data)
        return self._decode_message(head, data)

    def _decode_message(self, head: Head, data: Buffer) -> Inbound:
        """A call, a reply, or a piece of one."""
        if head.more:
            if len(data) < PIECE_HEADER_OCTETS:
                return self._refuse(head, Cause.HEADER)
            # How much remains is not relied on: drafts and peers may count this piece or not.
            return self._message(head, NO_CHUNKS, 0, data, PIECE_HEADER_OCTETS, long=False)
        try:
            header = decode_header(data)
        except TooMany as error:
            return self._refuse(head, error.cause, error.limit)
        except DecodeError:
            return self._refuse(head, Cause.HEADER)
        assert isinstance(header, Rdma2Call | Rdma2Reply)
        inv_handle = header.inv_handle if isinstance(header, Rdma2Call) else 0
        return self._message(head, header.chunks, inv_handle, data, header.size, long=header.external)

    def _decode_properties(self, head: Head, data: Buffer) -> Inbound:
        """Property sets, each whole in its message; those of all messages up to the last are one.

        The draft has nothing after the last one. Hosts that have both said that they take part in host authentication
        send its rounds in further ones.
        """
        octets: Buffer = memoryview(data)[FIXED_OCTETS:]
        try:
            properties = decode_property_set(octets)
            if head.more or not self._assembly.idle:
                found = self._add(head, octets)
                if found is not None:
                    return found
                properties = decode_property_set(self._assembly.release(), several=True)
        except DecodeError:
            return self._refuse(head, Cause.PROPERTY)
        return Inbound(Kind.PROPERTIES, head.xid, head.credits, VERSION, properties=properties)

    def _decode_error(self, data: Buffer) -> Inbound | None:
        """Errors are not answered: a faulty one is discarded."""
        try:
            header = decode_header(data)
        except DecodeError:
            return self._extension_error(data, FIXED_OCTETS)
        assert isinstance(header, Rdma2Error)
        return Inbound(Kind.ERROR, header.xid, header.credits, VERSION, refusal=header.refusal)


def _encode_other(message: Outgoing, credit_word: int) -> bytes:
    if isinstance(message, OutgoingError):
        prefix = FIXED.pack(message.xid, message.version, credit_word, RDMA2_ERROR)
        return refusal_octets(message, credit_word, prefix, ERRORS)
    if isinstance(message, OutgoingExtension):
        return FIXED.pack(message.xid, VERSION, credit_word, message.header_type)
    if isinstance(message, OutgoingProperties):
        return FIXED.pack(message.xid, VERSION, credit_word, RDMA2_CONNPROP_FINAL)
    return FIXED.pack(0, VERSION, credit_word, RDMA2_GRANT)
