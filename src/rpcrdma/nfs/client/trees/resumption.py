"""How a copy that was broken off goes on: which partial file is one of the same source, and how much of it is whole.

A partial file is named after the name of the file, and the size and mtime of its source: that it is there proves that
it was begun with this source. Blocks are begun in order, none far beyond the first that is not done, so that its size
tells up to where it is whole, however the copy was broken off.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib

from rpcrdma.nfs.client.options import FileOptions
from rpcrdma.nfs.client.trees.unchanged import FileChanged

__all__ = ["InOrder", "of_no_use", "partial_name", "window_octets"]


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def partial_name(name: str, size: int, mtime_ns: int) -> str:
    """The name of the partial copy to `name` of a source with this size and mtime."""
    source = f"{size} {mtime_ns} {name}".encode("utf-8", "surrogateescape")
    return f".rpcrdma-{hashlib.blake2b(source, digest_size=8).hexdigest()}.part"


def of_no_use(error: BaseException) -> bool:
    """Whether the unfinished file of a copy that ended so is removed: its source has changed, or the disk is full."""
    return isinstance(error, OSError) and (isinstance(error, FileChanged) or error.errno in _NO_ROOM)


def window_octets(options: FileOptions, block: int) -> int:
    """How far beyond the first block that is not done others may be begun."""
    return 2 * options.direct_calls * block


class InOrder:
    """Blocks in progress: one that starts `window` octets or more after the first of them has to wait."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._begun: set[int] = set()
        self._moved = asyncio.Event()

    async def begin(self, start: int) -> None:
        """Waits until the block at `start` may be begun."""
        while self._begun and start - min(self._begun) >= self._window:
            self._moved.clear()
            await self._moved.wait()
        self._begun.add(start)

    def end(self, start: int) -> None:
        """The block at `start` is done."""
        self._begun.discard(start)
        self._moved.set()
