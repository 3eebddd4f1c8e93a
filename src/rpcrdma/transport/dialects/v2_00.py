"""Version 2 of the protocol as draft-ietf-nfsv4-rpcrdma-version-two-00 has it.

Flags tell the direction: a message with RESPONSE answers a call of its receiver.
"""

from __future__ import annotations

import struct

from rpcrdma.errors import DecodeError
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.config import ReverseSupport
from rpcrdma.transport.dialects.chunk_lists import TooMany
from rpcrdma.transport.dialects.dialect import Geometry
from rpcrdma.transport.dialects.header_parts import FIXED, FIXED_OCTETS, decode_property_set
from rpcrdma.transport.dialects.header_v2_00 import (
    ERRORS,
    FLAGS_KNOWN,
    MORE,
    PREFIX,
    PREFIX_OCTETS,
    RDMA2_CONNPROP,
    RDMA2_ERROR,
    RDMA2_MSG,
    RDMA2_NOMSG,
    RESPONSE,
    SHORT_HEADER,
    SHORT_HEADER_OCTETS,
    Rdma2Error,
    Rdma2Msg,
    Rdma2NoMsg,
    decode_header,
    encode_message,
)
from rpcrdma.transport.dialects.version_2 import (
    FIRST_MESSAGE_OCTETS,
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
from rpcrdma.transport.message_windows import IncrementalWindow
from rpcrdma.transport.properties import rows_with
from rpcrdma.wire.buffers import Buffer

__all__ = ["GEOMETRY", "PROPERTIES", "Version2"]

GEOMETRY = Geometry(
    call_header=SHORT_HEADER_OCTETS,
    reply_header=SHORT_HEADER_OCTETS,
    read_segment=24,
    write_chunk=8,
    reply_chunk=4,
    segment=16,
    piece_header=SHORT_HEADER_OCTETS,
    first_message=FIRST_MESSAGE_OCTETS,
    prefix=PREFIX_OCTETS,
)
PROPERTIES = rows_with(
    (ReverseSupport.NONE, ReverseSupport.INLINE, ReverseSupport.GENERAL), default=ReverseSupport.INLINE
)

_SHORT_START = struct.Struct(">IIIQ")
_SHORT_END = bytes(16)
"""A header without chunks in two parts, type and flags as one number; the second one is the same in all."""
_SHORT_MESSAGE = struct.Struct(">IIIQQQII")
"""A header without chunks, of which two words are one number, and the XID and direction of the RPC message after it."""
_ONE_WRITE = struct.Struct(">IIIIIIIIIIIQII")
"""A header with one Write chunk of one segment: the words 0, 1, 1 before it, 0, 0 after it."""
_ONE_WRITE_MESSAGE = struct.Struct(_ONE_WRITE.format + "II")
"""That, and the XID and direction of the RPC message after it."""
_ONE_READ = struct.Struct(">IIIIIIIIIIQIII")
"""A header with one Read segment: the word 1 and its Position before it, 0, 0, 0 after it."""

_KINDS = _CALL, _REPLY = (Kind.CALL, Kind.REPLY)
_new = Inbound.__new__
_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


class Version2(Version2Draft):
    """The dialect object of a connection."""

    __slots__ = ()
    name = "2"
    geometry = GEOMETRY
    properties = PROPERTIES
    has_flags = True
    make_window = IncrementalWindow

    def encode(self, message: Outgoing, credit_word: int) -> bytes:
        """An RDMA2_MSG, RDMA2_NOMSG, RDMA2_ERROR or RDMA2_CONNPROP; the number of a call or reply is its RESPONSE."""
        kind = message.kind
        if kind is not _CALL and kind is not _REPLY:
            return _encode_other(message, credit_word)
        chunks = message.chunks
        if chunks is NO_CHUNKS:
            return _SHORT_START.pack(message.xid, VERSION, credit_word, kind) + _SHORT_END
        ends = message.ends or 0
        match chunks:
            case (), (((segment,),),), None if not message.long:
                return _ONE_WRITE.pack(
                    message.xid, VERSION, credit_word, RDMA2_MSG, kind, ends, 0, 1, 1, *segment, 0, 0
                )
            case ((position, (segment,)),), (), None if not message.long:
                return _ONE_READ.pack(
                    message.xid, VERSION, credit_word, RDMA2_MSG, kind, ends, 1, position, *segment, 0, 0, 0
                )
        header_type = RDMA2_NOMSG if message.long else RDMA2_MSG
        return encode_message(header_type, message.xid, credit_word, kind, ends, chunks)

    def encode_piece(self, message: Outgoing, credit_word: int, _remaining: int) -> bytes:
        """A header with MORE. How much remains is not told; handle and chunks go with the last piece."""
        if message.kind is Kind.PROPERTIES:
            return PREFIX.pack(message.xid, VERSION, credit_word, RDMA2_CONNPROP, MORE)
        if isinstance(message, OutgoingExtension):
            return _extension_prefix(message, credit_word, MORE)
        return SHORT_HEADER.pack(message.xid, VERSION, credit_word, RDMA2_MSG, message.kind | MORE, 0, 0, 0, 0)

    def decode(self, data: Buffer) -> Inbound | None:
        """Eleven words at once tell the plain messages from the others, which mostly have one segment."""
        if len(data) >= _SHORT_MESSAGE.size and self._assembly.idle:
            xid, version, credits_, kind, ends_and_reads, writes_and_reply, rpc_xid, direction = (
                _SHORT_MESSAGE.unpack_from(data)
            )
            # An RDMA2_MSG whose flags are no more than RESPONSE.
            if kind <= RESPONSE and version == VERSION:
                if kind == direction and rpc_xid == xid and not (ends_and_reads or writes_and_reply):
                    message = _new(Inbound)
                    message.kind = _KINDS[kind]
                    message.xid = xid
                    message.credit_word = credits_
                    message.version = VERSION
                    message.data = data
                    message.start = SHORT_HEADER_OCTETS
                    return message
                found = _decode_one_segment(data)
                if found is not None:
                    return found
        return self._decode_other(data)

    def _decode_other(self, data: Buffer) -> Inbound | None:
        length = len(data)
        if length < FIXED_OCTETS:
            return None
        xid, version, credits_, header_type = FIXED.unpack_from(data)
        if header_type == RDMA2_ERROR:
            return self._decode_error(data)
        if version != VERSION:
            refusal = Refusal(Cause.VERSION, low=VERSION, high=VERSION)
            return Inbound(Kind.UNREADABLE, xid, credits_, version, refusal=refusal)
        if length < PREFIX_OCTETS:
            return None
        flags = PREFIX.unpack_from(data)[4]
        # Properties belong to no call, so RESPONSE does not apply to them.
        answers = bool(flags & RESPONSE) and header_type != RDMA2_CONNPROP
        head = Head(xid, credits_, (xid, header_type, answers), bool(flags & MORE), answers)
        found = self._drop(head)
        if found is not None:
            return found
        if header_type not in (RDMA2_MSG, RDMA2_NOMSG, RDMA2_CONNPROP):
            row = self._extended.get(header_type)
            if row is None:
                return self._refuse(head, Cause.HEADER_TYPE)
            extra, continues = row
            if flags & ~(FLAGS_KNOWN | extra) or (head.more and not continues):
                return self._refuse(head, Cause.FLAGS)
            return self._extension(head, data, PREFIX_OCTETS, header_type, flags & extra)
        if flags & ~FLAGS_KNOWN or (head.more and header_type == RDMA2_NOMSG):
            return self._refuse(head, Cause.FLAGS)
        if header_type == RDMA2_CONNPROP:
            return self._decode_properties(head, data)
        return self._decode_message(head, data)

    def _decode_message(self, head: Head, data: Buffer) -> Inbound:
        """An RDMA2_MSG or RDMA2_NOMSG."""
        if len(data) >= SHORT_HEADER_OCTETS:
            _, _, _, header_type, _, *rest = SHORT_HEADER.unpack_from(data)
            if header_type == RDMA2_MSG and not any(rest):
                # Pieces, of which there may be many, have neither chunks nor a handle.
                return self._message(head, NO_CHUNKS, 0, data, SHORT_HEADER_OCTETS, long=False)
        try:
            header = decode_header(data)
        except TooMany as error:
            return self._refuse(head, error.cause, error.limit)
        except DecodeError:
            return self._refuse(head, Cause.HEADER)
        assert isinstance(header, Rdma2Msg | Rdma2NoMsg)
        chunks, inv_handle = header.chunks, header.inv_handle
        if isinstance(header, Rdma2NoMsg):
            if chunks is NO_CHUNKS and not head.xid and not inv_handle:
                return Inbound(Kind.GRANT, 0, head.credits, VERSION)
            return self._message(head, chunks, inv_handle, data, 0, long=True)
        if head.more and (inv_handle or chunks is not NO_CHUNKS):
            return self._refuse(head, Cause.HEADER if chunks is NO_CHUNKS else Cause.FLAGS)
        return self._message(head, chunks, inv_handle, data, header.size, long=False)

    def _decode_properties(self, head: Head, data: Buffer) -> Inbound:
        """An RDMA2_CONNPROP: a property set, or a part of one."""
        octets: Buffer = memoryview(data)[PREFIX_OCTETS:]
        if head.more or not self._assembly.idle:
            found = self._add(head, octets)
            if found is not None:
                return found
            octets = self._assembly.release()
        try:
            properties = decode_property_set(octets)
        except DecodeError:
            return self._refuse(head, Cause.PROPERTY)
        return Inbound(Kind.PROPERTIES, head.xid, head.credits, VERSION, properties=properties)

    def _decode_error(self, data: Buffer) -> Inbound | None:
        """Errors are not answered: a faulty one is discarded. Only calls are refused: flags say nothing more."""
        try:
            header = decode_header(data)
        except DecodeError:
            return self._extension_error(data, PREFIX_OCTETS)
        assert isinstance(header, Rdma2Error)
        return Inbound(Kind.ERROR, header.xid, header.credits, VERSION, refusal=header.refusal)


def _encode_other(message: Outgoing, credit_word: int) -> bytes:
    if isinstance(message, OutgoingError):
        prefix = PREFIX.pack(message.xid, message.version, credit_word, RDMA2_ERROR, RESPONSE)
        return refusal_octets(message, credit_word, prefix, ERRORS)
    if isinstance(message, OutgoingExtension):
        return _extension_prefix(message, credit_word, 0)
    if isinstance(message, OutgoingProperties):
        return PREFIX.pack(message.xid, VERSION, credit_word, RDMA2_CONNPROP, 0)
    return SHORT_HEADER.pack(0, VERSION, credit_word, RDMA2_NOMSG, 0, 0, 0, 0, 0)


def _extension_prefix(message: OutgoingExtension, credit_word: int, more: int) -> bytes:
    flags = message.flags | more | (RESPONSE if message.answer else 0)
    return PREFIX.pack(message.xid, VERSION, credit_word, message.header_type, flags)


def _decode_one_segment(data: Buffer) -> Inbound | None:
    """An RDMA2_MSG with one chunk of one segment, as most have that have any; None for others, and faulty ones."""
    if len(data) < _ONE_WRITE_MESSAGE.size:
        return None
    words = _ONE_WRITE_MESSAGE.unpack_from(data)
    xid, version, credits_, _, flags, ends, reads, present, count, handle, octets, offset, end, reply = words[:14]
    if not (reads or end or reply) and present == count == 1:
        write = _tuple(WriteChunk, ((_tuple(Segment, (handle, octets, offset)),),))
        chunks = _tuple(ChunkLists, ((), (write,), None))
    elif reads == 1 and present and not present & 3:
        _, _, _, _, _, _, _, position, handle, octets, offset, end, writes, reply = _ONE_READ.unpack_from(data)
        if end or writes or reply:
            return None
        read = _tuple(ReadChunk, (position, (_tuple(Segment, (handle, octets, offset)),)))
        chunks = _tuple(ChunkLists, ((read,), (), None))
    else:
        return None
    # The RPC message has the XID and the direction of the header.
    if words[14] != xid or words[15] != flags:
        return None
    if flags or not ends:
        ends = None
    elif ends != handle:
        return None
    message = _new(Inbound)
    message.kind = _KINDS[flags]
    message.xid = xid
    message.credit_word = credits_
    message.version = version
    message.chunks = chunks
    message.data = data
    message.start = _ONE_WRITE.size
    message.ends = ends
    return message
