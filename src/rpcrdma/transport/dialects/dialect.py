"""What one version of RPC-over-RDMA brings: everything above works with any object of this protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.config import Role, TransportConfig
from rpcrdma.transport.message import Cause, Inbound, Outgoing, PropertySet
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.private_data import Agreement, PrivateData
from rpcrdma.transport.properties import Property
from rpcrdma.wire.buffers import Buffer

__all__ = ["Dialect", "Geometry", "Window"]


class Geometry(NamedTuple):
    """Octets of which transport headers consist.

    `call_header` and `reply_header` are those of headers without chunks; `read_segment` is one entry of a Read list,
    `write_chunk` and `reply_chunk` are a Write chunk and the Reply chunk without their segments. `call_chunk` is what a
    Read chunk at Position Zero takes beside its entries; where a chunk takes more in some headers than in others, the
    most is counted. `piece_header` is the
    header of a message that goes on in the next one; 0 where none does. `first_message` is the most that the first
    message of a client has, its payload included; 0 for no such limit. `prefix` is what stands before the body of an
    extension's message.
    """

    call_header: int
    reply_header: int
    read_segment: int
    write_chunk: int
    reply_chunk: int
    segment: int
    piece_header: int = 0
    first_message: int = 0
    call_chunk: int = 0
    prefix: int = 0

    def size_chunks(self, chunks: ChunkLists) -> int:
        """Octets that these lists add to a header."""
        size = 0
        for read in chunks.reads:
            size += self.read_segment * len(read.segments)
            if not read.position:
                size += self.call_chunk
        for write in chunks.writes:
            size += self.write_chunk + self.segment * len(write.segments)
        if chunks.reply is not None:
            size += self.reply_chunk + self.segment * len(chunks.reply.segments)
        return size


class Window(Protocol):
    """The credits of one connection: those that the peer gave, and those that it has been given.

    `granted` are the calls that the peer may make at present. `receives_wanted` receives must be posted before the next
    Send: one for each message that the peer may then send, and some spare ones for messages that are discarded.
    """

    counts_arrivals: bool
    """Whether `on_arrival` is to be called."""
    balance: int
    """Messages that may go out, where messages are counted."""
    granted: int
    in_flight: int
    """Calls of this side that are unanswered."""
    receives_wanted: int

    @property
    def allowed(self) -> int:
        """Calls of this side that may be unanswered at present."""

    @property
    def refresh_due(self) -> bool:
        """Whether a message that only grants credits should be sent."""

    def admit(self, message: Outgoing) -> int | None:
        """Counts a message that is sent now, or its first piece, and returns the credit word of the header.

        None if it has to wait.
        """

    def admit_several(self, first: Outgoing, count: int) -> int | None:
        """The same for so many calls, or replies, that go in one message, of which `first` is one.

        Calls must not be more than are allowed.
        """

    def admit_piece(self, message: Outgoing) -> int | None:
        """The same for each further piece of a message."""

    def grant_word(self) -> int:
        """The credit word of a message that only grants credits; it is sent now, without being admitted."""

    def take_back(self, message: Outgoing) -> None:
        """The message that was admitted last is not sent after all."""

    def on_arrival(self, message: Inbound | None) -> bool:
        """Counts a message before anything else is done with it; None stands for one that is silently discarded.

        False if the peer had no credit for it.
        """

    def on_received(self, message: Inbound) -> bool:
        """Counts a call, or a message that answers a call of this side; False if the peer had no credit for it."""

    def widen(self, promises: int) -> None:
        """Before the first message: so many messages beyond the first ones of replies may be promised at once."""

    @property
    def promises_left(self) -> int:
        """How many messages of one reply beyond its first can be promised."""

    def promise(self, messages: int) -> None:
        """The peer gets credits for so many messages more, for a reply; fewer where the number is negative."""

    def on_promised(self) -> None:
        """The peer has promised more messages for a reply: credits no longer tell how many calls it takes."""

    def on_dropped(self) -> None:
        """A call of the peer's, counted by `on_received`, is never answered."""

    def may_owe(self, sends: int) -> bool:
        """Whether a peer in good faith may have left so many Sends of this side unread."""


class Dialect(Protocol):
    """One version of the protocol, for one connection: it may keep what it has received of a continued message.

    `name` is what users call the version. With `introduces`, the first message of each side is its properties, which
    `properties` lists by their numbers; `continues_properties`: they may take several messages; `properties_again`: why
    further ones are refused. `has_flags`: headers have flags, also those of extensions.
    """

    version: int
    name: str
    geometry: Geometry
    introduces: bool
    continues_properties: bool
    properties_again: Cause
    has_flags: bool
    properties: Mapping[int, Property]

    @property
    def unfinished(self) -> int:
        """Which message has come in part, as a number that no other message of the connection has; 0 for none."""

    def count_in(self, memory: MessageMemory, /) -> None:
        """Counts what has come of an unfinished message there."""

    def forget(self) -> None:
        """Lets go of the octets of an unfinished message: the connection has ended."""

    def extend(self, headers: Mapping[int, tuple[int, bool]], error_words: Mapping[int, int], /) -> None:
        """Adds what extensions have: flags and continuation of further header types, and the words of errors."""

    def agree(self, own: PrivateData, peer: PrivateData | None, /) -> Agreement:
        """What holds for a connection from what both sides said while they connected."""

    def window(self, config: TransportConfig, role: Role, *, reverse: bool) -> Window:
        """The credits at the beginning of a connection, on which the server calls, too, if `reverse`."""

    def encode(self, message: Outgoing, credit_word: int) -> bytes:
        """The header of a message, or of its last piece; the whole message where that is an error or a grant."""

    def encode_properties(self, properties: PropertySet) -> bytes:
        """What follows the header of transport properties."""

    def encode_piece(self, message: Outgoing, credit_word: int, remaining: int, /) -> bytes:
        """The header of a piece of a message, after which `remaining` octets are still to come."""

    def decode(self, data: Buffer) -> Inbound | None:
        """A received message; None for one that is silently discarded.

        A continued message comes with its last piece, and `Kind.PIECE` instead of each one before that.
        """

    def decode_answer(self, data: Buffer) -> Inbound | None:
        """As `decode`, of the first message from a server, which may refuse the version in an older one's form."""

    def claims(self, data: Buffer) -> bool:
        """Whether the first message from a client is of this version."""

    def may_end(self, call: Outgoing, handle: int) -> bool:
        """Whether the reply to `call`, which has chunks, may invalidate `handle`, which these name."""
