"""Orders the captured segments of one direction of a TCP connection, which may be repeated, late or missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rpcrdma import file_limits

__all__ = ["Gap", "TcpHalf"]

_SPACE = 1 << 32
_HALF = 1 << 31


class Gap(NamedTuple):
    """Octets that the capture lacks."""

    octets: int


class TcpHalf:
    """Segments go in, octets come out in order, or a `Gap` where the missing ones will not come any more."""

    __slots__ = ("_first", "_held", "_held_octets", "_next")

    def __init__(self) -> None:
        self._next: int | None = None
        self._first: int | None = None
        self._held: dict[int, tuple[bytes, int]] = {}
        self._held_octets = 0

    @property
    def held_octets(self) -> int:
        """Octets that wait for missing ones before them."""
        return self._held_octets

    def synchronize(self, sequence: int) -> None:
        """A SYN: the first octet has the number after its own. One that is repeated changes nothing."""
        if self._first is None:
            self._first = sequence
            self._next = (sequence + 1) % _SPACE

    def other_connection(self, sequence: int) -> bool:
        """Whether a SYN with this number is the first of another connection, not one that is repeated."""
        return self._next is not None and self._first != sequence

    def add(self, sequence: int, data: bytes, missing: int = 0) -> Iterator[bytes | Gap]:
        """Takes a segment, and gives the octets that are now in order, in pieces as long as the segments.

        `missing`: octets at the segment's end that were not captured.
        """
        if not data and not missing:
            return
        if self._next is None:
            self._next = sequence
        ahead = (sequence - self._next) % _SPACE
        if ahead >= _HALF:  # it begins with octets that are known
            known = _SPACE - ahead
            if known >= len(data):
                return
            data = data[known:]
            sequence, ahead = self._next, 0
        if ahead:
            self._hold(sequence, data, missing)
            if (
                self._held_octets <= file_limits.CAPTURE_OUT_OF_ORDER_OCTETS_MAX
                and len(self._held) <= file_limits.CAPTURE_OUT_OF_ORDER_SEGMENTS_MAX
            ):
                return
            yield from self._give_up()
            return
        yield from self._take(data, missing)
        yield from self._held_in_order()

    def finish(self) -> Iterator[bytes | Gap]:
        """Ends the capture: gives the segments that still wait for missing octets, without those octets."""
        while self._held:
            yield from self._give_up()

    def _take(self, data: bytes, missing: int) -> Iterator[bytes | Gap]:
        assert self._next is not None
        self._next = (self._next + len(data) + missing) % _SPACE
        if data:
            yield data
        if missing:
            yield Gap(missing)

    def _hold(self, sequence: int, data: bytes, missing: int) -> None:
        old, _ = self._held.get(sequence, (b"", 0))
        if len(data) > len(old) or sequence not in self._held:
            self._held[sequence] = data, missing
            self._held_octets += len(data) - len(old)

    def _give_up(self) -> Iterator[bytes | Gap]:
        assert self._next is not None
        first = min(self._held, key=lambda sequence: (sequence - (self._next or 0)) % _SPACE)
        yield Gap((first - self._next) % _SPACE)
        self._next = first
        yield from self._held_in_order()

    def _held_in_order(self) -> Iterator[bytes | Gap]:
        while self._held and self._next is not None:
            held = self._held.pop(self._next, None)
            if held is not None:
                self._held_octets -= len(held[0])
                yield from self._take(*held)
                continue
            # A held segment may overlap with segments that came in the meantime.
            late = [sequence for sequence in self._held if (sequence - (self._next or 0)) % _SPACE >= _HALF]
            if not late:
                return
            for sequence in late:
                data, missing = self._held.pop(sequence)
                self._held_octets -= len(data)
                rest = data[(self._next - sequence) % _SPACE :]
                if rest:
                    self._hold(self._next, rest, missing)
