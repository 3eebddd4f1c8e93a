"""Two transport endpoints joined in memory, and a bare peer that sends an endpoint any octets that a test chooses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rpcrdma.errors import LocalProtocolError
from rpcrdma.rpc.program import null_procedure
from rpcrdma.transport import (
    BufferSource,
    Call,
    CallArrived,
    Cause,
    Endpoint,
    EndpointEvent,
    Extension,
    IncomingCall,
    Ready,
    ReplyBound,
    Role,
    TransportConfig,
    offered,
)
from rpcrdma.transport.dialects import Dialect
from rpcrdma.verbs.loopback import LoopbackQueuePair
from rpcrdma.verbs.protection_domain import SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Completion, QueuePairEvent, Status, Verb
from rpcrdma.verbs.receive_pool import ReceivePool
from rpcrdma.wire.buffers import Buffer, as_view
from rpcrdma.xdr.codec import Encoder, Payload

if TYPE_CHECKING:
    from rpcrdma.transport.host_authentication import HostAuthenticator

__all__ = [
    "SMALL_MESSAGES",
    "BarePeer",
    "CallingEndpoint",
    "EndpointPair",
    "calls_in",
    "counted_bits",
    "made_call",
    "message",
]

SMALL_MESSAGES = TransportConfig(inline_send_octets=4096, inline_receive_octets=4096)
"""The default settings, except that messages of version 1 are as small as those of Linux: more data goes by RDMA."""

_RPC_START = struct.Struct(">II")


def counted_bits(seed: int = 1) -> Callable[[int], int]:
    """Returns a function `draw(bits)` that returns the next number below 2**bits of a fixed sequence.

    The numbers are well spread and equal in every run: for tests, not secret.

    Args:
        seed: the position in the sequence at which the numbers begin.
    """
    drawn = seed

    def draw(bits: int) -> int:
        nonlocal drawn
        drawn += 1
        return (drawn * 0x9E3779B97F4A7C15F39CC0605CEDC835) >> 7 & ((1 << bits) - 1)

    return draw


def message(xid: int, direction: int, *parts: tuple[bytes, Buffer | None]) -> Payload:
    """Makes a payload that starts like an RPC message, with XID and direction; any octets may follow.

    Args:
        xid: the XID.
        direction: 0 for a call, 1 for a reply.
        parts: the rest, as pairs (plain octets, a multiple of four; the DDP-eligible item after them, or None).

    Returns:
        The payload.
    """
    encoder = Encoder()
    encoder.put(_RPC_START, xid, direction)
    for plain, item in parts:
        encoder.reduced += plain
        if item is not None:
            encoder.bulk(item, (1 << 32) - 1, "item")
    return encoder


_PROCEDURE = null_procedure(0x20000000, 1)


def made_call(xid: int, payload: Payload, bound: ReplyBound, into: Sequence[object] = (), placement: str = "") -> Call:
    """Returns a new call whose message is `payload`; `Requester.start` sends it.

    Args:
        xid: the XID, which the payload has as well.
        payload: the message.
        bound: the size of the largest reply.
        into: for each DDP-eligible result, in order, the buffer to receive it, or None: memory of the requester.
        placement: how the round-trip extension moves bulk items, a value of `rpcrdma.extension.Preference`; "": as
            configured.
    """
    call = Call(_PROCEDURE, None, placement=placement)
    call.xid = xid
    call.payload = payload
    call.bound = bound
    call.into = [None if buffer is None else as_view(buffer, "into") for buffer in into]
    call.reset()
    return call


class CallingEndpoint(Endpoint):
    """A transport endpoint for tests, whose calls and replies are messages of any octets, without procedures.

    Its methods call those of its requester and of its responder.
    """

    __slots__ = ()

    def call(
        self, xid: int, payload: Payload, bound: ReplyBound, into: Sequence[object] = (), placement: str = ""
    ) -> Call:
        """Starts a call of any octets and returns it.

        `xid` is the XID of the message `payload`, and `bound` the largest reply. `into` has a buffer, or None, for each
        DDP-eligible result; `placement` is a value of `rpcrdma.extension.Preference` or "". The event `ReplyArrived` or
        `CallFailed` follows. Buffers in `payload` and `into` must not be touched until then.

        Raises:
            LocalProtocolError: this end makes no calls, the XID is in use, a server may not call (`allow_reverse`
                permits it), or, unless the call waits for a credit (then `CallFailed` reports it), it cannot be sent.
            OutOfMemory: no memory for the results; `CallFailed` reports it if the call waits for a credit.
            TransportClosed: the connection has ended.
        """
        if self.requester is None:
            raise LocalProtocolError("this end of the connection makes no calls")
        call = made_call(xid, payload, bound, into, placement)
        self.requester.start(call)
        return call

    def abandon(self, call: Call) -> None:
        """Ends a call without a reply: when this returns, the peer cannot access the call's memory.

        No event of the call follows. The connection ends if a Send may still read the call's arguments, if the memory
        cannot be fenced, or once the peer reads it by RDMA. A call that was sent holds its credit until its reply. No
        effect after the call has ended, or if this end makes no calls.
        """
        if self.requester is not None:
            self.requester.abandon(call)

    def allow_reverse(self) -> None:
        """Permits this server to call its client, which the caller knows to be ready, from now on (RFC 8167 section 6).

        No effect if the client's transport properties state that the client takes no calls.

        Raises:
            LocalProtocolError: this end makes no calls.
        """
        if self.requester is None:
            raise LocalProtocolError("this end of the connection makes no calls")
        self.requester.allow()

    def reply(self, incoming: IncomingCall, payload: Payload) -> bool:
        """Answers a call with the message `payload`; with an error if that fits neither a Send nor the call's chunks.

        Returns True if the payload's buffers are in use until the event `ReplySent`, False if they are free at once.
        Nothing is sent after the connection's end. Any other exception than the one below ends the connection.

        Raises:
            LocalProtocolError: the call has been answered.
        """
        assert self.responder is not None
        return self.responder.reply(incoming, payload)

    def fail_call(self, incoming: IncomingCall) -> None:
        """Answers a call with the error of RPC-over-RDMA for a chunk with an item that is not DDP-eligible.

        Raises:
            LocalProtocolError: the call has been answered.
        """
        assert self.responder is not None
        self.responder.fail_call(incoming, Cause.INELIGIBLE)

    def drop(self, incoming: IncomingCall) -> None:
        """Leaves a call unanswered and releases its memory; in version 1 its requester loses a credit.

        Raises:
            LocalProtocolError: the call has been answered.
        """
        assert self.responder is not None
        self.responder.drop(incoming)


class EndpointPair:
    """A client and a server endpoint of the transport, joined in memory; they connect and move data only in `run`.

    The endpoints are `client` and `server`, their queue pairs `client_qp` and `server_qp`, their protection domains
    `client_pd` and `server_pd`.

    Args:
        client: the client's settings; None: SMALL_MESSAGES.
        server: the server's settings; None: SMALL_MESSAGES.
        buffers: the server's memory for bulk data; None: memory of its own.
        reverse: whether the server may call the client.
        receive_pool: the server's receive buffers; None: buffers of its own.
        version: the client's choice of a version, one of `rpcrdma.extension.VERSION_CHOICES`.
        server_version: the server's choice; "" for that of the client.
        client_extensions: the client's extensions.
        server_extensions: the server's extensions.
    """

    def __init__(
        self,
        client: TransportConfig | None = None,
        server: TransportConfig | None = None,
        *,
        buffers: BufferSource | None = None,
        reverse: bool = False,
        receive_pool: ReceivePool | None = None,
        version: str = "1",
        server_version: str = "",
        client_extensions: Sequence[Extension] = (),
        server_extensions: Sequence[Extension] = (),
    ) -> None:
        client = client or SMALL_MESSAGES
        self.client_pd = SoftwareProtectionDomain(counted_bits(1))
        self.server_pd = SoftwareProtectionDomain(counted_bits(1 << 40))
        self.client_qp, self.server_qp = LoopbackQueuePair.pair(
            self.client_pd, self.server_pd, private_data=client.private_data()
        )
        self.client = CallingEndpoint(
            self.client_qp,
            self.client_pd,
            client,
            Role.CLIENT,
            reverse=reverse,
            dialects=offered(version),
            extensions=client_extensions,
        )
        self.server = CallingEndpoint(
            self.server_qp,
            self.server_pd,
            server or SMALL_MESSAGES,
            Role.SERVER,
            buffers,
            reverse=reverse,
            receive_pool=receive_pool,
            dialects=offered(server_version or version),
            extensions=server_extensions,
        )

    def run(self) -> None:
        """Moves data in both directions until neither side has more to send."""
        self.client.progress()
        self.server.progress()
        moved = True
        while moved:
            self.client.send_held()
            self.server.send_held()
            moved = self.client_qp.progress()
            self.client.progress()
            self.server.progress()

    def connect(self) -> EndpointPair:
        """Runs until both sides have reported `Ready`, and returns this pair; any other event fails an assertion."""
        self.run()
        for events in (self.client_events(), self.server_events()):
            assert [type(event) for event in events] == [Ready], events
        return self

    def client_events(self) -> list[EndpointEvent]:
        """Removes and returns the events of the client's endpoint, the oldest first."""
        return _drain(self.client)

    def server_events(self) -> list[EndpointEvent]:
        """Removes and returns the events of the server's endpoint, the oldest first."""
        return _drain(self.server)

    def arrived(self) -> list[IncomingCall]:
        """Runs, then removes and returns the calls that have arrived at the server; other events fail an assertion.

        Returns:
            The calls.
        """
        self.run()
        return calls_in(self.server_events())


def calls_in(events: Sequence[EndpointEvent]) -> list[IncomingCall]:
    """Returns the incoming calls of `CallArrived` events, in order; any other event fails an assertion.

    Args:
        events: the events.
    """
    calls = []
    for event in events:
        assert isinstance(event, CallArrived), event
        calls.append(event.incoming)
    return calls


def _drain(endpoint: Endpoint) -> list[EndpointEvent]:
    events: list[EndpointEvent] = []
    while (event := endpoint.next_event()) is not None:
        events.append(event)
    return events


class BarePeer:
    """An endpoint of the transport whose peer is a queue pair that the test drives with any octets.

    `received` has the messages from the `endpoint`, and `invalidated`, for each of them, the handle that it ended, or
    None. `completions` has the completions of the bare queue pair `qp` except those of receives; `events` has its
    events after connecting. `pd` is the bare peer's protection domain, `endpoint_pd` the endpoint's.

    Args:
        role: the endpoint's role.
        config: the endpoint's settings; None: SMALL_MESSAGES.
        private_data: the bare peer's private data; None: `SMALL_MESSAGES.private_data()`.
        receives: receive buffers that the bare peer posts.
        receive_octets: the size of each receive buffer.
        reverse: whether calls in the reverse direction are permitted.
        buffers: the endpoint's memory for bulk data; None: memory of its own.
        dialects: the versions that the endpoint speaks; by default version 1.
        extensions: the endpoint's extensions.
        ready: whether the endpoint must report `Ready` at once, and nothing else; False: it must report nothing.
        settle_s: seconds that the endpoint waits before its first message.
        authenticator: authenticates the peer's host; None: nothing does.
    """

    def __init__(
        self,
        role: Role,
        config: TransportConfig | None = None,
        *,
        private_data: bytes | None = None,
        receives: int = 64,
        receive_octets: int = 4096,
        reverse: bool = False,
        buffers: BufferSource | None = None,
        dialects: Sequence[Dialect] = (),
        extensions: Sequence[Extension] = (),
        ready: bool = True,
        settle_s: float = 0.0,
        authenticator: HostAuthenticator | None = None,
    ) -> None:
        config = config or SMALL_MESSAGES
        if private_data is None:
            private_data = SMALL_MESSAGES.private_data()
        pd_a = SoftwareProtectionDomain(counted_bits(1))
        pd_b = SoftwareProtectionDomain(counted_bits(1 << 40))
        active = role is Role.CLIENT
        a, b = LoopbackQueuePair.pair(pd_a, pd_b, private_data=config.private_data() if active else private_data)
        self.link = a
        self.endpoint_pd, self.pd = (pd_a, pd_b) if active else (pd_b, pd_a)
        endpoint_qp, self.qp = (a, b) if active else (b, a)
        self.endpoint = CallingEndpoint(
            endpoint_qp,
            self.endpoint_pd,
            config,
            role,
            buffers,
            reverse=reverse,
            dialects=dialects or offered("1"),
            extensions=extensions,
            settle_s=settle_s,
            authenticator=authenticator,
        )
        self.received: list[bytes] = []
        self.invalidated: list[int | None] = []
        self.completions: list[Completion] = []
        self.events: list[QueuePairEvent] = []
        for _ in range(receives):
            self._post_receive(memoryview(bytearray(receive_octets)))
        self.run()
        if active:
            self.qp.accept(private_data)
        self.run()
        assert [type(event) for event in self.endpoint_events()] == [Ready] * ready
        self.events.clear()

    def _post_receive(self, buffer: memoryview) -> None:
        self.qp.post_receive(buffer, buffer)

    def run(self) -> None:
        """Moves data both ways until neither side has more to send; messages to the bare peer enter `received`."""
        self.endpoint.progress()
        moved = True
        while moved:
            self.endpoint.send_held()
            moved = self.link.progress()
            self.endpoint.progress()
            while self.qp.events:
                event = self.qp.events.pop(0)
                self.events.append(event)
            while self.qp.completions:
                completion = self.qp.completions.popleft()
                if completion.verb is Verb.RECEIVE and completion.status is Status.SUCCESS:
                    assert isinstance(completion.wr, memoryview)
                    self.received.append(bytes(completion.wr[: completion.length]))
                    self.invalidated.append(completion.invalidated)
                    self._post_receive(completion.wr)
                elif completion.verb is not Verb.RECEIVE:
                    self.completions.append(completion)

    def send(self, *gather: Buffer, invalidate: int | None = None) -> list[bytes]:
        """Sends one message to the endpoint and runs.

        Args:
            gather: the octets of the message.
            invalidate: a handle of the endpoint that the Send invalidates, or None.

        Returns:
            The messages that the endpoint sent meanwhile; they are in `received` as well.
        """
        before = len(self.received)
        self.qp.post_send("send", gather, invalidate=invalidate, signaled=False)
        self.run()
        return self.received[before:]

    def write(self, handle: int, offset: int, gather: Sequence[Buffer]) -> None:
        """Posts an RDMA Write into the endpoint's memory, without a completion on success; `run` carries it out.

        Args:
            handle: the endpoint's handle.
            offset: the offset to write to, in octets, as the endpoint's segment states it.
            gather: the octets.
        """
        self.qp.post_write("write", gather, handle, offset, signaled=False)

    def endpoint_events(self) -> list[EndpointEvent]:
        """Removes and returns the events of the endpoint, the oldest first."""
        return _drain(self.endpoint)
