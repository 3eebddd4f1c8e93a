"""Connections of a capture: told apart, begun anew, given up, and their bounds."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.capture_dissector import CaptureDissector
from rpcrdma_lab.dissect.capture_file import CaptureDamaged, CapturedPacket
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.fields import Message
from support.cases import each_case
from support.raw_iwarp import fpdu, startup_frame, untagged

SYN = 2
RAW_IP = 101
REQUEST = startup_frame("Req", 0x40, 1)
CLIENT, SERVER = (bytes([192, 0, 2, 1]), 40000), (bytes([192, 0, 2, 2]), 20049)


def packet(
    sequence: int,
    data: bytes = b"",
    *,
    flags: int = 0x18,
    ends: tuple[tuple[bytes, int], tuple[bytes, int]] = (CLIENT, SERVER),
    time_s: float = 1.0,
    acknowledged: int = 0,
) -> CapturedPacket:
    (source, port), (destination, to_port) = ends
    tcp = struct.pack(">HHIIBBHHH", port, to_port, sequence, acknowledged, 5 << 4, flags, 0, 0, 0) + data
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + source + destination
    return CapturedPacket(round(time_s * 1e9), RAW_IP, ip + tcp, 0)


def sends(first: int, count: int) -> bytes:
    return b"".join(fpdu(untagged(3, 0, number)) for number in range(first, first + count))


def told(packets: Iterable[CapturedPacket]) -> list[Message]:
    return list(CaptureDissector(Settings()).messages(packets))


def test_connections_are_told_apart_and_times_count_from_the_first_packet() -> None:
    other = ((CLIENT[0], 40001), SERVER)
    packets = [
        packet(9, flags=SYN, time_s=100.0),
        packet(9, flags=SYN, ends=other, time_s=100.5),
        packet(10, REQUEST, time_s=101.0),
        packet(10, REQUEST, ends=other, time_s=102.0),
        packet(10, startup_frame("Rep", 0x40, 1), ends=(SERVER, CLIENT), time_s=103.0),
    ]
    messages = told(packets)
    assert [(message.number, message.time_s, message.source, message.destination) for message in messages] == [
        (1, 1.0, "192.0.2.1:40000", "192.0.2.2:20049"),
        (2, 2.0, "192.0.2.1:40001", "192.0.2.2:20049"),
        (3, 3.0, "192.0.2.2:20049", "192.0.2.1:40000"),
    ]
    assert not any(message.faults for message in messages)


@each_case("started", [True, False])
def test_a_syn_with_another_number_begins_another_connection(started: bool) -> None:
    packets = [packet(9, flags=SYN)] if started else []
    packets += [packet(10, REQUEST + sends(1, 2)), packet(7000, flags=SYN), packet(7000, flags=SYN)]
    packets += [packet(7001, REQUEST + sends(1, 1))]
    messages = told(packets)
    assert [message.protocol for message in messages] == ["mpa", "rdmap", "rdmap", "mpa", "rdmap"]
    assert not any(message.faults for message in messages)


def test_a_lost_segment_changes_the_time_of_no_other_message() -> None:
    ready, back = len(REQUEST), (SERVER, CLIENT)
    packets = [packet(9, flags=SYN), packet(10, REQUEST, time_s=2.0)]
    packets += [packet(10 + ready + 24, sends(2, 1), time_s=3.0), packet(10 + ready + 48, sends(3, 1), time_s=4.0)]
    end = 10 + ready + 72
    found = [(message.summary, message.time_s) for message in told([*packets, packet(end + 9, b"", time_s=9.0)])]
    assert found[1:] == [
        ("24 octets are missing in the capture", 2.0),
        ("Send, 0 octets", 2.0),
        ("Send, 0 octets", 3.0),
    ]
    answered = [*packets, packet(500, startup_frame("Rep", 0x40, 1), ends=back, acknowledged=end, time_s=5.0)]
    protocols = [message.protocol for message in told(answered)]
    assert protocols == ["mpa", "tcp", "rdmap", "rdmap", "mpa"], "the answer comes behind all that its sender has got"


@each_case("again", [False, True])
def test_octets_that_never_made_a_message_are_told_at_the_end_of_their_connection(again: bool) -> None:
    part = fpdu(untagged(3, 0, 1, b"abc", last=False)) + fpdu(untagged(1, 1, 1))[:9]
    packets = [packet(9, flags=SYN), packet(10, REQUEST + part, time_s=3.0), packet(7000, flags=SYN, time_s=4.0)]
    messages = told(packets if again else packets[:2])
    assert [(message.summary, message.time_s, message.connection) for message in messages[1:]] == [
        ("9 octets of an unfinished frame", 2.0, 1),
        ("unfinished Send, 3 octets", 2.0, 1),
    ]
    assert messages[2].groups
    assert not any(message.faults for message in messages)


@each_case("damage", [CaptureDamaged("it ends within a packet", 99), KeyboardInterrupt()])
def test_a_capture_that_is_damaged_or_interrupted_ends_there(damage: BaseException) -> None:
    def packets() -> Iterator[CapturedPacket]:
        yield packet(9, flags=SYN)
        yield packet(10, REQUEST)
        yield packet(10 + len(REQUEST) + 24, sends(2, 1))
        raise damage

    dissector = CaptureDissector(Settings())
    assert [message.protocol for message in dissector.messages(packets())] == ["mpa", "tcp", "rdmap"]
    assert dissector.damage is damage


def test_what_does_not_speak_mpa_is_passed_over_and_holds_nothing() -> None:
    dissector = CaptureDissector(Settings())
    packets = [
        packet(9, flags=SYN),
        packet(10, b"GET / HTTP/1.1\r\n"),
        packet(9000, bytes(1000)),
        packet(10000, REQUEST),
    ]
    assert list(dissector.messages(packets)) == []
    assert (dissector.packets, dissector.segments, dissector._held_octets) == (4, 4, 0)


def test_only_so_many_octets_wait_in_all_connections_together() -> None:
    dissector = CaptureDissector(Settings())
    octets = 60_000
    most = 0

    def packets() -> Iterable[CapturedPacket]:
        nonlocal most
        for number in range(lab_limits.CAPTURE_HELD_OCTETS_MAX // octets + 200):
            ends = ((CLIENT[0], 1 + number % 40), SERVER)
            if number < 40:
                yield packet(9, flags=SYN, ends=ends)
            yield packet(100 + number // 40 * octets, bytes(octets), ends=ends)
            most = max(most, dissector._held_octets)

    assert list(dissector.messages(packets())) == []
    assert lab_limits.CAPTURE_HELD_OCTETS_MAX - octets <= most <= lab_limits.CAPTURE_HELD_OCTETS_MAX + octets
    held = sum(tcp.held_octets for tracked in dissector._connections.values() for tcp in tracked.tcp)
    assert held == 0, "at the end of the capture nothing waits any more"


def test_only_so_many_connections_are_followed() -> None:
    dissector = CaptureDissector(Settings())
    count = lab_limits.CAPTURE_CONNECTIONS_MAX + 10
    packets = [
        packet(5000, b"late", ends=((CLIENT[0], 1 + number), SERVER))
        if again
        else packet(9, flags=SYN, ends=((CLIENT[0], 1 + number), SERVER))
        for number in range(count)
        for again in (False, True)
    ]
    list(dissector.messages(packets))
    assert len(dissector._connections) == lab_limits.CAPTURE_CONNECTIONS_MAX
    assert dissector._held_octets <= 4 * lab_limits.CAPTURE_CONNECTIONS_MAX
