"""A queue pair of an RDMA device, over libibverbs and librdmacm.

It waits for nothing if the driver makes `asks` use a thread for a device whose rdma_connect waits. The driver calls
`poll` when the completion queue may hold something and `on_event` with each event of the connection manager, and the
connection's owner takes completions and events. `device_sends` has the send queue, `device_receives` the memory of the
receives of a pool. A memory window is bound by a work request before the Send that names it.

When the connection ends, the device's queue pair is destroyed, so that the device reaches no memory any more; then
outstanding work is reported as flushed. If a thread still runs rdma_connect, only `asked` destroys the queue pair and
reports the receives.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from rpcrdma.errors import LocalProtocolError
from rpcrdma.verbs.binding import (
    Binding,
    ConnectionIdentifier,
    Domain,
    ManagerEvent,
    ManagerEventKind,
    Right,
    removal_of,
)
from rpcrdma.verbs.binding import WorkStatus as Work
from rpcrdma.verbs.device_ends import BROKEN, ENDS, REFUSALS, REFUSED, TOO_LONG, UNSENT, lack_of
from rpcrdma.verbs.device_memory import SCATTER_ENTRIES, DeviceProtectionDomain, DeviceRegion, Pinned
from rpcrdma.verbs.device_receives import DeviceReceives, PostedReceive
from rpcrdma.verbs.device_registrations import KeptRegistrations
from rpcrdma.verbs.device_sends import OWN, SEND_ENTRIES_MAX, DeviceSend, DeviceSends
from rpcrdma.verbs.posting import EndState
from rpcrdma.verbs.protection_domain import MemoryRegion
from rpcrdma.verbs.queue_pair import (
    Completion,
    ConnectRequested,
    Disconnected,
    Established,
    QueuePairEvent,
    Status,
    Verb,
)
from rpcrdma.verbs.receive_pool import ReceiveSource
from rpcrdma.wire.buffers import Buffer, gather_length

__all__ = ["DeviceQueuePair"]

_RECEIVES = 1024
"""Receives in the device's receive queue: the credits of either direction, several times."""
_READS = 32
"""RDMA Reads that either end may have outstanding, as with the software RNIC."""
_COMPLETIONS = 64
"""Completions taken at once."""
_PRIVATE_DATA_OCTETS_MAX = 255
"""As rdma_conn_param of librdmacm has an octet for the length; the device may take less, and then refuses itself."""


class DeviceQueuePair:
    """One end of a connection over an RDMA device; implements `rpcrdma.verbs.QueuePair`.

    Args:
        binding: the extension module.
        identifier: the connection in the connection manager.
        domain: the device's protection domain.
        kept: the registrations that all connections of the event loop share.
        private_data: octets for the peer, at the end that connects.
        request: the event by which the peer asks for the connection; None at the end that connects.

    Raises:
        LocalProtocolError: there are more than 255 octets of private data.
        OSError: the device has no room for a further queue pair.
    """

    def __init__(
        self,
        binding: Binding,
        identifier: ConnectionIdentifier,
        domain: Domain,
        kept: KeptRegistrations,
        private_data: bytes,
        request: ManagerEvent | None,
    ) -> None:
        _check_private_data(private_data)
        device = domain.device
        self.pd = DeviceProtectionDomain(domain, kept)
        self._binding = binding
        self._identifier = identifier
        self._sends = self.pd.binder = DeviceSends(self.pd, binding)
        send_room, most = self._sends.room, device["max_entries"]
        self._receives_max = min(_RECEIVES, device["max_queue_pair_work"], device["max_completions"] - send_room)
        self._device = identifier.queue_pair(
            domain, send_room, self._receives_max, min(SEND_ENTRIES_MAX, most), min(SCATTER_ENTRIES, most)
        )
        self.inbound_reads = min(_READS, device["max_inbound_reads"])
        self.outbound_reads = min(_READS, device["max_outbound_reads"])
        self._private_data = private_data
        self.completions: deque[Completion] = deque()
        self.events: list[QueuePairEvent] = []
        self._receive_memory: DeviceReceives | None = None
        self._receives: deque[PostedReceive] = deque()
        self._leaving = False
        self.asks: Callable[[Callable[[], None]], bool] = _at_once
        """Makes the call that asks the peer for the connection; returns True if `asked` will report its end."""
        self.asking = False
        """Whether that call runs: nothing else may be done with the identifier and the device's queue pair."""
        self._held: list[ManagerEvent] = []
        self.heard = False
        """Whether completions arrived since this was set to False."""
        self.trouble: Callable[[], str] = str
        """Returns the trouble of the connection's port, such as that it is down, in words; "" without."""
        self.parted = True
        """Whether the connection manager has nothing more to do for the connection."""
        self.state = EndState.IDLE
        if request is not None:
            self.parted = False
            self.state = EndState.REQUESTED
            self._private_data = request.private_data
            self.inbound_reads = min(self.inbound_reads, request.inbound_reads)
            self.outbound_reads = min(self.outbound_reads, request.outbound_reads)
            self.events.append(ConnectRequested(private_data=request.private_data))

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when `poll` is due; `poll` with `arm` arms it again."""
        return self._device.fileno()

    @property
    def idle(self) -> bool:
        """Whether the send queue has no unfinished work, posted or waiting; also True while not connected."""
        return not self._sends.queued or self.state is not EndState.ESTABLISHED

    @property
    def binds(self) -> bool:
        """Whether the binding of any memory window is posted and not completed, or waits to be posted."""
        return any(send.verb is None for send in self._sends.queued)

    # Posting

    def post_receive(self, wr: object, buffer: memoryview) -> None:
        if self.state is EndState.CLOSED:
            self.completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
            return
        try:
            pinned = self.pd.pin(buffer, Right.LOCAL_WRITE)
        except (LocalProtocolError, MemoryError) as error:
            self.abort(lack_of(error))
            self.completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
            return
        entries = ((pinned.region, pinned.start, len(buffer)),) if buffer else ()
        self._post_receives([PostedReceive(entries, pinned, wr=wr)])

    def post_receives(self, count: int, pool: ReceiveSource) -> None:
        if self.state is EndState.CLOSED:
            return
        memory = self._receive_memory
        if memory is None:
            self._receive_memory = memory = DeviceReceives(self.pd, pool)
        posted = len(self._receives) + count
        try:
            receives = [memory.take(posted) for _ in range(count)]
        except (LocalProtocolError, MemoryError) as error:
            self.abort(lack_of(error))
            return
        self._post_receives(receives)

    def _post_receives(self, receives: list[PostedReceive]) -> None:
        self._receives.extend(receives)
        if len(self._receives) > self._receives_max:
            self.abort(f"the device takes {self._receives_max} receives: lower credits_granted or credits_requested")
            return
        try:
            self._device.post_receives([(receive, receive.entries) for receive in receives])
        except OSError as error:
            self._fail(error)

    def post_send(
        self, wr: object, gather: Sequence[Buffer], *, invalidate: int | None = None, signaled: bool = True
    ) -> None:
        opcode = self._binding.SEND if invalidate is None else self._binding.SEND_WITH_INVALIDATE
        send = DeviceSend(wr, Verb.SEND, gather_length(gather), signaled=signaled)
        if send.length > (most := self._sends.message_octets):
            raise LocalProtocolError(f"a Send of {send.length} octets: a message of the device has at most {most}")
        self._post(send, opcode, gather, invalidate or 0, 0)

    def post_write(
        self, wr: object, gather: Sequence[Buffer], handle: int, offset: int, *, signaled: bool = True
    ) -> None:
        send = DeviceSend(wr, Verb.RDMA_WRITE, gather_length(gather), signaled=signaled)
        self._post(send, self._binding.RDMA_WRITE, gather, handle, offset)

    def post_read(self, wr: object, sink: MemoryRegion, sink_start: int, length: int, handle: int, offset: int) -> None:
        assert isinstance(sink, DeviceRegion)
        send = DeviceSend(wr, Verb.RDMA_READ, length, signaled=True)
        if self.state is EndState.CLOSED or sink.pinned is None:
            self.completions.append(Completion(wr, Verb.RDMA_READ, Status.FLUSHED))
            return
        entry = sink.pinned.region, sink.pinned.start + sink_start, length
        self._sends.queue(send, self._binding.RDMA_READ, [entry], handle, offset)

    def probe(self) -> None:
        """Queues an RDMA Write without data, if connected and no other work of the send queue is unfinished.

        The peer acknowledges the Write without a check of its handle (IBA C9-88; iWARP likewise): its completion makes
        `heard` True. Or the device gives the peer up. On iWARP the completion says only that TCP has taken the Write.
        """
        if self.state is EndState.ESTABLISHED and not self._sends.queued:
            probe = DeviceSend(OWN, Verb.RDMA_WRITE, 0, signaled=False)
            self._sends.queue(probe, self._binding.RDMA_WRITE, [], 0, 0)

    def _post(self, send: DeviceSend, opcode: int, gather: Sequence[Buffer], handle: int, offset: int) -> None:
        if self.state is not EndState.CLOSED:
            try:
                self._sends.queue(send, opcode, self._sends.pinned(send, gather), handle, offset)
            except (LocalProtocolError, MemoryError) as error:
                self._sends.release(send)
                self.abort(lack_of(error))
            else:
                return
        assert send.verb is not None
        self.completions.append(Completion(send.wr, send.verb, Status.FLUSHED))

    # Connecting and ending

    def accept(self, private_data: bytes) -> None:
        if self.state is not EndState.REQUESTED:
            raise LocalProtocolError("no peer asks to be accepted")
        _check_private_data(private_data)
        self.state = EndState.ACCEPTED
        try:
            self._identifier.accept(private_data, self.inbound_reads, self.outbound_reads)
        except OSError as error:
            self._fail(error)

    def reject(self, private_data: bytes = b"") -> None:
        if self.state is not EndState.REQUESTED:
            raise LocalProtocolError("no peer asks to be rejected")
        _check_private_data(private_data)
        self._end("rejected", by_peer=False, private_data=private_data)

    def disconnect(self) -> None:
        if self.state is EndState.ESTABLISHED:
            self._leaving = True
        elif self.state is not EndState.CLOSED:
            self.abort("disconnected before the connection was made")

    def abort(self, reason: str) -> None:
        self._end(reason, by_peer=False)

    def flush(self) -> None:
        """Asks the peer for the connection (first call at the end that connects), or gives the device posted work.

        Work waits for `Established`, and for room in the device. The driver calls this after the owner has posted work,
        and after completions. After `disconnect` this call ends the connection once no work is left. A failure of the
        device ends the connection and is not raised.
        """
        if self.state is EndState.IDLE:
            self.state = EndState.CONNECTING
            self.parted = False
            ask = partial(self._identifier.connect, self._private_data, self.inbound_reads, self.outbound_reads)
            try:
                self.asking = self.asks(ask)
            except OSError as error:
                self.asked(error)
        if self.state is not EndState.ESTABLISHED:
            return
        works = self._sends.next_works(self.outbound_reads) if self._sends.unposted else None
        if works:
            try:
                self._device.post_sends(works)
            except OSError as error:
                self._fail(error)
                return
        if self._leaving and not self._sends.queued:
            self._end("disconnected", by_peer=False)

    def asked(self, error: OSError | None) -> None:
        """Continues after rdma_connect, which ran in a thread or failed at once; handles the events held meanwhile.

        `error`: the error, which ends the connection; None: success. If the connection has ended meanwhile, destroys
        the device's queue pair, which had to wait for the thread.
        """
        self.asking = False
        if self.state is EndState.CLOSED:
            self._part(EndState.CONNECTING)
        elif error is not None:
            # Of siw the call itself tells that TCP was refused.
            if error.errno == errno.ECONNREFUSED:
                self._end("connection refused", by_peer=True)
            else:
                self._fail(error)
        held, self._held = self._held, []
        for event in held:
            self.on_event(event)

    def on_event(self, event: ManagerEvent) -> None:
        """Handles an event of the connection manager for this connection, which may establish or end the connection.

        While a thread runs rdma_connect, the event is held until the driver calls `asked`, at the thread's end.
        """
        if self.asking:
            self._held.append(event)
            return
        kind = event.kind
        if kind in (ManagerEventKind.DISCONNECTED, ManagerEventKind.TIMEWAIT_ENDED, ManagerEventKind.REJECTED):
            self.parted = True
        if self.state is EndState.CLOSED:
            return
        if kind == ManagerEventKind.ESTABLISHED:
            self._connected(event)
        elif kind == ManagerEventKind.DISCONNECTED:
            # Messages that came before are delivered, and an error is reported, before the end is.
            while self.poll():
                pass
            self._ended_by_peer()
        elif kind == ManagerEventKind.DEVICE_REMOVED:
            self._end(removal_of(self.pd.device["name"]), by_peer=False)
        elif kind in ENDS:
            reason = ENDS[ManagerEventKind(kind)]
            if kind == ManagerEventKind.REJECTED and event.status in REFUSED:
                reason = "connection refused"
            self._end(reason, by_peer=kind == ManagerEventKind.REJECTED)

    def _connected(self, event: ManagerEvent) -> None:
        if self.state is EndState.CONNECTING:
            self._private_data = event.private_data
            self.inbound_reads = min(self.inbound_reads, event.inbound_reads)
            self.outbound_reads = min(self.outbound_reads, event.outbound_reads)
            self._establish()
        elif self.state is EndState.ACCEPTED:
            self._establish()

    def _establish(self) -> None:
        self.state = EndState.ESTABLISHED
        self.events.append(
            Established(
                private_data=self._private_data, inbound_reads=self.inbound_reads, outbound_reads=self.outbound_reads
            )
        )

    def _ended_by_peer(self) -> None:
        if self.state is EndState.CLOSED:
            return
        try:
            broken = not self.pd.device["iwarp"] and self._device.broken()
        except OSError:
            broken = False
        if broken and (remedy := self._port_remedy()):
            # The rxe of Linux 6.12 flushes work that it could not send, as after a fault of the peer.
            self._end(f"the device cannot send: {remedy}", by_peer=False)
        elif broken:
            self._end(BROKEN, by_peer=True, protocol_error=True)
        else:
            self._end("the peer disconnected", by_peer=True)

    def _fail(self, error: OSError) -> None:
        self._end(f"{error.filename} failed: {error.strerror}", by_peer=False)

    def _end(
        self, reason: str, *, by_peer: bool, protocol_error: bool = False, private_data: bytes | None = None
    ) -> None:
        if self.state is EndState.CLOSED:
            return
        before, self.state = self.state, EndState.CLOSED
        self.pd.binder = None
        if not self.asking:
            self._part(before, private_data)
        self._sends.flush(self.completions)
        self.events.append(Disconnected(reason=reason, by_peer=by_peer, protocol_error=protocol_error))

    def _part(self, before: EndState, private_data: bytes | None = None) -> None:
        """Disconnects or rejects at the connection manager, ignoring errors; destroys memory windows and queue pair.

        Then ends the receives, whose memory the device could reach until then.

        `before`: the state before the end; REQUESTED: rejects with `private_data` (None: empty); IDLE: only destroys.
        """
        try:
            if before is EndState.REQUESTED:
                self.parted = True
                self._identifier.reject(private_data or b"")
            elif before is not EndState.IDLE:
                self._identifier.disconnect()
        except OSError:
            # There is no connection any more that could be ended.
            self.parted = True
        self.pd.end_windows()
        self._device.end()
        while self._receives:
            receive = self._receives.popleft()
            if isinstance(receive.place, Pinned):
                self.pd.unpin(receive.place)
                self.completions.append(Completion(receive.wr, Verb.RECEIVE, Status.FLUSHED))

    def release(self) -> None:
        """Releases all objects of the device that the connection has; must be called last, after the end."""
        self._device.close()
        self._sends.close()
        self._receive_memory = None
        self.pd.close()

    # Completions

    def poll(self, *, arm: bool = True) -> bool:
        """Moves up to 64 completions of the device to `completions`; returns whether the device may have more.

        A failure of a work request, or of the device, ends the connection and is not raised. `arm`: whether the
        descriptor of `fileno` is to become readable for later completions; certain only if the result is False.
        """
        try:
            found = self._device.completions(_COMPLETIONS, arm)
        except OSError as error:
            self._fail(error)
            return False
        if found:
            self.heard = True
        flushed = False
        for work, status, octets, invalidated in found:
            if self.state is EndState.CLOSED:
                return False
            if status == Work.FLUSHED:
                flushed = True
            elif status != Work.SUCCESS:
                self._failed(work, status)
            elif isinstance(work, PostedReceive):
                self._received(work, octets, invalidated)
            else:
                self._sends.done(work, self.completions)
        if len(found) == _COMPLETIONS:
            return True
        if flushed and self.state is EndState.ESTABLISHED and not self.pd.device["iwarp"]:
            # Neither end has disconnected, or the device's queue pair would be gone: the peer has broken a rule.
            self._ended_by_peer()
        return False

    def _received(self, receive: PostedReceive, octets: int, invalidated: int) -> None:
        if self.state is EndState.ACCEPTED:
            # A message can overtake the event that says that the connection stands.
            self._establish()
        popped = self._receives.popleft()
        assert popped is receive, "receives complete in the order of posting"
        if isinstance(receive.place, Pinned):
            wr = receive.wr
            self.pd.unpin(receive.place)
        else:
            assert self._receive_memory is not None
            try:
                wr = self._receive_memory.delivered(receive, octets)
            except MemoryError as error:
                self.abort(lack_of(error))
                return
        ended = invalidated if invalidated and self.pd.invalidated(invalidated) else None
        self.completions.append(Completion(wr, Verb.RECEIVE, Status.SUCCESS, octets, ended))

    def _failed(self, work: DeviceSend | PostedReceive, status: int) -> None:
        """Ends the connection because the device could not do `work`, for the reason in `status` (`WorkStatus`)."""
        if isinstance(work, DeviceSend) and status == Work.REMOTE_ACCESS:
            work.status = Status.REMOTE_ACCESS
        if isinstance(work, DeviceSend) and work.verb is None:
            reason = f"the device binds no memory window: {self._binding.status_text(status)}"
            self._end(reason, by_peer=False)
        elif isinstance(work, DeviceSend) and status in UNSENT:
            happened, remedy = UNSENT[Work(status)]
            self._end(f"{happened}: {self._port_remedy() or remedy}", by_peer=False)
        elif isinstance(work, DeviceSend):
            text = f"the device failed: {self._binding.status_text(status)}; see the kernel's log (dmesg)"
            self._end(REFUSALS.get(status, text), by_peer=False, protocol_error=status in REFUSALS)
        else:
            reason = TOO_LONG if status in (Work.LOCAL_LENGTH, Work.LOCAL_OPERATION) else BROKEN
            self._end(f"{reason} ({self._binding.status_text(status)})", by_peer=True, protocol_error=True)

    def _port_remedy(self) -> str:
        trouble = self.trouble()
        return f"{trouble}, bring its network interface up (ip link set INTERFACE up)" if trouble else ""


def _at_once(ask: Callable[[], None]) -> bool:
    ask()
    return False


def _check_private_data(octets: bytes) -> None:
    if len(octets) > _PRIVATE_DATA_OCTETS_MAX:
        raise LocalProtocolError(f"{len(octets)} octets of private data: a device takes {_PRIVATE_DATA_OCTETS_MAX}")
