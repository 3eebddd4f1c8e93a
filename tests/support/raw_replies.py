"""RPC-over-RDMA replies made of octets, as a server sends them, and a reader of a client's calls.

Nothing here uses the encoders and decoders of `rpcrdma.transport` or `rpcrdma.rpc`, so that a mistake there does not
hide itself.
"""

from __future__ import annotations

import struct

from support.raw_iwarp import untagged
from support.raw_socket import HeardSegment

__all__ = ["HeardCall", "chunk", "header", "invalidating", "read_result", "rpc_reply", "send"]

_SEND, _SEND_INVALIDATE = 3, 4


class HeardCall:
    """A call of a client, taken apart: its segments (handle, length, offset) by list."""

    def __init__(self, heard: HeardSegment) -> None:
        assert heard.opcode == _SEND
        data = heard.payload
        self.xid, version, _, self.kind = struct.unpack_from(">IIII", data)
        assert version == 1
        pos = 16
        self.reads: list[tuple[int, int, int]] = []
        while data[pos + 3]:
            self.reads.append(struct.unpack_from(">IIQ", data, pos + 8))
            pos += 24
        pos += 4
        self.writes: list[list[tuple[int, int, int]]] = []
        self.reply: list[tuple[int, int, int]] = []
        while data[pos + 3]:
            (count,) = struct.unpack_from(">I", data, pos + 4)
            self.writes.append([struct.unpack_from(">IIQ", data, pos + 8 + 16 * index) for index in range(count)])
            pos += 8 + 16 * count
        pos += 4
        if data[pos + 3]:
            (count,) = struct.unpack_from(">I", data, pos + 4)
            self.reply = [struct.unpack_from(">IIQ", data, pos + 8 + 16 * index) for index in range(count)]


def chunk(*segments: tuple[int, int, int]) -> bytes:
    """An entry of the Write list, or the Reply chunk, of (handle, length, offset)."""
    return struct.pack(">II", 1, len(segments)) + b"".join(struct.pack(">IIQ", *given) for given in segments)


def header(
    xid: int, *, reads: bytes = b"", writes: bytes = b"", reply: bytes = b"", kind: int = 0, grant: int = 32
) -> bytes:
    """A transport header; `reads`, `writes` and `reply` are the entries before each list's final zero."""
    lists = reads + bytes(4) + writes + bytes(4) + (reply or bytes(4))
    return struct.pack(">IIII", xid, 1, grant, kind) + lists


def rpc_reply(xid: int, result: bytes = b"") -> bytes:
    """An accepted, successful RPC reply."""
    return struct.pack(">II", xid, 1) + bytes(16) + result


def read_result(count: int) -> bytes:
    """READ3resok without attributes, up to the data, which was placed."""
    return struct.pack(">IIIII", 0, 0, count, 0, count)


def send(payload: bytes, number: int = 1) -> bytes:
    """The `number`th Send of a connection."""
    return untagged(_SEND, 0, number, payload)


def invalidating(payload: bytes, handle: int, number: int = 1) -> bytes:
    """As `send`, but a Send with Invalidate of `handle`."""
    return untagged(_SEND_INVALIDATE, 0, number, payload, invalidate=handle)
