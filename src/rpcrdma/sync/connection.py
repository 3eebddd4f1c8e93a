"""Connections whose calls wait for their results."""

from __future__ import annotations

import functools
from typing import TypeVar

from rpcrdma.aio.awaited_call import without_frames
from rpcrdma.aio.client import connect as asynchronous
from rpcrdma.aio.client.client_statistics import ClientStatistics
from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.connections.negotiated import Negotiated
from rpcrdma.rpc.client_stub import WaitingCaller
from rpcrdma.rpc.host_identity import HostIdentity, XprtSec
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.sync.background_loop import BackgroundLoop, Waits, claimed_loop, waiting
from rpcrdma.wire.buffers import Memory

__all__ = ["Connection", "connect"]

A = TypeVar("A")
R = TypeVar("R")


class Connection(Waits[asynchronous.Connection], WaitingCaller):
    """A connection to one server, made by `connect`: `rpcrdma.Connection` with calls that block. Threads may share it.

    Args:
        connection: the asynchronous connection.
        loop: the background thread's loop.
    """

    def __init__(self, connection: asynchronous.Connection, loop: BackgroundLoop) -> None:
        self._asynchronous = connection
        self._loop = loop
        self._closed = False

    def __repr__(self) -> str:
        return f"<rpcrdma.sync.Connection {self.url}>"

    @property
    def url(self) -> str:
        """The URL of the server, as it was given to `connect`."""
        return self._asynchronous.url

    @property
    def program(self) -> Program | None:
        """The only RPC program whose procedures may be called; None: any program."""
        return self._asynchronous.program

    @property
    def negotiated(self) -> Negotiated | None:
        """The terms (version, sizes, credits and more) of the present or last RDMA connection; None over TCP.

        Each access makes a new object, with the credits granted at that time.
        """
        return self._asynchronous.negotiated

    @property
    def host_identity(self) -> HostIdentity | None:
        """The host identity that the server of the present connection has proved; None without a proof."""
        return self._asynchronous.host_identity

    @property
    def xprtsec(self) -> XprtSec:
        """The protection of the present connection by TLS: "none", "tls" or "mtls"; always "none" over RDMA."""
        return self._asynchronous.xprtsec

    @property
    def principal(self) -> str | None:
        """The Kerberos principal that this client has proved; None before the first call, and without Kerberos."""
        return self._asynchronous.principal

    @property
    def statistics(self) -> ClientStatistics:
        """A copy of the counters and call statistics so far, over all transport connections of this object."""
        return self._asynchronous.statistics

    @property
    def lost(self) -> bool:
        """Whether the transport connection has ended and is not restored yet; also true after `close`."""
        return self._asynchronous.lost

    @property
    def reconnects(self) -> int:
        """The number of times that a lost transport connection was restored."""
        return self._asynchronous.reconnects

    @without_frames
    def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Memory | None = None,
        timeout_s: float | None = None,
        placement: str = "",
    ) -> R:
        """Calls a procedure with its arguments (None for void) and blocks until its result arrives.

        `into` is a writable buffer for the result's first DDP-eligible item, `timeout_s` the time limit in seconds
        (None: `ConnectOptions.call_timeout_s`), `placement` a `rpcrdma.extension.Preference` for bulk items ("": that
        of the connection). Raises RpcError, CallTimeout, TransportClosed and others: see `rpcrdma.Connection.call`.

        Returns:
            The decoded result.
        """
        call = functools.partial(
            self._asynchronous.call, procedure, args, into=into, timeout_s=timeout_s, placement=placement
        )
        return self._loop.run(call)

    wait_reconnected = waiting(asynchronous.Connection.wait_reconnected)

    @without_frames
    def close(self) -> None:
        """Closes the connection, and blocks until it is closed.

        Calls that other threads wait for fail with `TransportClosed`. No effect if the connection is closed already, or
        in a child process that was forked after it was made.
        """
        if not self._closed and not self._loop.forked:
            self._loop.run(self._end)

    async def _end(self) -> None:
        self._closed = True
        try:
            await self._asynchronous.close()
        finally:
            self._loop.release(self._asynchronous)


@without_frames
def connect(url: str, program: Program | None = None, *, options: ConnectOptions | None = None) -> Connection:
    """Connects to an RPC service at `rdma://HOST[:PORT]` or `tcp://HOST[:PORT]`; blocks until connected.

    `program` is the only program that may be called (None: any), `options` are the settings (None: the defaults).
    Raises ConnectFailed if no connection can be made; for other errors see `rpcrdma.connect`.

    Returns:
        The connection, a context manager that closes it; its calls block.
    """
    with claimed_loop() as loop:

        async def connected() -> Connection:
            connection = await asynchronous.connect(url, program, options=options)
            loop.keep(connection, connection.close)
            return Connection(connection, loop)

        return loop.run(connected, undo=Connection._end)  # noqa: SLF001 - its own module's
