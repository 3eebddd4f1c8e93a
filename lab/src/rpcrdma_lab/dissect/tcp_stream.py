"""Orders the captured segments of one direction of a TCP connection, which may be repeated, late or missing."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from rpcrdma_lab import limits

__all__ = ["Gap", "Piece", "TcpHalf"]

_SPACE = 1 << 32
_HALF = 1 << 31


class Gap(NamedTuple):
    """A number of octets that the capture lacks; `time_s` is the time of the segment after them, None if unknown."""

    octets: int
    time_s: float | None = None


class Piece(NamedTuple):
    """Octets of one TCP segment, and the time in seconds at which the receiver could use them; None if unknown.

    `time_s` is the time of the segment's packet, or of a later packet that filled a gap before the segment.
    """

    data: bytes
    time_s: float | None = None


class _Held(NamedTuple):
    data: bytes
    missing: int
    time_s: float | None
    arrival: int = 0


class TcpHalf:
    """Orders the captured segments of one direction of a TCP connection; a `Gap` stands for octets not captured."""

    __slots__ = ("_acknowledged", "_arrivals", "_first", "_held", "_held_octets", "_next", "_starts")

    def __init__(self) -> None:
        self._next: int | None = None
        """The sequence number of the next octet, which does not wrap: the stream's length is added to its first one."""
        self._first: int | None = None
        self._acknowledged: int | None = None
        self._held: dict[int, _Held] = {}
        """The segments that wait, by sequence numbers that do not wrap."""
        self._starts: list[int] = []
        """A heap of the keys of `_held`, and of smaller ones that were removed."""
        self._held_octets = 0
        self._arrivals = 0
        """The number of segments that began to wait, which each has as its `arrival`: the first one's octets count."""

    @property
    def held_octets(self) -> int:
        """The number of octets that wait for missing octets before them."""
        return self._held_octets

    def synchronize(self, sequence: int) -> None:
        """Applies a SYN with this sequence number: the first octet of the stream has the next number.

        Only the first call has an effect.
        """
        if self._first is None:
            self._first = sequence
            self._next = sequence + 1

    def other_connection(self, sequence: int) -> bool:
        """Returns whether a SYN with this sequence number begins another connection than the one that is tracked.

        False if it repeats the SYN given to `synchronize`, or neither SYN nor octets were added before.
        """
        return self._next is not None and self._first != sequence

    def add(self, sequence: int, data: bytes, missing: int = 0, time_s: float | None = None) -> Iterator[Piece | Gap]:
        """Adds a segment; yields the octets that are in order then, those of each segment apart, and gaps between them.

        A segment that follows missing octets waits, and yields nothing, until these are added or acknowledged, or too
        many octets or segments wait. Octets that were yielded before are left out.

        Args:
            sequence: the sequence number of the segment's first octet.
            data: the captured octets.
            missing: the number of octets at the segment's end that were not captured.
            time_s: the segment's time in seconds; None if unknown.
        """
        if not data and not missing:
            return
        if self._next is None:
            self._next = sequence
        ahead = (sequence - self._next) % _SPACE
        if ahead >= _HALF:  # it begins with octets that are known
            data, missing = _behind(data, missing, _SPACE - ahead)
            if not data and not missing:
                return
            ahead = 0
        held = _Held(data, missing, time_s)
        if ahead:
            self._hold(self._next + ahead, held)
            yield from self._settle()
            if (
                self._held_octets > limits.CAPTURE_OUT_OF_ORDER_OCTETS_MAX
                or len(self._held) > limits.CAPTURE_OUT_OF_ORDER_SEGMENTS_MAX
            ):
                yield from self._give_up()
            return
        yield from self._take(held)
        yield from self._held_in_order(time_s)

    def acknowledge(self, number: int) -> Iterator[Piece | Gap]:
        """Notes that the receiver has all octets before the sequence number `number`.

        Yields gaps for such octets that are missing before waiting segments, and the octets of these segments.
        """
        if self._acknowledged is None or (number - self._acknowledged) % _SPACE < _HALF:
            self._acknowledged = number
        yield from self._settle()

    def lacks(self, number: int) -> bool:
        """Returns whether octets before the sequence number `number`, that of an acknowledgement, were not added yet.

        A single one does not count, since a FIN has a number, too.
        """
        return self._next is not None and 1 < (number - self._next) % _SPACE < _HALF

    def finish(self) -> Iterator[Piece | Gap]:
        """Yields the segments that still wait at the end of the capture, and gaps for missing octets before them."""
        while self._held:
            yield from self._give_up()

    def _take(self, held: _Held, least_s: float | None = None) -> Iterator[Piece | Gap]:
        assert self._next is not None
        self._next += len(held.data) + held.missing
        time_s = held.time_s if held.time_s is None or least_s is None else max(held.time_s, least_s)
        if held.data:
            yield Piece(held.data, time_s)
        if held.missing:
            yield Gap(held.missing, time_s)

    def _hold(self, sequence: int, held: _Held) -> None:
        known = self._held.get(sequence)
        if not self._held:
            self._starts.clear()
        if known is None:
            heapq.heappush(self._starts, sequence)
            self._arrivals += 1
        if known is None or len(held.data) > len(known.data):
            self._held[sequence] = held._replace(arrival=self._arrivals if known is None else known.arrival)
            self._held_octets += len(held.data) - (0 if known is None else len(known.data))

    def _settle(self) -> Iterator[Piece | Gap]:
        """Yields gaps for missing octets that the receiver has acknowledged, and the octets of segments after them."""
        while self._held and self._next is not None and self._acknowledged is not None:
            # Most acknowledgements end before the missing octets: the nearest segment is looked for after that.
            if not 0 < (self._acknowledged - self._next) % _SPACE < _HALF:
                return
            if (self._acknowledged - self._nearest()) % _SPACE >= _HALF:
                return
            yield from self._give_up()

    def _nearest(self) -> int:
        while self._starts[0] not in self._held:
            heapq.heappop(self._starts)
        return self._starts[0]

    def _give_up(self) -> Iterator[Piece | Gap]:
        assert self._next is not None
        first = self._nearest()
        yield Gap(first - self._next, self._held[first].time_s)
        self._next = first
        yield from self._held_in_order()

    def _held_in_order(self, least_s: float | None = None) -> Iterator[Piece | Gap]:
        while self._held and self._next is not None:
            held = self._held.pop(self._next, None)
            if held is not None:
                self._held_octets -= len(held.data)
                yield from self._take(held, least_s)
                continue
            # A held segment may overlap with segments that came in the meantime.
            late = []
            while self._held and (start := self._nearest()) < self._next:
                late.append((start, self._held.pop(start)))
            if not late:
                return
            for start, held in sorted(late, key=lambda one: one[1].arrival):
                self._held_octets -= len(held.data)
                data, missing = _behind(held.data, held.missing, self._next - start)
                if data or missing:
                    self._hold(self._next, _Held(data, missing, held.time_s))


def _behind(data: bytes, missing: int, known: int) -> tuple[bytes, int]:
    """Returns the rest of a segment behind its first `known` octets: captured octets, and the number of missing ones.

    `data` has the captured octets of the segment, and `missing` is the number of octets at its end that were not
    captured. If `known` is more than the captured octets, it includes missing octets, which the result leaves out.
    """
    return data[known:], max(missing - max(known - len(data), 0), 0)
