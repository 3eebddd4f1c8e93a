"""Messages of version 2 of RPC-over-RDMA made of octets, of either side, right or wrong, and a reader of them.

Nothing here uses the encoders and decoders of `rpcrdma.transport`, so that a mistake there does not hide itself: the
layouts are those of `rpcrdma_lab.scripted`.
"""

from __future__ import annotations

import struct
from typing import Any

from rpcrdma_lab.scripted import read_message
from support.raw_headers import Segment, chunk, made_header, read_segment, segments

__all__ = [
    "BAD_XDR",
    "CALL_OCTETS",
    "CONNPROP",
    "ERROR",
    "INVAL_FLAG",
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
MSG, NOMSG, ERROR, CONNPROP = 0, 1, 4, 5
RESPONSE, MORE = 1, 2
SEND_SIZE, RECEIVE_SIZE, SEGMENT_SIZE, SEGMENT_COUNT, REVERSE_SUPPORT = range(1, 6)
"""Numbers of transport properties."""
BAD_XDR, INVAL_HTYPE, INVAL_FLAG = 2, 3, 4
READ_CHUNKS, WRITE_CHUNKS, SEGMENTS, WRITE_RESOURCE, REPLY_RESOURCE, SYSTEM = range(5, 11)
"""Codes of errors."""


def word(number: int) -> bytes:
    """uint32; the value of most properties."""
    return struct.pack(">I", number)


def prefix(xid: int, kind: int, flags: int = 0, *, give: int = 0, pool: int = 64, version: int = 2) -> bytes:
    """The five words of every header; `give` and `pool` are the halves of its credit word."""
    fields = {"xid": xid, "version": version, "pool": pool, "give": give, "type": kind, "flags": flags}
    return made_header(NAME, fields, PREFIX_OCTETS)


def lists(ends: int = 0, reads: bytes = b"", writes: bytes = b"", reply: bytes = b"") -> bytes:
    """rpcrdma2_chunk_lists; `reads`, `writes` and `reply` are the entries before each list's final zero."""
    return message(0, ends=ends, reads=reads, writes=writes, reply=reply)[PREFIX_OCTETS:]


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
    told = {"xid": xid, "give": give, "type": kind, "fields_of": MSG, "flags": flags, "invalidate": ends}
    return made_header(NAME, {**told, "reads": reads, "writes": writes, "reply": reply}) + payload


def property_set(*pairs: tuple[int, bytes]) -> bytes:
    """rpcrdma2_propset."""
    values = [[number, value.hex()] for number, value in pairs]
    return made_header(NAME, {"xid": 0, "type": CONNPROP, "properties": values})[PREFIX_OCTETS:]


def properties(*pairs: tuple[int, bytes], xid: int = 1, flags: int = 0, give: int = 1) -> bytes:
    """An RDMA2_CONNPROP with these numbers and values; with the largest receives of all if there are none."""
    return prefix(xid, CONNPROP, flags, give=give) + property_set(*(pairs or ((RECEIVE_SIZE, word(4096)),)))


def error(xid: int, code: int, *numbers: int, flags: int = RESPONSE) -> bytes:
    """An RDMA2_ERROR; `numbers` are the words after its code."""
    return made_header(
        NAME, {"xid": xid, "give": 0, "type": ERROR, "flags": flags, "error": code, "numbers": list(numbers)}
    )


def grant(give: int) -> bytes:
    """An RDMA2_NOMSG that only grants credits."""
    return message(0, kind=NOMSG, give=give)


class HeardMessage:
    """A received message, taken apart: segments (handle, length, offset) by list, `payload` after the header.

    An RDMA2_ERROR has its code and the words after it in `numbers`, an RDMA2_CONNPROP has `properties` by number, and
    its octets in `payload`.
    """

    def __init__(self, data: bytes) -> None:
        found = read_message(NAME, data)
        header: dict[str, Any] = found["header"]
        self.xid, self.version = header["xid"], header["version"]
        assert self.version == 2, data.hex()
        self.kind, self.flags, self.give = header["type"], header["flags"], header["give"]
        self.payload: bytes = found["body"]
        if self.kind == CONNPROP:
            self.payload = data[PREFIX_OCTETS:]
        assert "broken" not in found or (self.kind == CONNPROP and self.flags & MORE), found["broken"]
        self.numbers: tuple[int, ...] = (header["error"], *header["numbers"]) if self.kind == ERROR else ()
        self.properties: dict[int, bytes] = header.get("properties", {})
        self.ends: int = header.get("invalidate", 0)
        self.reads = [(each["position"], *segments([each])) for each in header.get("reads", [])]
        self.writes = [segments(each) for each in header.get("writes", [])]
        reply = header.get("reply")
        self.reply = None if reply is None else segments(reply)


def heard(data: bytes) -> HeardMessage:
    """A received message, taken apart."""
    return HeardMessage(data)
