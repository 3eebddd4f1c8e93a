"""MPA start-up frames, FPDUs and DDP segments, made of named fields and taken apart (RFC 5044, 5041, 5040, 6581)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from crc32c import crc32c

from rpcrdma_lab.scripted.marked_frames import Markers
from rpcrdma_lab.scripted.values import CONTENT_OCTETS_MAX, Names, number, octets

__all__ = [
    "FRAME_LENGTH_MAX",
    "OPCODES",
    "SEGMENT_MOST",
    "STARTUP_CRC",
    "STARTUP_ENHANCED",
    "STARTUP_FLAGS_AT",
    "STARTUP_MARKERS",
    "STARTUP_MOST",
    "STARTUP_OCTETS",
    "is_whole_terminate",
    "make_fpdu",
    "make_segments",
    "make_startup",
    "read_segment",
    "read_startup",
]

OPCODES: Mapping[str, int] = {
    "write": 0,
    "read_request": 1,
    "read_response": 2,
    "send": 3,
    "send_invalidate": 4,
    "send_solicited": 5,
    "send_solicited_invalidate": 6,
    "terminate": 7,
}
"""Codes of RDMAP messages by name (RFC 5040 section 4.3)."""

STARTUP_CRC = 0x40
"""The flag C of a start-up frame: its sender demands a CRC."""
STARTUP_ENHANCED = 0x10
"""The flag S of a start-up frame: the private data begins with IRD and ORD (RFC 6581)."""
STARTUP_MARKERS = 0x80
"""The flag M of a start-up frame: its sender demands markers."""
STARTUP_FLAGS_AT = 16
STARTUP_OCTETS = 20
"""Octets of a start-up frame before its private data."""

_PRIVATE = struct.Struct(">IBBBB")
_PRIVATE_MAGIC = bytes.fromhex("f6ab0e18")
"""The octets with which private data of RPC-over-RDMA begin (RFC 8797 section 4)."""
STARTUP_MOST: Mapping[str, int] = {"flags": 0xFF, "revision": 0xFF, "length": 0xFFFF, "ird": 0xFFFF, "ord": 0xFFFF}
"""The largest number of each numeric field of a start-up frame."""
SEGMENT_MOST: Mapping[str, int] = {
    **dict.fromkeys(("tagged", "last"), 1),
    **dict.fromkeys(("version", "rdmap_version", "rdmap_reserved"), 3),
    **dict.fromkeys(("opcode", "reserved"), 15),
    **dict.fromkeys(("handle", "invalidate", "queue", "number"), 0xFFFF_FFFF),
    "offset": (1 << 64) - 1,
    "segment_octets": CONTENT_OCTETS_MAX,
}
"""The largest number of each numeric field of a DDP segment."""
FRAME_LENGTH_MAX = 0xFFFF
_TAGGED = frozenset({0, 2})
_QUEUES = {1: 1, 7: 2}
_ULPDU_OCTETS = 1424
"""Payload of a segment: FPDUs fit the usual Ethernet frame, so that no TCP segment ends within a trailer."""


def make_startup(given: Mapping[str, Any], names: Names, where: str) -> bytes:
    """Encodes an MPA start-up frame, by default a Request; a field that `given` does not have gets its usual value.

    Args:
        given: "key" and "data" (octets: the private data), the numbers "flags", "revision", "length", "ird" and "ord",
            "enhanced" (0 leaves out ird and ord), and "cut" (the number of octets after which the frame ends).
        names: resolves references in values, such as {"given": NAME}.
        where: the path of `given` for error texts.

    Raises:
        LocalProtocolError: the value of a field is not valid.
    """
    key = octets(given.get("key", {"text": "MPA ID Req Frame"}), names, f"{where}.key")
    data = octets(given.get("data", {"given": "private_data"}), names, f"{where}.data")
    if number(given.get("enhanced", 1), names, f"{where}.enhanced"):
        words = (
            number(given.get(name, 16), names, f"{where}.{name}", 0, STARTUP_MOST[name]) for name in ("ird", "ord")
        )
        data = struct.pack(">HH", *words) + data
    usual = {"flags": {"given": "startup_flags"}, "revision": 2, "length": len(data)}
    head = (
        number(given.get(name, value), names, f"{where}.{name}", 0, STARTUP_MOST[name]) for name, value in usual.items()
    )
    frame = key + struct.pack(">BBH", *head) + data
    return frame[: number(given.get("cut", len(frame)), names, f"{where}.cut")]


def read_startup(frame: bytes) -> dict[str, Any]:
    """Decodes an MPA start-up frame of at least 20 octets to its fields by name.

    "key" and "data" (private data) are octets, "revision" and "length" numbers. "flags" is the octet of all flags;
    "rejected", "crc", "markers" and "enhanced" are single flags, 0 or 1. "ird", "ord" and "depth_flags" are there, and
    "data" begins after them, if flag S ("enhanced") is set and the frame has them; "private" is there if "data" begins
    with the message of RFC 8797.
    """
    flags, revision, length = struct.unpack_from(">BBH", frame, 16)
    found = {"key": frame[:16], "flags": flags, "revision": revision, "length": length, "data": frame[20:]}
    found |= {"rejected": flags >> 5 & 1, "crc": flags >> 6 & 1, "markers": flags >> 7, "enhanced": flags >> 4 & 1}
    if flags & 0x10 and len(frame) >= STARTUP_OCTETS + 4:
        ird, ord_ = struct.unpack_from(">HH", frame, 20)
        found |= {"ird": ird & 0x3FFF, "ord": ord_ & 0x3FFF, "depth_flags": ird >> 14 << 2 | ord_ >> 14}
        found["data"] = frame[24:]
    if len(found["data"]) >= _PRIVATE.size and found["data"].startswith(_PRIVATE_MAGIC):
        names = ("magic", "version", "flags", "send_size", "receive_size")
        found["private"] = dict(zip(names, _PRIVATE.unpack_from(found["data"]), strict=True))
    return found


def is_whole_terminate(payload: bytes) -> bool:
    """Returns whether a Terminate's payload has the length that its bits M, D and R demand (RFC 5040 section 4.8).

    False, too, if only one of the bits M and D is set.
    """
    if len(payload) < 4:
        return False
    headers, expected = payload[2], 4
    if headers & 0x40:
        # The DDP header follows the length of its segment, which bit M announces.
        expected += 2
        tagged = len(payload) > expected and payload[expected] & 0x80
        expected += 14 if tagged else 18
        expected += 28 if headers & 0x20 else 0
    return len(payload) == expected and bool(headers & 0x80) == bool(headers & 0x40)


def make_segments(payload: bytes, ddp: Mapping[str, Any], numbers: dict[int, int], names: Names) -> Iterator[bytes]:
    """Yields the DDP segments of an RDMAP message with their headers, without MPA's length field.

    Each has 1424 octets of payload, or "segment_octets" of `ddp`. If `ddp` has "offset" or "last", but not
    "segment_octets", the message is one segment.

    Args:
        payload: the payload of the message.
        ddp: fields of the segments with other values than usual, by the names of `SEGMENT_MOST`; "opcode" may also be a
            name in `OPCODES`, and is Send if it is missing.
        numbers: the last message number of each queue. The iteration increments that of an untagged message's queue,
            unless `ddp` has a "number".
        names: resolves references in values, such as {"given": NAME}.

    Raises:
        LocalProtocolError: on iteration, if the value of a field is not valid.
    """

    def field(name: str, default: int) -> int:
        return number(ddp.get(name, default), names, f"ddp.{name}", 0, SEGMENT_MOST[name])

    opcode = ddp.get("opcode", "send")
    code = OPCODES[opcode] if isinstance(opcode, str) and opcode in OPCODES else field("opcode", 0)
    tagged = field("tagged", int(code in _TAGGED))
    rdmap = field("rdmap_version", 1) << 6 | field("rdmap_reserved", 0) << 4 | code
    control = tagged << 7 | field("reserved", 0) << 2 | field("version", 1)
    start, handle = field("offset", 0), field("handle", 0)
    queue = field("queue", _QUEUES.get(code, 0))
    msn = 0
    if not tagged:
        if "number" not in ddp:
            numbers[queue] = numbers.get(queue, 0) + 1
        msn = field("number", numbers.get(queue, 1))
    whole = ("offset" in ddp or "last" in ddp) and "segment_octets" not in ddp
    step = max(len(payload), 1) if whole else max(field("segment_octets", _ULPDU_OCTETS), 1)
    for at in range(0, max(len(payload), 1), step):
        piece = payload[at : at + step]
        last = field("last", int(at + step >= len(payload)))
        head = struct.pack(">BB", control | last << 6, rdmap)
        if tagged:
            yield head + struct.pack(">IQ", handle, start + at & (1 << 64) - 1) + piece
        else:
            yield head + struct.pack(">IIII", field("invalidate", 0), queue, msn, start + at & 0xFFFFFFFF) + piece


def make_fpdu(
    ulpdu: bytes, given: Mapping[str, Any], names: Names, *, crc: bool, markers: Markers | None = None
) -> bytes:
    """Encodes an MPA FPDU around a DDP segment; fields of `given` make deliberate mistakes.

    Args:
        ulpdu: the DDP segment.
        given: "length" (a number) and "pad" (octets), which replace the right values; "crc" and "marker", numbers that
            are added to the right values; and "cut", the number of octets after which the frame ends.
        names: resolves references in values, such as {"given": NAME}.
        crc: whether the frame has a CRC; otherwise the CRC field is zero, unless `given` has "crc": then it is the
            frame's CRC plus that number.
        markers: inserts the markers of the stream; None: the stream has none.

    Raises:
        LocalProtocolError: the value of a field is not valid.
    """
    length = number(given.get("length", len(ulpdu)), names, "mpa.length", 0, FRAME_LENGTH_MAX)
    body = struct.pack(">H", length) + ulpdu
    pad = bytes(-len(body) % 4)
    if "pad" in given:
        pad = octets(given["pad"], names, "mpa.pad")
    body += pad
    if markers is not None:
        body = markers.insert(body, number(given.get("marker", 0), names, "mpa.marker"))
    digest = crc32c(body) if crc or "crc" in given else 0
    digest = digest + number(given.get("crc", 0), names, "mpa.crc") & 0xFFFFFFFF
    frame = body + struct.pack("<I", digest)
    return frame[: number(given.get("cut", len(frame)), names, "mpa.cut")]


def read_segment(ulpdu: bytes) -> dict[str, Any] | None:
    """Decodes a DDP segment, without MPA's length field, to its header fields by name and "payload".

    The names are keys of `SEGMENT_MOST`, such as "tagged", "queue" and "offset". Returns None if the segment is shorter
    than its header.
    """
    if len(ulpdu) < 2 or len(ulpdu) < (14 if ulpdu[0] & 0x80 else 18):
        return None
    control, rdmap = ulpdu[:2]
    found: dict[str, Any] = {"opcode": rdmap & 15, "tagged": control >> 7, "last": control >> 6 & 1}
    found |= {"version": control & 3, "rdmap_version": rdmap >> 6}
    found |= {"reserved": control >> 2 & 15, "rdmap_reserved": rdmap >> 4 & 3}
    if found["tagged"]:
        found["handle"], found["offset"] = struct.unpack_from(">IQ", ulpdu, 2)
        return found | {"payload": ulpdu[14:]}
    words = struct.unpack_from(">IIII", ulpdu, 2)
    found |= dict(zip(("invalidate", "queue", "number", "offset"), words, strict=True))
    return found | {"payload": ulpdu[18:]}
