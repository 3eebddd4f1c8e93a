"""Octets as `bytes` that were placed where they stay: an immutable object which nothing has been copied into."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable

from rpcrdma.errors import OutOfMemory

__all__ = ["placed_bytes"]


async def placed_bytes(size: int, fill: Callable[[memoryview], Awaitable[int]]) -> bytes:
    """`bytes` of as many octets as `fill` says that it has put into the buffer of `size` octets that it is given.

    `fill` must not use the buffer after it has returned. An `io.BytesIO` lends the memory of the very object that it
    gives out in the end, as long as nothing else refers to that, so the octets are copied nowhere; memory that is new
    is not written with zeros either, since it comes so from the system: what a server says of a file's size takes no
    memory before data has come.

    Raises:
        OutOfMemory: there cannot be so many octets in memory.
    """
    if not size:
        return b""
    try:
        memory = io.BytesIO(bytes(size))
    except (MemoryError, OverflowError):
        raise OutOfMemory(f"{size} octets do not fit in memory: read the file in parts, by open()") from None
    with memory.getbuffer() as buffer:
        got = await fill(buffer)
    if got < size:
        try:
            memory.truncate(got)
        except BufferError:
            # A reply that was not taken still refers to the memory: what has come is copied out of it.
            return memory.getvalue()[:got]
    return memory.getvalue()
