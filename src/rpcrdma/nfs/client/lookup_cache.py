"""Keeps the results of LOOKUP for a short while, so that a path does not cost one for each of its directories."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from rpcrdma.nfs.client.node import Node

__all__ = ["LookupCache"]


class LookupCache:
    """Directories and symbolic links by (directory handle, name), the least recently used leave first.

    An entry is used for up to `valid_s` seconds by `clock`, which counts seconds; 0 turns the cache off. At most
    `entries_max` are kept.
    """

    __slots__ = ("_clock", "_entries", "_entries_max", "_valid_s")

    def __init__(self, clock: Callable[[], float], *, valid_s: float, entries_max: int) -> None:
        self._clock = clock
        self._valid_s = valid_s
        self._entries_max = entries_max
        self._entries: OrderedDict[tuple[bytes, str], tuple[float, Node]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, directory: Node, name: str) -> Node | None:
        """The node that `name` in `directory` led to a short while ago."""
        key = (directory.handle.data, name)
        found = self._entries.get(key)
        if found is None:
            return None
        expires, node = found
        if self._clock() >= expires:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return node

    def keep(self, directory: Node, name: str, node: Node) -> None:
        """Remembers that `name` in `directory` is `node`."""
        if self._valid_s <= 0:
            return
        key = (directory.handle.data, name)
        self._entries[key] = (self._clock() + self._valid_s, node)
        self._entries.move_to_end(key)
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)

    def forget(self, directory: Node, name: str) -> None:
        """Drops the entry of `name` in `directory`, which is being changed."""
        self._entries.pop((directory.handle.data, name), None)

    def clear(self) -> None:
        """Drops everything."""
        self._entries.clear()
