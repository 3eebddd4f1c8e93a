"""Offering services: `rpcrdma.serve`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from rpcrdma.aio.answering.answering import Answering, AtMostOnce
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.computations import Computations
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers.effects import random_bits
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.provider import ProviderInUse
from rpcrdma.aio.drivers.sockets import authority, cannot_listen
from rpcrdma.aio.host_options import NO_TLS_OVER_RDMA
from rpcrdma.aio.misuse import Opening, all_of, check_options, check_type, known_options
from rpcrdma.aio.security_options import KerberosKeys
from rpcrdma.aio.server.definition_limits import MessageLimit, limits_over_rdma, limits_over_tcp, messages_refused
from rpcrdma.aio.server.rdma_server import RdmaServer, RdmaServerConfig
from rpcrdma.aio.server.server_statistics import (
    ConnectionStatistics,
    HostStatistics,
    ListenerStatistics,
    ServerStatistics,
)
from rpcrdma.aio.server.tcp_server import TcpServer, TcpServerConfig
from rpcrdma.aio.urls import Url, parse_url
from rpcrdma.errors import LocalProtocolError, UserAuthenticationFailed
from rpcrdma.limits import ADMIN_CONNECTIONS_AT_ONCE, BUFFER_OCTETS_MAX, SERVER_WORKERS
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.gss.acceptor import Acceptor
from rpcrdma.rpc.gss.flavors import SecurityFlavor, security_flavor
from rpcrdma.rpc.gss.mechanism import GssFailure, GssMechanism
from rpcrdma.rpc.host_identity import XprtSec
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import Service
from rpcrdma.transport.host_policy import HostPolicy
from rpcrdma.wire.peer_text import printable

_LOGGER = logging.getLogger("rpcrdma.server")
__all__ = ["ServeOptions", "Server", "serve"]


@known_options
@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Settings of a server.

    Raises:
        ValueError: `security` is empty or has an unknown name; or a number is negative or not finite, or one other than
            `drain_s` is 0.
        TypeError: an option is unknown, or has another type than it says.
    """

    workers: int = SERVER_WORKERS
    """Threads for handlers that block."""
    calls_per_host: int | None = None
    """Calls of one host, on all its connections of either transport, that threads work on at a time; further ones wait
    for their turn. The addresses of an IPv6 network of 64 bits are one host. None: clients take turns, by which one
    address never has all threads. Handlers that run in the event loop do not count."""
    memory_octets_max: int = BUFFER_OCTETS_MAX
    """Octets for the arguments of all calls in progress, and as many for their results; further calls wait."""
    rdma: RdmaServerConfig = field(default_factory=RdmaServerConfig)
    """Settings of RDMA listeners."""
    tcp: TcpServerConfig = field(default_factory=TcpServerConfig)
    """Settings of TCP listeners."""
    security: Sequence[SecurityFlavor | str] = (SecurityFlavor.SYS, SecurityFlavor.NONE)
    """The security flavors that the server accepts; calls with others are refused. Procedure 0 and services with
    `ANY_SECURITY` accept all flavors."""
    kerberos: KerberosKeys = field(default_factory=KerberosKeys)
    """The keys for the flavors of Kerberos."""
    count_calls: bool = False
    """Whether `Server.statistics` counts calls and their times by procedure and status; see
    `ConnectOptions.count_calls`."""
    drain_s: float = 5.0
    """Seconds that running calls get to finish when the server closes."""

    def __post_init__(self) -> None:
        check_options(self, "workers", "calls_per_host", "memory_octets_max")
        self.flavors()

    def flavors(self) -> tuple[SecurityFlavor, ...]:
        """Returns the flavors that `security` names, in its order.

        Raises:
            ValueError: `security` is empty or has an unknown name.
        """
        if not self.security:
            raise ValueError("security: name at least one flavor")
        return tuple(security_flavor(each) if isinstance(each, str) else each for each in self.security)


class Server:
    """A running server with its listeners and connections, made by `serve`; `close`, or the context manager, ends it.

    Args:
        services: the programs to offer.
        options: the settings.
        mechanism: the GSS mechanism that accepts contexts of RPCSEC_GSS; None without Kerberos.

    Raises:
        LocalProtocolError: two services offer the same program and version, or a handler does not take arguments and
            context.
        HostAuthenticationFailed: a file of `host_authentication` is unfit, or it is required in a version of
            RPC-over-RDMA without it.
    """

    def __init__(
        self, services: Sequence[Service], options: ServeOptions, mechanism: GssMechanism | None = None
    ) -> None:
        self._options = options
        self._log = LimitedLog(_LOGGER)
        self._runner = HandlerRunner(workers=options.workers)
        self._runner.workers.bound_hosts(options.calls_per_host)
        self._computations = Computations(self._runner)
        self._contexts = acceptor = None if mechanism is None else self._acceptor(mechanism)
        flavors = frozenset(options.flavors())
        # Without contexts no call has another flavor than these two.
        security = None if acceptor is None and flavors >= {SecurityFlavor.SYS, SecurityFlavor.NONE} else flavors
        # Two pools: in one, calls that hold their arguments while they wait for a result buffer could block each other.
        most = options.memory_octets_max
        self._pools = results, arguments = BufferPool(octets_max=most), BufferPool(octets_max=most)
        self._over_rdma = over_rdma = Dispatcher(
            (service for service in services if service.OVER_RDMA), acceptor=acceptor, security=security
        )
        once = AtMostOnce(self._runner)
        # Over TCP no host proves which one it is, unless all do in TLS.
        hidden = options.rdma.host_authentication.wanted is HostPolicy.REQUIRED and options.tcp.xprtsec != "mtls"
        over_tcp = (service for service in services if not (hidden and service.OVER_RDMA))
        back_rdma, back_tcp = (CallStatistics() if options.count_calls else None for _ in range(2))
        answering = Answering(over_rdma, self._runner, once, count_calls=options.count_calls)
        self._rdma = RdmaServer(answering, results, arguments, options.rdma, back_rdma)
        self._tcp = TcpServer(
            Dispatcher(over_tcp, acceptor=acceptor, security=security),
            runner=self._runner,
            pool=results,
            arguments=arguments,
            at_most_once=once,
            config=options.tcp,
            calls_back=back_tcp,
        )
        self.listening: list[str] = []
        """The URLs at which clients reach the server."""
        self.providers: dict[str, list[ProviderInUse]] = {}
        """By URL: the providers, with their devices, over which RDMA clients reach it; an empty list for TCP."""
        self._of_url: dict[str, list[str]] = {}
        """The URLs in `listening` that each URL to listen at has led to."""
        self.takes_calls = True
        """Whether the server takes calls: true until `close`."""
        self._compared: set[str] = set()
        """URL schemes for whose transports the definitions were compared with the limits."""

    def _acceptor(self, mechanism: GssMechanism) -> Acceptor:
        def refused(peer: str, failure: GssFailure) -> None:
            self._log.log(logging.WARNING, "gss", "%s could not prove its user: %s", peer, failure, host=peer, most=8)

        def made(peer: str, principal: str) -> None:
            self._log.log(logging.INFO, "principal", "%s is at %s", printable(principal), peer, host=peer, most=8)

        return Acceptor(
            mechanism,
            clock=asyncio.get_running_loop().time,
            random_octets=lambda length: random_bits(8 * length).to_bytes(length, "big"),
            on_failure=refused,
            on_made=made,
            in_thread=self._computations.run,
        )

    @property
    def connections(self) -> frozenset[RdmaConnection]:
        """The RDMA connections that exist now."""
        return frozenset(self._rdma.connections)

    def statistics(self) -> ServerStatistics:
        """Returns a copy of the server's counts and memory use at this moment; to be called in the event loop."""
        rdma, tcp = self._rdma, self._tcp
        dispatchers = self._over_rdma, tcp.dispatcher
        ended = [each.statistics.snapshot() for each in dispatchers]
        procedures = [
            each.calls_of_procedures(operations if self._options.count_calls else None)
            for each, operations in zip(dispatchers, ended, strict=True)
        ]

        def of(listener: RdmaServer | TcpServer, number: int) -> ListenerStatistics:
            back = listener.calls_back
            return ListenerStatistics(
                connections=len(listener.connections),
                connections_made=listener.connections_made,
                connections_refused=listener.connections_refused,
                calls=listener.calls,
                procedures=procedures[number],
                operations=ended[number],
                calls_back=() if back is None else back.snapshot(),
            )

        return ServerStatistics(
            rdma=of(rdma, 0),
            tcp=of(tcp, 1),
            counters=rdma.statistics,
            connections=tuple(
                ConnectionStatistics(
                    peer=authority(*connection.peer),
                    calls_in_progress=connection.calls_in_progress,
                    counters=connection.statistics.counters(),
                )
                for connection in rdma.connections
            ),
            tcp_octets_received=tcp.octets_received,
            buffer_octets_lent=sum(pool.lent_octets for pool in self._pools),
            buffer_octets_max=sum(pool.octets_max for pool in self._pools),
            calls_running=self._runner.running,
            workers=self._options.workers,
        )

    async def hosts(self) -> list[HostStatistics]:
        """Returns the connections, calls and octets of each client address, sorted by address as text.

        Present connections alone count. If there are many, other work of the event loop runs in between.
        """
        found: dict[str, HostStatistics] = {}
        connections: list[RdmaConnection | TcpConnection] = [*self._rdma.connections, *self._tcp.connections]
        for number, connection in enumerate(connections):
            if number and not number % ADMIN_CONNECTIONS_AT_ONCE:
                await asyncio.sleep(0)
            address = connection.peer[0] if isinstance(connection, RdmaConnection) else connection.host
            found.setdefault(address, HostStatistics(address=address)).add(connection)
        return sorted(found.values(), key=lambda host: host.address)

    async def listen(self, *urls: str) -> None:
        """Listens at further URLs.

        At the first URL of a transport the log warns of each program whose definition permits longer messages than the
        server takes or sends there. The attribute `listening` gets the URLs of the opened addresses, in the order of
        `urls` although TCP is opened first. After an error what was opened before stays open, and in `listening`.

        Args:
            urls: `tcp://HOST[:PORT]` or `rdma://HOST[:PORT][?provider=NAME]`; port 0 takes a free port.

        Raises:
            LocalProtocolError: a URL is invalid, or is for RDMA and `TcpServerConfig.xprtsec` asks for TLS; or a
                provider is unknown, or `RdmaServerConfig.capture` cannot record its packets.
            ConnectFailed: the server cannot listen at an address, such as one in use; the message has cause and remedy.
        """
        # rpc.gssd makes the Kerberos contexts of an RDMA mount over TCP: a client that is back over RDMA before this
        # server listens at TCP would find no context, and its programs get EIO.
        order = list(self.listening)
        new = {await self._listen(url) for url in sorted(urls, key=lambda url: not url.lower().startswith("tcp"))}
        # Other calls of `listen` and `stop_listening` may have run meanwhile.
        order += [*(place for url in urls for place in self._of_url.get(url, ())), *self.listening]
        self.listening.sort(key=order.index)
        new -= self._compared
        self._compared |= new
        options = self._options
        limits: dict[Program, tuple[Service, list[MessageLimit]]] = {}
        for scheme, services, each in (
            ("rdma", self._over_rdma.services, limits_over_rdma(options.rdma.transport, options.memory_octets_max)),
            ("tcp", self._tcp.dispatcher.services, limits_over_tcp(options.tcp.record_octets_max)),
        ):
            for service in services if scheme in new else ():
                limits.setdefault(service.PROGRAM, (service, []))[1].extend(each)
        for program, of_service in limits.items():
            if refused := messages_refused(*of_service):
                _LOGGER.warning("the definition of %s permits what this server refuses: %s", program.name, refused)

    async def _listen(self, url: str) -> str:
        """Listens at a URL, records its addresses, returns its scheme; raises ConnectFailed or LocalProtocolError."""
        target = parse_url(url, listens=True)
        if target.mount_port is not None:
            raise LocalProtocolError(f"{url!r}: mountport is for clients, a server answers MOUNT where it answers NFS")
        if target.scheme == "rdma" and self._options.tcp.xprtsec != "none":
            raise LocalProtocolError(f"{url}: {NO_TLS_OVER_RDMA}")
        try:
            if target.scheme == "rdma":
                added = await self._rdma.listen(target.host, target.port, target.provider)
            else:
                added = {(host, port): [] for host, port, _ in await self._tcp.listen(target.host, target.port)}
        except OSError as error:
            # Calls go on while it looks for the process that has the address.
            raise (await asyncio.to_thread(cannot_listen, str(target), error)) from None
        places = [str(Url(scheme=target.scheme, host=host, port=port)) for host, port in added]
        self._of_url.setdefault(url, []).extend(places)
        for place, providers in zip(places, added.values(), strict=True):
            if place not in self.providers:
                self.listening.append(place)
            self.providers.setdefault(place, []).extend(providers)
        return target.scheme

    def stop_listening(self, *urls: str) -> None:
        """Stops accepting connections at URLs; present connections stay.

        An address to which another URL given to `listen` has led as well stays open. While the server listens at "::",
        it may still accept IPv4 connections to stopped addresses at that port.

        Args:
            urls: the URLs, in the form in which `listen` got them; unknown URLs have no effect.
        """
        places = {place for url in urls for place in self._of_url.pop(url, ())}.difference(*self._of_url.values())
        for scheme, server in (("rdma", self._rdma), ("tcp", self._tcp)):
            there = [parse_url(place, listens=True) for place in places if place.startswith(scheme)]
            server.stop_listening({(url.host, url.port) for url in there})
        for place in places:
            self.listening.remove(place)
            del self.providers[place]

    def set_limits(
        self,
        *,
        connections_max: int,
        connections_per_host: int | None,
        rdma_idle_s: float | None,
        tcp_idle_s: float | None,
        memory_octets_max: int,
        calls_per_host: int | None,
    ) -> None:
        """Sets limits of a running server; what is beyond a new limit stays until it ends by itself.

        Raises ValueError or TypeError for a number that the options refuse; then no limit has changed.

        Args:
            connections_max: the most RDMA connections, and the most TCP connections.
            connections_per_host: the most of one address, of each kind; None: the default for `connections_max`.
            rdma_idle_s: seconds after which an idle RDMA connection ends; None or 0: never.
            tcp_idle_s: seconds after which an idle TCP connection ends, for later ones; None or 0: never.
            memory_octets_max: octets for the arguments of all calls in progress, and as many for their results.
            calls_per_host: the most calls of one host in threads at a time, at least 1; None: clients take turns.
        """
        tcp = replace(self._options.tcp, idle_s=tcp_idle_s)
        options = replace(self._options, tcp=tcp, calls_per_host=calls_per_host, memory_octets_max=memory_octets_max)
        self._rdma.set_limits(connections_max, connections_per_host, rdma_idle_s)
        self._tcp.set_limits(connections_max, connections_per_host, tcp_idle_s)
        self._runner.workers.bound_hosts(calls_per_host)
        self._options = options
        for pool in self._pools:
            pool.octets_max = memory_octets_max
            pool.serve_soon()

    def require(self, xprtsec: XprtSec) -> None:
        """Changes whether calls over TCP in the clear are answered, from the next call on, on present connections, too.

        Args:
            xprtsec: "none": such calls are answered; "tls" or "mtls": they are refused, and `listen` then refuses
                rdma://. Whether clients must show certificates does not change.

        Raises:
            LocalProtocolError: "tls" or "mtls" of a server that listens at rdma:// or was made without a certificate.
            ValueError: `xprtsec` is another word.
        """
        options = replace(self._options, tcp=replace(self._options.tcp, xprtsec=xprtsec))
        if xprtsec != "none" and any(url.startswith("rdma") for url in self.listening):
            raise LocalProtocolError(NO_TLS_OVER_RDMA)
        self._tcp.require(xprtsec)
        self._options = options

    def renew_handlers(self) -> None:
        """Takes the handlers from the services again, from the next call on, after methods of these were replaced.

        A method that takes the place of another one runs where that one ran: in the event loop, a thread or a task.
        A procedure without a handler gets none. Raises LocalProtocolError if a method does not take its two arguments.
        """
        for dispatcher in (self._over_rdma, self._tcp.dispatcher):
            dispatcher.renew_handlers()

    def reload_certificates(self) -> None:
        """Reads the files of certificates again, for later connections: for TLS and for host authentication over RDMA.

        If the content of a file of authorities has changed, the connections to authenticated hosts are ended: their
        clients connect again and are verified anew.

        Raises:
            HostAuthenticationFailed: a file is unfit; the present certificates stay in use.
        """
        self.read_certificates()()

    def read_certificates(self) -> Callable[[], None]:
        """Reads the files of certificates for TLS and RDMA again; may block, and may be called in any thread.

        Returns:
            A function for the event loop, which never blocks: it uses them for later connections. If the content of a
            file of authorities has changed, it ends the connections to authenticated hosts.

        Raises:
            HostAuthenticationFailed: a file is unfit.
        """
        steps = self._rdma.read_certificates(), self._tcp.read_certificates()

        def use() -> None:
            for step in steps:
                step()

        return use

    async def settle(self, deadline_s: float) -> bool:
        """Waits until calls now in threads and tasks, or waiting for a thread, have ended; others may begin meanwhile.

        Args:
            deadline_s: the longest time to wait, in seconds from now.

        Returns:
            Whether these calls have ended; False: the time was over, and they still run.
        """
        return await self._runner.settle(deadline_s)

    async def close(self, drain_s: float | None = None) -> None:
        """Stops listening, takes no further calls, waits for running calls to be answered, and ends every connection.

        Args:
            drain_s: the longest wait for running calls, in seconds; calls that run longer are not answered, and those
                that run as tasks are cancelled, and get as long again to end. None takes `ServeOptions.drain_s`.
        """
        self.takes_calls = False
        deadline_s = self._options.drain_s if drain_s is None else drain_s
        self._rdma.stop_accepting()
        self._tcp.stop_accepting()
        try:
            _, finished = await asyncio.gather(self._tcp.stop(deadline_s), self._runner.drain(deadline_s))
            self._computations.shutdown(wait=finished)
            await self._rdma.stop()
        finally:
            # Connections are left if the waiting was cancelled, and calls if `drain` was before it began.
            left: list[RdmaConnection | TcpConnection] = [*self._rdma.connections, *self._tcp.connections]
            for connection in left:
                connection.abort("the server stops")
            self._runner.end()
            self._computations.shutdown(wait=False)
            if self._contexts is not None:
                self._contexts.close()
            self._log.flush()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class _Starting(Opening[Server]):
    """The awaitable that `serve` returns: `await` starts the `Server`; `async with` also closes it at the end."""

    OPENED_BY = "rpcrdma.serve"

    def __init__(self, services: tuple[Service, ...], listen: Sequence[str], options: ServeOptions) -> None:
        self._services = services
        self._listen = listen
        self._options = options

    async def _open(self) -> Server:
        options = self._options
        mechanism = None
        if any(flavor.service is not None for flavor in options.flavors()):
            mechanism = options.kerberos.made()
            try:
                await asyncio.to_thread(mechanism.check_keys)
            except GssFailure as failure:
                raise UserAuthenticationFailed(str(failure)) from None
        server = Server(self._services, options, mechanism)
        try:
            await server.listen(*self._listen)
        except BaseException:
            await server.close(0)
            raise
        return server


def serve(
    services: Iterable[Service], listen: Sequence[str] = ("rdma://127.0.0.1",), *, options: ServeOptions | None = None
) -> _Starting:
    """Offers RPC services at URLs.

    `async with serve([Counter()], ["rdma://0.0.0.0"]) as server:` or `server = await serve(...)`.

    Args:
        services: the programs with their handlers; those with `OVER_RDMA = False` are offered at `tcp://` URLs only.
        listen: the URLs: `tcp://HOST[:PORT]` or `rdma://HOST[:PORT][?provider=NAME]`; port 0 takes a free port.
        options: the settings; None for the defaults.

    Returns:
        An object that starts the server when it is awaited or entered, and yields the `Server`.

    Raises:
        LocalProtocolError: when entered or awaited: a URL of `listen` is not valid, two services offer the same program
            and version, a handler does not take arguments and context, a provider is unknown or cannot record packets
            for `capture`, or a URL is for RDMA and `TcpServerConfig.xprtsec` asks for TLS.
        TypeError: an object in `services` is no `Service`, `options` is of another type, or `listen` is one str.
        HostAuthenticationFailed: when entered or awaited: a file of `host_authentication` cannot be read or used, or
            host authentication is required in a version of RPC-over-RDMA without it.
        UserAuthenticationFailed: when entered or awaited: Kerberos is asked for, and there is no key or no `gssapi`.
        ConnectFailed: when entered or awaited: the server cannot listen at an address.
    """
    services = all_of("services", services, Service)
    check_type("options", options, ServeOptions, optional=True)
    if isinstance(listen, str):
        raise TypeError(f'listen must be a sequence of URLs: write ["{listen}"]')
    return _Starting(services, listen, options or ServeOptions())
