"""Notices connections that were reset, where the event loop does not report it.

libuv leaves a socket alone once the kernel reports an error of it, and uvloop then calls the reader one last time. If
data came along with the reset, that call takes the data, and the end goes unnoticed: calls wait until their
deadline, a server keeps the connection for good. So the sockets are in an epoll set of their own as well, for nothing
but errors and hang-ups, which the loop watches like any file. That costs nothing per message.
"""

from __future__ import annotations

import asyncio
import select
import weakref
from collections.abc import Callable

__all__ = ["forget_hang_up", "watch_hang_up"]


class _HangUps:
    """The sockets of one event loop that are watched for hang-ups by an epoll descriptor of their own.

    The object exists while at least one socket is watched. `callbacks` has the function to call, by file descriptor.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self.callbacks: dict[int, Callable[[], None]] = {}
        loop.add_reader(self._epoll.fileno(), self._report)

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        self.callbacks[descriptor] = callback
        # Errors and hang-ups are always reported: asking for nothing leaves these.
        self._epoll.register(descriptor, select.EPOLLONESHOT)

    def forget(self, descriptor: int) -> None:
        if self.callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _report(self) -> None:
        for descriptor, _ in self._epoll.poll(0):
            callback = self.callbacks.get(descriptor)
            # One callback may have closed the socket of another.
            if callback is not None:
                callback()
            if self._epoll.closed:
                return


_OF_LOOP: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _HangUps] = weakref.WeakKeyDictionary()


def watch_hang_up(loop: asyncio.AbstractEventLoop, descriptor: int, callback: Callable[[], None]) -> None:
    """Has `callback` called once when the connection of a socket was reset or has ended in both directions.

    Data that arrived before may still be unread. `forget_hang_up` must end the watch before the socket is closed.

    Args:
        loop: the event loop that calls `callback`.
        descriptor: the socket's file descriptor.
        callback: the function to call.

    Raises:
        OSError: the process has no descriptor left, which the first watched socket of a loop needs.
    """
    watching = _OF_LOOP.get(loop)
    if watching is None:
        watching = _OF_LOOP[loop] = _HangUps(loop)
    watching.watch(descriptor, callback)


def forget_hang_up(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    """Ends the watch that `watch_hang_up` began for a socket's file descriptor; no effect without one."""
    watching = _OF_LOOP.get(loop)
    if watching is not None:
        watching.forget(descriptor)
        if not watching.callbacks:
            del _OF_LOOP[loop]
            watching.close()
