"""Finds the TCP segment or the RoCEv2 packet in a captured packet: Ethernet, Linux cooked, raw IP; IPv4 and IPv6."""

from __future__ import annotations

import ipaddress
import struct
from typing import NamedTuple

from rpcrdma_lab import limits

__all__ = ["LINK_TYPES", "RoceDatagram", "TcpSegment", "address_text", "transport_unit"]

_ETHERNET, _RAW_BSD, _RAW_OPENBSD, _RAW, _COOKED, _IPV4, _IPV6, _COOKED_2 = 1, 12, 14, 101, 113, 228, 229, 276
_LOOPBACK = 0
LINK_TYPES = frozenset({_LOOPBACK, _ETHERNET, _RAW_BSD, _RAW_OPENBSD, _RAW, _COOKED, _IPV4, _IPV6, _COOKED_2})
"""The LINKTYPE_ numbers of link layers that are decoded."""

_ETHERTYPE_IPV4, _ETHERTYPE_IPV6 = 0x0800, 0x86DD
_VLAN = {0x8100, 0x88A8, 0x9100}
_TCP, _UDP = 6, 17
_UDP_OCTETS = 8
_ROCE_PORT = 4791
_EXTENSIONS = {0, 43, 60}
"""IPv6 extension headers that state their length: Hop-by-Hop Options, Routing, Destination Options."""
_SYN, _ACK = 2, 16
_DELIBERATE_END = bytes.fromhex("fd08 52504d4b 0100")
"""A TCP option in a SYN recorded by this library: the end that sends the SYN makes deliberate mistakes (RFC 6994)."""


class TcpSegment(NamedTuple):
    """A TCP segment in a captured packet; `source` and `destination` are IP address (as octets) and port.

    `acknowledged` is the acknowledgement number, None without the flag ACK. `synchronizes` says that the flag SYN is
    set. `data` is the captured payload, and `missing` the number of octets at the payload's end that were not captured.
    `deliberate` says that this SYN has the option of this library for a sender that makes mistakes on purpose.
    """

    source: tuple[bytes, int]
    destination: tuple[bytes, int]
    sequence: int
    acknowledged: int | None
    synchronizes: bool
    data: bytes
    missing: int
    deliberate: bool = False


class RoceDatagram(NamedTuple):
    """A UDP datagram to the port of RoCEv2, 4791, in a captured packet; the ends are IP addresses as octets.

    `data` is the captured payload of UDP, and `missing` the number of octets at its end that were not captured.
    `masked` are the IP and UDP headers as the ICRC covers them: all bits of fields that routers change are ones.
    """

    source: bytes
    destination: bytes
    data: bytes
    missing: int
    masked: bytes


def address_text(end: tuple[bytes, int]) -> str:
    """Returns `end`, an IP address as octets and a port, as text ADDRESS:PORT; an IPv6 address is in brackets."""
    address = ipaddress.ip_address(end[0])
    return f"{address}:{end[1]}" if address.version == 4 else f"[{address}]:{end[1]}"


def transport_unit(link_type: int, packet: bytes, missing: int = 0) -> TcpSegment | RoceDatagram | None:
    """Returns the TCP segment or RoCEv2 datagram in a captured packet.

    Returns None for other packets, fragments, and packets that end within the headers. `link_type` is one of
    `LINK_TYPES`, and `missing` is the number of octets at the end of the packet that were not captured.
    """
    try:
        found = _network_layer(link_type, packet)
        return _internet(packet, found, missing) if found is not None else None
    except (struct.error, IndexError):
        # A packet that ends within a header.
        return None


def _network_layer(link_type: int, packet: bytes) -> int | None:
    """Returns the offset of the IP header in a packet; None if the link layer states another protocol than IP.

    `link_type` is one of `LINK_TYPES`.
    """
    if link_type == _ETHERNET:
        return _ethertype(packet, 12)
    if link_type == _COOKED:
        return _ethertype(packet, 14)
    if link_type == _COOKED_2:
        protocol = int.from_bytes(packet[:2])
        return 20 if protocol in {_ETHERTYPE_IPV4, _ETHERTYPE_IPV6} else None
    if link_type == _LOOPBACK:
        return 4
    return 0


def _ethertype(packet: bytes, at: int) -> int | None:
    for _ in range(limits.CAPTURE_VLAN_TAGS_MAX + 1):
        protocol = int.from_bytes(packet[at : at + 2])
        if protocol in {_ETHERTYPE_IPV4, _ETHERTYPE_IPV6}:
            return at + 2
        if protocol not in _VLAN:
            return None
        at += 4
    return None


def _internet(packet: bytes, at: int, missing: int) -> TcpSegment | RoceDatagram | None:
    version = packet[at] >> 4
    if version == 4:
        return _ipv4(packet, at, missing)
    return _ipv6(packet, at, missing) if version == 6 else None


def _ipv4(packet: bytes, at: int, missing: int) -> TcpSegment | RoceDatagram | None:
    head, _, total, _, fragment, _, protocol, _, source, destination = struct.unpack_from(">BBHHHBBH4s4s", packet, at)
    octets = (head & 0xF) * 4
    if protocol not in {_TCP, _UDP} or octets < 20 or fragment & 0x3FFF:
        return None
    # Segmentation offload leaves a length of zero in packets that the sender captures itself.
    end = at + total if total else len(packet) + missing
    if protocol == _TCP:
        return _tcp(packet, at + octets, end, source, destination)
    masked = bytearray(packet[at : at + octets])
    masked[1] = masked[8] = masked[10] = masked[11] = 0xFF  # service, time to live, checksum
    return _roce(packet, at + octets, end, (source, destination), bytes(masked))


def _ipv6(packet: bytes, at: int, missing: int) -> TcpSegment | RoceDatagram | None:
    _, payload, header, _, source, destination = struct.unpack_from(">IHBB16s16s", packet, at)
    end = at + 40 + payload if payload else len(packet) + missing
    masked = b"\x6f\xff\xff\xff" + packet[at + 4 : at + 7] + b"\xff" + packet[at + 8 : at + 40]
    at += 40
    for _ in range(limits.CAPTURE_IPV6_EXTENSIONS_MAX):
        if header in _EXTENSIONS:
            header, octets = packet[at], (packet[at + 1] + 1) * 8
            at += octets
        elif header == _TCP:
            return _tcp(packet, at, end, source, destination)
        elif header == _UDP:
            return _roce(packet, at, end, (source, destination), masked)
        else:
            break  # a fragment, or another protocol
    return None


def _tcp(packet: bytes, at: int, end: int, source: bytes, destination: bytes) -> TcpSegment | None:
    port, to_port, sequence, number, offset, flags = struct.unpack_from(">HHIIBB", packet, at)
    start = at + (offset >> 4) * 4
    if offset >> 4 < 5 or start > end:
        return None
    data = packet[start:end]
    acknowledged = number if flags & _ACK else None
    missing = max(end - start - len(data), 0)
    begins = bool(flags & _SYN)
    marked = begins and _DELIBERATE_END in packet[at + 20 : start]
    return TcpSegment((source, port), (destination, to_port), sequence, acknowledged, begins, data, missing, marked)


def _roce(packet: bytes, at: int, end: int, ends: tuple[bytes, bytes], masked: bytes) -> RoceDatagram | None:
    _, to_port, octets, _ = struct.unpack_from(">HHHH", packet, at)
    if to_port != _ROCE_PORT or not _UDP_OCTETS <= octets <= end - at:
        return None
    masked += packet[at : at + 6] + b"\xff\xff"
    data = packet[at + _UDP_OCTETS : at + octets]
    return RoceDatagram(*ends, data, octets - _UDP_OCTETS - len(data), masked)
