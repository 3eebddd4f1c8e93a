"""How large a reply can get: a requester must know it before it sends a call (RFC 8166 section 4.3)."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["UNSTATED", "ReplyBound"]


class ReplyBound(NamedTuple):
    """The largest result of one call.

    `results`: octets of the encoded result without its DDP-eligible items and their padding, RPC header excluded.
    `items`: for each DDP-eligible item that the result may have, in stream order, the most octets it can have.
    """

    results: int
    items: tuple[int, ...] = ()

    def capped(self, octets_max: int, *, given: bool = False) -> ReplyBound:
        """At most `octets_max` for the results and for each item.

        `given`: the caller's own buffer bounds the first item, which is then left as it is.
        """
        items = tuple(min(item, octets_max) for item in self.items)
        if given and items:
            items = (self.items[0], *items[1:])
        return ReplyBound(min(self.results, octets_max), items)

    def inline(self, octets_max: int) -> ReplyBound:
        """The bound for a reply without direct placement: all items within the results, at most `octets_max`."""
        total = self.results + sum((item + 3) & ~3 for item in self.items)
        return ReplyBound(min(total, octets_max))


UNSTATED = ReplyBound(64 * 1024)
"""The bound of a procedure that states none: 64 KiB of results, and no item placed directly."""
