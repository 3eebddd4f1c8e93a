"""RPC-over-RDMA calls made of octets, as a client sends them: NFSv3 in version 1 of the transport, right or wrong.

Nothing here uses the encoders of `rpcrdma.transport`, `rpcrdma.rpc` or `rpcrdma.nfs`, so that a mistake there does not
hide itself: the layouts are those of `rpcrdma_lab.scripted`. The messages are to be framed by `support.raw_iwarp.fpdu`.
"""

from __future__ import annotations

import struct

from support import raw_headers
from support.raw_headers import Segment, chunk, made_header
from support.raw_iwarp import untagged
from support.raw_socket import HeardSegment, RawSocketPeer

__all__ = [
    "BOTH_PRIVATE",
    "HANDLE",
    "NULL_CALL",
    "READ_REQUEST",
    "READ_RESPONSE",
    "SEND",
    "SEND_INVALIDATE",
    "TERMINATE",
    "WRITE",
    "WRITE_POSITION",
    "XID",
    "PendingWrite",
    "assert_works",
    "chunk",
    "file_handle",
    "header",
    "is_null_reply",
    "read_call",
    "read_segment",
    "record",
    "rpc",
    "send",
    "write_args",
    "write_call",
]

HANDLE = b"handle"
XID = 0x0BADCAFE
SEND, SEND_INVALIDATE, WRITE, READ_REQUEST, READ_RESPONSE, TERMINATE = 3, 4, 0, 1, 2, 7
"""Opcodes of RDMAP."""

BOTH_PRIVATE = bytes.fromhex("f6ab0e18 01 01 03 03")
"""RFC 8797: 4096 octets each way, remote invalidation."""


def rpc(procedure: int, args: bytes = b"", xid: int = XID) -> bytes:
    """A call of NFSv3 without a credential."""
    return struct.pack(">IIIIII", xid, 0, 2, 100003, 3, procedure) + bytes(16) + args


def record(message: bytes, announced: int | None = None) -> bytes:
    """A message as a TCP record of one fragment; `announced`: the length of the whole, if `message` is cut short."""
    return struct.pack(">I", 1 << 31 | (len(message) if announced is None else announced)) + message


def file_handle(handle: bytes = HANDLE) -> bytes:
    """nfs_fh3."""
    return struct.pack(">I", len(handle)) + handle + bytes(-len(handle) % 4)


def header(
    reads: bytes = b"",
    writes: bytes = b"",
    reply: bytes = b"",
    *,
    kind: int = 0,
    version: int = 1,
    xid: int = XID,
    credit: int = 32,
) -> bytes:
    """Transport header: `reads`, `writes` and `reply` are the entries before each list's final zero."""
    words = {"xid": xid, "version": version, "credit": credit, "type": kind, "fields_of": 0}
    return made_header("1", {**words, "reads": reads, "writes": writes, "reply": reply})


def read_segment(position: int, handle: int, length: int, offset: int = 0) -> bytes:
    """An entry of the Read list."""
    return raw_headers.read_segment(position, (handle, length, offset))


def send(
    payload: bytes, number: int = 1, *, offset: int = 0, last: bool = True, ddp_version: int = 1, rdmap_version: int = 1
) -> bytes:
    """The `number`th Send of a connection, in one segment."""
    return untagged(
        SEND, 0, number, payload, offset=offset, last=last, ddp_version=ddp_version, rdmap_version=rdmap_version
    )


NULL_CALL = header() + rpc(0)
WRITE_POSITION = len(rpc(7)) + len(file_handle()) + 20


def write_args(length: int) -> bytes:
    """WRITE3args up to the data."""
    return file_handle() + struct.pack(">QIII", 0, length, 2, length)


def write_call(length: int, *segments: Segment, xid: int = XID) -> bytes:
    """A WRITE whose data is in a Read chunk."""
    reads = b"".join(read_segment(WRITE_POSITION, *given) for given in segments)
    return header(reads, xid=xid) + rpc(7, write_args(length), xid)


def read_call(*segments: Segment, count: int = 5000, xid: int = XID) -> bytes:
    """A READ with one Write chunk."""
    args = file_handle() + struct.pack(">QI", 0, count)
    return header(writes=chunk(*segments), xid=xid) + rpc(6, args, xid)


def is_null_reply(segment_: HeardSegment) -> bool:
    """Whether the segment is the successful reply to NULL."""
    return segment_.opcode == SEND and segment_.payload[28:] == struct.pack(">III", XID, 1, 0) + bytes(12)


async def assert_works(peer: RawSocketPeer, number: int) -> None:
    """Asserts that the hostile peer's own connection goes on: a NULL call is answered."""
    await peer.send_segments(send(NULL_CALL, number))
    assert is_null_reply(await peer.segment())


class PendingWrite:
    """A peer whose WRITE the server reads by RDMA Read: `handle` and `offset` name the server's sink memory."""

    def __init__(self, peer: RawSocketPeer, size: int) -> None:
        self.peer = peer
        self.size = size
        self.handle = self.offset = 0

    async def begin(self) -> PendingWrite:
        """Sends the call, and waits for the server's RDMA Read Request."""
        await self.peer.send_segments(send(write_call(self.size, (7, self.size, 0))))
        asked = await self.peer.segment()
        self.handle, self.offset = struct.unpack_from(">IQ", asked.payload)
        return self
