"""Calls remote procedures over TCP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.connections.call_record import CallObserver
from rpcrdma.aio.connections.record_call import RecordCall
from rpcrdma.aio.connections.tcp_calls import TcpCalls
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.aio.drivers.sockets import address_of, authority, connected_socket, unanswered
from rpcrdma.errors import MessageTooLong, TransportClosed
from rpcrdma.limits import RPC_OUTSTANDING_CALLS_MAX, RPC_RECORD_OCTETS_MAX, RPC_UNSENT_REPLY_OCTETS_MAX
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rpc.dispatch import refusal
from rpcrdma.rpc.message import CALL_HEADER_OCTETS, AcceptStat, peek_is_call
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.record import TooLong
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["TcpCaller"]

A = TypeVar("A")
R = TypeVar("R")

_CONNECT_TIMEOUT_S = 10.0
_SETTING = "ConnectOptions(record_octets_max=...)"


class TcpCaller:
    """A connection to a responder; implements `rpcrdma.aio.answering.answering.CallSource`.

    Any number of calls may be in flight.

    `answering` answers the server's own calls on the connection; without it they are dropped and counted.
    `record_octets_max` bounds each call and each reply. `on_call` is called with a record of each call of this side,
    which `calls_made` counts.

    Made by `connect`. Once the connection is lost every call raises `TransportClosed`; `ReconnectingCaller` makes
    another one.
    """

    def __init__(
        self,
        sock: socket.socket,
        credential: Credential | None = None,
        *,
        record_octets_max: int = RPC_RECORD_OCTETS_MAX,
        answering: Answering | None = None,
        on_call: CallObserver | None = None,
        calls_made: CallStatistics | None = None,
    ) -> None:
        peer = address_of(sock.getpeername())
        self.host = peer[0]
        self._answering = answering
        self.results = BufferPool().share("")
        self._record_octets_max = record_octets_max
        self._running = 0
        self.calls_dropped = 0
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stream = RecordStream(
            sock,
            peer=authority(*peer),
            record_octets_max=record_octets_max,
            setting=_SETTING,
            on_too_long=self._on_too_long,
            on_record=self._on_record,
            on_lost=self._on_lost,
            on_sent=self._on_sent,
        )
        self.timer = self._stream.timer
        """The connection's one timer."""
        self._calls = TcpCalls(self._stream, credential, peer=authority(*peer), on_call=on_call, calls_made=calls_made)

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        credential: Credential | None = None,
        *,
        timeout_s: float = _CONNECT_TIMEOUT_S,
        reserved_port: bool = False,
        record_octets_max: int = RPC_RECORD_OCTETS_MAX,
        answering: Answering | None = None,
        on_call: CallObserver | None = None,
        calls_made: CallStatistics | None = None,
    ) -> Self:
        """Connects to the first address of `host` that answers; calls are made with `credential` (None: AUTH_NONE).

        With `reserved_port` the connection comes from a port below 1024.

        Raises:
            NotPermitted: this process may not take a reserved port.
            ConnectFailed: no address of the host takes the connection within `timeout_s` seconds.
        """
        try:
            async with asyncio.timeout(timeout_s):
                sock = await connected_socket(host, port, reserved_port=reserved_port)
        except TimeoutError:
            raise unanswered(host, port, timeout_s) from None
        return cls(
            sock,
            credential,
            record_octets_max=record_octets_max,
            answering=answering,
            on_call=on_call,
            calls_made=calls_made,
        )

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

    def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Buffer | None = None,
        timeout_s: float | None = None,
        xid: int | None = None,
        placement: str = "",
        began_ns: int | None = None,
    ) -> Coroutine[Any, Any, R]:
        """See `TcpCalls.call`; `placement` means nothing here."""
        del placement
        return self._calls.call(procedure, args, into=into, timeout_s=timeout_s, xid=xid, began_ns=began_ns)

    start = call
    """See `SingleConnection.start`."""

    def ready(self, credential: Credential | None = None) -> None:
        """See `ReverseCaller.ready`; no effect on the side that connected."""

    @property
    def host_identity(self) -> None:
        """See `ReverseCaller.host_identity`."""
        return

    @property
    def arguments_octets_max(self) -> int:
        """See `ReverseCaller.arguments_octets_max`."""
        return self._record_octets_max - CALL_HEADER_OCTETS - self._calls.encoder.credential_octets

    async def wait_closed(self) -> None:
        """Waits until the connection has ended, for any reason."""
        await asyncio.shield(self._ended)

    async def close(self) -> None:
        """Closes the connection; calls in progress raise `TransportClosed`."""
        self.abort("the connection was closed on this side")

    def abort(self, reason: str) -> None:
        """Ends the connection at once."""
        self._end(TransportClosed(reason))

    def _on_record(self, message: Buffer) -> None:
        if not peek_is_call(message):
            self._calls.on_reply(message)
        elif self._answering is None:
            self.calls_dropped += 1
        else:
            self._on_call(message, self._answering)

    def _on_too_long(self, message: TooLong) -> None:
        error = MessageTooLong(message.octets, self._record_octets_max, _SETTING, received=True)
        if not message.is_call:
            self._calls.on_too_long(message.xid, error)
        elif self._answering is not None:
            self._answering.runner.log_long_call(self.host, str(error))
            self._send(refusal(message.xid, AcceptStat.GARBAGE_ARGS))

    def _on_call(self, message: Buffer, answering: Answering) -> None:
        if self._running < RPC_OUTSTANDING_CALLS_MAX:
            self._running += 1
            answering.answer(Decoder(message), self, RecordCall(len(message)))
        else:
            # Reading nothing more would hold up the replies to this side's own calls.
            self._send(refusal(int.from_bytes(message[:4], "big"), AcceptStat.SYSTEM_ERR))

    def reply(self, call: RecordCall, reply: Payload) -> bool:
        """See `CallSource.reply`."""
        if self._stream.closed:
            self.drop(call)
        else:
            self._send(reply, call)
        return True

    def refuse(self, _call: RecordCall) -> bool:
        """See `CallSource.refuse`."""
        return False

    def drop(self, call: RecordCall) -> None:
        """See `CallSource.drop`."""
        self._running -= 1
        call.release()

    def _send(self, reply: Payload, call: RecordCall | None = None) -> None:
        self._stream.send(reply, call)
        # A single reply may be longer than the bound on unsent replies.
        if self._stream.unsent_octets > max(RPC_UNSENT_REPLY_OCTETS_MAX, self._record_octets_max + 4):
            self._end(TransportClosed("the server does not read the answers to its calls", protocol_error=True))

    def _on_sent(self, ticket: Any) -> None:
        if isinstance(ticket, RecordCall):
            self.drop(ticket)

    def _end(self, error: TransportClosed) -> None:
        if not self._stream.closed:
            self._stream.close()
            self._on_lost(error)

    def _on_lost(self, error: TransportClosed) -> None:
        self.results.close()
        if self._answering is not None:
            self._answering.connection_ended(self)
        for ticket in self._stream.unsent_tickets():
            self._on_sent(ticket)
        self._calls.fail(error)
        if not self._ended.done():
            self._ended.set_result(None)
