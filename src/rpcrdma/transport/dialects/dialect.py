"""The interface of a protocol version: the rest of the transport works with any object that implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.config import Role, TransportConfig
from rpcrdma.transport.message import Inbound, Outgoing, PropertySet
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.private_data import Agreement, PrivateData
from rpcrdma.transport.properties import Property
from rpcrdma.wire.buffers import Buffer

__all__ = ["LAST_PIECE_OCTETS_MIN", "Dialect", "Geometry", "Window"]

LAST_PIECE_OCTETS_MIN = 8
"""The least payload that a long message keeps for its last Send, which has the chunk lists."""


class Geometry(NamedTuple):
    """Sizes of transport headers and of their parts, in octets.

    `call_header` and `reply_header`: a header without chunks. `read_segment`: one entry of a Read list. `write_chunk`
    and `reply_chunk`: a Write chunk and the Reply chunk without their segments. `piece_header`: the header of a piece
    that is not the last one; 0 if the version has no pieces.
    `first_message`: the limit of a client's first message with its payload; 0 for none. `prefix`: the header before the
    body of an extension's message.
    """

    call_header: int
    reply_header: int
    read_segment: int
    write_chunk: int
    reply_chunk: int
    segment: int
    piece_header: int = 0
    first_message: int = 0
    prefix: int = 0

    def size_chunks(self, chunks: ChunkLists) -> int:
        """Returns the octets that these chunk lists add to a header."""
        size = 0
        for read in chunks.reads:
            size += self.read_segment * len(read.segments)
        for write in chunks.writes:
            size += self.write_chunk + self.segment * len(write.segments)
        if chunks.reply is not None:
            size += self.reply_chunk + self.segment * len(chunks.reply.segments)
        return size


class Window(Protocol):
    """The credits of one connection, in both directions.

    A message may go out if `balance` is positive and, for a call, `in_flight` is less than `allowed`. Then `admit`
    takes its credit. `granted` is the number of calls that the peer may have unanswered. `receives_wanted` receives
    must be posted before the next Send: one for each message that the peer may then send, and a margin for messages
    that this side discards.
    """

    counts_arrivals: bool
    """Whether `on_arrival` must be called."""
    balance: int
    """Messages that may go out now."""
    granted: int
    in_flight: int
    """Calls of this side that are unanswered."""
    receives_wanted: int
    low: bool
    """Whether `refresh_due` may be True."""

    @property
    def allowed(self) -> int:
        """Calls of this side that may be unanswered."""

    @property
    def refresh_due(self) -> bool:
        """Whether an asynchronous grant should be sent."""

    def admit(self, message: Outgoing) -> int:
        """Spends the credit for a message or its first piece; returns the credit word for its header."""

    def admit_several(self, first: Outgoing, count: int) -> int:
        """Spends the credit for one message with `count` calls or replies, of which `first` is one.

        The calls must not exceed the allowed number. Returns the credit word for its header.
        """

    def admit_piece(self, message: Outgoing) -> int:
        """Spends the credit for a further piece of a message; returns the credit word for its header."""

    def grant_word(self) -> int:
        """Returns the credit word of an asynchronous grant, which is sent now without `admit`."""

    def on_arrival(self, message: Inbound | None) -> bool:
        """Counts a message before any other handling; None stands for a message that is silently discarded.

        Returns False if the peer had no credit for it.
        """

    def on_received(self, message: Inbound) -> bool:
        """Counts a call of the peer, or the reply or error to a call of this side.

        False if the peer has more unanswered calls than this side has permitted.
        """

    def reserve(self, messages: int) -> None:
        """Lets the peer send more messages than its calls and replies need; a negative number ends a reservation."""

    def stop_learning(self) -> None:
        """Keeps `allowed` as it is: the peer's credits no longer show how many calls it takes."""

    def on_dropped(self) -> None:
        """Counts a call of the peer that gets no reply."""

    def may_owe(self, sends: int) -> bool:
        """Returns whether a correct peer may have left this many Sends of this side unread."""


class Dialect(Protocol):
    """One version of the protocol on one connection, with the pieces of an unfinished message.

    Users select the version by `name`. With `introduces`, the first message of each side has its transport properties,
    which `properties` lists by their numbers.
    """

    version: int
    name: str
    geometry: Geometry
    introduces: bool
    properties: Mapping[int, Property]

    @property
    def unfinished(self) -> int:
        """A number that identifies the message of which some pieces have arrived; 0 if there is none."""

    def count_in(self, memory: MessageMemory, /) -> None:
        """Makes `memory` account for the pieces of an unfinished message."""

    def forget(self) -> None:
        """Releases the pieces of an unfinished message after the connection has ended."""

    def extend(self, headers: Mapping[int, tuple[int, bool]], error_words: Mapping[int, int], /) -> None:
        """Adds the header types of extensions, with flags and continuation, and the lengths of their errors."""

    def agree(self, own: PrivateData, peer: PrivateData | None, /) -> Agreement:
        """Derives the agreement for a connection from the private data of both sides."""

    def window(self, config: TransportConfig, role: Role, *, reverse: bool, reservable: int) -> Window:
        """Creates the credit accounting of a new connection, on which the server makes calls, too, if `reverse`.

        `reservable`: the most messages that `Window.reserve` adds at any time.
        """

    def encode(self, message: Outgoing, credit_word: int) -> bytes:
        """Encodes the header of a message or of its last piece; for an error or a grant, the whole message."""

    def encode_properties(self, properties: PropertySet) -> bytes:
        """Encodes the body of a message with transport properties."""

    def encode_piece(self, message: Outgoing, credit_word: int, /) -> bytes:
        """Encodes the header of a piece that others follow."""

    def decode(self, data: Buffer) -> Inbound | None:
        """Decodes a received message; None if it must be silently discarded.

        The last piece of a continued message returns the whole message, each earlier piece a `Kind.PIECE`.
        """

    def decode_answer(self, data: Buffer) -> Inbound | None:
        """Decodes a server's first message as `decode` does, also a refusal in the format of an older version."""

    def claims(self, data: Buffer) -> bool:
        """Returns whether the first message from a client has this version."""

    def may_end(self, call: Outgoing, handle: int) -> bool:
        """Returns whether the reply to `call` may invalidate `handle`, which the chunks of the call name."""
