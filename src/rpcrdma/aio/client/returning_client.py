"""Calls to a client that may lose its connection and come back on another."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from rpcrdma.aio.drivers.effects import random_bits
from rpcrdma.aio.misuse import not_seconds
from rpcrdma.errors import CallTimeout, LocalProtocolError, TransportClosed
from rpcrdma.rpc.calling import XidSource
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.service import ReverseCaller
from rpcrdma.wire.buffers import Memory

__all__ = ["ReturningClient"]

A = TypeVar("A")
R = TypeVar("R")

_CALL_TIMEOUT_S = 60.0
"""The default time limit of calls, as for clients' own calls."""
_BREACHES_MAX = 3
"""Connections that may end by a breach of the protocol during one call: if it provokes a breach, it will again."""


_XID_TAKEN_S = 0.1
"""Seconds until a repeat is tried again on a connection where the XID is in use."""


class ReturningClient:
    """Calls one client over its successive connections; implements `rpcrdma.rpc.Caller`.

    The service has a procedure by which a client states that it takes calls. At a client's first call of the procedure,
    its handler makes a `ReturningClient`; at each further call, it passes `CallContext.client` to `came_back`. The
    service itself tells its clients apart. That procedure belongs in `Service.IDEMPOTENT`: its repeat arrives on a new
    connection and must reach the handler.

    A call that was lost with its connection is sent again with the same XID, which a client of this library recognises,
    so that it runs the call once. The same holds for a call that waits for a reply when the client returns on another
    connection: this end may never notice that the earlier connection has ended.

    Args:
        client: the client on its first connection (`CallContext.client`).
        call_timeout_s: the time limit in seconds of calls that name none.
    """

    def __init__(self, client: ReverseCaller, *, call_timeout_s: float = _CALL_TIMEOUT_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._call_timeout_s = call_timeout_s
        self._xids = XidSource(random_bits(32))
        self._returned = asyncio.Event()
        self._gone = False
        self._here = True
        self._client = client
        self._calling: dict[asyncio.Timeout, None] = {}
        """The calls that wait for their replies on the present connection, in their order."""
        self.came_back(client)

    def came_back(self, client: ReverseCaller) -> None:
        """Makes a connection on which the client takes calls the present one; call this in the event loop.

        Later calls are sent on it, and so are those that wait for the client's return, or for a reply on an earlier
        connection, even if that is still open. After `forget`, the client stays given up: calls that wait for a reply
        on an earlier connection then raise `TransportClosed`.

        Args:
            client: `CallContext.client` of that connection.
        """
        client.ready()
        if client is not self._client:
            for calling in self._calling:
                calling.reschedule(self._loop.time())
            self._calling.clear()
        self._client = client
        self._xids.kept = client.xids_kept
        self._here = True
        self._returned.set()

    @property
    def present(self) -> bool:
        """Whether the client has an open connection, so that calls are sent at once; False for good after `forget`."""
        return self._here and not (self._gone or self._client.closed)

    def forget(self) -> None:
        """Gives up the client for good: later calls, and calls that wait for its return, raise `TransportClosed`.

        Calls that wait for a reply on the present connection continue.
        """
        self._gone = True
        self._returned.set()

    async def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Memory | None = None,
        timeout_s: float | None = None,
        placement: str = "",
    ) -> R:
        """Calls a procedure of the client; while the client has no connection, waits until it returns.

        Args:
            procedure: the procedure.
            args: its arguments.
            into: a writable buffer for the result's DDP-eligible item, see `rpcrdma.rpc.Caller.call`; None: new memory.
            timeout_s: the time limit in seconds, waiting for the client included; None takes that of the constructor.
            placement: how the round-trip extension moves the call's bulk items: a value of
                `rpcrdma.extension.Preference`; "": as `RdmaServerConfig.extension` sets.

        Returns:
            The decoded result.

        Raises:
            CallTimeout: no reply, or no client, within the time limit.
            TransportClosed: `forget` was called, or the client broke the protocol on three connections during the call.
            RpcError, DecodeError, MessageTooLong, LocalProtocolError, ValueError, TypeError: as
                `rpcrdma.Connection.call`.
        """
        timeout_s = self._call_timeout_s if timeout_s is None else timeout_s
        try:
            deadline_s = self._loop.time() + timeout_s
        except TypeError:
            raise not_seconds(timeout_s) from None
        xid = self._xids.take()
        breaches = 0
        try:
            while True:
                client = await self._wait_present(procedure, timeout_s, deadline_s)
                left_s = deadline_s - self._loop.time()
                try:
                    async with asyncio.timeout(None) as calling:
                        self._calling[calling] = None
                        return await client.call(
                            procedure, args, into=into, timeout_s=left_s, xid=xid, placement=placement
                        )
                except CallTimeout as error:
                    # Not the time that was left for the last transmission.
                    _, semicolon, hint = str(error).partition(";")
                    raise _unanswered(procedure, timeout_s, semicolon + hint) from None
                except LocalProtocolError:
                    # Over RDMA the first transmission keeps the XID on its connection until it is answered there, and a
                    # call of another caller may have it on a connection to which this one has moved.
                    if xid not in client.xids_kept:
                        raise
                    if left_s <= 0:
                        raise _unanswered(procedure, timeout_s) from None
                    await asyncio.sleep(min(_XID_TAKEN_S, left_s))
                except TimeoutError:
                    # The client has come back elsewhere, unless the caller's arguments raised the error.
                    if not calling.expired():
                        raise
                except TransportClosed as error:
                    breaches += error.protocol_error
                    if breaches >= _BREACHES_MAX:
                        raise
                    if client is self._client:
                        self._here = False
                finally:
                    self._calling.pop(calling, None)
        finally:
            del self._xids.taken[xid]

    async def _wait_present(self, procedure: Procedure[Any, Any], timeout_s: float, deadline_s: float) -> ReverseCaller:
        while not self.present:
            if self._gone:
                raise TransportClosed("the client is not expected back")
            self._returned.clear()
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._returned.wait()
            except TimeoutError:
                raise CallTimeout(f"{procedure.name}: the client did not come back within {timeout_s:g} s") from None
        return self._client


def _unanswered(procedure: Procedure[Any, Any], timeout_s: float, hint: str = "") -> CallTimeout:
    return CallTimeout(f"{procedure.name}: no reply within {timeout_s:g} s{hint}")
