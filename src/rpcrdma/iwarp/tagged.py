"""Tagged messages: RDMA Writes, and the responses to RDMA Reads of this side, as their segments arrive."""

from __future__ import annotations

from rpcrdma.errors import RemoteAccessError
from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.iwarp.segments import DDP_VERSION, LAST, RDMAP_VERSION
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.terminate import Code, Violation, fault_of, tagged_code
from rpcrdma.verbs.protection_domain import Access, SoftwareProtectionDomain

__all__ = ["TaggedMessages"]

_WRITE_OPCODE, _READ_RESPONSE_OPCODE = 0, 2


class TaggedMessages:
    """The tagged messages that arrive on one connection: checks their segments and places the payload.

    `pd` has the memory that the peer may write. `sender` has the RDMA Reads of this side (`Sender.reads`), which Read
    Responses have to fit and complete. `opened` has the RDMAP control octet and the STag of the message that has
    arrived in part; None without one.
    """

    __slots__ = ("_pd", "_sender", "opened")

    def __init__(self, pd: SoftwareProtectionDomain, sender: Sender) -> None:
        self._pd = pd
        self._sender = sender
        self.opened: tuple[int, int] | None = None

    def check(self, header: tuple[int, ...], octets: int, ready_frame: ReadyFrame | None) -> Violation | None:
        """Checks a segment against the rules of DDP and RDMAP (RFC 5041 7.1, RFC 5040 7.2).

        A Read Response has to fit the oldest RDMA Read of this side. Whether the memory may be written is not checked.

        `header`: ULPDU_Length, DDP control, RDMAP control, STag and TO. `octets`: the length of the payload.
        `ready_frame`: the RTR frame that the segment has to be, or None. Returns the rule that the segment breaks, in
        words, and the `Code` (0xLTCC: layer, type, code) of the Terminate for it; None if it breaks none.
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
            opened_rdmap, opened_stag = opened
            if opened_rdmap & 0x0F != opcode:
                return "the opcode changed within a tagged message", Code.OPERATION_OPCODE
            if opened_stag != stag:
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

    def take(self, header: tuple[int, ...], payload: memoryview, _ready_frame: ReadyFrame | None) -> None:
        """Copies the payload of a whole segment that has passed `check` to its memory, and calls `end`.

        `header`: ULPDU_Length, DDP control, RDMAP control, STag and TO. `_ready_frame` is ignored.

        Raises:
            TerminateFault: the peer may not write to the memory.
        """
        *_, stag, offset = header
        octets = len(payload)
        if octets:
            try:
                self._pd.find(stag, offset, octets, Access.REMOTE_WRITE)[:] = payload
            except RemoteAccessError as error:
                raise fault_of((str(error), tagged_code(error)), header) from None
        self.end(header, octets)

    def end(self, header: tuple[int, ...], octets: int) -> None:
        """Updates the state for a segment whose `octets` of payload are in place; the L bit ends the segment's message.

        `opened` becomes the message's RDMAP control octet and STag, None at the message's end. Octets of a Read
        Response are counted in `received` of the oldest RDMA Read of this side, which the last segment completes; those
        of an RDMA Write are not. `header`: ULPDU_Length, DDP control, RDMAP control, STag and TO.
        """
        _, control, rdmap, stag, _ = header
        if rdmap & 0x0F == _READ_RESPONSE_OPCODE:
            read = self._sender.reads[0]
            read.received += octets
            if control & LAST:
                self._sender.read_answered()
        self.opened = None if control & LAST else (rdmap, stag)
