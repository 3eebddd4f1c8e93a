"""Untagged messages as their segments arrive: Sends, RDMA Read Requests and Terminates.

Each kind has a queue of its own, in which messages are numbered (RFC 5041 section 4.3). A Send takes the next posted
receive, and may have many segments. The other two kinds have one segment each.
"""

from __future__ import annotations

from collections import deque

from rpcrdma.errors import DecodeError, RemoteAccessError, RemoteProtocolError
from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.iwarp.outbound import ReadResponse
from rpcrdma.iwarp.segments import (
    DDP_VERSION,
    LAST,
    QUEUE_OF,
    RDMAP_VERSION,
    READ_HEADER_OCTETS,
    SEQUENCE_MASK,
    decode_read_header,
)
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.terminate import Code, PeerTerminated, Violation, decode_terminate, fault_of, read_source_code
from rpcrdma.verbs.protection_domain import Access, SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Completion, Status, Verb
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ReceiveSource, ScatteredBuffer, is_plain

__all__ = ["UntaggedMessages"]

_SEND_QUEUE, _READ_QUEUE = 0, 1


class UntaggedMessages:
    """The untagged messages that arrive on one connection: checks their segments, and delivers Sends into receives.

    `receives` are the posted receives, as (work request, buffer), in order. `shared` counts the posted receives whose
    buffers come from `pool` when a message arrives; they follow `receives`. `numbers` are the next MSNs of queues 0 to
    2. `send_octets` counts the octets of the Send that has arrived in part, and `send_opened` has the RDMAP control
    octet and the Invalidate STag of its first segment. `inbound_reads` is the number of RDMA Reads that the peer may
    have outstanding (IRD).
    """

    __slots__ = (
        "_completions",
        "_pd",
        "_sender",
        "inbound_reads",
        "numbers",
        "pool",
        "receives",
        "send_octets",
        "send_opened",
        "shared",
    )

    def __init__(self, pd: SoftwareProtectionDomain, sender: Sender, completions: deque[Completion]) -> None:
        self._pd = pd
        self._sender = sender
        self._completions = completions
        self.inbound_reads = 0
        self.numbers = [1, 1, 1]
        self.send_octets = 0
        self.send_opened = (0, 0)
        self.receives: deque[tuple[object, ReceiveBuffer]] = deque()
        self.shared = 0
        self.pool: ReceiveSource | None = None

    def flush(self) -> None:
        """Ends all posted receives.

        A receive with a buffer, posted with it or drawn from the pool already, completes with the status FLUSHED; other
        receives of the pool get no completion.
        """
        for wr, _ in self.receives:
            self._completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
        self.receives.clear()
        self.shared = 0

    def check(self, header: tuple[int, ...], octets: int, ready_frame: ReadyFrame | None) -> Violation | None:
        """Checks a segment against the rules of DDP and RDMAP, but not its payload (RFC 5041 7.1, RFC 5040 7.2).

        A Send has to fit the buffer of the oldest posted receive. `header`: ULPDU_Length, DDP control, RDMAP control,
        Invalidate STag, QN, MSN and MO. `octets`: the length of the payload. `ready_frame`: the RTR frame that the
        segment has to be, or None. Returns the rule that the segment breaks, in words, and the `Code` (0xLTCC: layer,
        type, code) of the Terminate for it; None if it breaks none.
        """
        _, control, rdmap, invalidate, queue, msn, offset = header
        if control & DDP_VERSION != 1:
            return f"DDP version {control & DDP_VERSION}", Code.UNTAGGED_VERSION
        if rdmap & RDMAP_VERSION != 0x40:
            return f"RDMAP version {rdmap >> 6}", Code.OPERATION_VERSION
        expected = QUEUE_OF.get(rdmap & 0x0F)
        if expected is None:
            return f"opcode {rdmap & 0x0F:#x} in an untagged segment", Code.OPERATION_OPCODE
        if queue != expected:
            return f"queue {queue} for opcode {rdmap & 0x0F:#x}", Code.UNTAGGED_QUEUE
        if msn != self.numbers[queue]:
            return f"message {msn} of queue {queue} instead of {self.numbers[queue]}", Code.UNTAGGED_MSN
        if queue:
            if ready_frame is not None and not (queue == _READ_QUEUE and ready_frame is ReadyFrame.READ):
                return "not the ready-to-receive frame that was agreed on", Code.NO_MATCHING_RTR
            return (f"message offset {offset}", Code.UNTAGGED_MO) if offset else None
        if ready_frame is not None:
            if octets or not control & LAST or ready_frame is not ReadyFrame.SEND:
                return "not the ready-to-receive frame that was agreed on", Code.NO_MATCHING_RTR
            return None
        if not (self.receives or self.shared):
            return "a Send, but no receive is posted", Code.UNTAGGED_NO_BUFFER
        placed = self.send_octets
        if offset != placed:
            return f"message offset {offset} instead of {placed}", Code.UNTAGGED_MO
        if placed and self.send_opened != (rdmap, invalidate):
            return "the RDMAP header changed within a message", Code.OPERATION_UNSPECIFIED
        room = len(self.receives[0][1]) if self.receives or self.pool is None else self.pool.octets
        if placed + octets > room:
            return f"a Send of at least {placed + octets} octets for a receive of {room}", Code.UNTAGGED_TOO_LONG
        return None

    def target(self, start: int, octets: int) -> memoryview:
        """Returns the memory for `octets` octets of the arriving Send from its octet `start` (0: the first) on.

        The memory is shorter where a piece of a scattered buffer ends. A buffer is drawn from the pool if the receive
        has none. `check` must have accepted the segment.
        """
        buffer = self._buffer()
        if isinstance(buffer, ScatteredBuffer):
            return buffer.target(start, octets)
        return buffer[start : start + octets]

    def _buffer(self) -> ReceiveBuffer:
        """Returns the buffer of the arriving Send: the first in `receives`, the same one for all segments of the Send.

        If `receives` is empty, a buffer is first drawn from the pool and appended, and `shared` falls by one. `check`
        has made sure that a receive is posted.
        """
        if not self.receives:
            assert self.pool is not None
            self.shared -= 1
            buffer = self.pool.draw()
            self.receives.append((buffer, buffer))
        return self.receives[0][1]

    def write(self, start: int, data: memoryview) -> None:
        """Copies `data` into the buffer of the arriving Send, from octet `start` (0: the first) of the buffer on."""
        buffer = self._buffer()
        if isinstance(buffer, ScatteredBuffer):
            buffer.write(start, data)
        else:
            buffer[start : start + len(data)] = data

    def take(self, header: tuple[int, ...], payload: memoryview, ready_frame: ReadyFrame | None) -> None:
        """Processes a whole segment that has passed `check`: part of a Send, a Read Request, or a Terminate.

        The payload of a Send is copied for the oldest receive, and `end` is called; an RTR frame takes no receive. A
        Read Request adds a response to the sender's `responses`. A Terminate is raised.

        `header`: ULPDU_Length, DDP control, RDMAP control, Invalidate STag, QN, MSN and MO. `ready_frame`: the RTR
        frame that the segment is, or None.

        Raises:
            TerminateFault: a Read Request is malformed, exceeds IRD, or names memory that the peer may not read; or a
                Send invalidates a handle that does not exist.
            PeerTerminated: the segment is a Terminate.
            RemoteProtocolError: the segment is a Terminate that does not decode.
        """
        queue = header[4]
        if queue == _READ_QUEUE:
            self._take_read_request(header, payload, ready_frame)
        elif queue != _SEND_QUEUE:
            try:
                terminate = decode_terminate(payload)
            except DecodeError as error:
                raise RemoteProtocolError(f"an unintelligible Terminate: {error}") from None
            raise PeerTerminated(terminate)
        elif ready_frame is not None:
            # The RTR frame is no message of the upper layer (RFC 6581 section 9.2): it takes no receive.
            self.numbers[_SEND_QUEUE] = 2
        else:
            self._take_send(header, payload)

    def _take_send(self, header: tuple[int, ...], payload: memoryview) -> None:
        _, control, _, _, _, _, offset = header
        octets = len(payload)
        pool = self.pool
        whole = control & LAST and not offset
        if whole and pool and not self.receives and (octets <= pool.short_octets or is_plain(pool, payload)):
            self.shared -= 1
            self.receives.append((bytes(payload), payload))
        elif octets:
            self.write(offset, payload)
        self.end(header, octets)

    def _take_read_request(self, header: tuple[int, ...], payload: memoryview, ready_frame: ReadyFrame | None) -> None:
        octets = len(payload)
        if octets != READ_HEADER_OCTETS or not header[1] & LAST:
            code = Code.UNTAGGED_TOO_LONG if octets > READ_HEADER_OCTETS else Code.OPERATION_UNSPECIFIED
            raise fault_of((f"an RDMA Read Request of {octets} octets", code), header)
        request = decode_read_header(payload)
        responses = self._sender.responses
        if len(responses) >= self.inbound_reads:
            raise fault_of((f"more than {self.inbound_reads} RDMA Reads outstanding", Code.OPERATION_STREAM), header)
        # The handle and offset of a Read of no octets are not checked (RFC 5040 section 5.2.1).
        if request.length:
            if ready_frame is not None:
                raise fault_of(("the ready-to-receive Read asks for data", Code.NO_MATCHING_RTR), header)
            try:
                self._pd.find(request.source_handle, request.source_offset, request.length, Access.REMOTE_READ)
            except RemoteAccessError as error:
                raise fault_of((str(error), read_source_code(error)), header, bytes(payload)) from None
        self.numbers[_READ_QUEUE] = self.numbers[_READ_QUEUE] + 1 & SEQUENCE_MASK
        responses.append(ReadResponse(request, header))

    def end(self, header: tuple[int, ...], octets: int) -> None:
        """Counts a segment of a Send, whose `octets` of payload are in place.

        A segment with the L bit invalidates the handle of a Send with Invalidate, and completes the receive. `header`:
        ULPDU_Length, DDP control, RDMAP control, Invalidate STag, QN, MSN and MO.

        Raises:
            TerminateFault: the Send invalidates a handle that does not exist.
        """
        _, control, rdmap, invalidate, *_ = header
        octets += self.send_octets
        if not control & LAST:
            self.send_octets = octets
            self.send_opened = (rdmap, invalidate)
            return
        ended: int | None = None
        # Opcodes 4 and 6 are the ones with Invalidate.
        if not rdmap & 1:
            if self._pd.invalidate_handle(invalidate) is None:
                raise fault_of((f"handle {invalidate:#010x} cannot be invalidated", Code.PROTECTION_INVALIDATE), header)
            ended = invalidate
        self.send_octets = 0
        self.numbers[_SEND_QUEUE] = self.numbers[_SEND_QUEUE] + 1 & SEQUENCE_MASK
        wr, _ = self.receives.popleft()
        self._completions.append(Completion(wr, Verb.RECEIVE, Status.SUCCESS, octets, ended))
