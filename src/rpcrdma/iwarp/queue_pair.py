"""One end of an iWARP connection: `rpcrdma.verbs.QueuePair` over a byte stream, without I/O.

A driver owns the TCP connection: it receives into `next_buffers` and calls `bytes_received`, sends `next_gather` and
calls `bytes_sent`, reports the end of the peer's stream, and closes once `wants_close` is True. The upper layer posts
work, and polls completions and events, as `rpcrdma.verbs` describes.

First, an MPA start-up frame travels each way (`startup`); then `Receiver` and `Sender` run. The initiator sends no FPDU
before the Reply arrives, the responder none before the initiator's first; posted work waits (RFC 5044 section 7.1.2).

The end of the connection is reported at once by one `Disconnected`, with all work flushed. A peer that broke a rule is
sent one Terminate; then nothing is sent, received octets are ignored (RFC 5040 section 5.4), and the driver closes
gracefully. While the peer does not read, `wants_close` stays False; the driver calls `abort` after a limited time.

The queue pair reads no clock: while `timed`, the driver asks for `next_deadline_s` after each change, and calls
`on_time` then: to bound the start-up, and to nudge a peer that has sent no FPDU since the first Send (`IwarpConfig`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rpcrdma.errors import LocalProtocolError, RemoteProtocolError
from rpcrdma.iwarp.config import IwarpConfig, MpaRole, ReadyFrame
from rpcrdma.iwarp.framing import size_mulpdu
from rpcrdma.iwarp.native_receiver import NativeReceiver
from rpcrdma.iwarp.native_sender import NativeSender
from rpcrdma.iwarp.receiver import Receiver, Scratch
from rpcrdma.iwarp.segments import READ_REQUEST, SEND, SEND_INVALIDATE, WRITE
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.startup import (
    FrameKind,
    MpaAgreement,
    StartupExchange,
    StartupFrame,
    StartupRefused,
    answer,
    conclude,
    encode_startup_frame,
)
from rpcrdma.iwarp.states import STARTING, TRANSITIONS, Input, State
from rpcrdma.iwarp.terminate import Code, PeerTerminated, TerminateFault
from rpcrdma.iwarp.work import MESSAGE_OCTETS_MAX, ReadWork, Work, check_remote, ready_work
from rpcrdma.verbs.protection_domain import Access, MemoryRegion, SoftwareProtectionDomain
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
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.native import Native, NativeSend

__all__ = ["IwarpQueuePair"]

_DISCARD = memoryview(bytearray(1 << 12))
"""Octets that arrive after the end are received here and never read."""

_REMOTE_WRITE = int(Access.REMOTE_WRITE)


class IwarpQueuePair:
    """One end of an iWARP connection: implements `rpcrdma.verbs.QueuePair` over a byte stream that a driver moves.

    `crc`, `inbound_reads` and `outbound_reads` are the agreed values, once connected. `wants_close`: the driver must
    close the TCP connection. `timed` is False once no further deadline can come.

    Args:
        role: whether this end sends the MPA Request.
        pd: the protection domain.
        config: the settings.
        emss: TCP's effective maximum segment size in octets, which FPDUs are made to fit.
        private_data: octets of an initiator's Request, at most 508, or 512 without enhanced set-up; more raise
            LocalProtocolError. A responder does not use them: its octets are the argument of `accept`.
        scratch: memory for received octets. Queue pairs may share it if `bytes_received` of each is called before
            `next_buffers` of another. None: memory of its own.
        native: the C module, to receive after `hand_over` and send by `send`; unused if `config.flush_each_message`.
    """

    def __init__(
        self,
        role: MpaRole,
        pd: SoftwareProtectionDomain,
        config: IwarpConfig,
        emss: int,
        private_data: bytes = b"",
        scratch: Scratch | None = None,
        *,
        native: Native | None = None,
    ) -> None:
        self.role = role
        self.pd = pd
        self.config = config
        self.crc = config.crc
        self.inbound_reads = config.inbound_reads
        self.outbound_reads = config.outbound_reads
        self.wants_close = False
        self.timed = True
        self._startup_ends_s: float | None = None
        # Whether a message was posted, when the next nudge is due, and the wait between it and another one.
        self._asked = False
        self._nudge_at_s: float | None = None
        self._nudge_after_s = config.nudge_after_s if role is MpaRole.INITIATOR else 0.0
        self._emss = emss
        self.native = None if config.flush_each_message else native
        self.completions: deque[Completion] = deque()
        self.events: list[QueuePairEvent] = []
        scratch = scratch or Scratch()
        self._native_sender: NativeSender | None = None
        self.native_receiver: NativeReceiver | None = None
        if self.native is None:
            self._sender = Sender(pd, self.completions, flush_each_message=config.flush_each_message)
            self._receiver = Receiver(pd, self._sender, self.completions, scratch)
        else:
            self._sender = self._native_sender = NativeSender(pd, self.completions)
            self.native_receiver = NativeReceiver(pd, self._sender, self.completions, scratch, self.native)
            self._receiver = self.native_receiver
        # Whether received octets go to the receiver (else to start-up), and whether `Disconnected` has been reported.
        self._full_operation = False
        self._ended = False
        self._exchange = StartupExchange(role, config, private_data)
        self.state = State.AWAITING_REQUEST
        if self._exchange.request is not None:
            self.state = State.AWAITING_REPLY
            self._sender.out.put(encode_startup_frame(self._exchange.request))

    # Work

    def post_receive(self, wr: object, buffer: memoryview) -> None:
        if self._ended:
            self.completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
        else:
            self._take_over()
            self._receiver.untagged.receives.append((wr, buffer))

    def post_receives(self, count: int, pool: ReceiveSource) -> None:
        if not self._ended:
            self._receiver.post(count, pool)

    def post_send(
        self, wr: object, gather: Sequence[Buffer], *, invalidate: int | None = None, signaled: bool = True
    ) -> None:
        length = sum(map(len, gather))
        if length > MESSAGE_OCTETS_MAX:
            raise LocalProtocolError(f"a Send of {length} octets: DDP messages stay below 2^32")
        self._asked = True
        if self._ended:
            self.completions.append(Completion(wr, Verb.SEND, Status.FLUSHED))
        else:
            control = SEND if invalidate is None else SEND_INVALIDATE
            work = Work(wr, Verb.SEND, control, gather, length, invalidate or 0, signaled=signaled)
            self._sender.send_queue.append(work)

    def post_write(
        self, wr: object, gather: Sequence[Buffer], handle: int, offset: int, *, signaled: bool = True
    ) -> None:
        length = sum(map(len, gather))
        check_remote(handle, offset, length)
        if self._ended:
            self.completions.append(Completion(wr, Verb.RDMA_WRITE, Status.FLUSHED))
        else:
            work = Work(wr, Verb.RDMA_WRITE, WRITE, gather, length, handle, offset, signaled=signaled)
            self._sender.send_queue.append(work)

    def post_read(self, wr: object, sink: MemoryRegion, sink_start: int, length: int, handle: int, offset: int) -> None:
        check_remote(handle, offset, length)
        if not sink.rights & _REMOTE_WRITE:
            raise LocalProtocolError("the sink of an RDMA Read is not registered for remote writing")
        if sink_start < 0 or sink_start + length > sink.length:
            raise LocalProtocolError(f"{length} octets at {sink_start} are not within a sink of {sink.length}")
        if self._ended:
            self.completions.append(Completion(wr, Verb.RDMA_READ, Status.FLUSHED))
        else:
            work = ReadWork(wr, READ_REQUEST, length, handle, offset, sink.handle, sink.offset + sink_start)
            self._sender.send_queue.append(work)

    # Octets in

    def next_buffers(self) -> list[memoryview]:
        """Returns one or more buffers, to be filled in order with the next octets; called before each receive."""
        if self._full_operation:
            return self._receiver.next_buffers()
        if self._ended:
            return [_DISCARD]
        return [self._exchange.next_buffer()]

    def bytes_received(self, octets: int) -> None:
        """Processes `octets` octets of the last `next_buffers`; a peer's fault ends the connection without an error."""
        if not self._full_operation:
            if not self._ended:
                self._startup_received(octets)
            return
        receiver = self._receiver
        try:
            receiver.received(octets)
        except TerminateFault as fault:
            if receiver.heard:
                if receiver.ready_frame is None:
                    self._first_frame()
                self._sender.open = True
            self._terminate(fault)
        except PeerTerminated as terminated:
            self._sender.refuse(terminated.terminate)
            self._end(str(terminated), by_peer=True, protocol_error=True)
        except RemoteProtocolError as error:
            self._end(str(error), by_peer=True, protocol_error=True)
        else:
            if receiver.heard and not self._sender.open:
                self._first_frame()

    def hand_over(self) -> None:
        """Lets the native (C) module receive from now on: the driver then calls `native_receiver.frames.receive`.

        No effect unless the connection is open and has the module, Python has received an FPDU (which ends the nudges),
        and Python has no message to finish.
        """
        receiver = self.native_receiver
        if receiver is not None and receiver.heard and self._full_operation and self.state is State.OPEN:
            receiver.hand_over()

    def received_natively(self, outcome: int) -> None:
        """Processes the result of `NativeFrames.receive`: 0, `Native.STOPPED`, `Native.END_OF_STREAM`, or both by `|`.

        STOPPED: Python alone handles the next FPDU, and receives until `hand_over`. END_OF_STREAM: the connection ends.
        """
        assert self.native is not None
        if outcome & self.native.STOPPED:
            self._take_over()
            self.bytes_received(0)
        if outcome & self.native.END_OF_STREAM:
            self.end_of_stream()

    def _take_over(self) -> None:
        if self.native_receiver is not None:
            self.native_receiver.take_over()

    def end_of_stream(self) -> None:
        """Ends the connection, unless it has ended, as the peer ended or reset its stream; sets `wants_close`."""
        self._take_over()
        if self._ended:
            self._close()
            return
        if self.state in {State.AWAITING_REPLY, State.AWAITING_REQUEST}:
            reason = "the peer closed the connection during MPA start-up"
        elif self._receiver.mid_frame:
            reason = "the peer closed the connection inside an FPDU"
        else:
            reason = "the peer closed the connection"
        self._end(reason, by_peer=True)

    # Octets out

    def next_gather(self, max_octets: int) -> list[Buffer]:
        """Returns octets to send as a gather list of at most 512 pieces; empty if there are none.

        The list ends with the end of a start-up frame or FPDU. It has at most `max_octets` octets, unless the first
        FPDU alone is longer. Until `bytes_sent` each call returns the same octets, unless a region was invalidated: so
        the driver calls it before each send. After `disconnect`, the connection ends once nothing is left. A fault of
        this side, such as an invalidated source of an RDMA Read, ends it, too; no error is raised.
        """
        sender = self._sender
        try:
            gather = sender.next_gather(max_octets)
        except (TerminateFault, LocalProtocolError) as error:
            self._break_off(error)
            return sender.next_gather(max_octets)
        if not gather and sender.drained and not self._ended:
            self._end("disconnected", by_peer=False)
        return gather

    def send(self, send: NativeSend) -> bool | None:
        """Lets the native module send all messages that may be sent now; a fault of this side ends the connection.

        `send`: `Native.send` with the connection's socket as its first argument. Returns True if no message that may be
        sent is left, which after `disconnect` ends the connection; False if the socket takes no more; None if the
        octets of `next_gather` must be sent first, or the native module cannot send. Raises OSError if TCP is broken.
        """
        sender = self._native_sender
        if sender is None or not self._full_operation:
            return None
        try:
            sent = sender.send(send)
        except (TerminateFault, LocalProtocolError) as error:
            self._break_off(error)
            return None
        if sender.drained and not self._ended:
            self._end("disconnected", by_peer=False)
        return sent

    def _break_off(self, error: TerminateFault | LocalProtocolError) -> None:
        """Ends the connection, with a Terminate if possible, because of a fault of this side in sending: `error`."""
        fault = error if isinstance(error, TerminateFault) else TerminateFault(str(error), Code.LOCAL_CATASTROPHIC)
        self._terminate(fault, by_peer=False)

    def bytes_sent(self, octets: int) -> None:
        """Counts the first `octets` (at least 1) of `next_gather` as sent: completes work, and moves `state` on.

        Once all octets are sent, REPLYING becomes MUTE, with the event `Established`, or AWAITING_READY; LAST_WORDS
        becomes CLOSED, and so does DRAINING if no work is left.
        """
        sender = self._sender
        sender.report(octets)
        state = self.state
        if state is State.OPEN or state is State.DRAINING:
            # The responder may send FPDUs once it has the first one of the initiator, which begins with these octets.
            self._full_operation = True
        if state is not State.OPEN and not sender.out.pieces:
            self._all_sent()

    def _all_sent(self) -> None:
        state = self.state
        if state is State.REPLYING:
            assert self._exchange.agreement is not None
            self._full_operation = True
            if self._exchange.agreement.ready_frame is None:
                self._move(Input.REPLY_OUT)
                self._established()
            else:
                self._move(Input.REPLY_OUT_PEER_TO_PEER)
        elif state is State.LAST_WORDS:
            self._move(Input.LAST_WORDS_OUT)
            self.wants_close = True
        elif state is State.DRAINING:
            self._end_drained()

    # Connecting

    def accept(self, private_data: bytes) -> None:
        if self.state is not State.REQUESTED:
            raise LocalProtocolError("no peer asks to be accepted")
        self._reply(private_data, reject=False)
        self._move(Input.ACCEPT)

    def reject(self, private_data: bytes = b"") -> None:
        if self.state is not State.REQUESTED:
            raise LocalProtocolError("no peer asks to be rejected")
        self._reply(private_data, reject=True)
        self._flush("rejected", by_peer=False)
        self._move(Input.REJECT)

    def _reply(self, private_data: bytes, *, reject: bool) -> None:
        assert self._exchange.request is not None
        reply, agreement = answer(self._exchange.request, self.config, private_data, reject=reject)
        self._sender.out.put(encode_startup_frame(reply))
        if not reject:
            self._receiver.ready_frame = agreement.ready_frame
            self._enter_full_operation(agreement)

    def _startup_received(self, octets: int) -> None:
        if self.state not in {State.AWAITING_REPLY, State.AWAITING_REQUEST}:
            self._end("the peer sent before it was its turn", by_peer=True, protocol_error=True)
            return
        try:
            frame = self._exchange.received(octets)
            if frame is not None:
                self._requested(frame) if frame.kind is FrameKind.REQUEST else self._replied(frame)
        except StartupRefused as refusal:
            self._sender.start(size_mulpdu(self._emss, markers=False), 0, crc=True, markers=False)
            self._terminate(TerminateFault(str(refusal), refusal.code))
        except RemoteProtocolError as error:
            self._end(str(error), by_peer=True, protocol_error=True)

    def _requested(self, request: StartupFrame) -> None:
        if request.enhanced is not None and not self.config.enhanced:
            raise RemoteProtocolError("the peer asks for enhanced set-up, which is off here", rfc="6581 10")
        self._exchange.request = request
        self._move(Input.REQUEST)
        self.events.append(ConnectRequested(private_data=request.private_data))

    def _replied(self, reply: StartupFrame) -> None:
        if reply.reject:
            self._end("the peer rejected the connection", by_peer=True)
            return
        assert self._exchange.request is not None
        agreement = conclude(self._exchange.request, reply, self.config)
        self._enter_full_operation(agreement)
        if agreement.ready_frame is not None:
            self._sender.send_queue.insert(0, ready_work(agreement.ready_frame))
        self._move(Input.REPLY_ACCEPTED)
        self._sender.open = True
        self._established()

    def _enter_full_operation(self, agreement: MpaAgreement) -> None:
        self._exchange.agreement = agreement
        self.crc = self._receiver.crc = agreement.crc
        self.inbound_reads = self._receiver.untagged.inbound_reads = agreement.inbound_reads
        self.outbound_reads = agreement.outbound_reads
        mulpdu = size_mulpdu(self._emss, markers=agreement.markers)
        self._sender.start(mulpdu, agreement.outbound_reads, crc=agreement.crc, markers=agreement.markers)

    def _established(self) -> None:
        data = self._exchange.peer_data
        self.events.append(
            Established(private_data=data, inbound_reads=self.inbound_reads, outbound_reads=self.outbound_reads)
        )
        self._exchange.release()

    def _first_frame(self) -> None:
        """Lets a responder send, as the first valid FPDU has arrived; if it is an RTR frame, reports `Established`."""
        if self.state is State.AWAITING_READY:
            self._move(Input.FPDU)
            self._established()
        elif self.state is State.MUTE:
            self._move(Input.FPDU)
        self._sender.open = True

    # Time

    def next_deadline_s(self, now_s: float) -> float | None:
        """Returns the time at which `on_time` is to be called, in seconds of the driver's monotonic clock.

        None: no deadline now; if `timed`, one may follow. `now_s`: the present time, from which a new deadline counts.
        """
        if self.state in STARTING:
            if self._startup_ends_s is None:
                self._startup_ends_s = now_s + self.config.startup_timeout_s
            return self._startup_ends_s
        if self._ended or not self._nudge_after_s or self._receiver.heard:
            self.timed = False
            return None
        if self._asked and self._nudge_at_s is None:
            self._nudge_at_s = now_s + self._nudge_after_s
        return self._nudge_at_s

    def on_time(self, now_s: float) -> None:
        """Acts at `now_s` (seconds, monotonic) if the deadline has passed: aborts MPA start-up, or sends a `nudge`."""
        due_s = self.next_deadline_s(now_s)
        if due_s is None or now_s < due_s:
            return
        if self.state in STARTING:
            self.abort(f"{STARTING[self.state]} within {self.config.startup_timeout_s:g} s")
            return
        self.nudge()
        self._nudge_after_s *= 2
        self._nudge_at_s = now_s + self._nudge_after_s

    # The end

    def disconnect(self) -> None:
        if self.state is State.OPEN:
            self._move(Input.DISCONNECT)
            self._sender.send_queue.append(Work(None, None, 0, (), 0))
            if not self._sender.out.pieces:
                self._end_drained()
        elif not self._ended and self.state is not State.DRAINING:
            self.abort("disconnected before anything could be sent")

    def nudge(self) -> None:
        """Queues an RDMA Write of no octets, without completion, if the connection is open: Linux siw then reads on."""
        if self.state is State.OPEN:
            self._sender.send_queue.append(ready_work(ReadyFrame.WRITE))

    def abort(self, reason: str) -> None:
        if self._ended:
            self._close()
        else:
            self._end(reason, by_peer=False)

    def _move(self, moved: Input) -> None:
        self.state = state = TRANSITIONS[self.state, moved]
        self._ended = state is State.LAST_WORDS or state is State.CLOSED

    def _end_drained(self) -> None:
        sender = self._sender
        if not sender.under_way and sender.send_queue and sender.send_queue[0].verb is None:
            self._end("disconnected", by_peer=False)

    def _terminate(self, fault: TerminateFault, *, by_peer: bool = True) -> None:
        """Ends the connection, with a Terminate if this end may send FPDUs; `by_peer`: `fault` is the peer's."""
        message = fault.terminate()
        may_speak = self._sender.open or self.state is State.AWAITING_REPLY
        if not may_speak:
            self._end(str(fault), by_peer=by_peer, protocol_error=True)
            return
        self._flush(f"{fault} (terminated: {message.words})", by_peer=by_peer, protocol_error=True)
        self._sender.last_words(message)
        self._move(Input.FAULT)
        if not self._sender.out.pieces:
            self._move(Input.LAST_WORDS_OUT)
            self.wants_close = True

    def _end(self, reason: str, *, by_peer: bool, protocol_error: bool = False) -> None:
        self._flush(reason, by_peer=by_peer, protocol_error=protocol_error)
        self._close()

    def _close(self) -> None:
        self._sender.stop()
        if self.state is not State.CLOSED:
            self._move(Input.END)
        self.wants_close = True

    def _flush(self, reason: str, *, by_peer: bool, protocol_error: bool = False) -> None:
        self._full_operation = False
        self._sender.flush()
        self._receiver.flush()
        self.events.append(Disconnected(reason=reason, by_peer=by_peer, protocol_error=protocol_error))
