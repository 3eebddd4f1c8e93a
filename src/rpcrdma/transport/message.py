"""The messages of a connection, independent of the protocol version that encodes them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "CallDirection",
    "Cause",
    "Inbound",
    "Kind",
    "Outgoing",
    "OutgoingError",
    "OutgoingExtension",
    "OutgoingGrant",
    "OutgoingProperties",
    "PropertySet",
    "Refusal",
]

PropertySet: TypeAlias = tuple[tuple[int, bytes], ...]
"""Encoded transport properties: the number and the value of each."""


class CallDirection(enum.Enum):
    """The direction of calls: forward from client to server, reverse from server to client (RFC 8167)."""

    FORWARD = "forward"
    REVERSE = "reverse"


class Kind(enum.IntEnum):
    """The kind of a message; a number, because tables of handlers are indexed by it."""

    CALL = 0
    REPLY = 1
    ERROR = 2
    """Refuses a call or an unreadable message."""
    UNREADABLE = 3
    """Only received: the header is invalid or of another version, or lacks the direction."""
    PROPERTIES = 4
    """Transport properties of its sender."""
    GRANT = 5
    """Credits only."""
    PIECE = 6
    """Only received: a part of a continued message, stored until the last part arrives, or dropped with its message."""
    EXTENSION = 7
    """A message with the header type of an extension."""


class Cause(enum.Enum):
    """The reason of a refusal; a dialect maps causes to the error codes of its version and back."""

    VERSION = "version"
    """The receiver speaks other versions of the protocol."""
    HEADER = "header"
    """The header is invalid, or names an impossible range of memory, or that of the reply would fit no message."""
    CHUNKS = "chunks"
    """The chunks are unsuitable, or the reply does not fit them; the refusal gives no details."""
    HEADER_TYPE = "header type"
    """The receiver does not know the header type."""
    FLAGS = "flags"
    """The combination of flags is invalid, or a sequence of pieces is interrupted."""
    PROPERTY = "property"
    """The value of a transport property is invalid."""
    READ_CHUNKS = "read chunks"
    """The call has more Read chunks than the responder takes."""
    WRITE_CHUNKS = "write chunks"
    """The call has more Write chunks than the responder takes."""
    SEGMENTS = "segments"
    """The call has more segments than the responder takes."""
    INELIGIBLE = "ineligible"
    """A Read chunk has an argument that is not DDP-eligible. Responders also refuse for this cause what is no readable
    RPC call, and a repeated call that has run and whose reply is not kept."""
    TOO_LARGE = "too large"
    """The call's messages or Read chunks exceed a limit or the memory of the responder."""
    WRITE_RESOURCE = "write resource"
    """A result is larger than its Write chunk."""
    REPLY_RESOURCE = "reply resource"
    """The rest of the reply fits neither a message nor the Reply chunk."""
    SYSTEM = "system"
    """Another permanent error."""
    EXTENSION = "extension"
    """An error of an extension."""


class Refusal(NamedTuple):
    """The reason of a refusal, in as much detail as the protocol version in use conveys.

    `chunk` is the number of a Write chunk, counted from 1; 0: no chunk is named. `needed` is the required size in
    octets. `low` and `high` are the versions that the refusing end speaks (`Cause.VERSION`). `limit` is the number of
    chunks or segments that the refusing end takes. `code` and `words` are the error code of an extension and the 32-bit
    words after it.
    """

    cause: Cause
    chunk: int = 0
    needed: int = 0
    low: int = 0
    high: int = 0
    limit: int = 0
    code: int = 0
    words: tuple[int, ...] = ()


@dataclass
class Inbound:
    """A received message; most kinds use few of the fields.

    Decoders make the usual messages with `Inbound.__new__` and assign some fields by name, without `__init__`: the
    other fields keep their defaults.

    Args:
        kind: the kind.
        xid: the XID.
        credit_word: the value of the header's credit field.
        version: the version in the header.
        chunks: calls and replies: the chunk lists.
        data: the octets; `data[start:]` is the inline part of the RPC message, or the body of an extension's message.
        start: the index in `data` of the first octet after the transport header.
        long: whether a chunk has the whole RPC message, and the inline part is empty.
        ends: calls: the handle that the reply may invalidate; None if the header names no handle.
        refusal: errors: the reason. Unreadable messages: the reason to send; a reply with a refusal counts as
            unreadable if no call waits for it.
        properties: the peer's transport properties, encoded.
        header_type: extensions: the header type.
        flags: extensions: the flags.
        answers: extensions: whether the receiver chose the XID.
        broken: the XID of a call whose reply in several pieces this message interrupts; None if it interrupts none.
    """

    kind: Kind
    xid: int
    credit_word: int
    version: int
    chunks: ChunkLists = NO_CHUNKS
    data: Buffer = b""
    start: int = 0
    long: bool = False
    ends: int | None = None
    refusal: Refusal | None = None
    properties: PropertySet = ()
    header_type: int = 0
    flags: int = 0
    answers: bool = False
    broken: int | None = None


class Outgoing:
    """A message to be sent; its owner sets `chunks` and `long` when it decides how the message travels.

    `answers_call`: the message returns the credit of the peer's call. `long`: a chunk has the whole RPC message, and
    nothing follows the header. `ends`: in a call, the handle that the reply may invalidate; None if the header names
    none. `group` has the messages in which an extension carries a call or reply (`Transmission`), else None. `sending`:
    the memory of the message's data is in use until its Send has completed. `invalidates` is the peer's handle that the
    Send may invalidate, or None. `ready` is the payload of a message that needs no preparation, else None: a gather
    list, or octets that the outbox joins with the header.
    """

    __slots__ = ("answers_call", "chunks", "ends", "group", "long", "xid")

    kind: ClassVar[Kind]
    sending: bool = False
    invalidates: int | None = None
    ready: Sequence[Buffer] | bytes | bytearray | None = None

    def __init__(self, xid: int, *, answers_call: bool) -> None:
        self.xid = xid
        self.answers_call = answers_call
        self.chunks: ChunkLists = NO_CHUNKS
        self.long = False
        self.ends: int | None = None
        self.group: Any = None


class OutgoingError(Outgoing):
    """An error message: `refusal` has the reason, `version` is the version of the refused message.

    `answers_call`: the error refuses a call, and returns its credit.
    """

    __slots__ = ("refusal", "version")

    kind = Kind.ERROR
    ready = b""

    def __init__(self, xid: int, version: int, refusal: Refusal, *, answers_call: bool) -> None:
        super().__init__(xid, answers_call=answers_call)
        self.version = version
        self.refusal = refusal


class OutgoingProperties(Outgoing):
    """A message with transport properties of this side; `octets` is the encoded property set."""

    __slots__ = ("ready",)

    kind = Kind.PROPERTIES

    def __init__(self, xid: int, octets: bytes) -> None:
        super().__init__(xid, answers_call=False)
        self.ready = (octets,)


class OutgoingExtension(Outgoing):
    """A message of an extension: `header_type`, `flags`, and as `ready` the body; `answer`: the peer chose the XID."""

    __slots__ = ("answer", "flags", "header_type", "ready")

    kind = Kind.EXTENSION

    def __init__(self, xid: int, header_type: int, flags: int, body: Sequence[Buffer], *, answer: bool) -> None:
        super().__init__(xid, answers_call=False)
        self.header_type = header_type
        self.flags = flags
        self.ready = body
        self.answer = answer


class OutgoingGrant(Outgoing):
    """A message that only grants credits."""

    __slots__ = ()

    kind = Kind.GRANT

    def __init__(self) -> None:
        super().__init__(0, answers_call=False)
