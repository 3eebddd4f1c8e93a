"""Errors with a remedy for objects of one event loop that are used from another, or as if they were synchronous."""

from __future__ import annotations

import asyncio
from typing import Any

from rpcrdma.errors import LocalProtocolError

__all__ = ["AsynchronousOnly", "check_loop"]

_REMEDY = "open it anew there, or use rpcrdma.sync, whose objects work in every thread and with any loop"


def check_loop(own: asyncio.AbstractEventLoop) -> None:
    """Checks that the caller runs in the loop `own`, before it waits for an object of that loop.

    Raises:
        LocalProtocolError: the caller does not run in that loop.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        raise LocalProtocolError(
            "this is asynchronous, and was used outside of an event loop; await it in the loop that has opened it, or "
            "use rpcrdma.sync"
        ) from None
    if running is not own:
        raise LocalProtocolError(f"this belongs to the event loop that has opened it, not to this one; {_REMEDY}")


class AsynchronousOnly:
    """A special method of synchronous objects, such as `__enter__`, which an asynchronous one does not have.

    Looking for it raises a TypeError with the remedy. It is a descriptor, because some programs look without calling:
    pandas looks for `__iter__` of its argument before it reads, and could not use the coroutines that it would get.
    """

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        name = owner.__name__.lstrip("_")
        raise TypeError(f"{name} is asynchronous: write `{self._instead}`, or open it by rpcrdma.sync, which is not")
