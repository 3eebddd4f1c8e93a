"""Version 2 of the protocol: what a received message means, and how messages are made.

Direction is in the header: with RESPONSE the message answers a call of its receiver, and nothing answers it. A faulty
one looks like a long reply that is in no chunk, which fails its call, if there is one.
"""

from __future__ import annotations

import struct
from importlib import import_module
from typing import NamedTuple

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.assembly import Assembly, Step
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.config import ReverseSupport, Role, TransportConfig
from rpcrdma.transport.dialects.chunk_lists import TooMany
from rpcrdma.transport.dialects.dialect import Geometry, Window
from rpcrdma.transport.dialects.fixed_words import (
    FIXED,
    FIXED_OCTETS,
    VersionRefusal,
    decode_version_refused,
    encode_version_refused,
    version_of,
)
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
    VERSION,
    Rdma2Error,
    Rdma2Msg,
    Rdma2NoMsg,
    decode_header,
    decode_property_set,
    encode_message,
    encode_property_set,
)
from rpcrdma.transport.message import (
    Cause,
    Inbound,
    Kind,
    Outgoing,
    OutgoingError,
    OutgoingProperties,
    Refusal,
)
from rpcrdma.transport.private_data import Agreement, PrivateData
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
    first_message=1024,
)
PROPERTIES = rows_with(
    (ReverseSupport.NONE, ReverseSupport.INLINE, ReverseSupport.GENERAL), default=ReverseSupport.INLINE
)

_THRESHOLD_OCTETS = 4096
"""What every peer sends and receives before it has told its properties."""

_SHORT_MESSAGE = struct.Struct(">IIIIIIIIIII")
"""A header without chunks, and the XID and direction of the RPC message after it."""
_RPC_START = struct.Struct(">II")
_ONE_WRITE = struct.Struct(">IIIIIIIIIIIQII")
"""A header with one Write chunk of one segment: the words 0, 1, 1 before it, 0, 0 after it."""
_ONE_READ = struct.Struct(">IIIIIIIIIIQIII")
"""A header with one Read segment: the word 1 and its Position before it, 0, 0, 0 after it."""
_ONE_SEGMENT_MESSAGE_OCTETS = _ONE_WRITE.size + _RPC_START.size

_KINDS = (Kind.CALL, Kind.REPLY)
_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


class _Prefix(NamedTuple):
    """The five words."""

    xid: int
    version: int
    credits: int
    header_type: int
    flags: int

    @property
    def more(self) -> bool:
        return bool(self.flags & MORE)

    @property
    def answers(self) -> bool:
        """Whether the message answers a call of its receiver. Properties do not, whatever their flags are."""
        return self.header_type != RDMA2_CONNPROP and bool(self.flags & RESPONSE)

    @property
    def key(self) -> tuple[int, int, bool]:
        """What all pieces of a message have in common."""
        return self.xid, self.header_type, self.answers

    def refused(self, cause: Cause, limit: int = 0) -> Inbound:
        """A message that is answered with an error, unless it is an answer itself: it fails its call."""
        if self.answers:
            return self.faulty_reply()
        return Inbound(Kind.UNREADABLE, self.xid, self.credits, VERSION, refusal=Refusal(cause, limit=limit))

    def faulty_reply(self) -> Inbound:
        """A long reply that is nowhere: no call takes it for an answer."""
        return Inbound(Kind.REPLY, self.xid, self.credits, VERSION, long=True)


class Version2:
    """The dialect object of a connection, with what has arrived of a continued message."""

    __slots__ = ("_assembly",)
    version = VERSION
    name = "2"
    geometry = GEOMETRY
    introduces = True
    properties = PROPERTIES

    def __init__(self) -> None:
        self._assembly = Assembly()

    def agree(self, _own: PrivateData, _peer: PrivateData | None) -> Agreement:
        """Private data have no say: sizes are told as properties, and each call says what may be invalidated."""
        return Agreement(_THRESHOLD_OCTETS, _THRESHOLD_OCTETS, remote_invalidation=True)

    def window(self, config: TransportConfig, role: Role, *, reverse: bool) -> Window:
        """Credits that count messages, each way by itself."""
        make = import_module("rpcrdma.transport.windows").IncrementalWindow
        window: Window
        if role is Role.SERVER:
            window = make(config.reverse_credits_requested if reverse else 0, config.credits_granted)
        else:
            window = make(config.credits_requested, config.reverse_credits_granted if reverse else 0)
        return window

    def encode(self, message: Outgoing, credit_word: int) -> bytes:
        """An RDMA2_MSG, RDMA2_NOMSG, RDMA2_ERROR or RDMA2_CONNPROP; the number of a call or reply is its RESPONSE."""
        kind = message.kind
        if kind > Kind.REPLY:
            return _encode_other(message, credit_word)
        chunks = message.chunks
        if chunks is NO_CHUNKS:
            return SHORT_HEADER.pack(message.xid, VERSION, credit_word, RDMA2_MSG, kind, 0, 0, 0, 0)
        ends = message.ends or 0
        reads, writes, reply = chunks
        if reply is None and not message.long and len(reads) + len(writes) == 1:
            segments = (reads or writes)[0].segments
            if len(segments) == 1 and reads:
                position = reads[0].position
                return _ONE_READ.pack(
                    message.xid, VERSION, credit_word, RDMA2_MSG, kind, ends, 1, position, *segments[0], 0, 0, 0
                )
            if len(segments) == 1:
                return _ONE_WRITE.pack(
                    message.xid, VERSION, credit_word, RDMA2_MSG, kind, ends, 0, 1, 1, *segments[0], 0, 0
                )
        header_type = RDMA2_NOMSG if message.long else RDMA2_MSG
        return encode_message(header_type, message.xid, credit_word, kind, ends, chunks)

    def encode_piece(self, message: Outgoing, credit_word: int, _remaining: int) -> bytes:
        """An RDMA2_MSG with MORE. How much remains is not told; handle and chunks go with the last piece."""
        return SHORT_HEADER.pack(message.xid, VERSION, credit_word, RDMA2_MSG, message.kind | MORE, 0, 0, 0, 0)

    def may_end(self, call: Outgoing, handle: int) -> bool:
        """The one that the call named, if any."""
        return handle == call.ends

    def claims(self, data: Buffer) -> bool:
        """By the version alone, also in a message that is too short."""
        return version_of(data) == VERSION

    def decode_answer(self, data: Buffer) -> Inbound | None:
        """A server that knows no version 2 leaves out the flags: no error that has them is of this length and content.

        With flags it would be RDMA2_ERR_VERS, which is longer, or RDMA2_ERR_BAD_XDR, which is shorter.
        """
        refused = decode_version_refused(data)
        if refused is None or refused.low > VERSION:
            return self.decode(data)
        xid, version, credits_, low, high = refused
        return Inbound(Kind.ERROR, xid, credits_, version, refusal=Refusal(Cause.VERSION, low=low, high=high))

    def decode(self, data: Buffer) -> Inbound | None:
        """Eleven words at once tell the plain messages from the others, which mostly have one segment."""
        if len(data) >= _SHORT_MESSAGE.size and self._assembly.idle:
            xid, version, credits_, header_type, flags, ends, reads, writes, reply, rpc_xid, direction = (
                _SHORT_MESSAGE.unpack_from(data)
            )
            if version == VERSION and not header_type and flags < MORE:
                if not (reads or writes or reply or ends) and flags == direction and rpc_xid == xid:
                    return _tuple(
                        Inbound,
                        (
                            _KINDS[flags],
                            xid,
                            credits_,
                            VERSION,
                            NO_CHUNKS,
                            data,
                            SHORT_HEADER_OCTETS,
                            False,
                            None,
                            None,
                            (),
                        ),
                    )
                if len(data) >= _ONE_SEGMENT_MESSAGE_OCTETS:
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
            return _decode_error(data)
        if version != VERSION:
            refusal = Refusal(Cause.VERSION, low=VERSION, high=VERSION)
            return Inbound(Kind.UNREADABLE, xid, credits_, version, refusal=refusal)
        if length < PREFIX_OCTETS:
            return None
        header = _Prefix(*PREFIX.unpack_from(data))
        if not self._assembly.idle:
            step = self._assembly.drop(header.key, more=header.more)
            if step is not None:
                return self._stepped(header, step)
        if header_type not in (RDMA2_MSG, RDMA2_NOMSG, RDMA2_CONNPROP):
            return self._refuse(header, Cause.HEADER_TYPE)
        if header.flags & ~FLAGS_KNOWN or (header.more and header_type == RDMA2_NOMSG):
            return self._refuse(header, Cause.FLAGS)
        if header_type == RDMA2_CONNPROP:
            return self._decode_properties(header, data)
        return self._decode_message(header, data)

    def _decode_message(self, prefix: _Prefix, data: Buffer) -> Inbound | None:
        """An RDMA2_MSG or RDMA2_NOMSG."""
        try:
            header = decode_header(data)
        except TooMany as error:
            return self._refuse(prefix, error.cause, error.limit)
        except DecodeError:
            return self._refuse(prefix, Cause.HEADER)
        assert isinstance(header, Rdma2Msg | Rdma2NoMsg)
        chunks, start = header.chunks, 0
        long = isinstance(header, Rdma2NoMsg)
        if long and chunks is NO_CHUNKS and not prefix.xid and not header.inv_handle:
            return Inbound(Kind.GRANT, 0, prefix.credits, VERSION)
        if prefix.more and chunks is not NO_CHUNKS:
            return self._refuse(prefix, Cause.FLAGS)
        if prefix.more and header.inv_handle:
            return self._refuse(prefix, Cause.HEADER)
        if isinstance(header, Rdma2Msg):
            start = header.size
        if prefix.more or not self._assembly.idle:
            step = self._assembly.take(prefix.key, b"" if long else memoryview(data)[start:], more=prefix.more)
            if step is not Step.WHOLE:
                return self._stepped(prefix, step)
            data, start = self._assembly.release(), 0
        ends = header.inv_handle or None
        if prefix.flags & RESPONSE:
            kind, ends = Kind.REPLY, None
            sound = chunks is not NO_CHUNKS if long else _opens(data, start, prefix.xid, Kind.REPLY)
        else:
            kind = Kind.CALL
            if chunks.count_segments() > limits.CHUNK_SEGMENTS_MAX:
                return self._refuse(prefix, Cause.SEGMENTS, limits.CHUNK_SEGMENTS_MAX)
            at_zero = any(chunk.position == 0 for chunk in chunks.reads)
            sound = at_zero == long and (long or _opens(data, start, prefix.xid, Kind.CALL))
            sound = sound and (ends is None or chunks.names(ends))
        if not sound:
            return self._refuse(prefix, Cause.HEADER)
        if long:
            data = b""
        return Inbound(kind, prefix.xid, prefix.credits, VERSION, chunks, data, start, long, ends)

    def _decode_properties(self, prefix: _Prefix, data: Buffer) -> Inbound | None:
        """An RDMA2_CONNPROP, whose RESPONSE means nothing: it belongs to no call."""
        octets: Buffer = memoryview(data)[PREFIX_OCTETS:]
        if prefix.more or not self._assembly.idle:
            step = self._assembly.take(prefix.key, octets, more=prefix.more)
            if step is not Step.WHOLE:
                return self._stepped(prefix, step)
            octets = self._assembly.release()
        try:
            properties = decode_property_set(octets)
        except DecodeError:
            return self._refuse(prefix, Cause.PROPERTY)
        return Inbound(Kind.PROPERTIES, prefix.xid, prefix.credits, VERSION, properties=properties)

    def _refuse(self, prefix: _Prefix, cause: Cause, limit: int = 0) -> Inbound:
        """Nothing of the message is used, nor of the sequence that it stands in."""
        self._assembly.give_up(prefix.key, more=prefix.more)
        return prefix.refused(cause, limit)

    def _stepped(self, prefix: _Prefix, step: Step) -> Inbound:
        """What a message is that does not complete its sequence."""
        if step is Step.FOREIGN:
            return prefix.refused(Cause.FLAGS)
        if step is Step.TOO_LONG:
            return prefix.refused(Cause.SYSTEM)
        if step is Step.LOST and prefix.answers:
            return prefix.faulty_reply()
        return Inbound(Kind.PIECE, prefix.xid, prefix.credits, VERSION)


def _encode_other(message: Outgoing, credit_word: int) -> bytes:
    if isinstance(message, OutgoingError):
        refusal = message.refusal
        if refusal.cause is Cause.VERSION:
            return encode_version_refused(
                VersionRefusal(message.xid, message.version, credit_word, refusal.low, refusal.high)
            )
        prefix = PREFIX.pack(message.xid, message.version, credit_word, RDMA2_ERROR, RESPONSE)
        return prefix + ERRORS.encode(refusal)
    if isinstance(message, OutgoingProperties):
        prefix = PREFIX.pack(message.xid, VERSION, credit_word, RDMA2_CONNPROP, 0)
        return prefix + encode_property_set(message.properties)
    return SHORT_HEADER.pack(0, VERSION, credit_word, RDMA2_NOMSG, 0, 0, 0, 0, 0)


def _opens(data: Buffer, start: int, xid: int, direction: int) -> bool:
    """Whether an RPC message with this XID and direction begins here."""
    return len(data) - start >= _RPC_START.size and _RPC_START.unpack_from(data, start) == (xid, direction)


def _decode_one_segment(data: Buffer) -> Inbound | None:
    """An RDMA2_MSG with one chunk of one segment, as most have that have any; None for others, and faulty ones."""
    xid, version, credits_, _, flags, ends, reads, present, count, handle, octets, offset, end, reply = (
        _ONE_WRITE.unpack_from(data)
    )
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
    rpc_xid, direction = _RPC_START.unpack_from(data, _ONE_WRITE.size)
    if rpc_xid != xid or direction != flags:
        return None
    if flags or not ends:
        ends = None
    elif ends != handle:
        return None
    return _tuple(
        Inbound, (_KINDS[flags], xid, credits_, version, chunks, data, _ONE_WRITE.size, False, ends, None, ())
    )


def _decode_error(data: Buffer) -> Inbound | None:
    """Errors are not answered: a faulty one is discarded. Only calls are refused, so that flags say nothing more."""
    try:
        header = decode_header(data)
    except DecodeError:
        return None
    assert isinstance(header, Rdma2Error)
    return Inbound(Kind.ERROR, header.xid, header.credits, VERSION, refusal=header.refusal)
