"""Turns the packets of a capture into the messages of all its iWARP and RoCEv2 connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.capture_file import CaptureDamaged, CapturedPacket
from rpcrdma_lab.dissect.connection import IwarpConnection, Settings
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.dissect.packets import LINK_TYPES, TcpSegment, address_text, transport_unit
from rpcrdma_lab.dissect.roce_connections import RoceConnections, RoceMessage, RoceTracked
from rpcrdma_lab.dissect.tcp_stream import Gap, Piece, TcpHalf

__all__ = ["CaptureDissector"]

_End = tuple[bytes, int]


class _Tracked:
    """The decoding state of a TCP connection in a capture.

    `ends` are its two ends as (address, port); end 0 sent the first captured packet. `number` numbers the connections
    with decoded messages from 1 on, and is 0 before the first message.
    """

    def __init__(self, first: _End, second: _End, settings: Settings) -> None:
        self.ends = (first, second)
        self.number = 0
        self.tcp = (TcpHalf(), TcpHalf())
        self.iwarp = IwarpConnection(settings)
        self.last_s: list[float | None] = [None, None]
        """For each end, the time in seconds of its last octets, from the first packet of the capture.

        None if unknown.
        """
        self.deliberate: int | None = None
        """The end (0 or 1) whose mistakes are deliberate, as its SYN says; None if neither is."""

    @property
    def held_octets(self) -> int:
        """The number of captured octets of both directions that wait for missing octets before them."""
        return sum(tcp.held_octets for tcp in self.tcp)

    def end_text(self, end: int) -> str:
        """Returns `end` (0 or 1) as text: ADDRESS:PORT, with an IPv6 address in brackets."""
        return address_text(self.ends[end])


class CaptureDissector:
    """Decodes the messages of all iWARP and RoCEv2 connections in the packets of a capture.

    Its counters (`packets`, `segments`, `roce_packets`, `cut_packets`, `link_types_unknown`) explain an empty result.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connections: dict[tuple[_End, _End], _Tracked] = {}
        self._start_ns: int | None = None
        self.found = 0
        """The number of messages that the method `messages` has yielded so far."""
        self._numbered = 0
        self._held_octets = 0
        self._roce = RoceConnections(settings)
        self.packets = 0
        self.segments = 0
        self.roce_packets = 0
        self.cut_packets = 0
        """The number of packets not captured whole: TCP segments and RoCEv2 packets without the end of their payload.

        Also all packets that are not whole and in which neither was found, perhaps because their headers are cut off.
        """
        self.link_types_unknown: set[int] = set()
        self.damage: CaptureDamaged | KeyboardInterrupt | None = None
        """The error or interruption at which reading the capture ended; None if it was read to its end.

        Messages before it are decoded.
        """

    def messages(self, packets: Iterable[CapturedPacket]) -> Iterator[Message]:
        """Yields the messages in the packets, numbered from 1 on, each when the packet that completes it has been read.

        The unfinished messages follow at the end of the packets, or where the file is damaged or its reading is
        interrupted: `damage` of this object then has the error.
        """
        time_s = None
        for packet in self._before_damage(packets):
            self.packets += 1
            if packet.time_ns is not None:
                # Floating-point numbers have no nanoseconds of times since 1970.
                self._start_ns = packet.time_ns if self._start_ns is None else self._start_ns
                time_s = (packet.time_ns - self._start_ns) / 1e9
            if packet.link_type not in LINK_TYPES:
                self.link_types_unknown.add(packet.link_type)
                continue
            unit = transport_unit(packet.link_type, packet.data, packet.missing)
            # Without its headers, nothing tells what a packet was: it may have been one that is looked for.
            self.cut_packets += bool(packet.missing if unit is None else unit.missing)
            if unit is None:
                continue
            if isinstance(unit, TcpSegment):
                self.segments += 1
                yield from self._segment(unit, time_s)
            else:
                self.roce_packets += 1
                yield from self._finished(self._roce.take(unit, time_s))
        for tracked in self._connections.values():
            yield from self._rest(tracked)
        yield from self._finished(self._roce.finish(time_s))

    def _before_damage(self, packets: Iterable[CapturedPacket]) -> Iterator[CapturedPacket]:
        try:
            yield from packets
        except (CaptureDamaged, KeyboardInterrupt) as damage:
            self.damage = damage

    def _finished(self, found: Iterator[RoceMessage]) -> Iterator[Message]:
        for tracked, end, message, time_s in found:
            self._placed(message, tracked, end, time_s)
            tracked.roce.finish(end, message)
            yield message

    def _segment(self, segment: TcpSegment, time_s: float | None) -> Iterator[Message]:
        tracked, ended = self._tracked(segment)
        for each in ended:
            yield from self._rest(each)
        end = tracked.ends.index(segment.source)
        tcp = tracked.tcp[end]
        before = tracked.held_octets
        if segment.acknowledged is not None:
            # What its sender has received comes before what it sends.
            other = tracked.tcp[1 - end]
            yield from self._octets(tracked, 1 - end, other.acknowledge(segment.acknowledged))
            tracked.iwarp.conversation.late |= other.lacks(segment.acknowledged)
        if segment.synchronizes:
            tracked.deliberate = end if segment.deliberate else tracked.deliberate
            tcp.synchronize(segment.sequence)
        else:
            found = tcp.add(segment.sequence, segment.data, segment.missing, time_s)
            yield from self._octets(tracked, end, found)
        self._held_octets += tracked.held_octets - before
        if self._held_octets > limits.CAPTURE_HELD_OCTETS_MAX:
            self._held_octets -= tcp.held_octets
            yield from self._octets(tracked, end, tcp.finish())

    def _rest(self, tracked: _Tracked) -> Iterator[Message]:
        """Yields the messages left at the end of a TCP connection: those behind missing octets, and unfinished ones."""
        self._held_octets -= tracked.held_octets
        for end in (0, 1):
            yield from self._octets(tracked, end, tracked.tcp[end].finish())
            for message in tracked.iwarp.unfinished(end):
                yield self._placed(message, tracked, end, tracked.last_s[end])

    def _tracked(self, segment: TcpSegment) -> tuple[_Tracked, list[_Tracked]]:
        """Returns the state of a segment's connection, and those of connections that end because of the segment.

        An unknown connection gets a new state. A connection ends when a SYN opens a new one between its ports. If there
        are more than `limits.CAPTURE_CONNECTIONS_MAX`, the connection whose last packet is the oldest ends, too.
        """
        key = (segment.source, segment.destination)
        back = (segment.destination, segment.source)
        tracked = self._connections.pop(back, None)
        if tracked is None:
            tracked = self._connections.pop(key, None)
        else:
            key = back
        ended = []
        if tracked is not None and segment.synchronizes:
            half = tracked.tcp[tracked.ends.index(segment.source)]
            if half.other_connection(segment.sequence):
                ended.append(tracked)
                tracked = None
        if tracked is None:
            tracked = _Tracked(segment.source, segment.destination, self._settings)
            key = (segment.source, segment.destination)
        # The one whose last packet is longest ago is first.
        self._connections[key] = tracked
        if len(self._connections) > limits.CAPTURE_CONNECTIONS_MAX:
            ended.append(self._connections.pop(next(iter(self._connections))))
        return tracked, ended

    def _octets(self, tracked: _Tracked, end: int, pieces: Iterable[Piece | Gap]) -> Iterator[Message]:
        iwarp = tracked.iwarp
        for piece in pieces:
            if isinstance(piece, Gap):
                lost = iwarp.lose(end, piece.octets)
                if lost is not None:
                    yield self._placed(lost, tracked, end, piece.time_s)
                continue
            tracked.last_s[end] = piece.time_s
            for message in iwarp.feed(end, piece.data):
                self._placed(message, tracked, end, piece.time_s)
                iwarp.finish(end, message)
                yield message

    def _placed(self, message: Message, tracked: _Tracked | RoceTracked, end: int, time_s: float | None) -> Message:
        self.found += 1
        message.number = self.found
        if not tracked.number:
            self._numbered += 1
            tracked.number = self._numbered
        message.connection = tracked.number
        message.time_s = time_s
        if isinstance(tracked, _Tracked) and tracked.deliberate == end:
            message.facts["deliberate"] = True
        message.source = tracked.end_text(end)
        message.destination = tracked.end_text(1 - end)
        return message
