"""Groups of transmissions: where items lie in receive buffers, and every fault at its bound, word by word."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from rpcrdma.rtr.groups import Arrived, Group, Placement, check_positions, take_payload
from rpcrdma.rtr.messages import (
    XMTREQ,
    InSegments,
    Item,
    NotPlaced,
    TransmissionFault,
    TransmitRequest,
)
from rpcrdma.rtr.receive_slabs import LentSlots, Slab, SlabBuffer
from rtr_link import pattern, tried
from support.cases import each_case

HEAD, SEGMENT, EACH = 8, 4, 2
SLOT = SEGMENT * EACH
FULL = HEAD + SLOT
TOP = 0xFFFFFFFF


def fault_of(step: Callable[..., Any], *arguments: Any) -> tuple[str, tuple[int, ...]]:
    """The code and the words of the fault that a step must raise."""
    error = tried(step, *arguments)
    assert isinstance(error, TransmissionFault), error
    return error.code.name, error.words


def request(count: int) -> TransmitRequest:
    return TransmitRequest((), (), count, 0, 0)


def buffers(kind: str, count: int) -> Iterator[SlabBuffer]:
    """Receive buffers whose slots hold octets of a pattern."""
    slab = Slab(SLOT)
    slab.memory[:] = pattern(len(slab.memory))
    for number in range(count):
        if kind == "short":
            memory = memoryview(bytearray(HEAD) + slab.memory[number * SLOT : number * SLOT + SLOT])
            yield SlabBuffer(memory[:HEAD], LentSlots(memory, HEAD), 0)
            continue
        if kind == "slabs":
            before, slab = slab, Slab(SLOT)
            slab.memory[:] = before.memory[:]
        yield SlabBuffer(memoryview(bytearray(HEAD)), slab, number * SLOT)


def group(*lengths: int, kind: str = "one slab", payload_ends: Sequence[int] = (), count: int | None = None) -> Group:
    """Transmissions of so many octets; of one of 0 octets there is no buffer."""
    found = Group(7, XMTREQ, request(len(lengths) if count is None else count), 8)
    ends = payload_ends or [HEAD] * len(lengths)
    for buffer, octets, end in zip(buffers(kind, len(lengths)), lengths, ends, strict=True):
        found.add(Arrived(buffer if octets else None, octets, end), b"")
    return found


class Numbers(tuple[int, ...]):  # noqa: SLOT001 - a tuple with an attribute cannot have slots
    """Numbers of segments, whose end may be looked for 1000 times."""

    looks = 0

    def __len__(self) -> int:
        self.looks += 1
        assert self.looks <= 1000, "the segments do not end"
        return super().__len__()


def item(length: int, *numbers: int, offset: int = 0, position: int = 0) -> Item:
    return Item(position, length, InSegments(offset, Numbers(numbers)))


def placed_by(own: Group, *items: Item) -> Placement:
    found = tried(own.place, items, SEGMENT, EACH)
    assert isinstance(found, Placement), found
    return found


@each_case(
    ("items", "code", "words"),
    [
        ([(1, 4, [0])], "OFFSET", (4, 0, 3)),
        ([(1, TOP, [0])], "OFFSET", (TOP, 0, 3)),
        ([(1, 0, [])], "PAYLOAD", (1, 0, 0)),
        ([(1, 2, [])], "PAYLOAD", (1, 0, 0)),
        ([(5, 0, [0])], "PAYLOAD", (5, 0, 4)),
        ([(4, 1, [0])], "PAYLOAD", (4, 0, 3)),
        ([(6, 3, [0, 1])], "PAYLOAD", (6, 0, 5)),
        ([(4, 0, [4])], "SEGMENT_NUMBER", (4, 0, 3)),
        ([(0, 0, [4])], "SEGMENT_NUMBER", (4, 0, 3)),
        ([(8, 0, [3, 4])], "SEGMENT_NUMBER", (4, 4, 3)),
        ([(8, 0, [1, 0])], "SEGMENT_NUMBER", (0, 2, 3)),
        ([(8, 0, [1, 1])], "SEGMENT_NUMBER", (1, 2, 3)),
        ([(4, 0, [1]), (4, 0, [1])], "SEGMENT_NUMBER", (1, 2, 3)),
        ([(4, 0, [1]), (4, 0, [0])], "SEGMENT_NUMBER", (0, 2, 3)),
        ([(3, 0, [1]), (4, 0, [0])], "SEGMENT_NUMBER", (0, 1, 3)),
        ([(3, 0, [1]), (1, 2, [1])], "OFFSET", (2, 3, 3)),
        ([(2, 1, [1]), (1, 0, [1])], "OFFSET", (0, 3, 3)),
        ([(6, 0, [0, 1]), (1, 1, [1])], "OFFSET", (1, 2, 3)),
        ([(6, 1, [0, 1]), (1, 2, [1])], "OFFSET", (2, 3, 3)),
        ([(0, 2, [1]), (1, 1, [1])], "OFFSET", (1, 2, 3)),
    ],
)
def test_an_item_that_is_not_in_free_segments_is_a_fault(
    items: list[tuple[int, int, list[int]]], code: str, words: tuple[int, ...]
) -> None:
    assert fault_of(
        group(FULL, FULL).place, [item(length, *at, offset=offset) for length, offset, at in items], SEGMENT, EACH
    ) == (code, words)


def test_without_segments_there_is_no_number() -> None:
    assert fault_of(group(HEAD).place, [item(4, 0)], 1, 0) == ("SEGMENT_NUMBER", (0, 1, 0))


@each_case("kind", ["one slab", "slabs", "short"])
def test_an_item_has_no_more_than_has_arrived(kind: str) -> None:
    """The segments of a transmission hold the octets behind its head, and no others."""
    for arrived, which in itertools.product(range(HEAD - 1, FULL + 1), (0, 1)):
        there = max(0, arrived - HEAD)
        lengths = [FULL, FULL]
        lengths[which] = arrived
        for offset in range(SEGMENT):
            numbers = [2 * which, 2 * which + 1]
            for length in range(SLOT - offset + 1):
                own = group(*lengths, kind=kind)
                if length <= max(0, there - offset):
                    views, _ = placed_by(own, item(length, *numbers, offset=offset))
                    start = which * SLOT + offset
                    assert views[0] == pattern(2 * SLOT)[start : start + length]
                    continue
                assert fault_of(own.place, [item(length, *numbers, offset=offset)], SEGMENT, EACH) == (
                    "PAYLOAD",
                    (length, 0, max(0, there - offset)),
                )


@each_case("inside", range(SLOT))
def test_an_item_begins_behind_the_payload(inside: int) -> None:
    for number, offset in itertools.product(range(2), range(SEGMENT)):
        own = group(FULL, FULL, payload_ends=(HEAD + inside, HEAD))
        place = number * SEGMENT + offset
        if place >= inside:
            assert placed_by(own, item(1, number, offset=offset)).views[0] == pattern(SLOT)[place:][:1]
            continue
        assert fault_of(own.place, [item(1, number, offset=offset)], SEGMENT, EACH) == (
            "OFFSET",
            (offset, inside - number * SEGMENT, SEGMENT - 1),
        )


@each_case(("count", "most", "is_taken"), [(0, 3, False), (1, 1, True), (3, 3, True), (4, 3, False)])
def test_a_group_has_as_many_transmissions_as_are_allowed(count: int, most: int, is_taken: bool) -> None:
    if is_taken:
        found = Group(7, XMTREQ, request(count), most)
        assert (found.xid, found.lead, found.head, found.held) == (7, XMTREQ, request(count), 0)
        assert (found.arrived, found.stream, found.complete) == ([], b"", False)
        return
    assert fault_of(Group, 7, XMTREQ, request(count), most) == ("SEQUENCE", (most, count))


def placed(*items: tuple[int, int]) -> list[Item]:
    return [Item(position, length, InSegments(0, ())) for position, length in items]


@pytest.mark.req("RT-24")
@each_case(
    ("items", "stream_octets", "words"),
    [
        ([(12, 4)], 8, (12, 0, 8)),
        ([(6, 4)], 8, (6, 0, 8)),
        ([(1, 4)], 8, (1, 0, 8)),
        ([(8, 4), (8, 4)], 8, (8, 12, 12)),
        ([(4, 5), (8, 1)], 8, (8, 12, 16)),
        ([(4, 4), (16, 1)], 8, (16, 8, 12)),
        ([(4, 5), (20, 1)], 8, (20, 12, 16)),
        ([(4, 0), (4, 0)], 8, (4, 8, 8)),
        ([(4, 4), (0, 4)], 8, (0, 8, 12)),
        ([(0, 4), (4, 4), (4, 4)], 8, (4, 8, 16)),
        ([(0xFFFFFFFE, 4)], 1 << 33, (0xFFFFFFFE, 0, 0xFFFFFFFC)),
        ([(0, 0xFFFFFFFF), (0xFFFFFFFC, 0)], 8, (0xFFFFFFFC, 0, 0xFFFFFFFC)),
        ([(0xFFFFFFFC, 8), (0xFFFFFFFC, 0)], 1 << 33, (0xFFFFFFFC, 4, 0xFFFFFFFC)),
    ],
)
def test_items_that_do_not_are_a_fault(
    items: list[tuple[int, int]], stream_octets: int, words: tuple[int, ...]
) -> None:
    assert fault_of(check_positions, placed(*items), stream_octets) == ("OFFSET", words)


def test_an_item_that_is_not_placed_stands_nowhere() -> None:
    nowhere = Item(1001, 100, NotPlaced.TOO_SHORT)
    check_positions([nowhere, *placed((4, 4)), nowhere, *placed((8, 4)), nowhere], 4)


@each_case("prefix", [0, 3])
@each_case("start", [0, 2])
def test_a_payload_goes_on_in_the_placeable_segments(start: int, prefix: int) -> None:
    """Up to the end of the message, not of its buffer."""
    slab = Slab(SLOT)
    whole = pattern(FULL)
    head = memoryview(bytearray(whole[:HEAD]))
    slab.memory[SLOT : 2 * SLOT] = whole[HEAD:]
    buffer = SlabBuffer(head, slab, SLOT)
    body = head[prefix:]
    for length in range(HEAD, FULL + 1):
        room = length - prefix - start
        for octets in range(room + 1):
            found = take_payload(body, start, octets, prefix, (buffer, length))
            assert type(found) is bytes
            assert found == whole[prefix + start : prefix + start + octets]
        assert fault_of(take_payload, body, start, room + 1, prefix, (buffer, length)) == (
            "PAYLOAD",
            (room + 1, 0, room),
        )
