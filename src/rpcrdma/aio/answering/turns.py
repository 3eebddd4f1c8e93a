"""The order in which waiting connections get memory or threads: clients take turns, and the connections of each.

A client is an address. The next turn belongs to the waiting client that holds least, and in it to the waiting
connection that holds least; among equals to the one without a turn for longest. While no connection waits, nothing is
sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, Self, TypeVar

__all__ = ["Client", "Share", "Turns"]

S = TypeVar("S", bound="Share")


class Share:
    """The amount of a shared resource, octets of memory or threads, that one connection holds (`held`).

    `client` has the sum over all connections of the same network address.
    """

    __slots__ = ("client", "held")

    def __init__(self, client: Client[Self]) -> None:
        self.client = client
        self.held = 0

    def hold(self, more: int) -> None:
        """Adds `more` octets or threads to what the connection and its client hold; a negative number reduces both."""
        self.held += more
        self.client.held += more


class Client(Generic[S]):
    """The shares of one network address's connections: their number, their sum (`held`), and those that wait."""

    __slots__ = ("address", "held", "shares", "waiting")

    def __init__(self, address: str) -> None:
        self.address = address
        self.held = 0
        self.shares = 0
        """The number of the client's connections, from `Turns.join` until `Turns.part`."""
        self.waiting: dict[S, None] = {}
        """The shares of the connections that wait, the longest waiting one first."""

    def in_order(self) -> Iterator[S]:
        """Yields the client's waiting shares: the smallest `held` first, of equals the longest waiting first."""
        return _in_order(self.waiting)


class Turns(Generic[S]):
    """The order in which clients get a shared resource, and the connections within each client.

    `waiting` has the clients with at least one waiting connection.
    """

    __slots__ = ("_clients", "waiting")

    def __init__(self) -> None:
        self._clients: dict[str, Client[S]] = {}
        self.waiting: dict[Client[S], None] = {}

    def join(self, address: str) -> Client[S]:
        """Returns the client with this address, new if unknown; counts one more connection for it until `part`."""
        client = self._clients.get(address)
        if client is None:
            client = self._clients[address] = Client(address)
        client.shares += 1
        return client

    def part(self, share: S) -> None:
        """Subtracts one, which `join` added, from the count of shares of `share.client`; forgets a client with none."""
        client = share.client
        client.shares -= 1
        if not client.shares:
            del self._clients[client.address]

    def wait(self, share: S) -> None:
        """Records that the share's connection waits, behind those that hold as much; no effect if it waits already."""
        client: Client[S] = share.client
        client.waiting.setdefault(share)
        self.waiting.setdefault(client)

    def leave(self, share: S) -> None:
        """Records that the share's connection waits no more; no effect if it did not wait."""
        client: Client[S] = share.client
        client.waiting.pop(share, None)
        if not client.waiting:
            self.waiting.pop(client, None)

    def had_turn(self, share: S, *, waits: bool) -> None:
        """Records that the waiting connection of `share` has got memory or a thread, so that others are next.

        Its client moves behind the waiting clients that hold as much. `waits`: whether the connection waits for more.
        """
        client: Client[S] = share.client
        self.leave(share)
        if waits:
            self.waiting.pop(client, None)
            self.wait(share)
        elif client.waiting:
            self.waiting[client] = self.waiting.pop(client)

    def in_order(self) -> Iterator[Client[S]]:
        """Yields the waiting clients: the smallest `held` first, of equals the one that had no turn for longest."""
        return _in_order(self.waiting)


class _Holder(Protocol):
    held: int


H = TypeVar("H", bound=_Holder)


def _in_order(waiting: dict[H, None]) -> Iterator[H]:
    first = next(iter(waiting), None)
    if first is None:
        return
    if first.held:
        first = None
    else:
        # No client or connection holds less, and callers seldom ask for more than the first.
        yield first
    for each in sorted(waiting, key=lambda holder: holder.held):
        if each is not first:
            yield each
