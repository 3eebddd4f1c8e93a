"""RPC-over-RDMA replies made of octets, as a server sends them, and a reader of a client's calls.

Nothing here uses the encoders and decoders of `rpcrdma.transport` or `rpcrdma.rpc`, so that a mistake there does not
hide itself: the layouts are those of `rpcrdma_lab.scripted`.
"""

from __future__ import annotations

import struct

from rpcrdma_lab.scripted import read_message
from support import raw_calls
from support.raw_calls import SEND, send
from support.raw_headers import chunk, segments
from support.raw_socket import HeardSegment

__all__ = ["HeardCall", "chunk", "header", "read_result", "rpc_reply", "send"]


class HeardCall:
    """A call of a client, taken apart: its segments (handle, length, offset) by list."""

    def __init__(self, heard: HeardSegment) -> None:
        assert heard.opcode == SEND
        found = read_message("1", heard.payload)
        assert "broken" not in found, found["broken"]
        fields = found["header"]
        assert fields["version"] == 1
        self.xid, self.kind = fields["xid"], fields["type"]
        self.reads = segments(fields["reads"])
        self.writes = [segments(each) for each in fields["writes"]]
        self.reply = segments(fields["reply"] or [])


def header(
    xid: int, *, reads: bytes = b"", writes: bytes = b"", reply: bytes = b"", kind: int = 0, grant: int = 32
) -> bytes:
    """A transport header; `reads`, `writes` and `reply` are the entries before each list's final zero."""
    return raw_calls.header(reads, writes, reply, kind=kind, xid=xid, credit=grant)


def rpc_reply(xid: int, result: bytes = b"") -> bytes:
    """An accepted, successful RPC reply."""
    return struct.pack(">II", xid, 1) + bytes(16) + result


def read_result(count: int) -> bytes:
    """READ3resok without attributes, up to the data, which was placed."""
    return struct.pack(">IIIII", 0, 0, count, 0, count)
