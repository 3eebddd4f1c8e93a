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
    """One message of a group: `body` follows the prefix of the header. `answers`: the peer chose the XID."""

    header_type: int
    body: Sequence[Buffer]
    answers: bool = False


class CallToCarry(NamedTuple):
    """A call of this side, offered to a carrier.

    `results` is the largest reply in octets without bulk items, `result_items` the largest size of each of those. The
    caller has given memory for the first `given` items. `limits` are those of the version's own planning. `room` is the
    number of messages that may go out now. `placement` is the caller's choice for this call, if any.
    """

    payload: Payload
    results: int
    result_items: Sequence[int]
    given: int
    limits: PlanLimits
    room: int
    placement: str = ""


class CarriedCall(Protocol):
    """A call of this side that a carrier has taken.

    `plan` describes the memory to expose; a Write chunk of 0 octets stands for a result without memory. `form`
    describes the call's way in words.
    """

    plan: CallPlan
    form: str

    def transmissions(self, chunks: ChunkLists) -> Sequence[Transmission]:
        """Builds the group with the exposed memory; the group is sent at once."""

    def open(
        self,
        results: CarriedResults | None,
        data: Buffer,
        chunks: ChunkLists,
        targets: Sequence[memoryview | None],
    ) -> Returned | None:
        """Opens a reply that the extension carried: `data` is its stream, `targets` the memory exposed for results.

        None for a reply in messages of the version, which has no `results`: the requester opens it.

        Raises:
            RemoteProtocolError: the reply does not fit the call.
        """

    def form_after(self, refusal: Refusal, form: CallForm, after: CallForm | None) -> CallForm | None:
        """Decides the form in which a refused call is sent again; None if it fails.

        The call was sent in `form`, and `after` is the version's own decision (`reactions.form_after`).
        """

    def end(self) -> None:
        """Releases credits that the peer had for the reply: the call was answered, abandoned, or is sent again."""


class CarriedResults(Protocol):
    """The items that came with the stream of a reply; only the carrier reads them."""

    @property
    def held_octets(self) -> int:
        """The octets of receive buffers that the items occupy."""


class ResponseGroup(NamedTuple):
    """A reply in transmissions, after RDMA Writes: `written` pairs each written item's index with its filled chunk."""

    written: Sequence[tuple[int, WriteChunk]]
    transmissions: Sequence[Transmission]


class CarriedReply(Protocol):
    """The way in which the reply to a call of the peer must travel."""

    def refusal(self, payload: Payload, begun: Sequence[int] | None) -> ReplyPlan | None:
        """Returns a plan that refuses a reply which can never be sent, None if it can; called before `plan`.

        `begun` is that of `Decoder`.
        """

    def plan(self, payload: Payload, room: int) -> ResponseGroup | None:
        """Plans the reply in at most `room` messages; None if it must wait for more credits."""


class IncomingItems(NamedTuple):
    """The items that came with the stream of a call of the peer.

    `placed` are items in receive buffers, by Position; `held_octets` is the size of those buffers. `reply` plans the
    reply; None for the version's own planning.
    """

    placed: Mapping[int, memoryview]
    held_octets: int
    reply: CarriedReply | None = None


class Carrier(Protocol):
    """The decisions of an extension about calls of this side.

    A carrier that is not `eager` is asked only about calls that would use RDMA, for themselves or for their replies.
    """

    eager: bool

    def take(self, call: CallToCarry) -> CarriedCall | None:
        """Accepts a call and returns its state, or returns None to leave it to the version."""


class Batcher(Protocol):
    """Joins several RPC messages, all calls or all replies, into one message of its `header_type`.

    A message has at most `messages_max` RPC messages, and at most `body_octets_max` octets after the prefix of the
    header. The outbox holds suitable calls and replies until the end of the turn (`Outbox.send_held`), so that they can
    be joined.
    """

    header_type: int
    messages_max: int
    body_octets_max: int

    def body_octets(self, octets: int, messages: int) -> int:
        """Computes the size of a body.

        Args:
            octets: the sum of the messages' lengths, each rounded up to four.
            messages: the number of messages.

        Returns:
            The octets of the body.
        """

    def encode(self, messages: Sequence[Buffer]) -> bytes:
        """Encodes the body.

        Args:
            messages: the RPC messages.

        Returns:
            The body.
        """

    def on_calls_sent(self, xids: Sequence[int]) -> None:
        """Reports that calls were sent in one message.

        Args:
            xids: their XIDs.
        """

    def refused_with(self, refused: Inbound) -> Sequence[int]:
        """Finds the calls that share the fate of a refused one.

        Args:
            refused: the peer's error.

        Returns:
            The XIDs of the other calls in its message, if the error refuses them all; else none.
        """
