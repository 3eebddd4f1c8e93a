"""The transport properties of the extension: what each side says of its receive buffers and of its limits."""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.limits import RTR_BUFFER_SEGMENTS_MAX, RTR_BUFFER_STRUCTURES_KEPT_MAX
from rpcrdma.rtr.code_points import Support
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.cursor import Reader

__all__ = [
    "REQUEST_RECEIVE_LIMIT_DEFAULT",
    "RESPONSE_SEND_LIMIT_DEFAULT",
    "SUPPORT_DEFAULT",
    "BufferStructure",
    "SegmentKind",
    "decode_buffer_structure",
    "decode_support",
    "decode_transmission_limit",
    "encode_buffer_structure",
    "encode_support",
    "encode_transmission_limit",
    "shown_support",
]

SUPPORT_DEFAULT = Support(0)
REQUEST_RECEIVE_LIMIT_DEFAULT = 1
RESPONSE_SEND_LIMIT_DEFAULT = 1
"""Transmissions: without this property a responder continues no response."""

_WORD = struct.Struct(">I")
_HEAD = struct.Struct(">II")
_GROUP = struct.Struct(">IIII")
_PLACEABLE = 1
"""XMRSFLAG_DDP; what other bits mean is not defined, so they are passed over."""
_KNOWN_SUPPORT = int(Support.REQUEST | Support.RESPONSE | Support.CONTINUE)


class SegmentKind(NamedTuple):
    """xmrbs_seg: `align` is what the start of the segment is a multiple of in memory, 0 or 1 if nothing is promised.

    Bulk data may be put into `placeable` segments.
    """

    length: int
    align: int
    placeable: bool


@dataclass(frozen=True)
class BufferStructure:
    """xmrbs_buf: every receive buffer has `octets`, made up of so many segments of one kind, then of another.

    Raises:
        LocalProtocolError: the parts do not make up such a buffer.
    """

    octets: int
    groups: tuple[tuple[int, SegmentKind], ...]

    def __post_init__(self) -> None:
        fault = _fault(self.octets, self.groups)
        if fault is not None:
            field, _, need, have = fault
            raise LocalProtocolError(f"receive buffer structure, {field}: need {need}, have {have}")

    @classmethod
    def plain(cls, octets: int) -> BufferStructure:
        """What holds where nothing is told: one segment, not placeable."""
        return cls(octets, ((1, SegmentKind(octets, 0, placeable=False)),))

    def __str__(self) -> str:
        """For people: "1 of 4096, 8 of 4096 for data"."""
        return ", ".join(
            f"{count} of {kind.length}" + (" for data" if kind.placeable else "") for count, kind in self.groups
        )

    @cached_property
    def segments(self) -> tuple[tuple[int, int, bool], ...]:
        """Start, length and placeability of each segment, in order."""
        expanded = []
        start = 0
        for count, (length, _, placeable) in self.groups:
            for _ in range(count):
                expanded.append((start, length, placeable))
                start += length
        return tuple(expanded)

    @cached_property
    def placeable(self) -> tuple[tuple[int, int], ...]:
        """Start and length of each placeable segment, by its number within one buffer."""
        return tuple((start, length) for start, length, placeable in self.segments if placeable)


def _fault(octets: int, groups: tuple[tuple[int, SegmentKind], ...]) -> tuple[str, int, str, str] | None:
    """What is wrong: the field, its offset in the encoded structure, what is needed there, and what it is.

    Sums cannot overflow here, so a count or length that is much too large shows in the sum.
    """
    total = 0
    segments = 0
    at = _HEAD.size
    for count, (length, align, _) in groups:
        if not count:
            return "xmrgrp_count", at, "1 or more", "0"
        if not length:
            return "xmrseg_length", at + 4, "1 octet or more", "0"
        if align & (align - 1):
            return "xmrseg_align", at + 8, "0 or a power of two", str(align)
        segments += count
        total += count * length
        if segments > RTR_BUFFER_SEGMENTS_MAX:
            return "xmrgrp_count", at, f"at most {RTR_BUFFER_SEGMENTS_MAX} segments", str(segments)
        at += _GROUP.size
    if total != octets:
        return "xmrbuf_length", 0, f"{total}, the sum of all segments", str(octets)
    if not groups:
        return "xmrbuf_groups", 4, "1 or more", "0"
    return None


def encode_buffer_structure(structure: BufferStructure) -> bytes:
    """xmrbs_buf."""
    out = bytearray(_HEAD.pack(structure.octets, len(structure.groups)))
    for count, (length, align, placeable) in structure.groups:
        out += _GROUP.pack(count, length, align, _PLACEABLE if placeable else 0)
    return bytes(out)


def decode_buffer_structure(data: Buffer) -> BufferStructure:
    """xmrbs_buf, which is all of `data`.

    Raises:
        DecodeError: the octets are none, or its parts do not make up such a buffer, or are more than `rpcrdma.limits`
            allows.
    """
    reader = Reader(data)
    octets, count = reader.take(_HEAD, "xmrbs_buf")
    if count > RTR_BUFFER_SEGMENTS_MAX:
        raise DecodeError("xmrbuf_groups", 4, f"at most {RTR_BUFFER_SEGMENTS_MAX}", str(count))
    view = reader.view(_GROUP.size * count, "xmrbuf_groups")
    reader.done("xmrbs_buf")
    groups = tuple(
        (repeats, SegmentKind(length, align, bool(flags & _PLACEABLE)))
        for repeats, length, align, flags in _GROUP.iter_unpack(view)
    )
    fault = _fault(octets, groups)
    if fault is not None:
        raise DecodeError(*fault)
    return _structure(octets, groups)


@functools.lru_cache(maxsize=RTR_BUFFER_STRUCTURES_KEPT_MAX)
def _structure(octets: int, groups: tuple[tuple[int, SegmentKind], ...]) -> BufferStructure:
    """One value for all peers that tell the same: with its parts it takes a kilobyte and a half."""
    return BufferStructure(octets, groups)


def encode_support(support: Support) -> bytes:
    """RTR Support."""
    return _WORD.pack(support)


def decode_support(data: Buffer) -> Support:
    """RTR Support, which is all of `data`; bits that mean nothing are passed over.

    Raises:
        DecodeError: it is not one word.
    """
    return Support(_decode_word(data, "rtr_support") & _KNOWN_SUPPORT)


def shown_support(support: Support) -> str:
    """For people: "requests, responses, continued"."""
    words = {Support.REQUEST: "requests", Support.RESPONSE: "responses", Support.CONTINUE: "continued"}
    return ", ".join(word for bit, word in words.items() if bit in support) or "nothing"


def encode_transmission_limit(count: int) -> bytes:
    """Request Transmission Receive Limit and Response Transmission Send Limit."""
    return _WORD.pack(count)


def decode_transmission_limit(data: Buffer) -> int:
    """Either limit, which is all of `data`.

    Raises:
        DecodeError: it is not one word.
    """
    return _decode_word(data, "transmission limit")


def _decode_word(data: Buffer, field: str) -> int:
    reader = Reader(data)
    word = reader.u32(field)
    reader.done(field)
    return word
