"""The start-up frames and FPDUs of a capture, in the order in which they were complete.

Nothing here uses the decoders of `rpcrdma`, so that a mistake there does not hide itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Unit", "read_units"]

_RAW, _ETHERNET = 101, 1
_STARTUP_OCTETS = 20
_SYN = 2
_MAGICS = (0xA1B2C3D4, 0xA1B23C4D)


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
    """One direction: segments may come twice, or before their turn."""

    expected: int
    pending: bytearray = field(default_factory=bytearray)
    early: dict[int, bytes] = field(default_factory=dict)
    in_startup: bool = True

    def take(self, sequence: int, data: bytes) -> None:
        self.early[sequence] = max(data, self.early.get(sequence, b""), key=len)
        for at in sorted(self.early, key=lambda at: at - self.expected & 0xFFFFFFFF):
            skip = self.expected - at & 0xFFFFFFFF
            if skip < 1 << 31:
                fresh = self.early.pop(at)[skip:]
                self.pending += fresh
                self.expected = self.expected + len(fresh) & 0xFFFFFFFF

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
    """All of the connections to `port` that begin within a pcap file of IPv4 packets."""
    halves: dict[tuple[bytes, int, bytes, int], _Half] = {}
    numbers: dict[tuple[bytes, int, bytes, int], int] = {}
    units: list[Unit] = []
    for source, source_port, target, target_port, sequence, flags, data in _segments(path.read_bytes()):
        if port not in (source_port, target_port):
            continue
        by_client = target_port == port
        key = (source, source_port, target, target_port)
        stream = key if by_client else (target, target_port, source, source_port)
        if flags & _SYN:
            halves[key] = _Half(sequence + 1 & 0xFFFFFFFF)
            if by_client:
                numbers[stream] = len(set(numbers.values()))
            continue
        half = halves.get(key)
        if half is None or not data:
            continue
        half.take(sequence, data)
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


def _segments(pcap: bytes) -> list[tuple[bytes, int, bytes, int, int, int, bytes]]:
    """(source, port, target, port, sequence number, flags, data) of each TCP segment."""
    magic, _, _, _, _, _, link = struct.unpack_from("<IHHiIII", pcap)
    assert magic in _MAGICS, "a pcap file in the order of this machine's octets is needed"
    segments = []
    at = 24
    while at + 16 <= len(pcap):
        _, _, captured, _ = struct.unpack_from("<IIII", pcap, at)
        packet = pcap[at + 16 : at + 16 + captured]
        at += 16 + captured
        if link == _ETHERNET:
            if packet[12:14] != b"\x08\x00":
                continue
            packet = packet[14:]
        else:
            assert link == _RAW
        if packet[0] >> 4 != 4 or packet[9] != 6:
            continue
        octets = int.from_bytes(packet[2:4], "big")
        tcp = packet[(packet[0] & 15) * 4 : octets]
        source_port, target_port, sequence, _, offset, flags = struct.unpack_from(">HHIIBB", tcp)
        data = tcp[(offset >> 4) * 4 :]
        segments.append((packet[12:16], source_port, packet[16:20], target_port, sequence, flags, data))
    return segments
