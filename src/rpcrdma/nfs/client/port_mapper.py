"""Asks a host's port mapper (RFC 1833), over TCP: rpcbind versions 4 and 3, and version 2."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.errors import ConnectFailed, HostAuthenticationFailed, NoAnswer, RpcError, TransportClosed
from rpcrdma.nfs import port_mapper
from rpcrdma.nfs.universal_address import port_in, universal_address
from rpcrdma.rpc.program import Caller

__all__ = [
    "PORT_MAPPER_PORT",
    "PROTOCOL_TCP",
    "WITHOUT_IPV6",
    "Registration",
    "check_may_be_asked",
    "reaches",
    "registered_port",
    "registrations",
]

PORT_MAPPER_PORT = 111
PROTOCOL_TCP = 6
WITHOUT_IPV6 = 2
"""The version of the port mapper protocol that has only port numbers for TCP and UDP, and no addresses."""
_PROTOCOLS = {PROTOCOL_TCP: "tcp", 17: "udp"}
_WITH_PORTS = frozenset({"tcp", "tcp6", "udp", "udp6", "rdma", "rdma6"})


class Registration(NamedTuple):
    """An RPC program at a port mapper.

    Attributes:
        program: the program number.
        version: the version of the program.
        netid: the name of the transport, such as "tcp6" (RFC 5665); the protocol number as text if it has no name.
        address: the universal address in the transport's own form.
        port: the port; None if the transport has none, or `address` has no valid port.
        owner: the owner of the registration; None from version 2 of the port mapper.
    """

    program: int
    version: int
    netid: str
    address: str
    port: int | None
    owner: str | None = None


def check_may_be_asked(options: ConnectOptions) -> None:
    """Checks that `options` permit calls to the port mapper, which has no TLS.

    Raises:
        HostAuthenticationFailed: the options ask for TLS (`xprtsec`), and `mount_in_clear` is not set.
    """
    if options.xprtsec != "none" and not options.mount_in_clear:
        raise HostAuthenticationFailed(
            "the port mapper has no TLS; write the port of the server, or ask in the clear "
            "(ConnectOptions(mount_in_clear=True))",
            cause="absent",
        )


def reaches(host: str, netid: str) -> bool:
    """Returns whether the transport `netid`, such as "tcp6", has the address family of the address `host`.

    A `netid` that ends in 6 has IPv6, others IPv4. The result is True for a `host` that is a name.
    """
    try:
        version = ip_address(host.partition("%")[0]).version
    except ValueError:
        return True
    return netid.endswith("6") == (version == 6)


async def registrations(
    host: str, *, port: int | None = None, timeout_s: float = 10.0
) -> tuple[int, list[Registration]]:
    """Asks the port mapper of a host over TCP for all registrations; returns (protocol version, registrations).

    The version is that of the port mapper's answer: 4, 3 or 2, the highest that it takes. The order is its own.

    Args:
        host: the name or address of the host.
        port: the TCP port of the port mapper; None: 111.
        timeout_s: the time limit of the connection and of each call, in seconds.

    Raises:
        ConnectFailed: no port mapper answers, or another service than a port mapper.
        DecodeError: the answer is malformed.
        RpcRdmaError: the other errors of `Caller.call`, such as CallTimeout.
    """
    port = PORT_MAPPER_PORT if port is None else port
    try:
        async with await TcpConnection.connect(host, port, timeout_s=timeout_s) as caller:
            for version, procedure in (
                (4, port_mapper.RPCBIND_V4_RPCBPROC_DUMP),
                (3, port_mapper.RPCBPROC_DUMP),
            ):
                try:
                    bindings = await caller.call(procedure, None, timeout_s=timeout_s)
                except RpcError:
                    continue
                return version, [_registration(entry.bound) for entry in bindings]
            return WITHOUT_IPV6, await _mappings(caller, timeout_s)
    except RpcError as error:
        raise ConnectFailed(f"the service at {authority(host, port)} is no port mapper: {error}") from None
    except TransportClosed as error:
        where = authority(host, port)
        raise NoAnswer(
            f"the port mapper at {where} answers no call ({error})", protocol_error=error.protocol_error
        ) from None


async def registered_port(host: str, program: int, version: int, *, timeout_s: float = 10.0) -> int:
    """Returns the TCP port at which `host` has registered a program, of `version` or else of any other version.

    Args:
        host: the name or address of the host.
        program: the program number.
        version: the preferred version of the program.
        timeout_s: the time limit of the connection and of each call, in seconds.

    Raises:
        ConnectFailed: no port mapper answers, or the program is not registered; the message names the remedy.
        RpcRdmaError: the answer is malformed (DecodeError), or another error of `Caller.call`, such as CallTimeout.
    """
    remedy = f"write the port of the server: tcp://{authority(host, 'PORT')}"
    try:
        _, found = await registrations(host, timeout_s=timeout_s)
    except ConnectFailed as error:
        cause = str(error).partition("; ")[0]
        raise ConnectFailed(f"no port in the URL, and no port mapper to ask: {cause}; {remedy}") from None
    ports = [each for each in found if each.program == program and each.netid in {"tcp", "tcp6"} and each.port]
    # Servers may listen for IPv4 and IPv6 at ports of their own.
    ports.sort(key=lambda each: (each.version != version, not reaches(host, each.netid), each.netid))
    if not ports or ports[0].port is None:
        raise ConnectFailed(f"{host} has no program {program} over TCP registered at its port mapper; {remedy}")
    return ports[0].port


async def _mappings(caller: Caller, timeout_s: float) -> list[Registration]:
    entries = await caller.call(port_mapper.PMAPPROC_DUMP, None, timeout_s=timeout_s)
    return [
        Registration(
            entry.map.prog,
            entry.map.vers,
            _PROTOCOLS.get(entry.map.prot, str(entry.map.prot)),
            universal_address("0.0.0.0", entry.map.port),  # noqa: S104 - no socket is bound
            entry.map.port if 0 < entry.map.port < 1 << 16 else None,
        )
        for entry in entries
    ]


def _registration(found: port_mapper.binding) -> Registration:
    port = port_in(found.addr) if found.netid in _WITH_PORTS else None
    return Registration(found.prog, found.vers, found.netid, found.addr, port, found.owner)
