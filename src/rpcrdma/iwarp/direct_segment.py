"""The record of a received segment whose payload goes from the socket straight into its target memory."""

from __future__ import annotations

from rpcrdma.iwarp.terminate import Fault

__all__ = ["DISCARD", "DirectSegment"]

DISCARD = memoryview(bytearray(1 << 16))
"""Payload without a target is received here and never read; an FPDU has less than 64 KiB."""


class DirectSegment:
    """One record serves all such segments of a connection, one after another.

    `header` has the fields of TAGGED or UNTAGGED. `placed` counts the payload's octets received so far, `digest` is the
    CRC over the header and these octets. `target` is the memory that was handed out last. `trailer` counts the octets
    of padding and CRC; it is 0 while no segment is received in this way. `fault` is the rule that the segment breaks.
    """

    __slots__ = ("digest", "fault", "header", "placed", "target", "trailer")

    def __init__(self) -> None:
        self.header: tuple[int, ...] = ()
        self.placed = 0
        self.digest = 0
        self.target = DISCARD[:0]
        self.trailer = 0
        self.fault: Fault | None = None
