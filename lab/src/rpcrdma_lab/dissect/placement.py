"""Bulk data of the round-trip extension, located in the announced segments of the receiver's buffers.

The declaration is known when the capture has the receiver's transport properties; without them, the octets behind a
payload are shown without a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.fields import Field, FieldFault

__all__ = ["Part", "PlacedItem", "Structure", "check_places", "find_parts", "lay_out", "structure_of"]

_STRUCTURE, _PLACES, _PADDING = "rtrext 8.3", "rtrext 7.3", "rtrext 11"
_PLACEABLE = 1


Structure: TypeAlias = tuple[tuple[int, int], ...]
"""The segments of one receive buffer into which bulk data may be placed: start and length in octets of each."""


class PlacedItem(NamedTuple):
    """A data item in segments of receive buffers: its length, its offset in the first segment, the segments' numbers.

    Lengths and offsets are in octets. Only segments for bulk data are counted, from 0 on, through the receive buffers
    of all transmissions of one RPC message.
    """

    name: str
    length: int
    offset: int
    numbers: tuple[int, ...]


class Part(NamedTuple):
    """The part of a data item in one transmission: the octets from `start` up to `end`, which is not included.

    The part begins at octet `at` of `item`.
    """

    start: int
    end: int
    item: PlacedItem
    at: int


def structure_of(told: Field) -> tuple[Structure | None, list[str]]:
    """Finds the segments for bulk data in a declaration of receive buffers.

    Args:
        told: the decoded field of type xmrbs_buf in the transport property Receive Buffer Structure.

    Returns:
        (The segments, []) for a valid declaration; (None, the reasons) for a wrong one; (None, []) if the declaration
        could not be decoded, so that its fields have the faults already.
    """
    groups = told.member("xmrbuf_groups")
    if groups is None or any(one.faults for one in told.walk()):
        return None, []
    placeable, start, count = [], 0, 0
    for group in groups.fields:
        repeats, info = group.number("xmrgrp_count"), group.member("xmrgrp_info")
        length = info.number("xmrseg_length") if info is not None else None
        flags = info.number("xmrseg_flags") if info is not None else None
        assert repeats is not None
        assert length is not None
        assert flags is not None
        if not repeats or not length:
            return None, ["a group of no segments" if not repeats else "segments of no octets"]
        count += repeats
        if count > limits.DISSECTED_BUFFER_SEGMENTS_MAX:
            return None, [f"more than {limits.DISSECTED_BUFFER_SEGMENTS_MAX} segments"]
        if flags & _PLACEABLE:
            placeable += [(start + number * length, length) for number in range(repeats)]
        start += repeats * length
    octets = told.number("xmrbuf_length")
    if octets != start:
        return None, [f"the segments have {start} octets, the buffer {octets}"]
    return tuple(placeable), []


def check_places(items: Sequence[PlacedItem], structure: Structure, count: int) -> list[tuple[PlacedItem, str, str]]:
    """Returns (item, name of the wrong field, reason) for each item that does not fit into its segments.

    An item has at most one entry. `structure` has the segments for bulk data of each receive buffer, and `count` is the
    number of transmissions, each of which takes one buffer.
    """
    wrong = []
    known = len(structure)
    for item in items:
        beyond = [number for number in item.numbers if number >= known * count]
        if beyond:
            wrong.append((item, "xmdl_bsnum", f"segment {beyond[0]}, the group has {known * count}"))
            continue
        lengths = [structure[number % known][1] for number in item.numbers]
        if lengths and item.offset >= lengths[0]:
            wrong.append((item, "xmdl_offset", f"offset {item.offset} in a segment of {lengths[0]} octets"))
        elif item.length > sum(lengths) - item.offset:
            room = max(0, sum(lengths) - item.offset)
            wrong.append((item, "xmdmi_length", f"{item.length} octets, its segments have room for {room}"))
    return wrong


def find_parts(items: Sequence[PlacedItem], structure: Structure) -> dict[int, list[Part]]:
    """Returns, by number of the transmission (from 0), the parts of items in the transmission, in order of offset.

    Transmissions without parts are left out. `structure` has the segments for bulk data of each transmission's receive
    buffer. Items that do not fit (see `check_places`) are permitted: octets beyond an item's segments are in no part,
    and segments beyond the last transmission are in parts of further numbers.
    """
    found: dict[int, list[Part]] = {}
    for item in items:
        at, skip = 0, item.offset
        for segment in item.numbers if structure else ():
            transmission, index = divmod(segment, len(structure))
            start, length = structure[index]
            taken = min(max(0, length - skip), item.length - at)
            if taken:
                found.setdefault(transmission, []).append(Part(start + skip, start + skip + taken, item, at))
            at += taken
            skip = 0
    for parts in found.values():
        parts.sort()
    return found


def lay_out(parts: Sequence[Part] | None, data: bytes, start: int) -> tuple[list[Field], list[FieldFault]]:
    """Annotates the octets of a transmission after its payload: the parts of items, and padding elsewhere.

    Args:
        parts: the parts in this transmission, in order; None if they are unknown: one field then has all octets.
        data: the octets of the transmission, header included.
        start: the offset in `data` at which the payload of the transmission ends.

    Returns:
        (The fields, with offsets in `data`; the faults: parts that overlap what is before them or exceed `data`, and
        padding that is not zero). A field ends at the end of `data` at the latest; a part that begins there has none.
    """
    fields: list[Field] = []
    faults: list[FieldFault] = []
    if parts is None:
        if start < len(data):
            meaning = "padding and bulk data; what the receiver's buffers are made of is not in the input"
            fields.append(Field("data", start, len(data) - start, shown=f"{len(data) - start} octets", meaning=meaning))
        return fields, faults
    for part in parts:
        place = Field(f"item {part.item.name}", part.start, meaning="bulk data", section=_PLACES)
        place.shown = f"octets {part.at} to {part.at + part.end - part.start - 1}"
        if part.start < start:
            place.faults.append("overlaps with what is before it")
        elif start < len(data):
            _pad(data, start, min(part.start, len(data)), fields, faults)
        if part.end > len(data):
            place.faults.append("goes beyond the end of the message")
        faults += [FieldFault(place.name, part.start, reason, _PLACES) for reason in place.faults]
        start = max(start, min(part.end, len(data)))
        if part.start < len(data):
            place.size = min(part.end, len(data)) - part.start
            fields.append(place)
    _pad(data, start, len(data), fields, faults)
    return fields, faults


def _pad(data: bytes, start: int, end: int, fields: list[Field], faults: list[FieldFault]) -> None:
    if start == end:
        return
    padding = Field("padding", start, end - start, shown=f"{end - start} octets", meaning="zeros", section=_PADDING)
    fields.append(padding)
    if any(memoryview(data)[start:end]):
        padding.faults.append("the padding is not zero")
        faults.append(FieldFault("padding", start, "the padding is not zero", _PADDING, "RT-15"))
