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
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future

__all__ = ["append_turn"]

_turns: dict[bytes, deque[Future[None]]] = {}
"""By file handle, whatever the server and transport: the turn that runs, and behind it those that wait."""
_guard = threading.Lock()


@contextlib.asynccontextmanager
async def append_turn(handle: bytes) -> AsyncIterator[None]:
    """Waits until all earlier `append_turn` blocks of this process for the same file have ended, then enters its own.

    Args:
        handle: the file handle. Files of two servers that have the same handle wait for each other, which harms
            neither.
    """
    mine: Future[None] = Future()
    with _guard:
        turns = _turns.setdefault(handle, deque())
        turns.append(mine)
        waits = turns[0] is not mine
    try:
        if waits:
            # Another loop ends it, which a caller that gives up must not prevent.
            await asyncio.shield(asyncio.wrap_future(mine))
        yield
    finally:
        with _guard:
            ended = turns[0] is mine
            turns.remove(mine)
            if not turns:
                del _turns[handle]
            begins = turns[0] if ended and turns else None
        if begins is not None:
            begins.set_result(None)


def _begin_child() -> None:
    _turns.clear()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_begin_child)
