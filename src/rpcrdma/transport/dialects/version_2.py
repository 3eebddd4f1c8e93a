"""The common part of both drafts of version 2, whose headers differ.

A message with an XID of its receiver is a reply, and nothing answers it. A faulty one is decoded as a long reply
without a chunk, so it fails its call, if there is one.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, NamedTuple

from rpcrdma import limits
from rpcrdma.transport.assembly import Assembly, Step
from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.config import Role, TransportConfig
from rpcrdma.transport.dialects.dialect import Window
from rpcrdma.transport.dialects.header_parts import (
    FIXED,
    ErrorCodes,
    VersionRefusal,
    decode_version_refused,
    encode_property_set,
    encode_version_refused,
    version_of,
)
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing, OutgoingError, PropertySet, Refusal
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.message_windows import CumulativeWindow, IncrementalWindow, calls_counted
from rpcrdma.transport.private_data import Agreement, PrivateData
from rpcrdma.wire.buffers import Buffer

__all__ = ["FIRST_MESSAGE_OCTETS", "RPC_START", "VERSION", "Head", "Version2Draft", "refusal_octets"]

VERSION = 2

FIRST_MESSAGE_OCTETS = 1024
"""The first message of a client, which does not know yet the receive size of the server."""
_THRESHOLD_OCTETS = 4096
"""The message size of every peer before it has sent its properties."""

_WORD = struct.Struct(">I")
RPC_START = struct.Struct(">II")
"""XID and direction of an RPC message."""


class Head(NamedTuple):
    """The start of a header.

    All pieces of a message have the same `key`, and all but the last have `more`. `answers`: the XID is the receiver's.
    """

    xid: int
    credits: int
    key: tuple[int, ...]
    more: bool
    answers: bool

    def refused(self, cause: Cause, limit: int = 0) -> Inbound:
        """Makes an unreadable message, which gets an error; a reply instead becomes one that fails its call."""
        if self.answers:
            return Inbound(Kind.REPLY, self.xid, self.credits, VERSION, long=True)
        return Inbound(Kind.UNREADABLE, self.xid, self.credits, VERSION, refusal=Refusal(cause, limit=limit))


class Version2Draft(ABC):
    """The dialect object of a connection, with the pieces of an unfinished message."""

    __slots__ = ("_answering", "_assembly", "_error_words", "_extended")
    version = VERSION
    introduces = True
    continues_properties = True
    properties_again = Cause.PROPERTY
    make_window: ClassVar[type[IncrementalWindow | CumulativeWindow]]
    """The class that has the credits of the draft."""

    def __init__(self) -> None:
        self._assembly = Assembly()
        # The XID of the call whose reply is in pieces, if the last sequence of pieces is a reply.
        self._answering: int | None = None
        self._extended: Mapping[int, tuple[int, bool]] = {}
        self._error_words: Mapping[int, int] = {}

    @property
    def unfinished(self) -> int:
        """See `Dialect`."""
        return self._assembly.unfinished

    def count_in(self, memory: MessageMemory) -> None:
        """Counts the pieces of the unfinished message."""
        self._assembly.memory = memory

    def forget(self) -> None:
        """Of the one that is in pieces."""
        self._assembly.release()

    def extend(self, headers: Mapping[int, tuple[int, bool]], error_words: Mapping[int, int]) -> None:
        """Sets the header types and errors of extensions."""
        self._extended = headers
        self._error_words = error_words

    def agree(self, own: PrivateData, _peer: PrivateData | None) -> Agreement:
        """Ignores the peer's: properties tell the sizes, and each call names the handle that may be invalidated.

        So a side alone decides: whether its calls name handles, and whether its replies invalidate those named.
        """
        return Agreement(_THRESHOLD_OCTETS, _THRESHOLD_OCTETS, own.remote_invalidation)

    def may_end(self, call: Outgoing, handle: int) -> bool:
        """Allows the handle that the call named, if any."""
        return handle == call.ends

    def claims(self, data: Buffer) -> bool:
        """Checks the version alone, also of a message that is too short."""
        return version_of(data) == VERSION

    def window(self, config: TransportConfig, role: Role, *, reverse: bool, reservable: int) -> Window:
        """Credits count messages, in each direction separately."""
        return self.make_window(*calls_counted(config, role, reverse=reverse), reservable)

    def encode_properties(self, properties: PropertySet) -> bytes:
        """Encodes an array of numbers and values."""
        return encode_property_set(properties)

    @abstractmethod
    def decode(self, data: Buffer) -> Inbound | None:
        """Decodes a received message; None if it is to be silently discarded."""

    def decode_answer(self, data: Buffer) -> Inbound | None:
        """Decodes a refusal of version 2 by an older server, in the format that RFC 8166 gives to every version.

        In the first draft, where flags precede the code, no error has this length and this content.
        """
        refused = decode_version_refused(data)
        if refused is None or refused.low > VERSION:
            return self.decode(data)
        xid, version, credits_, low, high = refused
        return Inbound(Kind.ERROR, xid, credits_, version, refusal=Refusal(Cause.VERSION, low=low, high=high))

    def _extension(self, head: Head, data: Buffer, start: int, header_type: int, flags: int) -> Inbound:
        """Decodes a message of an extension, or a piece of one, whose body is `data[start:]`."""
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

    def _extension_error(self, data: Buffer, start: int) -> Inbound | None:
        """Decodes an error of an extension, whose code is at `start`; None for an unknown code."""
        xid, _, credits_, _ = FIXED.unpack_from(data)
        words = tuple(word for (word,) in _WORD.iter_unpack(memoryview(data)[start : len(data) & ~3]))
        if not words or self._error_words.get(words[0]) != len(words) - 1:
            return None
        refusal = Refusal(Cause.EXTENSION, code=words[0], words=words[1:])
        return Inbound(Kind.ERROR, xid, credits_, VERSION, refusal=refusal)

    def _drop(self, head: Head) -> Inbound | None:
        """Drops a message of an interrupted sequence; None for any other message."""
        if self._assembly.idle:
            return None
        step = self._assembly.drop(head.key, more=head.more)
        return None if step is None else self._stepped(head, step)

    def _refuse(self, head: Head, cause: Cause, limit: int = 0) -> Inbound:
        """Refuses a message, with the sequence that it belongs to."""
        broken = self._assembly.give_up(head.key, more=head.more)
        refused = head.refused(cause, limit)
        return replace(refused, broken=self._answering) if broken else refused

    def _add(self, head: Head, payload: Buffer) -> Inbound | None:
        """Adds a message to its sequence; None if that completes the sequence."""
        step = self._assembly.take(head.key, payload, more=head.more)
        return None if step is Step.WHOLE else self._stepped(head, step)

    def _stepped(self, head: Head, step: Step) -> Inbound:
        """Makes the result for a message that does not complete its sequence."""
        if step is Step.FOREIGN:
            return replace(head.refused(Cause.FLAGS), broken=self._answering)
        if step is Step.TOO_LONG:
            return head.refused(Cause.SYSTEM)
        if step is Step.KEPT:
            self._answering = head.xid if head.answers else None
        return Inbound(Kind.PIECE, head.xid, head.credits, VERSION)

    def _message(
        self, head: Head, chunks: ChunkLists, inv_handle: int, data: Buffer, start: int, *, long: bool
    ) -> Inbound:
        """Makes a call, a reply, or a piece; unless `long`, its payload is `data[start:]`."""
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


def refusal_octets(error: OutgoingError, credit_word: int, prefix: bytes, codes: ErrorCodes) -> bytes:
    """Encodes a refusal, with the `prefix` of the draft unless it refuses the version."""
    refusal = error.refusal
    if refusal.cause is Cause.VERSION:
        return encode_version_refused(VersionRefusal(error.xid, error.version, credit_word, refusal.low, refusal.high))
    if refusal.cause is Cause.EXTENSION:
        return prefix + b"".join(map(_WORD.pack, (refusal.code, *refusal.words)))
    return prefix + codes.encode(refusal)


def _opens(data: Buffer, start: int, xid: int, direction: int) -> bool:
    """Whether an RPC message with this XID and direction begins at `start`."""
    return len(data) - start >= RPC_START.size and RPC_START.unpack_from(data, start) == (xid, direction)
