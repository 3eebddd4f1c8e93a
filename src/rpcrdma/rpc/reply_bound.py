"""How large a reply can get: a requester must know it before it sends a call (RFC 8166 section 4.3)."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["UNSTATED", "ReplyBound"]


class ReplyBound(NamedTuple):
    """The largest result of one call, which a requester must know before it sends the call (RFC 8166 section 4.3).

    Args:
        results: octets of the encoded result without DDP-eligible items and their padding, RPC header excluded.
        items: for each DDP-eligible item, in stream order, its most octets.
    """

    results: int
    items: tuple[int, ...] = ()

    def capped(self, octets_max: int, *, given: bool = False) -> ReplyBound:
        """Returns the bound with each size reduced to at most a limit.

        Args:
            octets_max: the limit, in octets, of `results` and of each item.
            given: whether the caller's own buffer bounds the first item, which then stays as it is.

        Returns:
            A bound with equally many items.
        """
        items = tuple(min(item, octets_max) for item in self.items)
        if given and items:
            items = (self.items[0], *items[1:])
        return ReplyBound(min(self.results, octets_max), items)

    def inline(self, octets_max: int) -> ReplyBound:
        """Returns the bound of a reply without direct placement, whose `results` include the items with their padding.

        Args:
            octets_max: the limit, in octets, to which the sum is reduced if it is larger.

        Returns:
            A bound without items.
        """
        total = self.results + sum((item + 3) & ~3 for item in self.items)
        return ReplyBound(min(total, octets_max))


UNSTATED = ReplyBound(64 * 1024)
"""The bound of a procedure that states none: 64 KiB of results, and no item placed directly."""
