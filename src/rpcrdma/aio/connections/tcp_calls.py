"""Calls made on a record stream, from either end of it."""

from __future__ import annotations

import asyncio
import functools
import secrets
import time
from typing import Any, TypeVar

from rpcrdma.aio.connections.call_outcome import count_failure
from rpcrdma.aio.connections.call_record import CallObserver, CallRecord
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.errors import CallTimeout, MessageTooLong, RpcRdmaError, TransportClosed
from rpcrdma.limits import RPC_RECORD_OCTETS_MAX
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rpc.calls import CallEncoder, ResultDecoder, decode_result
from rpcrdma.rpc.errors import GarbageArguments
from rpcrdma.rpc.message import peek_xid
from rpcrdma.rpc.program import Procedure
from rpcrdma.wire.buffers import Buffer, as_view
from rpcrdma.xdr.codec import Decoder, Payload

__all__ = ["TcpCalls"]

A = TypeVar("A")
R = TypeVar("R")


class TcpCalls:
    """This side's calls on a connection; its owner hands in the replies.

    Of more than `in_flight_max` calls the later ones wait to be sent: nothing on the wire bounds them. `on_call` is
    called with a record of each, in which `peer` stands; `calls_made` counts them; None: none are.
    """

    __slots__ = (
        "_calls_made",
        "_in_flight",
        "_in_flight_max",
        "_loop",
        "_lost",
        "_on_call",
        "_peer",
        "_pending",
        "_queue",
        "_sent_ns",
        "_stream",
        "_xid",
        "encoder",
    )

    def __init__(
        self,
        stream: RecordStream,
        encoder: CallEncoder,
        *,
        in_flight_max: int | None = None,
        peer: str = "",
        on_call: CallObserver | None = None,
        calls_made: CallStatistics | None = None,
    ) -> None:
        self._calls_made = calls_made
        self._loop = asyncio.get_running_loop()
        self._stream = stream
        self.encoder = encoder
        """May be replaced by one with another credential."""
        self._pending: dict[int, asyncio.Future[Buffer]] = {}
        self._queue: dict[asyncio.Future[Buffer], Payload] = {}
        # When calls were sent that had to wait.
        self._sent_ns: dict[asyncio.Future[Buffer], int] = {}
        self._in_flight = 0
        self._in_flight_max = in_flight_max
        self._xid = secrets.randbits(32)
        self._lost: TransportClosed | None = None
        self._peer = peer
        self._on_call = on_call

    async def call(
        self,
        procedure: Procedure[A, R],
        args: A,
        *,
        into: Buffer | None = None,
        timeout_s: float | None = None,
        xid: int | None = None,
        began_ns: int | None = None,
    ) -> R:
        """See `Caller.call`. TCP cannot place: a bulk result is received elsewhere and copied into `into` once.

        The memory of bulk arguments must not change until the call has ended, however it ends. `xid`: that of a call
        that is repeated, or one from a program that numbers the calls of several connections. `began_ns`: when the call
        was made, if it was not now.

        Raises:
            MessageTooLong: the call, or its reply, is longer than this side allows; the connection goes on.
        """
        target = None if into is None else as_view(into, "into", writable=True)
        sent_ns = time.perf_counter_ns()
        began_ns = began_ns or sent_ns
        if xid is None:
            xid = self._next_xid()
        payload = self.encoder.encode(xid, procedure, args)
        if self._lost is not None:
            lost = TransportClosed(*self._lost.args, protocol_error=self._lost.protocol_error)
            self._count_failure(procedure, lost, began_ns, 0)
            raise lost
        future: asyncio.Future[Buffer] = self._loop.create_future()
        self._pending[xid] = future
        if self._on_call is not None:
            started_s = time.perf_counter()
            told = functools.partial(self._tell, self._on_call, xid, procedure.name, payload.length, started_s)
            future.add_done_callback(told)
        try:
            if self._in_flight == self._in_flight_max:
                self._queue[future] = payload
                sent_ns = 0
            else:
                self._in_flight += 1
                self._stream.send(payload, future)
            if timeout_s is None:
                message = await future
            else:
                timer = self._loop.call_later(timeout_s, _time_out, future, procedure.name, timeout_s)
                try:
                    message = await future
                finally:
                    timer.cancel()
        except BaseException as error:
            self._count_failure(procedure, error, began_ns, sent_ns or self._sent_ns.get(future, 0), payload.length)
            # From here on the caller may change the memory of the arguments: nothing of it is to be sent.
            self._stream.withdraw(future)
            if future.done() and not future.cancelled():
                # Cancelled at the very moment the call failed: the failure has been seen to.
                future.exception()
            raise
        finally:
            self._pending.pop(xid, None)
            self._ended(future)
            now_ns = time.perf_counter_ns()
            sent_ns = sent_ns or self._sent_ns.pop(future, 0)
        decoder = Decoder(message) if target is None else ResultDecoder(message, 0, None, (target,))
        try:
            value = decode_result(decoder, xid, procedure)
        except RpcRdmaError as error:
            self._count_failure(procedure, error, began_ns, sent_ns, payload.length, len(message))
            if not isinstance(error, GarbageArguments) or payload.length <= RPC_RECORD_OCTETS_MAX:
                raise
            raise GarbageArguments(
                f": they may be too long, the call has {payload.length} octets; a server of this library takes "
                f"{RPC_RECORD_OCTETS_MAX}, or what TcpServerConfig(record_octets_max=...) says there"
            ) from None
        if self._calls_made is not None:
            status = 0 if procedure.status is None else procedure.status(value)
            counts = self._calls_made.of_status(procedure, status)
            if status or sent_ns != began_ns:
                counts.bytes_sent += payload.length
                counts.bytes_recv += len(message)
                counts.add_parts(sent_ns - began_ns, now_ns - sent_ns)
            else:
                counts.note(payload.length, len(message), now_ns - sent_ns)
        return value

    def _count_failure(
        self,
        procedure: Procedure[Any, Any],
        error: BaseException,
        began_ns: int,
        sent_ns: int,
        octets_sent: int = 0,
        octets_received: int = 0,
    ) -> None:
        count_failure(
            self._calls_made,
            procedure,
            error,
            began_ns=began_ns,
            sent_ns=sent_ns,
            now_ns=time.perf_counter_ns(),
            octets_sent=octets_sent,
            octets_received=octets_received,
        )

    def _tell(
        self,
        observer: CallObserver,
        xid: int,
        procedure: str,
        octets_sent: int,
        started_s: float,
        future: asyncio.Future[Buffer],
    ) -> None:
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        observer(
            CallRecord(
                xid=xid,
                procedure=procedure,
                peer=self._peer,
                form="tcp",
                octets_sent=octets_sent,
                octets_received=len(future.result()) if error is None else 0,
                elapsed_s=time.perf_counter() - started_s,
                error=error,
            )
        )

    def on_reply(self, message: Buffer) -> None:
        """Takes a message that is no call."""
        xid = peek_xid(message)
        future = self._pending.get(xid) if xid is not None else None
        # A reply without a call that waits for it is late: the call timed out or was cancelled.
        if future is not None and not future.done():
            future.set_result(message)

    def on_too_long(self, xid: int, error: MessageTooLong) -> None:
        """Ends the call whose reply is skipped."""
        future = self._pending.get(xid)
        if future is not None and not future.done():
            future.set_exception(error)

    def fail(self, error: TransportClosed) -> None:
        """Ends all calls, and those that are yet to come."""
        self._lost = error
        for future in self._pending.values():
            if not future.done():
                future.set_exception(TransportClosed(*error.args, protocol_error=error.protocol_error))

    def _next_xid(self) -> int:
        xid = self._xid
        while xid in self._pending:
            xid = (xid + 1) & 0xFFFFFFFF
        self._xid = (xid + 1) & 0xFFFFFFFF
        return xid

    def _ended(self, future: asyncio.Future[Buffer]) -> None:
        if self._queue.pop(future, None) is None:
            self._in_flight -= 1
        while self._queue and self._in_flight != self._in_flight_max:
            following = next(iter(self._queue))
            payload = self._queue.pop(following)
            self._in_flight += 1
            if not following.done():
                self._sent_ns[following] = time.perf_counter_ns()
                try:
                    self._stream.send(payload, following)
                except MessageTooLong as error:
                    following.set_exception(error)


def _time_out(future: asyncio.Future[Any], name: str, timeout_s: float) -> None:
    if not future.done():
        future.set_exception(CallTimeout(f"{name}: no reply within {timeout_s:g} s"))
