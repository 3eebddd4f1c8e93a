"""The receiving half of full operation: from octets to placed memory and delivered messages.

The driver asks for the buffers of the next octets (`next_buffers`) and says how many octets came (`received`). The
receiver is in one of three phases:

- scratch: octets go into a small scratch buffer, where whole FPDUs are found, checked and taken apart;
- payload (`direct.left` > 0): the payload of a large FPDU goes from the socket straight into its target memory. The
  FPDU's header has arrived and has passed every check of DDP and RDMAP; the scatter list is [rest of the target,
  scratch];
- trailer (`direct.trailer` > 0, `direct.left` 0): padding and CRC of that FPDU are awaited in the scratch buffer.

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
from rpcrdma.iwarp.framing import CRC, size_fpdu
from rpcrdma.iwarp.outbound import ReadResponse
from rpcrdma.iwarp.segments import (
    LAST,
    QUEUE_OF,
    READ_HEADER_OCTETS,
    SEQUENCE_MASK,
    TAGGED,
    TAGGED_OCTETS,
    UNTAGGED,
    UNTAGGED_OCTETS,
    decode_read_header,
)
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.tagged import DDP_VERSION, RDMAP_VERSION, TaggedMessages
from rpcrdma.iwarp.terminate import (
    Code,
    PeerTerminated,
    TerminateFault,
    Violation,
    decode_terminate,
    fault_of,
    read_source_code,
    tagged_code,
)
from rpcrdma.verbs.memory import Access, SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Completion, Status, Verb
from rpcrdma.verbs.receive_pool import ReceiveBuffer, ReceiveSource, ScatteredBuffer
from rpcrdma.wire.checksum import crc32c

__all__ = ["DirectPayload", "Receiver", "Scratch", "write_into"]

_DISCARD = memoryview(bytearray(1 << 16))
"""Payload without a target is received here and never read; an FPDU has less than 64 KiB."""

_NOWHERE = _DISCARD[:0]
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

_LENGTH_OCTETS = 2
"""Octets of ULPDU_Length; the next one is the DDP control octet."""

_READ_QUEUE = 1
_TAGGED_BIT = 0x80


class Scratch:
    """Memory in which octets are received whose place is not known yet; `view` is all of it.

    Nothing stays in one that queue pairs share: a queue pair with an incomplete FPDU takes memory of its own.
    """

    __slots__ = ("octets", "view")

    def __init__(self) -> None:
        self.octets = bytearray(_IDLE_OCTETS)
        self.view = memoryview(self.octets)


class DirectPayload:
    """The FPDU whose payload goes from the socket straight into its target memory.

    One record serves all such FPDUs of a connection, one after another.

    `header` has the fields of TAGGED or UNTAGGED. `placed` counts the payload's octets received so far, `left` those
    still to come, `digest` is the CRC over the header and the former. `trailer` counts the octets of padding and CRC;
    it is 0 while nothing is received in this way. `fault` is the rule that the segment breaks. `target` is the memory
    that was handed out last for the rest of the payload.
    """

    __slots__ = ("digest", "fault", "header", "left", "placed", "target", "trailer")

    def __init__(self) -> None:
        self.header: tuple[int, ...] = ()
        self.placed = 0
        self.left = 0
        self.digest = 0
        self.trailer = 0
        self.fault: TerminateFault | None = None
        self.target = _NOWHERE


class Receiver:
    """The receive queue, the scratch buffer, and the state of the messages that have partly arrived.

    `view` is the scratch buffer: `filled` octets of it hold received data, and `limit` bounds the part that is offered.
    It is the memory of `scratch` until an FPDU has arrived in part.
    `direct` is the payload that goes straight to its target, `tagged` the open tagged message. `heard` is True once
    a valid FPDU has come. `ready_frame` is the RTR frame that must come first, if any. `shared` counts the posted
    receives whose buffers come from `pool` when a message arrives.
    """

    __slots__ = (
        "_bulk",
        "_completions",
        "_full",
        "_msn",
        "_own_scratch",
        "_pd",
        "_scratch",
        "_send_octets",
        "_send_opened",
        "_sender",
        "crc",
        "direct",
        "filled",
        "heard",
        "inbound_reads",
        "limit",
        "pool",
        "ready_frame",
        "receives",
        "shared",
        "tagged",
        "view",
    )

    def __init__(
        self, pd: SoftwareProtectionDomain, sender: Sender, completions: deque[Completion], scratch: Scratch
    ) -> None:
        self._pd = pd
        self._sender = sender
        self._completions = completions
        self._scratch = scratch.octets
        self.view = scratch.view
        self._own_scratch = False
        self.filled = 0
        self.limit = _IDLE_OCTETS
        self.direct = DirectPayload()
        # The next MSN of queues 0 to 2.
        self._msn = [1, 1, 1]
        # The partly received Send: octets placed, and the RDMAP control and Invalidate STag of its first segment.
        self._send_octets = 0
        self._send_opened = (0, 0)
        self.tagged = TaggedMessages(sender)
        # Whether a large FPDU of the open tagged message is to come next.
        self._bulk = False
        # Whether the last receive filled the part that was offered: many small FPDUs may follow.
        self._full = False
        self.crc = True
        self.heard = False
        self.inbound_reads = 0
        self.ready_frame: ReadyFrame | None = None
        self.receives: deque[tuple[object, ReceiveBuffer]] = deque()
        self.shared = 0
        self.pool: ReceiveSource | None = None

    def flush(self) -> None:
        """Ends all receives, and lets go of an incomplete FPDU."""
        for wr, _ in self.receives:
            self._completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
        self.receives.clear()
        self.shared = 0
        self.direct.target = _NOWHERE
        self._forget_octets()

    def _forget_octets(self) -> None:
        """Lets go of the octets of an incomplete FPDU, and of the memory that they were received into."""
        self.filled = 0
        self._own(bytearray(), 0, 0)

    def _continue_with(self, octets: bytes) -> None:
        """Goes on with octets that another receiver has not taken."""
        self._own(bytearray(_FULL_OCTETS), 0, 0)
        self.filled = len(octets)
        self.view[: self.filled] = octets
        self._bulk = self._full = False

    def post(self, count: int, pool: ReceiveSource) -> None:
        """Posts receives whose buffers come from `pool` when messages arrive."""
        self.shared += count
        self.pool = pool

    @property
    def mid_frame(self) -> bool:
        """Whether an FPDU has arrived in part."""
        return bool(self.direct.trailer or self.filled)

    def next_buffers(self) -> list[memoryview]:
        """The buffers for the next octets. To be asked before each receive: memory may have been invalidated.

        The offered part of the scratch buffer, `view[filled:limit]`, preceded by the target of the payload if octets
        of one are left.
        """
        direct = self.direct
        if not direct.left:
            return [self._free_scratch()]
        direct.target = target = self._find_target()
        # Behind a piece of scattered memory, the rest of a Send belongs into another one.
        return [target] if len(target) < direct.left else [target, self._free_scratch()]

    def _free_scratch(self) -> memoryview:
        """The offered part of the scratch buffer."""
        filled = self.filled
        header_end = self.direct.trailer + TAGGED.size
        if self._bulk and filled < header_end:
            self.limit = header_end
        elif self._full or (filled >= TAGGED.size and size_fpdu(self._ulpdu_octets(0)) > _IDLE_OCTETS):
            self.limit = _FULL_OCTETS
            if len(self.view) < _FULL_OCTETS:
                self._own(bytearray(_FULL_OCTETS), 0, filled)
        else:
            self.limit = _IDLE_OCTETS
        return self.view[filled : self.limit]

    def _find_target(self) -> memoryview:
        """The memory for the rest of the payload, or for as much of it as belongs into one piece of scattered memory.

        `_DISCARD` if the segment breaks a rule or its region has ended.
        """
        direct = self.direct
        placed, left = direct.placed, direct.left
        if direct.fault is None:
            header = direct.header
            if not header[1] & _TAGGED_BIT:
                start = header[6] + placed
                buffer = self._arriving()
                if isinstance(buffer, ScatteredBuffer):
                    return buffer.target(start, left)
                return buffer[start : start + left]
            try:
                return self._pd.find(header[3], header[4] + placed, left, Access.REMOTE_WRITE)
            except RemoteAccessError as error:
                direct.fault = fault_of((str(error), tagged_code(error)), header)
        return _DISCARD[:left]

    def received(self, octets: int) -> None:
        """Takes `octets` more, which fill the buffers of `next_buffers` in order.

        Raises:
            TerminateFault: the peer broke a rule.
            PeerTerminated: the peer sent a Terminate.
            RemoteProtocolError: the peer sent a Terminate that does not decode.
        """
        direct = self.direct
        if direct.left:
            part = min(octets, direct.left)
            if self.crc:
                direct.digest = crc32c(direct.target[:part], direct.digest)
            direct.placed += part
            direct.left -= part
            if direct.left:
                return
            octets -= part
        self.filled += octets
        full = self.filled == self.limit
        taken = self._end_direct() if direct.trailer else 0
        while not direct.trailer and (frame := self._take_fpdu(taken)):
            taken += frame
        self.filled -= taken
        if self.filled and (taken or not self._own_scratch):
            self._keep(taken, self.filled)
        self._full = full and not (self._bulk or direct.trailer)

    def _ulpdu_octets(self, pos: int) -> int:
        """The ULPDU_Length at octet `pos` of the scratch buffer."""
        return self._scratch[pos] << 8 | self._scratch[pos + 1]

    def _take_fpdu(self, pos: int) -> int:
        """Takes the FPDU at octet `pos` of the scratch buffer, if it is whole or may go straight to its target.

        Returns how many octets of it were taken; 0 if more have to come first.
        """
        available = self.filled - pos
        if available < _LENGTH_OCTETS:
            return 0
        length = self._ulpdu_octets(pos)
        if length < TAGGED_OCTETS:
            raise _too_short(length)
        if available < TAGGED.size:
            return 0
        scratch = self._scratch
        tagged = scratch[pos + _LENGTH_OCTETS] & _TAGGED_BIT
        if length < UNTAGGED_OCTETS and not tagged:
            raise _too_short(length)
        frame = size_fpdu(length)
        if available < frame:
            return self._start_direct(pos, available, frame)
        end = pos + frame - CRC.size
        if self.crc and crc32c(self.view[pos:end]) != CRC.unpack_from(scratch, end)[0]:
            raise TerminateFault("CRC mismatch", Code.MPA_CRC)
        self.heard = True
        if tagged:
            self._take_tagged(pos, length)
        else:
            self._take_untagged(pos, length)
        return frame

    def _keep(self, taken: int, filled: int) -> None:
        """Moves the octets of an incomplete FPDU to the start of the scratch buffer, which is this receiver's own."""
        if self._own_scratch:
            self.view[:filled] = self.view[taken : taken + filled]
        else:
            self._own(bytearray(_IDLE_OCTETS), taken, filled)

    def _own(self, scratch: bytearray, start: int, octets: int) -> None:
        """Switches to `scratch`, with `octets` of the previous one from `start` on."""
        scratch[:octets] = self.view[start : start + octets]
        self._scratch = scratch
        self.view = memoryview(scratch)
        self._own_scratch = True

    def _take_tagged(self, pos: int, length: int) -> None:
        """A tagged segment that is in the scratch buffer as a whole."""
        header = TAGGED.unpack_from(self._scratch, pos)
        _, control, rdmap, stag, offset = header
        octets = length - TAGGED_OCTETS
        violation = self.tagged.check(header, octets, self.ready_frame)
        if violation is None and octets:
            start = pos + TAGGED.size
            try:
                self._pd.find(stag, offset, octets, Access.REMOTE_WRITE)[:] = self.view[start : start + octets]
            except RemoteAccessError as error:
                violation = str(error), tagged_code(error)
        if violation is not None:
            raise fault_of(violation, header)
        self.ready_frame = None
        self._bulk = size_fpdu(length) >= _BULK_FRAME_OCTETS and not control & LAST
        self.tagged.end(control, rdmap, stag, octets)

    def _take_untagged(self, pos: int, length: int) -> None:
        """An untagged segment that is in the scratch buffer as a whole."""
        header = UNTAGGED.unpack_from(self._scratch, pos)
        start = pos + UNTAGGED.size
        octets = length - UNTAGGED_OCTETS
        payload = self.view[start : start + octets]
        violation = self._check_untagged(header, octets)
        if violation is not None:
            raise fault_of(violation, header)
        queue = header[4]
        if not queue:
            self._take_send(header, payload)
        elif queue == _READ_QUEUE:
            self._take_read_request(header, payload)
        else:
            try:
                terminate = decode_terminate(payload)
            except DecodeError as error:
                raise RemoteProtocolError(f"an unintelligible Terminate: {error}") from None
            raise PeerTerminated(terminate)

    def _take_send(self, header: tuple[int, ...], payload: memoryview) -> None:
        """A segment of a Send that is in the scratch buffer as a whole."""
        _, control, _, _, _, _, offset = header
        if self.ready_frame is not None:
            # The RTR frame is no message of the upper layer (RFC 6581 section 9.2): it takes no receive.
            self.ready_frame = None
            self._msn[0] = 2
            return
        octets = len(payload)
        pool = self.pool
        if pool is not None and not self.receives and control & LAST and not offset and octets <= pool.short_octets:
            data = bytes(payload)
            self.shared -= 1
            self.receives.append((data, payload))
        elif octets:
            write_into(self._arriving(), offset, payload)
        self._end_send(header, octets)

    def _arriving(self) -> ReceiveBuffer:
        """The buffer of the arriving Send, drawn from the pool unless a receive was posted with its own."""
        if not self.receives:
            assert self.pool is not None
            self.shared -= 1
            buffer = self.pool.draw()
            self.receives.append((buffer, buffer))
        return self.receives[0][1]

    def _take_read_request(self, header: tuple[int, ...], payload: memoryview) -> None:
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
            if self.ready_frame is not None:
                raise fault_of(("the ready-to-receive Read asks for data", Code.NO_MATCHING_RTR), header)
            try:
                self._pd.find(request.source_handle, request.source_offset, request.length, Access.REMOTE_READ)
            except RemoteAccessError as error:
                raise fault_of((str(error), read_source_code(error)), header, bytes(payload)) from None
        self.ready_frame = None
        self._msn[_READ_QUEUE] = self._msn[_READ_QUEUE] + 1 & SEQUENCE_MASK
        responses.append(ReadResponse(request, header))

    def _start_direct(self, pos: int, available: int, frame: int) -> int:
        """Begins the payload phase for an FPDU that has partly arrived, if enough is still to come.

        Returns `available`, or 0 if the phase has not begun.
        """
        if frame - available < _DIRECT_OCTETS_MIN:
            return 0
        scratch = self._scratch
        header: tuple[int, ...]
        if scratch[pos + _LENGTH_OCTETS] & _TAGGED_BIT:
            size = TAGGED.size
            header = TAGGED.unpack_from(scratch, pos)
            payload = header[0] - TAGGED_OCTETS
            violation = self.tagged.check(header, payload, self.ready_frame)
            self._bulk = frame >= _BULK_FRAME_OCTETS and not header[1] & LAST
        else:
            size = UNTAGGED.size
            if available < size or QUEUE_OF.get(scratch[pos + 3] & 0x0F) != 0:
                return 0
            header = UNTAGGED.unpack_from(scratch, pos)
            payload = header[0] - UNTAGGED_OCTETS
            violation = self._check_untagged(header, payload)
            self._bulk = False
        direct = self.direct
        direct.header = header
        direct.fault = None if violation is None else fault_of(violation, header)
        direct.trailer = frame - size - payload
        direct.placed = 0
        direct.left = payload
        arrived = self.view[pos + size : pos + available]
        while arrived:
            target = self._find_target()[: len(arrived)]
            octets = len(target)
            target[:] = arrived[:octets]
            direct.placed += octets
            direct.left -= octets
            arrived = arrived[octets:]
        if self.crc:
            direct.digest = crc32c(self.view[pos : pos + available])
        return available

    def _end_direct(self) -> int:
        """Ends the trailer phase: checks the CRC. Returns the octets of padding and CRC, or 0 if some are missing."""
        direct = self.direct
        trailer = direct.trailer
        if self.filled < trailer:
            return 0
        if self.crc:
            padding = trailer - CRC.size
            if crc32c(self.view[:padding], direct.digest) != CRC.unpack_from(self._scratch, padding)[0]:
                raise TerminateFault("CRC mismatch", Code.MPA_CRC)
        self.heard = True
        direct.trailer = 0
        # The memory is complete, and its owner's again.
        direct.target = _NOWHERE
        if direct.fault is not None:
            raise direct.fault
        _, control, rdmap, stag, *_ = direct.header
        if control & _TAGGED_BIT:
            self.tagged.end(control, rdmap, stag, direct.placed)
        else:
            self._end_send(direct.header, direct.placed)
        return trailer

    def _check_untagged(self, header: tuple[int, ...], octets: int) -> Violation | None:
        """The rule that an untagged segment breaks, those of its buffer included (RFC 5041 7.1, RFC 5040 7.2)."""
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
        if not (self.receives or self.shared):
            return "a Send, but no receive is posted", Code.UNTAGGED_NO_BUFFER
        placed = self._send_octets
        if offset != placed:
            return f"message offset {offset} instead of {placed}", Code.UNTAGGED_MO
        if placed and self._send_opened != (rdmap, invalidate):
            return "the RDMAP header changed within a message", Code.OPERATION_UNSPECIFIED
        room = len(self.receives[0][1]) if self.receives or self.pool is None else self.pool.octets
        if placed + octets > room:
            return f"a Send of at least {placed + octets} octets for a receive of {room}", Code.UNTAGGED_TOO_LONG
        return None

    def _end_send(self, header: tuple[int, ...], octets: int) -> None:
        """A segment of a Send with `octets` of payload is in place; the last one delivers the message."""
        _, control, rdmap, invalidate, *_ = header
        octets += self._send_octets
        if not control & LAST:
            self._send_octets = octets
            self._send_opened = (rdmap, invalidate)
            return
        ended: int | None = None
        # Opcodes 4 and 6 are the ones with Invalidate.
        if not rdmap & 1:
            if self._pd.invalidate_handle(invalidate) is None:
                raise fault_of((f"handle {invalidate:#010x} cannot be invalidated", Code.PROTECTION_INVALIDATE), header)
            ended = invalidate
        self._send_octets = 0
        self._msn[0] = self._msn[0] + 1 & SEQUENCE_MASK
        wr, _ = self.receives.popleft()
        self._completions.append(Completion(wr, Verb.RECEIVE, Status.SUCCESS, octets, ended))


def write_into(buffer: ReceiveBuffer, start: int, data: memoryview) -> None:
    """Writes octets of a message into a receive buffer from `start` on."""
    if isinstance(buffer, ScatteredBuffer):
        buffer.write(start, data)
    else:
        buffer[start : start + len(data)] = data


def _too_short(length: int) -> TerminateFault:
    return TerminateFault(f"a ULPDU of {length} octets has no room for its header", Code.DDP_CATASTROPHIC)
