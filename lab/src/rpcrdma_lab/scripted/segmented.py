"""Messages that arrive in several DDP segments, and the rules of their offsets and of L (RFC 5041 sections 4 and 5)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

__all__ = ["FrameFault", "SegmentedMessage"]


class FrameFault(NamedTuple):
    """A mistake below the messages, and the statement of the ledger that it breaks; "": none for certain.

    `recommended`: the statement only recommends the broken part.
    """

    cause: str
    statement: str = ""
    recommended: bool = False


class SegmentedMessage:
    """The segments of a message so far, of the kind `key`; `octets` counts their payload."""

    def __init__(self, key: tuple[int, ...]) -> None:
        self.key = key
        self.octets = 0
        # Adjoining segments are one run, so that the list is long only where the order is wrong.
        self._runs: list[tuple[int, int]] = []

    def add(self, start: int, length: int, *, last: bool) -> FrameFault | None:
        """Takes the next segment; returns its fault, or after the last one that of the message; else None."""
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
        """The lowest offset of its segments."""
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
