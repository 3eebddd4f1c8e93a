"""Connecting to a service: `rpcrdma.connect`."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.client.connection import Connection
from rpcrdma.aio.client.first_to_connect import first_connection, urls_to_try
from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.client.rdma_dialer import RdmaDialer
from rpcrdma.aio.client.reconnecting import ReconnectPolicy, SingleConnection
from rpcrdma.aio.client.silence_warning import SilenceWatch
from rpcrdma.aio.connections.calls_made import CallObserver
from rpcrdma.aio.connections.rdma_connection import RdmaConnection
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.drivers.effects import effects_of, random_bits
from rpcrdma.aio.drivers.provider import ProviderChoice, ProviderInUse
from rpcrdma.aio.drivers.provider_choice import chosen_providers
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.aio.host_options import NO_TLS_OVER_RDMA, HostAuthentication, TlsSettings
from rpcrdma.aio.misuse import Opening, all_of, check_options, check_type, check_word, known_options
from rpcrdma.aio.security_options import Kerberos
from rpcrdma.aio.urls import DEFAULT_PORTS, Url, parse_url
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, NoAnswer, TransportClosed
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.limits import RPC_RECORD_OCTETS_MAX
from rpcrdma.rpc.auth import AuthNone, AuthSys, Credential
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.gss.flavors import SecurityFlavor, security_flavor
from rpcrdma.rpc.host_identity import XPRTSEC_CHOICES, XprtSec
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import Service
from rpcrdma.rpc.tls_probe import PORT_MAPPER
from rpcrdma.rtr import all_extensions, extension_choice
from rpcrdma.transport import Extension, Role, TransportConfig, version_choice
from rpcrdma.transport.host_policy import HostPolicy
from rpcrdma.verbs.device_config import VerbsConfig
from rpcrdma.wire.peer_text import printable

if TYPE_CHECKING:
    from rpcrdma.aio.client.client_metrics import ClientMetrics

__all__ = ["ConnectOptions", "Connection", "connect", "own_credential", "tls_of"]

_LOGGER = logging.getLogger("rpcrdma.client")
_SERVE_TCP_PORT = 20048
"""The TCP port of `rpcrdma serve` by default: clients of rdma:// look for MOUNT there."""
_KNOWN_SERVERS = KnownServers()
_GROUPS_MAX = 16
"""Supplementary groups in an AUTH_SYS credential (RFC 5531 appendix A)."""


def own_credential() -> AuthSys:
    """Returns the AUTH_SYS credential of this process (RFC 5531 appendix A).

    The credential names this machine, the effective user and group, and the 16 supplementary groups with the lowest
    numbers.
    """
    groups = tuple(sorted(set(os.getgroups()) - {os.getegid()}))[:_GROUPS_MAX]
    return AuthSys(machine=platform.node()[:255], uid=os.geteuid(), gid=os.getegid(), gids=groups)


@known_options
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """Settings of a client's connections and calls.

    Raises:
        ValueError: `rpcrdma_version`, `xprtsec`, `extension` or the name in `security` is unknown; or a number is
            negative or not finite, or `connect_timeout_s`, `call_timeout_s` or `record_octets_max` is 0.
        TypeError: an option is unknown, or has another type than it says.
        LocalProtocolError: two extensions, or one and the protocol, use the same number of a header type, property
            or error.
    """

    provider: ProviderChoice = "auto"
    """The carrier of RDMA: "iwarp" is the software RNIC, "verbs" an RDMA device of this machine; or a provider of
    your own, see `rpcrdma.provider`. "auto" is verbs if a device reaches the server's address and the server answers
    over it, and iwarp otherwise; with `capture` it is iwarp."""
    rpcrdma_version: str | int = "auto"
    """One of `rpcrdma.extension.VERSION_CHOICES`; "auto" takes the newest version that the server speaks."""
    security: Kerberos | str | None = None
    """How calls prove their user: a `Kerberos`, or the name of a flavor. "krb5", "krb5i" and "krb5p" stand for a
    `Kerberos` with the system's tickets, "sys" for `credential`, which proves nothing. None stands for "sys", except
    in `nfs_open`, which then takes the flavor that the export prefers."""
    credential: Credential = field(default_factory=own_credential)
    """The credential without Kerberos. An AUTH_SYS stamp of 0 is replaced by a random one for each `Connection`, so
    that servers that recognise repeats distinguish the calls of two connections."""
    reserved_port: bool = False
    """Whether to connect from a port below 1024, as Linux servers demand for exports that are `secure`, their default.
    Needs root or CAP_NET_BIND_SERVICE."""
    connect_timeout_s: float = 10.0
    """The time limit in seconds of one attempt to connect. With two providers each has this limit; since the second
    begins at most 1 s after the first, both together take at most 1 s more."""
    warn_after_s: float | None = 3.0
    """The silence in seconds of a server with unanswered calls, or while connecting, after which the logger
    "rpcrdma.client" warns once; each later silence causes a warning only if it is twice as long as the last one that
    did. None or 0: never, for servers whose handlers take long."""
    call_timeout_s: float | None = 60.0
    """The time limit in seconds of calls that name none, 60 s as in Linux; None: no limit."""
    reconnect: bool = True
    """Whether the client restores a lost connection and sends its unanswered calls again. A server that remembers
    replies, as this library's does until it restarts, still runs each call once. If a server breaks the protocol or
    loses three connections before its first answer, or later breaks the protocol on three connections in succession,
    waiting calls fail, and the client reconnects only for a later call."""
    reconnect_for_s: float | None = None
    """The seconds for which the client tries to reconnect before waiting calls fail; a later call starts anew. None:
    each call waits until its deadline."""
    reconnect_delay_max_s: float = 30.0
    """The longest pause before a new attempt to connect: half of the default time limit of calls, so that each call
    sees another attempt. A lower value finds a server sooner, but burdens a server in trouble. A connection that no
    call waits for is restored within this time; at once if the server may call this client."""
    retransmissions: int | None = None
    """The number of times that one call may be sent again; None: any number until its deadline."""
    keepalive_s: float | None = 60.0
    """The silence in seconds after which a NULL call checks whether the server still answers; without an answer within
    20 s the connection is given up as lost. None or 0, and without `reconnect`: never. Linux servers close idle
    connections after 6 minutes."""
    services: Sequence[Service] = ()
    """Services of this client that the server may call on the connection (RFC 8167), once a call of the client has
    announced that; the server's handlers call by `CallContext.client`. Without services such calls are dropped."""
    services_in_clear: bool = False
    """Under Kerberos: whether `services` answer calls of the server although RPCSEC_GSS does not protect these. The
    server gets AUTH_TOOWEAK otherwise, except in TLS, which protects them."""
    record_octets_max: int = RPC_RECORD_OCTETS_MAX
    """TCP: octets of the longest call sent and the longest reply taken; a longer one fails with `MessageTooLong`,
    and the connection stays. The server has a limit of its own: see `TcpServerConfig.record_octets_max`."""
    extension: str = "auto"
    """The round-trip extension, for versions that permit extensions, with servers that have it: "auto" for calls
    that it makes faster, "rtr" for all bulk items that it can carry, "off". See docs/round-trips.md."""
    extensions: Sequence[Extension] = ()
    """Further extensions of the protocol (`rpcrdma.extension`), for versions that permit extensions; the server
    needs them, too."""
    transport: TransportConfig = field(default_factory=TransportConfig)
    """Message sizes, credits and other limits of RPC-over-RDMA."""
    iwarp: IwarpConfig = field(default_factory=IwarpConfig)
    """Settings of the software RNIC; unused by a provider of your own."""
    verbs: VerbsConfig = field(default_factory=VerbsConfig)
    """Settings of connections over RDMA devices."""
    xprtsec: XprtSec = "none"
    """The least protection of `tcp://` by TLS (RFC 9289): "tls" if the server proves its host, "mtls" if this host
    proves its own as well. A connection without it fails; so does `rdma://`, which has no TLS. See docs/tls.md."""
    mount_in_clear: bool = False
    """With TLS: whether MOUNT and the port mapper are asked without TLS, as Linux servers need. NFS stays in TLS. An
    attacker who can change octets on the network can then have another export of the server mounted."""
    host_authentication: HostAuthentication = field(default_factory=HostAuthentication)
    """The certificates for TLS, and for host authentication over `rdma://` in version 2. If that is required, `tcp://`
    without TLS is refused; with `HostAuthentication(policy="required")` also `tcp://` with "tls" alone."""
    capture: PacketCapture | None = None
    """The capture that records the connection's packets; software RNIC only."""
    count_calls: bool = False
    """Whether `Connection.statistics` counts calls and their times by procedure and status. Counting takes 4 % of
    the processor time of an empty call over RDMA, and 6 % over TCP."""
    metrics: ClientMetrics | None = None
    """The Prometheus metrics that include this connection, also after its end; with them, calls are counted."""
    on_call: CallObserver | None = None
    """A function that the event loop calls with each `Call` that has ended, also with the NULL calls by which the
    client itself asks whether the server is there; it must not raise."""

    def __post_init__(self) -> None:
        check_options(self, "connect_timeout_s", "call_timeout_s", "record_octets_max")
        all_of("services", self.services, Service)
        version_choice(self.rpcrdma_version)
        check_word("xprtsec", self.xprtsec, XPRTSEC_CHOICES)
        self.all_extensions()
        if isinstance(self.security, str):
            security_flavor(self.security)

    @property
    def kerberos(self) -> Kerberos | None:
        """The Kerberos settings of calls, from `security`; None: calls carry `credential`, which proves no user."""
        if isinstance(self.security, str):
            return None if security_flavor(self.security).service is None else Kerberos(self.security)
        return self.security

    @property
    def services_security(self) -> frozenset[SecurityFlavor] | None:
        """The security flavors with which the server's calls to `services` are answered; None: every flavor."""
        kerberos = self.kerberos
        if kerberos is None or self.services_in_clear or self.xprtsec != "none":
            return None
        return frozenset({kerberos.security})

    @property
    def counts(self) -> bool:
        """Whether calls are counted, because the option `count_calls` or `metrics` is set."""
        return self.count_calls or self.metrics is not None

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


class _Connecting(Opening[Connection]):
    """The awaitable that `connect` returns: `await` makes the `Connection`; `async with` also closes it at the end."""

    OPENED_BY = "rpcrdma.connect"

    def __init__(self, url: Url, program: Program | None, options: ConnectOptions) -> None:
        self._url = url
        self._program = program
        self._options = options

    async def _open(self) -> Connection:
        url, options, program = self._url, _stamped(self._options), self._program
        answering = _answering(url, options)
        tls = tls_of(url, options)
        addressed = PORT_MAPPER if program is None else (program.number, program.version)
        dial = functools.partial(_dial, url, options, answering, tls, addressed)
        limit_s = options.connect_timeout_s
        waiting = SilenceWatch(
            options.warn_after_s,
            lambda: True,
            lambda: 0,
            lambda silent_s: (
                f"{url.server}: no answer for {silent_s:g} s; an attempt to connect fails after {limit_s:g} s"
            ),
        )
        if waiting.resting:
            waiting.begin()
        try:
            connection = await dial()
        finally:
            waiting.end()
        policy = ReconnectPolicy(
            reconnect=options.reconnect,
            max_s=options.reconnect_delay_max_s,
            for_s=options.reconnect_for_s,
            retransmissions=options.retransmissions,
            keepalive_s=options.keepalive_s if options.reconnect else None,
        )
        no_answer = functools.partial(_no_answer, url) if options.reconnect else None
        return Connection(
            url,
            connection,
            dial,
            policy,
            program,
            no_answer=no_answer,
            call_timeout_s=options.call_timeout_s,
            statistics=CallStatistics() if options.counts else None,
            on_call=options.on_call,
            answering=answering,
            metrics=options.metrics,
            kerberos=options.kerberos,
            warn_after_s=options.warn_after_s,
        )


def connect(url: str, program: Program | None = None, *, options: ConnectOptions | None = None) -> _Connecting:
    """Connects to an RPC service.

    `async with connect(url) as connection:` or `connection = await connect(url)`.

    Args:
        url: `rdma://HOST[:PORT]` (default port 20049) or `tcp://HOST[:PORT]` (default port 2049).
        program: the program to call; calls of other programs then raise LocalProtocolError. None: any program.
        options: the settings; None for the defaults.

    Returns:
        An object that connects when it is awaited or entered, and yields the `Connection`.

    Raises:
        TypeError: an argument is of another type.
        LocalProtocolError: `url` is no such URL; when entered or awaited: `options.provider` is
            unknown, or its packets cannot be recorded by `options.capture`.
        NotPermitted: when entered or awaited: `reserved_port` is wanted, but not allowed.
        HostAuthenticationFailed: when entered or awaited: either host refused the other, or a file of
            `host_authentication` is unfit.
        UserAuthenticationFailed: not by `connect`, but by calls under Kerberos: there is no ticket, or the server
            refuses it.
        ConnectFailed: when entered or awaited: no connection could be made; the message names cause and remedy.
    """
    check_type("program", program, Program, optional=True)
    check_type("options", options, ConnectOptions, optional=True)
    return _Connecting(parse_url(url), program, options or ConnectOptions())


def _stamped(options: ConnectOptions) -> ConnectOptions:
    credential = options.credential
    if options.kerberos is not None:
        # Calls of this process itself, such as the one that asks whether the server is there, claim no user.
        return replace(options, credential=AuthNone())
    if isinstance(credential, AuthSys) and not credential.stamp:
        return replace(options, credential=replace(credential, stamp=random_bits(32)))
    return options


def _answering(url: Url, options: ConnectOptions) -> Answering | None:
    """Returns the object that answers the server's calls to `options.services`, on all connections to the server.

    With an rdma:// URL, services that are not offered over RDMA are left out; returns None if no service is left. A
    warning is logged for each service whose calls will be refused because Kerberos does not protect them.
    """
    services = [service for service in options.services if service.OVER_RDMA or url.scheme != "rdma"]
    if not services:
        return None
    security = options.services_security
    for service in services:
        if security is not None and not service.ANY_SECURITY:
            _LOGGER.warning(
                "calls of the server to %s are refused, because Kerberos does not protect them; "
                "ConnectOptions(services_in_clear=True) takes them",
                service.PROGRAM.name,
            )
    runner = HandlerRunner(logger=_LOGGER)
    # A server that has lost the connection may repeat its calls on the next one.
    return Answering(Dispatcher(services, security=security), runner, count_calls=options.counts)


def _no_answer(url: Url, cause: TransportClosed) -> NoAnswer:
    """Returns the error of calls to a server that has ended its connections without answering a single call.

    `cause` is the error that ended the last connection. The message has the server's URL and a remedy: that in
    `cause`, or checking scheme and port.
    """
    place = url.server
    if "; " in cause.message:
        # It has its own remedy, such as the refusal of a certificate.
        return NoAnswer(f"{place}: {cause.message}", protocol_error=cause.protocol_error)
    remedy = "check that this is the scheme and port of the server"
    if url.scheme == "tcp":
        remedy += f": if it is its RDMA port, write rdma://{url.authority}"
    return NoAnswer(
        f"{place} takes connections but answers no call ({cause.message}); {remedy}",
        protocol_error=cause.protocol_error,
    )


def tls_of(url: Url, options: ConnectOptions) -> TlsSettings | None:
    """Returns the settings for TLS with the server at `url`, with certificate files read; None: no TLS is asked for.

    Raises:
        HostAuthenticationFailed: the options ask for TLS over RDMA, or require host authentication where the scheme,
            `xprtsec` or the RPC-over-RDMA version has none; or a file is unfit.
    """
    hosts = options.host_authentication
    if url.scheme == "rdma":
        if options.xprtsec != "none":
            raise HostAuthenticationFailed(f"{url}: {NO_TLS_OVER_RDMA}", cause="configuration")
        hosts.check_version(options.rpcrdma_version, "ConnectOptions")
        return None
    explicit = hosts.policy == "required"
    if hosts.wanted is HostPolicy.REQUIRED and (options.xprtsec == "none" or (explicit and options.xprtsec != "mtls")):
        raise HostAuthenticationFailed(
            f"host authentication is required, and there is none over TCP without TLS; write rdma://{url.host}, add "
            'ConnectOptions(xprtsec="mtls"), or make it optional (HostAuthentication(policy="optional"))',
            cause="absent",
        )
    return None if options.xprtsec == "none" else hosts.tls(Role.CLIENT, options.xprtsec, url.host)


async def _dial(
    url: Url, options: ConnectOptions, answering: Answering | None, tls: TlsSettings | None, addressed: tuple[int, int]
) -> SingleConnection:
    """Makes one transport connection to the server and returns it when it is established.

    Logs a line: for RDMA with the connection's version, provider and limits, for TCP with its TLS, if any.

    Args:
        url: the server.
        options: the settings.
        answering: answers the server's calls; None: they are dropped.
        tls: the settings of TLS, from `tls_of`; None: no TLS.
        addressed: the number and version of the program to be called, which the TLS probe names.

    Raises:
        NotPermitted: the process may not take a reserved port.
        HostAuthenticationFailed: either host refused the other.
        LocalProtocolError: `options.provider` is unknown, or its packets cannot be recorded by `options.capture`.
        ConnectFailed: no connection could be made; if the default TCP port refuses it, the message also names the TCP
            port of `rpcrdma serve`.
    """
    place = url.server
    if url.scheme == "tcp":
        try:
            caller = await TcpConnection.connect(
                url.host,
                url.port,
                options.credential,
                timeout_s=options.connect_timeout_s,
                reserved_port=options.reserved_port,
                record_octets_max=options.record_octets_max,
                answering=answering,
                tls=tls,
                addressed=addressed,
            )
        except ConnectFailed as error:
            if error.refused and url.port == DEFAULT_PORTS["tcp"]:
                own = authority(url.host, _SERVE_TCP_PORT)
                remedy = f"rpcrdma serve listens for TCP at tcp://{own} unless told otherwise"
                raise ConnectFailed(f"{error}: {remedy}", refused=True) from None
            raise
        _LOGGER.info(
            "connected to %s: RPC over TCP%s", place, "" if tls is None else f" in TLS with {_host_of(caller)}"
        )
        return caller
    connection = await _connect_rdma(url, options, answering)
    agreed = connection.negotiated
    _LOGGER.info(
        "connected to %s: RPC-over-RDMA version %s, provider %s, inline %d/%d octets, %d credits requested, %s",
        place,
        agreed.version,
        ProviderInUse(agreed.provider, agreed.device),
        agreed.inline_send_octets,
        agreed.inline_receive_octets,
        agreed.credits_requested,
        "CRC" if agreed.crc else "no CRC",
    )
    return connection


def _host_of(connection: TcpConnection) -> str:
    identity = connection.host_identity
    return "" if identity is None else printable(", ".join(identity.names))


def _known_servers() -> KnownServers:
    """Returns the record of which servers speak which RPC-over-RDMA version, and which were silent.

    The record is that of this process. An event loop of simulated time, as in tests, may have one of its own
    (`Effects.known_servers`).
    """
    known: KnownServers | None = effects_of(asyncio.get_running_loop()).known_servers
    return _KNOWN_SERVERS if known is None else known


async def _connect_rdma(url: Url, options: ConnectOptions, answering: Answering | None) -> RdmaConnection:
    make = functools.partial(
        RdmaConnection,
        transport=options.transport,
        results=BufferPool(),
        arguments=BufferPool(),
        credential=options.credential,
        answering=answering,
        authenticators=options.host_authentication.source(Role.CLIENT, url.host),
        extensions=options.all_extensions(),
    )
    # A server that was found to speak a version without host authentication may have learnt another.
    required = options.host_authentication.wanted is HostPolicy.REQUIRED
    known = _known_servers()
    versions = KnownServers() if required else known
    dialers = [
        RdmaDialer(
            provider,
            each,
            make,
            version=version_choice(options.rpcrdma_version),
            known=versions,
            timeout_s=options.connect_timeout_s,
            reserved_port=options.reserved_port,
        )
        for provider in chosen_providers(options.provider, options.iwarp, options.verbs, options.capture)
        for each in await urls_to_try(provider, url, options.connect_timeout_s)
    ]
    return await (dialers[0].dial() if len(dialers) == 1 else first_connection(dialers, known))
