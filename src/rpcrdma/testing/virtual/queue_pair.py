"""A simulated queue pair: work leaves its node in order, arrives after the distance, and is acknowledged.

It obeys the rules that hardware obeys: a Send needs a posted receive of sufficient size, remote memory is reached only
through its protection domain, RDMA Reads wait for a free slot, work completes in the order of posting, and everything
is flushed when the connection ends. Wire and interrupts are those of its host.
"""

# ruff: noqa: SLF001 - the two ends of a connection are one thing

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from rpcrdma.errors import LocalProtocolError, RemoteAccessError
from rpcrdma.testing.virtual.faults import Message, MessageKind
from rpcrdma.testing.virtual.host import Host
from rpcrdma.testing.virtual.memory import SimulatedProtectionDomain
from rpcrdma.testing.virtual.trace import EventKind
from rpcrdma.verbs import (
    Access,
    Completion,
    ConnectRequested,
    Established,
    QueuePairEvent,
    ScatteredBuffer,
    Status,
    Verb,
)
from rpcrdma.verbs.posting import EndState, PostedWork, PostingQueuePair

__all__ = ["SimulatedQueuePair"]

_READ_REQUEST_OCTETS = 28
"""Of the message that asks for the data of an RDMA Read."""
_WORDS = struct.Struct(">4I")
"""The first words of every header of RPC-over-RDMA: XID, version, credits, type."""


class _Ending(NamedTuple):
    """The cause of a connection's end, which the message END carries to the peer.

    `broken`: the work of END's receiver that broke a rule, or None. `protocol_error`: whether any work broke a rule.
    """

    broken: PostedWork | None
    protocol_error: bool


class SimulatedQueuePair(PostingQueuePair):
    """One end of a simulated connection between two hosts; `Fabric.pair` makes it, `join` gives it the other end.

    `on_news` is called when completions or events were added, but not by the owner's `abort`, refusal or late posts.
    Each completion of successful work has a call of its own, so that all work posted then has this one cause.

    Args:
        host: the host of this end.
        connection: the number of the connection, equal at both ends.
        domain: the protection domain of this end.
        private_data: this end's octets for the peer.
        inbound_reads, outbound_reads: RDMA Reads that the peer, and this end, may have outstanding; None: the model's.
    """

    def __init__(
        self,
        host: Host,
        connection: int,
        domain: SimulatedProtectionDomain,
        private_data: bytes = b"",
        inbound_reads: int | None = None,
        outbound_reads: int | None = None,
    ) -> None:
        depth = host.model.read_depth
        super().__init__(
            depth if inbound_reads is None else inbound_reads, depth if outbound_reads is None else outbound_reads
        )
        self.host = host
        self.connection = connection
        self.pd = domain
        self.on_news: Callable[[], None] = _nothing
        self._state = EndState.IDLE
        self._private_data = private_data
        self._reads = 0
        self._sent = 0
        self._arrives_s = 0.0
        self._transmits_at_s = -1.0
        self._lost = False
        self._told = False
        self._peer: SimulatedQueuePair
        host.ends[self] = None

    def join(self, peer: SimulatedQueuePair) -> None:
        """Makes `peer` the other end of this queue pair, and this one the other end of `peer`."""
        self._peer, peer._peer = peer, self

    def _enqueue(self, work: PostedWork) -> None:
        loop = self.host.loop
        work.ready_s = loop.time()
        text = "disconnect" if work.verb is None else work.verb.value + _words(work)
        work.cause = self._note(EventKind.POST, work.ready_s, loop.cause, text, octets=work.length)
        self._send_queue.append(work)

    def _note(
        self, kind: EventKind, at_s: float, cause: int, text: str, *, octets: int = 0, cost_s: float = 0.0
    ) -> int:
        return self.host.note(kind, at_s, cause, self.connection, octets=octets, cost_s=cost_s, text=text)

    # Connecting and ending.

    def connect(self) -> None:
        """Asks the peer for the connection, with the private data of this end."""
        self._state = EndState.CONNECTING
        self._control(MessageKind.CONNECT, self._private_data)

    def accept(self, private_data: bytes) -> None:
        if self._state is not EndState.REQUESTED:
            raise LocalProtocolError("no peer asks to be accepted")
        self._private_data = private_data
        self._state = EndState.ACCEPTED
        for one, other in ((self, self._peer), (self._peer, self)):
            one.inbound_reads = min(one.inbound_reads, other.outbound_reads)
            other.outbound_reads = one.inbound_reads
        self._control(MessageKind.ACCEPT, private_data)

    def reject(self, private_data: bytes = b"") -> None:
        del private_data  # `Disconnected` has no field that could carry it to the peer
        if self._state is not EndState.REQUESTED:
            raise LocalProtocolError("no peer asks to be rejected")
        self.refuse("the peer rejected the connection")

    def refuse(self, reason: str) -> None:
        """Refuses the peer's request for a connection and closes this end; the peer's end then closes with `reason`."""
        self._close("rejected", by_peer=False)
        self._tell_end(reason)

    def disconnect(self) -> None:
        if self._state is EndState.ESTABLISHED:
            self._enqueue(PostedWork(None, None))
        elif self._state is not EndState.CLOSED:
            self.abort("disconnected before the connection was made")

    def abort(self, reason: str) -> None:
        if self._state is not EndState.CLOSED:
            self._close(reason, by_peer=False)
            self._tell_end("the peer ended the connection")

    def crash(self) -> None:
        """Ends the connection at this end without a message to the peer, as when the host crashes."""
        self._close(f"{self.host.host} crashed", by_peer=False)
        self._report_end()

    def _report_end(self) -> None:
        """Schedules a call of `on_news` after the time of an interrupt: the owner then finds `Disconnected`."""
        host = self.host
        host.loop.schedule(host.loop.now_s + host.model.interrupt_s, host.loop.cause, self._news, context=host.context)

    def _news(self) -> None:
        self.on_news()

    def _control(self, kind: MessageKind, data: bytes) -> None:
        """Sends a message of the connection's opening: CONNECT, ACCEPT or READY, with private data; records it."""
        loop = self.host.loop
        self._leave(kind, data, self._note(EventKind.CONNECT, loop.time(), loop.cause, kind.value))

    def _tell_end(self, reason: str, *, broken: PostedWork | None = None, protocol_error: bool = False) -> None:
        loop = self.host.loop
        self._told = True
        cause = self._note(EventKind.DISCONNECT, loop.time(), loop.cause, "tells the peer")
        self._leave(MessageKind.END, reason.encode(), cause, _Ending(broken, protocol_error))

    # The way out.

    def transmit(self) -> None:
        """Sends posted work in order, while connected; stops at a Read without a free slot of `outbound_reads`.

        Work of a callback that has spent virtual time leaves when that time has passed. A posted disconnect waits until
        all earlier work has ended. A Read ends the connection if the limit of outbound Reads is 0.
        """
        loop, queue, model = self.host.loop, self._send_queue, self.host.model
        while queue and self._state is EndState.ESTABLISHED:
            work = queue[0]
            if work.ready_s > loop.now_s:
                # Its poster has spent time meanwhile.
                if self._transmits_at_s != work.ready_s:
                    self._transmits_at_s = work.ready_s
                    loop.schedule(work.ready_s, work.cause, self.transmit, context=self.host.context)
                return
            if work.verb is None:
                if self._unreported:
                    return
                queue.popleft()
                self._tell_end("the peer disconnected")
                self._close("disconnected", by_peer=False)
                self._report_end()
                return
            if work.verb is Verb.RDMA_READ and self._reads >= self.outbound_reads > 0:
                return
            queue.popleft()
            self._unreported.append(work)
            if work.verb is Verb.RDMA_READ:
                if not self.outbound_reads:
                    self._break("RDMA Read without a read slot", work)
                    return
                self._reads += 1
                self._leave(MessageKind.READ_REQUEST, b"", work.cause, work, octets=_READ_REQUEST_OCTETS)
                continue
            kind = MessageKind.SEND if work.verb is Verb.SEND else MessageKind.WRITE
            left_s, left = self._leave(kind, b"".join(work.gather), work.cause, work)
            if not model.acknowledged:
                loop.schedule(left_s, left, self._done, work, context=self.host.context)

    def _leave(
        self, kind: MessageKind, data: bytes, cause: int, about: object = None, *, octets: int | None = None
    ) -> tuple[float, int]:
        """Sends a message to the peer; `Host.fate` decides whether and when it arrives. No effect if the host is down.

        `cause`: the number of the event that caused it. `about`: the work or the `_Ending` that it carries to the peer.
        `octets`: its length on the wire without headers; None: that of `data`. Returns the time in seconds at which it
        has left the host, and the number of the event of departure; the present time and `cause` if the host is down.
        """
        host, peer, loop = self.host, self._peer, self.host.loop
        octets = len(data) if octets is None else octets
        number, self._sent = self._sent, self._sent + 1
        if not host.up:
            return loop.time(), cause
        boot = host.boots
        left_s, left = host.leave(kind, octets, cause, self.connection)
        fate = host.fate(Message(self.connection, number, host.host, peer.host.host, kind, data))
        arrives_s = left_s + host.model.one_way_s + fate.delay_s
        # Nothing overtakes an earlier message.
        self._arrives_s = arrives_s = max(self._arrives_s, arrives_s)
        if self._lost:
            self._give_up_later(left_s, left)
        elif fate.cut_at is None:
            loop.schedule(
                arrives_s, left, peer._arrived, kind, data, about, octets, left_s, boot, context=peer.host.context
            )
        else:
            self._lost = peer._lost = True
            loop.schedule(
                arrives_s, left, peer._arrived_in_part, kind, data[: fate.cut_at], about, context=peer.host.context
            )
            if fate.silent:
                self._give_up_later(left_s, left)
            else:
                loop.schedule(arrives_s, left, peer._cut_off, context=peer.host.context)
                loop.schedule(arrives_s, left, self._cut_off, context=host.context)
        return left_s, left

    def cut(self, *, silent: bool = False) -> None:
        """Breaks the connection now: both ends close at once, and messages on their way are lost.

        `silent`: messages on their way arrive, and an end closes only after a message of its own is not acknowledged.
        """
        self._lost = self._peer._lost = True
        self._note(EventKind.FAULT, self.host.loop.time(), self.host.loop.cause, "cut")
        if not silent:
            for end in (self, self._peer):
                end.host.loop.schedule(end.host.loop.now_s, end.host.loop.cause, end._cut_off, context=end.host.context)

    def _cut_off(self) -> None:
        if self._state is not EndState.CLOSED:
            self._close("the connection was cut", by_peer=False)
            self._report_end()

    def _give_up_later(self, left_s: float, cause: int) -> None:
        """Closes this end `FabricModel.lost_after_s` after `left_s`, when a lost message left; `cause`: trace event."""
        host = self.host
        host.loop.schedule(left_s + host.model.lost_after_s, cause, self._give_up, context=host.context)

    def _give_up(self) -> None:
        if self._state is not EndState.CLOSED:
            self._close(f"no acknowledgement for {self.host.model.lost_after_s:g} s", by_peer=False)
            self._report_end()

    # The way in. These run at the receiving end, when the last octet is there.

    def _arrived(self, kind: MessageKind, data: bytes, about: object, octets: int, left_s: float, boot: int) -> None:
        host, peer, loop = self.host, self._peer, self.host.loop
        if peer.host.crashed_before(left_s, boot):
            return
        if not host.up:
            peer._give_up_later(loop.now_s, loop.cause)
            return
        if self._state is EndState.CLOSED:
            if kind is not MessageKind.END and peer._state is not EndState.CLOSED and not self._told:
                # A connection of a host that has been restarted since.
                self._tell_end("the peer does not know the connection")
            return
        cause = loop.cause = self._note(EventKind.ARRIVE, loop.now_s, loop.cause, kind.value, octets=octets)
        if kind is MessageKind.END:
            assert isinstance(about, _Ending)
            self._close(data.decode(), by_peer=about.broken is None, protocol_error=about.protocol_error)
            self._report_end()
        elif kind is MessageKind.CONNECT:
            self._state = EndState.REQUESTED
            host.interrupt(self, ConnectRequested(private_data=data), cause)
        elif kind is MessageKind.ACCEPT:
            self._control(MessageKind.READY, b"")
            self._establish(data, cause)
        elif kind is MessageKind.READY:
            self._establish(peer._private_data, cause)
        else:
            assert isinstance(about, PostedWork)
            if kind is MessageKind.SEND:
                self._on_send(data, about, cause)
            elif kind is MessageKind.WRITE:
                self._on_write(data, about)
            elif kind is MessageKind.READ_REQUEST:
                self._respond(about, cause)
            else:
                self._on_response(data, about)

    def report(self, news: Completion | QueuePairEvent) -> None:
        """Adds a completion or an event for the owner, and calls `on_news`; the host calls this after its interrupt.

        Before `on_news` a received message is copied, which takes time; a buffer in parts is used in place instead.
        """
        if isinstance(news, Completion):
            self.completions.append(news)
            if news.verb is Verb.RECEIVE and news.length and not isinstance(news.wr, ScatteredBuffer):
                cost_s = news.length / self.host.model.copy_octets_s
                self.host.record(
                    EventKind.COPY, "receive buffer", octets=news.length, cost_s=cost_s, connection=self.connection
                )
        else:
            self.events.append(news)
        self.on_news()

    def _establish(self, private_data: bytes, cause: int) -> None:
        self._state = EndState.ESTABLISHED
        established = Established(
            private_data=private_data, inbound_reads=self.inbound_reads, outbound_reads=self.outbound_reads
        )
        self.host.interrupt(self, established, cause)
        self.transmit()

    def _on_send(self, data: bytes, work: PostedWork, cause: int) -> None:
        loop, length = self.host.loop, len(data)
        receive = self._receives.next_for(length)
        if receive is None:
            self._refuse("receiver not ready: no receive is posted", work)
            return
        wr, buffer = receive
        if length > len(buffer):
            self._refuse(f"a message of {length} octets for a receive of {len(buffer)}", work)
            return
        at_s = loop.now_s
        if work.handle is not None:
            if self.pd.invalidate_handle(work.handle) is None:
                self._refuse(f"invalidation of unknown handle {work.handle:#010x}", work)
                return
            cost_s = self.host.model.remote_invalidation_s
            at_s += cost_s
            cause = self._note(EventKind.INVALIDATE_REMOTE, at_s, cause, f"handle {work.handle:#010x}", cost_s=cost_s)
        self._receives.fill([data])
        self._receives.take()
        self.host.interrupt(self, Completion(wr, Verb.RECEIVE, Status.SUCCESS, length, work.handle), cause, at_s)
        self._acknowledge(work)

    def _on_write(self, data: bytes, work: PostedWork) -> None:
        try:
            self._place(work, data)
        except RemoteAccessError as error:
            self._refuse(str(error), work, Status.REMOTE_ACCESS)
        else:
            self._acknowledge(work)

    def _place(self, work: PostedWork, data: bytes) -> None:
        assert work.handle is not None
        self.pd.place(work.handle, work.offset, work.length, [data])

    def _respond(self, work: PostedWork, cause: int) -> None:
        """Answers the peer's RDMA Read `work`, or ends the connection if it is not permitted. `cause`: event number."""
        assert work.handle is not None
        data = b""
        try:
            if work.length:
                data = bytes(self.pd.find(work.handle, work.offset, work.length, Access.REMOTE_READ))
        except RemoteAccessError as error:
            self._refuse(str(error), work, Status.REMOTE_ACCESS)
        else:
            self._leave(MessageKind.READ_RESPONSE, data, cause, work)

    def _on_response(self, data: bytes, work: PostedWork) -> None:
        try:
            self._sink(work, data)
        except RemoteAccessError as error:
            work.status = Status.REMOTE_ACCESS
            self._break(str(error), work)
        else:
            self._reads -= 1
            self._done(work)

    def _sink(self, work: PostedWork, data: bytes) -> None:
        sink = work.sink
        assert sink is not None
        self.pd.place(sink.handle, sink.offset + work.sink_start, work.length, [data])

    def _arrived_in_part(self, kind: MessageKind, data: bytes, about: object) -> None:
        """Places `data`, the start of a message about work `about` that is cut off, as far as memory permits."""
        if self._state is EndState.CLOSED or not self.host.up or not isinstance(about, PostedWork):
            return
        loop = self.host.loop
        loop.cause = self._note(EventKind.ARRIVE, loop.now_s, loop.cause, f"{kind.value} in part", octets=len(data))
        try:
            if kind is MessageKind.WRITE:
                self._place(about, data)
            elif kind is MessageKind.READ_RESPONSE:
                self._sink(about, data)
            elif kind is MessageKind.SEND:
                receive = self._receives.next_for(about.length)
                if receive is not None and len(data) <= len(receive[1]):
                    self._receives.fill([data])
        except RemoteAccessError:
            # Nothing was placed, and no message can tell the peer.
            pass

    def _acknowledge(self, work: PostedWork) -> None:
        host, peer, loop = self.host, self._peer, self.host.loop
        if not host.model.acknowledged:
            return
        if self._lost:
            peer._give_up_later(loop.now_s, loop.cause)
            return
        at_s = loop.now_s + host.acknowledge() + host.model.one_way_s
        loop.schedule(at_s, loop.cause, peer._acknowledged, work, context=peer.host.context)

    def _acknowledged(self, work: PostedWork) -> None:
        if self._state is not EndState.CLOSED:
            loop = self.host.loop
            assert work.verb is not None
            octets = self.host.model.acknowledgement_octets
            loop.cause = self._note(EventKind.ACKNOWLEDGE, loop.now_s, loop.cause, work.verb.value, octets=octets)
            self._done(work)

    def _done(self, work: PostedWork) -> None:
        """Marks work as ended; reports signaled work up to the first that has not ended; sends waiting work."""
        if self._state is EndState.CLOSED:
            return
        work.ended = True
        unreported = self._unreported
        while unreported and unreported[0].ended:
            done = unreported.popleft()
            if done.signaled:
                assert done.verb is not None
                completion = Completion(done.wr, done.verb, Status.SUCCESS, done.length)
                self.host.interrupt(self, completion, self.host.loop.cause)
        if self._send_queue:
            self.transmit()

    # Ends.

    def _break(self, reason: str, work: PostedWork) -> None:
        """Ends the connection, also for the peer, because `work`, posted at this end, breaks the rule in `reason`."""
        if work.status is Status.SUCCESS:
            work.status = Status.FLUSHED
        self._close(reason, by_peer=False, protocol_error=True)
        self._report_end()
        self._tell_end(reason, protocol_error=True)

    def _refuse(self, reason: str, work: PostedWork, status: Status = Status.FLUSHED) -> None:
        """Ends the connection, also for the peer, as the peer's `work` breaks a rule (`reason`); sets its `status`."""
        work.status = status
        self._close(reason, by_peer=True, protocol_error=True)
        self._report_end()
        self._tell_end(reason, broken=work, protocol_error=True)

    def _close(self, reason: str, *, by_peer: bool, protocol_error: bool = False) -> None:
        if self._state is EndState.CLOSED:
            return
        self._state = EndState.CLOSED
        loop, completions = self.host.loop, self.completions
        self._note(EventKind.DISCONNECT, loop.time(), loop.cause, reason)
        for news in self.host.withdraw(self):
            if isinstance(news, Completion):
                completions.append(news)
            else:
                self.events.append(news)
        self._flush(reason, by_peer=by_peer, protocol_error=protocol_error)
        del self.host.ends[self]


def _nothing() -> None:
    """Does nothing: the value of `on_news` before an owner sets it."""


def _words(work: PostedWork) -> str:
    """Returns details of work, behind a space, for the trace: the remote handle, or XID, version and type of a Send.

    "" for a Send whose first buffer is shorter than the first four words (16 octets) of a header of RPC-over-RDMA.
    """
    if work.verb is not Verb.SEND:
        return f" handle {work.handle:#010x}"
    gather = work.gather
    if gather and len(gather[0]) >= _WORDS.size:
        xid, version, _, kind = _WORDS.unpack_from(gather[0])
        return f" {xid:#010x} version {version} type {kind}"
    return ""
