"""Orders the captured packets of one queue pair by their numbers: they may be repeated, late or missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.roce_packets import PSN_SPACE, RocePacket, ahead_of

__all__ = ["PacketGap", "PsnOrder"]


class PacketGap(NamedTuple):
    """Packets that the capture lacks; the time is that of the packet behind them, if one has come."""

    packets: int
    time_s: float | None = None


class PsnOrder:
    """Puts packets into the order of their PSNs, with a `PacketGap` in place of those that will not arrive any more.

    `first` is the PSN of the first packet; None: that of the first one that is added.
    """

    __slots__ = ("_acknowledged", "_held", "_next")

    def __init__(self, first: int | None = None) -> None:
        self._next = first
        self._acknowledged: int | None = None
        self._held: dict[int, tuple[RocePacket, int | None]] = {}

    @property
    def following(self) -> int | None:
        """The PSN of the packet that comes next; None if not known."""
        return self._next

    @property
    def held_octets(self) -> int:
        """Octets of packets that wait for missing ones before them."""
        return sum(len(packet.payload) for packet, _ in self._held.values())

    def add(self, packet: RocePacket, numbers: int | None = 1) -> Iterator[RocePacket | PacketGap]:
        """Takes a packet, and yields the packets that are in order now; ignores a repeated packet.

        If too many packets wait for missing ones, a gap takes the place of these.

        Args:
            packet: the packet.
            numbers: how many PSNs it has; an RDMA Read Request has one for each packet of its response. None: unknown.
        """
        ahead = 0 if self._next is None else ahead_of(packet.psn, self._next)
        if ahead < 0:  # a packet that is sent again
            return
        if ahead:
            self._held[packet.psn] = packet, numbers
            if len(self._held) > limits.CAPTURE_WAITING_PACKETS_MAX:
                yield from self._give_up()
            return
        yield self._take(packet, numbers)
        yield from self._held_in_order(packet.time_s)

    def acknowledge(self, psn: int) -> None:
        """Notes that the receiver has all packets up to this PSN: missing ones may be late, but are not repeated."""
        self._acknowledged = psn

    def settle(self) -> Iterator[RocePacket | PacketGap]:
        """Gives up the acknowledged packets that are missing; yields gaps for them, and the packets behind them."""
        psn, self._acknowledged = self._acknowledged, None
        while psn is not None and self._next is not None and (missing := ahead_of(psn, self._next) + 1) > 0:
            yield from self._give_up(missing)

    def finish(self) -> Iterator[RocePacket | PacketGap]:
        """Ends the capture: yields the packets that still wait, and gaps for the missing ones."""
        yield from self.settle()
        while self._held:
            yield from self._give_up()

    def _take(self, packet: RocePacket, numbers: int | None) -> RocePacket:
        self._next = None if numbers is None else (packet.psn + numbers) % PSN_SPACE
        return packet

    def _give_up(self, most: int = PSN_SPACE) -> Iterator[RocePacket | PacketGap]:
        """Goes on behind the missing packets, which are `most` at most."""
        assert self._next is not None
        following = self._next
        missing = min([most, *(ahead_of(psn, following) for psn in self._held)])
        self._next = (following + missing) % PSN_SPACE
        behind = self._held.get(self._next)
        yield PacketGap(missing, None if behind is None else behind[0].time_s)
        yield from self._held_in_order()

    def _held_in_order(self, least_s: float | None = None) -> Iterator[RocePacket | PacketGap]:
        """The packets that are in order now; a packet that filled a hole before them came at `least_s`."""
        while self._held:
            if self._next is None:
                # The first of the packets behind an RDMA Read whose response has an unknown number of packets.
                self._next = min(self._held)
            held = self._held.pop(self._next, None)
            if held is None:
                break
            packet, numbers = held
            if packet.time_s is not None and least_s is not None:
                packet = packet._replace(time_s=max(packet.time_s, least_s))
            yield self._take(packet, numbers)
        if self._next is not None:
            self._held = {psn: held for psn, held in self._held.items() if ahead_of(psn, self._next) > 0}
