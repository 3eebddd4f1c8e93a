"""Link and network headers around TCP."""

from __future__ import annotations

import struct

from rpcrdma_lab.dissect.packets import RoceDatagram, TcpSegment, address_text, transport_unit
from support.cases import each_case

TCP = struct.pack(">HHIIBBHHH", 1000, 2000, 7, 8, 5 << 4, 0x18, 0, 0, 0)
A4, B4 = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
A6, B6 = bytes([0x20, 1, 0xD, 0xB8] + [0] * 11 + [1]), bytes([0x20, 1, 0xD, 0xB8] + [0] * 11 + [2])


def ipv4(
    payload: bytes, *, protocol: int = 6, fragment: int = 0, total: int | None = None, options: bytes = b""
) -> bytes:
    length = 20 + len(options) + len(payload) if total is None else total
    head = struct.pack(">BBHHHBBH", 0x45 + len(options) // 4, 0, length, 0, fragment, 64, protocol, 0)
    return head + A4 + B4 + options + payload


def ipv6(payload: bytes, header: int = 6, extensions: bytes = b"", total: int | None = None) -> bytes:
    length = len(extensions + payload) if total is None else total
    return struct.pack(">IHBB", 6 << 28, length, header, 64) + A6 + B6 + extensions + payload


ETHERNET = bytes(12)
PACKETS = {
    "Ethernet": (1, ETHERNET + b"\x08\x00" + ipv4(TCP + b"data") + bytes(6)),
    "Ethernet with VLAN tags": (1, ETHERNET + b"\x88\xa8\0\1\x81\0\0\2\x86\xdd" + ipv6(TCP + b"data")),
    "raw IPv4": (101, ipv4(TCP + b"data")),
    "raw IPv4 with options": (228, ipv4(TCP + b"data", options=bytes(8))),
    "raw IPv6": (229, ipv6(TCP + b"data")),
    "IPv6 with options": (101, ipv6(TCP + b"data", 0, b"\x3c\0" + bytes(6) + b"\6\1" + bytes(14))),
    "Linux cooked": (113, bytes(14) + b"\x08\0" + ipv4(TCP + b"data")),
    "Linux cooked 2": (276, b"\x86\xdd" + bytes(18) + ipv6(TCP + b"data")),
    "BSD loopback": (0, bytes(4) + ipv4(TCP + b"data")),
    "offloaded": (101, ipv4(TCP + b"data", total=0)),
}


@each_case("name", PACKETS)
def test_a_tcp_segment_is_found(name: str) -> None:
    link_type, packet = PACKETS[name]
    segment = transport_unit(link_type, packet)
    assert isinstance(segment, TcpSegment)
    assert (segment.source[1], segment.destination[1], segment.sequence, segment.data) == (1000, 2000, 7, b"data")
    assert segment.source[0] in {A4, A6}
    assert not segment.synchronizes
    assert (segment.acknowledged, segment.missing) == (8, 0)


@each_case("name", PACKETS)
def test_a_packet_that_is_cut_off_raises_nothing(name: str) -> None:
    link_type, packet = PACKETS[name]
    for length in range(len(packet)):
        segment = transport_unit(link_type, packet[:length])
        if segment is not None:
            assert b"data".startswith(segment.data)


UDP = struct.pack(">HHHH", 49152, 4791, 12, 0x1234)


def test_a_roce_packet_is_found_with_ones_in_all_that_routers_change() -> None:
    found = transport_unit(101, ipv4(UDP + b"data", protocol=17, options=bytes(4)) + bytes(6))
    assert isinstance(found, RoceDatagram)
    assert (found.source, found.destination, found.data, found.missing) == (A4, B4, b"data", 0)
    masked = bytes.fromhex("46ff 0024 0000 0000 ff 11 ffff") + A4 + B4 + bytes(4) + UDP[:6] + b"\xff\xff"
    assert found.masked == masked
    found = transport_unit(101, ipv6(UDP + b"data", 17))
    assert isinstance(found, RoceDatagram)
    assert found.masked == bytes.fromhex("6fffffff 000c 11 ff") + A6 + B6 + UDP[:6] + b"\xff\xff"


def test_roce_packets_that_are_cut_off_or_lie_about_their_length() -> None:
    packet = ipv4(UDP + b"data", protocol=17)
    for length in range(len(packet)):
        found = transport_unit(101, packet[:length])
        assert (found is None) == (length < 28)
        if isinstance(found, RoceDatagram):
            assert (found.data, found.missing) == (b"data"[: length - 28], len(packet) - length)
    for octets in (0, 7, 13):
        lying = UDP[:4] + struct.pack(">HH", octets, 0) + b"data"
        assert transport_unit(101, ipv4(lying, protocol=17)) is None


def test_octets_that_were_not_captured_are_counted() -> None:
    segment = transport_unit(101, ipv4(TCP + b"data")[:-3])
    assert segment is not None
    assert (segment.data, segment.missing) == (b"d", 3)
    for packet in (ipv4(TCP + b"data", total=0), ipv6(TCP + b"data", total=0)):
        offloaded = transport_unit(101, packet[:-3], 3)
        assert offloaded is not None
        assert (offloaded.data, offloaded.missing) == (b"d", 3)


@each_case(
    ("link_type", "packet"),
    [
        (101, ipv4(TCP, protocol=17)),
        (101, ipv4(TCP, fragment=0x2000)),
        (101, ipv4(TCP, fragment=5)),
        (101, ipv6(TCP, 44, b"\6\0" + bytes(6))),
        (101, ipv6(TCP, 0, b"\0\0" + bytes(6))),
        (101, b"\x55" + bytes(60)),
        (101, b""),
        (101, ipv4(TCP[:12] + b"\x40" + TCP[13:])),
        (101, ipv4(TCP[:12] + b"\xf0" + TCP[13:])),
        (1, ETHERNET + b"\x08\x06" + bytes(40)),
        (1, ETHERNET + b"\x81\0\0\1" * 6),
        (276, b"\0\0" + bytes(60)),
    ],
)
def test_other_packets_are_passed_over(link_type: int, packet: bytes) -> None:
    assert transport_unit(link_type, packet) is None


def test_addresses_are_written_as_in_urls() -> None:
    assert address_text((A4, 5)) == "192.0.2.1:5"
    assert address_text((A6, 5)) == "[2001:db8::1]:5"
