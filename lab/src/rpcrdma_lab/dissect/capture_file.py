"""Packets in a pcap or pcapng file, read as a stream: only the block types that carry packets and their times.

Formats: draft-ietf-opsawg-pcap (file header, packet records), draft-ietf-opsawg-pcapng (Section Header, Interface
Description, Enhanced Packet, Simple Packet and the obsolete Packet blocks; all others are skipped).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from rpcrdma.errors import RpcRdmaError
from rpcrdma_lab import limits

__all__ = ["MAGIC_OCTETS", "CaptureDamaged", "CapturedPacket", "capture_form", "read_packets"]

MAGIC_OCTETS = 4
_PCAP = {
    bytes.fromhex("a1b2c3d4"): (">", 1_000_000),
    bytes.fromhex("d4c3b2a1"): ("<", 1_000_000),
    bytes.fromhex("a1b23c4d"): (">", 1_000_000_000),
    bytes.fromhex("4d3cb2a1"): ("<", 1_000_000_000),
}
_SECTION = bytes.fromhex("0a0d0d0a")
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET = 1, 2, 3, 6
_IF_TSRESOL, _IF_TSOFFSET = 9, 14
_BLOCK_OCTETS_MIN = 12
_SKIP_OCTETS = 1 << 16
_SECOND_NS = 10**9


class CaptureDamaged(RpcRdmaError):
    """Raised when a capture file breaks the rules of its format near the octet `offset`; earlier packets are whole."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"the capture is damaged at octet {offset}: {reason}")
        self.offset = offset


class CapturedPacket(NamedTuple):
    """A packet of a capture file: time in nanoseconds since 1970 (None: unknown), link type (LINKTYPE_...), octets.

    `missing` is the number of octets at its end that were not captured.
    """

    time_ns: int | None
    link_type: int
    data: bytes
    missing: int


class _Interface(NamedTuple):
    link_type: int
    snap_octets: int
    ticks_a_second: int = 1_000_000
    offset_s: int = 0


def capture_form(start: bytes) -> str:
    """Returns the format of a file that begins with `start`: "pcap", "pcapng", or "" if it is neither.

    `start` are the file's first `MAGIC_OCTETS` octets.
    """
    if start in _PCAP:
        return "pcap"
    return "pcapng" if start == _SECTION else ""


def read_packets(file: BinaryIO, start: bytes) -> Iterator[CapturedPacket]:
    """Yields the packets of a pcap or pcapng file; reads the file as the result is iterated, and does not close it.

    Args:
        file: the file, from which the first `MAGIC_OCTETS` octets have been read.
        start: these octets, for which `capture_form` returned a format.

    Raises:
        CaptureDamaged: on iteration, if the file ends within a packet or block, or breaks a rule of its format.
        KeyError: at the call, if `start` belongs to neither format.
        OSError: on iteration, if the file cannot be read.
    """
    source = _Source(file, len(start))
    if start == _SECTION:
        return _read_pcapng(source)
    return _read_pcap(source, *_PCAP[start])


class _Source:
    """A capture file with the offset in octets up to which it has been read."""

    def __init__(self, file: BinaryIO, offset: int) -> None:
        self._file = file
        self.offset = offset

    def take(self, octets: int, what: str) -> bytes:
        """Reads and returns exactly `octets` octets; `what` names them for error texts.

        Raises:
            CaptureDamaged: the file ends before or within them.
        """
        data = self.take_if_any(octets, what)
        if data is None:
            raise CaptureDamaged(f"it ends before {what}", self.offset)
        return data

    def take_if_any(self, octets: int, what: str) -> bytes | None:
        """Reads and returns exactly `octets` octets; None at the end of the file. `what` names them for error texts.

        Raises:
            CaptureDamaged: the file ends within them.
        """
        data = self._file.read(octets)
        while data and len(data) < octets:  # a pipe may give fewer octets
            more = self._file.read(octets - len(data))
            if not more:
                break
            data += more
        if not data and octets:
            return None
        if len(data) < octets:
            raise CaptureDamaged(f"it ends within {what}: {octets} octets needed, {len(data)} left", self.offset)
        self.offset += octets
        return data

    def skip(self, octets: int, what: str) -> None:
        while octets:
            octets -= len(self.take(min(octets, _SKIP_OCTETS), what))


def _read_pcap(source: _Source, order: str, ticks_a_second: int) -> Iterator[CapturedPacket]:
    header = source.take(20, "the file header")
    network = struct.unpack_from(f"{order}I", header, 16)[0]
    link_type = network & 0xFFFF
    record = struct.Struct(f"{order}IIII")
    while head := source.take_if_any(record.size, "a packet header"):
        seconds, ticks, captured, length = record.unpack(head)
        data = source.take(_checked(captured, source), "a packet")
        time_ns = seconds * _SECOND_NS + ticks * _SECOND_NS // ticks_a_second
        yield CapturedPacket(time_ns, link_type, data, max(length - captured, 0))


def _checked(octets: int, source: _Source) -> int:
    if octets > limits.CAPTURE_PACKET_OCTETS_MAX:
        most = limits.CAPTURE_PACKET_OCTETS_MAX
        raise CaptureDamaged(f"a packet of {octets} octets, capture programs write at most {most}", source.offset)
    return octets


def _read_pcapng(source: _Source) -> Iterator[CapturedPacket]:
    order = ">"
    interfaces: list[_Interface] = []
    kind: bytes | None = _SECTION
    while kind is not None:
        if kind == _SECTION:
            order = _read_section(source)
            interfaces = []
        else:
            octets = _body_octets(source, order)
            number = struct.unpack(f"{order}I", kind)[0]
            if number in {_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET}:
                if octets > limits.CAPTURE_PACKET_OCTETS_MAX + _SKIP_OCTETS:
                    raise CaptureDamaged(f"a block of {octets} octets is too long for a packet", source.offset)
                body = source.take(octets, "a block")
                if number == _INTERFACE:
                    interfaces.append(_read_interface(body, order, source))
                    if len(interfaces) > limits.CAPTURE_INTERFACES_MAX:
                        reason = f"more than {limits.CAPTURE_INTERFACES_MAX} interfaces in a section"
                        raise CaptureDamaged(reason, source.offset)
                else:
                    yield _read_packet(number, body, order, interfaces, source)
            else:
                source.skip(octets, "a block")
            source.take(4, "the length at the end of a block")
        kind = source.take_if_any(4, "the type of a block")


def _read_section(source: _Source) -> str:
    head = source.take(8, "the section header")
    order = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}.get(head[4:])
    if order is None:
        raise CaptureDamaged("the byte order of the section is unknown", source.offset - 4)
    length = struct.unpack(f"{order}I", head[:4])[0]
    if length < 28 or length % 4:
        raise CaptureDamaged(f"a section header of {length} octets", source.offset - 8)
    source.skip(length - 12, "the section header")
    return order


def _body_octets(source: _Source, order: str) -> int:
    length: int = struct.unpack(f"{order}I", source.take(4, "the length of a block"))[0]
    if length < _BLOCK_OCTETS_MIN or length % 4:
        raise CaptureDamaged(f"a block of {length} octets", source.offset - 4)
    return length - _BLOCK_OCTETS_MIN


def _read_interface(body: bytes, order: str, source: _Source) -> _Interface:
    if len(body) < 8:
        raise CaptureDamaged("an interface without a link type", source.offset)
    link_type, snap_octets = struct.unpack_from(f"{order}HxxI", body)
    ticks, offset_s = 1_000_000, 0
    at = 8
    while at + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, at)
        value = body[at + 4 : at + 4 + length]
        if code == _IF_TSRESOL and len(value) == 1:
            ticks = 1 << (value[0] & 0x7F) if value[0] & 0x80 else 10 ** min(value[0], 40)
        elif code == _IF_TSOFFSET and len(value) == 8:
            offset_s = struct.unpack(f"{order}q", value)[0]
        elif code == 0:
            break
        at += 4 + (length + 3 & ~3)
    return _Interface(link_type, snap_octets, ticks, offset_s)


def _read_packet(number: int, body: bytes, order: str, interfaces: list[_Interface], source: _Source) -> CapturedPacket:
    if number == _SIMPLE_PACKET:
        form = struct.Struct(f"{order}I")
    elif number == _ENHANCED_PACKET:
        form = struct.Struct(f"{order}IIIII")
    else:
        form = struct.Struct(f"{order}HHIIII")
    if len(body) < form.size:
        raise CaptureDamaged("a packet block without its fields", source.offset)
    fields = form.unpack_from(body)
    index = 0 if number == _SIMPLE_PACKET else fields[0]
    if index >= len(interfaces):
        raise CaptureDamaged(f"a packet of interface {index}, which was not described", source.offset)
    interface = interfaces[index]
    if number == _SIMPLE_PACKET:
        length = fields[0]
        captured = min(length, interface.snap_octets or length)
        time_ns = None
    else:
        high, low, captured, length = fields[-4:]
        time_ns = interface.offset_s * _SECOND_NS + (high << 32 | low) * _SECOND_NS // interface.ticks_a_second
    if captured > len(body) - form.size:
        raise CaptureDamaged(f"a packet of {captured} octets in a block of {len(body)}", source.offset)
    data = body[form.size : form.size + captured]
    return CapturedPacket(time_ns, interface.link_type, data, max(length - captured, 0))
