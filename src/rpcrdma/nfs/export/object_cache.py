"""Open objects and files that are kept for the next calls, by file handle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

__all__ = ["Cacheable", "ObjectCache"]


class Cacheable(Protocol):
    """An open object or file that an `ObjectCache` can hold, with its file handle as the key."""

    handle: bytes
    used: bool
    """Whether the item was used since the cache last looked for unused ones; users set it, and the cache clears it."""


C = TypeVar("C", bound=Cacheable)


class ObjectCache(Generic[C]):
    """A cache of open objects or files by file handle. Thread-safe; `limit`, at least 1, is the most items.

    Eviction only drops the cache's reference: a descriptor closes with the last reference to the item. The oldest
    items are evicted first; one with `used` set is kept for another round, and loses the mark. `evicted` is called with
    each item that `put` evicts, not with those that other methods drop; None: nothing is called.
    """

    def __init__(self, limit: int, evicted: Callable[[C], None] | None = None) -> None:
        self._limit = limit
        self._evicted = evicted
        self.held: dict[bytes, C] = {}
        """The items by handle; only methods change it."""
        self.lock = threading.RLock()
        """Held by each method that changes `held`, and by callers for what must not be divided by such a change."""

    def put(self, item: C) -> C | None:
        """Holds `item`, and evicts others beyond the limit; returns the item that had the same handle before, or None.

        Calls `evicted` with each evicted item, in the calling thread; not with the item that `item` replaces.
        """
        out: list[C] = []
        with self.lock:
            held = self.held
            before = held.get(item.handle)
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
        return before

    def drop(self, handle: bytes) -> C | None:
        """Drops the item with the file handle `handle` and returns it; returns None if there is none."""
        with self.lock:
            return self.held.pop(handle, None)

    def drop_idle(self, keep: Callable[[C], bool] = lambda _: False) -> list[C]:
        """Drops and returns the items whose `used` is False, unless `keep` returns True; clears `used` of all others.

        So an item is dropped that was not used since the last call of this method, or since `put` cleared the mark.
        """
        with self.lock:
            idle = [item for item in self.held.values() if not item.used and not keep(item)]
            for item in idle:
                del self.held[item.handle]
            for item in self.held.values():
                item.used = False
        return idle

    def drop_those(self, which: Callable[[C], bool]) -> list[C]:
        """Drops and returns the items for which `which` returns True."""
        with self.lock:
            found = [item for item in self.held.values() if which(item)]
            for item in found:
                del self.held[item.handle]
        return found

    def drop_all(self) -> list[C]:
        """Drops and returns all items."""
        with self.lock:
            everything = list(self.held.values())
            self.held.clear()
        return everything
