"""Tagged messages (RDMA Writes, and the responses to RDMA Reads of this side) as their segments arrive.

`TaggedMessages` checks one segment. In a run, all FPDUs of one message that have arrived are checked and placed in one
step. There are two kinds. `take_buffered_run` is for FPDUs that are whole in the receive buffer: it checks each and
copies its payload to its place. `take_direct_run` is for FPDUs whose payload the socket receives straight into its
place: it checks the octets between two payloads, and has the next payload received.

A run consists of usual FPDUs only. The first one that is unusual in anything, or breaks a rule, ends the run before it:
nothing of it has been taken or placed, and the receiver treats it as it treats an FPDU that came alone. So the run has
no errors of its own, and the FPDUs before the faulty one are in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.iwarp.framing import CRC
from rpcrdma.iwarp.segments import LAST, TAGGED, TAGGED_CONTROL, TAGGED_OCTETS
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.terminate import Code, TerminateFault, Violation
from rpcrdma.verbs.memory import Access, MemoryRegion, SoftwareProtectionDomain
from rpcrdma.wire.checksum import crc32c

__all__ = [
    "BETWEEN_OCTETS",
    "DDP_VERSION",
    "DIRECT_OCTETS_MIN",
    "DISCARD",
    "RDMAP_VERSION",
    "READ_RESPONSE_OPCODE",
    "DirectRun",
    "Receive",
    "TaggedMessages",
    "take_buffered_run",
    "take_direct_run",
]

DDP_VERSION, RDMAP_VERSION = 0x03, 0xC0
"""The bits of the version in the control octets."""

READ_RESPONSE_OPCODE = 2
_WRITE_OPCODE = 0
_REMOTE_WRITE = int(Access.REMOTE_WRITE)

Receive: TypeAlias = Callable[[list[memoryview]], tuple[int, object, int, object]]
"""Fills buffers in order from the stream, as `socket.recvmsg_into`: the first number counts the octets."""

DIRECT_OCTETS_MIN = 2048
"""Octets of an FPDU still to come from which on they are received straight into their target; fewer are copied."""

BETWEEN_OCTETS = CRC.size + TAGGED.size
"""Octets between the payloads of two FPDUs of a tagged message, if the first of them needs no padding."""

DISCARD = memoryview(bytearray(1 << 16))
"""Payload without a target is received here and never read; an FPDU has less than 64 KiB."""


class TaggedMessages:
    """Which message is open, and whether a segment may go on with it, or begin one.

    `opened` has the RDMAP control octet and the STag of the message that has arrived in part.
    """

    __slots__ = ("_pd", "_sender", "opened")

    def __init__(self, pd: SoftwareProtectionDomain, sender: Sender) -> None:
        self._pd = pd
        self._sender = sender
        self.opened: tuple[int, int] | None = None

    def check(self, header: tuple[int, ...], octets: int, ready_frame: ReadyFrame | None) -> Violation | None:
        """The rule that a segment breaks, other than those of memory access (RFC 5041 7.1, RFC 5040 7.2).

        `ready_frame` is the RTR frame that the segment has to be, if any.
        """
        _, control, rdmap, stag, offset = header
        if control & DDP_VERSION != 1:
            return f"DDP version {control & DDP_VERSION}", Code.TAGGED_VERSION
        if rdmap & RDMAP_VERSION != 0x40:
            return f"RDMAP version {rdmap >> 6}", Code.OPERATION_VERSION
        opcode = rdmap & 0x0F
        if ready_frame is not None and (
            opcode != _WRITE_OPCODE or octets or not control & LAST or ready_frame is not ReadyFrame.WRITE
        ):
            return "not the ready-to-receive frame that was agreed on", Code.NO_MATCHING_RTR
        opened = self.opened
        if opened is not None:
            if opened[0] & 0x0F != opcode:
                return "the opcode changed within a tagged message", Code.OPERATION_OPCODE
            if opened[1] != stag:
                return "the handle changed within a tagged message", Code.TAGGED_STAG
        if opcode == READ_RESPONSE_OPCODE:
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

    def bound(self, region: MemoryRegion, rdmap: int) -> int:
        """The offset up to which a message may fill a region."""
        if rdmap & 0x0F != READ_RESPONSE_OPCODE:
            return region.offset + region.length
        read = self._sender.reads[0]
        return read.sink_offset + read.length

    def end(self, control: int, rdmap: int, stag: int, octets: int) -> None:
        """A segment is in place, or the last one of several, whose payload is `octets` together."""
        if rdmap & 0x0F == READ_RESPONSE_OPCODE:
            read = self._sender.reads[0]
            read.received += octets
            if control & LAST:
                self._sender.read_answered()
        self.opened = None if control & LAST else (rdmap, stag)

    def take_run(self, header: tuple[int, ...], octets: memoryview, *, crc: bool) -> int:
        """Takes the usual FPDUs at the begin of `octets` that go on with the message of `header`.

        Returns how many octets these are.
        """
        length, _, rdmap, stag, offset = header
        offset += length - TAGGED_OCTETS
        region = self._pd.regions.get(stag)
        if region is None or region.abandoned or not region.rights & _REMOTE_WRITE:
            return 0
        exact = rdmap & 0x0F == READ_RESPONSE_OPCODE
        if exact:
            read = self._sender.reads[0]
            # Nothing of this was checked if the segments so far were empty.
            if stag != read.sink_handle or offset != read.sink_offset + read.received:
                return 0
        bound = self.bound(region, rdmap)
        if not region.offset <= offset < bound:
            return 0
        target = region.view[offset - region.offset : bound - region.offset]
        taken, placed, last = take_buffered_run(octets, rdmap, stag, offset, target, exact=exact, crc=crc)
        if taken:
            self.end(LAST if last else 0, rdmap, stag, placed)
        return taken


class DirectRun:
    """The FPDU whose payload goes from the socket straight into its target memory.

    One record serves all such FPDUs of a connection, one after another.

    `header` has the fields of TAGGED or UNTAGGED. `placed` counts the payload's octets received so far, `left` those
    still to come, `digest` is the CRC over the header and the former. `trailer` counts the octets of padding and CRC;
    it is 0 while nothing is received in this way. `fault` is the rule that the segment breaks.

    `target` is the memory that was handed out last for the rest of the payload. `region` is the region of a tagged
    segment, once it was found to take the whole payload; the message may fill it up to the offset `bound`, and has to
    if it is `exact`. `ended` counts the payload of the FPDUs that the last run has ended, `most` is the number of
    octets that may still be received in this turn, 0 if the stream has no more.
    """

    __slots__ = (
        "bound",
        "digest",
        "ended",
        "exact",
        "fault",
        "header",
        "left",
        "most",
        "placed",
        "region",
        "target",
        "trailer",
    )

    def __init__(self) -> None:
        self.header: tuple[int, ...] = ()
        self.placed = 0
        self.left = 0
        self.digest = 0
        self.trailer = 0
        self.fault: TerminateFault | None = None
        self.target = DISCARD[:0]
        self.region: MemoryRegion | None = None
        self.bound = 0
        self.exact = False
        self.ended = 0
        self.most = 0


def take_direct_run(
    run: DirectRun, octets: int, behind: memoryview, usual: int, receive: Receive | None, *, crc: bool
) -> int:
    """Takes `octets`, which fill `run.target` and then `behind`; goes over to the message's next FPDU, and on.

    `behind` is the receive buffer: of it, BETWEEN_OCTETS are offered while another FPDU of the message is to follow,
    and `usual` octets behind its last one. With `receive`, further octets are received as long as they come, up to
    `run.most`.

    Returns -1 if all were taken: of the payload of `run.header`, `run.left` octets are to come. Else that payload is
    complete, and the number of octets in `behind` is returned: too few for its end and the next header, or unusual
    ones. All FPDUs before have ended: their CRCs have matched, and they were as expected.
    """
    region = run.region
    run.ended = 0
    while True:
        left = run.left
        if octets < left:
            if crc:
                run.digest = crc32c(run.target[:octets], run.digest)
            run.placed += octets
            run.left = left - octets
            return -1
        digest = crc32c(run.target, run.digest) if crc else 0
        octets -= left
        run.placed += left
        run.left = 0
        run.digest = digest
        length, control, rdmap, stag, offset = run.header[:5]
        # Without a region it is a Send, or breaks a rule.
        if octets != BETWEEN_OCTETS or region is None or control & LAST or run.trailer != CRC.size:
            return octets
        header = TAGGED.unpack_from(behind, CRC.size)
        left = header[0] - TAGGED_OCTETS
        start = offset + length - TAGGED_OCTETS
        end = start + left
        last = header[1] & LAST
        if (
            header[1] | LAST != control | LAST
            or header[2:] != (rdmap, stag, start)
            or left < DIRECT_OCTETS_MIN
            or end > run.bound
            or (run.exact and last and end != run.bound)
            or (crc and digest != CRC.unpack_from(behind)[0])
        ):
            return octets
        run.ended += run.placed
        run.header = header
        run.placed = 0
        run.left = left
        run.trailer = (-left & 3) + CRC.size
        if crc:
            run.digest = crc32c(behind[CRC.size : BETWEEN_OCTETS])
        if receive is None or run.most <= 0:
            return -1
        run.target = region.view[start - region.offset : end - region.offset]
        offered = behind[: usual if last else run.trailer + TAGGED.size]
        try:
            octets = receive([run.target, offered])[0]
        except BlockingIOError:
            run.most = 0
            return -1
        # At the end of the stream nothing comes; the driver then asks once more, and hears of it itself.
        run.most -= octets if octets == left + len(offered) else run.most if octets else 0


def take_buffered_run(
    octets: memoryview, rdmap: int, stag: int, offset: int, target: memoryview, *, exact: bool, crc: bool
) -> tuple[int, int, bool]:
    """Places the FPDUs at the begin of `octets` that go on with the tagged message of `rdmap` and `stag` at `offset`.

    `target` is the memory from `offset` on that the message may fill, and has to if `exact`. Returns how many `octets`
    were taken, how many of `target` are filled, and whether that is the end of the message.
    """
    position = placed = 0
    while len(octets) - position >= TAGGED.size:
        length, control, next_rdmap, next_stag, next_offset = TAGGED.unpack_from(octets, position)
        payload = length - TAGGED_OCTETS
        start = position + TAGGED.size
        end = position + (length + 5 & ~3) + CRC.size
        filled = placed + payload
        last = control & LAST != 0
        if (
            control | LAST != TAGGED_CONTROL | LAST
            or next_rdmap != rdmap
            or next_stag != stag
            or next_offset != offset + placed
            or payload <= 0
            or end > len(octets)
            or filled > len(target)
            or (exact and last and filled != len(target))
            or (crc and crc32c(octets[position : end - CRC.size]) != CRC.unpack_from(octets, end - CRC.size)[0])
        ):
            break
        target[placed:filled] = octets[start : start + payload]
        position, placed = end, filled
        if last:
            return position, placed, True
    return position, placed, False
