"""The interfaces by which an extension carries calls and replies in messages of its own.

The requester asks a `Carrier` about each call that has bulk items or long results; in the reverse direction, if calls
there may have chunks. A call that the carrier takes goes out as a group: one or more `Transmission`s without any other
message between them. A group waits until there is a credit for each of its messages, so the peer never receives half
a group.

The extension hands an arrived call or reply to the responder or the requester, with the items that came with it:
`IncomingItems` or `CarriedResults`.

A `Batcher` puts several short calls, or several short replies, into one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from rpcrdma.transport.chunks import ChunkLists, WriteChunk
from rpcrdma.transport.exposure import Returned
from rpcrdma.transport.message import Inbound, Refusal
from rpcrdma.transport.plan_call import CallPlan, PlanLimits
from rpcrdma.transport.plan_reply import ReplyPlan
from rpcrdma.transport.reactions import CallForm
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Payload

__all__ = [
    "Batcher",
    "CallToCarry",
    "CarriedCall",
    "CarriedReply",
    "CarriedResults",
    "Carrier",
    "IncomingItems",
    "ResponseGroup",
    "Transmission",
]


class Transmission(NamedTuple):
    """One message of a group, the consecutive messages in which an extension carries a call or a reply.

    `header_type` is the type in the transport header. `body` has the octets that follow the header's prefix. `answers`
    is True if the peer chose the message's XID, so that the message answers the peer.
    """

    header_type: int
    body: Sequence[Buffer]
    answers: bool = False


class CallToCarry(NamedTuple):
    """A call of this side that the requester offers to an extension's `Carrier`; all sizes are in octets.

    `payload` is the encoded call. `results` is the largest reply without bulk items, RPC header excluded, and
    `result_items` has the largest size of each bulk item of the reply. The caller has given memory for at most the
    first `given` bulk items. `limits` are the limits of the protocol version's own planning. `room` is the number of
    messages that credits allow now. `placement` is the caller's choice for this call; "" leaves the choice to the
    settings.
    """

    payload: Payload
    results: int
    result_items: Sequence[int]
    given: int
    limits: PlanLimits
    room: int
    placement: str = ""


class CarriedCall(Protocol):
    """The state of a call of this side that an extension's `Carrier` has accepted.

    `plan` says which memory the requester exposes; 0 octets in its `write_chunks`: none for the result at that place.
    `form` names the means of transfer in words, for statistics and logs.
    """

    plan: CallPlan
    form: str

    def transmissions(self, chunks: ChunkLists) -> Sequence[Transmission]:
        """Returns the messages in which the extension carries the call; the requester sends them at once, in order.

        `chunks`: the chunk lists of the memory that is exposed for the call, as the attribute `plan` demands.

        Raises:
            OutOfMemory: the system has no memory for the messages. The call fails.
        """

    def open(
        self,
        results: CarriedResults | None,
        data: Buffer,
        chunks: ChunkLists,
        targets: Sequence[memoryview | None],
    ) -> Returned | None:
        """Opens the reply to the call: separates its payload stream and its bulk items.

        Returns the stream, the items and the octets written by RDMA; None for a reply in ordinary messages, which the
        requester opens itself.

        Args:
            results: the bulk items that the extension received with the reply; None for a reply in ordinary messages.
            data: the reply without its bulk items.
            chunks: the chunk lists of the memory that the call exposed.
            targets: the memory for each Write chunk of the call, or None for a chunk without memory.

        Raises:
            RemoteProtocolError: the reply does not fit the call.
        """

    def form_after(self, refusal: Refusal, form: CallForm, after: CallForm | None) -> CallForm | None:
        """Decides the form in which a refused call is sent again: its number of chunks, segment sizes, reply sizes.

        `refusal`: the peer's reason. `form`: the form in which the call was sent. `after`: the next form by the
        protocol version's own rules (`reactions.form_after`), None if the call fails by these. Returns the next form;
        None if the call fails.
        """

    def end(self) -> None:
        """Ends the reservation of credits for the peer's reply, when the call ends, is abandoned or is sent again.

        Granted credits stay with the peer. A second call has no effect. Not called when the connection ends.
        """


class CarriedResults(Protocol):
    """The bulk items that an extension received with a reply; only the call's carrier reads them."""

    @property
    def held_octets(self) -> int:
        """The octets of receive buffers that the bulk items occupy."""


class ResponseGroup(NamedTuple):
    """A reply as a group of messages, sent after its RDMA Writes.

    `written` pairs the index of each bulk item that goes by RDMA Write with the chunk that it fills. `transmissions`
    are the messages of the group.
    """

    written: Sequence[tuple[int, WriteChunk]]
    transmissions: Sequence[Transmission]


class CarriedReply(Protocol):
    """The way in which the reply to a call of the peer must travel, because an extension carried the call."""

    def refusal(self, payload: Payload, begun: Sequence[int] | None) -> ReplyPlan | None:
        """Returns a plan that refuses a reply which can never be sent; None if the reply can be sent.

        Such a reply needs more messages than it may have, or has a bulk item longer than the memory for its RDMA Write.
        The responder calls this method before `plan`. `payload`: the encoded reply. `begun`: the offset in the call's
        stream of each argument that is paired with a result, such as each operation of an NFSv4 COMPOUND
        (`Decoder.begun`), to find the call's memory for each bulk item; None if the program pairs none.
        """

    def plan(self, payload: Payload, room: int) -> ResponseGroup | None:
        """Plans the messages and RDMA Writes of a reply.

        `payload`: the encoded reply. `room`: the most messages that credits allow now. Returns the messages, and the
        items to write with their chunks; None if the reply needs more messages than `room` and waits for credits.
        """


class IncomingItems(NamedTuple):
    """The bulk items that an extension received with the payload stream of a peer's call.

    `placed` maps the Position of each item in receive buffers to its octets; `held_octets` is the size of those
    buffers. `reply` plans the reply; None leaves the reply to the protocol version's own planning.
    """

    placed: Mapping[int, memoryview]
    held_octets: int
    reply: CarriedReply | None = None


class Carrier(Protocol):
    """The part of an extension that decides which calls of this side the extension carries.

    A carrier that is `eager` is asked about all calls with bulk items, and all that may need chunks for themselves or
    their replies. Another carrier is asked only about those of them that have a `Call.placement` or would use RDMA. No
    carrier is asked about a call with a `CallForm` that is `plain`, or where calls may have no chunks.
    """

    eager: bool

    def take(self, call: CallToCarry) -> CarriedCall | None:
        """Decides whether the extension carries a call, when there is a credit for the call and just before its Send.

        Returns the object that makes the accepted call's messages and opens its reply; None if ordinary messages carry
        the call.
        """


class Batcher(Protocol):
    """The part of an extension that joins several RPC messages, all calls or all replies, into one message.

    Such a message has the header type `header_type`, at most `messages_max` RPC messages, and at most `body_octets_max`
    octets after the prefix of the header. The outbox holds suitable calls and replies until the end of the event loop's
    turn (`Outbox.send_held`), so that they can be joined.
    """

    header_type: int
    messages_max: int
    body_octets_max: int

    def body_octets(self, octets: int, messages: int) -> int:
        """Returns the size in octets of the body of one message that joins several RPC messages.

        Args:
            octets: the sum of the RPC messages' lengths, each rounded up to a multiple of four.
            messages: the number of RPC messages.
        """

    def encode(self, messages: Sequence[Buffer]) -> bytes:
        """Encodes RPC messages, all calls or all replies, as the body of one message.

        Returns the octets of the body, which follow the protocol version's header.

        Args:
            messages: the encoded RPC messages, in order.
        """

    def on_calls_sent(self, xids: Sequence[int]) -> None:
        """Takes note of calls that go in one message, just before its Send, so that `refused_with` finds them.

        Args:
            xids: the XIDs of the calls, in the order of the message.
        """

    def refused_with(self, refused: Inbound) -> Sequence[int]:
        """Finds the further calls that an error refuses, because they were sent in one message with the refused call.

        Returns the XIDs of the other calls in that message; empty if the error is only about one call.

        Args:
            refused: the peer's error, with the XID of the refused call.
        """
