"""A fixed number of equal buffers that are used again and again; when all are in use, a caller waits."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["BufferRing"]


class BufferRing:
    """At most `count` buffers of `size` octets, allocated when first needed."""

    def __init__(self, size: int, count: int) -> None:
        self.size = size
        self._left = count
        self._free: list[memoryview] = []
        self._waiting: deque[asyncio.Future[memoryview]] = deque()

    async def acquire(self) -> memoryview:
        """A buffer with unspecified content; waits until one is free."""
        if self._free:
            return self._free.pop()
        if self._left:
            self._left -= 1
            return memoryview(bytearray(self.size))
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release(future.result())
            raise

    def release(self, buffer: memoryview) -> None:
        """Gives back a whole buffer of `acquire`, which no call in flight may use."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(buffer)
                return
        self._free.append(buffer)
