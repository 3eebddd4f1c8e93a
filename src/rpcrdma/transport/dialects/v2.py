"""Version 2 of the protocol as draft-ietf-nfsv4-rpcrdma-version-two-00 has it.

Flags tell the direction: a message with RESPONSE answers a call of its receiver. A message with an XID of its receiver
is a reply, and nothing answers it. A faulty one is decoded as a long reply without a chunk, which fails its call.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from rpcrdma import limits
from rpcrdma.errors import DecodeError
from rpcrdma.transport.assembly import Assembly, Step
from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists, ReadChunk, Segment, WriteChunk
from rpcrdma.transport.config import Role, TransportConfig
from rpcrdma.transport.dialects.chunk_lists import TooMany
from rpcrdma.transport.dialects.dialect import Geometry
from rpcrdma.transport.dialects.header_parts import (
    FIXED,
    FIXED_OCTETS,
    VersionRefusal,
    decode_property_set,
    decode_version_refused,
    encode_version_refused,
)
from rpcrdma.transport.dialects.header_v2 import (
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
    encode_message,
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
from rpcrdma.transport.message_credits import MessageWindow, calls_counted
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.private_data import Agreement, PrivateData
from rpcrdma.transport.properties import PROPERTIES
from rpcrdma.wire.buffers import Buffer

__all__ = ["GEOMETRY", "Version2"]

_FIRST_MESSAGE_OCTETS = 1024
"""The first message of a client, which does not know yet the receive size of the server."""
_THRESHOLD_OCTETS = 4096
"""The message size of every peer before it has sent its properties."""

GEOMETRY = Geometry(
    call_header=SHORT_HEADER_OCTETS,
    reply_header=SHORT_HEADER_OCTETS,
    read_segment=24,
    write_chunk=8,
    reply_chunk=4,
    segment=16,
    piece_header=SHORT_HEADER_OCTETS,
    first_message=_FIRST_MESSAGE_OCTETS,
    prefix=PREFIX_OCTETS,
)

_WORD = struct.Struct(">I")
_RPC_START = struct.Struct(">II")
"""XID and direction of an RPC message."""
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


class _Head(NamedTuple):
    """The start of a header, as far as the assembly of continued messages needs it.

    All pieces of a message have one `key`, all but the last have `more`. `answers`: whether the receiver chose the XID.
    """

    xid: int
    credits: int
    key: tuple[int, ...]
    more: bool
    answers: bool

    def refused(self, cause: Cause, limit: int = 0) -> Inbound:
        """Returns the `Inbound` of a faulty message: UNREADABLE, to be refused; for a reply REPLY, to fail its call.

        UNREADABLE has a refusal with `cause`, the reason, and `limit`, the number of chunks or segments that this side
        takes (0 for other causes). A REPLY has no refusal: it fails its call as a long reply without a Reply chunk.
        """
        if self.answers:
            return Inbound(Kind.REPLY, self.xid, self.credits, VERSION, long=True)
        return Inbound(Kind.UNREADABLE, self.xid, self.credits, VERSION, refusal=Refusal(cause, limit=limit))


class Version2:
    """Implements `Dialect` for version 2 on one connection, and stores the pieces of an unfinished message."""

    __slots__ = ("_answering", "_assembly", "_error_words", "_extended")
    version = VERSION
    name = "2"
    geometry = GEOMETRY
    introduces = True
    properties = PROPERTIES

    def __init__(self) -> None:
        self._assembly = Assembly()
        # The XID of the call whose reply is in pieces, if the last sequence of pieces is a reply.
        self._answering: int | None = None
        self._extended: Mapping[int, tuple[int, bool]] = {}
        self._error_words: Mapping[int, int] = {}

    @property
    def unfinished(self) -> int:
        return self._assembly.unfinished

    def count_in(self, memory: MessageMemory) -> None:
        self._assembly.memory = memory

    def forget(self) -> None:
        self._assembly.release()

    def extend(self, headers: Mapping[int, tuple[int, bool]], error_words: Mapping[int, int]) -> None:
        self._extended = headers
        self._error_words = error_words

    def agree(self, own: PrivateData, _peer: PrivateData | None) -> Agreement:
        """Returns the message sizes until properties arrive, 4096 octets, and this side's use of remote invalidation.

        The peer's private data is ignored: properties state the sizes, each call the handle that may be invalidated.
        """
        return Agreement(_THRESHOLD_OCTETS, _THRESHOLD_OCTETS, own.remote_invalidation)

    def may_end(self, call: Outgoing, handle: int) -> bool:
        """Returns whether `call` names `handle` as the only handle that its reply may invalidate."""
        return handle == call.ends

    def window(self, config: TransportConfig, role: Role, *, reverse: bool, reservable: int) -> MessageWindow:
        """Creates the credit accounting of a connection, where a credit stands for a message in either direction.

        `config`: has the numbers of calls to request and grant. `role`: that of this end. `reverse`: whether the server
        makes calls, too. `reservable`: the most messages that `reserve` may add to the peer's credits at any time.
        """
        return MessageWindow(*calls_counted(config, role, reverse=reverse), reservable)

    def encode(self, message: Outgoing, credit_word: int) -> bytes:
        """Encodes the header of a message, or of the last piece of a continued one; encodes an error or a grant whole.

        `credit_word` is the value of the header's credit field.
        """
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

    def encode_piece(self, message: Outgoing, credit_word: int) -> bytes:
        """Encodes the header of a continued message's piece other than the last: with the flag MORE, without chunks.

        `credit_word` is the header's credit field. `encode` makes the last header, with the chunks and the handle.
        """
        if message.kind is Kind.PROPERTIES:
            return PREFIX.pack(message.xid, VERSION, credit_word, RDMA2_CONNPROP, MORE)
        if isinstance(message, OutgoingExtension):
            return _extension_prefix(message, credit_word, MORE)
        return SHORT_HEADER.pack(message.xid, VERSION, credit_word, RDMA2_MSG, message.kind | MORE, 0, 0, 0, 0)

    def decode(self, data: Buffer) -> Inbound | None:
        """Decodes a received message, the most usual one (no chunks) by unpacking eight numbers at once.

        Returns the message; `Kind.UNREADABLE` for one to be refused, for a faulty reply a `Kind.REPLY` that fails its
        call; `Kind.PIECE` for a piece that is stored (the last one gives the message) or dropped; None to discard it.
        """
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
        head = _Head(xid, credits_, (xid, header_type, answers), bool(flags & MORE), answers)
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
            return self._extension(head, data, header_type, flags & extra)
        if flags & ~FLAGS_KNOWN or (head.more and header_type == RDMA2_NOMSG):
            return self._refuse(head, Cause.FLAGS)
        if header_type == RDMA2_CONNPROP:
            return self._decode_properties(head, data)
        return self._decode_message(head, data)

    def _decode_message(self, head: _Head, data: Buffer) -> Inbound:
        """Decodes an RDMA2_MSG or RDMA2_NOMSG, whose header starts with `head`.

        Returns a call, reply, grant or `Kind.PIECE`; for a faulty message one of UNREADABLE, or a REPLY that fails its
        call.
        """
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

    def _decode_properties(self, head: _Head, data: Buffer) -> Inbound:
        """Decodes an RDMA2_CONNPROP, with a property set or a part of one, whose start is `head`.

        Returns a message with the properties, after the last part those of all parts; `Kind.PIECE` for earlier parts;
        UNREADABLE if the properties are invalid, or if a part exceeds a bound or interrupts another message.
        """
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
        """Decodes an RDMA2_ERROR of the version or of an extension; returns None for a faulty one, to discard it."""
        try:
            header = decode_header(data)
        except DecodeError:
            return self._extension_error(data)
        assert isinstance(header, Rdma2Error)
        return Inbound(Kind.ERROR, header.xid, header.credits, VERSION, refusal=header.refusal)

    def decode_answer(self, data: Buffer) -> Inbound | None:
        """Decodes a server's early message, which may refuse version 2 in RFC 8166's format; None to discard it."""
        refused = decode_version_refused(data)
        if refused is None or refused.low > VERSION:
            return self.decode(data)
        xid, version, credits_, low, high = refused
        return Inbound(Kind.ERROR, xid, credits_, version, refusal=Refusal(Cause.VERSION, low=low, high=high))

    def _extension(self, head: _Head, data: Buffer, header_type: int, flags: int) -> Inbound:
        """Decodes an extension's message; stores a piece of one. `flags`: the extension's own bits of the flags.

        Returns the message, after the last piece the whole one; `Kind.PIECE` for an earlier piece. A message that
        exceeds a bound or interrupts another one is UNREADABLE, or a REPLY that fails its call.
        """
        start = PREFIX_OCTETS
        if head.more or not self._assembly.idle:
            found = self._add(head, memoryview(data)[start:])
            if found is not None:
                return found
            data, start = self._assembly.release(), 0
        return Inbound(
            Kind.EXTENSION,
            head.xid,
            head.credits,
            VERSION,
            data=data,
            start=start,
            header_type=header_type,
            flags=flags,
            answers=head.answers,
        )

    def _extension_error(self, data: Buffer) -> Inbound | None:
        """Decodes an error of an extension; None for another version, an unknown code or number of 32-bit words."""
        xid, version, credits_, _ = FIXED.unpack_from(data)
        words = tuple(word for (word,) in _WORD.iter_unpack(memoryview(data)[PREFIX_OCTETS : len(data) & ~3]))
        if version != VERSION or not words or self._error_words.get(words[0]) != len(words) - 1:
            return None
        refusal = Refusal(Cause.EXTENSION, code=words[0], words=words[1:])
        return Inbound(Kind.ERROR, xid, credits_, VERSION, refusal=refusal)

    def _drop(self, head: _Head) -> Inbound | None:
        """Drops a piece with this `head` of an interrupted message: returns its `Inbound`; None for another message."""
        if self._assembly.idle:
            return None
        step = self._assembly.drop(head.key, more=head.more)
        return None if step is None else self._stepped(head, step)

    def _refuse(self, head: _Head, cause: Cause, limit: int = 0) -> Inbound:
        """Gives up a faulty message, further pieces of it, and an unfinished message that it interrupts.

        `limit`: the number of chunks or segments that this side takes, 0 for other causes. Returns the message, as
        UNREADABLE or a REPLY that fails its call; `broken` is the XID of the call whose reply it interrupts, or None.
        """
        broken = self._assembly.give_up(head.key, more=head.more)
        refused = head.refused(cause, limit)
        return replace(refused, broken=self._answering) if broken else refused

    def _add(self, head: _Head, payload: Buffer) -> Inbound | None:
        """Stores a piece of a continued message; returns None after the last one: `Assembly.release` has the message.

        Returns otherwise the `Inbound` of the piece; if it interrupts another message or exceeds a bound, UNREADABLE
        or a REPLY that fails its call. `payload`: the octets of the piece.
        """
        step = self._assembly.take(head.key, payload, more=head.more)
        return None if step is Step.WHOLE else self._stepped(head, step)

    def _stepped(self, head: _Head, step: Step) -> Inbound:
        """Returns the `Inbound` of a message for the assembly's `step`: `Kind.PIECE` for a KEPT or DROPPED piece.

        For FOREIGN (it interrupts another message) and TOO_LONG it is UNREADABLE, or a REPLY that fails its call.
        """
        if step is Step.FOREIGN:
            return replace(head.refused(Cause.FLAGS), broken=self._answering)
        if step is Step.TOO_LONG:
            return head.refused(Cause.SYSTEM)
        if step is Step.KEPT:
            self._answering = head.xid if head.answers else None
        return Inbound(Kind.PIECE, head.xid, head.credits, VERSION)

    def _message(
        self, head: _Head, chunks: ChunkLists, inv_handle: int, data: Buffer, start: int, *, long: bool
    ) -> Inbound:
        """Makes the `Inbound` of a call, of a reply, or of a piece of one, from a decoded header.

        `inv_handle`: the handle that the reply may invalidate, or 0. `long`: whether a chunk has the RPC message; else
        `data[start:]` has it, or this piece. For a call with a faulty header or RPC message returns UNREADABLE, for
        such a reply a REPLY that fails its call.
        """
        if head.more or not self._assembly.idle:
            found = self._add(head, b"" if long else memoryview(data)[start:])
            if found is not None:
                return found
            data, start = self._assembly.release(), 0
        if long:
            data, start = b"", 0
        kind, ends = Kind.CALL, inv_handle or None
        if head.answers:
            kind, ends = Kind.REPLY, None
            sound = chunks.reply is not None if long else _opens(data, start, head.xid, Kind.REPLY)
        else:
            if chunks.count_segments() > limits.CHUNK_SEGMENTS_MAX:
                return self._refuse(head, Cause.SEGMENTS, limits.CHUNK_SEGMENTS_MAX)
            at_zero = any(chunk.position == 0 for chunk in chunks.reads)
            sound = at_zero == long and (long or _opens(data, start, head.xid, Kind.CALL))
            sound = sound and (ends is None or chunks.names(ends))
        if not sound:
            return self._refuse(head, Cause.HEADER)
        return Inbound(kind, head.xid, head.credits, VERSION, chunks, data, start, long, ends)


def _encode_other(message: Outgoing, credit_word: int) -> bytes:
    if isinstance(message, OutgoingError):
        return _encode_refusal(message, credit_word)
    if isinstance(message, OutgoingExtension):
        return _extension_prefix(message, credit_word, 0)
    if isinstance(message, OutgoingProperties):
        return PREFIX.pack(message.xid, VERSION, credit_word, RDMA2_CONNPROP, 0)
    return SHORT_HEADER.pack(0, VERSION, credit_word, RDMA2_NOMSG, 0, 0, 0, 0, 0)


def _extension_prefix(message: OutgoingExtension, credit_word: int, more: int) -> bytes:
    flags = message.flags | more | (RESPONSE if message.answer else 0)
    return PREFIX.pack(message.xid, VERSION, credit_word, message.header_type, flags)


def _decode_one_segment(data: Buffer) -> Inbound | None:
    """Decodes an RDMA2_MSG with one chunk of one segment; None for other and faulty headers, left to the caller."""
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


def _encode_refusal(error: OutgoingError, credit_word: int) -> bytes:
    refusal = error.refusal
    if refusal.cause is Cause.VERSION:
        return encode_version_refused(VersionRefusal(error.xid, error.version, credit_word, refusal.low, refusal.high))
    prefix = PREFIX.pack(error.xid, error.version, credit_word, RDMA2_ERROR, RESPONSE)
    if refusal.cause is Cause.EXTENSION:
        return prefix + b"".join(map(_WORD.pack, (refusal.code, *refusal.words)))
    return prefix + ERRORS.encode(refusal)


def _opens(data: Buffer, start: int, xid: int, direction: int) -> bool:
    """Returns whether an RPC message with this XID and direction (0: call, 1: reply) begins at `data[start:]`."""
    return len(data) - start >= _RPC_START.size and _RPC_START.unpack_from(data, start) == (xid, direction)
