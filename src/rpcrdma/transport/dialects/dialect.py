"""The interface of a protocol version: the rest of the transport works with any object that implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from rpcrdma.transport.call_credits import CallWindow
from rpcrdma.transport.chunks import ChunkLists
from rpcrdma.transport.config import Role, TransportConfig
from rpcrdma.transport.message import Inbound, Outgoing
from rpcrdma.transport.message_credits import MessageWindow
from rpcrdma.transport.message_memory import MessageMemory
from rpcrdma.transport.private_data import Agreement, PrivateData
from rpcrdma.transport.properties import Property
from rpcrdma.wire.buffers import Buffer

__all__ = ["LAST_PIECE_OCTETS_MIN", "Dialect", "Geometry"]

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
        """Returns the largest messages, and the use of remote invalidation, as long as the peer has sent no properties.

        `own`: this side's private data. `peer`: the peer's, which version 2 ignores; None if the peer sent none.
        """

    def window(
        self, config: TransportConfig, role: Role, *, reverse: bool, reservable: int
    ) -> CallWindow | MessageWindow:
        """Creates the credit accounting of a new connection, in both directions.

        A message may go out if `balance` is positive and, for a call, `in_flight` is less than `allowed`; then `admit`
        takes its credit. `on_arrival` is called for every received message if `counts_arrivals`. Before each Send
        receives are posted until there are `receives_wanted`. Only while `low` may `refresh_due` be True.

        Args:
            config: the settings, which have the numbers of calls to request and to grant.
            role: the role of this end.
            reverse: whether the server makes calls, too.
            reservable: the most messages by which `reserve` may increase the peer's credits at any time.
        """

    def encode(self, message: Outgoing, credit_word: int) -> bytes:
        """Encodes the header of a message, or of the last piece of a continued one; encodes an error or a grant whole.

        `credit_word` is the value of the header's credit field, from the window.
        """

    def encode_piece(self, message: Outgoing, credit_word: int, /) -> bytes:
        """Encodes the header of a continued message's piece other than the last, with `credit_word` as credit field.

        Called only if the version can continue messages (`Geometry.piece_header`).
        """

    def decode(self, data: Buffer) -> Inbound | None:
        """Decodes a received message.

        Returns the message, of `Kind.UNREADABLE` if it is faulty and to be refused, for some faulty replies a
        `Kind.REPLY` that fails its call; None if it must be silently discarded. Every piece of a continued message but
        the last gives a `Kind.PIECE` and is stored; the last piece gives the whole message. Each further piece of a
        message that was refused gives a `Kind.PIECE` and is dropped.
        """

    def decode_answer(self, data: Buffer) -> Inbound | None:
        """Decodes a server's message before the connection is open; a refusal may be in the format of an older version.

        Returns the message; None if it must be silently discarded.
        """

    def may_end(self, call: Outgoing, handle: int) -> bool:
        """Returns whether the reply to `call` may invalidate `handle`, by the rules of this version."""
