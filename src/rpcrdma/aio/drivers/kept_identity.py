"""Event loops whose threads keep their identity, so that the kernel takes their writes to RDMA devices."""

from __future__ import annotations

import asyncio
import threading

__all__ = ["THREAD", "keep_identity"]


class _Thread(threading.local):
    """The promise of the calling thread to keep its user, groups and capabilities.

    Attributes:
        keeper: an event loop: until it is closed, the thread must not change them, not even for a moment. None: the
            thread may change them.
    """

    keeper: asyncio.AbstractEventLoop | None = None

    def keeps_identity(self) -> bool:
        """Returns whether the thread must not change its identity now."""
        if self.keeper is not None and self.keeper.is_closed():
            self.keeper = None
        return self.keeper is not None


THREAD = _Thread()
"""The calling thread."""


def keep_identity() -> None:
    """Records in `THREAD` that this thread keeps its identity until the running event loop is closed.

    Nothing enforces it: code that acts as another user asks `THREAD.keeps_identity` first, and uses another thread.

    Linux takes writes to the descriptors of RDMA devices and of their connection manager under the very credentials
    with which they were opened (`ib_safe_file_access`): the object counts, not its values. A thread that has acted as
    another user and returned has a new object.
    """
    THREAD.keeper = asyncio.get_running_loop()
