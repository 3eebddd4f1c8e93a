"""The transport properties of the extension: the receive buffers and limits of each side."""

from __future__ import annotations

import enum
import functools
import struct
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.limits import RTR_BUFFER_SEGMENTS_MAX, RTR_BUFFER_STRUCTURES_KEPT_MAX
from rpcrdma.transport import PropertyRow
from rpcrdma.wire.buffers import Buffer, Reader

__all__ = [
    "RECEIVE_STRUCTURE",
    "REQUEST_RECEIVE_LIMIT",
    "REQUEST_RECEIVE_LIMIT_DEFAULT",
    "RESPONSE_SEND_LIMIT",
    "RESPONSE_SEND_LIMIT_DEFAULT",
    "RTR_SUPPORT",
    "SUPPORT_DEFAULT",
    "BufferStructure",
    "SegmentKind",
    "Support",
    "decode_buffer_structure",
    "decode_support",
    "decode_transmission_limit",
    "encode_buffer_structure",
    "encode_support",
    "encode_transmission_limit",
    "property_rows",
    "shown_support",
]

RTR_SUPPORT = 0x101
RECEIVE_STRUCTURE = 0x102
REQUEST_RECEIVE_LIMIT = 0x103
RESPONSE_SEND_LIMIT = 0x104


class Support(enum.IntFlag):
    """The value of the property RTR Support: the header types of the extension that its sender takes."""

    REQUEST = 1
    RESPONSE = 2
    CONTINUE = 4


SUPPORT_DEFAULT = Support(0)
REQUEST_RECEIVE_LIMIT_DEFAULT = 1
RESPONSE_SEND_LIMIT_DEFAULT = 1
"""Transmissions: without this property a responder does not continue a response."""

_WORD = struct.Struct(">I")
_HEAD = struct.Struct(">II")
_GROUP = struct.Struct(">IIII")
_PLACEABLE = 1
"""XMRSFLAG_DDP. Other bits are undefined and ignored."""
_KNOWN_SUPPORT = int(Support.REQUEST | Support.RESPONSE | Support.CONTINUE)


class SegmentKind(NamedTuple):
    """xmrbs_seg: one kind of segment of a receive buffer, of `length` octets.

    Its start in memory is a multiple of `align`; 0 or 1: no promise. Bulk data may be placed into `placeable` segments.
    """

    length: int
    align: int
    placeable: bool


@dataclass(frozen=True)
class BufferStructure:
    """xmrbs_buf: the structure of every receive buffer of one end, a property of the round-trip extension.

    `octets` is the length of a buffer. `groups` are pairs of a count and the kind of that many adjacent segments.

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
        """Returns the default structure of a buffer of `octets`: one segment that is not placeable."""
        return cls(octets, ((1, SegmentKind(octets, 0, placeable=False)),))

    def __str__(self) -> str:
        """Formats the structure for people: "1 of 4096, 8 of 4096 for data"."""
        return ", ".join(
            f"{count} of {kind.length}" + (" for data" if kind.placeable else "") for count, kind in self.groups
        )

    @cached_property
    def segments(self) -> tuple[tuple[int, int, bool], ...]:
        """(start, length, placeable) of each segment, in order; `start` is octets from the start of the buffer."""
        expanded = []
        start = 0
        for count, (length, _, placeable) in self.groups:
            for _ in range(count):
                expanded.append((start, length, placeable))
                start += length
        return tuple(expanded)

    @cached_property
    def placeable(self) -> tuple[tuple[int, int], ...]:
        """(start, length) of each placeable segment, in octets, in the order of their numbers within one buffer."""
        return tuple((start, length) for start, length, placeable in self.segments if placeable)


def _fault(octets: int, groups: tuple[tuple[int, SegmentKind], ...]) -> tuple[str, int, str, str] | None:
    """Checks the parts of a receive buffer structure.

    `octets`: the stated size of a buffer. `groups`: pairs of a count and the kind of that many adjacent segments. Sums
    cannot overflow here, so an excessive count or length shows in the sum. Returns the name of the first field at
    fault, its offset in the encoded structure, the valid value and the actual value as text; None without a fault.
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
    """Encodes a receive buffer structure (xmrbs_buf)."""
    out = bytearray(_HEAD.pack(structure.octets, len(structure.groups)))
    for count, (length, align, placeable) in structure.groups:
        out += _GROUP.pack(count, length, align, _PLACEABLE if placeable else 0)
    return bytes(out)


def decode_buffer_structure(data: Buffer) -> BufferStructure:
    """Decodes a receive buffer structure (xmrbs_buf) that fills `data`; recent equal structures are one object.

    Raises:
        DecodeError: the octets are no xmrbs_buf, or its parts make up no such buffer, or are more than `rpcrdma.limits`
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
    """Returns the `BufferStructure` with these fields, cached: it takes 1.5 KB, and peers with equal ones share it."""
    return BufferStructure(octets, groups)


def encode_support(support: Support) -> bytes:
    """Encodes the value of the property RTR Support."""
    return _WORD.pack(support)


def decode_support(data: Buffer) -> Support:
    """Decodes the value of the property RTR Support, which fills `data`; undefined bits are ignored.

    Raises:
        DecodeError: `data` is not one word.
    """
    return Support(_decode_word(data, "rtr_support") & _KNOWN_SUPPORT)


def shown_support(support: Support) -> str:
    """Returns the header types for people: "requests, responses, continued", or fewer; "nothing" if there are none."""
    words = {Support.REQUEST: "requests", Support.RESPONSE: "responses", Support.CONTINUE: "continued"}
    return ", ".join(word for bit, word in words.items() if bit in support) or "nothing"


def encode_transmission_limit(count: int) -> bytes:
    """Encodes a property that limits the messages (transmissions) of one request or response: `count` is the most."""
    return _WORD.pack(count)


def decode_transmission_limit(data: Buffer) -> int:
    """Decodes, from the whole of `data`, a property that limits the messages (transmissions) of a request or response.

    Raises:
        DecodeError: `data` is not one word.
    """
    return _decode_word(data, "transmission limit")


def property_rows(
    support: Support, structure: BufferStructure, requests_max: int, responses_max: int
) -> tuple[PropertyRow, ...]:
    """Returns a row for each property of the extension: number, name, encoded value for this end, and decoder.

    Args:
        support: the header types that this end takes.
        structure: the structure of this end's receive buffers.
        requests_max: the most transmissions (messages, each a Send) of one request that this end takes.
        responses_max: the most transmissions of one response that this end sends.
    """
    return (
        PropertyRow(RTR_SUPPORT, "RTR Support", encode_support(support), decode_support, shown_support),
        PropertyRow(
            RECEIVE_STRUCTURE,
            "Receive Buffer Structure",
            encode_buffer_structure(structure),
            decode_buffer_structure,
            receive_octets=attrgetter("octets"),
        ),
        PropertyRow(
            REQUEST_RECEIVE_LIMIT,
            "Request Transmission Receive Limit",
            encode_transmission_limit(requests_max),
            decode_transmission_limit,
            int,
        ),
        PropertyRow(
            RESPONSE_SEND_LIMIT,
            "Response Transmission Send Limit",
            encode_transmission_limit(responses_max),
            decode_transmission_limit,
            int,
        ),
    )


def _decode_word(data: Buffer, field: str) -> int:
    reader = Reader(data)
    word = reader.u32(field)
    reader.done(field)
    return word
