"""Calls remote procedures over TCP."""

from __future__ import annotations

import asyncio
import secrets
import socket
from types import TracebackType
from typing import Any, Self, TypeVar

from rpcrdma.aio.record_stream import RecordStream
from rpcrdma.aio.sockets import connected_socket, unanswered
from rpcrdma.errors import CallTimeout, DecodeError, TransportClosed
from rpcrdma.limits import RPC_RECORD_OCTETS_MAX
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.calls import CallEncoder, decode_result
from rpcrdma.rpc.message import peek_xid
from rpcrdma.rpc.program import Procedure
from rpcrdma.wire.buffers import Buffer, as_view
from rpcrdma.xdr.codec import Decoder

__all__ = ["TcpCaller"]

A = TypeVar("A")
R = TypeVar("R")

_CONNECT_TIMEOUT_S = 10.0


class _CopyingDecoder(Decoder):
    """Copies the first bulk item into the caller's memory: TCP has no other way to get it there."""

    __slots__ = ("into",)

    def __init__(self, data: Buffer, into: memoryview) -> None:
        super().__init__(data)
        self.into: memoryview | None = into

    def bulk(self, limit: int, field: str) -> memoryview:
        at = self.pos
        data = super().bulk(limit, field)
        into = self.into
        if into is None:
            return data
        self.into = None
        if len(data) > len(into):
            raise DecodeError(field, at, f"at most the {len(into)} octets given", str(len(data)))
        into[: len(data)] = data
        return into[: len(data)]


class TcpCaller:
    """A connection to a responder; implements `rpcrdma.rpc.Caller` for any number of concurrent calls.

    Made by `connect`. Once the connection is lost every call raises `TransportClosed`; there is no reconnection, as
    only the caller knows which calls may be repeated.
    """

    def __init__(
        self,
        sock: socket.socket,
        credential: Credential | None = None,
        *,
        record_octets_max: int = RPC_RECORD_OCTETS_MAX,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._encoder = CallEncoder(credential)
        self._pending: dict[int, asyncio.Future[Buffer]] = {}
        self._xid = secrets.randbits(32)
        self._lost: TransportClosed | None = None
        self._stream = RecordStream(
            sock, record_octets_max=record_octets_max, on_record=self._on_record, on_lost=self._on_lost
        )

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        credential: Credential | None = None,
        *,
        timeout_s: float = _CONNECT_TIMEOUT_S,
        record_octets_max: int = RPC_RECORD_OCTETS_MAX,
    ) -> Self:
        """Connects to the first address of `host` that answers; calls are made with `credential` (None: AUTH_NONE).

        Raises:
            ConnectFailed: nobody answers at any address within `timeout_s` seconds.
        """
        try:
            async with asyncio.timeout(timeout_s):
                sock = await connected_socket(host, port)
        except TimeoutError:
            raise unanswered(host, port, timeout_s) from None
        return cls(sock, credential, record_octets_max=record_octets_max)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def closed(self) -> bool:
        """Whether the connection is gone."""
        return self._stream.closed

    async def call(
        self, procedure: Procedure[A, R], args: A, *, into: Buffer | None = None, timeout_s: float | None = None
    ) -> R:
        """See `Caller.call`. TCP cannot place: a bulk result is received elsewhere and copied into `into` once.

        The memory of bulk arguments must not change until the call has ended, however it ends.
        """
        xid = self._next_xid()
        payload = self._encoder.encode(xid, procedure, args)
        if self._lost is not None:
            raise TransportClosed(*self._lost.args, protocol_error=self._lost.protocol_error)
        future: asyncio.Future[Buffer] = self._loop.create_future()
        self._pending[xid] = future
        try:
            self._stream.send(payload, future)
            if timeout_s is None:
                message = await future
            else:
                timer = self._loop.call_later(timeout_s, _time_out, future, procedure.name, timeout_s)
                try:
                    message = await future
                finally:
                    timer.cancel()
        except BaseException:
            # Nobody watches over the arguments' memory any longer.
            self._stream.withdraw(future)
            if future.done() and not future.cancelled():
                # Cancelled at the very moment the call failed: the failure has been seen to.
                future.exception()
            raise
        finally:
            self._pending.pop(xid, None)
        if into is None:
            return decode_result(Decoder(message), xid, procedure)
        return decode_result(_CopyingDecoder(message, as_view(into)), xid, procedure)

    async def close(self) -> None:
        """Closes the connection; calls in progress raise `TransportClosed`."""
        if not self._stream.closed:
            self._stream.close()
            self._on_lost(TransportClosed("the connection was closed on this side"))

    def _next_xid(self) -> int:
        xid = self._xid
        while xid in self._pending:
            xid = (xid + 1) & 0xFFFFFFFF
        self._xid = (xid + 1) & 0xFFFFFFFF
        return xid

    def _on_record(self, message: Buffer) -> None:
        xid = peek_xid(message)
        future = self._pending.get(xid) if xid is not None else None
        # A reply that nobody waits for is late: its call timed out or was cancelled.
        if future is not None and not future.done():
            future.set_result(message)

    def _on_lost(self, error: TransportClosed) -> None:
        self._lost = error
        for future in self._pending.values():
            if not future.done():
                future.set_exception(TransportClosed(*error.args, protocol_error=error.protocol_error))


def _time_out(future: asyncio.Future[Any], name: str, timeout_s: float) -> None:
    if not future.done():
        future.set_exception(CallTimeout(f"{name}: no reply within {timeout_s:g} s"))
