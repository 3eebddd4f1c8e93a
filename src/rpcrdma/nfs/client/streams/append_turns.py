"""Turns at the end of a file: while one open file of this process appends, the others that append to it wait.

NFSv3 has no call that appends. A client asks for the size and writes there (RFC 1813 section 3.3.7), and two files that
do so at once would write at the same place. The event loops and threads of a process share these turns; clients in
other processes have none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future

__all__ = ["append_turn"]

_last: dict[tuple[str, bytes], Future[None]] = {}
"""By server and file handle: the turn that comes last, from its asking until its end."""
_guard = threading.Lock()


@contextlib.asynccontextmanager
async def append_turn(server: str, handle: bytes) -> AsyncIterator[None]:
    """Waits until the turns at the end of this file that were asked for earlier have ended; the next waits for this.

    Args:
        server: tells apart the files of several servers that have the same handle.
        handle: the file's.
    """
    key = server, handle
    mine: Future[None] = Future()
    with _guard:
        before = _last.get(key)
        _last[key] = mine

    def end(_before: object = None) -> None:
        with _guard:
            if _last.get(key) is mine:
                del _last[key]
        mine.set_result(None)

    try:
        if before is not None:
            # The turn of another loop, which a caller that gives up must not cancel.
            await asyncio.shield(asyncio.wrap_future(before))
        yield
    finally:
        if before is None:
            end()
        else:
            before.add_done_callback(end)


def _begin_child() -> None:
    _last.clear()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_begin_child)
