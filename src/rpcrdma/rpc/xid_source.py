"""Transaction identifiers for calls (RFC 5531 section 9)."""

from __future__ import annotations

__all__ = ["XidSource"]


class XidSource:
    """Numbers calls one after another from `first`, which is best random; no two unfinished calls have the same XID."""

    __slots__ = ("_next", "_out")

    def __init__(self, first: int) -> None:
        self._next = first & 0xFFFFFFFF
        self._out: set[int] = set()

    def take(self) -> int:
        """An XID that no other call gets until `give_back`."""
        xid = self._next
        while xid in self._out:
            xid = (xid + 1) & 0xFFFFFFFF
        self._next = (xid + 1) & 0xFFFFFFFF
        self._out.add(xid)
        return xid

    def give_back(self, xid: int) -> None:
        """Makes the XID of a call free again: the call has been answered, has failed or was given up."""
        self._out.discard(xid)
