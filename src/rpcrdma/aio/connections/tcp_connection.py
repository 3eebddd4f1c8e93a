"""One TCP connection, or local stream socket, that carries RPC records in both directions, at a client or a server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from math import inf
from time import perf_counter_ns
from typing import NamedTuple, Self

from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.connections.calls_made import (
    CallFuture,
    CallObserver,
    CallsMade,
    again,
    tell_of_padding,
    with_probable_cause,
)
from rpcrdma.aio.connections.tcp_calls_taken import TcpCallsTaken
from rpcrdma.aio.drivers.deadline_timer import Alarm
from rpcrdma.aio.drivers.effects import random_bits
from rpcrdma.aio.drivers.record_stream import RecordStream
from rpcrdma.aio.drivers.sockets import address_of, authority, cannot_connect, connected_socket, unanswered
from rpcrdma.aio.drivers.tls_socket import TlsSocket
from rpcrdma.aio.drivers.tls_stream import TlsRecordStream, begin_tls
from rpcrdma.aio.host_options import TlsSettings
from rpcrdma.errors import DecodeError, LocalProtocolError, MessageTooLong, TransportClosed
from rpcrdma.limits import RPC_RECORD_OCTETS_MAX, RPC_UNSENT_REPLY_OCTETS_MAX
from rpcrdma.rpc.auth import Credential
from rpcrdma.rpc.calling import CallEncoder, ReplyDecoder, ResultDecoder, decode_result
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.host_identity import CallOrigin, HostIdentity, XprtSec, protects
from rpcrdma.rpc.message import peek_is_call, peek_xid
from rpcrdma.rpc.record import TooLong
from rpcrdma.rpc.tls_probe import PORT_MAPPER, answer_probe, is_probe, refuse_in_clear
from rpcrdma.transport import Call, ExtensionLink, TransportStatistics
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Payload

__all__ = ["ServerTls", "TcpConnection"]


class ServerTls(NamedTuple):
    """The TLS of a server (RFC 9289): its connections share the object, and pass themselves to the functions.

    Calls in the clear are refused, and `on_refused` called, unless `least` is "none". `may_begin` takes a place for a
    handshake, and returns whether there was one; `on_secured` is called after the handshake. `dispatcher` has the
    programs for TLS probes.
    """

    settings: TlsSettings
    least: XprtSec
    dispatcher: Dispatcher
    may_begin: Callable[[TcpConnection], bool]
    on_secured: Callable[[TcpConnection, TlsSocket], None]
    on_refused: Callable[[TcpConnection], None]


class TcpConnection(CallsMade):
    """One connection over TCP or a local stream socket that carries RPC in both directions, on either side.

    Args:
        sock, active: the connected socket (OSError: the peer has left); whether this side has connected, as a client.
        results, arguments: the memory for results, and the memory against which received calls are counted.
        record_octets_max: the bound on the octets of each call and each reply.
        idle_s: the seconds after which a server ends an idle connection; None or 0: never.
        credential: the credential of this side's calls; None: AUTH_NONE.
        answering: answers the peer's calls; None, at a client alone: they are dropped.
        observer: called with each call of this side that was made with `call` and has ended.
        in_flight_max: the most calls of this side in flight; later ones wait. None: no bound.
        on_answered: called after each answer to the peer while the server stops; or None.
        on_ended: called once, with the connection and the reason, when it has ended.
        tls: the TLS of a server; None: none, unless `sock` is a `TlsSocket`, whose session is used then.
    """

    __slots__ = (
        "_active", "_active_at", "_called", "_called_back", "_encoder", "_end", "_end_error", "_finishing", "_idle",
        "_idle_s", "_in_flight", "_in_flight_max", "_messages", "_on_ended", "_queue", "_ready", "_record_octets_max",
        "_setting", "_stream", "_tls", "calls_taken", "host", "host_identity", "name", "origin", "xprtsec",
    )  # fmt: skip

    negotiated = None
    """No terms are negotiated over TCP."""

    def __init__(
        self,
        sock: socket.socket | TlsSocket,
        *,
        active: bool,
        results: BufferPool,
        arguments: BufferPool,
        record_octets_max: int = RPC_RECORD_OCTETS_MAX,
        idle_s: float | None = None,
        credential: Credential | None = None,
        answering: Answering | None = None,
        observer: CallObserver | None = None,
        in_flight_max: int | None = None,
        on_answered: Callable[[], None] | None = None,
        on_ended: Callable[[TcpConnection, str], None] | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        peer = address_of(sock.getpeername())
        self._loop = asyncio.get_running_loop()
        self.host = peer[0]
        self.name = authority(*peer) if peer[1] else peer[0]
        self._active = active
        self._record_octets_max = record_octets_max
        self._setting = ("ConnectOptions" if active else "TcpServerConfig") + "(record_octets_max=...)"
        self._encoder = CallEncoder(credential)
        self._observer = observer
        self._xid = random_bits(32)
        self._on_ended = on_ended
        self._finishing = self._called_back = False
        self._ready = self._called = active  # `_called`: whether messages of the peer may be replies
        self._pending: dict[int, Call] = {}
        self._queue: list[Call] = []
        """Calls of this side that wait to be sent."""
        self._in_flight = 0
        self._in_flight_max = in_flight_max
        self._end_error: TransportClosed | None = None
        self._end: asyncio.Future[None] | None = None
        self._active_at = self._loop.time()
        self.origin = CallOrigin(self.host, "tcp", 0 < peer[1] < 1024)
        """The peer's address, transport, TLS and proved host, for rules of access; replaced when TLS begins."""
        self.calls_taken = calls_taken = TcpCallsTaken(
            self,
            answering,
            results.share(self.host),
            arguments.share(self.host),
            self._pending,
            active=active,
            record_octets_max=record_octets_max,
            on_answered=on_answered,
        )
        self._messages = arguments.messages
        self._tls = tls
        self.host_identity: HostIdentity | None = None
        """The host identity that the peer has proved in TLS; None without a proof."""
        self.xprtsec: XprtSec = "none"
        """The protection of the connection by TLS: "none", "tls" or "mtls"."""
        if isinstance(sock, TlsSocket):
            self._protected(sock)
        make_stream: type[RecordStream] = TlsRecordStream if tls or isinstance(sock, TlsSocket) else RecordStream
        self._stream = calls_taken.stream = make_stream(
            sock,
            peer=self.name,
            record_octets_max=record_octets_max,
            setting=self._setting,
            memory=self._messages,
            on_too_long=self._on_too_long,
            on_record=self._on_record if tls is None else self._on_clear_record,
            on_lost=self._lost,
            on_sent=calls_taken.on_sent,
            on_expected=None if active else calls_taken.on_expected,
        )
        self._look_again_s = inf
        self.timer = self._stream.timer
        self.timer.watch(self)
        self._idle = Alarm(self._check_idle)
        self._idle_s = idle_s
        if idle_s:
            self._idle.due_s = self._active_at + idle_s
            self.timer.watch(self._idle)
            self.timer.look()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        credential: Credential | None = None,
        *,
        timeout_s: float = 10.0,
        reserved_port: bool = False,
        record_octets_max: int = RPC_RECORD_OCTETS_MAX,
        answering: Answering | None = None,
        observer: CallObserver | None = None,
        tls: TlsSettings | None = None,
        addressed: tuple[int, int] = PORT_MAPPER,
    ) -> Self:
        """Connects to the first address of `host` that answers, and returns the connection.

        `timeout_s` bounds the time in seconds, TLS handshake included. `reserved_port`: whether to connect from a port
        below 1024. With `tls` (None: no TLS), only the probe is sent in the clear; `addressed` has the number and the
        version of the program in the probe. Other arguments: see the class. Raises NotPermitted: this process may not
        take a reserved port; HostAuthenticationFailed: the server offers no TLS, or a host refuses the other one;
        ConnectFailed: refused or no answer in time, no address of the name (HostNotFound), an end in the TLS handshake.
        """
        where = authority(host, port)
        try:
            async with asyncio.timeout(timeout_s):
                sock = await connected_socket(host, port, reserved_port=reserved_port)
                secured = (
                    sock
                    if tls is None
                    else await begin_tls(sock, tls.context, tls.names, tls.server_name, where, addressed=addressed)
                )
        except TimeoutError:
            raise unanswered(where, timeout_s) from None
        try:
            connection = cls(
                secured,
                active=True,
                results=BufferPool(),
                arguments=BufferPool(),
                record_octets_max=record_octets_max,
                credential=credential,
                answering=answering,
                observer=observer,
            )
        except OSError as error:  # the peer has left already
            secured.close()
            raise cannot_connect(host, port, error) from error
        if tls is not None:
            connection.xprtsec = tls.xprtsec
        return connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def ready(self, credential: Credential | None = None) -> None:
        """Permits this server to make calls to the client (RFC 8167); no effect at a client.

        `credential` None: as before, at first the constructor's. From now on the connection does not end for being
        idle. Raises LocalProtocolError if the credential cannot be encoded.
        """
        if not self._active:
            if credential is not None:
                self._encoder = CallEncoder(credential)
            self._ready = self._called_back = True

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, so that calls fail at once."""
        return self._stream.closed

    @property
    def statistics(self) -> TransportStatistics:
        """New counters of RPC-over-RDMA, all of which are 0 over TCP."""
        return TransportStatistics()

    def extension(self, _name: str) -> ExtensionLink | None:
        """Returns None for any name, since TCP has no extensions of RPC-over-RDMA."""

    async def wait_closed(self) -> None:
        """Waits until the connection has ended, for any reason."""
        if not self._stream.closed:
            if self._end is None:
                self._end = self._loop.create_future()
            await asyncio.shield(self._end)

    def start(self, call: Call) -> CallFuture:
        """Sends a call, or queues it behind others, and returns the future of its decoded result.

        TCP cannot place data: a bulk result is received elsewhere and copied into `call.into` once. The memory of bulk
        arguments must not change until the call has ended. Raises TransportClosed: the connection has ended; TypeError,
        LocalProtocolError: `ready` was not called at a server, the XID is in use, or arguments cannot be encoded;
        MessageTooLong: the call exceeds `record_octets_max` (the future of a queued call gets that error later);
        GssFailure: the context of `call.protection` has ended; OutOfMemory: there is no memory for the call.
        """
        if self._end_error is not None:
            raise again(self._end_error)
        if not self._ready:
            raise LocalProtocolError("the client has not said that it is ready for calls (RFC 8167 section 6)")
        if call.xid in self._pending:
            raise LocalProtocolError(f"a call with XID {call.xid:#010x} is outstanding")
        encode = (call.encoder or self._encoder).encode if call.protection is None else call.protection.encode
        call.payload = encode(call.xid, call.procedure, call.args)
        call.over_tcp = self._called = True
        call.peer = self.name
        future = self._future(call)
        self._pending[call.xid] = call
        if self._in_flight == self._in_flight_max:
            self._queue.append(call)
        else:
            self._in_flight += 1
            try:
                self._transmit(call)
            except MessageTooLong:
                future.call = None
                self._leave(call)
                raise
        self.calls_taken.read_reply()
        return future

    def _transmit(self, call: Call) -> None:
        payload = call.payload
        assert payload is not None
        sent_ns = perf_counter_ns() if call.began_ns else 0
        self._stream.send(payload, call)
        call.transmissions += 1
        if sent_ns:
            call.sent_ns = sent_ns
            call.octets_sent += payload.length

    def give_up(self, call: Call) -> None:
        """Abandons an unanswered call; its memory is not accessed any more: a begun record is completed from a copy."""
        self._stream.withdraw(call)
        self._leave(call)

    def _leave(self, call: Call) -> None:
        """Removes an ended call of this side; sends calls that `in_flight_max` held up; a server begins held calls."""
        del self._pending[call.xid]
        call.payload = None
        if call in self._queue:
            self._queue.remove(call)
        else:
            self._in_flight -= 1
        while self._queue and self._in_flight != self._in_flight_max:
            following = self._queue.pop(0)
            self._in_flight += 1
            try:
                self._transmit(following)
            except MessageTooLong as error:
                following.future.fail(error)
                self._leave(following)
        if not self._active:
            self.calls_taken.go_on()

    def _on_reply(self, message: Buffer) -> None:
        """Ends the call that the reply `message` answers, by its result or error; ignores unexpected replies."""
        xid = peek_xid(message)
        call = None if xid is None else self._pending.get(xid)
        if call is None or call.payload is None:
            return
        octets = call.payload.length
        if self._stream.unsent_octets:
            # The server replied early: the caller may change the memory of the arguments from now on.
            self._stream.withdraw(call)
        if call.began_ns:
            call.ended_ns = perf_counter_ns()
            call.octets_received = len(message)
        decoder = ResultDecoder(message, 0, None, call.into) if call.into else ReplyDecoder(message)
        future: CallFuture = call.future
        try:
            if call.protection is None:
                value = decode_result(decoder, call.xid, call.procedure)
                if decoder.pos != decoder.end or (decoder.placed is not None and decoder.placed.padded):
                    tell_of_padding(call)
            else:
                value = call.protection.decode(decoder, call.xid, call.procedure, call.into)
        except Exception as error:  # noqa: BLE001 - the caller's, whose procedure decodes the result
            future.fail(with_probable_cause(error, octets))
        else:
            future.call = None
            future.set_result(value)
        self._leave(call)

    @property
    def busy(self) -> bool:
        """Whether calls of the peer are unanswered or octets wait to be sent; always true after `finish`."""
        return bool(self.calls_taken.outstanding or self._stream.unsent_octets or self._finishing)

    @property
    def octets_sent(self) -> int:
        """The octets of records that this side has sent, record headers included, encryption by TLS left out.

        Octets count when the kernel has taken them, in TLS when they are encrypted.
        """
        return self._stream.octets_sent

    @property
    def idle_since(self) -> float | None:
        """The loop time in seconds when a server's end became idle; None while `busy`, and at a client.

        Also None from the first `ready` on, for good: the server may call the client at any time.
        """
        return None if self.busy or self._ready else self._last_active_at

    @property
    def _last_active_at(self) -> float:
        return max(self._active_at, self.calls_taken.sent_at)

    def finish(self) -> None:
        """Ends the sending direction at once, and drops unsent octets and all that arrives from now on.

        The connection ends, and calls of this side fail, when the peer closes it; only `abort` bounds that time.
        """
        self._finishing = True
        self._stream.finish()

    async def close(self) -> None:
        """Ends the connection at once; calls in progress fail with `TransportClosed`."""
        self.abort("the connection was closed on this side")

    def abort(self, reason: str, *, protocol_error: bool = False) -> None:
        """Ends the connection at once; no effect on a connection that has ended.

        Calls get `TransportClosed` with `reason` and `protocol_error`: whether the peer has broken the protocol.
        """
        if not self._stream.closed:
            self._stream.close()
            self._lost(TransportClosed(reason, protocol_error=protocol_error))

    def _on_record(self, message: Buffer) -> None:
        self._active_at = self._loop.time()
        if self._called and not peek_is_call(message):
            self._on_reply(message)
        else:
            self.calls_taken.on_call(message)

    def on_time(self, now_s: float) -> None:
        super().on_time(now_s)
        if self._active and not self._pending:
            self._messages.clear()  # a client that is idle keeps no memory for replies

    def require(self, xprtsec: XprtSec) -> None:
        """Sets whether later calls in the clear are answered ("none") or refused; no effect on an end without `tls`."""
        if self._tls is not None:
            self._tls = self._tls._replace(least=xprtsec)

    def _on_clear_record(self, message: Buffer) -> None:
        """Begins TLS if `message` is a TLS probe (RFC 9289); takes or refuses any other message, by `ServerTls.least`.

        A probe that breaks the rules is denied. One in the midst of calls, or beyond the bound on unfinished handshakes
        (`ServerTls.may_begin`), ends the connection, and so does one that cannot be decoded. Where calls in the clear
        are refused, a message that is no call is ignored.
        """
        tls = self._tls
        assert tls is not None
        if is_probe(message):
            self._on_probe(message, tls)
        elif protects("none", tls.least):
            self._on_record(message)
        elif (reply := refuse_in_clear(message)) is not None:
            tls.on_refused(self)
            self._answer(reply)

    def _on_probe(self, message: Buffer, tls: ServerTls) -> None:
        try:
            answer = answer_probe(message, tls.dispatcher)
        except DecodeError as error:
            self.abort(f"it sent no call: {error}", protocol_error=True)
            return
        if not answer.begins:
            self._answer(answer.reply)
        elif self.calls_taken.outstanding or self._pending:
            self.abort("it asked for TLS in the midst of calls", protocol_error=True)
        elif tls.may_begin(self):
            assert isinstance(self._stream, TlsRecordStream)
            self._stream.start_tls(answer.reply, tls.settings.context(), tls.settings.names, self._secured)
        else:
            self.abort("too many TLS handshakes are unfinished")

    def _answer(self, reply: bytes) -> None:
        self._stream.send(Payload(reply))
        if self._stream.unsent_octets > RPC_UNSENT_REPLY_OCTETS_MAX:
            self.abort("it does not read its replies")

    def _protected(self, session: TlsSocket) -> None:
        self.xprtsec, self.host_identity = session.protection, session.identity
        self.origin = self.origin._replace(xprtsec=session.protection, identity=session.identity)

    def _secured(self, session: TlsSocket) -> None:
        assert self._tls is not None
        self._protected(session)
        self._stream.deliver_to(self._on_record)
        self._tls.on_secured(self, session)

    def _on_too_long(self, message: TooLong) -> None:
        error = MessageTooLong(message.octets, self._record_octets_max, self._setting, received=True)
        if message.is_call:
            self.calls_taken.on_too_long(message.xid, str(error))
        elif (call := self._pending.get(message.xid)) is not None:
            self._stream.withdraw(call)
            call.future.fail(error)
            self._leave(call)

    def _lost(self, error: TransportClosed) -> None:
        """Fails this side's calls with `error`, drops the peer's, calls `on_ended`; called after the stream's end."""
        self._idle.disarm()
        self.calls_taken.close()
        self._end_error = error
        pending = list(self._pending.values())
        self._pending.clear()
        self._queue.clear()
        for call in pending:
            call.payload = None
            call.future.fail(again(error))
        if self._end is not None and not self._end.done():
            self._end.set_result(None)
        if self._on_ended is not None:
            self._on_ended(self, str(error))

    def _check_idle(self) -> None:
        idle_s = self._idle_s
        assert idle_s is not None
        left_s = self._last_active_at + idle_s - self._loop.time()
        if self.calls_taken.running or self._ready:
            left_s = idle_s
        if left_s > 0:
            self._idle.due_s = self._loop.time() + left_s
        else:
            self.abort(f"idle for {idle_s:g} s")
