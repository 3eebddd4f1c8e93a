"""Runs of received FPDUs: all FPDUs of one tagged message that have arrived are checked and placed in one step.

There are two kinds. `take_buffered_run` is for FPDUs that are whole in the receive buffer: it checks each and copies
its payload to its place. `take_direct_run` is for FPDUs whose payload the socket receives straight into its place: it
checks the octets between two payloads, and has the next payload received.

A run consists of usual FPDUs only. The first one that is unusual in anything, or breaks a rule, ends the run before it:
nothing of it has been taken or placed, and the receiver treats it as it treats an FPDU that came alone. So the run has
no errors of its own, and the FPDUs before the faulty one are in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rpcrdma.iwarp.framing import CRC
from rpcrdma.iwarp.segments import LAST, TAGGED, TAGGED_CONTROL, TAGGED_OCTETS
from rpcrdma.iwarp.terminate import TerminateFault
from rpcrdma.verbs.memory import MemoryRegion
from rpcrdma.wire.checksum import crc32c

__all__ = [
    "BETWEEN_OCTETS",
    "DIRECT_OCTETS_MIN",
    "DISCARD",
    "DirectRun",
    "Receive",
    "take_buffered_run",
    "take_direct_run",
]

Receive: TypeAlias = Callable[[list[memoryview]], tuple[int, object, int, object]]
"""Fills buffers in order from the stream, as `socket.recvmsg_into`: the first number counts the octets."""

DIRECT_OCTETS_MIN = 2048
"""Octets of an FPDU still to come from which on they are received straight into their target; fewer are copied."""

BETWEEN_OCTETS = CRC.size + TAGGED.size
"""Octets between the payloads of two FPDUs of a tagged message, if the first of them needs no padding."""

DISCARD = memoryview(bytearray(1 << 16))
"""Payload without a target is received here and never read; an FPDU has less than 64 KiB."""


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
