"""The interface of providers to RDMA connections: links to connect and to accept, and drivers that move their data.

A `Provider` finds the peer and returns a `Link`, which has addresses and sends nothing yet; `Link.open` makes the queue
pair and begins. All of it runs in the thread of one event loop.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """The terms that both ends of a provider have agreed on; before that, the terms that this end asks for."""

    crc: bool
    """Whether a checksum protects the octets on their way."""
    inbound_reads: int
    outbound_reads: int
    device: str | None = None
    """The RDMA device; None of a provider without."""


class ProviderInUse(NamedTuple):
    """The provider of a connection or of a listener by name, and its RDMA device; None of any device, or of none."""

    provider: str
    device: str | None = None

    def __str__(self) -> str:
        return self.provider if self.device is None else f"{self.provider} ({self.device})"


class Listening(NamedTuple):
    """An address at which peers connect, and the RDMA device there; None of any device, or of none."""

    host: str
    port: int
    device: str | None = None


class Driver(Protocol):
    """Moves the data of one queue pair."""

    @property
    def queue_pair(self) -> QueuePair:
        """The queue pair to post work to; posting alone moves nothing: see `flush`."""

    @property
    def protection_domain(self) -> ProtectionDomain:
        """Of this connection alone."""

    @property
    def terms(self) -> Terms:
        """The agreed terms."""

    @property
    def blocked(self) -> bool:
        """Whether `flush` has no effect at present; the owner is called when it has."""

    @property
    def round_trip_s(self) -> float | None:
        """The shortest round trip to the peer so far, measured below all that runs here; None where that is unknown.

        The time that either process takes must not count: on a busy machine a near peer would seem far. A peer of which
        nothing is known counts as near.
        """

    def flush(self) -> None:
        """Begins the work that was posted.

        Calls `on_closed` if everything is over and taken, but never `on_turn`: the owner may be in the midst of one.
        """

    def expect_end(self) -> None:
        """The connection has ended for its owner: the driver closes by itself, a peer that does not cooperate or not.

        The owner may still flush; `on_turn` is called once more if there are completions or events to take.
        """

    def close(self) -> None:
        """Ends everything at once, the timer as well, and calls `on_closed`, which happens once."""


class Link(Protocol):
    """The way to one peer, before anything is said on it. Either `open` or `refuse` is called, once."""

    @property
    def provider(self) -> str:
        """The provider's name."""

    @property
    def device(self) -> str | None:
        """The RDMA device, which locks the memory of receives; None of a provider without."""

    @property
    def local(self) -> tuple[str, int]:
        """The address and port of this end."""

    @property
    def peer(self) -> tuple[str, int]:
        """The address and port of the other end. Limits for one client go by the address."""

    @property
    def active(self) -> bool:
        """Whether this end connects."""

    @property
    def settle_s(self) -> float:
        """How much time the end that connects lets pass between `Established` and its first message."""

    @property
    def remote_invalidation(self) -> bool:
        """Whether Sends with Invalidate can end the exposure of memory: the peer's here, and ours at the peer."""

    def open(
        self, private_data: bytes, timer: DeadlineTimer, on_turn: Callable[[], None], on_closed: Callable[[], None]
    ) -> Driver:
        """Makes the queue pair and the driver that moves its data. Neither function is called before this returns.

        `private_data` goes to the peer if this end connects; the other one gives its own to `QueuePair.accept`.
        `on_turn` is called when the queue pair may have completions or events; that Sends are done may be reported
        along with the next other event. It takes them and posts until there is no more to do, and then calls `flush`,
        which is called after all posting. `timer` is the connection's; the machines of the provider that have deadlines
        are to be watched by it. `on_closed` is called when the driver has released everything.
        """

    def refuse(self) -> None:
        """Turns the peer away without a word."""


class LinkListener(Protocol):
    """Where peers connect to."""

    async def listen(self, host: str, port: int) -> list[Listening]:
        """Takes links at `host` as well; port 0 takes a free one. Returns the addresses that this added.

        Raises:
            OSError: the address is in use, not of this machine or not permitted.
        """

    def close(self) -> None:
        """Takes no more."""


class Provider(Protocol):
    """Any number of connections over one kind of RDMA."""

    @property
    def name(self) -> str:
        """As it is shown to people, and in `Negotiated`."""

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> Link:
        """A link to the listener at `host`; from a port below 1024 with `reserved_port`.

        Raises:
            ConnectFailed: there is no way; the message names cause and remedy.
        """

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> LinkListener:
        """Something that listens nowhere yet. `on_link` is called with each link that a peer makes."""

    def explain_unmade(self, where: str, cause: str) -> str:
        """For a person: no RDMA connection was made over the link to `where`, for `cause`, and a remedy."""


PROVIDERS = ("auto", "iwarp", "verbs")
"""The choices by name."""

ProviderChoice: TypeAlias = Literal["auto", "iwarp", "verbs"] | Provider
"""As options have it."""
