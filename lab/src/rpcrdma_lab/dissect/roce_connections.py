"""Finds RoCEv2 connections in packets: by connection management, or by an Acknowledge that fits the other direction.

A packet names only the queue pair of its receiver, so the other queue pair of the connection has to be found.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.cm_messages import CmMessage, read_cm_message
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.dissect.packets import RoceDatagram
from rpcrdma_lab.dissect.roce_connection import RoceConnection
from rpcrdma_lab.dissect.roce_fields import Operation
from rpcrdma_lab.dissect.roce_half import REACH, SMALLEST_MTU_OCTETS
from rpcrdma_lab.dissect.roce_packets import PSN_SPACE, RocePacket, ahead_of, read_packet

__all__ = ["RoceConnections", "RoceMessage", "RoceTracked"]

_MANAGEMENT_QUEUE_PAIR = 1
_Direction = tuple[bytes, int, bytes]
"""One direction of a connection: the receiver's address and queue pair, and the sender's address."""
_Area = tuple[bytes, bytes, int]
"""Receiver's address, sender's address, and the number of an area of PSNs in which a response may be.

The PSNs of an RDMA Read's responses lie in areas of 2 ** `_AREA_BITS` PSNs, numbered from 0. The response to any other
request has the PSN of the request, an area of its own: its number is -1 - PSN.
"""
_AREA_BITS = 16
_NEAR_MAX = 8
"""Directions between the same addresses with requests in one area that are searched for the request of a response.

PSNs begin at random: more directions with RDMA Reads in one area are those of a hostile capture. More with requests of
one PSN leave open to which a response belongs.
"""


@dataclass(slots=True)
class RoceTracked:
    """The decoding state of a RoCEv2 connection in a capture.

    `ends` has the IP address (as octets) and the queue pair number of ends 0 and 1; None: the number is unknown. `roce`
    decodes the packets. `number` is the connection's number in the capture, 0 before its first message, and
    `directions` are the directions whose packets are assigned to the connection.
    """

    ends: list[tuple[bytes, int | None]]
    roce: RoceConnection
    number: int = 0
    directions: list[_Direction] = field(default_factory=list)

    def end_text(self, end: int) -> str:
        """Returns `end` (0 or 1) as text: its address, followed by "QP" and its queue pair number if that is known."""
        address, queue_pair = self.ends[end]
        shown = str(ipaddress.ip_address(address))
        return shown if queue_pair is None else f"{shown} QP {queue_pair}"


class RoceMessage(NamedTuple):
    """A message of the connection `tracked`, the end (0 or 1) that has sent it, and its time.

    `time_s` is in seconds since the first packet of the capture; None: unknown.
    """

    tracked: RoceTracked
    end: int
    message: Message
    time_s: float | None


class _Waiting(NamedTuple):
    """A packet of an unknown connection, and its time in seconds (None: unknown); `arrival` orders all such packets."""

    arrival: int
    packet: RocePacket
    time_s: float | None


class RoceConnections:
    """Assigns the packets of a capture to RoCEv2 connections, and yields the messages of all connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directions: dict[_Direction, tuple[RoceTracked, int]] = {}
        """For each direction, its connection and the sending end, in the order of their last packets."""
        self._managed: dict[tuple[bytes, int], tuple[RoceTracked, int]] = {}
        """For each address and communication id, the connection and the end that has assigned the id."""
        self._said: dict[tuple[bytes, tuple[int, ...]], None] = {}
        """Source address and identity of connection management messages seen, which senders repeat."""
        self._waiting: dict[_Direction, list[_Waiting]] = {}
        self._near: dict[_Area, dict[_Direction, None]] = {}
        """The directions of `_waiting` by the areas of PSNs in which responses to their waiting requests are."""
        self._arrivals = 0
        self._held_octets = 0

    def take(self, datagram: RoceDatagram, time_s: float | None) -> Iterator[RoceMessage]:
        """Adds a UDP datagram, and yields the messages that it completes, on whichever connection.

        `time_s` is the datagram's time in seconds since the first packet of the capture (None: unknown). The caller
        sets the number of each message, then calls `finish` of its `tracked.roce`.
        """
        packet = read_packet(datagram)
        if packet is None:
            return
        packet = packet._replace(time_s=time_s)
        if packet.kind is not None and packet.kind.operation is Operation.DATAGRAM:
            said = read_cm_message(packet) if packet.queue_pair == _MANAGEMENT_QUEUE_PAIR else None
            if said is not None and not packet.damaged:
                yield from self._manage(packet, said, time_s)
            return
        direction = (packet.destination, packet.queue_pair, packet.source)
        known = self._directions.pop(direction, None)
        if known is None:
            yield from self._unknown(direction, packet, time_s)
            return
        # The one whose last packet is longest ago is first.
        self._directions[direction] = known
        yield from self._feed(*known, packet, time_s)

    def finish(self, time_s: float | None) -> Iterator[RoceMessage]:
        """Gives up missing packets at the end of the capture; yields messages about gaps, and those of waiting packets.

        Packets that wait for their connection to be found form connections of one known direction. `time_s` is the time
        of the last packet in seconds, for messages without a time of their own.
        """
        for direction in list(self._waiting):
            yield from self._begin_alone(direction, time_s)
        for tracked in {id(tracked): tracked for tracked, _ in self._directions.values()}.values():
            yield from self._give_up(tracked, time_s)

    def _feed(self, tracked: RoceTracked, end: int, packet: RocePacket, time_s: float | None) -> Iterator[RoceMessage]:
        before = tracked.roce.held_octets
        for sender, message in tracked.roce.feed(end, packet):
            yield RoceMessage(tracked, sender, message, time_s if message.time_s is None else message.time_s)
        self._held_octets += tracked.roce.held_octets - before
        if self._held_octets > limits.CAPTURE_HELD_OCTETS_MAX:
            self._held_octets -= tracked.roce.held_octets
            yield from self._give_up(tracked, time_s)

    @staticmethod
    def _give_up(tracked: RoceTracked, time_s: float | None) -> Iterator[RoceMessage]:
        """Gives up a connection's missing packets; yields messages about the gaps, and those of the packets behind.

        `time_s` (seconds, None: unknown) is the time of messages that have none of their own.
        """
        for end, message in tracked.roce.finish_packets():
            yield RoceMessage(tracked, end, message, time_s if message.time_s is None else message.time_s)

    # Connection management

    def _manage(self, packet: RocePacket, said: CmMessage, time_s: float | None) -> Iterator[RoceMessage]:
        if (packet.source, said.identity) in self._said:
            return
        self._said[packet.source, said.identity] = None
        if len(self._said) > limits.CAPTURE_CONNECTIONS_MAX:
            del self._said[next(iter(self._said))]
        own = (packet.source, said.number("Local Communication ID"))
        direction = (packet.source, said.number("Local QPN"), packet.destination)
        if said.is_request:
            tracked = RoceTracked([direction[:2], (packet.destination, None)], RoceConnection(self._settings))
            known = tracked, 0
            self._name(own, known)
            yield from self._follow(direction, (tracked, 1), time_s)
        else:
            # A Reply assigns its sender's id, which may have been that of an earlier connection.
            found = (None if said.is_reply else self._managed.get(own)) or self._of_peer(packet, said)
            if found is None:
                return
            known = found
            tracked, end = known
            if said.is_reply:
                if self._directions.get(direction) == (tracked, 1 - end):  # a repetition of one seen long ago
                    return
                tracked.ends[end] = direction[:2]
                self._name(own, known)
                yield from self._follow(direction, (tracked, 1 - end), time_s)
        before = tracked.roce.held_octets
        message = tracked.roce.manage(known[1], said)
        self._held_octets += tracked.roce.held_octets - before
        yield RoceMessage(tracked, known[1], message, time_s)

    def _of_peer(self, packet: RocePacket, said: CmMessage) -> tuple[RoceTracked, int] | None:
        """Finds the connection of `said`, the connection management message in `packet`, by Remote Communication ID.

        Returns (connection, sender), the sender of `packet` being end 0 or 1; None if no captured message has assigned
        this id.
        """
        found = self._managed.get((packet.destination, said.number("Remote Communication ID")))
        return None if found is None else (found[0], 1 - found[1])

    def _name(self, own: tuple[bytes, int], known: tuple[RoceTracked, int]) -> None:
        self._managed.pop(own, None)
        self._managed[own] = known
        if len(self._managed) > limits.CAPTURE_CONNECTIONS_MAX * 2:
            del self._managed[next(iter(self._managed))]

    def _follow(
        self, direction: _Direction, known: tuple[RoceTracked, int], time_s: float | None
    ) -> Iterator[RoceMessage]:
        """Assigns packets of a direction from now on to `known`, a connection and the end (0 or 1) that sends them.

        A direction is (receiver's address, receiver's queue pair, sender's address). Forgets the direction's earlier
        connection; waiting packets of the direction become a connection first, which is then forgotten. Above
        twice `limits.CAPTURE_CONNECTIONS_MAX` directions, also forgets the connection of the one whose last packet is
        the oldest. Yields the messages left of forgotten connections; `time_s` is the time of messages that have none
        of their own.
        """
        if direction in self._waiting:
            yield from self._begin_alone(direction, time_s)
        before = self._directions.pop(direction, None)
        if before is not None:
            yield from self._forget(before[0], time_s)
        self._directions[direction] = known
        known[0].directions.append(direction)
        if len(self._directions) > limits.CAPTURE_CONNECTIONS_MAX * 2:
            yield from self._forget(next(iter(self._directions.values()))[0], time_s)

    def _forget(self, tracked: RoceTracked, time_s: float | None) -> Iterator[RoceMessage]:
        self._held_octets -= tracked.roce.held_octets
        for direction in tracked.directions:
            self._directions.pop(direction, None)
        tracked.directions.clear()
        yield from self._give_up(tracked, time_s)

    # Connections that were set up before the capture

    def _unknown(self, direction: _Direction, packet: RocePacket, time_s: float | None) -> Iterator[RoceMessage]:
        if packet.damaged or packet.kind is None:
            return
        self._arrivals += 1
        waiting = self._waiting.setdefault(direction, [])
        waiting.append(_Waiting(self._arrivals, packet, time_s))
        for area in _areas(packet):
            self._near.setdefault((packet.destination, packet.source, area), {})[direction] = None
        other = None if packet.kind.is_request else self._answered(packet)
        if other is not None:
            yield from self._begin(direction, other, time_s)
        elif len(waiting) > limits.CAPTURE_WAITING_PACKETS_MAX:
            yield from self._begin_alone(direction, time_s)
        if len(self._waiting) > limits.CAPTURE_CONNECTIONS_MAX:
            yield from self._begin_alone(next(iter(self._waiting)), time_s)

    def _answered(self, response: RocePacket) -> _Direction | None:
        """Returns the direction whose waiting packets have the request for `response`; None unless exactly one has.

        Returns None, too, if more than `_NEAR_MAX` directions have requests in one area with that of `response`. A
        direction is (receiver's address, receiver's queue pair, sender's address).
        """
        own = response.destination, response.queue_pair, response.source
        areas = response.psn >> _AREA_BITS, -1 - response.psn
        near = [self._near.get((response.source, response.destination, area), {}) for area in areas]
        if max(map(len, near)) > _NEAR_MAX:
            return None
        found = [
            direction
            for direction in near[0] | near[1]
            if direction != own and any(_answers(response, one.packet) for one in self._waiting[direction])
        ]
        return found[0] if len(found) == 1 else None

    def _no_longer_waiting(self, direction: _Direction) -> list[_Waiting]:
        """Removes and returns the waiting packets of (receiver's address, receiver's queue pair, sender's address)."""
        waiting = self._waiting.pop(direction)
        for number in {number for one in waiting for number in _areas(one.packet)}:
            area = direction[0], direction[2], number
            del self._near[area][direction]
            if not self._near[area]:
                del self._near[area]
        return waiting

    def _begin(self, direction: _Direction, other: _Direction, time_s: float | None) -> Iterator[RoceMessage]:
        both = [(one, each) for each in (direction, other) for one in self._no_longer_waiting(each)]
        both.sort(key=lambda pair: pair[0].arrival)
        first = both[0][1]
        second = other if first is direction else direction
        tracked = RoceTracked([(second[0], second[1]), (first[0], first[1])], RoceConnection(self._settings))
        ends = {first: 0, second: 1}
        for each, end in ends.items():
            yield from self._follow(each, (tracked, end), time_s)
        for one, each in both:
            yield from self._feed(tracked, ends[each], one.packet, one.time_s)

    def _begin_alone(self, direction: _Direction, time_s: float | None) -> Iterator[RoceMessage]:
        """Begins a connection of which only one direction was found, and yields the messages of its waiting packets.

        `direction` is (receiver's address, receiver's queue pair, sender's address). If another connection has to be
        forgotten for the new one, the messages left of the other one are yielded first; `time_s` (seconds, None:
        unknown) is the time of messages that have none of their own.
        """
        waiting = self._no_longer_waiting(direction)
        tracked = RoceTracked([(direction[2], None), direction[:2]], RoceConnection(self._settings))
        yield from self._follow(direction, (tracked, 0), time_s)
        for one in waiting:
            yield from self._feed(tracked, 0, one.packet, one.time_s)


def _answers(response: RocePacket, request: RocePacket) -> bool:
    """Returns whether a response's PSN is that of the request or, for an RDMA Read Request, of one of its responses.

    A packet that is no request has no response.
    """
    return 0 <= ahead_of(response.psn, request.psn) < _response_psns(request)


def _response_psns(packet: RocePacket) -> int:
    """Returns the number of PSNs that responses to a request may have: 0 if the packet is no request.

    For an RDMA Read Request, the smallest MTU, 256 octets, is assumed.
    """
    kind = packet.kind
    if kind is None or not kind.is_request:
        return 0
    if kind.operation is not Operation.READ_REQUEST:
        return 1
    asked = packet.extended(REACH)[2]
    return min(max(asked - 1, 0) // SMALLEST_MTU_OCTETS + 1, PSN_SPACE // 2)


def _areas(packet: RocePacket) -> list[int]:
    """Returns the numbers of the areas that have the PSNs of responses to a packet; [] if it is no request."""
    psns = _response_psns(packet)
    if psns == 1:
        return [-1 - packet.psn]
    last = packet.psn + psns - 1 >> _AREA_BITS
    numbers = range(packet.psn >> _AREA_BITS, last + 1) if psns else ()
    return [number % (PSN_SPACE >> _AREA_BITS) for number in numbers]
