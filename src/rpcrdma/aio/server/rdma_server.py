"""Serves RPC programs over RPC-over-RDMA."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.connections.calls_made import observer_of
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.drivers.limited_log import CONNECTION_LINES_MAX, LimitedLog
from rpcrdma.aio.drivers.provider import Link, ProviderChoice, ProviderInUse
from rpcrdma.aio.drivers.provider_choice import chosen_providers
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.aio.host_options import OTHER_AUTHORITIES, AuthoritiesInUse, HostAuthentication
from rpcrdma.aio.misuse import check_options, known_options
from rpcrdma.aio.server.connection_limits import Admission, connections_that_fit
from rpcrdma.aio.server.rdma_listeners import RdmaListeners
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.limits import RDMA_IDLE_S, RDMA_RECEIVES_LOCKED_OCTETS_MAX, RDMA_STARTING_MAX
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rtr import all_extensions, extension_choice
from rpcrdma.transport import (
    Extension,
    Role,
    TransportConfig,
    TransportStatistics,
    add_up,
    offered,
    receive_octets,
    version_choice,
)
from rpcrdma.verbs import ReceivePool
from rpcrdma.verbs.device_config import VerbsConfig

__all__ = ["RdmaServer", "RdmaServerConfig"]

_LOGGER = logging.getLogger("rpcrdma.server")


@known_options
@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaServerConfig:
    """Limits of a server's RDMA connections, and the settings that each connection gets.

    Raises:
        ValueError: `rpcrdma_version` or `extension` is unknown, or a number is negative or not finite.
        TypeError: an option is unknown, or has another type than it says.
        LocalProtocolError: two extensions, or one and the protocol, use the same number of a header type, property
            or error.
    """

    connections_max: int = field(default_factory=connections_that_fit)
    """The most connections. At the limit a newcomer displaces the longest idle connection of another client with more
    connections; without one, of its own client; without one, of a client with as many. If none is idle, the newcomer
    is refused. The default leaves room in the limit of open files for as many TCP connections and the files of an NFS
    server; it is at most `RPC_CONNECTIONS_MAX`."""
    connections_per_host: int | None = None
    """Established connections of one address at most. At the limit a newcomer displaces the connection of its host
    that has been idle longest; without an idle one it is refused. None: a quarter of `connections_max`;
    or 16 if that is more, but then at most seven eighths of `connections_max`."""
    idle_s: float | None = RDMA_IDLE_S
    """Seconds without new and running calls after which a connection ends, or up to a quarter later; None or 0: never.

    A connection whose client has stated that it takes calls stays (RFC 8167 section 5.4)."""
    extension: str = "auto"
    """The round-trip extension: offered to clients unless "off"."""
    extensions: Sequence[Extension] = ()
    """Further extensions; see `ConnectOptions.extensions`."""
    transport: TransportConfig = field(default_factory=TransportConfig)
    """Message sizes, credits and other limits of RPC-over-RDMA."""
    rpcrdma_version: str | int = "auto"
    """One of `rpcrdma.extension.VERSION_CHOICES`: the only version that the server speaks; "auto" takes each
    client's, as its first message shows it."""
    provider: ProviderChoice = "auto"
    """The carrier of RDMA: "iwarp" is the software RNIC, "verbs" an RDMA device of this machine; or a provider of your
    own, see `rpcrdma.provider`. "auto" listens over the software RNIC and over the RDMA device of the address, if any.
    `?provider=NAME` at the end of a URL to listen at takes precedence."""
    iwarp: IwarpConfig = field(default_factory=IwarpConfig)
    """Settings of the software RNIC; unused by a provider of your own."""
    verbs: VerbsConfig = field(default_factory=VerbsConfig)
    """Settings of connections over RDMA devices."""
    capture: PacketCapture | None = None
    """The capture that records the packets of all connections; software RNIC only."""
    host_authentication: HostAuthentication = field(default_factory=HostAuthentication)
    """Whether clients prove their host. If that is required, services of RDMA listeners are not offered over TCP
    without "mtls"."""

    def __post_init__(self) -> None:
        check_options(self)
        version_choice(self.rpcrdma_version)
        self.all_extensions()

    def all_extensions(self) -> list[Extension]:
        """Returns the protocol extensions of each new connection.

        Returns:
            `extensions`, and this library's round-trip extension unless `extension` is "off" or `extensions` has it.

        Raises:
            ValueError: `extension` is none of `rpcrdma.extension.EXTENSION_CHOICES`.
            LocalProtocolError: two extensions, or one and the protocol, use the same number of a header type, property
                or error.
        """
        return all_extensions(extension_choice(self.extension), self.transport, self.extensions)


class RdmaServer:
    """Accepts RDMA connections within limits, and answers their calls; a part of `Server`.

    It works in the event loop that runs when it is made.

    Args:
        answering: finds and runs the handlers, and answers the calls.
        results: lends the memory for results of handlers.
        arguments: lends the memory for the data of Read chunks.
        config: the settings.
        calls_back: counts the server's calls to clients; None: no counts.

    Raises:
        HostAuthenticationFailed: a file of `config.host_authentication` is unfit, or host authentication is required in
            a version of RPC-over-RDMA without it.
    """

    def __init__(
        self,
        answering: Answering,
        results: BufferPool,
        arguments: BufferPool,
        config: RdmaServerConfig,
        calls_back: CallStatistics | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._answering = answering
        self._results = results
        self._arguments = arguments
        self._config = config
        self._admission: Admission[RdmaConnection] = Admission(
            config.connections_max,
            max(RDMA_STARTING_MAX, config.connections_max // 4),
            lambda connection: connection.idle_since,
            RDMA_RECEIVES_LOCKED_OCTETS_MAX,
            of_one_max=config.connections_per_host,
            has_calls=lambda connection: answering.runner.workers.runs_calls_of(connection.calls_taken),
        )
        self._accepts = True
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._version = version_choice(config.rpcrdma_version)
        self._extensions = config.all_extensions()
        config.host_authentication.check_version(self._version, "RdmaServerConfig")
        self._authenticators = config.host_authentication.source(Role.SERVER)
        self._authorities = AuthoritiesInUse(config.host_authentication)
        self._receive_pool = ReceivePool(receive_octets(config.transport, offered(self._version)))
        self._log = LimitedLog(_LOGGER)
        self._listeners = RdmaListeners(self._connected, self._log)
        # In order: a simulation must end them in the same order each time.
        self.connections: dict[RdmaConnection, None] = {}
        self.connections_made = 0
        self.connections_refused = 0
        self._ended_statistics = TransportStatistics()
        self._ended_calls = 0
        self.calls_back = calls_back

    async def listen(
        self, host: str, port: int, provider: ProviderChoice | None = None
    ) -> dict[tuple[str, int], list[ProviderInUse]]:
        """Listens at `host` over each provider that can, at the same port; returns the providers of each address.

        The keys of the result are host and port, the values names of providers and RDMA devices. `port` 0 takes a free
        port. `provider` None takes `RdmaServerConfig.provider`.

        Raises:
            OSError: no provider can listen there.
            LocalProtocolError: the provider is unknown, or its packets cannot be captured as `config.capture` asks.
        """
        config = self._config
        providers = chosen_providers(provider or config.provider, config.iwarp, config.verbs, config.capture)
        self._sweep_later()
        return await self._listeners.listen(host, port, providers)

    def read_certificates(self) -> Callable[[], None]:
        """Reads the files, if any, for host authentication again; may block, and may be called in any thread.

        Returns:
            A function for the event loop, which uses them for later connections. If the content of the file of
            authorities has changed, it ends all connections to authenticated hosts.

        Raises:
            HostAuthenticationFailed: a file is unfit.
        """
        authenticators = self._config.host_authentication.source(Role.SERVER)
        authorities = self._authorities.read()

        def use() -> None:
            self._authenticators = authenticators
            if self._authorities.replaced(authorities):
                for connection in [each for each in self.connections if each.host_identity is not None]:
                    connection.abort(OTHER_AUTHORITIES)

        return use

    def stop_listening(self, places: Collection[tuple[str, int]]) -> None:
        """Stops accepting connections at `places`, pairs of address and port from `listen`; present connections stay.

        Places at which the server does not listen are ignored. While the server listens at "::", it may still accept
        IPv4 connections to stopped addresses at that port, which depends on the provider.
        """
        self._listeners.stop(places)

    def set_limits(self, connections_max: int, connections_per_host: int | None, idle_s: float | None) -> None:
        """Changes limits of the running server; connections beyond the new limits stay.

        Args:
            connections_max: the most connections.
            connections_per_host: the most connections of one address; None: the default for `connections_max`.
            idle_s: seconds after which an idle connection ends, a present one as well; None or 0: never.
        """
        self._config = replace(
            self._config, connections_max=connections_max, connections_per_host=connections_per_host, idle_s=idle_s
        )
        self._admission.resize(connections_max, max(RDMA_STARTING_MAX, connections_max // 4), connections_per_host)
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        self._sweep_later()

    def stop_accepting(self) -> None:
        """Stops accepting connections, and drops deferred and later calls on present ones; begun calls are answered."""
        self._accepts = False
        self._listeners.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connection in list(self.connections):
            connection.calls_taken.drain()

    async def stop(self) -> None:
        """Stops accepting, disconnects every connection after the Sends posted on it, and waits until all have ended.

        A connection whose peer does not answer is ended after some seconds (`Driver.expect_end`). Running calls are not
        waited for: their replies are dropped.
        """
        self.stop_accepting()
        if self.connections:
            await asyncio.wait([asyncio.ensure_future(connection.close()) for connection in self.connections])
        self._log.flush()

    @property
    def calls(self) -> int:
        """The number of calls passed to handlers or refused, on ended connections as well; dropped ones not."""
        return self._ended_calls + sum(connection.calls_taken.taken for connection in self.connections)

    @property
    def statistics(self) -> TransportStatistics:
        """The sums of the counters of all RDMA connections since the server was made, including ended connections."""
        return add_up([self._ended_statistics, *(connection.statistics for connection in self.connections)])

    def _connected(self, link: Link) -> None:
        address = link.peer
        locks = link.device is not None
        displaced = self._admission.displaced_by(address[0], self._loop.time(), locks=locks)
        if displaced is not None:
            # Calls `_ended` at once, which frees the place.
            displaced.abort("its place was needed: too many connections")
        elif (full := self._admission.full(address[0])) or (locks and self._admission.memory_full):
            count = len(self.connections)
            why = full or f"{count} connections, whose receives take all memory that RDMA devices may lock"
            self._log.log(logging.WARNING, "full", "%s turned away: %s", authority(*address), why)
            self.connections_refused += 1
            link.refuse()
            return
        connection = RdmaConnection(
            link,
            transport=self._config.transport,
            results=self._results,
            arguments=self._arguments,
            answering=self._answering,
            receive_pool=self._receive_pool,
            authenticators=self._authenticators,
            version=self._version,
            extensions=self._extensions,
            on_established=self._established,
            on_ended=self._ended,
            observer=observer_of(self.calls_back),
        )
        self.connections_made += 1
        self.connections[connection] = None
        starting_s = self._loop.time()
        self._admission.add(connection, address[0], starting_s=starting_s, locked_octets=connection.locked_octets)

    def _sweep_later(self) -> None:
        if self._config.idle_s and self._sweep_timer is None and self._accepts:
            self._sweep_timer = self._loop.call_later(self._config.idle_s / 4, self._sweep)

    def _sweep(self) -> None:
        """Aborts the connections that have been idle for at least `idle_s` seconds; runs every `idle_s` / 4 seconds."""
        self._sweep_timer = None
        self._sweep_later()
        now, idle_s = self._loop.time(), self._config.idle_s
        assert idle_s is not None
        for connection in list(self.connections):
            since = connection.idle_since
            if since is not None and now - since >= idle_s:
                connection.abort(f"idle for {idle_s:g} s")

    def _established(self, connection: RdmaConnection) -> None:
        self._admission.established(connection)
        name = authority(*connection.peer)
        agreed = connection.negotiated
        host = agreed.host_identity
        event = {"event": "connected", "transport": "rdma", "peer": name, **asdict(agreed)}
        event["host_identity"] = None if host is None else host.as_json()
        self._log.log(
            logging.INFO,
            "connected",
            "rdma connection from %s: version %s, provider %s, inline %d/%d octets, credits %d (back: %d), %s, "
            "remote invalidation %s, reads %d/%d%s",
            name,
            agreed.version,
            ProviderInUse(agreed.provider, agreed.device),
            agreed.inline_receive_octets,
            agreed.inline_send_octets,
            agreed.credits_granted,
            agreed.reverse_credits_granted,
            "CRC" if agreed.crc else "no CRC",
            "on" if agreed.remote_invalidation else "off",
            agreed.inbound_reads,
            agreed.outbound_reads,
            "" if host is None else f", host {host.subject}",
            extra={"event": event},
            most=CONNECTION_LINES_MAX,
            host=connection.peer[0],
        )

    def _ended(self, connection: RdmaConnection) -> None:
        self.connections.pop(connection, None)
        self._admission.remove(connection)
        self._ended_statistics = add_up([self._ended_statistics, connection.statistics])
        self._ended_calls += connection.calls_taken.taken
        name = authority(*connection.peer)
        reason = connection.end_reason
        if reason is None:
            return
        event = {
            "event": "disconnected",
            "transport": "rdma",
            "peer": name,
            "reason": reason.reason,
            "protocol_error": reason.protocol_error,
            "statistics": asdict(connection.statistics),
        }
        said = ("rdma connection from %s ended: %s", name, reason.reason)
        if reason.protocol_error or reason.refusal is not None:
            kind = "protocol" if reason.refusal is None else "host"
            self._log.log(logging.WARNING, kind, *said, extra={"event": event})
        else:
            most, host = CONNECTION_LINES_MAX, connection.peer[0]
            self._log.log(logging.INFO, "disconnected", *said, extra={"event": event}, most=most, host=host)
