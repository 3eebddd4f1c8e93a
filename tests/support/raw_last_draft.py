"""Messages of a client in the last draft of version 2 of RPC-over-RDMA, made of octets, right or wrong.

Segments and transport properties look as in the first draft: see `support.raw_messages`.
"""

from __future__ import annotations

import struct

from support.raw_messages import RECEIVE_SIZE, property_set, word

__all__ = ["call", "piece", "prefix", "properties"]

_CONNPROP_FINAL, _CALL_MIDDLE, _CALL_INLINE = 7, 9, 10


def prefix(xid: int, kind: int, *, allowed: int = 1000, version: int = 2) -> bytes:
    """The four words of every header; the peer may have sent `allowed` messages since the connection began."""
    return struct.pack(">IIII", xid, version, allowed, kind)


def properties(*pairs: tuple[int, bytes]) -> bytes:
    """An RDMA2_CONNPROP_FINAL with these numbers and values; with the largest receives of all if there are none."""
    return prefix(1, _CONNPROP_FINAL) + property_set(*(pairs or ((RECEIVE_SIZE, word(4096)),)))


def call(
    xid: int, payload: bytes, *, ends: int = 0, reads: bytes = b"", writes: bytes = b"", reply: bytes = b""
) -> bytes:
    """An RDMA2_CALL_INLINE; `reads`, `writes` and `reply` are the entries before each list's final zero."""
    lists = reads + bytes(4) + writes + bytes(4) + (reply or bytes(4))
    return prefix(xid, _CALL_INLINE) + word(ends) + lists + payload


def piece(xid: int, payload: bytes, *, remaining: int) -> bytes:
    """An RDMA2_CALL_MIDDLE: `remaining` octets of the call are to come in other messages."""
    return prefix(xid, _CALL_MIDDLE) + word(remaining) + payload
