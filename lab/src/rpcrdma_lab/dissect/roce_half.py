"""One direction of a RoCEv2 connection: the requests of one queue pair, and the responses to its RDMA Reads."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.fields import FieldFault
from rpcrdma_lab.dissect.psn_order import PacketGap, PsnOrder
from rpcrdma_lab.dissect.rdmap_messages import RdmapMessage
from rpcrdma_lab.dissect.roce_fields import INVALIDATE_ROWS, Operation, Place
from rpcrdma_lab.dissect.roce_packets import RocePacket, ahead_of

__all__ = ["REACH", "SMALLEST_MTU_OCTETS", "RoceHalf"]

REACH = struct.Struct(">QII")
"""The header of an RDMA Write or Read Request: offset, key and length of the memory."""
_KEY = struct.Struct(">I")
_SEND, _SEND_INVALIDATE, _WRITE, _READ_REQUEST, _READ_RESPONSE = 3, 4, 0, 1, 2
_SOLICITED = 2
"""The difference between the RDMAP opcodes of a Send with and without Solicited Event."""
_SOLICITED_BIT = 0x80
SMALLEST_MTU_OCTETS = 256
_SECTION = "IBA 9.7"
_JOINED = {Operation.SEND, Operation.WRITE}


@dataclass(slots=True)
class _Read:
    """An RDMA Read whose response is unfinished: PSN of the request, octets asked for, and the response so far.

    `order` orders the packets of the response. `response` is None before the first of them.
    """

    psn: int
    asked: int
    order: PsnOrder
    response: RdmapMessage | None = None

    def packets(self, mtu_octets: int) -> int:
        """Returns the number of packets of the response, at least 1, for an MTU of `mtu_octets` octets of payload."""
        return max(-(-self.asked // mtu_octets), 1)


@dataclass(slots=True)
class RoceHalf:
    """The decoder of the requests that one end sends, and of the responses to its RDMA Reads.

    Attributes:
        late: whether the beginning of the requests, or of the current message, was not captured.
        mtu_octets: payload octets of a full packet; None until connection management or a full packet states it.
        order: orders the packets of requests.
    """

    late: bool = True
    mtu_octets: int | None = None
    order: PsnOrder = field(default_factory=PsnOrder)
    _unfinished: RdmapMessage | None = None
    _reads: dict[int, _Read] = field(default_factory=dict)
    """The RDMA Reads without a whole response, by the requests' PSNs, in order."""

    @property
    def held_octets(self) -> int:
        """The number of payload octets of packets that wait for missing packets."""
        return self.order.held_octets + sum(read.order.held_octets for read in self._reads.values())

    def begin(self, psn: int, mtu_octets: int | None) -> None:
        """Sets the PSN of the first request and the MTU in octets (None: unknown), as connection management states.

        Packets of requests that wait for missing ones are dropped.
        """
        self.late, self.mtu_octets, self.order = False, mtu_octets, PsnOrder(psn)

    def request(self, packet: RocePacket) -> Iterator[RdmapMessage | RocePacket | PacketGap]:
        """Adds a packet of a request; yields the requests that are complete then, and gaps of missing packets.

        Orders packets by PSN: a packet behind missing ones waits for them, and a repeated packet is ignored. If more
        than `limits.CAPTURE_WAITING_PACKETS_MAX` packets wait, yields a gap in place of the missing ones, and drops the
        message that the gap interrupts. Sends, RDMA Writes and RDMA Reads become messages; packets of other operations
        are yielded as they are. Above `limits.CAPTURE_READS_MAX` RDMA Reads without a whole response, the oldest one's
        response is dropped, and a gap in it yielded.
        """
        numbers: int | None = 1
        if _operation(packet) is Operation.READ_REQUEST:
            asked = packet.extended(REACH)[2]
            numbers = None if self.mtu_octets is None else max(-(-asked // self.mtu_octets), 1)
        elif _is_full(packet):
            self.mtu_octets = packet.octets
        yield from self._requests(self.order.add(packet, numbers))

    def settle(self) -> Iterator[RdmapMessage | RocePacket | PacketGap]:
        """Yields gaps for acknowledged request packets that the capture lacks, and the requests after each gap."""
        yield from self._requests(self.order.settle())

    def respond(self, packet: RocePacket) -> Iterator[RdmapMessage | PacketGap]:
        """Adds a packet of an RDMA Read Response; yields the response if it is complete then, or a gap.

        A packet behind missing ones waits for them. If more than `limits.CAPTURE_WAITING_PACKETS_MAX` packets wait, a
        gap replaces the missing ones: it is yielded in place of the response, whose other packets are dropped. Yields
        nothing if the RDMA Read Request was not captured.
        """
        if _is_full(packet):
            self.mtu_octets = packet.octets
        mtu_octets = self.mtu_octets or SMALLEST_MTU_OCTETS
        for read in self._reads.values():
            if 0 <= ahead_of(packet.psn, read.psn) < read.packets(mtu_octets):
                yield from self._response(read, read.order.add(packet))
                return

    def finish(self) -> Iterator[RdmapMessage | RocePacket | PacketGap]:
        """Gives up missing packets, as at the end of the capture; yields gaps for them, and the requests behind gaps.

        A gap in an RDMA Read Response ends the response.
        """
        yield from self._requests(self.order.finish())
        for read in list(self._reads.values()):
            yield from self._response(read, read.order.finish())

    # Requests

    def _requests(self, packets: Iterator[RocePacket | PacketGap]) -> Iterator[RdmapMessage | RocePacket | PacketGap]:
        for packet in packets:
            if isinstance(packet, PacketGap):
                self._unfinished, self.late = None, True
                yield packet
            elif _operation(packet) is Operation.READ_REQUEST:
                while len(self._reads) >= limits.CAPTURE_READS_MAX:
                    oldest = next(iter(self._reads.values()))
                    yield from self._response(oldest, oldest.order.finish())
                    self._reads.pop(oldest.psn, None)
                yield self._read_request(packet)
            elif _operation(packet) not in _JOINED:
                yield packet
            elif (whole := self._join(packet)) is not None:
                yield whole

    def _read_request(self, packet: RocePacket) -> RdmapMessage:
        offset, handle, asked = packet.extended(REACH)
        self._reads[packet.psn] = _Read(packet.psn, asked, PsnOrder(packet.psn))
        faults = self._cut_short(packet)
        return RdmapMessage(
            _READ_REQUEST, packet.fields(), faults, handle, offset, asked, packet.psn, time_s=packet.time_s
        )

    def _join(self, packet: RocePacket) -> RdmapMessage | None:
        assert packet.kind is not None
        place = packet.kind.place
        if Place.FIRST in place:
            message = self._begun(packet)
        elif self._unfinished is None:
            if self.late:
                return None
            reason = f"{packet.kind.name} without a first packet"
            faults = [FieldFault("OpCode", 0, reason, _SECTION)]
            return RdmapMessage(_opcode(packet), packet.fields(), faults, time_s=packet.time_s)
        else:
            message = self._unfinished
            message.segments += 1
        is_send = packet.kind.operation is Operation.SEND
        if is_send != message.is_send and len(message.faults) < limits.DISSECTED_FAULTS_MAX:
            reason = f"{packet.kind.name} within a {message.name}"
            message.faults.append(FieldFault("OpCode", 0, reason, _SECTION))
        _add_payload(message, packet, limits.DISSECTED_MESSAGE_OCTETS_MAX)
        self.late = False
        self._unfinished = None if Place.LAST in place else message
        if self._unfinished is not None:
            return None
        if is_send:
            self._end_send(message, packet)
        return message

    def _begun(self, packet: RocePacket) -> RdmapMessage:
        message = RdmapMessage(_opcode(packet), packet.fields(), self._cut_short(packet))
        if message.opcode == _WRITE:
            message.offset, message.handle, _ = packet.extended(REACH)
        return message

    def _cut_short(self, packet: RocePacket) -> list[FieldFault]:
        """Drops the unfinished message when `packet` begins another; returns its fault in a list, [] without one."""
        message, self._unfinished = self._unfinished, None
        if message is None or packet.kind is None:
            return []
        return [FieldFault("OpCode", 0, f"{packet.kind.name}, but the {message.name} before has not ended", _SECTION)]

    @staticmethod
    def _end_send(message: RdmapMessage, packet: RocePacket) -> None:
        assert packet.kind is not None
        if INVALIDATE_ROWS in packet.kind.headers:
            message.opcode = _SEND_INVALIDATE
            (message.handle,) = packet.extended(_KEY)
            if message.segments > 1:
                message.groups += packet.fields()[1:]
        if packet.header[1] & _SOLICITED_BIT:
            message.opcode += _SOLICITED

    # Responses

    def _response(self, read: _Read, packets: Iterator[RocePacket | PacketGap]) -> Iterator[RdmapMessage | PacketGap]:
        for packet in packets:
            if isinstance(packet, PacketGap):
                self._reads.pop(read.psn, None)
                yield packet._replace(in_response=True)
                return
            message = read.response
            if message is None:
                message = read.response = RdmapMessage(_READ_RESPONSE, packet.fields(), [], read=read.psn)
            else:
                message.segments += 1
            others = (one.response for one in self._reads.values() if one is not read)
            held = sum(len(other.data) for other in others if other is not None)
            _add_payload(message, packet, limits.DISSECTED_MESSAGE_OCTETS_MAX - held)
            if message.octets >= read.asked:
                del self._reads[read.psn]
                yield message
                return


def _operation(packet: RocePacket) -> Operation | None:
    return None if packet.kind is None else packet.kind.operation


def _opcode(packet: RocePacket) -> int:
    return _SEND if _operation(packet) is Operation.SEND else _WRITE


def _is_full(packet: RocePacket) -> bool:
    """Returns whether a packet is not the last of its message, so that its payload must have the length of the MTU.

    Returns False for a payload of fewer than 256 octets, the smallest MTU.
    """
    return packet.kind is not None and Place.LAST not in packet.kind.place and packet.octets >= SMALLEST_MTU_OCTETS


def _add_payload(message: RdmapMessage, packet: RocePacket, most: int) -> None:
    if len(message.data) == message.octets:  # nothing before it was left out
        message.data += packet.payload[: max(most - len(message.data), 0)]
    message.octets += packet.octets
    message.time_s = packet.time_s
