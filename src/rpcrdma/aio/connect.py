"""Connecting to a service: `rpcrdma.connect`."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Generator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, TypeVar

from rpcrdma.aio.buffer_pool import BufferPool
from rpcrdma.aio.capture import PacketCapture
from rpcrdma.aio.rdma_connection import Negotiated, RdmaConnection
from rpcrdma.aio.sockets import connected_socket, unanswered
from rpcrdma.aio.tcp_client import TcpCaller
from rpcrdma.aio.urls import Url, parse_url
from rpcrdma.errors import ConnectFailed, LocalProtocolError, TransportClosed
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.rpc.auth import AuthSys, Credential
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.transport import Role, TransportConfig, TransportStatistics
from rpcrdma.wire.buffers import Buffer

__all__ = ["ConnectOptions", "Connection", "connect", "own_credential"]

A = TypeVar("A")
R = TypeVar("R")

_GROUPS_MAX = 16
"""Supplementary groups in an AUTH_SYS credential (RFC 5531 appendix A)."""


def own_credential() -> AuthSys:
    """The AUTH_SYS credential of this process: its effective user and group, and its first 16 groups."""
    groups = tuple(sorted(set(os.getgroups()) - {os.getegid()}))[:_GROUPS_MAX]
    return AuthSys(machine=platform.node()[:255], uid=os.geteuid(), gid=os.getegid(), gids=groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """How to connect and call."""

    provider: Literal["auto", "iwarp"] = "auto"
    rpcrdma_version: Literal["auto", 1] = "auto"
    credential: Credential = field(default_factory=own_credential)
    connect_timeout_s: float = 10.0
    call_timeout_s: float | None = 60.0
    """The deadline of calls that name none; None: for ever. 60 s is what Linux waits for a reply."""
    transport: TransportConfig = field(default_factory=TransportConfig)
    iwarp: IwarpConfig = field(default_factory=IwarpConfig)
    capture: PacketCapture | None = None
    """Where to record the connection's packets; RDMA only."""


class Connection:
    """A connection to one server; implements `rpcrdma.rpc.program.Caller` over RDMA or TCP.

    Any number of calls may be in flight. Ends with `close`, or as a context manager.
    """

    def __init__(
        self, url: Url, caller: RdmaConnection | TcpCaller, program: Program | None, call_timeout_s: float | None
    ) -> None:
        self.url = str(url)
        self.program = program
        self._caller = caller
        self._call_timeout_s = call_timeout_s

    async def call(
        self, procedure: Procedure[A, R], args: A, *, into: Buffer | None = None, timeout_s: float | None = None
    ) -> R:
        """See `rpcrdma.rpc.program.Caller.call`; `timeout_s=None` takes `ConnectOptions.call_timeout_s`.

        Raises:
            LocalProtocolError: the procedure is not of the program that the connection was made for.
        """
        if self.program is not None and procedure.program != self.program.number:
            raise LocalProtocolError(f"{procedure.name} is not a procedure of {self.program.name}")
        if timeout_s is None:
            timeout_s = self._call_timeout_s
        return await self._caller.call(procedure, args, into=into, timeout_s=timeout_s)

    @property
    def negotiated(self) -> Negotiated | None:
        """What the RDMA connection agreed on; None over TCP."""
        return self._caller.negotiated if isinstance(self._caller, RdmaConnection) else None

    @property
    def statistics(self) -> TransportStatistics | None:
        """The RDMA connection's counters; None over TCP."""
        return self._caller.statistics if isinstance(self._caller, RdmaConnection) else None

    async def close(self) -> None:
        """Ends the connection; calls still waiting fail with `TransportClosed`."""
        await self._caller.close()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class _Connecting:
    """What `connect` returns: `await` it, or enter it as a context manager."""

    def __init__(self, url: Url, program: Program | None, options: ConnectOptions) -> None:
        self._url = url
        self._program = program
        self._options = options
        self._connection: Connection | None = None

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._connect().__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._connect()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _connect(self) -> Connection:
        url, options = self._url, self._options
        caller: RdmaConnection | TcpCaller
        if url.scheme == "tcp":
            caller = await TcpCaller.connect(
                url.host, url.port, options.credential, timeout_s=options.connect_timeout_s
            )
        else:
            caller = await _connect_iwarp(url, options)
        return Connection(url, caller, self._program, options.call_timeout_s)


def connect(url: str, program: Program | None = None, *, options: ConnectOptions | None = None) -> _Connecting:
    """Connects to the service at `url` (`rdma://HOST[:PORT]` or `tcp://HOST[:PORT]`).

    `async with connect(url) as connection:` or `connection = await connect(url)`. With `program`, calls of other
    programs are refused before they are sent.

    Raises:
        LocalProtocolError: the URL is not one.
        ConnectFailed: when entered or awaited: no connection could be made; the message says why and what to do.
    """
    return _Connecting(parse_url(url), program, options or ConnectOptions())


async def _connect_iwarp(url: Url, options: ConnectOptions) -> RdmaConnection:
    try:
        async with asyncio.timeout(options.connect_timeout_s):
            sock = await connected_socket(url.host, url.port)
            connection = RdmaConnection(
                sock,
                Role.CLIENT,
                transport=options.transport,
                iwarp=options.iwarp,
                pool=BufferPool(),
                credential=options.credential,
                capture=options.capture,
            )
            try:
                await connection.wait_established()
            except BaseException:
                connection.abort("connecting was given up")
                raise
    except TimeoutError:
        raise unanswered(url.host, url.port, options.connect_timeout_s) from None
    except TransportClosed as error:
        raise ConnectFailed(
            f"{url.authority} takes TCP connections but sets up no RDMA connection ({error}); check that an "
            "NFS/RDMA server with iWARP listens on this port"
        ) from None
    return connection
