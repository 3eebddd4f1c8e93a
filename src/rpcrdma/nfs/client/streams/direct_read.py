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
    buffer: memoryview,
    path: str,
    hear: Callable[[post_op_attr], None] | None = None,
) -> tuple[int, bool]:
    """Fills `buffer` from `offset`, however little the server returns at a time; `hear` gets each reply's attributes.

    Returns the octets read, fewer than asked only at the end of the file, and whether that has been reached.

    Raises:
        NfsError: the server refuses.
        RemoteProtocolError: the server returns no data and does not say that the file ends.
    """
    got = 0
    while True:
        reply = await procedures.read(handle, offset + got, buffer[got:] if got else buffer, path)
        got += reply.count
        if hear is not None:
            hear(reply.file_attributes)
        if reply.eof or got == len(buffer):
            return got, reply.eof
        if not reply.count:
            raise RemoteProtocolError("READ returned nothing before the end of the file", rfc="1813 3.3.6")


async def read_direct(
    procedures: NfsProcedures,
    handle: nfs_fh3,
    offset: int,
    buffer: memoryview,
    path: str,
    *,
    call_octets: int,
    calls: int,
    hear: Callable[[post_op_attr], None] | None = None,
) -> int:
    """Fills `buffer` from `offset`, with `calls` READs of at most `call_octets` in flight at a time.

    Returns the octets read: fewer than asked only where the file ends. When it returns or raises, no READ
    can write to `buffer` any more. `hear` and the errors raised: see `read_whole`.
    """
    length = len(buffer)
    if length <= call_octets:
        return (await read_whole(procedures, handle, offset, buffer, path, hear))[0] if length else 0
    starts = iter(range(0, length, call_octets))
    end = length

    async def worker() -> None:
        nonlocal end
        for start in starts:
            if start >= end:
                return
            wanted = min(call_octets, length - start)
            got, _ = await read_whole(procedures, handle, offset + start, buffer[start : start + wanted], path, hear)
            if got < wanted:
                end = min(end, start + got)

    await run_workers(min(calls, -(-length // call_octets)), worker)
    return end
