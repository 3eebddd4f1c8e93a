"""Messages of version 2 of RPC-over-RDMA made of octets, of either side, right or wrong, and a reader of them.

Nothing here uses the encoders and decoders of `rpcrdma.transport`, so that a mistake there does not hide itself.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

__all__ = [
    "BAD_PROPVAL",
    "BAD_XDR",
    "CALL_OCTETS",
    "CONNPROP",
    "ERROR",
    "GRANT_TAKES",
    "INVAL_CONT",
    "INVAL_HTYPE",
    "MORE",
    "MSG",
    "NAME",
    "NOMSG",
    "PIECE_OCTETS",
    "PREFIX_OCTETS",
    "READ_CHUNKS",
    "RECEIVE_SIZE",
    "REPLY_RESOURCE",
    "RESPONSE",
    "REVERSE_SUPPORT",
    "SEGMENTS",
    "SEGMENT_COUNT",
    "SEGMENT_SIZE",
    "SEND_SIZE",
    "SYSTEM",
    "WRITE_CHUNKS",
    "WRITE_RESOURCE",
    "Credits",
    "HeardMessage",
    "Segment",
    "chunk",
    "error",
    "grant",
    "heard",
    "lists",
    "message",
    "prefix",
    "properties",
    "property_set",
    "read_segment",
    "word",
]

NAME = "2"
PREFIX_OCTETS, CALL_OCTETS, PIECE_OCTETS = 20, 36, 36
"""What a header has at least: any, that of an inline call, and that of a piece."""
GRANT_TAKES = 0
"""Credits that an asynchronous grant takes, such as an endpoint sends after properties."""
MSG, NOMSG, ERROR, CONNPROP = 0, 1, 4, 5
RESPONSE, MORE = 1, 2
SEND_SIZE, RECEIVE_SIZE, SEGMENT_SIZE, SEGMENT_COUNT, REVERSE_SUPPORT = range(1, 6)
"""Numbers of transport properties."""
BAD_XDR, INVAL_HTYPE, INVAL_CONT = 2, 3, 4
READ_CHUNKS, WRITE_CHUNKS, SEGMENTS, WRITE_RESOURCE, REPLY_RESOURCE, SYSTEM = range(5, 11)
BAD_PROPVAL = BAD_XDR
"""Codes of errors, by the names of the last draft: INVAL_CONT is INVAL_FLAG here."""

Segment: TypeAlias = tuple[int, int, int]
"""Handle, length, offset."""


def word(number: int) -> bytes:
    """uint32; the value of most properties."""
    return struct.pack(">I", number)


def prefix(xid: int, kind: int, flags: int = 0, *, give: int = 0, pool: int = 64, version: int = 2) -> bytes:
    """The five words of every header; `give` and `pool` are the halves of its credit word."""
    return struct.pack(">IIHHII", xid, version, pool, give, kind, flags)


def read_segment(position: int, segment: Segment) -> bytes:
    """An entry of the Read list."""
    return struct.pack(">IIIIQ", 1, position, *segment)


def chunk(*segments: Segment) -> bytes:
    """An entry of the Write list, or the Reply chunk."""
    return struct.pack(">II", 1, len(segments)) + b"".join(struct.pack(">IIQ", *segment) for segment in segments)


def lists(ends: int = 0, reads: bytes = b"", writes: bytes = b"", reply: bytes = b"") -> bytes:
    """rpcrdma2_chunk_lists; `reads`, `writes` and `reply` are the entries before each list's final zero."""
    return struct.pack(">I", ends) + reads + bytes(4) + writes + bytes(4) + (reply or bytes(4))


def message(
    xid: int,
    payload: bytes = b"",
    flags: int = 0,
    *,
    kind: int = MSG,
    give: int = 1,
    ends: int = 0,
    reads: bytes = b"",
    writes: bytes = b"",
    reply: bytes = b"",
) -> bytes:
    """An RDMA2_MSG, or an RDMA2_NOMSG."""
    return prefix(xid, kind, flags, give=give) + lists(ends, reads, writes, reply) + payload


def property_set(*pairs: tuple[int, bytes]) -> bytes:
    """rpcrdma2_propset."""
    values = (struct.pack(">II", number, len(data)) + data + bytes(-len(data) % 4) for number, data in pairs)
    return word(len(pairs)) + b"".join(values)


def properties(*pairs: tuple[int, bytes], xid: int = 1, flags: int = 0, give: int = 1) -> bytes:
    """An RDMA2_CONNPROP with these numbers and values; with the largest receives of all if there are none."""
    return prefix(xid, CONNPROP, flags, give=give) + property_set(*(pairs or ((RECEIVE_SIZE, word(4096)),)))


def error(xid: int, code: int, *numbers: int, flags: int = RESPONSE) -> bytes:
    """An RDMA2_ERROR; `numbers` are the words after its code."""
    return prefix(xid, ERROR, flags) + struct.pack(f">{1 + len(numbers)}I", code, *numbers)


def grant(give: int) -> bytes:
    """An RDMA2_NOMSG that only grants credits."""
    return message(0, kind=NOMSG, give=give)


class HeardMessage:
    """A received message, taken apart: segments (handle, length, offset) by list, `payload` after the header.

    An RDMA2_ERROR has its code and the words after it in `numbers`, an RDMA2_CONNPROP has `properties` by number.
    A piece in the last draft has `remaining`, the number of octets in the pieces after it.
    """

    numbers: tuple[int, ...]

    def __init__(self, data: bytes) -> None:
        self._clear()
        self.xid, self.version, _, self.give, self.kind, self.flags = struct.unpack_from(">IIHHII", data)
        assert self.version == 2, data.hex()
        if self.kind == ERROR:
            self.numbers = struct.unpack(f">{(len(data) - 20) // 4}I", data[20:])
        elif self.kind == CONNPROP:
            self.payload = data[20:]
            if not self.flags & MORE:
                self._take_properties(data, 20)
        else:
            (self.ends,) = struct.unpack_from(">I", data, 20)
            self.payload = data[self._take_reply(data, self._take_writes(data, self._take_reads(data, 24))) :]

    def _clear(self) -> None:
        self.reads: list[tuple[int, Segment]] = []
        self.writes: list[list[Segment]] = []
        self.reply: list[Segment] | None = None
        self.ends = self.remaining = 0
        self.numbers = ()
        self.properties: dict[int, bytes] = {}
        self.payload = b""

    def _take_properties(self, data: bytes, at: int) -> None:
        (count,) = struct.unpack_from(">I", data, at)
        at += 4
        for _ in range(count):
            number, length = struct.unpack_from(">II", data, at)
            self.properties[number] = data[at + 8 : at + 8 + length]
            at += 8 + (length + 3 & ~3)
        assert at == len(data)

    def _take_reads(self, data: bytes, at: int) -> int:
        while data[at + 3]:
            _, position, *segment = struct.unpack_from(">IIIIQ", data, at)
            self.reads.append((position, (segment[0], segment[1], segment[2])))
            at += 24
        return at + 4

    def _take_writes(self, data: bytes, at: int) -> int:
        while data[at + 3]:
            found, at = _segments(data, at)
            self.writes.append(found)
        return at + 4

    def _take_reply(self, data: bytes, at: int) -> int:
        if not data[at + 3]:
            return at + 4
        self.reply, at = _segments(data, at)
        return at


def heard(data: bytes) -> HeardMessage:
    """A received message, taken apart."""
    return HeardMessage(data)


class Credits:
    """Both credit accounts of one end: this draft's words have new credits alone, and need no account."""

    def sent(self, octets: bytes) -> bytes:
        """The message with its credit word."""
        return octets

    def arrived(self, message: HeardMessage) -> None:
        """Makes `message.give` the number of credits that are new."""


def _segments(data: bytes, at: int) -> tuple[list[Segment], int]:
    (count,) = struct.unpack_from(">I", data, at + 4)
    end = at + 8 + 16 * count
    return [struct.unpack_from(">IIQ", data, start) for start in range(at + 8, end, 16)], end
