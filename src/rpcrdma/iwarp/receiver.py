"""The receiving half of full operation: from octets to placed memory and delivered messages.

This module has the FPDUs of MPA: their length, their CRC, and the memory into which their octets are received. The
rules of DDP and RDMAP for the segments in them are in `tagged` and `untagged`.

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

from rpcrdma.errors import RemoteAccessError
from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.iwarp.framing import size_fpdu, verify_crc
from rpcrdma.iwarp.segments import LAST, QUEUE_OF, TAGGED, TAGGED_BIT, TAGGED_OCTETS, UNTAGGED, UNTAGGED_OCTETS
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.tagged import TaggedMessages
from rpcrdma.iwarp.terminate import Code, TerminateFault, fault_of, tagged_code
from rpcrdma.iwarp.untagged import UntaggedMessages
from rpcrdma.verbs.protection_domain import Access, SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Completion
from rpcrdma.verbs.receive_pool import ReceiveSource
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.checksum import crc32c

__all__ = ["DirectPayload", "Receiver", "Scratch"]

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


class Scratch:
    """Memory for received octets whose final place is not known yet; `octets` and `view` are all of it.

    Queue pairs may share it, since nothing stays there between two receives: a queue pair with an incomplete FPDU
    switches to memory of its own.
    """

    __slots__ = ("octets", "view")

    def __init__(self) -> None:
        self.octets = bytearray(_IDLE_OCTETS)
        self.view = memoryview(self.octets)


class DirectPayload:
    """The FPDU whose payload is received from the socket straight into its target memory.

    One record serves all such FPDUs of a connection, one after another.

    `header` has the fields of the tagged or untagged DDP header, of which the last is the payload's offset. `placed` is
    the number of octets of the payload received so far, `left` the number still to come, and `digest` the CRC over the
    header and the received payload. `trailer` is the number of octets of padding and CRC; 0: no FPDU is received in
    this way now. `fault` is the rule that the segment breaks, raised after its CRC; None: it breaks none. `target` is
    the memory that was handed out last for the rest of the payload.
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
    """The receiving half of an iWARP connection: finds FPDUs in the stream, checks them and places their payload.

    `view` is the scratch buffer, at first the memory of `scratch`, and memory of this receiver's own once it has to
    keep octets. Its first `filled` octets are received data; the driver may fill it up to the index `limit`. `direct`
    is the payload that is received straight into its target. `tagged` and `untagged` have the rules and the state of
    both kinds of messages. `heard` is True once Python has received an FPDU with a valid CRC, even one that breaks
    another rule; FPDUs that the native module receives do not set it. `ready_frame` is the RTR frame that must arrive
    first, if any.
    """

    __slots__ = (
        "_bulk",
        "_full",
        "_own_scratch",
        "_pd",
        "_scratch",
        "crc",
        "direct",
        "filled",
        "heard",
        "limit",
        "ready_frame",
        "tagged",
        "untagged",
        "view",
    )

    def __init__(
        self, pd: SoftwareProtectionDomain, sender: Sender, completions: deque[Completion], scratch: Scratch
    ) -> None:
        self._pd = pd
        self._scratch = scratch.octets
        self.view = scratch.view
        self._own_scratch = False
        self.filled = 0
        self.limit = _IDLE_OCTETS
        self.direct = DirectPayload()
        self.tagged = TaggedMessages(pd, sender)
        self.untagged = UntaggedMessages(pd, sender, completions)
        # Whether a large FPDU of the open tagged message is to come next.
        self._bulk = False
        # Whether the last receive filled the part that was offered: many small FPDUs may follow.
        self._full = False
        self.crc = True
        self.heard = False
        self.ready_frame: ReadyFrame | None = None

    def flush(self) -> None:
        """Ends all receives and drops an incomplete FPDU.

        Receives with a buffer, posted with the receive or drawn from the pool for a Send that has arrived in part,
        complete with the status FLUSHED; the others get no completion.
        """
        self.untagged.flush()
        self.direct.target = _NOWHERE
        self._forget_octets()

    def _forget_octets(self) -> None:
        """Drops the octets of an incomplete FPDU, and the scratch buffer that holds them."""
        self.filled = 0
        self._own(0, _NOWHERE)

    def _continue_with(self, octets: bytes) -> None:
        """Continues with octets that the native module has received and not processed, in a new scratch buffer."""
        self._own(_FULL_OCTETS, octets)
        self.filled = len(octets)
        self._bulk = self._full = False

    def post(self, count: int, pool: ReceiveSource) -> None:
        """Posts `count` receives without a buffer: `pool`, which never lacks one, lends it when a message arrives."""
        self.untagged.shared += count
        self.untagged.pool = pool

    @property
    def mid_frame(self) -> bool:
        """Whether an FPDU has arrived in part."""
        return bool(self.direct.trailer or self.filled)

    def next_buffers(self) -> list[memoryview]:
        """Returns the buffers for the next octets; called before each receive, as memory may have been invalidated.

        Usually a part of the scratch buffer (`view[filled:limit]`) is the only buffer. But while payload of a large
        FPDU is due, its target memory is the first one, and that part follows only if the target memory takes all
        payload that is due: a piece of a scattered receive buffer may not.
        """
        direct, filled, scratch = self.direct, self.filled, self._scratch
        limit = _IDLE_OCTETS
        if self._bulk and filled < direct.trailer + TAGGED.size:
            limit = direct.trailer + TAGGED.size
        elif self._full or (filled >= TAGGED.size and size_fpdu(scratch[0] << 8 | scratch[1]) > limit):
            limit = _FULL_OCTETS
            if len(scratch) < limit:
                self._own(limit, self.view[:filled])
        self.limit = limit
        free = self.view[filled:limit]
        if not direct.left:
            return [free]
        direct.target = target = self._find_target()
        # Behind a piece of scattered memory, the rest of a Send belongs into another one.
        return [target, free] if len(target) == direct.left else [target]

    def _find_target(self) -> memoryview:
        """Returns the memory for the rest of the payload of `direct`, the large FPDU that has arrived in part.

        The memory is shorter than the rest where a piece of a scattered receive buffer ends. If the peer may not write
        to the region any more, this sets `direct.fault`. With a fault, the result is memory that is never read.
        """
        direct = self.direct
        if direct.fault is None:
            header = direct.header
            start = header[-1] + direct.placed
            if not header[1] & TAGGED_BIT:
                return self.untagged.target(start, direct.left)
            try:
                return self._pd.find(header[3], start, direct.left, Access.REMOTE_WRITE)
            except RemoteAccessError as error:
                direct.fault = fault_of((str(error), tagged_code(error)), header)
        return _DISCARD[: direct.left]

    def received(self, octets: int) -> None:
        """Processes `octets` further octets, which were received into the buffers of the last `next_buffers`, in order.

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

    def _take_fpdu(self, pos: int) -> int:
        """Processes the FPDU at octet `pos` of the scratch buffer, if it is whole or can go straight to its memory.

        Returns the number of the FPDU's octets that were processed; 0 if more have to arrive first.

        Raises:
            TerminateFault: the FPDU breaks a rule.
            PeerTerminated: the FPDU is a Terminate.
            RemoteProtocolError: the FPDU is a Terminate that does not decode.
        """
        available = self.filled - pos
        if available < _LENGTH_OCTETS:
            return 0
        scratch = self._scratch
        length = scratch[pos] << 8 | scratch[pos + 1]
        if length < TAGGED_OCTETS:
            raise _too_short(length)
        if available < TAGGED.size:
            return 0
        tagged = scratch[pos + _LENGTH_OCTETS] & TAGGED_BIT != 0
        if length < UNTAGGED_OCTETS and not tagged:
            raise _too_short(length)
        frame = size_fpdu(length)
        if available < frame:
            return self._start_direct(pos, available, frame)
        if self.crc:
            verify_crc(self.view[pos : pos + frame])
        self.heard = True
        messages, layout = (self.tagged, TAGGED) if tagged else (self.untagged, UNTAGGED)
        header: tuple[int, ...] = layout.unpack_from(scratch, pos)
        payload = self.view[pos + layout.size : pos + _LENGTH_OCTETS + length]
        violation = messages.check(header, len(payload), self.ready_frame)
        if violation is not None:
            raise fault_of(violation, header)
        messages.take(header, payload, self.ready_frame)
        self.ready_frame = None
        self._bulk = tagged and frame >= _BULK_FRAME_OCTETS and not header[1] & LAST
        return frame

    def _keep(self, taken: int, filled: int) -> None:
        """Moves the `filled` octets of an incomplete FPDU from index `taken` to the start of the scratch buffer.

        If that buffer is shared, a new one, which is this receiver's own, takes its place.
        """
        if self._own_scratch:
            self.view[:filled] = self.view[taken : taken + filled]
        else:
            self._own(_IDLE_OCTETS, self.view[taken : taken + filled])

    def _own(self, octets: int, kept: Buffer) -> None:
        """Switches to a scratch buffer of `octets` octets that is this receiver's own and begins with `kept`."""
        scratch = bytearray(octets)
        scratch[: len(kept)] = kept
        self._scratch = scratch
        self.view = memoryview(scratch)
        self._own_scratch = True

    def _start_direct(self, pos: int, available: int, frame: int) -> int:
        """Begins to receive the payload of an incomplete FPDU straight into its target memory.

        `pos`: the index of the FPDU in the scratch buffer. `available`: its octets there. `frame`: its whole length.
        Returns `available`; 0 if the FPDU is received whole into the scratch buffer instead: fewer than
        `_DIRECT_OCTETS_MIN` octets are due, its header is incomplete, or it is untagged and no Send. A rule that the
        FPDU breaks is kept in `direct.fault` until its CRC has been checked, and not raised here.
        """
        if frame - available < _DIRECT_OCTETS_MIN:
            return 0
        scratch = self._scratch
        tagged = scratch[pos + _LENGTH_OCTETS] & TAGGED_BIT != 0
        messages, layout = (self.tagged, TAGGED) if tagged else (self.untagged, UNTAGGED)
        size = layout.size
        if not tagged and (available < size or QUEUE_OF.get(scratch[pos + _LENGTH_OCTETS + 1] & 0x0F) != 0):
            return 0
        header: tuple[int, ...] = layout.unpack_from(scratch, pos)
        payload = header[0] + _LENGTH_OCTETS - size
        violation = messages.check(header, payload, self.ready_frame)
        self._bulk = tagged and frame >= _BULK_FRAME_OCTETS and not header[1] & LAST
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
        """Completes the FPDU whose payload went straight to its target: checks the CRC and delivers the segment.

        Returns the octets of padding and CRC in the scratch buffer; 0 if some are missing.

        Raises:
            TerminateFault: the CRC does not match, or the segment breaks a rule.
        """
        direct = self.direct
        trailer = direct.trailer
        if self.filled < trailer:
            return 0
        if self.crc:
            verify_crc(self.view[:trailer], direct.digest)
        self.heard = True
        direct.trailer = 0
        # The memory is complete, and its owner's again.
        direct.target = _NOWHERE
        if direct.fault is not None:
            raise direct.fault
        messages = self.tagged if direct.header[1] & TAGGED_BIT else self.untagged
        messages.end(direct.header, direct.placed)
        return trailer


def _too_short(length: int) -> TerminateFault:
    return TerminateFault(f"a ULPDU of {length} octets has no room for its header", Code.DDP_CATASTROPHIC)
