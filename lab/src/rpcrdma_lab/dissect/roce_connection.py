"""Turns the packets of one RoCEv2 connection into messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from rpcrdma_lab.dissect.cm_messages import CmMessage
from rpcrdma_lab.dissect.connection import RdmaConnection, Settings, rdma_message
from rpcrdma_lab.dissect.fields import FieldFault, Message
from rpcrdma_lab.dissect.psn_order import PacketGap
from rpcrdma_lab.dissect.rdmap_messages import RdmapMessage
from rpcrdma_lab.dissect.roce_fields import NAKS, Operation, Syndrome, kind_name, syndrome_of
from rpcrdma_lab.dissect.roce_half import RoceHalf
from rpcrdma_lab.dissect.roce_packets import RocePacket

__all__ = ["RoceConnection"]

_ACKNOWLEDGE = struct.Struct(">I")
_ASK_AGAIN = 0
_READ_RESPONSE = 2


class RoceConnection(RdmaConnection):
    """The decoder of both directions of a RoCEv2 connection."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.conversation.lose()
        self.halves = (RoceHalf(), RoceHalf())

    @property
    def held_octets(self) -> int:
        """The number of payload octets of packets, in both directions, that wait for missing packets before them."""
        return sum(half.held_octets for half in self.halves)

    def manage(self, end: int, said: CmMessage) -> Message:
        """Returns an annotated message about `said`, a connection management message that `end` (0 or 1) has sent.

        A Request or Reply also sets the first PSN of the other end's packets, and a Request the MTU of both directions.
        """
        if said.is_request or said.is_reply:
            # The number is that of the first packet to the sender.
            mtu_octets = said.mtu_octets if said.is_request else self.halves[end].mtu_octets
            for half in self.halves:
                half.mtu_octets = mtu_octets
            self.halves[1 - end].begin(said.number("Starting PSN"), mtu_octets)
        if said.is_reply:
            self.conversation.begin()
        facts: dict[str, object] = {"error": said.error} if said.error else {}
        return Message("cm", said.words, groups=[said.group], facts=facts)

    def feed(self, end: int, packet: RocePacket) -> Iterator[tuple[int, Message]]:
        """Yields (sender, message) for each message that a packet sent by `end` (0 or 1) completes; sender is 0 or 1.

        Gaps of missing packets, negative acknowledgements, and packets that are damaged or not decoded are messages,
        too. The caller sets the number and, if it is None, the time of each message, then calls `finish` with it.
        """
        if not packet.damaged and (packet.kind is None or packet.kind.operation is Operation.CONGESTION):
            yield end, _outside_of_the_order(packet)
            return
        # A packet that its receiver has acknowledged may come late, but not behind a packet of the other direction.
        yield from self._told(1 - end, self.halves[1 - end].settle())
        if packet.damaged or packet.kind is None:
            fault = FieldFault("ICRC", len(packet.header) + packet.octets, packet.damaged, "IBA A17.3")
            yield end, Message("roce", f"a packet with a wrong ICRC, number {packet.psn}", faults=[fault])
        elif packet.kind.is_request:
            yield from self._told(end, self.halves[end].request(packet))
        else:
            half = self.halves[1 - end]
            if packet.kind.operation is Operation.READ_RESPONSE:
                yield from self._told(1 - end, half.respond(packet))
            if packet.kind.headers:
                yield from self._acknowledged(end, packet)

    def finish_packets(self) -> Iterator[tuple[int, Message]]:
        """Gives up missing packets, as at the end of the capture; yields (sender, message), the sender being 0 or 1.

        The messages are about the gaps, and those that the packets waiting behind the gaps complete.
        """
        for end, half in enumerate(self.halves):
            yield from self._told(end, half.finish())

    def _acknowledged(self, end: int, packet: RocePacket) -> Iterator[tuple[int, Message]]:
        (word,) = packet.extended(_ACKNOWLEDGE)
        syndrome, code = syndrome_of(word >> 24), word >> 24 & 0x1F
        if syndrome is Syndrome.ACK:
            self.halves[1 - end].order.acknowledge(packet.psn)
        elif syndrome is Syndrome.NAK and code == _ASK_AGAIN:
            yield end, _negative(packet, f"NAK, asks for the packets from number {packet.psn} on again")
        elif syndrome is Syndrome.NAK:
            reason = NAKS.get(code, f"code {code}")
            yield end, _negative(packet, f"NAK of packet {packet.psn}: {reason}", reason)
        elif syndrome is Syndrome.RNR_NAK:
            yield end, _negative(packet, f"RNR NAK, no receive is ready for packet {packet.psn}")

    def _told(self, end: int, found: Iterator[RdmapMessage | RocePacket | PacketGap]) -> Iterator[tuple[int, Message]]:
        """Yields (sender, message) for each of `found`: requests of `end` (0 or 1), responses to these, and gaps."""
        for one in found:
            if isinstance(one, RocePacket):
                name = kind_name(one.code)
                yield end, Message("roce", f"{name}, number {one.psn}", time_s=one.time_s, groups=one.fields())
                continue
            if not isinstance(one, PacketGap):
                whole = rdma_message(one, "roce", "packets")
                whole.time_s = one.time_s
                yield 1 - end if one.opcode == _READ_RESPONSE else end, whole
                continue
            self.conversation.lose()
            yield (
                1 - end if one.in_response else end,
                Message(
                    "roce",
                    f"{one.packets} packets are missing in the capture",
                    time_s=one.time_s,
                    notes=["the message that they belong to is left out"],
                ),
            )


def _outside_of_the_order(packet: RocePacket) -> Message:
    """Returns a message about a packet of an operation code that is not decoded, or a congestion notification."""
    name, faults = kind_name(packet.code), []
    if packet.kind is None and name == "reserved":
        faults.append(FieldFault("OpCode", 0, f"{packet.code:#04x} is reserved", "IBA 9.2"))
    words = name if packet.kind is not None else f"a packet of another kind, {packet.code:#04x}: {name}"
    return Message("roce", words, groups=packet.fields(), faults=faults)


def _negative(packet: RocePacket, words: str, error: str = "") -> Message:
    facts: dict[str, object] = {"packet": packet.psn} | ({"error": error} if error else {})
    return Message("roce", words, groups=packet.fields(), facts=facts)
