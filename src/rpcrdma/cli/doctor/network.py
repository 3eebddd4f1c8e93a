"""The doctor's trials: a call over loopback, a port, the route to an address, and a server."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from dataclasses import replace
from typing import Any

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.connections.negotiated import Negotiated
from rpcrdma.aio.drivers.port_owner import address_in_use
from rpcrdma.aio.drivers.provider import ProviderInUse
from rpcrdma.aio.host_options import HostAuthentication
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import Url
from rpcrdma.cli.doctor.checks import Finding, Mark
from rpcrdma.commands import ExitStatus, describe
from rpcrdma.errors import AuthError, RpcError, RpcRdmaError
from rpcrdma.nfs import v3

__all__ = ["check_server", "check_software_rnic", "interface_towards", "why_not_listening"]

_HEADER = struct.Struct("=IHHII")
_ROUTE = struct.Struct("=8BI")
_ATTRIBUTE = struct.Struct("=HH")
_INDEX = struct.Struct("=I")
_GET_ROUTE, _NEW_ROUTE = 26, 24
_REQUEST = 1
_DESTINATION, _OUTGOING = 1, 4
"""Of Linux's rtnetlink(7): message types, the request flag and attributes."""


_OTHER_HARDWARE = "; RoCE and InfiniBand servers do not answer the software RNIC, which speaks iWARP: try tcp://"


class _Nothing(v3.NFS_V3_Service):
    """An NFS version 3 service that answers the NULL procedure alone."""


async def check_software_rnic(options: ConnectOptions) -> Finding:
    """Makes two NULL calls over the software RNIC from this process to a server in it, on 127.0.0.1.

    Returns the finding: OK, with the times, or PROBLEM if the calls fail. The connection has the `options`, but
    neither TLS, host authentication, Kerberos nor a reserved port, which are for the server that is examined.
    """
    try:
        config = RdmaServerConfig(provider="iwarp", rpcrdma_version=options.rpcrdma_version)
        async with serve([_Nothing()], ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=config)) as server:
            own = replace(
                options,
                provider="iwarp",
                security="sys",
                reserved_port=False,
                xprtsec="none",
                host_authentication=HostAuthentication(),
            )
            agreed, connect_ms, call_us = await _measure(server.listening[0], own)
    except (RpcRdmaError, OSError) as error:
        message, hint, _ = describe(error)
        return Finding(
            Mark.PROBLEM,
            "software_rnic",
            text=f"does not work on 127.0.0.1: {message}",
            remedy=hint or "check that the loopback interface is up (ip link show lo) and that TCP is not filtered",
        )
    return Finding(
        Mark.OK,
        "software_rnic",
        text=f"works: {_named(agreed)} over iWARP on 127.0.0.1, "
        f"connected in {connect_ms:.1f} ms, an empty call takes {call_us:.0f} µs",
        facts=_facts(agreed, connect_ms, call_us),
    )


async def check_server(url: Url, options: ConnectOptions) -> tuple[Finding, ExitStatus]:
    """Connects to the server at `url` and makes two NULL calls of NFS version 3.

    Returns:
        The finding, and the exit status for it: DONE for OK, and for NOTE (the server answers with an RPC error, as
        without NFS version 3, or without TLS where it asks for that); NOT_CONNECTED or PROTOCOL_VIOLATION for PROBLEM.
    """
    place = url.server
    try:
        agreed, connect_ms, call_us = await _measure(place, options)
    except RpcError as error:
        message, hint, _ = describe(error)
        if not isinstance(error, AuthError):
            message = f"{place} answers, but not with NFS version 3: {error.message}"
            hint = "check that the server offers NFS version 3, if you need NFS"
        return Finding(Mark.NOTE, "server", text=message, remedy=hint, facts={"url": place}), ExitStatus.DONE
    except (RpcRdmaError, OSError) as error:
        message, hint, status = describe(error)
        remedy = hint or "check that this is the scheme and port of an NFS server"
        if status is not ExitStatus.PROTOCOL_VIOLATION:
            status = ExitStatus.NOT_CONNECTED
            remedy += _OTHER_HARDWARE if url.scheme == "rdma" else ""
        return Finding(Mark.PROBLEM, "server", text=message, remedy=remedy, facts={"url": place}), status
    over = "" if agreed is None else f" over {ProviderInUse(agreed.provider, agreed.device)}"
    return Finding(
        Mark.OK,
        "server",
        text=f"{place} answers with {_named(agreed)}{over}: connected in {connect_ms:.1f} ms, "
        f"an empty call takes {call_us:.0f} µs",
        facts={"url": place, **_facts(agreed, connect_ms, call_us)},
    ), ExitStatus.DONE


def _named(agreed: Negotiated | None) -> str:
    return "RPC over TCP" if agreed is None else f"RPC-over-RDMA version {agreed.version}"


def _facts(agreed: Negotiated | None, connect_ms: float, call_us: float) -> dict[str, Any]:
    terms = {name: getattr(agreed, name, None) for name in ("version", "provider", "device")}
    return terms | {"connect_ms": round(connect_ms, 3), "call_us": round(call_us, 1)}


async def _measure(url: str, options: ConnectOptions) -> tuple[Negotiated | None, float, float]:
    """Connects to a URL and makes two NULL calls of NFS version 3.

    Returns:
        The negotiated parameters of the RDMA connection (None over TCP), the milliseconds to connect, and the
        microseconds of the second call.

    Raises:
        RpcRdmaError: the connection or a call failed.
    """
    start = time.perf_counter_ns()
    async with connect(url, v3.PROGRAM, options=options) as connection:
        connected = time.perf_counter_ns()
        # The first call of a connection warms up caches; the second one is measured.
        await connection.call(v3.NULL, None)
        begun = time.perf_counter_ns()
        await connection.call(v3.NULL, None)
        done = time.perf_counter_ns()
    return connection.negotiated, (connected - start) / 1e6, (done - begun) / 1e3


def why_not_listening(port: int) -> str:
    """Returns in words why this process cannot listen at the TCP port `port` of all IPv4 addresses; "" if it can."""
    try:
        with socket.create_server(("", port)):
            return ""
    except OSError as error:
        return address_in_use("", port)[0] if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0).lower()


def interface_towards(address: str) -> str | None:
    """Returns the name of the network interface to which the kernel routes packets for an IP address; None: no route.

    Raises:
        OSError: `address` is no IP address, or the kernel cannot be asked, as within the bounds of a container.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    destination = socket.inet_pton(family, address)
    attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(destination), _DESTINATION) + destination
    body = _ROUTE.pack(family, 8 * len(destination), 0, 0, 0, 0, 0, 0, 0) + attribute
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(_HEADER.pack(_HEADER.size + len(body), _GET_ROUTE, _REQUEST, 1, 0) + body)
        index = _outgoing(netlink.recv(1 << 16))
    return None if index is None else socket.if_indextoname(index)


def _outgoing(answer: bytes) -> int | None:
    length, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _NEW_ROUTE:
        return None
    at = _HEADER.size + _ROUTE.size
    while at + _ATTRIBUTE.size <= length:
        size, name = _ATTRIBUTE.unpack_from(answer, at)
        if name == _OUTGOING:
            index: int = _INDEX.unpack_from(answer, at + _ATTRIBUTE.size)[0]
            return index
        at += max(size + 3 & ~3, _ATTRIBUTE.size)
    return None
