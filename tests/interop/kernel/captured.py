"""The start-up frames and FPDUs of a capture, in the order in which they were complete.

Nothing here uses the decoders of `rpcrdma`, so that a mistake there does not hide itself: TCP is that of the lab.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, read_packets
from rpcrdma_lab.dissect.packets import TcpSegment, transport_unit
from rpcrdma_lab.dissect.tcp_stream import Piece, TcpHalf

__all__ = ["Unit", "read_units"]

_STARTUP_OCTETS = 20


@dataclass(frozen=True, slots=True)
class Unit:
    """A start-up frame, or an FPDU without markers.

    `stream` counts connections in the order of their beginnings. Of an FPDU, `opcode` is RDMAP's, `last` that of its
    DDP header, `payload` the octets after that header; `opcode` is -1 for a start-up frame.
    """

    stream: int
    by_client: bool
    octets: bytes
    opcode: int = -1
    last: bool = True
    payload: bytes = b""


@dataclass(slots=True)
class _Half:
    """One direction; `pending` are the octets in order that are in no unit yet."""

    tcp: TcpHalf
    pending: bytearray = field(default_factory=bytearray)
    in_startup: bool = True

    def next_unit(self) -> bytes:
        if self.in_startup:
            if len(self.pending) < _STARTUP_OCTETS:
                return b""
            need = _STARTUP_OCTETS + int.from_bytes(self.pending[18:20], "big")
        else:
            if len(self.pending) < 2:
                return b""
            need = (2 + int.from_bytes(self.pending[:2], "big") + 3 & ~3) + 4
        if len(self.pending) < need:
            return b""
        self.in_startup = False
        unit = bytes(self.pending[:need])
        del self.pending[:need]
        return unit


def read_units(path: Path, port: int) -> list[Unit]:
    """All of the connections to `port` that begin within a capture."""
    halves: dict[tuple[tuple[bytes, int], tuple[bytes, int]], _Half] = {}
    numbers: dict[tuple[tuple[bytes, int], tuple[bytes, int]], int] = {}
    units: list[Unit] = []
    with path.open("rb") as file:
        for packet in read_packets(file, file.read(MAGIC_OCTETS)):
            segment = transport_unit(packet.link_type, packet.data)
            if not isinstance(segment, TcpSegment) or port not in (segment.source[1], segment.destination[1]):
                continue
            by_client = segment.destination[1] == port
            key = segment.source, segment.destination
            stream = key if by_client else key[::-1]
            if segment.synchronizes:
                halves[key] = _Half(TcpHalf())
                halves[key].tcp.synchronize(segment.sequence)
                if by_client:
                    numbers[stream] = len(set(numbers.values()))
                continue
            if (half := halves.get(key)) is None:
                continue
            for piece in half.tcp.add(segment.sequence, segment.data):
                assert isinstance(piece, Piece), "a gap"
                half.pending += piece.data
            while unit := half.next_unit():
                units.append(_unit(numbers[stream], unit, by_client=by_client))
    return units


def _unit(stream: int, octets: bytes, *, by_client: bool) -> Unit:
    if octets.startswith(b"MPA ID "):
        return Unit(stream, by_client, octets)
    length = int.from_bytes(octets[:2], "big")
    control, rdmap = octets[2:4]
    header = 14 if control & 0x80 else 18
    return Unit(stream, by_client, octets, rdmap & 15, bool(control & 0x40), octets[2 + header : 2 + length])
