"""The peer's calls on one TCP connection: which are read, held, answered or refused, within bounds for each peer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferShare
from rpcrdma.aio.answering.record_memory import CallMemory
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.errors import MessageTooLong
from rpcrdma.limits import (
    RPC_OUTSTANDING_CALLS_MAX,
    RPC_STALLED_S,
    RPC_UNANSWERED_CALL_OCTETS_MAX,
    RPC_UNSENT_REPLY_OCTETS_MAX,
)
from rpcrdma.rpc.dispatch import refusal
from rpcrdma.rpc.message import AcceptStat
from rpcrdma.rpc.service import ReverseCaller
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Payload, padded_octets

__all__ = ["TcpCallsTaken"]

_HELD_OCTETS = 128
"""The memory that a held message takes beside its octets."""


class _Connection(ReverseCaller, Protocol):
    name: str

    def abort(self, reason: str, *, protocol_error: bool = False) -> None: ...


class TcpCallsTaken:
    """The peer's calls on one TCP connection; answers them by `answering`, and implements `CallSource` for it.

    A client (`active`) refuses calls beyond its bound on unanswered calls and reads on, because the replies to its own
    calls follow them. It ends the connection if the server leaves answers unread: if those to be sent have more than
    RPC_UNSENT_REPLY_OCTETS_MAX octets, and more than a single reply may have. A client without `answering` drops calls,
    and counts them in `dropped`. A server has bounds on unanswered calls and their octets, on unsent replies, and on
    memory. At one of these it stops reading; but while it has unanswered calls of its own (`pending`), it reads on and
    holds the client's calls: it keeps their records and begins them later.

    Args:
        client: the connection, as the caller of the peer.
        answering: answers calls; None only at a client.
        results: the connection's share of the memory for results.
        arguments: the share against which received calls are counted.
        pending: the unanswered calls of this side.
        active: whether this side has connected.
        record_octets_max: the bound on the octets of a reply.
        on_answered: called after each answer while the server stops (`draining`); or None.

    The owner sets `stream` before the first call.
    """

    __slots__ = (
        "_active", "_answering", "_held", "_held_octets", "_name", "_on_answered", "_pending",
        "_record_octets_max", "_time", "client", "draining", "dropped", "host", "memory", "octets_taken",
        "outstanding", "results", "running", "sent_at", "stream", "taken",
    )  # fmt: skip

    stream: RecordStream
    client: _Connection

    def __init__(
        self,
        client: _Connection,
        answering: Answering | None,
        results: BufferShare,
        arguments: BufferShare,
        pending: Collection[object],
        *,
        active: bool,
        record_octets_max: int,
        on_answered: Callable[[], None] | None,
    ) -> None:
        self._time = asyncio.get_running_loop().time
        self.client = client
        self._answering = answering
        self.host = client.origin.host
        self._name = client.name
        self.results = results
        self.memory = CallMemory(arguments, self.go_on)
        self._pending = pending
        self._active = active
        self._record_octets_max = record_octets_max
        self._on_answered = on_answered
        self._held: deque[Buffer] = deque()
        self._held_octets = 0
        self.sent_at = self._time()
        """The loop time in seconds at which a message of this side last left."""
        self.draining = False
        self.outstanding = 0
        """The number of calls whose replies have not left."""
        self.running = 0
        """The number of calls that have no reply yet."""
        self.dropped = 0
        """Calls that arrived at a client without services."""
        self.taken = 0
        """Calls passed to `answering`; those held, refused or dropped on arrival do not count."""
        self.octets_taken = 0
        """The octets of the calls counted by `taken`, without record headers."""

    @property
    def stalled(self) -> bool:
        """Whether replies wait to be sent and none has left for RPC_STALLED_S seconds."""
        blocked_at = self.stream.blocked_at
        return blocked_at is not None and self._time() - max(blocked_at, self.sent_at) > RPC_STALLED_S

    @property
    def dawdles(self) -> bool:
        """Whether the client has taken more than RPC_STALLED_S seconds to send the call that is being received.

        The time runs from the beginning of the call, and anew when this side reads again after a pause. While this side
        does not read, the value is False; but if this side lacks memory for the call, and the socket has no unread
        octets, the client has sent nothing more, and the time counts.
        """
        stream, memory = self.stream, self.memory
        if not memory.expected or (stream.paused and not (memory.short and not stream.unread_octets)):
            return False
        return self._time() - stream.awaited_at > RPC_STALLED_S

    def on_call(self, message: Buffer) -> None:
        """Answers the call in a received record, if the bounds permit it.

        A server beyond a bound (see the class) holds the call until `go_on`. A client with RPC_OUTSTANDING_CALLS_MAX
        unanswered calls refuses a further one with SYSTEM_ERR. A draining server, and a client without services, drop
        the call without a reply.
        """
        if self._active:
            if self._answering is None:
                self.dropped += 1
            elif self.outstanding < RPC_OUTSTANDING_CALLS_MAX:
                self.memory.add(len(message))
                self._take(message)
            else:
                self._send(refusal(int.from_bytes(message[:4], "big"), AcceptStat.SYSTEM_ERR))
        elif not self.draining:
            full = self._full()
            self.memory.add(len(message))
            if full:
                self._held.append(message)
                self._held_octets += len(message) + _HELD_OCTETS
            else:
                self._take(message)
            self._pause_if_full()

    def _take(self, message: Buffer) -> None:
        assert self._answering is not None
        self.taken += 1
        self.octets_taken += len(message)
        self.outstanding += 1
        self.running += 1
        call = ServerCall(int.from_bytes(message[:4], "big"), Decoder(message))
        call.message_octets = len(message)
        self._answering.take(call, self)

    def on_expected(self, octets: int) -> None:
        """Counts the announced octets of the call being received, 0 if none; a server over its bounds stops reading."""
        self.memory.expect(octets)
        self._pause_if_full()

    def on_too_long(self, xid: int, why: str) -> None:
        """Answers with GARBAGE_ARGS a call that is too long to be read, and logs `why`, the bound and its setting.

        No effect while draining, or without `answering`.
        """
        if self._answering is not None and not self.draining:
            self._answering.runner.log.long_call(self._name, why)
            self._send(refusal(xid, AcceptStat.GARBAGE_ARGS))
            self._pause_if_full()

    def stop_reading(self) -> None:
        """Sets `draining`: calls of the peer that are held, or arrive later, are not begun, and get no reply.

        Reading stops; but if this side awaits replies to calls of its own, it reads on until the connection ends.
        """
        self.draining = True
        if not self._pending:
            self.stream.pause()

    def read_reply(self) -> None:
        """Resumes reading at a server that has made a call, so that it can receive the reply; no effect at a client.

        A server that holds calls of RPC_UNSENT_REPLY_OCTETS_MAX octets does not resume, unless it is draining: then it
        drops the calls that it reads.
        """
        if not self._active and (self.draining or self._may_hold()):
            self.stream.resume()

    def _pause_if_full(self) -> None:
        if not self._active and self._full() and not self._may_hold():
            self.stream.pause()

    def _full(self) -> bool:
        return (
            self.outstanding >= RPC_OUTSTANDING_CALLS_MAX
            or self.memory.short
            or self.memory.octets - self._held_octets > RPC_UNANSWERED_CALL_OCTETS_MAX
            or self.stream.unsent_octets > RPC_UNSENT_REPLY_OCTETS_MAX
        )

    def _may_hold(self) -> bool:
        """Returns whether a server that is at a bound may read on, and hold the calls that it reads.

        It may while calls of its own are unanswered and held calls have fewer than RPC_UNSENT_REPLY_OCTETS_MAX octets.
        """
        return bool(self._pending) and self._held_octets < RPC_UNSENT_REPLY_OCTETS_MAX

    def go_on(self) -> None:
        """Begins held calls and resumes reading, as the bounds allow; a draining side only invokes `on_answered`."""
        if self.draining:
            if self._on_answered is not None:
                self._on_answered()
            return
        while self._held and not self._full():
            message = self._held.popleft()
            self._held_octets -= len(message) + _HELD_OCTETS
            self._take(message)
        if not self._full():
            self.stream.resume()

    def reply(self, call: ServerCall, reply: Payload) -> None:
        """Implements `CallSource.reply`: sends `reply` on the stream, or queues it there.

        If the stream is closed, nothing is sent and the memory of `call` is released. A reply longer than
        `record_octets_max` is logged, and a SYSTEM_ERR is sent in its place.
        """
        self.running -= 1
        if self.stream.closed:
            self._answered(call)
            return
        try:
            self._send(reply, call)
        except MessageTooLong as error:
            assert self._answering is not None
            self._answering.runner.log.unfit_reply(call, str(error))
            reply = call.failure(error)
            if call.protection is not None:
                # Short, and at once: the context is not in use while a reply of it is sent.
                reply = call.protection.protect(reply)
            self._send(reply, call)
        call.octets_sent = reply.length

    def reply_octets_max(self, _call: ServerCall, items: Sequence[int]) -> int:
        """Returns `record_octets_max` less the octets of bulk items of the lengths `items`, padded; at least 0."""
        return max(self._record_octets_max - padded_octets(items), 0)

    def refuse(self, _call: ServerCall) -> bool:
        """Returns False: TCP has no refusal of its own (`CallSource.refuse`)."""
        return False

    def drop(self, call: ServerCall) -> None:
        """Ends `call` without a reply and releases its memory; logs a warning if the message was no RPC call.

        If the message was a call, begins held calls and resumes reading, as the bounds allow.
        """
        self.running -= 1
        self._answered(call)
        if call.procedure is None:
            assert self._answering is not None
            self._answering.runner.log.no_call(self._name)
        else:
            self.go_on()

    def out_of_memory(self, call: ServerCall) -> None:
        """Logs that `call` is answered with SYSTEM_ERR, as there is no memory for its protected reply."""
        assert self._answering is not None
        self._answering.runner.log.out_of_memory(call)

    def _send(self, reply: Payload, call: ServerCall | None = None) -> None:
        stream = self.stream
        stream.send(reply, call)
        # A single reply may be longer than the bound on unsent replies.
        if self._active and stream.unsent_octets > max(RPC_UNSENT_REPLY_OCTETS_MAX, self._record_octets_max + 4):
            self.client.abort("the server does not read the answers to its calls", protocol_error=True)

    def on_sent(self, ticket: Any) -> None:
        """Records that a message has left the socket; then begins calls held back, as the bounds allow (`go_on`).

        If `ticket` is a call of the peer, the message was its reply: the memory of the call is released.
        """
        self.sent_at = self._time()
        if isinstance(ticket, ServerCall):
            self._answered(ticket)
        self.go_on()

    def _answered(self, call: ServerCall) -> None:
        call.release()
        self.outstanding -= 1
        self.memory.remove(call.message_octets)

    def close(self) -> None:
        """Drops held calls, and ends those that wait for memory or a thread (`ServerCall.let_go`).

        Called once, at the end of the connection. Releases the memory of calls whose replies have not left, and closes
        the shares of the buffer pools.
        """
        while self._held:
            self.memory.remove(len(self._held.popleft()))
        self.results.close()
        self.memory.close()
        if self._answering is not None:
            self._answering.runner.workers.connection_ended(self)
        for ticket in self.stream.unsent_tickets():
            if isinstance(ticket, ServerCall):
                self._answered(ticket)
        # The connection refers to this object: in a circle both would wait for the garbage collector.
        del self.client
