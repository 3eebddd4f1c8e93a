"""Admission: the connections that a listener keeps when they are too many, so that no client takes all places.

A client is an address. The connection that has been idle longest makes room, so that idle connections keep out no
client, be it of their own address or of another. One address never has all places, nor have the addresses of one
network of IPv6 (`host_shares`). Half-open connections have places of their own: a flood of them displaces only itself.
If the start-ups of many clients come at once, as after a restart of the server, the server refuses newcomers. A server
that ended older start-ups for them would end one after another, and finish none.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

from rpcrdma.limits import (
    CONNECTIONS_KEPT_PARTS,
    CONNECTIONS_OF_HOST_MIN,
    CONNECTIONS_OF_HOST_PARTS,
    RDMA_STARTING_S,
    RPC_CONNECTIONS_MAX,
)
from rpcrdma.rpc.host_shares import network_of

__all__ = [
    "Admission", "connections_of_host", "connections_permitted", "connections_that_fit", "descriptors_for",
    "raise_file_limit",
]  # fmt: skip

_OTHER_DESCRIPTORS = 64
"""Descriptors beside files and connections: standard streams, listeners, the state's database, wake-ups."""
_DESCRIPTORS_WANTED = 1 << 17
"""Eight times the 16,384 files that clients of NFS version 4 may have open."""

C = TypeVar("C")
V = TypeVar("V")
_Places: TypeAlias = dict[str, dict[str, dict[C, V]]]
"""Connections by network (`network_of`) and client."""


def descriptors_for(connections: int) -> int:
    """Returns the number of file descriptors needed for `connections` RDMA connections and as many TCP connections.

    It includes those for other uses: an NFS server keeps up to three eighths of all descriptors for objects and files.
    """
    return -(-(2 * connections + _OTHER_DESCRIPTORS) * 8 // 5)


def connections_of_host(connections: int) -> int:
    """Returns the default limit on connections of one address, at a listener with at most `connections` in all.

    It is a quarter of `connections`; or 16 if that is more, but then at most seven eighths of `connections`.
    """
    kept = connections // CONNECTIONS_KEPT_PARTS
    return max(connections // CONNECTIONS_OF_HOST_PARTS, min(CONNECTIONS_OF_HOST_MIN, connections - kept))


def connections_that_fit(most: int = RPC_CONNECTIONS_MAX) -> int:
    """Returns how many RDMA connections, and as many over TCP, this process's soft limit of open files permits.

    The result is 1 to `most`.
    """
    return _fitting(resource.getrlimit(resource.RLIMIT_NOFILE)[0], most)


def connections_permitted(most: int) -> int:
    """Returns how many RDMA connections, and as many over TCP, the hard limit of open files permits: 1 to `most`.

    This number would fit after `raise_file_limit(most)`; this function raises no limit.
    """
    return _fitting(resource.getrlimit(resource.RLIMIT_NOFILE)[1], most)


def _fitting(descriptors: int, most: int) -> int:
    if descriptors == resource.RLIM_INFINITY:
        return most
    return max(1, min(most, (descriptors * 5 // 8 - _OTHER_DESCRIPTORS) // 2))


def raise_file_limit(connections: int) -> int:
    """Raises this process's soft limit of open files to suffice for connections and an NFS server's files.

    If the hard limit is lower, the soft limit is raised to that. It is never lowered.

    Args:
        connections: the wanted number of RDMA connections, and of TCP connections.

    Returns:
        The number of connections of each kind that fits now, 1 to `connections`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(descriptors_for(connections), _DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )
    return connections_that_fit(connections)


class Admission(Generic[C]):
    """The places of one listener's connections, by client address; decides which connection gives way to a newcomer.

    It ends no connection itself: its owner does so, and reports additions and removals to it. A client is an address.

    Args:
        connections_max: the most connections.
        starting_max: the most connections whose start-up is unfinished.
        idle_since: returns the loop time since which a connection has been idle, so that it can be ended without harm;
            None: it is in use.
        locked_octets_max: connections that lock memory are admitted while all together lock fewer octets than this.
        of_one_max: the most established connections of one client; None: `connections_of_host(connections_max)`.
        has_calls: returns whether calls of a connection that has ended go on, so that it keeps its place until these
            have ended. Without that a client that connects again and again would have any number of calls in progress.
    """

    def __init__(
        self,
        connections_max: int,
        starting_max: int,
        idle_since: Callable[[C], float | None],
        locked_octets_max: int = 0,
        *,
        of_one_max: int | None = None,
        has_calls: Callable[[C], bool] = lambda _: False,
    ) -> None:
        self._has_calls = has_calls
        self._ended: dict[C, None] = {}
        """Connections that have ended, and have kept their places so far."""
        self._locked: dict[C, int] = {}
        self._locked_octets_max = locked_octets_max
        self.resize(connections_max, starting_max, of_one_max)
        self._idle_since = idle_since
        self._client_of: dict[C, str] = {}
        self._all: _Places[C, None] = {}
        self._starting: _Places[C, float] = {}
        self.starting = 0
        """The number of connections in their start-up: added with `starting_s`, and not yet `established`."""

    def resize(self, connections_max: int, starting_max: int, of_one_max: int | None = None) -> None:
        """Sets the most connections, unfinished start-ups, and established connections of one client.

        `of_one_max` None: `connections_of_host(connections_max)`. Connections beyond the new limits stay.
        """
        self._connections_max = connections_max
        self._of_one_max = connections_of_host(connections_max) if of_one_max is None else of_one_max
        self._starting_max = starting_max
        # Of the addresses of a network together.
        of_network = connections_max - connections_max // CONNECTIONS_KEPT_PARTS
        self._of_network_max = max(of_network, self._of_one_max)
        self._starting_of_network_max = starting_max - starting_max // CONNECTIONS_KEPT_PARTS

    def __len__(self) -> int:
        return len(self._client_of)

    def displaced_by(self, client: str, now_s: float, *, locks: bool = False) -> C | None:
        """Returns the connection to end so that a newcomer, of the address `client`, gets a place.

        Returns None if there is a place already, or if no connection gives way: in the second case `full` returns a
        reason, or `locks` and `memory_full` are true. The first rule that applies decides; the newcomer counts as a
        start-up and a connection of `client`.

        1. `starting_max` connections are starting: the oldest start-up of the client with most start-ups, if `client`
           has fewer, or if that start-up has lasted RDMA_STARTING_S seconds.
        2. `client` has `of_one_max` established connections: its own that has been idle longest.
        3. There are `connections_max` connections, or memory is short: the connection that has been idle longest, of
           the first group that has an idle one. The groups in their order: each client with more connections than
           `client`, by falling number of connections; `client`; all clients with as many connections as `client`.

        The IPv6 network of `client` (64 bits) may have seven eighths of `starting_max` start-ups, and seven eighths of
        `connections_max` connections, or `of_one_max` if that is more. If it has them, rule 1 applies, among the
        start-ups of that network alone, or rule 3, among its connections alone; the order of the rules is the same.

        Args:
            client: the newcomer's address.
            now_s: the loop time in seconds.
            locks: whether the newcomer locks memory; if so while `memory_full`, only a connection that locks memory is
                returned.
        """
        ended, self._ended = self._ended, {}
        for connection in ended:
            self.remove(connection)
        short = locks and self.memory_full
        network = network_of(client)
        full = self._network_is_full(self._starting, self._starting_of_network_max, client)
        if full or self.starting >= self._starting_max:
            most = max(_clients(self._starting, network if full else None), key=len, default=None)
            if most is None:
                return None
            oldest, since_s = next(iter(most.items()))
            has_more = len(most) > len(_of_client(self._starting, client)) + 1
            gives_way = (has_more or now_s - since_s >= RDMA_STARTING_S) and (not short or oldest in self._locked)
            return oldest if gives_way else None
        own = _of_client(self._all, client)
        if self._has_its_share(client):
            return self._idlest(filter(self._locked.__contains__, own) if short else own)
        full = self._network_is_full(self._all, self._of_network_max, client)
        if not full and len(self._client_of) < self._connections_max and not short:
            return None
        then = len(own) + 1
        clients = list(_clients(self._all, network if full else None))
        larger = sorted((each for each in clients if len(each) > then), key=len, reverse=True)
        equals = (connection for each in clients if len(each) == then for connection in each)
        for candidates in (*larger, own, equals):
            idlest = self._idlest(filter(self._locked.__contains__, candidates) if short else candidates)
            if idlest is not None:
                return idlest
        return None

    def _idlest(self, candidates: Iterable[C]) -> C | None:
        present = (each for each in candidates if each not in self._ended)
        idle = [(since, connection) for connection in present if (since := self._idle_since(connection)) is not None]
        return min(idle, key=lambda each: each[0])[1] if idle else None

    def full(self, client: str) -> str:
        """Returns a clause on why there is no place for a further connection of the address `client`; "" if there is.

        It does not consider locked memory; see `memory_full`.
        """
        if self._has_its_share(client):
            return f"it has all connections that a host may have, {self._of_one_max}"
        if self._network_is_full(self._starting, self._starting_of_network_max, client):
            return f"{network_of(client)} has all start-ups that a network may have, {self._starting_of_network_max}"
        if self._network_is_full(self._all, self._of_network_max, client):
            return f"{network_of(client)} has all connections that a network may have, {self._of_network_max}"
        if self.starting >= self._starting_max:
            return f"{self.starting} connections are in their start-up"
        return f"{len(self)} connections" if len(self._client_of) >= self._connections_max else ""

    def _has_its_share(self, client: str) -> bool:
        return len(_of_client(self._all, client)) - len(_of_client(self._starting, client)) >= self._of_one_max

    def _network_is_full(self, places: _Places[C, Any], most: int, client: str) -> bool:
        """Returns whether `client` is an IPv6 address whose /64 network has `most` connections or more in `places`."""
        network = network_of(client)
        return network != client and sum(map(len, _clients(places, network))) >= most

    @property
    def memory_full(self) -> bool:
        """Whether the connections together lock `locked_octets_max` or more, so that no further one may lock memory."""
        return sum(self._locked.values()) >= self._locked_octets_max

    def add(self, connection: C, client: str, *, starting_s: float | None = None, locked_octets: int = 0) -> None:
        """Counts a new connection of the address `client`, without checking limits: see `displaced_by` and `full`.

        `starting_s` is the loop time at which the connection's start-up began; None: it is established already.
        `locked_octets` is the memory that the connection keeps locked for an RDMA device.
        """
        if locked_octets:
            self._locked[connection] = locked_octets
        self._client_of[connection] = client
        _add(self._all, client, connection, None)
        if starting_s is not None:
            _add(self._starting, client, connection, starting_s)
            self.starting += 1

    def established(self, connection: C) -> None:
        """Records that the start-up of a connection has ended; no effect if it is not in its start-up, or unknown."""
        client = self._client_of.get(connection)
        if client is not None and connection in _of_client(self._starting, client):
            _remove(self._starting, client, connection)
            self.starting -= 1

    def remove(self, connection: C) -> None:
        """Frees the place of a connection that has ended, as soon as it has no calls; no effect for an unknown one."""
        self.established(connection)
        self._locked.pop(connection, None)
        if self._has_calls(connection) and connection in self._client_of:
            self._ended[connection] = None
            return
        client = self._client_of.pop(connection, None)
        if client is not None:
            _remove(self._all, client, connection)


def _clients(places: _Places[C, V], network: str | None) -> Iterator[dict[C, V]]:
    """Yields the dict of connections of each client in a network; None: in all networks."""
    for clients in places.values() if network is None else [places.get(network, {})]:
        yield from clients.values()


def _of_client(places: _Places[C, V], client: str) -> dict[C, V]:
    """Returns the dict of a client's connections, empty if it has none; callers must not change it."""
    return places.get(network_of(client), {}).get(client, {})


def _add(places: _Places[C, V], client: str, connection: C, value: V) -> None:
    places.setdefault(network_of(client), {}).setdefault(client, {})[connection] = value


def _remove(places: _Places[C, V], client: str, connection: C) -> None:
    network = network_of(client)
    of_client = places[network][client]
    del of_client[connection]
    if not of_client:
        del places[network][client]
        if not places[network]:
            del places[network]
