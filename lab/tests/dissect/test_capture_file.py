"""pcap and pcapng: every byte order and block, and files that lie or end too early."""

from __future__ import annotations

import contextlib
import io
import struct

import pytest

from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, CaptureDamaged, CapturedPacket, capture_form, read_packets
from support.cases import each_case


def read(data: bytes) -> list[CapturedPacket]:
    file = io.BytesIO(data)
    start = file.read(MAGIC_OCTETS)
    assert capture_form(start)
    return list(read_packets(file, start))


def pcap(order: str, magic: int, *packets: tuple[int, int, bytes, int]) -> bytes:
    data = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, 101)
    for seconds, ticks, octets, length in packets:
        data += struct.pack(f"{order}IIII", seconds, ticks, len(octets), length) + octets
    return data


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + length + body + length


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str, link: int, options: bytes = b"", snap: int = 0) -> bytes:
    return block(order, 1, struct.pack(f"{order}HHI", link, 0, snap) + options)


def enhanced(order: str, number: int, ticks: int, octets: bytes, length: int) -> bytes:
    head = struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(octets), length)
    return block(order, 6, head + octets)


@each_case("order", ["<", ">"])
@each_case(("magic", "ticks"), [(0xA1B2C3D4, 500_000), (0xA1B23C4D, 500_000_000)])
def test_pcap_of_either_order_and_resolution(order: str, magic: int, ticks: int) -> None:
    assert read(pcap(order, magic, (7, ticks, b"abc", 3), (8, 0, b"", 5))) == [
        CapturedPacket(7_500_000_000, 101, b"abc", 0),
        CapturedPacket(8_000_000_000, 101, b"", 5),
    ]


@each_case("order", ["<", ">"])
def test_pcapng_with_all_blocks_that_carry_packets(order: str) -> None:
    nanoseconds = struct.pack(f"{order}HHB3x", 9, 1, 9)
    halves = struct.pack(f"{order}HHB3x", 9, 1, 0x81) + struct.pack(f"{order}HHq", 14, 8, 100) + bytes(4)
    data = (
        section(order)
        + interface(order, 1)
        + interface(order, 101, nanoseconds)
        + interface(order, 228, halves)
        + block(order, 5, bytes(40))  # statistics
        + enhanced(order, 0, 2_500_000, b"abcde", 9)
        + enhanced(order, 1, (1 << 32) * 10**9 + 1, b"f", 1)
        + enhanced(order, 2, 3, b"g", 1)
        + block(order, 3, struct.pack(f"{order}I", 2) + b"hi")
        + block(order, 2, struct.pack(f"{order}HHIIII", 0, 0, 0, 1_000_000, 1, 1) + b"j")
    )
    assert read(data) == [
        CapturedPacket(2_500_000_000, 1, b"abcde", 4),
        CapturedPacket((1 << 32) * 10**9 + 1, 101, b"f", 0),
        CapturedPacket(101_500_000_000, 228, b"g", 0),
        CapturedPacket(None, 1, b"hi", 0),
        CapturedPacket(1_000_000_000, 1, b"j", 0),
    ]


def test_each_section_has_its_own_order_and_interfaces() -> None:
    data = section("<") + interface("<", 1) + enhanced("<", 0, 0, b"a", 1)
    data += section(">") + interface(">", 101) + enhanced(">", 0, 0, b"b", 1)
    assert [(packet.link_type, packet.data) for packet in read(data)] == [(1, b"a"), (101, b"b")]
    with pytest.raises(CaptureDamaged, match="interface 0, which was not described"):
        read(section("<") + interface("<", 1) + section("<") + enhanced("<", 0, 0, b"a", 1))


def test_other_files_are_no_captures() -> None:
    starts = [pcap("<", 0xA1B2C3D4)[:4], section(">")[:4], b"0a0b", b"", b"\x0a\x0d\x0d"]
    assert [capture_form(start) for start in starts] == ["pcap", "pcapng", "", "", ""]


FILES = [
    pcap("<", 0xA1B2C3D4, (7, 1, b"abc", 3), (8, 0, b"defg", 4)),
    section(">") + interface(">", 101) + enhanced(">", 0, 1, b"abcd", 4) + block(">", 3, struct.pack(">I", 2) + b"hi"),
]


@each_case("data", FILES)
def test_a_file_that_ends_anywhere_gives_the_packets_before_that(data: bytes) -> None:
    whole = read(data)
    given = set()
    for length in range(MAGIC_OCTETS, len(data)):
        packets: list[CapturedPacket] = []
        file = io.BytesIO(data[:length])
        with contextlib.suppress(CaptureDamaged):
            packets.extend(read_packets(file, file.read(MAGIC_OCTETS)))
        assert packets == whole[: len(packets)]
        given.add(len(packets))
    assert given >= {0, 1}


@each_case(
    ("data", "reason"),
    [
        (
            pcap("<", 0xA1B2C3D4) + struct.pack("<IIII", 1, 1, lab_limits.CAPTURE_PACKET_OCTETS_MAX + 1, 1),
            "at most 262144",
        ),
        (pcap("<", 0xA1B2C3D4) + struct.pack("<IIII", 1, 1, 100, 100) + b"abc", "100 octets needed, 3 left"),
        (section("<") + struct.pack("<II", 6, 8), "a block of 8 octets"),
        (section("<") + struct.pack("<II", 6, 33), "a block of 33 octets"),
        (section("<") + struct.pack("<II", 6, 0x7FFFFFFC), "too long for a packet"),
        (section("<") + struct.pack("<II", 77, 0x7FFFFFFC), "it ends before a block"),
        (section("<") + interface("<", 1) + block("<", 6, bytes(8)), "without its fields"),
        (section("<") + block("<", 1, bytes(4)), "without a link type"),
        (
            section("<") + interface("<", 1) + block("<", 6, struct.pack("<IIIII", 0, 0, 0, 50, 50) + b"abcd"),
            "a packet of 50 octets in a block of 24",
        ),
        (bytes.fromhex("0a0d0d0a 0000001c 12345678") + bytes(16), "byte order of the section is unknown"),
        (bytes.fromhex("0a0d0d0a 00000010 1a2b3c4d"), "a section header of 16 octets"),
        (section("<") + interface("<", 1) * (lab_limits.CAPTURE_INTERFACES_MAX + 1), "more than 4096 interfaces"),
    ],
)
def test_files_that_lie_are_damaged(data: bytes, reason: str) -> None:
    with pytest.raises(CaptureDamaged, match=reason):
        read(data)


class Dribbling(io.RawIOBase):
    """A pipe that gives one octet at a time."""

    def __init__(self, data: bytes) -> None:
        self.data = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self.data.read(min(size, 1))


def test_a_pipe_may_give_less_than_is_asked_for() -> None:
    for data in FILES:
        file = Dribbling(data[MAGIC_OCTETS:])
        assert list(read_packets(file, data[:MAGIC_OCTETS])) == read(data)  # type: ignore[arg-type]
