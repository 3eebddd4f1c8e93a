"""Packets of RoCEv2: the headers of InfiniBand's transport in a UDP datagram, the payload, and the ICRC."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.fields import Field
from rpcrdma_lab.dissect.packets import RoceDatagram
from rpcrdma_lab.dissect.roce_fields import BASE_ROWS, KINDS, PacketKind

__all__ = ["PSN_SPACE", "RocePacket", "ahead_of", "read_packet"]

PSN_SPACE = 1 << 24
_BASE = struct.Struct(">BBHII")
_ICRC = struct.Struct("<I")
_LINK_HEADER_OF_ONES = b"\xff" * 8
_LOW_24 = PSN_SPACE - 1


class RocePacket(NamedTuple):
    """A RoCEv2 packet from one IP address (as octets) to a queue pair of another.

    `kind` is the meaning of the operation code `code`, None if this code is not decoded. `header` has the octets of all
    InfiniBand headers, and `payload` the captured octets of the payload; `missing` more were not captured. `damaged`
    says why the ICRC is wrong, and is empty if it is right or was not captured. `time_s` is in seconds from the first
    packet of the capture; None if unknown.
    """

    source: bytes
    destination: bytes
    kind: PacketKind | None
    code: int
    queue_pair: int
    psn: int
    header: bytes
    payload: bytes
    missing: int
    damaged: str
    time_s: float | None = None

    @property
    def octets(self) -> int:
        """The length of the payload in octets, with those that were not captured."""
        return len(self.payload) + self.missing

    def fields(self) -> list[Field]:
        """Returns a `Field`, with its decoded fields, for each InfiniBand header, the base header first."""
        found, at = [BASE_ROWS.read(self.header)[0]], BASE_ROWS.size
        for table in self.kind.headers if self.kind is not None else ():
            found.append(table.read(self.header, at)[0])
            at += table.size
        return found

    def extended(self, layout: struct.Struct) -> tuple[int, ...]:
        """Decodes the first extended header of the packet, whose numbers `layout` has; returns them."""
        return layout.unpack_from(self.header, BASE_ROWS.size)


def ahead_of(psn: int, other: int) -> int:
    """Returns by how many packets `psn` follows `other` modulo 2**24; negative if `psn` precedes `other`."""
    return (psn - other + PSN_SPACE // 2) % PSN_SPACE - PSN_SPACE // 2


def read_packet(datagram: RoceDatagram) -> RocePacket | None:
    """Decodes the RoCEv2 packet in a UDP datagram.

    Returns None if the datagram has another transport version or a wrong length, or ends within the headers. A wrong
    ICRC is stated in `damaged` of the result.
    """
    data, whole = datagram.data, not datagram.missing
    if len(data) < _BASE.size + (_ICRC.size if whole else 0):
        return None
    code, flags, _, queue_pair, psn = _BASE.unpack_from(data)
    if flags & 0x0F:
        return None
    kind = KINDS.get(code)
    start = _BASE.size + sum(table.size for table in kind.headers) if kind is not None else _BASE.size
    octets = len(data) + datagram.missing - _ICRC.size - (flags >> 4 & 3) - start
    if len(data) < start or not 0 <= octets <= limits.CAPTURE_ROCE_PAYLOAD_OCTETS_MAX:
        return None
    payload = data[start : start + octets]
    return RocePacket(
        datagram.source,
        datagram.destination,
        kind,
        code,
        queue_pair & _LOW_24,
        psn & _LOW_24,
        data[:start],
        payload,
        octets - len(payload),
        _damage(datagram) if whole else "",
    )


def _damage(datagram: RoceDatagram) -> str:
    body = datagram.data[: -_ICRC.size]
    masked = body[:4] + b"\xff" + body[5:]
    own = zlib.crc32(_LINK_HEADER_OF_ONES + datagram.masked + masked)
    (icrc,) = _ICRC.unpack(datagram.data[-_ICRC.size :])
    return "" if icrc == own else f"{icrc:#010x}, the octets have {own:#010x}"
