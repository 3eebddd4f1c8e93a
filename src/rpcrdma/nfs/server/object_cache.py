"""A bounded cache of open things by file handle.

What is evicted is only let go of: its descriptor closes when the last call that uses it is done. Eviction gives
a second chance to what has been used since the last time round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

__all__ = ["Cacheable", "ObjectCache"]


class Cacheable(Protocol):
    """Something open."""

    handle: bytes
    used: bool
    """Set by every use, cleared when a chance has been used up."""


C = TypeVar("C", bound=Cacheable)


class ObjectCache(Generic[C]):
    """Thread-safe; `limit` at least 1. `evicted` is told of what makes room, not of what is dropped."""

    def __init__(self, limit: int, evicted: Callable[[C], None] | None = None) -> None:
        self._limit = limit
        self._evicted = evicted
        self._held: dict[bytes, C] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, handle: bytes) -> C | None:
        """What is open for this handle."""
        held = self._held.get(handle)
        if held is not None:
            held.used = True
        return held

    def put(self, item: C) -> None:
        """Holds `item`, in place of what was held for its handle."""
        out: list[C] = []
        with self._lock:
            held = self._held
            held[item.handle] = item
            while len(held) > self._limit:
                handle = next(iter(held))
                oldest = held.pop(handle)
                if oldest is item:
                    held[handle] = oldest
                elif oldest.used:
                    oldest.used = False
                    held[handle] = oldest
                else:
                    out.append(oldest)
        if self._evicted is not None:
            for oldest in out:
                self._evicted(oldest)

    def drop(self, handle: bytes) -> C | None:
        """Lets go of what is held for this handle; returns it."""
        with self._lock:
            return self._held.pop(handle, None)

    def drop_idle(self) -> list[C]:
        """Lets go of what has not been used since the last time; returns it."""
        with self._lock:
            idle = [item for item in self._held.values() if not item.used]
            for item in idle:
                del self._held[item.handle]
            for item in self._held.values():
                item.used = False
        return idle

    def drop_all(self) -> list[C]:
        """Lets go of everything; returns it."""
        with self._lock:
            everything = list(self._held.values())
            self._held.clear()
        return everything
