"""Octets as `bytes` that were placed where they stay: an immutable object which nothing has been copied into."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable

__all__ = ["placed_bytes"]


async def placed_bytes(size: int, fill: Callable[[memoryview], Awaitable[int]]) -> bytes:
    """`bytes` of as many octets as `fill` says that it has put into the buffer of `size` octets that it is given.

    `fill` must not use the buffer after it has returned. An `io.BytesIO` lends the memory of the very object that it
    gives out in the end, as long as nothing else refers to that, so the octets are copied nowhere; memory that is new
    is not written with zeros either, since it comes so from the system.
    """
    if not size:
        return b""
    memory = io.BytesIO(bytes(size))
    with memory.getbuffer() as buffer:
        got = await fill(buffer)
    if got < size:
        memory.truncate(got)
    return memory.getvalue()
