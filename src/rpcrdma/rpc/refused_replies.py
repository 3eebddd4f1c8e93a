"""Replies that were larger than the memory their calls offered, held until the calls come again and offer more."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from rpcrdma.xdr.codec import Payload

__all__ = ["RefusedReplies"]

K = TypeVar("K", bound=Hashable)


class _Client(Generic[K]):
    """The replies held for one address, the oldest first."""

    __slots__ = ("octets", "replies")

    def __init__(self) -> None:
        self.replies: dict[K, Payload] = {}
        self.octets = 0


class RefusedReplies(Generic[K]):
    """Replies by the keys of their calls, at most `octets_max` octets.

    Beyond that the oldest of the client that holds most goes, so that no client costs another one its second try. A
    reply that is longer than all of it is not held.
    """

    __slots__ = ("_clients", "_octets_max", "octets")

    def __init__(self, octets_max: int) -> None:
        self._octets_max = octets_max
        self._clients: dict[str, _Client[K]] = {}
        self.octets = 0
        """Octets of all that are held."""

    def hold(self, address: str, key: K, reply: Payload) -> None:
        """Holds a reply for the client at `address`; the reply's memory must not change afterwards."""
        self.drop(address, key)
        if reply.length > self._octets_max:
            return
        own = self._clients.setdefault(address, _Client())
        own.replies[key] = reply
        own.octets += reply.length
        self.octets += reply.length
        while self.octets > self._octets_max:
            # The reply that has just come does not count: of equals it is the one that stays.
            others = {name: each.octets - reply.length * (each is own) for name, each in self._clients.items()}
            fullest = max(others, key=others.__getitem__)
            self.drop(fullest, next(iter(self._clients[fullest].replies)))

    def find(self, address: str, key: K) -> Payload | None:
        """The reply, if it is held."""
        client = self._clients.get(address)
        return None if client is None else client.replies.get(key)

    def drop(self, address: str, key: K) -> None:
        """Holds the reply no longer; no effect if it is not held."""
        client = self._clients.get(address)
        reply = None if client is None else client.replies.pop(key, None)
        if client is None or reply is None:
            return
        client.octets -= reply.length
        self.octets -= reply.length
        if not client.replies:
            del self._clients[address]
