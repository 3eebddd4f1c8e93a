"""Orders the captured packets of one queue pair by their numbers: they may be repeated, late or missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.roce_packets import PSN_SPACE, RocePacket, ahead_of

__all__ = ["PacketGap", "PsnOrder"]


class PacketGap(NamedTuple):
    """A number of packets that the capture lacks; `time_s` is the time of the packet after them, None if unknown.

    `in_response` says that they are of an RDMA Read Response; others are of requests.
    """

    packets: int
    time_s: float | None = None
    in_response: bool = False


class PsnOrder:
    """Orders the packets of a queue pair by PSN, with a `PacketGap` in place of packets that are not in the capture.

    `first` is the PSN of the first packet; None takes that of the first packet added. `held_octets` is the number of
    payload octets of packets that wait for missing packets before them.
    """

    __slots__ = ("_acknowledged", "_held", "_next", "held_octets")

    def __init__(self, first: int | None = None) -> None:
        self._next = first
        self._acknowledged: int | None = None
        self._held: dict[int, tuple[RocePacket, int | None]] = {}
        self.held_octets = 0

    def add(self, packet: RocePacket, numbers: int | None = 1) -> Iterator[RocePacket | PacketGap]:
        """Adds a packet; yields it and waiting packets after it, as far as PSNs follow each other without a gap.

        A packet that follows missing ones waits, and a repeated packet is ignored; neither is yielded then. If more
        than `limits.CAPTURE_WAITING_PACKETS_MAX` packets wait, a gap takes the place of the missing packets. Waiting
        packets that are yielded after `packet` get its time if theirs is earlier.

        Args:
            packet: the packet.
            numbers: the number of PSNs that the packet uses: an RDMA Read Request uses one for each packet of the
                response. None: unknown, so that the next packet follows with any PSN.
        """
        ahead = 0 if self._next is None else ahead_of(packet.psn, self._next)
        if ahead < 0:  # a packet that is sent again
            return
        if ahead:
            known, _ = self._held.get(packet.psn, (None, None))
            self.held_octets += len(packet.payload) - (0 if known is None else len(known.payload))
            self._held[packet.psn] = packet, numbers
            if len(self._held) > limits.CAPTURE_WAITING_PACKETS_MAX:
                yield from self._give_up()
            return
        yield self._take(packet, numbers)
        yield from self._held_in_order(packet.time_s)

    def acknowledge(self, psn: int) -> None:
        """Notes that the receiver has all packets up to and with this PSN; the next `settle` gives up missing ones."""
        self._acknowledged = psn

    def settle(self) -> Iterator[RocePacket | PacketGap]:
        """Yields gaps for missing packets that were acknowledged, and the waiting packets in order after each gap.

        Packets behind missing ones that were not acknowledged go on waiting. To be called before a packet of the other
        direction is taken: up to then an acknowledged packet may still be late.
        """
        psn, self._acknowledged = self._acknowledged, None
        while psn is not None and self._next is not None and (missing := ahead_of(psn, self._next) + 1) > 0:
            yield from self._give_up(missing)

    def finish(self) -> Iterator[RocePacket | PacketGap]:
        """Yields the packets that still wait at the end of the capture, and gaps for missing packets before them."""
        yield from self.settle()
        while self._held:
            yield from self._give_up()

    def _take(self, packet: RocePacket, numbers: int | None) -> RocePacket:
        self._next = None if numbers is None else (packet.psn + numbers) % PSN_SPACE
        return packet

    def _give_up(self, most: int = PSN_SPACE) -> Iterator[RocePacket | PacketGap]:
        """Stops waiting for missing packets: yields a gap in their place, then the waiting packets that follow it.

        The gap stands for all missing packets before the first waiting packet, at most for the first `most` of them. If
        others are then still missing before that packet, no packet follows the gap; else packets do, up to the next
        missing packet.
        """
        assert self._next is not None
        following = self._next
        missing = min([most, *(ahead_of(psn, following) for psn in self._held)])
        self._next = (following + missing) % PSN_SPACE
        behind = self._held.get(self._next)
        yield PacketGap(missing, None if behind is None else behind[0].time_s)
        yield from self._held_in_order()

    def _held_in_order(self, least_s: float | None = None) -> Iterator[RocePacket | PacketGap]:
        """Yields the waiting packets from the next PSN on, in order, up to the next missing packet; maybe none.

        `least_s` is the time at which the packet that they waited for was captured: earlier times of the packets are
        replaced by it. None changes no time.
        """
        while self._held:
            if self._next is None:
                # The first of the packets behind an RDMA Read whose response has an unknown number of packets.
                any_held = next(iter(self._held))
                self._next = min(self._held, key=lambda psn: ahead_of(psn, any_held))
            held = self._held.pop(self._next, None)
            if held is None:
                break
            packet, numbers = held
            if packet.time_s is not None and least_s is not None:
                packet = packet._replace(time_s=max(packet.time_s, least_s))
            yield self._take(packet, numbers)
        if self._next is not None:
            self._held = {psn: held for psn, held in self._held.items() if ahead_of(psn, self._next) > 0}
        self.held_octets = sum(len(packet.payload) for packet, _ in self._held.values())
