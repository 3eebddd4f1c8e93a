"""The interface of providers to RDMA connections: links to connect and to accept, and drivers that move their data.

A `Provider` finds the peer and returns a `Link`, which has addresses and sends nothing yet; `Link.open` makes the queue
pair and begins. All of it runs in the thread of one event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.verbs import ProtectionDomain, QueuePair

__all__ = [
    "PROVIDERS",
    "Driver",
    "Link",
    "LinkListener",
    "Listening",
    "Provider",
    "ProviderChoice",
    "ProviderInUse",
    "Terms",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of a connection between two ends of a provider; before set-up, the terms that this end proposes."""

    crc: bool
    """Whether a checksum protects the octets on the wire."""
    inbound_reads: int
    """RDMA Reads that the peer may have outstanding (IRD)."""
    outbound_reads: int
    """RDMA Reads that this end may have outstanding (ORD)."""
    device: str | None = None
    """The RDMA device; None for providers without devices."""


class ProviderInUse(NamedTuple):
    """The name of the provider of a connection or listener, and its RDMA device.

    `device` None: any device, or a provider without devices.
    """

    provider: str
    device: str | None = None

    def __str__(self) -> str:
        return self.provider if self.device is None else f"{self.provider} ({self.device})"


class Listening(NamedTuple):
    """An address at which a listener accepts peers.

    Args:
        host: the IP address or host name.
        port: the port.
        device: the RDMA device; None: any device, or no device.
    """

    host: str
    port: int
    device: str | None = None


class Driver(Protocol):
    """The interface by which an RDMA connection moves the data of its queue pair; `Link.open` makes it."""

    @property
    def queue_pair(self) -> QueuePair:
        """The queue pair to post work to; `flush` starts posted work."""

    @property
    def protection_domain(self) -> ProtectionDomain:
        """The protection domain in which the connection's memory is registered; no other connection uses it."""

    @property
    def terms(self) -> Terms:
        """The agreed terms: checksum, RDMA Read limits, device; before agreement, those that this end proposes."""

    @property
    def blocked(self) -> bool:
        """Whether `flush` has no effect, as the driver is closed or the network takes no data now.

        As soon as the network takes data again, the driver calls the function `on_turn` that `Link.open` got.
        """

    @property
    def round_trip_s(self) -> float | None:
        """The shortest round trip to the peer so far, in seconds; None if unknown, which counts as near.

        The network or the kernel measures it, so that the time of both processes does not count; with that time, a near
        peer would seem far on a busy machine.
        """

    def flush(self) -> None:
        """Starts the work that was posted to the queue pair since the last call.

        The implementation may call `on_closed` if the connection has ended and all completions are taken, but never
        `on_turn`: the owner may be inside of it.
        """

    def expect_end(self) -> None:
        """Lets the driver close by itself soon, with or without the peer.

        Called after the owner has disconnected, and at any other end of the connection. The owner may still call
        `flush`. The driver calls `on_turn` once more if there are completions or events to take.
        """

    def close(self) -> None:
        """Ends the connection and its timer at once, and calls `on_closed`; no effect on a closed driver."""


class Link(Protocol):
    """The interface of a future connection to one peer, before any octet of RDMA is sent.

    A provider makes it. Its owner calls either `open` or `refuse`, once.
    """

    @property
    def provider(self) -> str:
        """The name of the provider, such as "iwarp"."""

    @property
    def device(self) -> str | None:
        """The name of the RDMA device, which locks the memory of receives; None for providers without devices."""

    @property
    def local(self) -> tuple[str, int]:
        """The address and port of this end."""

    @property
    def peer(self) -> tuple[str, int]:
        """The address and port of the other end. Limits per client count by the address."""

    @property
    def active(self) -> bool:
        """Whether this end opened the connection."""

    @property
    def settle_s(self) -> float:
        """The seconds for which the connecting end waits after connection set-up before its first message."""

    @property
    def remote_invalidation(self) -> bool:
        """Whether the provider supports Send with Invalidate (RFC 8797 section 4.1), in both directions."""

    def open(
        self, private_data: bytes, timer: DeadlineTimer, on_turn: Callable[[], None], on_closed: Callable[[], None]
    ) -> Driver:
        """Makes the queue pair and its driver, and starts the connection.

        Neither `on_turn` nor `on_closed` is called before this method returns.

        Args:
            private_data: octets for the peer if this end connects; the other end gives its own to `QueuePair.accept`.
            timer: the connection's timer, by which the provider serves its deadlines.
            on_turn: called when the queue pair may have completions or events; completed Sends may be reported with the
                next other event. The function takes them, posts until no work is left, and calls `Driver.flush`, as
                after any posting.
            on_closed: called when the driver has released everything; a device that still connects, in a thread, is
                released later.

        Returns:
            The driver.

        Raises:
            ConnectFailed: the provider cannot make the queue pair. It has released the link, and has refused the peer
                if that has asked for the connection, so that `refuse` is not called.
        """

    def refuse(self) -> None:
        """Releases the link, and refuses the peer if that has asked for the connection; called instead of `open`."""


class LinkListener(Protocol):
    """The interface of a provider's listener, which accepts peers at its addresses and hands over their links."""

    async def listen(self, host: str, port: int) -> list[Listening]:
        """Starts to accept peers at the addresses of a host.

        Args:
            host: the address or host name to listen at.
            port: the port; 0 takes a free one.

        Returns:
            The addresses of `host`.

        Raises:
            OSError: `host` is unknown, or an address is in use, not of this machine or not permitted; none is added.
        """

    def stop(self, places: Collection[tuple[str, int]]) -> None:
        """Stops accepting peers at some addresses of the listener; its other addresses, and connections, stay.

        Args:
            places: host and port of each address, as `listen` has returned them; unknown places have no effect.
        """

    def close(self) -> None:
        """Stops accepting peers at every address; connections stay."""


class Provider(Protocol):
    """The interface of an implementation of RDMA, which makes and accepts connections."""

    @property
    def name(self) -> str:
        """The short name of the provider, such as "iwarp", which messages and `Negotiated` show."""

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> Link:
        """Finds a path to a server's listener, without opening the RDMA connection.

        Args:
            host: the server's host name or address.
            port: the server's port.
            reserved_port: whether this end uses a port below 1024.

        Returns:
            The link, not opened yet.

        Raises:
            NotPermitted: this process may not use a port below 1024.
            ConnectFailed: the listener cannot be reached; the message names the server, cause and remedy.
            OSError: the path was lost at once.
        """

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> LinkListener:
        """Makes a listener that has no address yet, and so accepts nothing.

        Args:
            on_link: called with each link that a peer makes.
            log: the log for failures that peers can cause.

        Returns:
            The listener.

        Raises:
            OSError: the provider cannot listen on this machine; the message names the remedy.
        """

    def explain_unmade(self, where: str, cause: str) -> str:
        """Returns a message for people about a server to which there is a link, but no RDMA connection could be set up.

        The message has `where`, `cause` and a remedy.

        Args:
            where: the server, as HOST:PORT.
            cause: the reason, a clause.
        """


PROVIDERS = ("auto", "iwarp", "verbs")
"""The values of the option `provider` that name providers."""

ProviderChoice: TypeAlias = Literal["auto", "iwarp", "verbs"] | Provider
"""The type of the option `provider`."""
