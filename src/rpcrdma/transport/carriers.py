"""Calls and replies that travel in messages of an extension, instead of those that the version has.

A `Carrier` decides about each call that has bulk items or long results. What it takes goes out as a group: one message
or more, each a `Transmission`, without any other message between them. A group goes out when there is a credit for each
of its messages, and not before, so that none is ever left half-sent.

What arrives in such a way is handed to the responder or the requester as any other call or reply, with what the
extension knows of it: a `CarriedCall` or `CarriedResults`.

A `Batcher` puts several short calls, or several short replies, into one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from rpcrdma.transport.chunks import ChunkLists, WriteChunk
from rpcrdma.transport.exposure import Returned
from rpcrdma.transport.message import Inbound
from rpcrdma.transport.plan_call import CallPlan, PlanLimits
from rpcrdma.transport.plan_reply import ReplyPlan
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
    """One message of a group: `body` follows the header's prefix. `answers`: its XID is one of the peer's."""

    header_type: int
    body: Sequence[Buffer]
    answers: bool = False


class CallToCarry(NamedTuple):
    """A call of this side as a carrier sees it.

    `results` are the most octets of its reply without bulk items, `result_items` the most that each of those can have;
    `given` counts the first ones for which the caller has given memory. `limits` are those of the version's own
    planning. `room` is the number of messages that may go out now, `extra_room` of those beyond the first one that the
    peer may be promised for the reply. `placement` is what the caller asked for, if anything.
    """

    payload: Payload
    results: int
    result_items: Sequence[int]
    given: int
    limits: PlanLimits
    room: int
    extra_room: int
    placement: str = ""


class CarriedCall(Protocol):
    """A call of this side that a carrier has taken.

    `plan` is the memory that it exposes; a Write chunk of no octets is for a result that has none. `extra_receives` are
    messages of its reply beyond the first one, which the peer may send; `promised` are those that it gets credits for
    at present, at first none. `by_send`: arguments go in memory that comes with Sends. `form` says in words how it
    travels.
    """

    plan: CallPlan
    by_send: bool
    form: str
    extra_receives: int
    promised: int

    def transmissions(self, chunks: ChunkLists) -> Sequence[Transmission]:
        """The group, with the memory that was exposed."""

    def open(
        self,
        results: CarriedResults,
        data: Buffer,
        chunks: ChunkLists,
        targets: Sequence[memoryview | None],
    ) -> Returned:
        """The reply that came; `data` is its stream, `targets` the memory that was exposed for results.

        Raises:
            RemoteProtocolError: it does not fit the call.
        """


class CarriedResults(Protocol):
    """What came with the stream of a reply; only the carrier looks into it."""

    @property
    def held_octets(self) -> int:
        """Of receive buffers."""


class ResponseGroup(NamedTuple):
    """How a reply goes out: items written by RDMA first, as pairs of the item's index and what is filled.

    `by_send`: other items go in memory that comes with Sends.
    """

    written: Sequence[tuple[int, WriteChunk]]
    transmissions: Sequence[Transmission]
    by_send: bool = False


class CarriedReply(Protocol):
    """How the reply to a call of the peer is to travel."""

    def refusal(self, payload: Payload) -> ReplyPlan | None:
        """Why the reply can never go; None if it can. To be asked first."""

    def plan(self, payload: Payload, room: int) -> ResponseGroup | None:
        """The reply, in no more than `room` messages; None where it has to wait for more credits."""


class IncomingItems(NamedTuple):
    """What came with the stream of a call of the peer.

    `placed` are items in receive buffers, by Position; `held_octets` what those buffers hold. `reply` is how it is to
    be answered; None for any way that the version has.
    """

    placed: Mapping[int, memoryview]
    held_octets: int
    reply: CarriedReply | None = None


class Carrier(Protocol):
    """What an extension does about calls of this side.

    Unless it is `eager`, it is asked only about those that go, or whose replies may come, by RDMA otherwise.
    """

    eager: bool

    def take(self, call: CallToCarry) -> CarriedCall | None:
        """The call as the extension carries it; None to leave it to the version."""


class Batcher(Protocol):
    """How an extension sends several RPC messages in one message of its `header_type`: all are calls, or all replies.

    One takes at most `messages_max` of them, and `body_octets_max` octets after the header's prefix. Calls and replies
    that may go in one are held until the turn ends (`Outbox.send_held`), so that those made until then go together.
    """

    header_type: int
    messages_max: int
    body_octets_max: int

    def body_octets(self, octets: int, messages: int) -> int:
        """The body with so many messages, whose lengths, each rounded up to a multiple of four, add up to `octets`."""

    def encode(self, messages: Sequence[Buffer]) -> bytes:
        """The body."""

    def on_calls_sent(self, xids: Sequence[int]) -> None:
        """These calls went together."""

    def refused_with(self, refused: Inbound) -> Sequence[int]:
        """The other calls that went with one that the peer has refused with this error, if it has refused them all."""
