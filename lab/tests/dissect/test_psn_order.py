"""The order of RoCEv2 packets by their numbers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.psn_order import PacketGap, PsnOrder
from rpcrdma_lab.dissect.roce_packets import RocePacket


def packet(psn: int) -> RocePacket:
    return RocePacket(b"", b"", None, 4, 1, psn, b"", b"data", 0, "")


def numbers(found: Iterable[RocePacket | PacketGap]) -> list[int | str]:
    """The numbers of packets, and "gap N"."""
    return [f"gap {one.packets}" if isinstance(one, PacketGap) else one.psn for one in found]


def test_a_late_packet_lets_those_behind_it_go() -> None:
    order = PsnOrder(1)
    assert numbers(order.add(packet(3))) == []
    assert numbers(order.add(packet(2))) == []
    assert order.held_octets == 8
    assert numbers(order.add(packet(1))) == [1, 2, 3]
    assert order.held_octets == 0


def test_packets_before_the_next_one_are_repetitions() -> None:
    order = PsnOrder(5)
    assert [numbers(order.add(packet(psn))) for psn in (5, 5, 4, 6, 5)] == [[5], [], [], [6], []]


def test_an_acknowledge_of_the_missing_packet_ends_the_wait() -> None:
    order = PsnOrder(1)
    assert numbers(order.add(packet(3))) == []
    expected: list[tuple[int, list[int | str]]] = [(0, []), (1, ["gap 1"]), (5, ["gap 1", 3, "gap 2"])]
    for acknowledged, found in expected:
        order.acknowledge(acknowledged)
        assert numbers(order.settle()) == found
        assert numbers(order.settle()) == []
    assert numbers(order.add(packet(6))) == [6]
    order.acknowledge(7)
    assert numbers(order.finish()) == ["gap 1"]


def test_packets_within_the_numbers_of_a_read_are_dropped() -> None:
    order = PsnOrder(1)
    assert numbers(order.add(packet(2))) == []
    assert numbers(order.add(packet(1), 3)) == [1]
    assert order.held_octets == 0
    assert numbers(order.add(packet(4))) == [4]


def test_behind_a_read_of_unknown_length_any_packet_is_next() -> None:
    order = PsnOrder(1)
    assert numbers(order.add(packet(9))) == []
    assert numbers(order.add(packet(1), None)) == [1, 9]
    assert numbers(order.add(packet(10), None)) == [10]
    assert numbers(order.add(packet(20))) == [20]
    order = PsnOrder(0xFFFFFD)
    assert [numbers(order.add(packet(psn))) for psn in (0, 0xFFFFFF)] == [[], []]
    assert numbers(order.add(packet(0xFFFFFD), None)) == [0xFFFFFD, 0xFFFFFF, 0], "where numbers wrap"


def test_a_full_room_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_limits, "CAPTURE_WAITING_PACKETS_MAX", 3)
    order = PsnOrder(1)
    assert [numbers(order.add(packet(psn))) for psn in (4, 6, 8, 9)] == [[], [], [], ["gap 3", 4]]
    assert numbers(order.finish()) == ["gap 1", 6, "gap 1", 8, 9]
