"""Messages that arrive in several DDP segments, and the rules of their offsets and of L (RFC 5041 sections 4 and 5)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

__all__ = ["FrameFault", "SegmentedMessage"]


class FrameFault(NamedTuple):
    """A mistake of the other end in frames or segments, below the RDMAP messages.

    Attributes:
        cause: the description of the mistake.
        statement: the identifier of the protocol rule that is broken; empty if no rule certainly is.
        recommended: whether the protocol only recommends that rule.
    """

    cause: str
    statement: str = ""
    recommended: bool = False


class SegmentedMessage:
    """The segments of a DDP message received so far.

    `key` identifies the message: the opcode, and the handle of a tagged message. `octets` is the sum of the segments'
    lengths so far.
    """

    def __init__(self, key: tuple[int, ...]) -> None:
        self.key = key
        self.octets = 0
        # Adjoining segments are one run, so that the list is long only where the order is wrong.
        self._runs: list[tuple[int, int]] = []

    def add(self, start: int, length: int, *, last: bool) -> FrameFault | None:
        """Adds the next segment, of `length` octets at offset `start`; `last` is its flag L.

        Returns the fault of the segment or, after the segment with `last`, of the whole message; None without a fault.
        """
        self.octets += length
        if self._runs and self._runs[-1][1] == start:
            self._runs[-1] = (self._runs[-1][0], start + length)
        elif length or not self._runs:
            self._runs.append((start, start + length))
        else:
            return FrameFault(f"an empty segment at offset {start:#x} adjoins none of its message", "DDP-8")
        return self._fault() if last else None

    @property
    def begin(self) -> int:
        """The lowest offset, in octets, of the segments received so far; at least one must have been added."""
        return min(self._runs)[0]

    def _fault(self) -> FrameFault | None:
        runs = sorted(self._runs)
        for (_, end), (start, _) in itertools.pairwise(runs):
            if start != end:
                return FrameFault(f"after offset {end:#x} a message goes on at {start:#x}", "DDP-8")
        if self._runs[-1] != runs[-1]:
            return FrameFault("the segment with L does not have the highest offset of its message", "DDP-2")
        if len(runs) > 1:
            cause = "the segments of a message do not come in the order of their offsets"
            return FrameFault(cause, "DDP-10", recommended=True)
        return None
