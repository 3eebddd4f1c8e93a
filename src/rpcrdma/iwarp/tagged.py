"""Tagged messages (RDMA Writes, and the responses to RDMA Reads of this side) as their segments arrive."""

from __future__ import annotations

from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.iwarp.runs import take_buffered_run
from rpcrdma.iwarp.segments import LAST, TAGGED_OCTETS
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.terminate import Code
from rpcrdma.verbs.memory import Access, MemoryRegion, SoftwareProtectionDomain

__all__ = ["DDP_VERSION", "RDMAP_VERSION", "READ_RESPONSE_OPCODE", "TaggedMessages", "Violation"]

Violation = tuple[str, Code]
"""What a segment does wrong, and the code for it."""

DDP_VERSION, RDMAP_VERSION = 0x03, 0xC0
"""The bits of the version in the control octets."""

READ_RESPONSE_OPCODE = 2
_WRITE_OPCODE = 0
_REMOTE_WRITE = int(Access.REMOTE_WRITE)


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
