"""Reads placed in their final memory: many READs in flight, and nothing copied by the client."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Awaitable, Callable

from rpcrdma.errors import OutOfMemory, RemoteProtocolError
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.workers import run_workers
from rpcrdma.nfs.v3 import nfs_fh3, post_op_attr

__all__ = ["LentMemory", "placed_bytes", "read_direct", "read_whole"]


class LentMemory(io.BytesIO):
    """Memory that a call uses while the call lasts.

    The frames of a failed call's exception may refer to the memory until garbage is collected. The collector closes an
    `io.BytesIO` first, which fails then, and Python 3.13 prints such failures.
    """

    def close(self) -> None:
        """Gives the memory back, or leaves that to its last user."""
        with contextlib.suppress(BufferError):
            super().close()


async def placed_bytes(size: int, fill: Callable[[memoryview], Awaitable[int]]) -> bytes:
    """`bytes` of as many octets as `fill` says that it has put into the buffer of `size` octets that it is given.

    `fill` must not use the buffer after it has returned. An `io.BytesIO` lends the memory of the object that it returns
    in the end, as long as nothing else refers to that object, so nothing is copied. The system's zeroed pages take no
    memory until data arrives in them, even if the server overstates the size of a file.

    Raises:
        OutOfMemory: there cannot be so many octets in memory.
    """
    if not size:
        return b""
    try:
        memory = LentMemory(bytes(size))
    except (MemoryError, OverflowError):
        raise OutOfMemory(f"{size} octets do not fit in memory: read the file in parts, by open()") from None
    with memory.getbuffer() as buffer:
        got = await fill(buffer)
    if got < size:
        try:
            memory.truncate(got)
        except BufferError:
            # A reply that was not taken still refers to the memory: the octets that have arrived are copied out of it.
            return memory.getvalue()[:got]
    return memory.getvalue()


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
