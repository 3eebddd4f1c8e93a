"""The messages of a connection as requester and responder see them, whichever version puts them into octets."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

from rpcrdma.transport.chunks import NO_CHUNKS, ChunkLists
from rpcrdma.wire.buffers import Buffer

__all__ = [
    "Cause",
    "Direction",
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
"""Transport properties as they are on the wire: the number and the encoded value of each."""


class Direction(enum.Enum):
    """Which end of the connection calls: its requester is the client, or, in the reverse direction, the server."""

    FORWARD = "forward"
    REVERSE = "reverse"


class Kind(enum.IntEnum):
    """What a message is. As a number, since tables are looked up by it for every message."""

    CALL = 0
    REPLY = 1
    ERROR = 2
    """Refuses a call, or a message that cannot be read."""
    UNREADABLE = 3
    """Only received: a header against the rules, or one whose direction cannot be told."""
    PROPERTIES = 4
    """Transport properties of its sender."""
    GRANT = 5
    """Nothing but credits."""
    PIECE = 6
    """Only received: part of a message that goes on in the next one, and that is kept until all of it is here."""
    EXTENSION = 7
    """Of a header type that the version does not have, but an extension."""


class Cause(enum.Enum):
    """Why a message is refused; a dialect maps causes to the codes of its version and back."""

    VERSION = "version"
    """The receiver speaks other versions of the protocol."""
    VERSION_MISMATCH = "version mismatch"
    """The receiver speaks that version as well, but not on this connection."""
    HEADER = "header"
    """The header is against the rules, or names memory that cannot be."""
    CHUNKS = "chunks"
    """Something about the chunks, or the reply does not fit them: the refusal does not say what."""
    HEADER_TYPE = "header type"
    """A type of message that the receiver does not know."""
    FLAGS = "flags"
    """Flags that mean nothing together, or a sequence of pieces that is broken."""
    PROPERTY = "property"
    """The value of a transport property is not what it must be."""
    READ_CHUNKS = "read chunks"
    """More Read chunks than the responder takes."""
    WRITE_CHUNKS = "write chunks"
    """More Write chunks than the responder takes."""
    SEGMENTS = "segments"
    """More segments than the responder takes."""
    INELIGIBLE = "ineligible"
    """A Read chunk holds an argument that must not be moved there."""
    TOO_LARGE = "too large"
    """The responder does not take, or has no memory for, so much in Read chunks."""
    WRITE_RESOURCE = "write resource"
    """A result is larger than its Write chunk."""
    REPLY_RESOURCE = "reply resource"
    """What is left of the reply fits neither a message nor the Reply chunk."""
    SYSTEM = "system"
    """Something else, for good."""
    EXTENSION = "extension"
    """An error that an extension has."""


class Refusal(NamedTuple):
    """Why a message was refused, in as much detail as the version at work can tell.

    `chunk` counts Write chunks from 1 on, 0 for none; `needed` is in octets. `low` and `high` are the versions that the
    refusing end speaks (`Cause.VERSION`). `limit` is the most chunks or segments that it takes. `code` and `words` are
    those of an extension's error.
    """

    cause: Cause
    chunk: int = 0
    needed: int = 0
    low: int = 0
    high: int = 0
    limit: int = 0
    code: int = 0
    words: tuple[int, ...] = ()


class Inbound(NamedTuple):
    """A received message.

    `data[start:]` is what came inline of the RPC message; nothing did if `long`, where all of it is in a chunk. `ends`
    is the handle of a call that its reply may invalidate. `refusal` says why a message is unreadable, or, of an error,
    why the call was refused; a reply with one is unreadable if no call waits for it. `version` is the header's.
    `properties` are those of a message that has some. Of an extension's message, `header_type` and `flags` are those of
    its header, and `answers` says whose XID it has. `carried` is what an extension knows of a call or reply that came
    in its messages (`carriers`). `broken` is the XID of the call whose reply in several messages this one has broken.
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
    carried: Any = None
    broken: int | None = None


class Outgoing:
    """A message to be sent; `chunks` and `long` say how it travels, once that is decided.

    `answers_call`: the peer gets back what its call took of the credits. `ends` is the handle of a call that its reply
    may invalidate, where the version at work names one. `group` are the messages of an extension in which it goes, if
    it does.
    """

    __slots__ = ("answers_call", "chunks", "ends", "group", "long", "xid")

    kind: ClassVar[Kind]

    def __init__(self, xid: int, *, answers_call: bool) -> None:
        self.xid = xid
        self.answers_call = answers_call
        self.chunks: ChunkLists = NO_CHUNKS
        self.long = False
        self.ends: int | None = None
        self.group: Any = None


class OutgoingError(Outgoing):
    """A refusal; `version` is that of the refused message."""

    __slots__ = ("refusal", "version")

    kind = Kind.ERROR

    def __init__(self, xid: int, version: int, refusal: Refusal, *, answers_call: bool) -> None:
        super().__init__(xid, answers_call=answers_call)
        self.version = version
        self.refusal = refusal


class OutgoingProperties(Outgoing):
    """Transport properties of this side."""

    __slots__ = ("properties",)

    kind = Kind.PROPERTIES

    def __init__(self, xid: int, properties: PropertySet) -> None:
        super().__init__(xid, answers_call=False)
        self.properties = properties


class OutgoingExtension(Outgoing):
    """A message of an extension; with `answer`, its XID is one of the peer's."""

    __slots__ = ("answer", "body", "flags", "header_type")

    kind = Kind.EXTENSION

    def __init__(self, xid: int, header_type: int, flags: int, body: Sequence[Buffer], *, answer: bool) -> None:
        super().__init__(xid, answers_call=False)
        self.header_type = header_type
        self.flags = flags
        self.body = body
        self.answer = answer


class OutgoingGrant(Outgoing):
    """Credits for the peer, and nothing else."""

    __slots__ = ()

    kind = Kind.GRANT

    def __init__(self) -> None:
        super().__init__(0, answers_call=False)
