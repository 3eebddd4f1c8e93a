"""The receiving half of full operation: from octets to placed memory and delivered messages.

The driver asks for the buffers of the next octets (`next_buffers`) and says how many octets came (`received`). The
receiver is in one of three phases:

- scratch: octets go into a small scratch buffer, where whole FPDUs are found, checked and taken apart;
- payload (`left` > 0): the payload of a large FPDU goes from the socket straight into its target memory. The FPDU's
  header has arrived and has passed every check of DDP and RDMAP; the scatter list is [rest of the target, scratch];
- trailer (`_segment.trailer` > 0, `left` 0): padding and CRC of that FPDU are awaited in the scratch buffer.

A payload that goes straight to its target is placed before its CRC can be checked. That is harmless: a corrupted header
can only name memory that this peer may write anyway, memory is undefined until a later message is delivered (RFC 5041
section 5.4), and no message is delivered before its CRC has matched. If the CRC does not match, the connection ends.

A rule broken inside an FPDU is reported only after its CRC has shown that the header was not corrupted on the way; the
rest of the payload is discarded until then. So the outcome does not depend on how TCP cuts the stream.
"""

from __future__ import annotations

from collections import deque

from rpcrdma.errors import DecodeError, RemoteAccessError, RemoteProtocolError
from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.iwarp.direct_segment import DISCARD, DirectSegment
from rpcrdma.iwarp.framing import CRC, size_fpdu
from rpcrdma.iwarp.segments import (
    LAST,
    QUEUE_OF,
    READ_HEADER_OCTETS,
    SEND,
    SEND_INVALIDATE,
    SEQUENCE_MASK,
    TAGGED,
    TAGGED_CONTROL,
    TAGGED_OCTETS,
    UNTAGGED,
    UNTAGGED_CONTROL,
    UNTAGGED_OCTETS,
    WRITE,
    decode_read_header,
)
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.terminate import Code, Fault, PeerTerminated, decode_terminate, read_source_code, tagged_code
from rpcrdma.iwarp.work import ReadResponse
from rpcrdma.verbs.memory import Access, SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Completion, Status, Verb
from rpcrdma.verbs.receive_pool import ReceivePool
from rpcrdma.wire.checksum import crc32c

__all__ = ["Receiver"]

_IDLE_OCTETS = 1 << 13
"""Scratch octets offered while no large FPDU is expected: room for several small Sends in one system call, and for
little of a bulk payload, which would have to be copied."""

_FULL_OCTETS = 9 << 13
"""Scratch octets offered after one receive has filled `_IDLE_OCTETS`: room for any FPDU, and for many small ones."""

_DIRECT_OCTETS_MIN = 2048
"""Octets of an FPDU still to come from which on they are received straight into their target; fewer are copied."""

_BULK_FRAME_OCTETS = 4096
"""After an FPDU of at least this size only the header of its message's next one is received into the scratch buffer,
and its payload straight into the target. Smaller FPDUs are received many at a time, and copied."""

_WRITE_OPCODE, _READ_RESPONSE_OPCODE = 0, 2
_READ_QUEUE = 1
_TAGGED_BIT = 0x80
_VERSION, _RDMAP_VERSION = 0x03, 0xC0
_WHOLE_TAGGED, _WHOLE_UNTAGGED = TAGGED_CONTROL | LAST, UNTAGGED_CONTROL | LAST
"""The DDP control octets of a message that is one segment."""

_NO_OFFSET = bytes(4)
"""The Message Offset of a first segment."""

_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""

_Violation = tuple[str, Code]


class Receiver:
    """The receive queue, the scratch buffer, and the state of the messages that have partly arrived.

    `view` is the scratch buffer: `filled` octets of it hold received data, and `limit` bounds the part that is offered.
    `left` counts the payload's octets that are still to come straight into their target.
    `heard` is True once a valid FPDU has come. `ready_frame` is the RTR frame that must come first, if any. `shared`
    counts the posted receives whose buffers come from `pool` when a message arrives.
    """

    __slots__ = (
        "_bulk",
        "_completions",
        "_msn",
        "_pd",
        "_scratch",
        "_segment",
        "_send_octets",
        "_send_opened",
        "_sender",
        "_tagged_opened",
        "crc",
        "filled",
        "heard",
        "inbound_reads",
        "left",
        "limit",
        "pool",
        "ready_frame",
        "receives",
        "shared",
        "view",
    )

    def __init__(self, pd: SoftwareProtectionDomain, sender: Sender, completions: deque[Completion]) -> None:
        self._pd = pd
        self._sender = sender
        self._completions = completions
        self._scratch = bytearray(_IDLE_OCTETS)
        self.view = memoryview(self._scratch)
        self.filled = 0
        self.limit = _IDLE_OCTETS
        # Phases of payload and trailer.
        self._segment = DirectSegment()
        self.left = 0
        # The next MSN of queues 0 to 2.
        self._msn = [1, 1, 1]
        # The partly received Send: octets placed, and the RDMAP control and Invalidate STag of its first segment.
        self._send_octets = 0
        self._send_opened = (0, 0)
        # The partly received tagged message: RDMAP control and STag; and whether a large FPDU of it is to come next.
        self._tagged_opened: tuple[int, int] | None = None
        self._bulk = False
        self.crc = True
        self.heard = False
        self.inbound_reads = 0
        self.ready_frame: ReadyFrame | None = None
        self.receives: deque[tuple[object, memoryview]] = deque()
        self.shared = 0
        self.pool: ReceivePool | None = None

    def _draw(self) -> bool:
        """Posts a receive with a buffer of the pool for the arriving Send; False if no receive is left."""
        if not self.shared:
            return False
        assert self.pool is not None
        self.shared -= 1
        buffer = self.pool.take()
        self.receives.append((buffer, buffer))
        return True

    def flush(self) -> None:
        """Ends all receives."""
        for wr, _ in self.receives:
            self._completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
        self.receives.clear()
        self.shared = 0
        self._segment.target = DISCARD[:0]

    @property
    def mid_frame(self) -> bool:
        """Whether an FPDU has arrived in part."""
        return bool(self._segment.trailer or self.filled)

    def next_buffers(self) -> list[memoryview]:
        """The buffers for the next octets. To be asked before each receive: memory may have been invalidated.

        The offered part of the scratch buffer, `view[filled:limit]`, preceded by the target of the payload if octets
        of one are `left`.
        """
        if not self.left:
            return [self.view[self.filled : self.limit]]
        self._segment.target = target = self._find_target()
        return [target, self.view[: self.limit]]

    def _find_target(self) -> memoryview:
        """The memory for the rest of the payload; `DISCARD` if the segment breaks a rule or its region has ended."""
        segment = self._segment
        if segment.fault is None:
            _, control, _, word, *rest = segment.header
            if not control & _TAGGED_BIT:
                start = rest[2] + segment.placed
                return self.receives[0][1][start : start + self.left]
            try:
                return self._pd.find(word, rest[0] + segment.placed, self.left, Access.REMOTE_WRITE)
            except RemoteAccessError as error:
                segment.fault = _fault((str(error), tagged_code(error)), segment.header)
        return DISCARD[: self.left]

    def received(self, octets: int) -> None:
        """Takes `octets` more, which fill the buffers of `next_buffers` in order.

        Raises:
            Fault: the peer broke a rule.
            PeerTerminated: the peer sent a Terminate.
            RemoteProtocolError: the peer sent a Terminate that does not decode.
        """
        segment = self._segment
        left = self.left
        if left:
            placed = min(octets, left)
            if self.crc:
                segment.digest = crc32c(segment.target[:placed], segment.digest)
            segment.placed += placed
            self.left = left = left - placed
            if left:
                return
            octets -= placed
            if octets == self.limit and self._bulk and self._follow_on():
                return
        self.filled = filled = self.filled + octets
        full = filled == self.limit
        taken = self._take_frames()
        self.filled = filled = filled - taken
        if filled and taken:
            self.view[:filled] = self.view[taken : taken + filled]
        if not segment.trailer:
            self.limit = self._next_limit(filled, full=full) if filled or full or self._bulk else _IDLE_OCTETS

    def _next_limit(self, filled: int, *, full: bool) -> int:
        """The `limit` of the scratch buffer for the next receive."""
        if self._bulk:
            if filled < TAGGED.size:
                return TAGGED.size
            need = size_fpdu(self._scratch[0] << 8 | self._scratch[1])
        else:
            need = size_fpdu(self._scratch[0] << 8 | self._scratch[1]) if filled >= TAGGED.size else 0
            if full:
                need = _FULL_OCTETS
        if need <= _IDLE_OCTETS:
            return _IDLE_OCTETS
        if len(self._scratch) < _FULL_OCTETS:
            self._scratch = self._scratch + bytes(_FULL_OCTETS - _IDLE_OCTETS)
            self.view = memoryview(self._scratch)
        return _FULL_OCTETS

    def _take_frames(self) -> int:
        """Takes all whole FPDUs out of the scratch buffer; returns the number of octets taken."""
        pos = 0
        if self._segment.trailer:
            pos = self._end_direct()
            if not pos:
                return 0
        scratch, view, filled, crc = self._scratch, self.view, self.filled, self.crc
        while True:
            available = filled - pos
            if available < TAGGED.size:
                if available >= 2:
                    _check_length(scratch[pos] << 8 | scratch[pos + 1], TAGGED_OCTETS)
                return pos
            header = TAGGED.unpack_from(scratch, pos)
            length, control, rdmap, stag, offset = header
            frame = (length + 5 & ~3) + 4
            least = TAGGED_OCTETS if control & _TAGGED_BIT else UNTAGGED_OCTETS
            if available < frame:
                _check_length(length, least)
                return filled if self._start_direct(pos, available, frame) else pos
            end = pos + frame
            if crc and crc32c(view[pos : end - 4]) != CRC.unpack_from(scratch, end - 4)[0]:
                raise Fault("CRC mismatch", Code.MPA_CRC)
            if length < least:
                _check_length(length, least)
            self.heard = True
            if control & _TAGGED_BIT:
                self._take_tagged(header, view[pos + TAGGED.size : pos + 2 + length])
                self._bulk = frame >= _BULK_FRAME_OCTETS and not control & LAST
            elif control != _WHOLE_UNTAGGED or not self._take_send(rdmap, stag, offset, pos, length):
                self._take_untagged(pos, length)
            pos = end

    def _take_tagged(self, header: tuple[int, ...], payload: memoryview) -> None:
        """A tagged segment that is in the scratch buffer as a whole."""
        _, control, rdmap, stag, offset = header
        octets = len(payload)
        violation = None
        # An RDMA Write of one segment can break only the rules of memory access.
        plain = control == _WHOLE_TAGGED and rdmap == WRITE and not (self._tagged_opened or self.ready_frame)
        if not plain:
            violation = self._check_tagged(control, rdmap, stag, offset, octets)
        if violation is None and octets:
            try:
                self._pd.find(stag, offset, octets, Access.REMOTE_WRITE)[:] = payload
            except RemoteAccessError as error:
                violation = str(error), tagged_code(error)
        if violation is not None:
            raise _fault(violation, header)
        if not plain:
            self._end_tagged(control, rdmap, stag, octets)

    def _take_send(self, rdmap: int, invalidate: int, queue_and_number: int, pos: int, length: int) -> bool:
        """A short path for the usual Send: a message of one segment that is in the scratch buffer as a whole.

        False, with nothing changed, if the Send is unusual or breaks a rule: `_take_untagged` then takes it.
        `queue_and_number` is queue number and MSN as one 64-bit number; for queue 0 it equals the MSN.
        """
        start = pos + UNTAGGED.size
        if (
            queue_and_number != self._msn[0]
            or rdmap not in {SEND, SEND_INVALIDATE}
            or self.ready_frame is not None
            or not self.shared
            or self.receives
            or self.pool is None
            or length - UNTAGGED_OCTETS > self.pool.octets
            or self._scratch[start - 4 : start] != _NO_OFFSET
        ):
            return False
        ended: int | None = None
        if rdmap == SEND_INVALIDATE:
            # `_take_untagged` reports an unknown handle to the peer.
            if self._pd.invalidate_handle(invalidate) is None:
                return False
            ended = invalidate
        octets = length - UNTAGGED_OCTETS
        self.shared -= 1
        self._msn[0] = queue_and_number + 1 & SEQUENCE_MASK
        buffer = self.pool.take()
        buffer[:octets] = self.view[start : start + octets]
        self._completions.append(_tuple(Completion, (buffer, Verb.RECEIVE, Status.SUCCESS, octets, ended)))
        return True

    def _take_untagged(self, pos: int, length: int) -> None:
        """An untagged segment that is in the scratch buffer as a whole."""
        header = UNTAGGED.unpack_from(self._scratch, pos)
        _, control, rdmap, invalidate, queue, _, offset = header
        octets = length - UNTAGGED_OCTETS
        violation = self._check_untagged(header, octets)
        start = pos + UNTAGGED.size
        if violation is not None:
            raise _fault(violation, header)
        if not queue:
            if self.ready_frame is not None:
                # The RTR frame is no message of the upper layer (RFC 6581 section 9.2): it takes no receive.
                self.ready_frame = None
                self._msn[0] = 2
                return
            if octets:
                self.receives[0][1][offset : offset + octets] = self.view[start : start + octets]
            self._end_send(control, rdmap, invalidate, octets, header)
        elif queue == _READ_QUEUE:
            self._take_read_request(header, start, octets)
        else:
            try:
                terminate = decode_terminate(self.view[start : start + octets])
            except DecodeError as error:
                raise RemoteProtocolError(f"an unintelligible Terminate: {error}") from None
            raise PeerTerminated(terminate)

    def _take_read_request(self, header: tuple[int, ...], start: int, octets: int) -> None:
        payload = bytes(self.view[start : start + min(octets, READ_HEADER_OCTETS)])
        if octets != READ_HEADER_OCTETS or not header[1] & LAST:
            code = Code.UNTAGGED_TOO_LONG if octets > READ_HEADER_OCTETS else Code.OPERATION_UNSPECIFIED
            raise _fault((f"an RDMA Read Request of {octets} octets", code), header)
        request = decode_read_header(payload)
        responses = self._sender.responses
        if len(responses) >= self.inbound_reads:
            raise _fault((f"more than {self.inbound_reads} RDMA Reads outstanding", Code.OPERATION_STREAM), header)
        # The handle and offset of a Read of no octets are not checked (RFC 5040 section 5.2.1).
        if request.length:
            if self.ready_frame is not None:
                raise _fault(("the ready-to-receive Read asks for data", Code.NO_MATCHING_RTR), header)
            try:
                self._pd.find(request.source_handle, request.source_offset, request.length, Access.REMOTE_READ)
            except RemoteAccessError as error:
                raise _fault((str(error), read_source_code(error)), header, payload) from None
        self.ready_frame = None
        self._msn[_READ_QUEUE] = self._msn[_READ_QUEUE] + 1 & SEQUENCE_MASK
        responses.append(ReadResponse(request, header))

    def _start_direct(self, pos: int, available: int, frame: int) -> bool:
        """Begins the payload phase for an FPDU that has partly arrived, if enough is still to come; True if begun."""
        if frame - available < _DIRECT_OCTETS_MIN:
            return False
        scratch = self._scratch
        header: tuple[int, ...]
        if scratch[pos + 2] & _TAGGED_BIT:
            size = TAGGED.size
            header = TAGGED.unpack_from(scratch, pos)
            length, control, rdmap, stag, offset = header
            payload = length - TAGGED_OCTETS
            violation = self._check_tagged(control, rdmap, stag, offset, payload)
            self._bulk = frame >= _BULK_FRAME_OCTETS and not control & LAST
        else:
            size = UNTAGGED.size
            if available < size or QUEUE_OF.get(scratch[pos + 3] & 0x0F) != 0:
                return False
            header = UNTAGGED.unpack_from(scratch, pos)
            payload = header[0] - UNTAGGED_OCTETS
            violation = self._check_untagged(header, payload)
            self._bulk = False
        segment = self._segment
        segment.header = header
        segment.fault = None if violation is None else _fault(violation, header)
        segment.trailer = trailer = frame - size - payload
        segment.placed = 0
        arrived = available - size
        self.left = arrived
        if arrived:
            self._find_target()[:] = self.view[pos + size : pos + available]
        segment.placed = arrived
        self.left = payload - arrived
        if self.crc:
            segment.digest = crc32c(self.view[pos : pos + available])
        self.limit = trailer + TAGGED.size if self._bulk else _IDLE_OCTETS
        return True

    def _follow_on(self) -> bool:
        """A short path for bulk: the scratch buffer has an FPDU's CRC and the header of its message's next FPDU.

        Ends the one and begins the payload phase of the other. False, with nothing changed, if either is unusual.
        """
        segment = self._segment
        length, control, rdmap, stag, offset = segment.header
        trailer = segment.trailer
        following = TAGGED.unpack_from(self._scratch, trailer)
        next_length, next_control, next_rdmap, next_stag, next_offset = following
        payload = length - TAGGED_OCTETS
        next_payload = next_length - TAGGED_OCTETS
        if (
            trailer != CRC.size
            or segment.fault is not None
            or next_stag != stag
            or next_rdmap != rdmap
            or next_offset != offset + payload
            or next_control | LAST != control | LAST
            or next_payload < _DIRECT_OCTETS_MIN
            or (self.crc and segment.digest != CRC.unpack_from(self._scratch)[0])
        ):
            return False
        last = next_control & LAST
        if rdmap & 0x0F == _READ_RESPONSE_OPCODE:
            read = self._sender.reads[0]
            received = read.received + payload
            if received + next_payload > read.length or (last and received + next_payload != read.length):
                return False
            read.received = received
        self.heard = True
        self._tagged_opened = rdmap, stag
        segment.header = following
        segment.placed = 0
        self.left = next_payload
        segment.trailer = trailer = (-(next_length + 2) & 3) + CRC.size
        if self.crc:
            segment.digest = crc32c(self.view[CRC.size : CRC.size + TAGGED.size])
        if last:
            self._bulk = False
            self.limit = _IDLE_OCTETS
        else:
            self.limit = trailer + TAGGED.size
        return True

    def _end_direct(self) -> int:
        """Ends the trailer phase: checks the CRC. Returns the octets of padding and CRC, or 0 if some are missing."""
        segment = self._segment
        trailer = segment.trailer
        if self.filled < trailer:
            return 0
        digest = segment.digest
        if self.crc:
            if trailer > CRC.size:
                digest = crc32c(self.view[: trailer - CRC.size], digest)
            if digest != CRC.unpack_from(self._scratch, trailer - CRC.size)[0]:
                raise Fault("CRC mismatch", Code.MPA_CRC)
        self.heard = True
        segment.trailer = 0
        if segment.fault is not None:
            raise segment.fault
        header = segment.header
        _, control, rdmap, word, *_ = header
        if control & _TAGGED_BIT:
            self._end_tagged(control, rdmap, word, segment.placed)
        else:
            self._end_send(control, rdmap, word, segment.placed, header)
        return trailer

    def _check_tagged(self, control: int, rdmap: int, stag: int, offset: int, octets: int) -> _Violation | None:
        """The rule that a tagged segment breaks, other than those of memory access (RFC 5041 7.1, RFC 5040 7.2)."""
        if control & _VERSION != 1:
            return f"DDP version {control & _VERSION}", Code.TAGGED_VERSION
        if rdmap & _RDMAP_VERSION != 0x40:
            return f"RDMAP version {rdmap >> 6}", Code.OPERATION_VERSION
        opcode = rdmap & 0x0F
        if self.ready_frame is not None:
            if opcode != _WRITE_OPCODE or octets or not control & LAST or self.ready_frame is not ReadyFrame.WRITE:
                return "not the ready-to-receive frame that was agreed on", Code.NO_MATCHING_RTR
            self.ready_frame = None
        opened = self._tagged_opened
        if opened is not None:
            if opened[0] & 0x0F != opcode:
                return "the opcode changed within a tagged message", Code.OPERATION_OPCODE
            if opened[1] != stag:
                return "the handle changed within a tagged message", Code.TAGGED_STAG
        if opcode == _READ_RESPONSE_OPCODE:
            reads = self._sender.reads
            if not reads:
                return "an RDMA Read Response that nobody asked for", Code.OPERATION_OPCODE
            read = reads[0]
            received = read.received
            # Steering tag and offset of an empty segment are not checked (RFC 5041 section 5.2).
            if octets and stag != read.sink_handle:
                return f"an RDMA Read Response for handle {stag:#010x}", Code.TAGGED_STAG
            if octets and offset != read.sink_offset + received:
                return f"an RDMA Read Response for offset {offset:#x}", Code.TAGGED_BOUNDS
            received += octets
            if received > read.length or (control & LAST and received != read.length):
                return f"{received} octets in answer to an RDMA Read of {read.length}", Code.TAGGED_BOUNDS
        elif opcode != _WRITE_OPCODE:
            return f"opcode {opcode:#x} in a tagged segment", Code.OPERATION_OPCODE
        return None

    def _end_tagged(self, control: int, rdmap: int, stag: int, octets: int) -> None:
        """A tagged segment is in place."""
        if rdmap & 0x0F == _READ_RESPONSE_OPCODE:
            read = self._sender.reads[0]
            read.received += octets
            if control & LAST:
                self._sender.read_answered()
        self._tagged_opened = None if control & LAST else (rdmap, stag)

    def _check_untagged(self, header: tuple[int, ...], octets: int) -> _Violation | None:
        """The rule that an untagged segment breaks, those of its buffer included (RFC 5041 7.1, RFC 5040 7.2)."""
        _, control, rdmap, invalidate, queue, msn, offset = header
        if control & _VERSION != 1:
            return f"DDP version {control & _VERSION}", Code.UNTAGGED_VERSION
        if rdmap & _RDMAP_VERSION != 0x40:
            return f"RDMAP version {rdmap >> 6}", Code.OPERATION_VERSION
        expected = QUEUE_OF.get(rdmap & 0x0F)
        if expected is None:
            return f"opcode {rdmap & 0x0F:#x} in an untagged segment", Code.OPERATION_OPCODE
        if queue != expected:
            return f"queue {queue} for opcode {rdmap & 0x0F:#x}", Code.UNTAGGED_QUEUE
        if msn != self._msn[queue]:
            return f"message {msn} of queue {queue} instead of {self._msn[queue]}", Code.UNTAGGED_MSN
        if queue:
            if self.ready_frame is not None and not (queue == _READ_QUEUE and self.ready_frame is ReadyFrame.READ):
                return "not the ready-to-receive frame that was agreed on", Code.NO_MATCHING_RTR
            return (f"message offset {offset}", Code.UNTAGGED_MO) if offset else None
        if self.ready_frame is not None:
            if octets or not control & LAST or self.ready_frame is not ReadyFrame.SEND:
                return "not the ready-to-receive frame that was agreed on", Code.NO_MATCHING_RTR
            return None
        if not self.receives and not self._draw():
            return "a Send, but no receive is posted", Code.UNTAGGED_NO_BUFFER
        placed = self._send_octets
        if offset != placed:
            return f"message offset {offset} instead of {placed}", Code.UNTAGGED_MO
        if placed and self._send_opened != (rdmap, invalidate):
            return "the RDMAP header changed within a message", Code.OPERATION_UNSPECIFIED
        room = len(self.receives[0][1])
        if placed + octets > room:
            return f"a Send of at least {placed + octets} octets for a receive of {room}", Code.UNTAGGED_TOO_LONG
        return None

    def _end_send(self, control: int, rdmap: int, invalidate: int, octets: int, header: tuple[int, ...]) -> None:
        """A segment of a Send is in place; the last one delivers the message."""
        octets += self._send_octets
        if not control & LAST:
            self._send_octets = octets
            self._send_opened = (rdmap, invalidate)
            return
        ended: int | None = None
        # Opcodes 4 and 6 are the ones with Invalidate.
        if not rdmap & 1:
            if self._pd.invalidate_handle(invalidate) is None:
                raise _fault((f"handle {invalidate:#010x} cannot be invalidated", Code.PROTECTION_INVALIDATE), header)
            ended = invalidate
        self._send_octets = 0
        self._msn[0] = self._msn[0] + 1 & SEQUENCE_MASK
        wr, _ = self.receives.popleft()
        self._completions.append(Completion(wr, Verb.RECEIVE, Status.SUCCESS, octets, ended))


def _check_length(length: int, least: int) -> None:
    if length < least:
        raise Fault(f"a ULPDU of {length} octets has no room for its header", Code.DDP_CATASTROPHIC)


def _fault(violation: _Violation, header: tuple[int, ...], read_header: bytes = b"") -> Fault:
    """The Fault with the headers of the segment, `header` being TAGGED or UNTAGGED."""
    layout = TAGGED if header[1] & _TAGGED_BIT else UNTAGGED
    return Fault(
        violation[0],
        violation[1],
        segment_octets=header[0],
        ddp_header=layout.pack(*header)[2:],
        read_header=read_header,
    )
