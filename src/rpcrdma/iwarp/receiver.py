"""The receiving half of full operation: from octets to placed memory and delivered messages.

The driver asks for the buffers of the next octets (`next_buffers`) and says how many octets came (`received`). The
receiver is in one of three phases:

- scratch: octets go into a small scratch buffer, where whole FPDUs are found, checked and taken apart;
- payload (`run.left` > 0): the payload of a large FPDU goes from the socket straight into its target memory. The
  FPDU's header has arrived and has passed every check of DDP and RDMAP; the scatter list is [rest of the target,
  scratch];
- trailer (`run.trailer` > 0, `run.left` 0): padding and CRC of that FPDU are awaited in the scratch buffer.

The usual FPDUs of one tagged message are handled together in one step, in both places (`runs`).

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
from rpcrdma.iwarp.tagged import (
    DDP_VERSION,
    DIRECT_OCTETS_MIN,
    DISCARD,
    RDMAP_VERSION,
    READ_RESPONSE_OPCODE,
    DirectRun,
    Receive,
    TaggedMessages,
    take_direct_run,
)
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

__all__ = ["Receiver", "Scratch", "write_into"]

_NOWHERE = DISCARD[:0]
_IDLE_OCTETS = 1 << 13
"""Scratch octets offered while no large FPDU is expected: room for several small Sends in one system call, and for
little of a bulk payload, which would have to be copied."""

_FULL_OCTETS = 9 << 13
"""Scratch octets offered after one receive has filled `_IDLE_OCTETS`: room for any FPDU, and for many small ones."""

_BULK_FRAME_OCTETS = 4096
"""After an FPDU of at least this size only the header of its message's next one is received into the scratch buffer,
and its payload straight into the target. Smaller FPDUs are received many at a time, and copied."""

_READ_QUEUE = 1
_TAGGED_BIT = 0x80
_WHOLE_TAGGED, _WHOLE_UNTAGGED = TAGGED_CONTROL | LAST, UNTAGGED_CONTROL | LAST
"""The DDP control octets of a message that is one segment."""

_NO_OFFSET = bytes(4)
"""The Message Offset of a first segment."""

_RECEIVE, _SUCCESS = Verb.RECEIVE, Status.SUCCESS

_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


class Scratch:
    """Memory in which octets are received whose place is not known yet; `view` is all of it.

    Nothing stays in one that queue pairs share: a queue pair with an incomplete FPDU takes memory of its own.
    """

    __slots__ = ("octets", "view")

    def __init__(self) -> None:
        self.octets = bytearray(_IDLE_OCTETS)
        self.view = memoryview(self.octets)


class Receiver:
    """The receive queue, the scratch buffer, and the state of the messages that have partly arrived.

    `view` is the scratch buffer: `filled` octets of it hold received data, and `limit` bounds the part that is offered.
    It is the memory of `scratch` until an FPDU has arrived in part.
    `run` is the payload that goes straight to its target, `tagged` the open tagged message. `heard` is True once
    a valid FPDU has come. `ready_frame` is the RTR frame that must come first, if any. `shared` counts the posted
    receives whose buffers come from `pool` when a message arrives.
    """

    __slots__ = (
        "_bulk",
        "_completions",
        "_msn",
        "_own_scratch",
        "_pd",
        "_scratch",
        "_send_octets",
        "_send_opened",
        "_sender",
        "crc",
        "filled",
        "heard",
        "inbound_reads",
        "limit",
        "pool",
        "ready_frame",
        "receives",
        "run",
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
        # Phases of payload and trailer.
        self.run = DirectRun()
        # The next MSN of queues 0 to 2.
        self._msn = [1, 1, 1]
        # The partly received Send: octets placed, and the RDMAP control and Invalidate STag of its first segment.
        self._send_octets = 0
        self._send_opened = (0, 0)
        self.tagged = TaggedMessages(pd, sender)
        # Whether a large FPDU of the open tagged message is to come next.
        self._bulk = False
        self.crc = True
        self.heard = False
        self.inbound_reads = 0
        self.ready_frame: ReadyFrame | None = None
        self.receives: deque[tuple[object, ReceiveBuffer]] = deque()
        self.shared = 0
        self.pool: ReceiveSource | None = None

    def _draw(self) -> bool:
        """Posts a receive with a buffer of the pool for the arriving Send; False if no receive is left."""
        if not self.shared:
            return False
        assert self.pool is not None
        self.shared -= 1
        buffer = self.pool.draw()
        self.receives.append((buffer, buffer))
        return True

    def flush(self) -> None:
        """Ends all receives, and lets go of an incomplete FPDU."""
        for wr, _ in self.receives:
            self._completions.append(Completion(wr, Verb.RECEIVE, Status.FLUSHED))
        self.receives.clear()
        self.shared = 0
        self.run.target = _NOWHERE
        self.run.region = None
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
        self.limit = _FULL_OCTETS
        self._bulk = False

    def post(self, count: int, pool: ReceiveSource) -> None:
        """Posts receives whose buffers come from `pool` when messages arrive."""
        self.shared += count
        self.pool = pool

    @property
    def mid_frame(self) -> bool:
        """Whether an FPDU has arrived in part."""
        return bool(self.run.trailer or self.filled)

    def next_buffers(self) -> list[memoryview]:
        """The buffers for the next octets. To be asked before each receive: memory may have been invalidated.

        The offered part of the scratch buffer, `view[filled:limit]`, preceded by the target of the payload if octets
        of one are left.
        """
        run = self.run
        left = run.left
        if not left:
            return [self.view[self.filled : self.limit]]
        region = run.region
        if region is None or region.abandoned or self._pd.regions.get(region.handle) is not region:
            target = self._find_target()
        else:
            start = run.header[4] + run.placed - region.offset
            target = region.view[start : start + left]
        run.target = target
        if len(target) < left:
            # The rest of a Send that is scattered belongs into other memory.
            return [target]
        self.limit = limit = run.trailer + TAGGED.size if self._bulk else _IDLE_OCTETS
        return [target, self.view[:limit]]

    def _find_target(self) -> memoryview:
        """The memory for the rest of the payload; `DISCARD` if the segment breaks a rule or its region has ended."""
        run = self.run
        run.region = None
        run.exact = False
        if run.fault is None:
            length, control, rdmap, word, *rest = run.header
            if not control & _TAGGED_BIT:
                start = rest[2] + run.placed
                buffer = self.receives[0][1]
                if isinstance(buffer, ScatteredBuffer):
                    return buffer.target(start, run.left)
                return buffer[start : start + run.left]
            try:
                target = self._pd.find(word, rest[0], length - TAGGED_OCTETS, Access.REMOTE_WRITE)
            except RemoteAccessError as error:
                run.fault = fault_of((str(error), tagged_code(error)), run.header)
            else:
                region = self._pd.regions[word]
                if not region.abandoned:
                    run.region = region
                    run.exact = rdmap & 0x0F == READ_RESPONSE_OPCODE
                    run.bound = self.tagged.bound(region, rdmap)
                return target[run.placed : run.placed + run.left]
        return DISCARD[: run.left]

    def received(self, octets: int, receive: Receive | None, most: int) -> int:
        """Takes `octets` more, which fill the buffers of `next_buffers` in order, and a run of FPDUs from `receive`.

        Of the latter, no more is asked for after `most` octets. Returns how many of these are left, 0 if there is
        nothing more to receive.

        Raises:
            TerminateFault: the peer broke a rule.
            PeerTerminated: the peer sent a Terminate.
            RemoteProtocolError: the peer sent a Terminate that does not decode.
        """
        run = self.run
        if run.left:
            run.most = most
            octets = take_direct_run(run, octets, self.view, _IDLE_OCTETS, receive, crc=self.crc)
            if run.ended:
                # FPDUs of a tagged message are in place, and `run` has its next one.
                _, control, rdmap, stag, _ = run.header
                self.heard = True
                self.tagged.end(0, rdmap, stag, run.ended)
                self._bulk = not control & LAST
                self.limit = run.trailer + TAGGED.size if self._bulk else _IDLE_OCTETS
            most = run.most
            if octets < 0:
                return most
        self.filled = filled = self.filled + octets
        full = filled == self.limit
        pos = self._end_direct() if run.trailer else 0
        scratch, view, crc = self._scratch, self.view, self.crc
        # All whole FPDUs in the scratch buffer, of which `pos` octets are taken.
        while not run.trailer:
            available = filled - pos
            if available < TAGGED.size:
                if available >= 2 and (length := scratch[pos] << 8 | scratch[pos + 1]) < TAGGED_OCTETS:
                    raise _too_short(length)
                break
            header = TAGGED.unpack_from(scratch, pos)
            length, control, rdmap, stag, offset = header
            frame = (length + 5 & ~3) + 4
            least = TAGGED_OCTETS if control & _TAGGED_BIT else UNTAGGED_OCTETS
            if available < frame:
                if length < least:
                    raise _too_short(length)
                if self._start_direct(pos, available, frame):
                    pos = filled
                break
            end = pos + frame
            if crc and crc32c(view[pos : end - 4]) != CRC.unpack_from(scratch, end - 4)[0]:
                raise TerminateFault("CRC mismatch", Code.MPA_CRC)
            if length < least:
                raise _too_short(length)
            self.heard = True
            if control & _TAGGED_BIT:
                self._take_tagged(header, view[pos + TAGGED.size : pos + 2 + length])
                self._bulk = frame >= _BULK_FRAME_OCTETS and not control & LAST
                if not control & LAST and end < filled:
                    end += self.tagged.take_run(header, view[end:filled], crc=crc)
                    self._bulk = self._bulk and self.tagged.opened is not None
            elif control != _WHOLE_UNTAGGED or not self._take_send(rdmap, stag, offset, pos, length):
                self._take_untagged(pos, length)
            pos = end
        self.filled = filled = filled - pos
        if filled and (pos or not self._own_scratch):
            self._keep(pos, filled)
        if run.trailer:
            return most
        if not (filled or full or self._bulk):
            self.limit = _IDLE_OCTETS
        elif self._bulk and filled < TAGGED.size:
            self.limit = TAGGED.size
        else:
            scratch = self._scratch
            need = size_fpdu(scratch[0] << 8 | scratch[1]) if filled >= TAGGED.size else 0
            if (full and not self._bulk) or need > _IDLE_OCTETS:
                if len(scratch) < _FULL_OCTETS:
                    self._own(bytearray(_FULL_OCTETS), 0, filled)
                self.limit = _FULL_OCTETS
            else:
                self.limit = _IDLE_OCTETS
        return most

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

    def _take_tagged(self, header: tuple[int, ...], payload: memoryview) -> None:
        """A tagged segment that is in the scratch buffer as a whole."""
        _, control, rdmap, stag, offset = header
        octets = len(payload)
        violation = None
        # An RDMA Write of one segment can break only the rules of memory access.
        plain = control == _WHOLE_TAGGED and rdmap == WRITE and not (self.tagged.opened or self.ready_frame)
        if not plain:
            violation = self.tagged.check(header, octets, self.ready_frame)
            if violation is None:
                self.ready_frame = None
        if violation is None and octets:
            try:
                self._pd.find(stag, offset, octets, Access.REMOTE_WRITE)[:] = payload
            except RemoteAccessError as error:
                violation = str(error), tagged_code(error)
        if violation is not None:
            raise fault_of(violation, header)
        if not plain:
            self.tagged.end(control, rdmap, stag, octets)

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
            or length - UNTAGGED_OCTETS > self.pool.short_octets
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
        data = bytes(self.view[start : start + octets])
        self._completions.append(_tuple(Completion, (data, _RECEIVE, _SUCCESS, octets, ended)))
        return True

    def _take_untagged(self, pos: int, length: int) -> None:
        """An untagged segment that is in the scratch buffer as a whole."""
        header = UNTAGGED.unpack_from(self._scratch, pos)
        _, control, rdmap, invalidate, queue, _, offset = header
        octets = length - UNTAGGED_OCTETS
        violation = self._check_untagged(header, octets)
        start = pos + UNTAGGED.size
        if violation is not None:
            raise fault_of(violation, header)
        if not queue:
            if self.ready_frame is not None:
                # The RTR frame is no message of the upper layer (RFC 6581 section 9.2): it takes no receive.
                self.ready_frame = None
                self._msn[0] = 2
                return
            if octets:
                write_into(self.receives[0][1], offset, self.view[start : start + octets])
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
                raise fault_of((str(error), read_source_code(error)), header, payload) from None
        self.ready_frame = None
        self._msn[_READ_QUEUE] = self._msn[_READ_QUEUE] + 1 & SEQUENCE_MASK
        responses.append(ReadResponse(request, header))

    def _start_direct(self, pos: int, available: int, frame: int) -> bool:
        """Begins the payload phase for an FPDU that has partly arrived, if enough is still to come; True if begun."""
        if frame - available < DIRECT_OCTETS_MIN:
            return False
        scratch = self._scratch
        header: tuple[int, ...]
        if scratch[pos + 2] & _TAGGED_BIT:
            size = TAGGED.size
            header = TAGGED.unpack_from(scratch, pos)
            length, control = header[:2]
            payload = length - TAGGED_OCTETS
            violation = self.tagged.check(header, payload, self.ready_frame)
            if violation is None:
                self.ready_frame = None
            self._bulk = frame >= _BULK_FRAME_OCTETS and not control & LAST
        else:
            size = UNTAGGED.size
            if available < size or QUEUE_OF.get(scratch[pos + 3] & 0x0F) != 0:
                return False
            header = UNTAGGED.unpack_from(scratch, pos)
            payload = header[0] - UNTAGGED_OCTETS
            violation = self._check_untagged(header, payload)
            self._bulk = False
        run = self.run
        run.header = header
        run.fault = None if violation is None else fault_of(violation, header)
        run.trailer = frame - size - payload
        run.placed = 0
        run.region = None
        arrived = available - size
        if arrived:
            run.left = arrived
            target = self._find_target()
            if len(target) < arrived:
                write_into(self.receives[0][1], header[6], self.view[pos + size : pos + available])
            else:
                target[:] = self.view[pos + size : pos + available]
        run.placed = arrived
        run.left = payload - arrived
        if self.crc:
            run.digest = crc32c(self.view[pos : pos + available])
        return True

    def _end_direct(self) -> int:
        """Ends the trailer phase: checks the CRC. Returns the octets of padding and CRC, or 0 if some are missing."""
        run = self.run
        trailer = run.trailer
        if self.filled < trailer:
            return 0
        digest = run.digest
        if self.crc:
            if trailer > CRC.size:
                digest = crc32c(self.view[: trailer - CRC.size], digest)
            if digest != CRC.unpack_from(self._scratch, trailer - CRC.size)[0]:
                raise TerminateFault("CRC mismatch", Code.MPA_CRC)
        self.heard = True
        run.trailer = 0
        # The memory is complete, and its owner's again.
        run.target = _NOWHERE
        run.region = None
        if run.fault is not None:
            raise run.fault
        header = run.header
        _, control, rdmap, word, *_ = header
        if control & _TAGGED_BIT:
            self.tagged.end(control, rdmap, word, run.placed)
        else:
            self._end_send(control, rdmap, word, run.placed, header)
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
