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
"""The least payload, in octets, that a continued message keeps for its last Send, which has the chunk lists."""


class Geometry(NamedTuple):
    """The sizes in octets of one protocol version's transport headers and of their parts.

    `call_header` and `reply_header`: a header without chunks. `read_segment`: one entry of a Read list. `write_chunk`
    and `reply_chunk`: a Write chunk and the Reply chunk without their segments. `segment`: one segment of these.
    `piece_header`: the header of a continued message's Sends except the last; 0 if the version cannot continue
    messages. `first_message`: the largest first message of a client, payload included; 0 for no limit. `prefix`: the
    header before the body of an extension's message.
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
    """The credit accounting of one connection, in both directions; created by `Dialect.window`.

    A message may go out if `balance` is positive and, for a call, `in_flight` is less than `allowed`. Then `admit`
    takes its credit. `granted` is the number of calls that the peer may have unanswered. `receives_wanted` receives
    must be posted before the next Send: one for each message that the peer may then send, and a margin for messages
    that this side discards.
    """

    counts_arrivals: bool
    """Whether `on_arrival` must be called for every received message."""
    balance: int
    """Messages that may go out now."""
    granted: int
    in_flight: int
    """Calls of this side that are unanswered."""
    receives_wanted: int
    low: bool
    """Whether `refresh_due` may be True; if False, `refresh_due` need not be computed."""

    @property
    def allowed(self) -> int:
        """The number of calls of this side that may be unanswered at once."""

    @property
    def refresh_due(self) -> bool:
        """Whether a message that only grants credits should be sent now, because no other message carries them."""

    def admit(self, message: Outgoing) -> int:
        """Spends the credit, which `balance` must have (unchecked), for a message or its first piece.

        Counts a call as in flight, and the peer's call that a reply or refusal answers (`Outgoing.answers_call`) as
        answered. Returns the credit word for the message's header.
        """

    def admit_several(self, first: Outgoing, count: int) -> int:
        """Spends the credit for one message with several calls, or several replies.

        `first`: one of the calls or replies. `count`: their number; calls must not exceed what `allowed` leaves beside
        those in flight. Returns the credit word for the message's header.
        """

    def admit_piece(self, message: Outgoing) -> int:
        """Spends a credit, which `balance` must have, for a further piece of a message; returns its credit word."""

    def grant_word(self) -> int:
        """Returns the credit word of a message that only grants credits, and counts these credits as granted.

        The caller sends that message now, without `admit`.
        """

    def on_arrival(self, message: Inbound | None) -> bool:
        """Counts a received message, before any other handling of it.

        `message`: the message; None for a message that is silently discarded. Returns False if the peer had no credit
        for the message.
        """

    def on_received(self, message: Inbound) -> bool:
        """Counts a call of the peer, or the end of a call of this side by a reply or an error.

        `message`: the call, the reply or the error. Returns False for a call with which the peer has more unanswered
        calls than this side has permitted, else True.
        """

    def reserve(self, messages: int) -> None:
        """Changes the number of messages that the peer may send beyond its calls and replies by `messages`.

        `messages`: the credits to add; a negative number ends a reservation. Later headers grant the credits.
        No effect in version 1.
        """

    def stop_learning(self) -> None:
        """Fixes `allowed`, the most unanswered calls of this side, at its value, whatever the peer grants later.

        No effect in version 1, where `allowed` is not learned: each reply still sets it.
        """

    def on_dropped(self) -> None:
        """Has the credit of a peer's call without a reply granted anew; where credits count calls, it is lost."""

    def may_owe(self, sends: int) -> bool:
        """Returns whether `sends` Sends of this side may lack a known completion although the peer receives messages.

        Only some Sends report their completion, which implies that of all earlier ones. False: the peer does not
        receive.
        """


class Dialect(Protocol):
    """One version of the protocol on one connection: its codec, which stores the pieces of an unfinished message.

    `version` is the number in headers; users select the version by `name`. `geometry` has the header sizes. If
    `introduces` is True, the first message of each side has its transport properties, which `properties` lists by their
    numbers.
    """

    version: int
    name: str
    geometry: Geometry
    introduces: bool
    properties: Mapping[int, Property]

    @property
    def unfinished(self) -> int:
        """A number that identifies the message of which some but not all pieces have arrived; 0 if there is none."""

    def count_in(self, memory: MessageMemory, /) -> None:
        """Has the octets of the stored pieces of unfinished messages counted in `memory`, the connection's account."""

    def forget(self) -> None:
        """Releases the stored pieces of an unfinished message after the connection has ended."""

    def extend(self, headers: Mapping[int, tuple[int, bool]], error_words: Mapping[int, int], /) -> None:
        """Registers the codes of extensions, so that `decode` accepts their messages and errors.

        `headers`: for each header type the permitted flags, and whether its messages may be continued. `error_words`:
        for each error code the number of 32-bit words that follow it. No effect in version 1.
        """

    def agree(self, own: PrivateData, peer: PrivateData | None, /) -> Agreement:
        """Returns the largest messages, and the use of remote invalidation, that hold without transport properties.

        `own`: this side's private data. `peer`: the peer's, which version 2 ignores; None if the peer sent none.
        """

    def window(self, config: TransportConfig, role: Role, *, reverse: bool, reservable: int) -> Window:
        """Creates the credit accounting of a new connection.

        Args:
            config: the settings, which have the numbers of calls to request and to grant.
            role: the role of this end.
            reverse: whether the server makes calls, too.
            reservable: the most messages by which `Window.reserve` increases the peer's credits at any time.
        """

    def encode(self, message: Outgoing, credit_word: int) -> bytes:
        """Encodes the header of a message, or of the last piece of a continued one; encodes an error or a grant whole.

        `credit_word` is the value of the header's credit field, from the `Window`.
        """

    def encode_properties(self, properties: PropertySet) -> bytes:
        """Encodes pairs of property number and encoded value as a message's body; used only if `Dialect.introduces`."""

    def encode_piece(self, message: Outgoing, credit_word: int, /) -> bytes:
        """Encodes the header of a piece of a continued message, other than the last piece, with this credit field.

        Called only if the version can continue messages (`Geometry.piece_header`).
        """

    def decode(self, data: Buffer) -> Inbound | None:
        """Decodes a received message.

        Returns the message, of `Kind.UNREADABLE` if it is faulty and to be refused; None if it must be silently
        discarded. Every piece of a continued message but the last gives a `Kind.PIECE` and is stored; the last piece
        gives the whole message. Each further piece of a message that was refused gives a `Kind.PIECE` and is dropped.
        """

    def decode_answer(self, data: Buffer) -> Inbound | None:
        """Decodes a server's message before the opening, which may also refuse this version in an older one's format.

        Returns the message; None if it must be silently discarded.
        """

    def claims(self, data: Buffer) -> bool:
        """Returns whether a client's first message, `data`, has the number of this version in its header."""

    def may_end(self, call: Outgoing, handle: int) -> bool:
        """Returns whether the reply to `call` may invalidate `handle`, by the rules of this version."""
