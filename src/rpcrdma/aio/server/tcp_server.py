"""Serves RPC programs over TCP."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Self

from rpcrdma.aio.answering.answering import Answering, AtMostOnce
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.connections.calls_made import observer_of
from rpcrdma.aio.connections.tcp_connection import ServerTls, TcpConnection
from rpcrdma.aio.drivers.limited_log import CONNECTION_LINES_MAX, LimitedLog
from rpcrdma.aio.drivers.listener import Listener
from rpcrdma.aio.drivers.provider import Listening
from rpcrdma.aio.drivers.sockets import address_of, authority
from rpcrdma.aio.drivers.tls_socket import TlsSocket
from rpcrdma.aio.host_options import OTHER_AUTHORITIES, AuthoritiesInUse, HostAuthentication
from rpcrdma.aio.misuse import check_options, check_word, known_options
from rpcrdma.aio.server.connection_limits import Admission, connections_that_fit
from rpcrdma.errors import LocalProtocolError
from rpcrdma.limits import RPC_IDLE_S, RPC_RECORD_OCTETS_MAX, RPC_REVERSE_CALLS_MAX, TLS_HANDSHAKES_MAX
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.host_identity import XPRTSEC_CHOICES, XprtSec
from rpcrdma.transport import Role
from rpcrdma.wire.peer_text import printable

__all__ = ["TcpServer", "TcpServerConfig"]

_LOGGER = logging.getLogger("rpcrdma.server")
_NAME_CERTIFICATE = "name it by TcpServerConfig(host_authentication=HostAuthentication(certificate=...))"
_LINGER_S = 0.5
"""How long a peer may take to notice the end of a connection when the server stops."""

_RELIEF_S = 1.0
"""How often the server looks for stalled connections while others wait for memory."""


@known_options
@dataclass(frozen=True, slots=True, kw_only=True)
class TcpServerConfig:
    """Limits of a server's TCP connections, and their TLS; `rpcrdma.limits` has the reasons of the defaults.

    Raises ValueError for a number that is negative or not finite, 0 `record_octets_max` or an unknown `xprtsec`, and
    TypeError for an unknown option or a value of another type.
    """

    record_octets_max: int = RPC_RECORD_OCTETS_MAX
    """Octets of the longest call taken and the longest reply sent. A longer call is answered with GARBAGE_ARGS, a
    longer reply becomes SYSTEM_ERR; the log names it, and the connection stays. See
    `ConnectOptions.record_octets_max`."""
    idle_s: float | None = RPC_IDLE_S
    """Seconds without running calls, in which the client neither completed a call nor read a reply, after which a
    connection ends; None or 0: never.

    A connection whose client has stated that it takes calls stays (RFC 8167 section 5.4)."""

    connections_max: int = field(default_factory=connections_that_fit)
    """The most connections; at the limit an idle one gives way to a newcomer (`RdmaServerConfig.connections_max`)."""
    connections_per_host: int | None = None
    """The most connections of one address; None: a quarter of `connections_max`, or 16 if more (7/8 at most)."""
    xprtsec: XprtSec = "none"
    """The least protection by TLS (RFC 9289) of calls that are answered; others get AUTH_TOOWEAK."""
    host_authentication: HostAuthentication = field(default_factory=HostAuthentication)
    """The certificate for TLS; with one, TLS is offered. With `authorities` clients may show a certificate, and must
    with "mtls"."""

    def __post_init__(self) -> None:
        check_options(self, "record_octets_max")
        check_word("xprtsec", self.xprtsec, XPRTSEC_CHOICES)


class TcpServer:
    """Accepts TCP connections within limits, and answers their calls; a part of `Server`, also usable alone.

    Args:
        dispatcher: finds the handlers.
        runner: runs the handlers; the caller, not `stop`, ends it (`drain`). None: a new runner, which `stop` ends.
        pool: lends memory for results; its `on_short` is replaced. None: a new pool.
        arguments: the pool against which received calls count; its `on_short` is replaced. None: a new pool.
        at_most_once: runs calls that must not run twice; other servers may share it. None: a new object.
        config: the settings; None: the defaults.
        calls_back: counts the server's calls to clients; None: these and received calls are not counted by procedure.

    Raises:
        HostAuthenticationFailed: a file of `config.host_authentication` is unfit, or one that TLS needs is not named.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        runner: HandlerRunner | None = None,
        pool: BufferPool | None = None,
        arguments: BufferPool | None = None,
        at_most_once: AtMostOnce | None = None,
        config: TcpServerConfig | None = None,
        calls_back: CallStatistics | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.dispatcher = dispatcher
        self.config = config or TcpServerConfig()
        self._own_runner = runner is None
        self.runner = runner or HandlerRunner()
        self.answering = Answering(dispatcher, self.runner, at_most_once, count_calls=calls_back is not None)
        self.pool = pool or BufferPool()
        self.arguments = arguments or BufferPool()
        self.log = LimitedLog(_LOGGER)
        self._listener = Listener(self._connected, self.log)
        self.connections: set[TcpConnection] = set()
        self._admission: Admission[TcpConnection] = Admission(
            self.config.connections_max,
            self.config.connections_max,
            lambda connection: connection.idle_since,
            of_one_max=self.config.connections_per_host,
            has_calls=lambda connection: self.runner.workers.runs_calls_of(connection.calls_taken),
        )
        self.connections_made = 0
        self.connections_refused = 0
        self._ended_calls = 0
        self._ended_octets = 0
        self.calls_back = calls_back
        self._quiet: asyncio.Event | None = None
        self.pool.on_short = self.arguments.on_short = self._short_of_memory
        self._relief: asyncio.TimerHandle | None = None
        self._handshakes: Admission[TcpConnection] = Admission(
            TLS_HANDSHAKES_MAX, TLS_HANDSHAKES_MAX, lambda _connection: None
        )
        self._tls = self._server_tls(self.config)
        self._authorities = AuthoritiesInUse(self.config.host_authentication)

    def _server_tls(self, config: TcpServerConfig) -> ServerTls | None:
        hosts = config.host_authentication
        # A prepared context is for RDMA alone; what takes a certificate, and has none, is refused below.
        given = hosts.certificate or (hosts.context is None and (hosts.key or hosts.authorities or hosts.names))
        if config.xprtsec == "none" and not given:
            return None
        settings = hosts.tls(Role.SERVER, config.xprtsec)
        return ServerTls(
            settings, config.xprtsec, self.dispatcher, self._may_begin, self._secured, self._refused_in_clear
        )

    def read_certificates(self) -> Callable[[], None]:
        """Reads the files of certificates again, if there is TLS; may block, and may be called in any thread.

        Returns:
            A function for the event loop, which uses them for later connections. If the content of the file of
            authorities has changed, it ends all connections to authenticated hosts.

        Raises:
            HostAuthenticationFailed: a file is unfit.
        """
        if self._tls is None:
            return lambda: None
        use_files, authorities = self._tls.settings.read(), self._authorities.read()

        def use() -> None:
            use_files()
            if self._authorities.replaced(authorities):
                for connection in [each for each in self.connections if each.host_identity is not None]:
                    connection.abort(OTHER_AUTHORITIES)

        return use

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each listening socket, in the order of their opening."""
        return self._listener.addresses

    @property
    def port(self) -> int:
        """The port of the first listening socket; raises IndexError without one."""
        return self.addresses[0][1]

    @property
    def calls(self) -> int:
        """The number of calls passed to the dispatcher, on ended connections as well; held or dropped ones not."""
        return self._ended_calls + sum(connection.calls_taken.taken for connection in self.connections)

    @property
    def octets_received(self) -> int:
        """The number of octets of the calls that `calls` counts, without record headers."""
        return self._ended_octets + sum(connection.calls_taken.octets_taken for connection in self.connections)

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> list[Listening]:
        """Starts to accept connections at every address of `host`, and returns these addresses.

        `port` 0 takes a free port. The method may be called again for further addresses.

        Raises:
            OSError: `host` is unknown, or an address is in use, not of this machine or not permitted.
        """
        return await self._listener.listen(host, port)

    def stop_listening(self, places: Collection[tuple[str, int]]) -> None:
        """Stops accepting connections at `places`, pairs of address and port from `listen`; present connections stay.

        Places at which the server does not listen are ignored. While the server listens at "::", it also accepts IPv4
        connections to stopped addresses at that port, unless it listened at an IPv4 address there before.
        """
        self._listener.stop(places)

    def stop_accepting(self) -> None:
        """Stops accepting connections; present ones stay."""
        self._listener.close()

    def set_limits(self, connections_max: int, connections_per_host: int | None, idle_s: float | None) -> None:
        """Changes limits of the running server; connections beyond the new limits stay.

        Args:
            connections_max: the most connections.
            connections_per_host: the most connections of one address; None: the default for `connections_max`.
            idle_s: seconds after which an idle connection ends, for later connections; None or 0: never.
        """
        self.config = replace(
            self.config, connections_max=connections_max, connections_per_host=connections_per_host, idle_s=idle_s
        )
        self._admission.resize(connections_max, connections_max, connections_per_host)

    def require(self, xprtsec: XprtSec) -> None:
        """Changes whether calls in the clear are answered (`xprtsec` "none") or refused ("tls" and "mtls" alike).

        It holds for later calls on present connections, too. Whether clients must show certificates does not change.
        Raises LocalProtocolError for "tls" and "mtls" of a server that was made without a certificate, and ValueError
        for another word.
        """
        if self._tls is None and xprtsec != "none":
            raise LocalProtocolError(f"a server made without a certificate has no TLS to ask for: {_NAME_CERTIFICATE}")
        self.config = replace(self.config, xprtsec=xprtsec)
        if self._tls is not None:
            self._tls = self._tls._replace(least=xprtsec)
            for connection in self.connections:
                connection.require(xprtsec)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def stop(self, deadline_s: float = 5.0) -> None:
        """Accepts no connections, begins no calls, waits until replies to running calls are sent; ends all connections.

        The wait takes at most `deadline_s` seconds, and up to 0.5 s more for peers to close their ends; then the rest
        is aborted. A `HandlerRunner` that the server has made itself is ended: tasks that still run are cancelled, and
        results of threads that still run are dropped.
        """
        self._listener.close()
        for connection in list(self.connections):
            connection.calls_taken.stop_reading()
        self._quiet = asyncio.Event()
        await self._wait_quiet(deadline_s)
        for connection in list(self.connections):
            connection.finish()
        await self._wait_quiet(min(deadline_s, _LINGER_S))
        for connection in list(self.connections):
            connection.abort("the server stops")
        if self._relief is not None:
            self._relief.cancel()
            self._relief = None
        self.log.flush()
        if self._own_runner:
            await self.runner.drain(0)

    def _answered(self) -> None:
        if self._quiet is not None:
            self._quiet.set()

    def _ended(self, connection: TcpConnection, reason: str) -> None:
        self.connections.discard(connection)
        self._admission.remove(connection)
        self._handshakes.remove(connection)
        self._ended_calls += connection.calls_taken.taken
        self._ended_octets += connection.calls_taken.octets_taken
        self._answered()
        event = {"event": "disconnected", "transport": "tcp", "peer": connection.name, "reason": reason}
        self._log_connection(connection.host, event, "tcp connection from %s ended: %s", connection.name, reason)

    def _log_connection(self, address: str, event: dict[str, Any], message: str, *args: str) -> None:
        """Logs at level INFO that a connection of the client `address` was made, secured or has ended.

        `event` becomes the attribute `event` of the log record. Its item "event" is the kind of event, such as
        "connected": lines of each kind are limited per client, or network of IPv6, and minute. `args` are the values
        for the %s in `message`.
        """
        kind, most = event["event"], CONNECTION_LINES_MAX
        self.log.log(logging.INFO, kind, message, *args, extra={"event": event}, most=most, host=address)

    def _may_begin(self, connection: TcpConnection) -> bool:
        """Takes a place for a connection's TLS handshake; returns whether there was one.

        Another connection whose handshake is unfinished may be aborted to make room. Without a place, the caller aborts
        `connection`.
        """
        handshakes = self._handshakes
        displaced = handshakes.displaced_by(connection.host, self._loop.time())
        if displaced is not None:
            displaced.abort("its place was needed: too many TLS handshakes are unfinished")
        if handshakes.full(connection.host):
            return False
        handshakes.add(connection, connection.host, starting_s=self._loop.time())
        return True

    def _secured(self, connection: TcpConnection, session: TlsSocket) -> None:
        self._handshakes.remove(connection)
        identity = session.identity
        event = {
            "event": "secured",
            "transport": "tcp",
            "peer": connection.name,
            "xprtsec": connection.xprtsec,
            "cipher": session.cipher,
            "host_identity": None if identity is None else identity.as_json(),
        }
        who = "a client without a certificate" if identity is None else ", ".join(identity.names) or identity.subject
        text = "tcp connection from %s is in TLS (%s): %s"
        self._log_connection(connection.host, event, text, connection.name, session.cipher, printable(who))

    def _refused_in_clear(self, connection: TcpConnection) -> None:
        wanted = self.config.xprtsec
        event = {"event": "refused", "client": connection.host, "export": None, "xprtsec": wanted}
        self.log.log(
            logging.WARNING,
            "in clear",
            "refused calls of %s in the clear: this server asks for %s (TcpServerConfig(xprtsec=...))",
            connection.name,
            wanted,
            extra={"event": event},
        )

    def relieve(self) -> None:
        """Aborts, and logs, the connections whose clients leave replies unread for 10 s; called if memory is short."""
        for connection in [connection for connection in self.connections if connection.calls_taken.stalled]:
            self._cut_off(connection, "it does not read its replies")

    def relieve_arguments(self) -> None:
        """Aborts, and logs, the connections whose clients take over 10 s to send a call; called if memory is short."""
        for connection in [connection for connection in self.connections if connection.calls_taken.dawdles]:
            self._cut_off(connection, "it does not finish its call")

    def _cut_off(self, connection: TcpConnection, why: str) -> None:
        self.log.log(logging.WARNING, why, f"%s is cut off: {why}", connection.name)
        connection.abort(f"{why} while memory is short")

    def _short_of_memory(self) -> None:
        if self._relief is None:
            self._relief = self._loop.call_later(_RELIEF_S, self._relieve_again)

    def _relieve_again(self) -> None:
        self._relief = None
        if self.pool.waited_for:
            self.relieve()
        if self.arguments.waited_for:
            self.relieve_arguments()
        if self.pool.waited_for or self.arguments.waited_for:
            self._short_of_memory()

    async def _wait_quiet(self, deadline_s: float) -> None:
        """Waits until no connection is busy; returns without an error, too, after `deadline_s` seconds.

        A connection is busy while it answers calls or sends; after `TcpConnection.finish`, until it has ended.
        """
        assert self._quiet is not None
        try:
            async with asyncio.timeout(deadline_s):
                while any(connection.busy for connection in self.connections):
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            pass

    def _connected(self, sock: socket.socket) -> None:
        address = address_of(sock.getpeername())
        peer = authority(*address)
        displaced = self._admission.displaced_by(address[0], self._loop.time())
        if displaced is not None:
            displaced.abort("its place was needed: too many connections")
        elif full := self._admission.full(address[0]):
            self.log.log(logging.WARNING, "full", "%s turned away: %s", peer, full)
            self.connections_refused += 1
            sock.close()
            return
        event = {"event": "connected", "transport": "tcp", "peer": peer}
        self._log_connection(address[0], event, "tcp connection from %s", peer)
        self.connections_made += 1
        connection = TcpConnection(
            sock,
            active=False,
            record_octets_max=self.config.record_octets_max,
            idle_s=self.config.idle_s,
            results=self.pool,
            arguments=self.arguments,
            answering=self.answering,
            observer=observer_of(self.calls_back),
            in_flight_max=RPC_REVERSE_CALLS_MAX,
            on_answered=self._answered,
            on_ended=self._ended,
            tls=self._tls,
        )
        self.connections.add(connection)
        self._admission.add(connection, address[0])
