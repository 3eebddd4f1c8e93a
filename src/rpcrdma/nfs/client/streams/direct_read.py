"""Reads straight into the caller's buffer: many READs in flight, nothing copied on this side."""

from __future__ import annotations

from collections.abc import Callable

from rpcrdma.errors import RemoteProtocolError
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.workers import run_workers
from rpcrdma.nfs.v3 import nfs_fh3, post_op_attr

__all__ = ["read_direct", "read_whole"]


async def read_whole(
    procedures: NfsProcedures,
    handle: nfs_fh3,
    offset: int,
    into: memoryview,
    path: str,
    hear: Callable[[post_op_attr], None] | None = None,
) -> tuple[int, bool]:
    """Fills `into` from `offset`, however little the server returns at a time; `hear` is given each reply's attributes.

    Returns the octets read, fewer than asked only at the end of the file, and whether that has been reached.

    Raises:
        NfsError: the server refuses.
        RemoteProtocolError: the server returns no data and does not say that the file ends.
    """
    got = 0
    while True:
        reply = await procedures.read(handle, offset + got, into[got:] if got else into, path)
        got += reply.count
        if hear is not None:
            hear(reply.file_attributes)
        if reply.eof or got == len(into):
            return got, reply.eof
        if not reply.count:
            raise RemoteProtocolError("READ returned nothing before the end of the file", rfc="1813 3.3.6")


async def read_direct(
    procedures: NfsProcedures,
    handle: nfs_fh3,
    offset: int,
    into: memoryview,
    path: str,
    *,
    call_octets: int,
    calls: int,
) -> int:
    """Fills `into` from `offset` in pieces of `call_octets`, `calls` of them in flight at a time.

    Returns the octets read: fewer than asked only where the file ends. When it returns or raises, no READ
    can write to the buffer any more. Raises: see `read_whole`.
    """
    length = len(into)
    if length <= call_octets:
        return (await read_whole(procedures, handle, offset, into, path))[0] if length else 0
    starts = iter(range(0, length, call_octets))
    end = length

    async def worker() -> None:
        nonlocal end
        for start in starts:
            if start >= end:
                return
            piece = into[start : start + call_octets]
            got, _ = await read_whole(procedures, handle, offset + start, piece, path)
            if got < len(piece):
                end = min(end, start + got)

    await run_workers(min(calls, -(-length // call_octets)), worker)
    return end
