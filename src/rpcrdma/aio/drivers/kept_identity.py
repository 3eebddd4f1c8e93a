"""Event loops whose threads keep their identity, so that the kernel takes their writes to RDMA devices."""

from __future__ import annotations

import asyncio
import threading

__all__ = ["THREAD", "keep_identity"]


class _Thread(threading.local):
    """What the calling thread has promised.

    Attributes:
        keeper: the event loop while which is open the thread never changes its user, groups or capabilities, not for a
            moment either; None: it may change them.
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
    """Promises that the thread of the running event loop keeps its identity as long as the loop is open.

    Linux takes writes to the descriptors of RDMA devices and of their connection manager under the very credentials
    with which they were opened (`ib_safe_file_access`): the object counts, not its values. A thread that has acted as
    another user and returned has a new object.
    """
    THREAD.keeper = asyncio.get_running_loop()
